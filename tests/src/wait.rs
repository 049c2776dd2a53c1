//! Waits for conditions, so that tests need no fixed pauses.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

use crate::cluster_autoscaler::patience;

/// The pause between two probes: short enough to measure a wait of a second to a tenth of a second.
const PAUSE: Duration = Duration::from_millis(50);

/// Probes until there is a value or the deadline has passed, which is longer with the real
/// cluster-autoscaler. After an error, the probe is repeated.
///
/// # Errors
/// The deadline has passed. The message has `what` and the last error of the probe.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = deadline * patience();
    let end = Instant::now() + deadline;
    let mut last = None;
    loop {
        match timeout_at(end, probe()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => last = None,
            Ok(Err(error)) => last = Some(error),
            Err(_) => {}
        }
        if Instant::now() + PAUSE >= end {
            let message = format!("waited {} s without success for {what}", deadline.as_secs_f64());
            match last {
                Some(error) => return Err(error.context(message)),
                None => bail!(message),
            }
        }
        sleep(PAUSE).await;
    }
}

/// Probes until the probe returns true or the deadline has passed.
///
/// # Errors
/// As [`until`].
pub async fn until_true(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    until(what, deadline, async || Ok(probe().await?.then_some(()))).await
}

/// Checks that the probe returns true for the whole `duration`, to show that something does not
/// happen.
///
/// # Errors
/// The probe returns false or fails once.
pub async fn stays_true(
    what: &str,
    duration: Duration,
    mut probe: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < duration {
        if !probe().await? {
            bail!("after {:.1} s this was no longer true: {what}", start.elapsed().as_secs_f64());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
