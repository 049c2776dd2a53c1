//! How many new nodes will arrivals need until a node ordered now is ready?
//!
//! Every method answers that question for each bucket, as a distribution of counts: it learns at ticks and answers at any
//! time, for the state of that moment, from the past alone.
//!
//! ```text
//! distribution.rs   counts with their chances
//! ahead.rs          demand ahead, by how it changed after past moments: what forecast errors are judged by
//! ladder.rs         a step function of running cores and nodes
//! last_value.rs     persistence: nothing new will be needed
//! increments.rs     the decayed empirical distribution of past needs
//! seasonal.rs       past needs at this time of day
//! state.rs          past needs where free room and arrivals were alike (needs.rs: past needs; past.rs: past windows, drawn by weight)
//! scenario.rs       past windows of arrivals, packed onto the free room of the moment (shapes.rs, activity.rs)
//! moving_window.rs  Autopilot's moving window over demand
//! autopilot_ml.rs   Autopilot's recommender that chooses among models
//! holt_winters.rs   exponential smoothing of demand, with a trend and a daily season
//! arima.rs          ARIMA(7, 1, 7) over demand (least_squares.rs: its fit)
//! mstl.rs           the season and the trend of demand, taken apart (changepoint.rs: since when)
//! paths.rs          from these three, which forecast demand, to new nodes (errors.rs: by their past errors)
//! calibrated.rs     one of these, so that the quantile that is asked for is exceeded as often as it says
//! ensemble/         experts that are (method, quantile) pairs, followed by what each would have cost
//! method.rs         the methods by name, and what they rest on
//! hyperparameters.rs  every number that could be tuned
//! onnx/             a trained network, from a file that keeps the contract
//! reference.rs      what a table needs beside them: constant, static maximum, oracle
//! ```

mod activity;
mod ahead;
mod arima;
mod autopilot_ml;
mod calibrated;
mod changepoint;
#[cfg(test)]
mod coverage;
mod distribution;
mod ensemble;
mod errors;
mod holt_winters;
mod hyperparameters;
mod increments;
mod ladder;
mod last_value;
mod least_squares;
mod method;
mod moving_window;
mod mstl;
mod needs;
pub mod onnx;
mod past;
mod paths;
#[cfg(test)]
mod properties;
mod reference;
#[cfg(test)]
pub(crate) mod sample;
mod scenario;
mod seasonal;
mod shapes;
mod state;

use chrono::{DateTime, Utc};
use embedder::Demand;
use placeholders::{Objective, Reason};

pub use arima::Arima;
pub use autopilot_ml::AutopilotMl;
pub use calibrated::Calibrated;
pub use distribution::Distribution;
pub use ensemble::{Blend, Carrier, Ensemble};
pub use holt_winters::HoltWinters;
pub use increments::Increments;
pub use ladder::{Ladder, LadderForecaster};
pub use last_value::LastValue;
pub use method::{Basis, Method};
pub use moving_window::MovingWindow;
pub use mstl::Mstl;
pub use paths::Paths;
pub use reference::{Constant, Oracle, StaticMax};
pub use scenario::Scenario;
pub use seasonal::Seasonal;
pub use state::State;

use self::onnx::ModelFault;
use crate::record::{BucketTick, History, ShapeId, Tick};

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
    /// The expert whose word it is, where several were heard.
    pub carrier: Option<Carrier>,
}

impl BucketOutlook {
    /// Of which the objective's quantile is to be held.
    pub fn new(new_nodes: Distribution, basis: Reason) -> Self {
        Self { new_nodes, basis, carrier: None }
    }

    /// Nothing is expected, for want of a history.
    fn nothing() -> Self {
        Self::new(Distribution::certain(0), Reason::TooLittleHistory)
    }

    /// The nodes to hold: a carrier knows its quantile, else it is the objective's.
    pub fn headroom(&self, objective: Objective) -> u64 {
        let quantile =
            self.carrier.map_or_else(|| objective.quantile(), |carrier| carrier.quantile.unwrap_or(1.0));
        self.new_nodes.quantile(quantile)
    }
}

/// What is known at a moment, beside the history.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// When.
    pub time: DateTime<Utc>,
    /// Present demand.
    pub demand: &'a Demand,
    /// Pods that arrived since the last tick, by shape.
    pub arriving: &'a [(ShapeId, u64)],
    /// By how much offered demand will rise within the lead, per bucket. Only a replay knows it, and only the
    /// [`Oracle`] may look.
    pub rise: &'a [u64],
}

impl<'a> Present<'a> {
    /// At a tick: nothing has arrived since.
    pub fn at_tick(time: DateTime<Utc>, demand: &'a Demand) -> Self {
        Self { time, demand, arriving: &[], rise: &[] }
    }
}

/// A method of forecasting. Deterministic; bounded in memory.
pub trait Forecaster: Send {
    /// Learns from the last tick of `history`, which is new.
    fn learn(&mut self, history: &History);

    /// What is expected now. `history` is what was learnt from; nothing after `now` may be used, but for the rise that it tells.
    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook;

    /// Demand so many ticks after the last of `history`, per bucket: what forecast errors are judged by. No decision rests on
    /// it. A method that has no opinion says that nothing changes.
    fn demand_ahead(&self, history: &History, _ticks: usize) -> Vec<Ahead> {
        unchanged(history)
    }

    /// What was wrong, at the last forecast, with the network that it hears: empty where all is well.
    fn faults(&self) -> Vec<ModelFault> {
        Vec::new()
    }
}

/// Demand of a bucket at a moment to come.
#[derive(Clone, Debug, PartialEq)]
pub struct Ahead {
    /// The forecast that is judged by its square, so that its mean is best: nodes, at least 0.
    pub mean: f64,
    /// Of nodes.
    pub demand: Distribution,
}

impl Ahead {
    /// This demand for sure.
    fn certain(nodes: u64) -> Self {
        Self { mean: nodes as f64, demand: Distribution::certain(nodes) }
    }
}

/// As at the last tick.
fn unchanged(history: &History) -> Vec<Ahead> {
    let buckets = history.last().map_or(&[][..], |tick| &tick.buckets);
    buckets.iter().map(|bucket: &BucketTick| Ahead::certain(bucket.demand)).collect()
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

    pub(crate) fn forecast(&self, now: &Present<'_>) -> Outlook {
        self.forecaster.forecast(&self.history, now)
    }

    pub(crate) fn demand_ahead(&self, ticks: usize) -> Vec<Ahead> {
        self.forecaster.demand_ahead(&self.history, ticks)
    }

    pub(crate) fn faults(&self) -> Vec<ModelFault> {
        self.forecaster.faults()
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
    let bucket = |id| BucketOutlook::new(Distribution::certain(new_nodes(id)), Reason::Forecast);
    Outlook { buckets: (0..catalog_len).map(bucket).collect() }
}
