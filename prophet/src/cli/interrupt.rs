//! Ctrl-C and SIGTERM: they end the command at once, and remove what it has not finished. The demo
//! ends by itself after Ctrl-C.

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{output, progress};

/// From now on, both signals remove the unfinished files and the progress bar, and exit the
/// process.
pub(super) fn exit_on_interrupt() -> anyhow::Result<()> {
    on_interrupt(|| false)
}

/// From now on, Ctrl-C calls `stop`. Where it returns false, there was nothing to stop, and the
/// process exits as after [`exit_on_interrupt`]. SIGTERM, which process managers send, exits it in
/// any case.
pub(super) fn on_interrupt(stop: impl Fn() -> bool + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("failed to watch for Ctrl-C")?;
    let watch = move || {
        for signal in signals.forever() {
            if signal == SIGTERM || !stop() {
                exit(signal);
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".into());
    thread.spawn(watch).context("failed to watch for Ctrl-C")?;
    Ok(())
}

/// Exits with 128 plus the number of the signal, as shells do.
fn exit(signal: i32) -> ! {
    let _no_new_files = output::remove_unfinished();
    progress::clear();
    eprintln!("prophet: {}", if signal == SIGINT { "interrupted" } else { "terminated" });
    std::process::exit(128 + signal)
}
