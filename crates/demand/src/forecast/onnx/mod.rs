//! A trained model as a forecaster: any ONNX file that keeps the contract of `docs/models.md`.
//!
//! The model runs at a tick, and its output is used until the next tick. For ticks from which an
//! ensemble only learns, it runs once for several of them. While no pods arrive, and
//! present and announced demand do not change, the output stays in use for one tick of the model,
//! which may be several ticks of the controller. A model that is missing, faulty or slow, or that
//! returns NaN, never stops the controller: the forecaster then has no forecast, and its faults
//! give the reason.
//!
//! ```text
//! file.rs           the parts of an ONNX file that the contract checks
//! spec.rs           the metadata of the file
//! contract.rs       the checks of the contract
//! pending.rs        forecasts that are requested at a tick, and computed when they are read
//! engine.rs         ONNX Runtime or the embedded engine, one per process
//! runtime.rs        ONNX Runtime
//! embedded.rs       the embedded engine
//! model.rs          a model that keeps the contract, ready to run
//! worker.rs         loads and runs the model, in a thread of its own where decisions wait for it
//! slot.rs           a place in memory for a fetched model
//! feature.rs        the features of the input `state`, by name
//! covariate.rs      the covariates of the input `future`, by name
//! shares.rs         pods as shares of nodes
//! state.rs          the inputs of the model
//! tensors.rs        inputs and outputs as flat vectors
//! outlook.rs        the output quantiles as distributions
//! error_weights.rs  the weight of the model's demand forecasts
//! ```

mod contract;
mod covariate;
#[cfg(feature = "embedded-onnx")]
mod embedded;
mod engine;
mod error_weights;
mod feature;
mod file;
mod model;
mod outlook;
mod pending;
mod runtime;
mod shares;
mod slot;
mod spec;
mod state;
mod tensors;
mod worker;

use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};
use placeholders::Reason;

pub use engine::{Engine, EngineError, in_engine_thread, start};
pub use file::BYTES_MAX;
pub use model::Model;
pub(crate) use pending::Pending;
pub use shares::{RoomNodes, arrivals, room};
pub use slot::ModelSlot;
pub use spec::{Golden, Spec};
pub use tensors::{ModelInput, ModelOutput};
pub use worker::{ModelSource, PRETRAINED};

use self::error_weights::ErrorWeights;
use self::pending::{ModelForecast, RunInput, by_run};
use self::state::ModelState;
use self::tensors::Wanted;
use self::worker::Runner;
use crate::forecast::model_fault::ModelFault;
use crate::forecast::{
    cache::{Cache, Copied},
    demand_ahead::{Ahead, unchanged},
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::{History, Tick};

/// Forecasts with a trained model.
pub struct Onnx {
    lead: Lead,
    /// The names of the buckets, in the order of the catalog.
    names: Vec<String>,
    state: ModelState,
    runner: Cache<Runner>,
    /// The forecast of the last changed tick; empty until it is requested.
    pending: OnceLock<Arc<Pending>>,
    /// The last changed tick (the model runs for it): its time, and its demand and announced demand
    /// in nodes by bucket.
    changed: (DateTime<Utc>, Vec<[u64; 2]>),
    error_weights: ErrorWeights,
    /// Whether demand ahead is the model's own forecast, not a weighted average.
    verbatim: bool,
    /// Whether only new nodes are forecast, and not demand ahead.
    only_new_nodes: bool,
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
            runner: Cache::new(runner),
            pending: OnceLock::new(),
            changed: (DateTime::UNIX_EPOCH, Vec::new()),
            error_weights: ErrorWeights::new(catalog.len(), lead),
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

    /// Returns a copy. It loads its model anew, so that both run at the same time, and it computes
    /// the pending forecasts apart from the original.
    pub(crate) fn copy_with(&self, copied: &mut Copied) -> Self {
        let pending = self.pending.get().map(|pending| copied.of(pending));
        Self {
            names: self.names.clone(),
            state: self.state.clone(),
            runner: self.runner.clone(),
            pending: pending.map_or_else(OnceLock::new, OnceLock::from),
            changed: self.changed.clone(),
            error_weights: self.error_weights.clone(),
            ..*self
        }
    }

    /// Learns the errors of the demand forecasts up to the last tick but one, before the last tick
    /// replaces the forecast.
    fn look_back(&mut self, history: &History) {
        let Some(tick) = history.len().checked_sub(2).and_then(|at| history.get(at)) else {
            return;
        };
        let mut medians = vec![Vec::new(); self.names.len()];
        if let Some((run, output)) = self.pending.get().and_then(|pending| pending.output()) {
            let forecasts = outlook::medians(&run.spec, output, self.lead.tick_seconds);
            run.buckets.iter().zip(forecasts).for_each(|(id, forecast)| medians[*id] = forecast);
        }
        for (id, (bucket, forecast)) in tick.buckets.iter().zip(medians).enumerate() {
            self.error_weights.learn(id, bucket.demand, forecast);
        }
    }

    /// Whether the last forecast is still valid at a tick: no pods arrived, present and announced
    /// demand are unchanged, and the forecast is younger than a tick of the model.
    fn is_valid(&self, tick: &Tick, demand: &[[u64; 2]]) -> bool {
        let (time, before) = &self.changed;
        let valid = self.pending.get().map_or(0, |pending| pending.valid_seconds());
        tick.arrivals.is_empty() && demand == before && (tick.time - *time).num_seconds() < valid
    }

    /// Requests the forecast after the last tick of `history`, which [`Self::compute`] computes.
    pub(crate) fn request(&self, history: &History) -> Arc<Pending> {
        Arc::clone(self.pending.get_or_init(|| Arc::new(self.requested(history))))
    }

    fn requested(&self, history: &History) -> Pending {
        let (spec, mut faults) = match self.runner.lock().spec() {
            Err(faults) => return Pending::without_run(faults),
            Ok(loaded) => loaded,
        };
        let buckets = match self.runs_for(&spec) {
            Err(fault) => {
                faults.push(fault);
                return Pending::without_run(faults);
            }
            Ok(buckets) if buckets.is_empty() => return Pending::without_run(faults),
            Ok(buckets) => buckets,
        };
        let at = |id: &BucketId| {
            history.last().and_then(|tick| tick.buckets.get(*id)).map_or(0, |tick| tick.demand)
        };
        let present = buckets.iter().map(at).collect();
        let inputs = self.state.inputs(&spec, &buckets, history);
        let run = RunInput { spec, buckets, present, inputs, rejected: faults };
        Pending { run: Some(run), result: OnceLock::new() }
    }

    /// Computes the forecasts that are not computed yet, several in one run where possible.
    pub(crate) fn compute<'a>(&self, pending: impl Iterator<Item = &'a Arc<Pending>>) {
        for rows in by_run(pending) {
            self.run(&rows);
        }
    }

    /// Runs the model once for these rows, at least one.
    fn run(&self, rows: &[(&Pending, &RunInput)]) {
        let [(_, RunInput { spec, .. }), ..] = rows else { return };
        let wanted =
            if self.only_new_nodes { outlook::wanted(spec, self.lead) } else { Wanted::All };
        let inputs: Vec<&ModelInput> = rows.iter().map(|(_, run)| &run.inputs).collect();
        let outputs = self.runner.lock().run(spec, &inputs, wanted);
        let outputs = outputs.unwrap_or_else(|fault| vec![Err(fault); rows.len()]);
        for ((pending, run), output) in rows.iter().zip(outputs) {
            let forecast = match output {
                Ok(output) => self.forecast_of(run, output),
                Err(fault) => {
                    let faults = run.rejected.iter().cloned().chain([fault]).collect();
                    ModelForecast { faults, ..ModelForecast::default() }
                }
            };
            // A forecast is computed once, because only this model computes it.
            let _ = pending.result.set(forecast);
        }
    }

    /// Returns the forecast with this output.
    fn forecast_of(&self, run: &RunInput, output: ModelOutput) -> ModelForecast {
        let RunInput { spec, buckets, present, rejected, .. } = run;
        let new_nodes = outlook::new_nodes(spec, &output, present, self.lead);
        let too_short = || {
            let what =
                format!("the horizon is shorter than the lead time of {} s", self.lead.seconds);
            ModelFault::new(field("horizon"), what)
        };
        // The forecast of demand is used even if the horizon is too short for new nodes.
        let fault = new_nodes.is_none().then(too_short);
        let new_nodes = buckets.iter().copied().zip(new_nodes.unwrap_or_default()).collect();
        let faults = rejected.iter().cloned().chain(fault).collect();
        ModelForecast { new_nodes, output: Some(output), faults }
    }

    /// Returns the outlook of a forecast: nothing where it is not computed.
    pub(crate) fn outlook(&self, pending: &Pending) -> Outlook {
        let mut buckets = vec![BucketOutlook::nothing(); self.names.len()];
        let forecast = pending.result.get();
        for (id, new_nodes) in forecast.into_iter().flat_map(|forecast| &forecast.new_nodes) {
            buckets[*id] = BucketOutlook::new(new_nodes.clone(), Reason::Forecast);
        }
        Outlook { buckets }
    }

    /// Returns the forecast after the last tick of `history`, computed.
    fn computed(&self, history: &History) -> Arc<Pending> {
        let pending = self.request(history);
        self.compute(std::iter::once(&pending));
        pending
    }

    /// Returns the buckets that the model runs for: those that its spec names, or, if it names
    /// none, those that were ever in use.
    ///
    /// # Errors
    /// The spec names a bucket that is not in the catalog, or its ticks do not consist of whole
    /// ticks of the controller.
    fn runs_for(&self, spec: &Spec) -> Result<Vec<BucketId>, ModelFault> {
        if spec.tick_seconds % self.lead.tick_seconds.max(1) != 0 {
            let what = format!(
                "{} s is not a multiple of the controller's tick of {} s",
                spec.tick_seconds, self.lead.tick_seconds
            );
            return Err(ModelFault::new(field("tick_seconds"), what));
        }
        let Some(names) = &spec.buckets else { return Ok(self.state.used()) };
        let place = |name: &String| {
            self.names.iter().position(|known| known == name).ok_or_else(|| {
                let what = format!("{name:?} is not a bucket of this cluster");
                ModelFault::new(field("buckets"), what)
            })
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
            self.pending = OnceLock::new();
            self.changed = (tick.time, demand);
        }
    }

    fn forecast(&self, history: &History, _: &Present<'_>) -> Outlook {
        self.outlook(&self.computed(history))
    }

    fn faults(&self) -> Vec<ModelFault> {
        let forecast = self.pending.get().and_then(|pending| pending.result.get());
        forecast.map_or_else(Vec::new, |forecast| forecast.faults.clone())
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.copy_with(copied)))
    }
}

impl DemandForecaster for Onnx {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let pending = self.computed(history);
        let output = pending.output().filter(|_| !self.only_new_nodes);
        let forecasts = output.and_then(|(RunInput { spec, buckets, .. }, output)| {
            Some(buckets.iter().zip(outlook::ahead(spec, output, ticks, self.lead.tick_seconds)?))
        });
        if self.verbatim && forecasts.is_none() {
            return Vec::new();
        }
        let mut all = unchanged(history);
        for (id, forecast) in forecasts.into_iter().flatten() {
            let average = || self.error_weights.believed(*id, ticks, all[*id].mean, forecast.mean);
            let mean = if self.verbatim { forecast.mean } else { average() };
            all[*id] = Ahead { mean, ..forecast };
        }
        all
    }
}

/// Returns the name of a field of the spec, for a fault.
fn field(name: &str) -> String {
    format!("{}.{name}", spec::FIELD)
}

#[cfg(test)]
mod tests;
