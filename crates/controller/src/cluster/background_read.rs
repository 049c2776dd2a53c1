//! A read of the history on a thread of its own, so that neither a slow place nor a long replay
//! delays other policies or the probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use base::clock::Stopwatch;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::observe::Shared;

/// A read in progress. It is cancelled when this value is dropped.
pub(super) struct BackgroundRead<T> {
    begun: Stopwatch,
    cancelled: Arc<AtomicBool>,
    task: JoinHandle<anyhow::Result<T>>,
}

impl<T: Send + 'static> BackgroundRead<T> {
    /// Starts a read. `read` must end soon once its argument is true. The end of the read notifies
    /// `shared`.
    pub(super) fn start<W>(
        shared: &Arc<Shared>,
        read: impl FnOnce(Arc<AtomicBool>) -> W + Send + 'static,
    ) -> Self
    where
        W: Future<Output = anyhow::Result<T>>,
    {
        let (cancelled, shared) = (Arc::new(AtomicBool::new(false)), Arc::clone(shared));
        let (given, runtime) = (Arc::clone(&cancelled), Handle::current());
        // A replay computes for long, so it must not take a thread of the runtime.
        let task = tokio::task::spawn_blocking(move || {
            let result = runtime.block_on(read(given));
            shared.ring();
            result
        });
        Self { begun: Stopwatch::now(), cancelled, task }
    }

    /// Waits for the end of the read until `limit` after its start. Returns its result once it has
    /// ended, and may not be called again then.
    pub(super) async fn ended(&mut self, limit: Duration) -> Option<anyhow::Result<T>> {
        let left = limit.saturating_sub(self.begun.elapsed());
        if left.is_zero() && !self.task.is_finished() {
            return None;
        }
        let joined = tokio::time::timeout(left, &mut self.task).await.ok()?;
        Some(joined.context("the read of the history was interrupted").flatten())
    }

    /// Whether the read has ended.
    pub(super) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Lets the read end soon, because its result is not needed.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl<T> Drop for BackgroundRead<T> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}
