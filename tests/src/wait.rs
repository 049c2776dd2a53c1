//! Waiting for a condition, never for a time.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// How often a condition is looked at: often enough for waits of a second to be measured to a tenth.
const PAUSE: Duration = Duration::from_millis(50);

/// Probes until there is a value, or the deadline has passed; errors of the probe count as "not yet".
///
/// # Errors
/// Names what was awaited, and the last error of the probe.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
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
            let message = format!("waited {} s in vain for {what}", deadline.as_secs_f64());
            match last {
                Some(error) => return Err(error.context(message)),
                None => bail!(message),
            }
        }
        sleep(PAUSE).await;
    }
}

/// Probes until it is true, or the deadline has passed.
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

/// Looks again and again that it stays true for that long: the proof that something does not happen.
///
/// # Errors
/// Where it is false, or the probe fails, once.
pub async fn stays_true(
    what: &str,
    duration: Duration,
    mut probe: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < duration {
        if !probe().await? {
            bail!("after {:.1} s it no longer held that {what}", start.elapsed().as_secs_f64());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}
