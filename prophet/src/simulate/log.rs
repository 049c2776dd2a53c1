//! What a run leaves behind: jobs, nodes and ticks, from which all figures are computed.

/// What happened in a run, for all that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLog {
    /// The window, in seconds.
    pub window: (i64, i64),
    /// By submission.
    pub jobs: Vec<JobRecord>,
    /// Nodes that were there within the window.
    pub nodes: Vec<NodeRecord>,
    /// Ticks within the window, where they are kept.
    pub ticks: Vec<TickRecord>,
    /// How often a number of placeholders was written within the window.
    pub placeholder_writes: u64,
    /// Jobs that count and had not started when the run was over.
    pub unfinished: u64,
}

/// A job that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// Its place in the log's jobs.
    pub index: usize,
    /// When it was submitted.
    pub submit: i64,
    /// When it started.
    pub start: i64,
    /// When it ends.
    pub end: i64,
    /// How many pods it is.
    pub pods: u64,
    /// On how many nodes.
    pub instances: usize,
}

/// A node that was there within the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its number in the run.
    pub id: usize,
    /// Its bucket, by place in the catalog.
    pub bucket: usize,
    /// Its group, by place in the bucket.
    pub group: usize,
    /// When it was requested.
    pub requested: i64,
    /// When it became ready, `None` if it did not.
    pub ready: Option<i64>,
    /// When it went, `None` if it was still there.
    pub gone: Option<i64>,
    /// Seconds within the window in which pods ran on it.
    pub busy_seconds: i64,
    /// Whether a pod waited for it.
    pub waited_for: bool,
}

/// A bucket at a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickRecord {
    /// When.
    pub time: i64,
    /// Its bucket, by place in the catalog.
    pub bucket: usize,
    /// Present demand.
    pub demand: u64,
    /// The quantile asked for, before limits.
    pub headroom: u64,
    /// Placeholders that stand or wait.
    pub placeholders: u64,
    /// Nodes that are ready.
    pub ready: u64,
    /// Nodes that are launching.
    pub launching: u64,
}
