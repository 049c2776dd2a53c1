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
//! worker.rs    loads and runs the model, in a thread of its own where decisions wait for it
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

pub use engine::{Engine, EngineError, in_engine_thread, start};
pub use file::BYTES_MAX;
pub use model::Model;
pub use shares::{RoomNodes, arrivals, room};
pub use slot::ModelSlot;
pub use spec::{Golden, Spec};
pub use tensors::{ModelInput, ModelOutput};
pub use worker::{ModelSource, PRETRAINED};

use self::state::ModelState;
use self::tensors::Wanted;
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
    runner: Kept<Runner>,
    /// The forecast of the last changed tick, computed when it is first read.
    expected: OnceLock<Expected>,
    /// The last changed tick (the model runs for it): its time, and its demand and announced demand
    /// in nodes by bucket.
    changed: (DateTime<Utc>, Vec<[u64; 2]>),
    trust: Trust,
    /// Whether demand ahead is the model's own forecast, not a weighted average.
    verbatim: bool,
    /// Whether only new nodes are forecast, and not demand ahead.
    only_new_nodes: bool,
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
            runner: Kept::new(runner),
            expected: OnceLock::new(),
            changed: (DateTime::UNIX_EPOCH, Vec::new()),
            trust: Trust::new(catalog.len(), lead),
            verbatim: false,
            only_new_nodes: false,
        }
    }

    /// Forecasts new nodes only, so that a run computes fewer outputs. Demand ahead is then present
    /// demand.
    #[must_use]
    pub fn only_new_nodes(self) -> Self {
        Self { only_new_nodes: true, ..self }
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

    /// Runs the model after the last tick of `history`, and returns its forecast with all faults.
    fn expect(&self, history: &History) -> Expected {
        let mut runner = self.runner.lock();
        let (spec, mut faults) = match runner.spec() {
            Err(faults) => return Expected { faults, ..Expected::default() },
            Ok(loaded) => loaded,
        };
        match self.run(&mut runner, &spec, history) {
            Ok(expected) => {
                faults.extend(expected.faults);
                Expected { faults, ..expected }
            }
            Err(fault) => {
                faults.push(fault);
                Expected { faults, ..Expected::default() }
            }
        }
    }

    fn run(
        &self,
        runner: &mut Runner,
        spec: &Arc<Spec>,
        history: &History,
    ) -> Result<Expected, ModelFault> {
        let field = |name: &str| format!("{}.{name}", spec::FIELD);
        if spec.tick_seconds % self.lead.tick_seconds.max(1) != 0 {
            let what = format!(
                "{} s is not a multiple of the controller's tick of {} s",
                spec.tick_seconds, self.lead.tick_seconds
            );
            return Err(ModelFault::new(field("tick_seconds"), what));
        }
        let buckets = self.buckets(spec).map_err(|name| {
            ModelFault::new(field("buckets"), format!("{name:?} is not a bucket of this cluster"))
        })?;
        if buckets.is_empty() {
            return Ok(Expected::default());
        }
        let wanted =
            if self.only_new_nodes { outlook::wanted(spec, self.lead) } else { Wanted::All };
        let output = runner.run(self.state.inputs(spec, &buckets, history), wanted)?;
        let at = |id: &BucketId| {
            history.last().and_then(|tick| tick.buckets.get(*id)).map_or(0, |tick| tick.demand)
        };
        let present: Vec<u64> = buckets.iter().map(at).collect();
        let new_nodes = outlook::new_nodes(spec, &output, &present, self.lead);
        let too_short = || {
            let what =
                format!("the horizon is shorter than the lead time of {} s", self.lead.seconds);
            ModelFault::new(field("horizon"), what)
        };
        // The forecast of demand is used even if the horizon is too short for new nodes.
        let faults = if new_nodes.is_none() { vec![too_short()] } else { Vec::new() };
        let new_nodes = buckets.iter().copied().zip(new_nodes.unwrap_or_default()).collect();
        Ok(Expected { new_nodes, output: Some((Arc::clone(spec), buckets, output)), faults })
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

impl Forecaster for Onnx {
    fn learn(&mut self, history: &History) {
        self.state.note(history);
        if !self.only_new_nodes {
            self.look_back(history);
        }
        let Some(tick) = history.last() else { return };
        let demand = tick.buckets.iter().map(|bucket| [bucket.demand, bucket.announced]);
        let demand: Vec<[u64; 2]> = demand.collect();
        if !self.is_valid(tick, &demand) {
            self.expected = OnceLock::new();
            self.changed = (tick.time, demand);
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
        let output = expected.output.as_ref().filter(|_| !self.only_new_nodes);
        let forecasts = output.and_then(|(spec, buckets, output)| {
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
