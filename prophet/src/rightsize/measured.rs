//! Usage that a history recorded, as rows in the order of time.
//!
//! The history has what a pod used in total. The request of a pod does not change while it runs, so
//! each five minutes of the run have the whole histogram of CPU and the peak of memory.

use super::owners::recurring;
use crate::simulate::MeasuredRun;
use crate::usage::{ContainerKey, ContainerRequest, SAMPLE_SECONDS, UsageRow};

/// Hands the rows of `runs` to `take`, in the order of time. Returns the number of rows, and the
/// number of pods that are left out, because they were measured in less than half of the minutes of
/// their run: their peaks may be missing.
///
/// # Errors
/// The first error of `take`.
pub fn usage_rows<E>(
    runs: &[MeasuredRun],
    take: &mut dyn FnMut(UsageRow) -> Result<(), E>,
) -> Result<(u64, u64), E> {
    let (known, sparse): (Vec<_>, Vec<_>) = runs.iter().partition(|run| is_known(run));
    let left_out = sparse.iter().fold(0, |sum: u64, run| sum.saturating_add(run.pods));
    let mut waiting = known;
    waiting.sort_by_key(|run| std::cmp::Reverse(run.started));
    let (mut running, mut rows): (Vec<(usize, &MeasuredRun)>, u64) = (Vec::new(), 0);
    let (mut number, mut ids) = (i64::MIN, 0..);
    loop {
        if running.is_empty() {
            let Some(next) = waiting.last() else { return Ok((rows, left_out)) };
            number = number.max(sample(next.started));
        }
        while let Some(run) = waiting.pop_if(|run| sample(run.started) <= number) {
            running.extend(ids.next().map(|id| (id, run)));
        }
        for (id, run) in &running {
            for pod in 0..run.pods {
                take(row(run, number, format!("{id}/{pod}").into()))?;
                rows += 1;
            }
        }
        number += 1;
        running.retain(|(_, run)| number <= sample(run.last_second()));
    }
}

fn is_known(run: &MeasuredRun) -> bool {
    let minutes = (run.ended - run.started).unsigned_abs() / 60;
    run.usage.measurements().saturating_mul(2) >= minutes
}

/// The number of the five minutes that a second is in.
fn sample(second: i64) -> i64 {
    second.div_euclid(SAMPLE_SECONDS)
}

/// The usage of one pod in five minutes of its run.
fn row(run: &MeasuredRun, number: i64, pod: Box<str>) -> UsageRow {
    let samples = (sample(run.last_second()) - sample(run.started) + 1) as f64;
    let cpu = run.usage.cpu_millis.iter();
    UsageRow {
        time: number * SAMPLE_SECONDS,
        key: ContainerKey { owner: recurring(&run.name).into(), container: "".into() },
        pod,
        cpu: cpu.map(|(millis, count)| (*millis, *count as f64 / samples)).collect(),
        memory_bytes: Some(run.usage.memory_bytes),
        request: ContainerRequest::default(),
        class: None,
        oom_tolerance: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::PodUsage;

    fn run(name: &str, pods: u64, started: i64, ended: i64, measurements: u64) -> MeasuredRun {
        let usage = PodUsage { cpu_millis: vec![(500, measurements)], memory_bytes: 9 };
        MeasuredRun { name: name.into(), pods, started, ended, usage }
    }

    /// The rows as (time, owner, number of measurements), and the pods that are left out.
    fn rows(runs: &[MeasuredRun]) -> (Vec<(i64, String, f64)>, u64) {
        let mut rows = Vec::new();
        let mut take = |row: UsageRow| {
            assert_eq!((row.cpu[0].0, row.memory_bytes), (500, Some(9)));
            rows.push((row.time, row.key.owner.to_string(), row.cpu[0].1));
            Ok::<(), ()>(())
        };
        let (count, left_out) = usage_rows(runs, &mut take).unwrap();
        assert_eq!(count, rows.len() as u64);
        (rows, left_out)
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
}
