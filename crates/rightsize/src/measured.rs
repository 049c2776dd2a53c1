//! Usage that a history recorded, as rows in the order of time.
//!
//! The history has what a pod used in total. The request of a pod does not change while it runs, so
//! each five minutes of the run have the whole histogram of CPU and the peak of memory. Pods of one
//! owner with different requests, such as those of a leader and of workers, are separate
//! containers.

use std::collections::{BTreeMap, BTreeSet};

use embedder::Resources;
use traces::UsageNotes;
use usage::{ContainerKey, ContainerRequest, MeasuredRun, RequestOf, SAMPLE_SECONDS, UsageRow};

use super::owners::recurring;

/// The longest run that is read, in seconds: a year. A longer one is an error in the history, which
/// keeps 180 days by default.
const RUN_SECONDS_MAX: i64 = 366 * 86_400;

/// Hands the rows of runs to `take`, in the order of time. Pods that were measured in less than
/// half of the minutes of their run are left out, because their peaks may be missing.
///
/// # Errors
/// The first error of `take`.
pub fn usage_rows<E>(
    runs: &[&MeasuredRun],
    take: &mut dyn FnMut(UsageRow) -> Result<(), E>,
) -> Result<UsageNotes, E> {
    let (mut waiting, sparse): (Vec<&MeasuredRun>, Vec<_>) =
        runs.iter().partition(|run| is_known(run));
    let hardly_measured = sparse.iter().fold(0, |sum: u64, run| sum.saturating_add(run.pods));
    let mut notes = UsageNotes { hardly_measured, ..UsageNotes::default() };
    let mut requests: BTreeMap<&str, BTreeSet<ContainerRequest>> = BTreeMap::new();
    for run in &waiting {
        let request = ContainerRequest::of(run.unit);
        requests.entry(recurring(&run.name)).or_default().insert(request);
    }
    let differ =
        |run: &MeasuredRun| requests.get(recurring(&run.name)).is_some_and(|all| all.len() > 1);
    waiting.sort_by_key(|run| std::cmp::Reverse(run.started));
    let mut running: Vec<(usize, &MeasuredRun, UsageRow)> = Vec::new();
    let (mut number, mut ids) = (i64::MIN, 0..);
    loop {
        if running.is_empty() {
            let Some(next) = waiting.last() else { return Ok(notes) };
            number = number.max(sample(next.started));
        }
        while let Some(run) = waiting.pop_if(|run| sample(run.started) <= number) {
            running.extend(ids.next().map(|id| (id, run, row(run, differ(run)))));
        }
        for (id, run, row) in &running {
            for pod in 0..run.pods {
                let pod = format!("{id}/{pod}").into();
                take(UsageRow { time: number * SAMPLE_SECONDS, pod, ..row.clone() })?;
                notes.rows += 1;
            }
        }
        number += 1;
        running.retain(|(_, run, _)| number <= sample(run.last_second()));
    }
}

fn is_known(run: &MeasuredRun) -> bool {
    let seconds = run.ended.saturating_sub(run.started);
    let minutes = seconds.unsigned_abs() / 60;
    seconds <= RUN_SECONDS_MAX && run.usage.measurements().saturating_mul(2) >= minutes
}

/// The number of the five minutes that a second is in.
fn sample(second: i64) -> i64 {
    second.div_euclid(SAMPLE_SECONDS)
}

/// The usage of one pod in any five minutes of its run, without time and pod. The container has the
/// request as its name if the pods of the owner differ in it.
fn row(run: &MeasuredRun, requests_differ: bool) -> UsageRow {
    let samples = (sample(run.last_second()) - sample(run.started) + 1) as f64;
    let cpu = run.usage.cpu_millis.iter();
    let Resources { cpu_millis, memory_bytes, .. } = run.unit;
    let memory = || match (memory_bytes >> 20, memory_bytes % (1 << 20)) {
        (mib, 0) => format!("{mib}Mi"),
        _ => memory_bytes.to_string(),
    };
    let named = || format!("{cpu_millis}m,{}", memory());
    UsageRow {
        time: 0,
        key: ContainerKey {
            owner: recurring(&run.name).into(),
            container: if requests_differ { named() } else { String::new() }.into(),
        },
        pod: "".into(),
        cpu: cpu.map(|(millis, count)| (*millis, *count as f64 / samples)).collect(),
        memory_bytes: Some(run.usage.memory_bytes),
        request: ContainerRequest::of(run.unit),
        request_of: RequestOf::PodsWithThisRequest,
        class: None,
        oom_tolerance: None,
    }
}

#[cfg(test)]
mod tests {
    use usage::PodUsage;

    use super::*;

    fn run(name: &str, pods: u64, started: i64, ended: i64, measurements: u64) -> MeasuredRun {
        let cpu_millis = vec![(500, measurements)];
        let usage = PodUsage { cpu_millis, memory_bytes: 9, ..PodUsage::default() };
        let unit = Resources { cpu_millis: 2_000, ..Resources::default() };
        let submitted = started;
        MeasuredRun { name: name.into(), pods, unit, submitted, started, ended, usage }
    }

    /// The rows as (time, container, number of measurements), and the pods that are left out.
    fn rows(runs: &[MeasuredRun]) -> (Vec<(i64, String, f64)>, u64) {
        let mut rows = Vec::new();
        let mut take = |row: UsageRow| {
            assert_eq!((row.cpu[0].0, row.memory_bytes), (500, Some(9)));
            rows.push((row.time, row.key.to_string(), row.cpu[0].1));
            Ok::<(), ()>(())
        };
        let notes = usage_rows(&runs.iter().collect::<Vec<_>>(), &mut take).unwrap();
        assert_eq!(notes.rows, rows.len() as u64);
        (rows, notes.hardly_measured)
    }

    /// The second run begins within the first, and the third an hour later.
    #[test]
    fn the_runs_of_pods_overlap_in_the_order_of_time() {
        let runs = [
            run("ns/b-2", 2, 3_900, 3_960, 1),
            run("ns/a-7", 1, 10, 900, 12),
            run("ns/b-1", 1, 400, 600, 3),
        ];
        let (found, left_out) = rows(&runs);
        let row = |time, owner: &str, count| (time, owner.to_owned(), count);
        let expected = [
            row(0, "ns/a", 4.0),
            row(300, "ns/a", 4.0),
            row(300, "ns/b", 3.0),
            row(600, "ns/a", 4.0),
            row(3_900, "ns/b", 1.0),
            row(3_900, "ns/b", 1.0),
        ];
        assert_eq!((found, left_out), (expected.to_vec(), 0));
    }

    #[test]
    fn pods_that_were_hardly_measured_are_left_out() {
        let (found, left_out) = rows(&[run("a", 3, 0, 3_600, 29), run("b", 1, 0, 3_600, 30)]);
        assert_eq!((found.len(), left_out), (12, 3));
    }

    /// A run of seven thousand years would have more samples than could be read.
    #[test]
    fn a_run_of_years_is_left_out() {
        assert_eq!(rows(&[run("a", 1, 0, 220_000_000_000, u64::MAX)]), (vec![], 1));
    }

    #[test]
    fn pods_of_one_owner_with_different_requests_are_separate_containers() {
        let head = run("ray", 1, 0, 60, 1);
        let unit = Resources { cpu_millis: 8_000, memory_bytes: 3 << 20, ..head.unit };
        let worker = MeasuredRun { unit, ..head.clone() };
        // A few bytes less are another request.
        let unit = Resources { memory_bytes: (3 << 20) - 7, ..unit };
        let other = MeasuredRun { unit, ..head.clone() };
        let found = rows(&[head, worker, other]).0;
        let mut names: Vec<String> = found.into_iter().map(|(_, name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["ray/2000m,0Mi", "ray/8000m,3145721", "ray/8000m,3Mi"]);
    }
}
