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
    /// The number of the replay, from 0. Together with the seed, it determines the launch
    /// latencies.
    pub replay: u32,
    /// Whether the log keeps a record of every tick.
    pub keep_ticks: bool,
}
