//! A trained network as a forecaster: any file that keeps the contract of `docs/models.md`.
//!
//! It is fed at ticks, and answers for the whole of the next one; where nothing came and demand is what it was, its word stands
//! for a tick of its own. A network that is missing, wrong, slow or answers NaN costs
//! nothing but its vote: it has no opinion then, and its faults say why.
//!
//! ```text
//! file.rs      an ONNX file, as far as the contract looks at it
//! spec.rs      what the file says of itself
//! contract.rs  what it must be
//! engine.rs    ONNX Runtime or the embedded engine, one for the process
//! network.rs   a network that keeps the contract, ready to be run
//! worker.rs    the thread that loads and runs it
//! slot.rs      a place in memory for one that is fetched
//! shares.rs    pods as shares of nodes
//! state.rs     what it is fed
//! outlook.rs   its quantiles as distributions
//! trust.rs     how far its word on demand ahead is believed
//! ```

mod contract;
mod engine;
mod file;
mod network;
mod outlook;
mod shares;
mod slot;
mod spec;
mod state;
mod trust;
mod worker;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};
use placeholders::Reason;

pub use contract::ModelFault;
pub use engine::{Engine, EngineError, start};
pub use file::BYTES_MAX;
pub use network::{Answer, Inputs, Network};
pub use shares::{NodeShares, RoomNodes};
pub use slot::Slot;
pub use spec::{Golden, Spec};
pub use worker::Source;

use self::state::State;
use self::trust::Trust;
use self::worker::Worker;
use super::{Ahead, BucketOutlook, Distribution, Forecaster, Lead, Outlook, Present, unchanged};
use crate::record::{History, Tick};

/// The network that is shipped: `models/pretrained/README.md` is its card.
pub const PRETRAINED: &[u8] = include_bytes!("../../../../models/pretrained/quantile.onnx");

/// See the module.
pub struct Onnx {
    lead: Lead,
    names: Vec<String>,
    state: State,
    worker: Mutex<Worker>,
    /// Of the last tick at which something had happened; asked for once somebody listens.
    expected: OnceLock<Expected>,
    /// The time of that tick, and demand by bucket.
    asked: (DateTime<Utc>, Vec<u64>),
    trust: Trust,
    verbatim: bool,
}

/// What a network said.
#[derive(Default)]
struct Expected {
    /// By bucket that it knows; none where it has no opinion.
    new_nodes: Vec<(BucketId, Distribution)>,
    /// From which demand ahead is read, with the buckets in its order.
    answer: Option<(Arc<Spec>, Vec<BucketId>, Answer)>,
    faults: Vec<ModelFault>,
}

impl Onnx {
    /// Runs the network of `source` for the buckets of a catalog. Loading begins at once, beside.
    pub fn new(source: Source, catalog: &Catalog, lead: Lead) -> Self {
        Self {
            lead,
            names: catalog.buckets().iter().map(|bucket| bucket.name.clone()).collect(),
            state: State::new(catalog, lead),
            worker: Mutex::new(Worker::start(source)),
            expected: OnceLock::new(),
            asked: (DateTime::UNIX_EPOCH, Vec::new()),
            trust: Trust::new(catalog.len(), lead),
            verbatim: false,
        }
    }

    /// Tells of demand ahead what the network says, however wrong it was, and nothing where it says nothing: to be judged by itself.
    #[must_use]
    pub fn verbatim(self) -> Self {
        Self { verbatim: true, ..self }
    }

    /// Before the last tick is learnt from: takes in the one before it, with what was said then.
    fn look_back(&mut self, history: &History) {
        let Some(tick) = history.len().checked_sub(2).and_then(|at| history.get(at)) else { return };
        let answer = self.expected.get().and_then(|expected| expected.answer.as_ref());
        let mut medians = vec![Vec::new(); self.names.len()];
        if let Some((spec, buckets, answer)) = answer {
            let said = outlook::medians(spec, answer, self.lead.tick_seconds);
            buckets.iter().zip(said).for_each(|(id, said)| medians[*id] = said);
        }
        for (id, (bucket, said)) in tick.buckets.iter().zip(medians).enumerate() {
            self.trust.learn(id, bucket.demand, said);
        }
    }

    /// Whether what was said stands at a tick: nothing happened since, and the network's own tick is not over.
    fn stands(&self, tick: &Tick, demand: &[u64]) -> bool {
        let (asked, before) = &self.asked;
        let lasts = self.expected.get().and_then(|expected| expected.answer.as_ref());
        let lasts = lasts.map_or(0, |(spec, ..)| spec.tick_seconds);
        tick.arrivals.is_empty() && demand == before && (tick.time - *asked).num_seconds() < lasts
    }

    fn expect(&self, history: &History) -> Expected {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let (spec, mut faults) = match worker.spec() {
            Err(faults) => return Expected { faults, ..Expected::default() },
            Ok(told) => told,
        };
        match self.run(&mut worker, &spec, history) {
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

    fn run(&self, worker: &mut Worker, spec: &Arc<Spec>, history: &History) -> Result<Expected, ModelFault> {
        let field = |name: &str| format!("{}.{name}", spec::FIELD);
        if spec.tick_seconds % self.lead.tick_seconds.max(1) != 0 {
            let what = format!(
                "{} s are no multiple of our tick of {} s",
                spec.tick_seconds, self.lead.tick_seconds
            );
            return Err(ModelFault::new(field("tick_seconds"), what));
        }
        let buckets = self.buckets(spec).map_err(|name| {
            ModelFault::new(field("buckets"), format!("{name:?} is no bucket of this cluster"))
        })?;
        if buckets.is_empty() {
            return Ok(Expected::default());
        }
        let answer = worker.run(self.state.inputs(spec, &buckets, history))?;
        let at = |id: &BucketId| {
            history.last().and_then(|tick| tick.buckets.get(*id)).map_or(0, |tick| tick.demand)
        };
        let present: Vec<u64> = buckets.iter().map(at).collect();
        let new_nodes = outlook::new_nodes(spec, &answer, &present, self.lead);
        let too_near = || {
            let what = format!("the network looks less far than {} s ahead", self.lead.seconds);
            ModelFault::new(field("horizon"), what)
        };
        // What it says of demand is heard all the same.
        let faults = if new_nodes.is_none() { vec![too_near()] } else { Vec::new() };
        let new_nodes = buckets.iter().copied().zip(new_nodes.unwrap_or_default()).collect();
        Ok(Expected { new_nodes, answer: Some((Arc::clone(spec), buckets, answer)), faults })
    }

    /// The buckets that a network is run for: those that it names, or those that were ever in use.
    fn buckets<'a>(&self, spec: &'a Spec) -> Result<Vec<BucketId>, &'a str> {
        let Some(names) = &spec.buckets else { return Ok(self.state.used()) };
        let place = |name: &'a String| self.names.iter().position(|known| known == name).ok_or(name.as_str());
        names.iter().map(place).collect()
    }
}

impl Forecaster for Onnx {
    fn learn(&mut self, history: &History) {
        self.state.note(history);
        self.look_back(history);
        let Some(tick) = history.last() else { return };
        let demand: Vec<u64> = tick.buckets.iter().map(|bucket| bucket.demand).collect();
        if !self.stands(tick, &demand) {
            self.expected = OnceLock::new();
            self.asked = (tick.time, demand);
        }
    }

    fn forecast(&self, history: &History, _: &Present<'_>) -> Outlook {
        let no_opinion = BucketOutlook {
            new_nodes: Distribution::certain(0),
            basis: Reason::TooLittleHistory,
            carrier: None,
        };
        let mut buckets = vec![no_opinion; self.names.len()];
        for (id, new_nodes) in &self.expected.get_or_init(|| self.expect(history)).new_nodes {
            buckets[*id] =
                BucketOutlook { new_nodes: new_nodes.clone(), basis: Reason::Forecast, carrier: None };
        }
        Outlook { buckets }
    }

    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let expected = self.expected.get_or_init(|| self.expect(history));
        let said = expected.answer.as_ref().and_then(|(spec, buckets, answer)| {
            Some(buckets.iter().zip(outlook::ahead(spec, answer, ticks, self.lead.tick_seconds)?))
        });
        if self.verbatim && said.is_none() {
            return Vec::new();
        }
        let mut all = unchanged(history);
        for (id, said) in said.into_iter().flatten() {
            let believed = || self.trust.believed(*id, ticks, all[*id].mean, said.mean);
            let mean = if self.verbatim { said.mean } else { believed() };
            all[*id] = Ahead { mean, ..said };
        }
        all
    }

    fn faults(&self) -> Vec<ModelFault> {
        self.expected.get().map_or_else(Vec::new, |expected| expected.faults.clone())
    }
}

#[cfg(test)]
mod tests;
