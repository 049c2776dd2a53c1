//! The health of the controller, for its probes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::clock::Stopwatch;

/// The health of the controller, for its probes.
#[derive(Debug)]
pub struct Health {
    /// The longest time without progress.
    stuck_after: Duration,
    ready: AtomicBool,
    /// When the controller last made progress. `None` before it starts.
    progress: Mutex<Option<Stopwatch>>,
}

impl Health {
    /// Health before the start, which fails after this time without progress.
    pub(super) fn new(stuck_after: Duration) -> Self {
        Self { stuck_after, ready: AtomicBool::default(), progress: Mutex::default() }
    }

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
        progress.is_none_or(|since| since.elapsed() < self.stuck_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_without_progress_for_too_long_is_not_alive() {
        let health = Health::new(Duration::from_millis(200));
        // Before it starts, the first lists of a large cluster take their time.
        std::thread::sleep(Duration::from_millis(300));
        assert!(health.is_alive());
        health.beat();
        assert!(health.is_alive());
        std::thread::sleep(Duration::from_millis(300));
        assert!(!health.is_alive());
        health.beat();
        assert!(health.is_alive());
    }
}
