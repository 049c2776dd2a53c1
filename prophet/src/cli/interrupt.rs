//! Ctrl-C: ends the command at once, and removes what it has not finished.

use anyhow::Context as _;

use super::{output, progress};

/// The exit code after Ctrl-C: 128 plus the number of the signal SIGINT, as in shells.
const INTERRUPTED: i32 = 130;

/// From now on, Ctrl-C removes the unfinished files and the progress bar, and exits the process.
pub(super) fn exit_on_interrupt() -> anyhow::Result<()> {
    let exit = || {
        let _no_new_files = output::remove_unfinished();
        progress::clear();
        eprintln!("prophet: interrupted");
        std::process::exit(INTERRUPTED)
    };
    ctrlc::set_handler(exit).context("failed to watch for Ctrl-C")
}
