//! The health of the controller, for its probes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Stopwatch;

/// The health of the controller, for its probes.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
    /// When the controller last made progress. `None` before it starts.
    progress: Mutex<Option<Stopwatch>>,
}

/// The longest time without progress: 5 minutes. A turn takes seconds, each request has a time
/// limit, and a long replay of the history makes progress with each line.
const STUCK: Duration = Duration::from_mins(5);

impl Health {
    /// Sets whether all watches have listed their objects.
    pub(super) fn ready(&self, listed: bool) {
        self.ready.store(listed, Ordering::Relaxed);
    }

    /// Records that the controller makes progress.
    pub(super) fn beat(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stopwatch::now());
    }

    /// Whether all watches that decisions depend on have listed their objects.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Whether the controller made progress lately, or has not started yet.
    pub fn is_alive(&self) -> bool {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.is_none_or(|since| since.elapsed() < STUCK)
    }
}
