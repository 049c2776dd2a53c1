//! A forecaster with the history from which it has learnt.

use embedder::{BucketId, Catalog};

use super::cache::Copied;
use super::demand_ahead::Ahead;
use super::model_fault::ModelFault;
use super::question::{DemandForecaster, Forecaster, Outlook, Present};
use crate::record::{History, Tick};

/// A forecaster and its history. A replay of the history rebuilds both.
pub struct Learners<F: Forecaster + ?Sized = dyn Forecaster> {
    history: History,
    forecaster: Box<F>,
}

impl<F: Forecaster + ?Sized> Learners<F> {
    /// A forecaster that has learnt nothing yet, with an empty history of the buckets of `catalog`.
    pub fn new(forecaster: Box<F>, catalog: &Catalog) -> Self {
        Self { history: History::new(catalog), forecaster }
    }

    /// Records a tick, and learns from it. A tick that is not later than the last one is dropped.
    pub fn learn(&mut self, tick: Tick) {
        let before = self.history.last().map(|last| last.time);
        self.history.record(tick);
        if self.history.last().map(|last| last.time) != before {
            self.forecaster.learn(&self.history);
        }
    }

    /// Forecasts the new nodes of each bucket, for the state of this moment.
    pub fn forecast(&self, now: &Present<'_>) -> Outlook {
        self.forecaster.forecast(&self.history, now)
    }

    /// Returns the history from which the forecaster has learnt.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the faults of the models, as [`Forecaster::faults`].
    pub fn faults(&self) -> Vec<ModelFault> {
        self.forecaster.faults()
    }

    /// Returns the weights of experts for a bucket, as [`Forecaster::weights`].
    pub fn weights(&self, bucket: BucketId) -> Vec<(String, f64)> {
        self.forecaster.weights(bucket)
    }
}

impl Learners<dyn Forecaster> {
    /// Returns a copy that learns on its own. `None` if the forecaster cannot be copied.
    pub fn copy(&self) -> Option<Self> {
        Some(Self {
            forecaster: self.forecaster.copy(&mut Copied::default())?,
            history: self.history.clone(),
        })
    }
}

impl Learners<dyn DemandForecaster> {
    /// Forecasts the demand in `ticks` ticks, as [`DemandForecaster::demand_ahead`].
    pub fn demand_ahead(&self, ticks: usize) -> Vec<Ahead> {
        self.forecaster.demand_ahead(&self.history, ticks)
    }
}
