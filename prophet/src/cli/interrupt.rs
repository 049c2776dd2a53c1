//! Ctrl-C and SIGTERM: they end the command at once, and remove what it has not finished.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{output, progress};

/// Whether the command has printed its result, so that Ctrl-C ends it as done.
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// From now on, Ctrl-C ends the command with exit code 0.
pub(super) fn done_on_interrupt() {
    IS_DONE.store(true, Ordering::SeqCst);
}

/// From now on, both signals remove the unfinished files and the progress bar, and exit the
/// process.
pub(super) fn exit_on_interrupt() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("failed to watch for Ctrl-C")?;
    let thread = std::thread::Builder::new().name("signals".into());
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            exit(signal);
        }
    };
    thread.spawn(watch).context("failed to watch for Ctrl-C")?;
    Ok(())
}

/// Exits with 128 plus the number of the signal, as shells do; with 0 if Ctrl-C ends a command that
/// is done.
fn exit(signal: i32) -> ! {
    let _no_new_files = output::remove_unfinished();
    progress::clear();
    if signal == SIGINT && IS_DONE.load(Ordering::SeqCst) {
        std::process::exit(0);
    }
    eprintln!("prophet: {}", if signal == SIGINT { "interrupted" } else { "terminated" });
    std::process::exit(128 + signal)
}
