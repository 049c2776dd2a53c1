//! The checked input of a run.

use embedder::Catalog;

use super::settings::SimulationSettings;
use crate::replay::Workload;

/// The checked input of a run.
#[derive(Clone, Copy)]
pub struct SimulationInput<'a> {
    /// The jobs.
    pub workload: &'a Workload,
    /// The buckets.
    pub catalog: &'a Catalog,
    /// The options.
    pub settings: &'a SimulationSettings,
    /// The window `[from, until)` in seconds. Jobs submitted within it count, and instance-hours
    /// within it.
    pub window: (i64, i64),
    /// The number of the replay, from 0. Together with the seed, it determines launch latencies and
    /// interruptions from the first decision on.
    pub replay: u32,
    /// Whether the log keeps a record of every tick.
    pub keep_ticks: bool,
}

impl SimulationInput<'_> {
    /// Returns the seed of the launch latencies and interruptions of a replay.
    pub(super) fn seed(&self, replay: u32) -> u64 {
        self.settings.seed.wrapping_mul(1_000_003).wrapping_add(replay.into())
    }
}

/// How long before the window the policy starts to hold placeholders, in seconds. One day suffices,
/// because the cluster settles within an hour of the first placeholders.
const SETTLE_SECONDS: i64 = 86_400;

/// Returns the time of the first decision in a run with this window, in seconds. Until then, a
/// policy learns or does nothing.
pub(super) fn first_decision(window: (i64, i64)) -> i64 {
    window.0.saturating_sub(SETTLE_SECONDS)
}

/// Returns the jobs of a replay: from the first decision on, submissions are moved if there are
/// several replays.
pub(super) fn replayed(
    workload: &Workload,
    settings: &SimulationSettings,
    window: (i64, i64),
    replay: u32,
) -> Workload {
    let jitter = if settings.replays > 1 { settings.jitter.as_seconds() } else { 0 };
    let seed = settings.seed.wrapping_add(u64::from(replay) << 32);
    workload.jittered(jitter, seed, first_decision(window))
}
