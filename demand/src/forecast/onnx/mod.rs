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
//! asked.rs     a forecast that is asked for, and computed when it is read
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

mod asked;
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

pub(crate) use asked::Asked;
pub use engine::{Engine, EngineError, in_engine_thread, start};
pub use file::BYTES_MAX;
pub use model::Model;
pub use shares::{RoomNodes, arrivals, room};
pub use slot::ModelSlot;
pub use spec::{Golden, Spec};
pub use tensors::{ModelInput, ModelOutput};
pub use worker::{ModelSource, PRETRAINED};

use self::asked::{Expected, Question};
use self::state::ModelState;
use self::tensors::Wanted;
use self::trust::Trust;
use self::worker::Runner;
use crate::forecast::model_fault::ModelFault;
use crate::forecast::{
    demand_ahead::{Ahead, unchanged},
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
    /// The forecast of the last changed tick; empty until it is asked for.
    asked: OnceLock<Arc<Asked>>,
    /// The last changed tick (the model runs for it): its time, and its demand and announced demand
    /// in nodes by bucket.
    changed: (DateTime<Utc>, Vec<[u64; 2]>),
    trust: Trust,
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
            runner: Kept::new(runner),
            asked: OnceLock::new(),
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

    /// Returns a copy, which loads its model anew, so that both run at the same time.
    pub(crate) fn copy_with(&self, copied: &mut Copied) -> Self {
        let asked = self.asked.get().map(|asked| copied.of(asked));
        Self { asked: asked.map_or_else(OnceLock::new, OnceLock::from), ..self.clone() }
    }

    /// Learns the errors of the demand forecasts up to the last tick but one, before the last tick
    /// replaces the forecast.
    fn look_back(&mut self, history: &History) {
        let Some(tick) = history.len().checked_sub(2).and_then(|at| history.get(at)) else {
            return;
        };
        let mut medians = vec![Vec::new(); self.names.len()];
        if let Some((question, output)) = self.asked.get().and_then(|asked| asked.output()) {
            let forecasts = outlook::medians(&question.spec, output, self.lead.tick_seconds);
            question
                .buckets
                .iter()
                .zip(forecasts)
                .for_each(|(id, forecast)| medians[*id] = forecast);
        }
        for (id, (bucket, forecast)) in tick.buckets.iter().zip(medians).enumerate() {
            self.trust.learn(id, bucket.demand, forecast);
        }
    }

    /// Whether the last forecast is still valid at a tick: no pods arrived, present and announced
    /// demand are unchanged, and the forecast is younger than a tick of the model.
    fn is_valid(&self, tick: &Tick, demand: &[[u64; 2]]) -> bool {
        let (time, before) = &self.changed;
        let lasts = self.asked.get().map_or(0, |asked| asked.lasts());
        tick.arrivals.is_empty() && demand == before && (tick.time - *time).num_seconds() < lasts
    }

    /// Asks for the forecast after the last tick of `history`, which [`Self::answer`] computes.
    pub(crate) fn ask(&self, history: &History) -> Arc<Asked> {
        Arc::clone(self.asked.get_or_init(|| Arc::new(self.question(history))))
    }

    fn question(&self, history: &History) -> Asked {
        let (spec, mut faults) = match self.runner.lock().spec() {
            Err(faults) => return Asked::without_run(faults),
            Ok(loaded) => loaded,
        };
        let buckets = match self.runs_for(&spec) {
            Err(fault) => {
                faults.push(fault);
                return Asked::without_run(faults);
            }
            Ok(buckets) if buckets.is_empty() => return Asked::without_run(faults),
            Ok(buckets) => buckets,
        };
        let at = |id: &BucketId| {
            history.last().and_then(|tick| tick.buckets.get(*id)).map_or(0, |tick| tick.demand)
        };
        let present = buckets.iter().map(at).collect();
        let inputs = self.state.inputs(&spec, &buckets, history);
        let question = Question { spec, buckets, present, inputs, rejected: faults };
        Asked { question: Some(question), answer: OnceLock::new() }
    }

    /// Computes the forecasts that are not computed yet. Successive ones are computed in one run if
    /// they have the same buckets.
    pub(crate) fn answer<'a>(&self, asked: impl Iterator<Item = &'a Arc<Asked>>) {
        let mut open: Vec<(&Asked, &Question)> = Vec::new();
        for asked in asked.filter(|asked| asked.answer.get().is_none()) {
            // The same forecast is asked for again while nothing changes.
            let again =
                open.last().is_some_and(|(last, _)| std::ptr::eq(*last, &raw const **asked));
            if let Some(question) = asked.question.as_ref().filter(|_| !again) {
                open.push((asked, question));
            }
        }
        for batch in open.chunk_by(|(_, one), (_, other)| one.is_like(other)) {
            self.run(batch);
        }
    }

    /// Runs the model for questions that one run can answer, at least one.
    fn run(&self, batch: &[(&Asked, &Question)]) {
        let [(first, question), ..] = batch else { return };
        let spec = &question.spec;
        let wanted =
            if self.only_new_nodes { outlook::wanted(spec, self.lead) } else { Wanted::All };
        let inputs = ModelInput::stacked(batch.iter().map(|(_, question)| &question.inputs));
        let output = self.runner.lock().run(spec, inputs, wanted);
        match output {
            Ok(output) => {
                for ((asked, question), output) in batch.iter().zip(output.rows(batch.len())) {
                    let _ = asked.answer.set(self.expected(question, output));
                }
            }
            Err(fault) if batch.len() == 1 => {
                let faults = question.rejected.iter().cloned().chain([fault]).collect();
                let _ = first.answer.set(Expected { faults, ..Expected::default() });
            }
            // Each question gets a forecast or a fault of its own.
            Err(_) => batch.iter().for_each(|one| self.run(std::slice::from_ref(one))),
        }
    }

    /// Returns the forecast with this output.
    fn expected(&self, question: &Question, output: ModelOutput) -> Expected {
        let Question { spec, buckets, present, rejected, .. } = question;
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
        Expected { new_nodes, output: Some(output), faults }
    }

    /// Returns the outlook of a forecast: nothing where it is not computed.
    pub(crate) fn outlook(&self, asked: &Asked) -> Outlook {
        let mut buckets = vec![BucketOutlook::nothing(); self.names.len()];
        for (id, new_nodes) in asked.answer.get().into_iter().flat_map(|known| &known.new_nodes) {
            buckets[*id] = BucketOutlook::new(new_nodes.clone(), Reason::Forecast);
        }
        Outlook { buckets }
    }

    /// Returns the forecast after the last tick of `history`, computed.
    fn answered(&self, history: &History) -> Arc<Asked> {
        let asked = self.ask(history);
        self.answer(std::iter::once(&asked));
        asked
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
            self.asked = OnceLock::new();
            self.changed = (tick.time, demand);
        }
    }

    fn forecast(&self, history: &History, _: &Present<'_>) -> Outlook {
        self.outlook(&self.answered(history))
    }

    fn faults(&self) -> Vec<ModelFault> {
        let known = self.asked.get().and_then(|asked| asked.answer.get());
        known.map_or_else(Vec::new, |known| known.faults.clone())
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.copy_with(copied)))
    }
}

impl DemandForecaster for Onnx {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let asked = self.answered(history);
        let output = asked.output().filter(|_| !self.only_new_nodes);
        let forecasts = output.and_then(|(Question { spec, buckets, .. }, output)| {
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

/// Returns the name of a field of the spec, for a fault.
fn field(name: &str) -> String {
    format!("{}.{name}", spec::FIELD)
}

#[cfg(test)]
mod tests;
