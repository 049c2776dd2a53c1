//! A trained model as a forecaster: any ONNX file that keeps the contract of `docs/models.md`.
//!
//! The model runs at a tick, and its output is used until the next tick. While no pods arrive, and
//! present and announced demand do not change, the output stays in use for one tick of the model,
//! which may be several ticks of the controller. A model that is missing, faulty or slow, or that
//! returns NaN, never stops the controller: the forecaster then has no forecast, and its faults
//! give the reason.
//!
//! ```text
//! file.rs      the parts of an ONNX file that the contract checks
//! spec.rs      the metadata of the file
//! contract.rs  the checks of the contract
//! engine.rs    ONNX Runtime or the embedded engine, one per process
//! runtime.rs   ONNX Runtime
//! embedded.rs  the embedded engine
//! model.rs     a model that keeps the contract, ready to run
//! worker.rs    loads and runs the model in a thread
//! slot.rs      a place in memory for a fetched model
//! feature.rs   the features of the input `state`, by name
//! covariate.rs the covariates of the input `future`, by name
//! shares.rs    pods as shares of nodes
//! state.rs     the inputs of the model
//! tensors.rs   inputs and outputs as flat vectors
//! outlook.rs   the output quantiles as distributions
//! trust.rs     the weight of the model's demand forecasts
//! ```

mod contract;
mod covariate;
#[cfg(feature = "embedded-onnx")]
mod embedded;
mod engine;
mod feature;
mod file;
mod model;
mod outlook;
mod runtime;
mod shares;
mod slot;
mod spec;
mod state;
mod tensors;
mod trust;
mod worker;

use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};
use placeholders::Reason;

pub use engine::{Engine, EngineError, start};
pub use file::BYTES_MAX;
pub use model::Model;
pub use shares::{RoomNodes, arrivals, room};
pub use slot::ModelSlot;
pub use spec::{Golden, Spec};
pub use tensors::{ModelInput, ModelOutput};
pub use worker::{ModelSource, PRETRAINED};

use self::state::ModelState;
use self::trust::Trust;
use self::worker::Runner;
use crate::forecast::model_fault::ModelFault;
use crate::forecast::{
    demand_ahead::{Ahead, unchanged},
    distribution::Distribution,
    kept::{Copied, Kept},
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::{History, Tick};

/// Forecasts with a trained model.
#[derive(Clone)]
pub struct Onnx {
    lead: Lead,
    /// The names of the buckets, in the order of the catalog.
    names: Vec<String>,
    state: ModelState,
    runs: Kept<Runs>,
    /// The forecast of the last changed tick, computed when it is first read.
    expected: OnceLock<Expected>,
    /// The last changed tick (the model runs for it): its time, and its demand and announced demand
    /// in nodes by bucket.
    changed: (DateTime<Utc>, Vec<[u64; 2]>),
    trust: Trust,
    /// Whether demand ahead is the model's own forecast, not a weighted average.
    verbatim: bool,
}

/// The runs of the model.
struct Runs {
    runner: Runner,
    /// The run for the last tick, if it has begun and is not finished.
    begun: Option<Begun>,
}

/// A run that has begun, or the faults that prevent it.
type Begun = Result<BegunRun, Vec<ModelFault>>;

/// A run that has begun.
struct BegunRun {
    spec: Arc<Spec>,
    /// The buckets of the model, in its order. If there are none, nothing runs.
    buckets: Vec<BucketId>,
    /// Faults that do not prevent the run.
    faults: Vec<ModelFault>,
}

/// The copy begins its runs anew.
impl Clone for Runs {
    fn clone(&self) -> Self {
        Self { runner: self.runner.clone(), begun: None }
    }
}

/// The forecast of a model.
#[derive(Clone, Default)]
struct Expected {
    /// The new nodes by bucket; empty if the model has no forecast.
    new_nodes: Vec<(BucketId, Distribution)>,
    /// The output from which demand ahead is read, with the buckets in the order of the model.
    output: Option<(Arc<Spec>, Vec<BucketId>, ModelOutput)>,
    faults: Vec<ModelFault>,
}

impl Onnx {
    /// Runs the model of `source` for the buckets of a catalog. A slow model has no forecast.
    ///
    /// Loading begins at once, in another thread.
    pub fn new(source: ModelSource, catalog: &Catalog, lead: Lead) -> Self {
        Self::with_runner(Runner::limited(source), catalog, lead)
    }

    /// Like [`Self::new`], but a forecast waits for a run as long as it takes.
    pub fn patient(source: ModelSource, catalog: &Catalog, lead: Lead) -> Self {
        Self::with_runner(Runner::patient(source), catalog, lead)
    }

    fn with_runner(runner: Runner, catalog: &Catalog, lead: Lead) -> Self {
        Self {
            lead,
            names: catalog.buckets().iter().map(|bucket| bucket.name.clone()).collect(),
            state: ModelState::new(catalog, lead),
            runs: Kept::new(Runs { runner, begun: None }),
            expected: OnceLock::new(),
            changed: (DateTime::UNIX_EPOCH, Vec::new()),
            trust: Trust::new(catalog.len(), lead),
            verbatim: false,
        }
    }

    /// Makes demand ahead the model's own forecast, so that a backtest can score the model alone.
    ///
    /// Without this, demand ahead is an average with present demand, weighted by past errors. With
    /// this, there is no demand ahead where the model has no forecast.
    #[must_use]
    pub fn verbatim(self) -> Self {
        Self { verbatim: true, ..self }
    }

    /// Learns the errors of the demand forecasts up to the last tick but one, before the last tick
    /// replaces the forecast.
    fn look_back(&mut self, history: &History) {
        let Some(tick) = history.len().checked_sub(2).and_then(|at| history.get(at)) else {
            return;
        };
        let output = self.expected.get().and_then(|expected| expected.output.as_ref());
        let mut medians = vec![Vec::new(); self.names.len()];
        if let Some((spec, buckets, output)) = output {
            let forecasts = outlook::medians(spec, output, self.lead.tick_seconds);
            buckets.iter().zip(forecasts).for_each(|(id, forecast)| medians[*id] = forecast);
        }
        for (id, (bucket, forecast)) in tick.buckets.iter().zip(medians).enumerate() {
            self.trust.learn(id, bucket.demand, forecast);
        }
    }

    /// Whether the last forecast is still valid at a tick: no pods arrived, present and announced
    /// demand are unchanged, and the forecast is younger than a tick of the model.
    fn is_valid(&self, tick: &Tick, demand: &[[u64; 2]]) -> bool {
        let (time, before) = &self.changed;
        let lasts = self.expected.get().and_then(|expected| expected.output.as_ref());
        let lasts = lasts.map_or(0, |(spec, ..)| spec.tick_seconds);
        tick.arrivals.is_empty() && demand == before && (tick.time - *time).num_seconds() < lasts
    }

    /// Begins to run the model for the last tick of `history`.
    fn begin_run(&self, runner: &mut Runner, history: &History) -> Begun {
        let (spec, mut faults) = runner.spec()?;
        let mut begin = || -> Result<Vec<BucketId>, ModelFault> {
            self.check_tick(&spec)?;
            let buckets = self.buckets(&spec).map_err(|name| {
                let what = format!("{name:?} is not a bucket of this cluster");
                ModelFault::new(spec_field("buckets"), what)
            })?;
            if !buckets.is_empty() {
                runner.begin(self.state.inputs(&spec, &buckets, history))?;
            }
            Ok(buckets)
        };
        match begin() {
            Ok(buckets) => Ok(BegunRun { spec, buckets, faults }),
            Err(fault) => {
                faults.push(fault);
                Err(faults)
            }
        }
    }

    fn check_tick(&self, spec: &Spec) -> Result<(), ModelFault> {
        if spec.tick_seconds % self.lead.tick_seconds.max(1) == 0 {
            return Ok(());
        }
        let what = format!(
            "{} s is not a multiple of the controller's tick of {} s",
            spec.tick_seconds, self.lead.tick_seconds
        );
        Err(ModelFault::new(spec_field("tick_seconds"), what))
    }

    /// Returns the forecast for the last tick of `history`, with all faults. Runs the model unless
    /// the run has begun.
    fn expect(&self, history: &History) -> Expected {
        let mut runs = self.runs.lock();
        let Runs { runner, begun } = &mut *runs;
        let begun = begun.take().unwrap_or_else(|| self.begin_run(runner, history));
        let BegunRun { spec, buckets, mut faults } = match begun {
            Ok(run) => run,
            Err(faults) => return Expected { faults, ..Expected::default() },
        };
        if buckets.is_empty() {
            return Expected { faults, ..Expected::default() };
        }
        let output = match runner.finish() {
            Ok(output) => output,
            Err(fault) => {
                faults.push(fault);
                return Expected { faults, ..Expected::default() };
            }
        };
        let at = |id: &BucketId| {
            history.last().and_then(|tick| tick.buckets.get(*id)).map_or(0, |tick| tick.demand)
        };
        let present: Vec<u64> = buckets.iter().map(at).collect();
        let new_nodes = outlook::new_nodes(&spec, &output, &present, self.lead);
        if new_nodes.is_none() {
            // The forecast of demand is used even if the horizon is too short for new nodes.
            let what =
                format!("the horizon is shorter than the lead time of {} s", self.lead.seconds);
            faults.push(ModelFault::new(spec_field("horizon"), what));
        }
        let new_nodes = buckets.iter().copied().zip(new_nodes.unwrap_or_default()).collect();
        Expected { new_nodes, output: Some((spec, buckets, output)), faults }
    }

    /// Returns the buckets that the model runs for: those that its spec names, or, if it names
    /// none, those that were ever in use.
    ///
    /// # Errors
    /// The name of a bucket that is not in the catalog.
    fn buckets<'a>(&self, spec: &'a Spec) -> Result<Vec<BucketId>, &'a str> {
        let Some(names) = &spec.buckets else { return Ok(self.state.used()) };
        let place = |name: &'a String| {
            self.names.iter().position(|known| known == name).ok_or(name.as_str())
        };
        names.iter().map(place).collect()
    }
}

/// Returns the path of a field of the spec.
fn spec_field(name: &str) -> String {
    format!("{}.{name}", spec::FIELD)
}

impl Forecaster for Onnx {
    fn learn(&mut self, history: &History) {
        self.state.note(history);
        self.look_back(history);
        let Some(tick) = history.last() else { return };
        let demand = tick.buckets.iter().map(|bucket| [bucket.demand, bucket.announced]);
        let demand: Vec<[u64; 2]> = demand.collect();
        if !self.is_valid(tick, &demand) {
            self.expected = OnceLock::new();
            self.runs.lock().begun = None;
            self.changed = (tick.time, demand);
        }
    }

    fn begin(&self, history: &History) {
        if self.expected.get().is_none() {
            let mut runs = self.runs.lock();
            let Runs { runner, begun } = &mut *runs;
            begun.get_or_insert_with(|| self.begin_run(runner, history));
        }
    }

    fn forecast(&self, history: &History, _: &Present<'_>) -> Outlook {
        let mut buckets = vec![BucketOutlook::nothing(); self.names.len()];
        for (id, new_nodes) in &self.expected.get_or_init(|| self.expect(history)).new_nodes {
            buckets[*id] = BucketOutlook::new(new_nodes.clone(), Reason::Forecast);
        }
        Outlook { buckets }
    }

    fn faults(&self) -> Vec<ModelFault> {
        self.expected.get().map_or_else(Vec::new, |expected| expected.faults.clone())
    }

    /// The copy loads its model anew, so that both run at the same time.
    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.clone()))
    }
}

impl DemandForecaster for Onnx {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let expected = self.expected.get_or_init(|| self.expect(history));
        let forecasts = expected.output.as_ref().and_then(|(spec, buckets, output)| {
            Some(buckets.iter().zip(outlook::ahead(spec, output, ticks, self.lead.tick_seconds)?))
        });
        if self.verbatim && forecasts.is_none() {
            return Vec::new();
        }
        let mut all = unchanged(history);
        for (id, forecast) in forecasts.into_iter().flatten() {
            let average = || self.trust.believed(*id, ticks, all[*id].mean, forecast.mean);
            let mean = if self.verbatim { forecast.mean } else { average() };
            all[*id] = Ahead { mean, ..forecast };
        }
        all
    }
}

#[cfg(test)]
mod tests;
