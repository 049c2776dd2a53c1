//! CSV files from which all figures can be recomputed.
//!
//! The fields of a row are the columns of its file. Times are in seconds of the log. The value -1
//! means that the event had not happened by the end of the run.

use std::io;

use embedder::Catalog;
use serde::Serialize;
use traces::Trace;

use crate::log::{JobRecord, NodeRecord, RunLog, TickRecord, WarmRecord};

/// Writes the jobs that count, by policy and submission.
pub(super) fn jobs<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    trace: &Trace,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = start::<JobRow>(to)?;
    for (policy, log) in logs {
        for job in &log.jobs {
            let &JobRecord {
                index,
                submit,
                ran,
                pods,
                pods_hidden,
                instances,
                interrupted,
                priority: _,
            } = job;
            let (start, end) = ran.unwrap_or((-1, -1));
            csv.serialize(JobRow {
                policy: &policy,
                job: trace.jobs.get(index).map_or("", |job| &job.name),
                submit,
                start,
                end,
                wait_s: job.wait_seconds(log.window.1),
                pods,
                pods_hidden,
                instances,
                interrupted_pods: interrupted.pods,
                lost_pod_s: interrupted.lost_pod_seconds,
            })?;
        }
    }
    csv.flush()
}

#[derive(Default, Serialize)]
struct JobRow<'a> {
    policy: &'a str,
    job: &'a str,
    submit: i64,
    start: i64,
    end: i64,
    /// The time from submission to start, or to the end of the window for a job that never started,
    /// without the time that it ran in vain.
    wait_s: i64,
    pods: u64,
    pods_hidden: u64,
    /// The number of nodes that the job's pods run on.
    instances: usize,
    interrupted_pods: u64,
    /// The time that lost pods had run.
    lost_pod_s: i64,
}

/// Writes the nodes that existed within the window or were requested later.
pub(super) fn nodes<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    catalog: &Catalog,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = start::<NodeRow>(to)?;
    for (policy, log) in logs {
        for node in &log.nodes {
            let &NodeRecord {
                id,
                bucket,
                group,
                requested,
                ready,
                gone,
                busy_seconds,
                used,
                waited_for,
                interrupted,
            } = node;
            let bucket = &catalog.buckets()[bucket];
            csv.serialize(NodeRow {
                policy: &policy,
                node: id,
                bucket: &bucket.name,
                group: &bucket.groups[group].name,
                requested,
                ready: ready.unwrap_or(-1),
                gone: gone.unwrap_or(-1),
                busy_s: busy_seconds,
                used,
                waited_for,
                interrupted,
            })?;
        }
    }
    csv.flush()
}

#[derive(Default, Serialize)]
struct NodeRow<'a> {
    policy: &'a str,
    node: usize,
    bucket: &'a str,
    group: &'a str,
    requested: i64,
    ready: i64,
    gone: i64,
    /// The number of seconds within the window in which real pods ran on the node.
    busy_s: i64,
    used: bool,
    waited_for: bool,
    interrupted: bool,
}

/// Writes the instances of warm pools that existed within the window or were requested later. An
/// instance that is started as a node is a row of the nodes, too, from then on.
pub(super) fn warm<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    catalog: &Catalog,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = start::<WarmRow>(to)?;
    for (policy, log) in logs {
        for &WarmRecord { bucket, group, requested, stopped, gone } in &log.warm {
            let bucket = &catalog.buckets()[bucket];
            csv.serialize(WarmRow {
                policy: &policy,
                bucket: &bucket.name,
                group: &bucket.groups[group].name,
                requested,
                stopped: stopped.unwrap_or(-1),
                gone: gone.unwrap_or(-1),
            })?;
        }
    }
    csv.flush()
}

#[derive(Default, Serialize)]
struct WarmRow<'a> {
    policy: &'a str,
    bucket: &'a str,
    group: &'a str,
    requested: i64,
    stopped: i64,
    gone: i64,
}

/// Writes every bucket at every tick of the window.
pub(super) fn ticks<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    catalog: &Catalog,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = start::<TickRow>(to)?;
    for (policy, log) in logs {
        for &TickRecord { time, bucket, demand, headroom, placeholders, ready, launching } in
            &log.ticks
        {
            csv.serialize(TickRow {
                policy: &policy,
                tick: time,
                bucket: &catalog.buckets()[bucket].name,
                demand,
                headroom,
                placeholders,
                ready,
                launching,
            })?;
        }
    }
    csv.flush()
}

#[derive(Default, Serialize)]
struct TickRow<'a> {
    policy: &'a str,
    tick: i64,
    bucket: &'a str,
    demand: u64,
    /// The headroom that the policy's objective requires, before limits.
    headroom: u64,
    placeholders: u64,
    ready: u64,
    launching: u64,
}

/// A writer of rows that has written their header. The `csv` crate writes a header with the first
/// row, so a file without rows would have none.
fn start<R: Default + Serialize>(
    to: &mut dyn io::Write,
) -> io::Result<csv::Writer<&mut dyn io::Write>> {
    let mut example = csv::Writer::from_writer(Vec::new());
    example.serialize(R::default())?;
    let example = example.into_inner().map_err(csv::IntoInnerError::into_error)?;
    let header = example.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    to.write_all(header)?;
    Ok(csv::WriterBuilder::new().has_headers(false).from_writer(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_rows_has_a_header() {
        let catalog = testkit::catalog([("a", 8_000, 1.0)]);
        let mut file = Vec::new();
        ticks(std::iter::empty(), &catalog, &mut file).unwrap();
        let header = "policy,tick,bucket,demand,headroom,placeholders,ready,launching\n";
        assert_eq!(String::from_utf8(file).unwrap(), header);
    }
}
