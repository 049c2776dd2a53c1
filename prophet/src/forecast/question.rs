//! The interface of a forecasting method: its inputs, its outlook and the trait [`Forecaster`].
//!
//! Every method forecasts D, the new nodes that arrivals need within the lead time, for each
//! bucket.

use chrono::{DateTime, Utc};
use embedder::{BucketId, Demand};
use placeholders::Reason;

use super::carrier::Carrier;
use super::distribution::Distribution;
use super::model_fault::ModelFault;
use crate::record::{History, ShapeId};

/// The forecast of all buckets of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// One outlook per bucket, in the order of the catalog.
    pub buckets: Vec<BucketOutlook>,
}

/// The forecast of one bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketOutlook {
    /// The distribution of D: the new nodes, beyond present demand, that arrivals need within the
    /// lead time.
    pub new_nodes: Distribution,
    /// Whether the history sufficed: [`Reason::Forecast`] or [`Reason::TooLittleHistory`].
    pub reason: Reason,
    /// The expert that made this forecast. `None` where no ensemble chose among experts.
    pub carrier: Option<Carrier>,
}

impl BucketOutlook {
    /// An outlook without a carrier. Its headroom is the quantile that the prices imply.
    pub fn new(new_nodes: Distribution, reason: Reason) -> Self {
        Self { new_nodes, reason, carrier: None }
    }

    /// No new nodes, because the history is too short.
    pub(crate) fn nothing() -> Self {
        Self::new(Distribution::certain(0), Reason::TooLittleHistory)
    }

    /// Returns the headroom in nodes.
    ///
    /// The headroom is the quantile of the carrier, or the largest count where the carrier has no
    /// quantile. Without a carrier it is `quantile`, that of [`placeholders::Prices`].
    pub fn headroom(&self, quantile: f64) -> u64 {
        let of_carrier = |carrier: Carrier| carrier.quantile.unwrap_or(1.0);
        self.new_nodes.quantile(self.carrier.map_or(quantile, of_carrier))
    }
}

/// The state at the moment of a forecast, in addition to the history.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// The moment of the forecast.
    pub time: DateTime<Utc>,
    /// Present demand.
    pub demand: &'a Demand,
    /// Pods that arrived since the last tick, by shape.
    pub arriving: &'a [(ShapeId, u64)],
}

impl<'a> Present<'a> {
    /// The state at a tick, where no pod has arrived since.
    pub fn at_tick(time: DateTime<Utc>, demand: &'a Demand) -> Self {
        Self { time, demand, arriving: &[] }
    }
}

/// A method of forecasting. A method is deterministic and its memory is bounded.
pub trait Forecaster: Send {
    /// Learns from the last tick of `history`, which is new.
    fn learn(&mut self, history: &History);

    /// Forecasts the new nodes of each bucket at the moment `now`.
    ///
    /// `history` is the history from which the method has learnt. The forecast uses `history` and
    /// `now`, and nothing that happens later.
    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook;

    /// Returns the faults of the model at the last forecast. Empty where the method has no model or
    /// the model works.
    fn faults(&self) -> Vec<ModelFault> {
        Vec::new()
    }

    /// Returns the weights of experts for a bucket, by their names, the largest first. Empty where
    /// the method has no experts, and before they are scored.
    fn weights(&self, _bucket: BucketId) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// An outlook that consists of one certain count of new nodes for each bucket of a catalog.
pub(crate) fn each(catalog_len: usize, new_nodes: impl FnMut(usize) -> u64) -> Outlook {
    let mut new_nodes = new_nodes;
    let bucket = |id| BucketOutlook::new(Distribution::certain(new_nodes(id)), Reason::Forecast);
    Outlook { buckets: (0..catalog_len).map(bucket).collect() }
}
