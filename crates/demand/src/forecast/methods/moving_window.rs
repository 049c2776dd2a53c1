//! Autopilot's moving window over demand (Rzadca et al., Autopilot, 2020, section 3.2.2).
//!
//! Numbers in parentheses are the paper's equations. Each tick yields one sample, the largest
//! demand of the tick, with the weight w = 2^(-age / half-life) (1). The load-adjusted histogram is
//! h\[k\] = k × the weights of samples at k (3). A recommendation is its 98th percentile plus a
//! margin of 15 %, or of 10 % above ten nodes. The limit is the largest recommendation of the last
//! hour.
//!
//! The headroom is the limit less present demand. It is a single count, so a quantile in the policy
//! has no effect.

use std::collections::BTreeMap;

use usage::{SlidingMax, load_percentile};

use crate::forecast::hyperparameters::{
    LIMIT_HALF_LIFE_SECONDS, LIMIT_HOLD_SECONDS, LIMIT_PERCENTILE,
};
use crate::forecast::{
    demand_ahead::Ahead,
    lead::Lead,
    question::{DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::History;

/// Autopilot's moving window, with a histogram for each bucket.
pub struct MovingWindow {
    buckets: Vec<Bucket>,
    /// The factor by which weights decay in one tick.
    keep: f64,
}

#[derive(Clone)]
struct Bucket {
    /// The weights of samples, per demand in nodes.
    weights: BTreeMap<u64, f64>,
    /// The largest recommendation of the last hour, in nodes.
    held: SlidingMax,
    /// The number of samples.
    samples: i64,
}

impl MovingWindow {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        let hold = LIMIT_HOLD_SECONDS / lead.tick_seconds.max(1);
        Self {
            buckets: vec![Bucket::new(hold); buckets],
            keep: (-lead.tick_seconds as f64 / LIMIT_HALF_LIFE_SECONDS).exp2(),
        }
    }
}

impl Bucket {
    /// A bucket whose recommendations hold for this many ticks.
    fn new(hold: i64) -> Self {
        Self { weights: BTreeMap::new(), held: SlidingMax::new(hold), samples: 0 }
    }

    fn learn(&mut self, demand: u64, keep: f64) {
        self.weights.values_mut().for_each(|weight| *weight *= keep);
        // Negligible weights are dropped, so that memory stays bounded.
        self.weights.retain(|_, weight| *weight > 1e-9);
        *self.weights.entry(demand).or_default() += 1.0;
        self.samples += 1;
        self.held.add(self.samples, with_margin(self.percentile()));
    }

    fn percentile(&self) -> u64 {
        let weights = self.weights.iter().map(|(demand, weight)| (*demand, *weight));
        load_percentile(weights, LIMIT_PERCENTILE)
    }
}

/// Adds a margin of 15 %, or of 10 % above ten nodes, rounded up to whole nodes.
fn with_margin(nodes: u64) -> u64 {
    let percent = if nodes > 10 { 10 } else { 15 };
    nodes.saturating_add(nodes.saturating_mul(percent).div_ceil(100))
}

impl Forecaster for MovingWindow {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        let pairs = self.buckets.iter_mut().zip(&tick.buckets);
        pairs.for_each(|(bucket, seen)| bucket.learn(seen.demand_max, self.keep));
    }

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        Outlook::certain(self.buckets.len(), |id| {
            self.buckets[id]
                .held
                .max()
                .saturating_sub(now.demand.present.get(id).copied().unwrap_or(0))
        })
    }
}

impl DemandForecaster for MovingWindow {
    fn demand_ahead(&self, _: &History, _: usize) -> Vec<Ahead> {
        self.buckets.iter().map(|bucket| Ahead::certain(bucket.held.max())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the paper's figure 2, nine samples of 1 and one sample of 10 have the loads 9 and 10, so
    /// the 90th percentile is 10.
    #[test]
    fn percentiles_are_taken_over_load_and_not_over_time() {
        let mut bucket = Bucket::new(60);
        std::iter::repeat_n(1, 9).chain([10]).for_each(|demand| bucket.learn(demand, 1.0));
        assert_eq!(bucket.percentile(), 10);
        // The samples below 990 have a load of 19, which is below 98 % of the total of 1009.
        bucket.learn(990, 1.0);
        assert_eq!(bucket.percentile(), 990);
    }

    /// The recommendations are 12, which is 10 plus 15 %, and then 2, which is 1 plus a margin of
    /// one node.
    #[test]
    fn recommendations_are_held_for_the_configured_ticks() {
        let mut bucket = Bucket::new(2);
        let mut learn = |demand: u64| {
            bucket.learn(demand, 0.0);
            bucket.held.max()
        };
        assert_eq!([10, 1, 1].map(&mut learn), [12, 12, 2]);
    }

    #[test]
    fn the_margin_is_relatively_smaller_above_ten_nodes() {
        assert_eq!([0, 1, 10, 11, 100].map(with_margin), [0, 2, 12, 13, 110]);
    }
}
