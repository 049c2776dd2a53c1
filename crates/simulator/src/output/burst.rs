//! The worst burst: the hour around the moment at which the most jobs wait under `reactive`.

use std::fmt::Write as _;

use embedder::Catalog;
use report::{Axis, Layer, Mark, Names, Plot, clock, day, escape, section};

use super::shown::{lines, shown};
use crate::compare::Comparison;
use crate::log::{JobRecord, RunLog, TickRecord};

/// The time before and after the moment that a picture shows, in seconds: an hour together. More of
/// it lies after the moment, because jobs come faster than they start.
const BEFORE: i64 = 1_200;
const AFTER: i64 = 2_400;

/// The worst burst of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Burst {
    /// The shown time, in seconds.
    pub(super) window: (i64, i64),
    /// The largest number of jobs that wait at the same time.
    waiting: u64,
}

impl Burst {
    /// Returns the worst burst of the first replay, or `None` when no job waited.
    pub(super) fn of(comparison: &Comparison) -> Option<Self> {
        let log = comparison.policies.first()?.logs.first()?;
        let counts = waiting(log);
        let &(at, waiting) = counts.iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(&a.0)))?;
        let window = (log.window.0.max(at - BEFORE), log.window.1.min(at + AFTER));
        (waiting > 0).then_some(Self { window, waiting })
    }

    fn contains(&self, time: i64) -> bool {
        (self.window.0..=self.window.1).contains(&time)
    }
}

/// Appends the section of the worst burst: the jobs that wait under each policy, and the nodes of
/// one instance type under the shown policy.
pub(super) fn write_burst(body: &mut String, comparison: &Comparison, catalog: &Catalog) {
    let Some(burst) = Burst::of(comparison) else { return };
    let (from, until) = burst.window;
    let title = format!("The worst burst: {}, {} to {}", day(from), clock(from), clock(until));
    let note = format!(
        "The hour in which the most jobs waited under reactive: {} at the same time. The lines are the jobs that wait under each policy at each moment.",
        burst.waiting
    );
    let jobs = Plot {
        y_label: "jobs waiting".into(),
        names: Names::AtLines,
        height: 340.0,
        ..of_hour(lines(comparison, |policy| {
            Mark::Steps(policy.logs.first().map(|log| burst.waits(log)).unwrap_or_default())
        }))
    };
    let mut content = jobs.figure("The jobs that wait under each policy in the hour of the burst");
    let shown = shown(comparison).and_then(|policy| Some((policy, policy.logs.first()?)));
    if let Some(((policy, log), bucket)) = shown.zip(burst.bucket(comparison)) {
        let entry = &catalog.buckets()[bucket];
        let _ = write!(
            content,
            "<h3>{} under {}</h3><p>Demand is the number of nodes that jobs occupy or wait for. The band on top of it is the number of placeholders: nodes that are held for the next jobs.</p>",
            escape(&entry.name),
            escape(&policy.name())
        );
        content += &burst.nodes(log, bucket);
    }
    section(body, &title, &note, &content);
}

impl Burst {
    /// Returns the number of waiting jobs over the hour.
    fn waits(&self, log: &RunLog) -> Vec<(f64, f64)> {
        let counts = waiting(log);
        let before = counts.iter().take_while(|(time, _)| *time <= self.window.0).last();
        let start = (self.window.0, before.map_or(0, |(_, count)| *count));
        let within =
            counts.iter().filter(|(time, _)| *time > self.window.0 && self.contains(*time));
        let mut points: Vec<(i64, u64)> = std::iter::once(start).chain(within.copied()).collect();
        points.extend(points.last().map(|(_, count)| (self.window.1, *count)));
        points.into_iter().map(|(time, count)| (time as f64, count as f64)).collect()
    }

    /// Returns the instance type of which the most nodes launch in the hour under `reactive`.
    fn bucket(&self, comparison: &Comparison) -> Option<usize> {
        let log = comparison.policies.first()?.logs.first()?;
        let launching = |bucket: usize| {
            let ticks = log.ticks.iter().filter(|tick| tick.bucket == bucket);
            ticks.filter(|tick| self.contains(tick.time)).map(|tick| tick.launching).sum::<u64>()
        };
        let buckets = log.ticks.iter().map(|tick| tick.bucket).max()?;
        (0..=buckets).max_by_key(|bucket| (launching(*bucket), std::cmp::Reverse(*bucket)))
    }

    fn nodes(&self, log: &RunLog, bucket: usize) -> String {
        let ticks =
            log.ticks.iter().filter(|tick| tick.bucket == bucket && self.contains(tick.time));
        let ticks: Vec<&TickRecord> = ticks.collect();
        let plot =
            Plot { y_label: "nodes".into(), y_from_zero: false, ..of_hour(node_layers(&ticks)) };
        plot.figure("Demand, placeholders and ready nodes in the hour of the burst")
    }
}

/// Returns a plot over an hour.
fn of_hour(layers: Vec<Layer>) -> Plot {
    Plot {
        x_label: "time of the day".into(),
        y_label: String::new(),
        x: Axis::Time,
        y_from_zero: true,
        x_end: None,
        names: Names::Legend,
        height: 280.0,
        layers,
    }
}

/// Returns demand, the placeholders on top of it, and the ready nodes.
pub(super) fn node_layers(ticks: &[&TickRecord]) -> Vec<Layer> {
    let steps = |count: fn(&TickRecord) -> u64| {
        Mark::Steps(ticks.iter().map(|tick| (tick.time as f64, count(tick) as f64)).collect())
    };
    let band = ticks.iter().map(|tick| {
        let demand = tick.demand as f64;
        (tick.time as f64, demand, demand + tick.placeholders as f64)
    });
    vec![
        Layer::new("placeholders on top of demand", "c0 faint", Mark::Band(band.collect())),
        Layer::new("nodes ready", "c3", steps(|tick| tick.ready)),
        Layer::new("demand", "c4", steps(|tick| tick.demand)),
    ]
}

/// Returns the number of waiting jobs from each time on at which it changes.
fn waiting(log: &RunLog) -> Vec<(i64, u64)> {
    let start = |job: &JobRecord| job.submit + job.wait_seconds(log.window.1);
    let waited = log.jobs.iter().filter(|job| start(job) > job.submit);
    let mut changes: Vec<(i64, i64)> =
        waited.flat_map(|job| [(job.submit, 1), (start(job), -1)]).collect();
    changes.sort_unstable();
    let mut counts: Vec<(i64, u64)> = Vec::new();
    let mut count = 0_i64;
    for (time, change) in changes {
        count += change;
        let now = (time, u64::try_from(count).unwrap_or(0));
        match counts.last_mut() {
            Some(last) if last.0 == time => *last = now,
            _ => counts.push(now),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spot::Interrupted;

    fn log(jobs: &[(i64, i64)]) -> RunLog {
        let job = |&(submit, start): &(i64, i64)| JobRecord {
            index: 0,
            submit,
            ran: Some((start, start + 60)),
            pods: 1,
            pods_hidden: 0,
            priority: 0,
            instances: 1,
            interrupted: Interrupted::default(),
        };
        RunLog { window: (0, 86_400), jobs: jobs.iter().map(job).collect(), ..RunLog::default() }
    }

    #[test]
    fn waiting_jobs_are_counted_from_submission_to_start() {
        // The second job starts at once, and the third is submitted when the first starts.
        let counts = waiting(&log(&[(100, 400), (200, 200), (400, 500), (450, 500)]));
        assert_eq!(counts, [(100, 1), (400, 1), (450, 2), (500, 0)]);
    }

    #[test]
    fn the_hour_begins_with_the_jobs_that_wait_already() {
        let burst = Burst { window: (1_000, 4_600), waiting: 2 };
        let waits = burst.waits(&log(&[(900, 1_200), (950, 5_000)]));
        assert_eq!(waits, [(1_000.0, 2.0), (1_200.0, 1.0), (4_600.0, 1.0)]);
        assert_eq!(burst.waits(&log(&[])), [(1_000.0, 0.0), (4_600.0, 0.0)]);
    }
}
