//! The property that holds what Prophet counts: random workloads on a real API server.
//!
//! `make test` runs it for seconds, `make property` for MINUTES=5. Each run prints its seed; SEED=n
//! repeats it. [`admission`] compares what is announced for a suspended Job with the pods that the
//! API server makes of it. [`placement`] compares the predicted nodes with those on which the real
//! scheduler then binds the pods.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admission;
mod placement;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The seed of a run: `SEED` of the environment, else the time.
#[expect(clippy::disallowed_methods, reason = "a run without a seed makes other workloads")]
fn seed() -> u64 {
    let given = std::env::var("SEED").ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    given.unwrap_or(now)
}

/// How long a part of the property runs: half of `MINUTES`, else this many seconds.
fn length(seconds: u64) -> Duration {
    let minutes: Option<u64> = std::env::var("MINUTES").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(minutes.map_or(seconds, |minutes| 30 * minutes))
}
