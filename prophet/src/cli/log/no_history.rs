//! What [`super::LogArgs`] uses of histories, in builds that cannot read them.

use embedder::Catalog;
use simulator::SimulationSettings;
use traces::{SchedulingDelay, Trace};

use crate::cli::wrong_usage;

/// The error of a build that cannot read histories.
const NO_HISTORY: &str =
    "this build cannot read a history: build it with cargo build --release --features full";

/// A history, which is never read.
#[derive(Default)]
pub(in crate::cli) struct RecordedLog;

#[expect(clippy::unused_self, reason = "the other builds use it")]
impl RecordedLog {
    pub(super) fn take_over(&self, _: &mut SimulationSettings, _: bool) -> anyhow::Result<()> {
        Err(wrong_usage::conflict(NO_HISTORY))
    }

    pub(super) fn trace(&self, _: &SimulationSettings, _: bool) -> anyhow::Result<Trace> {
        Err(wrong_usage::conflict(NO_HISTORY))
    }
}

pub(in crate::cli) fn recorded_log(
    _: &str,
    _: Option<&str>,
) -> anyhow::Result<(Trace, Vec<SchedulingDelay>, Catalog)> {
    Err(wrong_usage::conflict(NO_HISTORY))
}
