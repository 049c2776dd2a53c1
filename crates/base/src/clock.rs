//! The only module that reads a clock. The loops around the core use it.

use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};

/// The current time.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock is read here, so that no other module does"
)]
pub fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

/// The start of a measured duration.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the clock is read here, so that no other module does"
    )]
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// The duration since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The duration from `now` to the next multiple of `seconds` in Unix time: at least a millisecond,
/// at most `seconds`.
pub fn until_next(now: DateTime<Utc>, seconds: i64) -> Duration {
    let next = (now.timestamp().div_euclid(seconds) + 1) * seconds;
    let left =
        DateTime::from_timestamp(next, 0).map_or(TimeDelta::seconds(seconds), |next| next - now);
    left.to_std().unwrap_or_default().max(Duration::from_millis(1))
}
