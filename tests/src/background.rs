//! Background work on its own thread and runtime, so that a test that blocks or computes does not
//! delay it.

use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// Background work that runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts `work` on a new thread. `work` must create its own clients, because connections
    /// belong to the runtime that opened them.
    ///
    /// # Errors
    /// The runtime or the thread cannot be created.
    pub(crate) fn start<W>(
        name: &str,
        work: impl FnOnce() -> W + Send + 'static,
    ) -> std::io::Result<Self>
    where
        W: Future<Output = ()>,
    {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work() => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            eprintln!("a background thread of the test panicked");
        }
    }
}
