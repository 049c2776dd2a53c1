//! CSV files from which all figures can be recomputed.
//!
//! Times are in seconds of the log. The value -1 means that the event had not happened by the end
//! of the run.

use std::io;

use embedder::Catalog;
use traces::Trace;

use crate::log::{JobRecord, NodeRecord, RunLog, TickRecord};

/// Writes the jobs that count, by policy and submission.
///
/// The column `wait_s` is the time from submission to start, or to the end of the window for a job
/// that never started, without the time that it ran in vain. The column `instances` is the number
/// of nodes that the job's pods run on. The column `lost_pod_s` is the time that lost pods had run.
pub(super) fn jobs<'a>(
    logs: impl Iterator<Item = (String, &'a RunLog)>,
    trace: &Trace,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(to);
    csv.write_record([
        "policy",
        "job",
        "submit",
        "start",
        "end",
        "wait_s",
        "pods",
        "pods_hidden",
        "instances",
        "interrupted_pods",
        "lost_pod_s",
    ])?;
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
            let name = trace.jobs.get(index).map_or("", |job| &job.name);
            let (start, end) = ran.unwrap_or((-1, -1));
            let times = [submit, start, end, job.wait_seconds(log.window.1)];
            let counts = [
                pods.to_string(),
                pods_hidden.to_string(),
                instances.to_string(),
                interrupted.pods.to_string(),
                interrupted.lost_pod_seconds.to_string(),
            ];
            let texts = times.map(|n| n.to_string()).into_iter().chain(counts);
            csv.write_record([policy.clone(), name.into()].into_iter().chain(texts))?;
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
        "used",
        "waited_for",
        "interrupted",
    ])?;
    for (policy, log) in logs {
        for node in &log.nodes {
            let &NodeRecord { id, bucket, group, requested, ready, gone, .. } = node;
            let &NodeRecord { busy_seconds, used, waited_for, interrupted, .. } = node;
            let bucket = &catalog.buckets()[bucket];
            let numbers = [requested, ready.unwrap_or(-1), gone.unwrap_or(-1), busy_seconds]
                .map(|n| n.to_string());
            let [requested, ready, gone, busy] = &numbers;
            let (id, used, waited_for) = (id.to_string(), used.to_string(), waited_for.to_string());
            let interrupted = interrupted.to_string();
            csv.write_record([
                &policy,
                &id,
                &bucket.name,
                &bucket.groups[group].name,
                requested,
                ready,
                gone,
                busy,
                &used,
                &waited_for,
                &interrupted,
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
