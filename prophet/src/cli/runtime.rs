//! The runtime of commands that read a history or a server, one thing after the other.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// A runtime on the thread of the command.
///
/// # Errors
/// The system gives it no resources.
pub(super) fn of_this_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
