//! How many new nodes will arrivals need until a node ordered now is ready?
//!
//! Every method answers that question for each bucket, as a distribution of counts: it learns at ticks and answers at any
//! time, for the state of that moment, from the past alone.
//!
//! ```text
//! distribution.rs   counts with their chances
//! ladder.rs         a step function of running cores and nodes
//! last_value.rs     persistence: nothing new will be needed
//! increments.rs     the decayed empirical distribution of past needs
//! onnx/             a trained network, from a file that keeps the contract
//! scenario.rs       past windows of arrivals, packed onto the free room of the moment
//! reference.rs      what a table needs beside them: constant, static maximum, oracle
//! ```

mod distribution;
mod increments;
mod ladder;
mod last_value;
pub mod onnx;
mod reference;
mod scenario;

use chrono::{DateTime, Utc};
use embedder::Demand;
use placeholders::Reason;

pub use distribution::Distribution;
pub use increments::Increments;
pub use ladder::{Ladder, LadderForecaster};
pub use last_value::LastValue;
pub use reference::{Constant, Oracle, StaticMax};
pub use scenario::Scenario;

use crate::record::{History, Tick};

/// What is expected, per bucket of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// In the order of the catalog.
    pub buckets: Vec<BucketOutlook>,
}

/// What is expected of one bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketOutlook {
    /// The new nodes needed within the lead, beyond present demand.
    pub new_nodes: Distribution,
    /// What it rests on: [`Reason::Forecast`] or [`Reason::TooLittleHistory`].
    pub basis: Reason,
}

/// What is known of the future.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownFuture {
    /// By how much offered demand will rise within the lead, per bucket. Only a replay knows it, and only the
    /// [`Oracle`] may look.
    pub rise: Vec<u64>,
}

/// A method of forecasting. Deterministic; bounded in memory.
pub trait Forecaster: Send {
    /// Learns from the last tick of `history`, which is new.
    fn learn(&mut self, history: &History);

    /// What is expected now. `history` is what was learnt from; `demand` is present demand; nothing after `now` may be used, but for what `known` says.
    fn forecast(
        &self,
        history: &History,
        demand: &Demand,
        known: &KnownFuture,
        now: DateTime<Utc>,
    ) -> Outlook;
}

/// What has been learnt. Rebuilt by replaying the history.
pub struct Learners {
    history: History,
    forecaster: Box<dyn Forecaster>,
}

impl Learners {
    /// Nothing learnt yet.
    pub fn new(forecaster: Box<dyn Forecaster>) -> Self {
        Self { history: History::default(), forecaster }
    }

    pub(crate) fn learn(&mut self, tick: Tick) {
        let before = self.history.last().map(|last| last.time);
        self.history.record(tick);
        if self.history.last().map(|last| last.time) != before {
            self.forecaster.learn(&self.history);
        }
    }

    pub(crate) fn forecast(&self, demand: &Demand, known: &KnownFuture, now: DateTime<Utc>) -> Outlook {
        self.forecaster.forecast(&self.history, demand, known, now)
    }
}

/// The window that a forecast looks over: from now until a node ordered at the next decision is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Launch latency, tick and scan together, in seconds.
    pub seconds: i64,
    /// Seconds between ticks.
    pub tick_seconds: i64,
}

impl Lead {
    /// The lead in ticks: rounded, at least one.
    pub fn ticks(self) -> usize {
        let Self { seconds, tick_seconds } = self;
        let tick = tick_seconds.max(1);
        usize::try_from((seconds + tick / 2) / tick).unwrap_or(1).max(1)
    }
}

/// The same expectation for each bucket of a catalog.
fn each(catalog_len: usize, new_nodes: impl Fn(usize) -> u64) -> Outlook {
    let bucket =
        |id| BucketOutlook { new_nodes: Distribution::certain(new_nodes(id)), basis: Reason::Forecast };
    Outlook { buckets: (0..catalog_len).map(bucket).collect() }
}
