//! Forecasts of a model that are requested at a tick, and computed when they are read.
//!
//! Several pending forecasts are computed in one run, in which each of them is a row. Each operator
//! of a graph has a cost for each run, so a run for several rows takes less time than several runs.

use std::sync::{Arc, OnceLock};

use embedder::BucketId;

use super::spec::Spec;
use super::tensors::{ModelInput, ModelOutput};
use crate::forecast::distribution::Distribution;
use crate::forecast::model_fault::ModelFault;

/// The most values of demand in the inputs of one run, so that the memory of a run and its time
/// have a bound. They are those of 32 rows of the shipped model for one bucket.
const VALUES_MAX: usize = 32 * 288;

/// A forecast that was requested.
#[derive(Clone)]
pub(crate) struct Pending {
    /// `None` if the model cannot run.
    pub(super) run: Option<RunInput>,
    /// The forecast, once it is computed.
    pub(super) result: OnceLock<ModelForecast>,
}

/// The input of a run at a tick.
#[derive(Clone)]
pub(super) struct RunInput {
    /// The spec of the model that the inputs were made for.
    pub(super) spec: Arc<Spec>,
    /// The buckets in the order of the inputs, at least one.
    pub(super) buckets: Vec<BucketId>,
    /// The demand of the tick in nodes, in the same order.
    pub(super) present: Vec<u64>,
    /// The inputs, of batch 1.
    pub(super) inputs: ModelInput,
    /// The faults of a newer file that was rejected.
    pub(super) rejected: Vec<ModelFault>,
}

/// The forecast of a model at a tick.
#[derive(Clone, Default)]
pub(super) struct ModelForecast {
    /// The new nodes by bucket; empty if the model has no forecast.
    pub(super) new_nodes: Vec<(BucketId, Distribution)>,
    /// The output from which demand ahead is read.
    pub(super) output: Option<ModelOutput>,
    pub(super) faults: Vec<ModelFault>,
}

impl Pending {
    /// No forecast, because the model cannot run.
    pub(super) fn without_run(faults: Vec<ModelFault>) -> Self {
        let forecast = ModelForecast { faults, ..ModelForecast::default() };
        Self { run: None, result: OnceLock::from(forecast) }
    }

    /// Returns the output of the run and its input. `None` if there is no output.
    pub(super) fn output(&self) -> Option<(&RunInput, &ModelOutput)> {
        self.run.as_ref().zip(self.result.get()?.output.as_ref())
    }

    /// Returns the number of buckets that the model runs for.
    pub(crate) fn buckets_len(&self) -> usize {
        self.run.as_ref().map_or(0, |run| run.buckets.len())
    }

    /// Returns how long the forecast is valid while nothing changes, in seconds: one tick of the
    /// model, or 0 if the model cannot run or its run failed. A run that is not made yet counts as
    /// one that succeeds.
    pub(super) fn valid_seconds(&self) -> i64 {
        let failed = self.result.get().is_some_and(|forecast| forecast.output.is_none());
        let run = self.run.as_ref().filter(|_| !failed);
        run.map_or(0, |run| run.spec.tick_seconds)
    }
}

impl RunInput {
    /// Whether two inputs can be rows of one run.
    fn is_like(&self, other: &Self) -> bool {
        Spec::is_same(&self.spec, &other.spec) && self.buckets == other.buckets
    }
}

/// Returns the forecasts that are not computed yet and can be, in groups for one run each.
pub(super) fn by_run<'a>(
    pending: impl Iterator<Item = &'a Arc<Pending>>,
) -> Vec<Vec<(&'a Pending, &'a RunInput)>> {
    let mut runs: Vec<Vec<(&Pending, &RunInput)>> = Vec::new();
    let mut last: Option<&Arc<Pending>> = None;
    for one in pending.filter(|one| one.result.get().is_none()) {
        // Successive ticks have the same forecast while nothing changes.
        let again = last.replace(one).is_some_and(|last| Arc::ptr_eq(last, one));
        let Some(run) = one.run.as_ref().filter(|_| !again) else { continue };
        let rows_max = VALUES_MAX / run.inputs.target.len().max(1);
        match runs.last_mut().filter(|rows| rows.len() < rows_max && rows[0].1.is_like(run)) {
            Some(rows) => rows.push((one, run)),
            None => runs.push(vec![(one, run)]),
        }
    }
    runs
}
