//! The ticker: the one place where clocks are read.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

/// The time.
#[expect(
    clippy::disallowed_methods,
    reason = "the ticker reads the clock so that nothing else has to"
)]
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now()
}

/// A moment to measure from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the ticker reads the clock so that nothing else has to"
    )]
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    /// The time since.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// How long until the next multiple of `seconds`: at least a moment, at most `seconds`.
pub(crate) fn until_next(now: DateTime<Utc>, seconds: i64) -> Duration {
    let next = (now.timestamp().div_euclid(seconds) + 1) * seconds;
    let left =
        DateTime::from_timestamp(next, 0).map_or(TimeDelta::seconds(seconds), |next| next - now);
    left.to_std().unwrap_or_default().max(Duration::from_millis(1))
}
