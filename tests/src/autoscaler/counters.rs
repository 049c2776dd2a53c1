//! A record of the autoscaler's actions, for assertions of tests.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// A scale-up of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleUp {
    /// The group.
    pub group: String,
    /// The number of new nodes.
    pub by: usize,
    /// The time of the scale-up.
    pub at: Instant,
}

/// The removal of a node, or of an instance that never became a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The group.
    pub group: String,
    /// The ID of the instance, which is also the name of its node.
    pub instance: String,
    /// The time of the removal.
    pub at: Instant,
}

/// All actions of the autoscaler so far.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// The number of completed scans.
    pub scans: u64,
    /// All scale-ups, in order.
    pub scale_ups: Vec<ScaleUp>,
    /// The removed nodes, which no pod needed.
    pub removed: Vec<Removal>,
    /// The instances that were terminated because they did not become nodes in time.
    pub given_up: Vec<Removal>,
    /// The errors so far. The next scan retries after each of them.
    pub errors: Vec<String>,
}

impl Counters {
    /// The number of requested nodes, over all groups.
    pub fn launched(&self) -> usize {
        self.scale_ups.iter().map(|up| up.by).sum()
    }

    /// The number of requested nodes of one group.
    pub fn launched_in(&self, group: &str) -> usize {
        self.scale_ups.iter().filter(|up| up.group == group).map(|up| up.by).sum()
    }
}

pub(super) fn lock(counters: &Mutex<Counters>) -> MutexGuard<'_, Counters> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}
