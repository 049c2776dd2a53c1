//! Ctrl-C: ends the command at once, and removes what it has not finished. The demo ends by itself.

use anyhow::Context as _;

use super::{output, progress};

/// The exit code after Ctrl-C: 128 plus the number of the signal SIGINT, as in shells.
const INTERRUPTED: i32 = 130;

/// From now on, Ctrl-C removes the unfinished files and the progress bar, and exits the process.
pub(super) fn exit_on_interrupt() -> anyhow::Result<()> {
    on_interrupt(|| false)
}

/// From now on, Ctrl-C calls `stop`. Where it returns false, there was nothing to stop, and the
/// process exits as after [`exit_on_interrupt`].
pub(super) fn on_interrupt(stop: impl Fn() -> bool + Send + 'static) -> anyhow::Result<()> {
    let exit = move || {
        if stop() {
            return;
        }
        let _no_new_files = output::remove_unfinished();
        progress::clear();
        eprintln!("prophet: interrupted");
        std::process::exit(INTERRUPTED)
    };
    ctrlc::set_handler(exit).context("failed to watch for Ctrl-C")
}
