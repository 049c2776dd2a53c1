//! The record of a run: jobs, nodes and ticks, from which all figures are computed.

use base::days::within;

use super::spot::Interrupted;

/// The record of a run, limited to the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLog {
    /// The window `[from, until)`, in seconds.
    pub window: (i64, i64),
    /// The jobs that count, ordered by submission.
    pub jobs: Vec<JobRecord>,
    /// The nodes that existed within the window or were requested later.
    pub nodes: Vec<NodeRecord>,
    /// The instances of warm pools that existed within the window or were requested later.
    pub warm: Vec<WarmRecord>,
    /// The ticks within the window; empty unless they are kept.
    pub ticks: Vec<TickRecord>,
    /// The seconds in which pods ran on a node, summed over the nodes of a bucket: by bucket, then
    /// by day of the window. Empty for a bucket without any.
    pub busy_by_day: Vec<Vec<i64>>,
    /// How many times a number of placeholders was written within the window.
    pub placeholder_writes: u64,
}

/// A job that counts: one that was submitted within the window. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Its index among the jobs of the trace.
    pub index: usize,
    /// When it was submitted.
    pub submit: i64,
    /// When its last pod started for the last time, and when it ends; `None` if some of its pods
    /// never started, or not again after they were lost.
    pub ran: Option<(i64, i64)>,
    /// The number of its pods.
    pub pods: u64,
    /// The number of its pods that waited no longer than one scan of the autoscaler.
    pub pods_hidden: u64,
    /// The number of nodes that its pods run on; 0 if some of its pods never started.
    pub instances: usize,
    /// The priority of its pods: pending pods with a higher one start first.
    pub priority: i32,
    /// What interruptions of spot instances did to it.
    pub interrupted: Interrupted,
}

impl JobRecord {
    /// How long it waited, in seconds, from its submission and after each interruption. A job that
    /// never started waits until `until`, the end of the window. A job that was lost after the
    /// window has not waited within it.
    pub fn wait_seconds(&self, until: i64) -> i64 {
        let start = self.ran.map_or(until, |(start, _)| start);
        start.saturating_sub(self.submit).saturating_sub(self.interrupted.lost_seconds).max(0)
    }
}

/// A node that existed within the window or was requested later. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its id, unique within the run.
    pub id: usize,
    /// The index of its bucket in the catalog.
    pub bucket: usize,
    /// The index of its group in the bucket.
    pub group: usize,
    /// When it was requested.
    pub requested: i64,
    /// When it became ready; `None` if it did not.
    pub ready: Option<i64>,
    /// When it was removed; `None` if it still existed at the end.
    pub gone: Option<i64>,
    /// The seconds within the window in which real pods ran on it.
    pub busy_seconds: i64,
    /// Whether a real pod ever ran on it.
    pub used: bool,
    /// Whether a real pod waited for it.
    pub waited_for: bool,
    /// Whether it was taken away by an interruption within the run.
    pub interrupted: bool,
}

/// An instance of a warm pool. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmRecord {
    /// The index of its bucket in the catalog.
    pub bucket: usize,
    /// The index of its group in the bucket.
    pub group: usize,
    /// When it was requested.
    pub requested: i64,
    /// When it was ready and was stopped; `None` if it was not.
    pub stopped: Option<i64>,
    /// When it was started as a node or terminated; `None` if it was neither by the end.
    pub gone: Option<i64>,
}

impl WarmRecord {
    /// The seconds within a window `[from, until)` in which it was prepared, and in which it was
    /// stopped. It runs while it is prepared.
    pub fn seconds(&self, (from, until): (i64, i64)) -> (i64, i64) {
        let gone = self.gone.unwrap_or(until);
        let stopped = self.stopped.unwrap_or(gone);
        let of = |since, end| within((from, until), since, end);
        (of(self.requested, stopped), of(stopped, gone))
    }
}

/// The state of a bucket at a tick. Counts are in nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickRecord {
    /// The time of the tick, in seconds.
    pub time: i64,
    /// The index of the bucket in the catalog.
    pub bucket: usize,
    /// Present demand.
    pub demand: u64,
    /// The headroom that the policy's objective requires, before limits.
    pub headroom: u64,
    /// The standing and pending placeholders.
    pub placeholders: u64,
    /// The ready nodes.
    pub ready: u64,
    /// The launching nodes.
    pub launching: u64,
}
