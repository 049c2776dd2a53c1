//! Forecasts of demand itself, for which the backtest measures errors. No decision uses them.

use super::distribution::Distribution;
use crate::record::{BucketTick, History};

/// A forecast of the demand of one bucket at a future tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Ahead {
    /// The mean demand, in nodes, at least 0. It is scored by the squared error, which the mean
    /// minimises.
    pub mean: f64,
    /// The distribution of the demand, in nodes.
    pub demand: Distribution,
}

impl Ahead {
    /// A demand of `nodes` with certainty.
    pub(crate) fn certain(nodes: u64) -> Self {
        Self { mean: nodes as f64, demand: Distribution::certain(nodes) }
    }
}

/// Forecasts the demand of the last tick, per bucket.
pub(crate) fn unchanged(history: &History) -> Vec<Ahead> {
    let buckets = history.last().map_or(&[][..], |tick| &tick.buckets);
    buckets.iter().map(|bucket: &BucketTick| Ahead::certain(bucket.demand)).collect()
}
