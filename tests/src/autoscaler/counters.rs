//! Everything that the autoscaler has done so far.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// A group was told to grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleUp {
    /// The group.
    pub group: String,
    /// By how many nodes.
    pub by: usize,
    /// When.
    pub at: Instant,
}

/// A node was taken away, or an instance that never became one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Its group.
    pub group: String,
    /// The instance, by whose id its node is named.
    pub instance: String,
    /// When.
    pub at: Instant,
}

/// All that it did so far.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Scans that came to their end.
    pub scans: u64,
    /// Each time a group was told to grow.
    pub scale_ups: Vec<ScaleUp>,
    /// Each node that it removed because nothing needed it.
    pub removed: Vec<Removal>,
    /// Each instance that it gave up.
    pub given_up: Vec<Removal>,
    /// What went wrong and was tried again.
    pub errors: Vec<String>,
}

impl Counters {
    /// The nodes asked for, over all groups.
    pub fn launched(&self) -> usize {
        self.scale_ups.iter().map(|up| up.by).sum()
    }

    /// The nodes asked for, of one group.
    pub fn launched_in(&self, group: &str) -> usize {
        self.scale_ups.iter().filter(|up| up.group == group).map(|up| up.by).sum()
    }
}

pub(super) fn lock(counters: &Mutex<Counters>) -> MutexGuard<'_, Counters> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}
