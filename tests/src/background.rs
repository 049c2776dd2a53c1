//! Work beside a test, on a thread and a runtime of its own: a test that blocks or computes does not hold it up.

use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// Runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// The work makes its own clients, whose connections belong to the runtime that made them.
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
            eprintln!("work beside the test has panicked");
        }
    }
}
