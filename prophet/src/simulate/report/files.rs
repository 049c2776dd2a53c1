//! CSV files from which all figures can be recomputed.
//!
//! Times are in seconds of the log. The value -1 means that the event had not happened by the end
//! of the run.

use std::io;

use embedder::Catalog;

use crate::simulate::log::{JobRecord, NodeRecord, RunLog, TickRecord};
use crate::trace::Trace;

/// Writes the jobs that count, by policy and submission.
///
/// The column `instances` is the number of nodes that the job's pods run on.
pub(super) fn jobs<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    trace: &Trace,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(to);
    csv.write_record(["policy", "job", "submit", "start", "end", "wait_s", "pods", "instances"])?;
    for (policy, log) in logs {
        for &JobRecord { index, submit, start, end, pods, instances } in &log.jobs {
            let name = trace.jobs.get(index).map_or("", |job| &job.name);
            let numbers = [submit, start, end, start - submit].map(|n| n.to_string());
            let [submit, start, end, wait] = &numbers;
            let counts = [pods.to_string(), instances.to_string()];
            let [pods, instances] = &counts;
            csv.write_record([&policy, name, submit, start, end, wait, pods, instances])?;
        }
    }
    csv.flush()
}

/// Writes the nodes that existed within the window.
///
/// The column `busy_s` is the number of seconds within the window in which real pods ran on the
/// node.
pub(super) fn nodes<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    catalog: &Catalog,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(to);
    csv.write_record([
        "policy",
        "node",
        "bucket",
        "group",
        "requested",
        "ready",
        "gone",
        "busy_s",
        "waited_for",
    ])?;
    for (policy, log) in logs {
        for node in &log.nodes {
            let &NodeRecord { id, bucket, group, requested, ready, gone, busy_seconds, waited_for } =
                node;
            let bucket = &catalog.buckets()[bucket];
            let numbers = [requested, ready.unwrap_or(-1), gone.unwrap_or(-1), busy_seconds]
                .map(|n| n.to_string());
            let [requested, ready, gone, busy] = &numbers;
            let (id, waited) = (id.to_string(), if waited_for { "true" } else { "false" });
            csv.write_record([
                &policy,
                &id,
                &bucket.name,
                &bucket.groups[group].name,
                requested,
                ready,
                gone,
                busy,
                waited,
            ])?;
        }
    }
    csv.flush()
}

/// Writes every bucket at every tick of the window.
///
/// The column `headroom` is the headroom that the policy's objective requires, before limits.
pub(super) fn ticks<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    catalog: &Catalog,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(to);
    csv.write_record([
        "policy",
        "tick",
        "bucket",
        "demand",
        "headroom",
        "placeholders",
        "ready",
        "launching",
    ])?;
    for (policy, log) in logs {
        for &TickRecord { time, bucket, demand, headroom, placeholders, ready, launching } in
            &log.ticks
        {
            let numbers = [demand, headroom, placeholders, ready, launching].map(|n| n.to_string());
            let [demand, headroom, placeholders, ready, launching] = &numbers;
            let bucket = &catalog.buckets()[bucket].name;
            csv.write_record([
                &policy,
                &time.to_string(),
                bucket,
                demand,
                headroom,
                placeholders,
                ready,
                launching,
            ])?;
        }
    }
    csv.flush()
}
