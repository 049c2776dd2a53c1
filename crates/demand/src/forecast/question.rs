//! The interface of a forecasting method: its inputs, its outlook and the trait [`Forecaster`].
//!
//! Every method forecasts D, the new nodes that arrivals need within the lead time, for each
//! bucket.

use chrono::{DateTime, Utc};
use embedder::{BucketId, Demand};
use placeholders::Reason;

use super::cache::Copied;
use super::carrier::Carrier;
use super::demand_ahead::{Ahead, unchanged};
use super::distribution::Distribution;
use super::model_fault::ModelFault;
use crate::record::{History, ShapeId};

/// The most placeholders of a bucket that a constant or an expression can request: more than the
/// nodes of the largest clusters of Kubernetes, which have 15,000.
pub const HEADROOM_MAX: u64 = 1 << 14;

/// The forecast of all buckets of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    /// One outlook per bucket, in the order of the catalog.
    pub buckets: Vec<BucketOutlook>,
}

impl Outlook {
    /// An outlook that consists of one certain count of new nodes for each bucket of a catalog.
    pub fn certain(catalog_len: usize, mut new_nodes: impl FnMut(usize) -> u64) -> Self {
        let bucket =
            |id| BucketOutlook::new(Distribution::certain(new_nodes(id)), Reason::Forecast);
        Self { buckets: (0..catalog_len).map(bucket).collect() }
    }
}

/// The forecast of one bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketOutlook {
    /// The distribution of D: the new nodes, beyond present demand, that arrivals need within the
    /// lead time.
    pub new_nodes: Distribution,
    /// For each rank, the distribution of the instances that the gang with this rank needs, among
    /// the gangs larger than an instance that arrive within the lead time, the largest first. It is
    /// the distribution where there is a gang with this rank.
    pub gangs: Vec<Distribution>,
    /// [`Reason::Forecast`], or [`Reason::TooLittleHistory`] if the history did not suffice, or
    /// [`Reason::Expression`].
    pub reason: Reason,
    /// The expert that made this forecast. `None` where no ensemble chose among experts.
    pub carrier: Option<Carrier>,
    /// The share of the headroom that stands, in [0, 1]: less than 1 where the namespaces from
    /// which the forecast was learnt may have less, or submit no more.
    pub share: f64,
    /// The nodes of the headroom that stand in place of those of other buckets. Their share was
    /// taken there.
    pub moved: u64,
}

impl BucketOutlook {
    /// An outlook without a carrier. Its headroom is the quantile that the prices imply.
    pub fn new(new_nodes: Distribution, reason: Reason) -> Self {
        Self { new_nodes, gangs: Vec::new(), reason, carrier: None, share: 1.0, moved: 0 }
    }

    /// No new nodes, because the history is too short.
    pub(crate) fn nothing() -> Self {
        Self::new(Distribution::certain(0), Reason::TooLittleHistory)
    }

    /// Returns the headroom in nodes.
    ///
    /// The headroom is the quantile of the carrier, or the largest count where the carrier has no
    /// quantile. Without a carrier it is `quantile`, that of [`placeholders::Prices`]. Of it,
    /// `share` stands, rounded up.
    pub fn headroom(&self, quantile: f64) -> u64 {
        let whole = self.new_nodes.quantile(self.level(quantile));
        if self.share >= 1.0 {
            return whole;
        }
        // Counts of nodes are far below 2^53. A rounding error adds no node.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates"
        )]
        let stands = (whole.saturating_sub(self.moved) as f64 * self.share - 1e-6).ceil() as u64;
        stands.saturating_add(self.moved)
    }

    /// Returns the sizes of the virtual instances that the headroom should contain, in instances,
    /// the largest first.
    ///
    /// Nodes in one group serve single pods as well as nodes in several groups do. Therefore the
    /// sizes do not depend on how probable a gang is: the size of each rank is the quantile of
    /// [`Self::headroom`] among the sizes that the rest of the headroom can hold.
    pub fn gangs(&self, quantile: f64) -> Vec<u64> {
        let (level, mut rest) = (self.level(quantile), self.headroom(quantile));
        let mut sizes = Vec::new();
        for rank in &self.gangs {
            let Some(size) = rank.quantile_up_to(level, rest) else { break };
            rest -= size;
            sizes.push(size);
        }
        sizes
    }

    fn level(&self, quantile: f64) -> f64 {
        let of_carrier = |carrier: Carrier| carrier.quantile.unwrap_or(1.0);
        self.carrier.map_or(quantile, of_carrier)
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
    /// The part of the rise of demand since the last tick that is due to planned pods, by bucket.
    /// Empty without planned pods.
    pub planned: &'a [u64],
}

impl<'a> Present<'a> {
    /// The state at a tick, where no pod has arrived since.
    pub fn at_tick(time: DateTime<Utc>, demand: &'a Demand) -> Self {
        Self { time, demand, arriving: &[], planned: &[] }
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

    /// Returns a copy that learns and forecasts on its own. `None` for methods that are not copied,
    /// because they learn fast or read more than the history.
    ///
    /// Methods that share a value share its copy in `copied`.
    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        None
    }
}

/// A method that also forecasts demand itself.
pub trait DemandForecaster: Forecaster {
    /// Forecasts demand `ticks` ticks after the last tick of `history`, per bucket.
    ///
    /// A method without a forecast of demand returns the demand of the last tick.
    fn demand_ahead(&self, history: &History, _ticks: usize) -> Vec<Ahead> {
        unchanged(history)
    }
}
