//! What a run leaves behind: jobs, nodes and ticks, from which all figures are computed.

/// How many days of a window have begun at its end; of one that ends in no foreseeable time, those of a thousand years.
pub(super) fn days((from, until): (i64, i64)) -> usize {
    let days = until.saturating_sub(from).max(0).unsigned_abs().div_ceil(DAY_SECONDS.unsigned_abs());
    usize::try_from(days).map_or(DAYS_MAX, |days| days.min(DAYS_MAX))
}

const DAYS_MAX: usize = 365_000;

/// How many of the seconds from `since` to `now` are within a window.
pub(super) fn within((from, until): (i64, i64), since: i64, now: i64) -> i64 {
    (now.min(until) - since.max(from)).max(0)
}

/// Adds those seconds, by day of the window.
pub(super) fn add_by_day(days: &mut [i64], (from, until): (i64, i64), since: i64, now: i64) {
    let (mut at, end) = (since.max(from), now.min(until));
    while at < end {
        let day = (at - from) / DAY_SECONDS;
        let Some(seconds) = usize::try_from(day).ok().and_then(|day| days.get_mut(day)) else { return };
        let next = end.min(from + (day + 1) * DAY_SECONDS);
        *seconds += next - at;
        at = next;
    }
}

/// Seconds of a day. A day of a window begins where the window does.
pub(crate) const DAY_SECONDS: i64 = 86_400;

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
    /// Seconds in which pods ran on nodes, by day of the window.
    pub busy_by_day: Vec<i64>,
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
