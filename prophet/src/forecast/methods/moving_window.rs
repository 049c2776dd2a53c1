//! Autopilot's moving window over demand (Rzadca et al., Autopilot, 2020, section 3.2.2).
//!
//! Samples, one a tick, weigh w = 2^(-age / half-life) (1). The load-adjusted histogram h\[k\] = k × the weights of samples at
//! k (3) has its 98th percentile; 15 % are added, 10 % above ten nodes; the largest recommendation of the last hour counts.
//! What it exceeds present demand by is held: a point, whatever quantile is asked for.

use std::collections::{BTreeMap, VecDeque};

use crate::forecast::hyperparameters::{
    LIMIT_HALF_LIFE_SECONDS, LIMIT_HOLD_SECONDS, LIMIT_PERCENTILE,
};
use crate::forecast::{
    demand_ahead::{Ahead, DemandForecaster},
    lead::Lead,
    question::{Forecaster, Outlook, Present, each},
};
use crate::record::History;

/// See the module.
pub struct MovingWindow {
    buckets: Vec<Bucket>,
    /// What a weight keeps over a tick.
    keep: f64,
    /// Ticks of an hour.
    hold: usize,
}

#[derive(Clone, Default)]
struct Bucket {
    /// Weights of samples, by demand.
    weights: BTreeMap<u64, f64>,
    /// Recommendations of the last hour.
    recent: VecDeque<u64>,
}

impl MovingWindow {
    /// For so many buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        let hour = Lead { seconds: LIMIT_HOLD_SECONDS, ..lead };
        Self {
            buckets: vec![Bucket::default(); buckets],
            keep: (-lead.tick_seconds as f64 / LIMIT_HALF_LIFE_SECONDS).exp2(),
            hold: hour.ticks(),
        }
    }
}

impl Bucket {
    fn learn(&mut self, demand: u64, keep: f64, hold: usize) {
        self.weights.values_mut().for_each(|weight| *weight *= keep);
        // What has decayed to nothing would only fill memory.
        self.weights.retain(|_, weight| *weight > 1e-9);
        *self.weights.entry(demand).or_default() += 1.0;
        self.recent.push_back(with_margin(self.percentile()));
        while self.recent.len() > hold {
            self.recent.pop_front();
        }
    }

    fn limit(&self) -> u64 {
        self.recent.iter().copied().max().unwrap_or(0)
    }

    fn percentile(&self) -> u64 {
        let load = |(&demand, &weight): (&u64, &f64)| (demand, demand as f64 * weight);
        let total: f64 = self.weights.iter().map(load).map(|(_, load)| load).sum();
        let mut sum = 0.0;
        let reached = self.weights.iter().map(load).find(|(_, load)| {
            sum += load;
            sum >= LIMIT_PERCENTILE * total
        });
        reached.map_or(0, |(demand, _)| demand)
    }
}

/// 15 % more, 10 % above ten nodes, in whole nodes.
fn with_margin(nodes: u64) -> u64 {
    let percent = if nodes > 10 { 10 } else { 15 };
    nodes.saturating_add(nodes.saturating_mul(percent).div_ceil(100))
}

impl Forecaster for MovingWindow {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        let pairs = self.buckets.iter_mut().zip(&tick.buckets);
        pairs.for_each(|(bucket, seen)| bucket.learn(seen.demand_max, self.keep, self.hold));
    }

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(self.buckets.len(), |id| {
            self.buckets[id]
                .limit()
                .saturating_sub(now.demand.present.get(id).copied().unwrap_or(0))
        })
    }
}

impl DemandForecaster for MovingWindow {
    fn demand_ahead(&self, _: &History, _: usize) -> Vec<Ahead> {
        self.buckets.iter().map(|bucket| Ahead::certain(bucket.limit())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's figure 2: nine samples of 1 and one of 10 make loads of 9 and 10, so that the 90th percentile is 10.
    #[test]
    fn percentiles_are_of_load_not_of_time() {
        let mut bucket = Bucket::default();
        std::iter::repeat_n(1, 9).chain([10]).for_each(|demand| bucket.learn(demand, 1.0, 60));
        assert_eq!(bucket.percentile(), 10);
        // 1 in 100 of the load is above 98 %.
        bucket.learn(990, 1.0, 60);
        assert_eq!(bucket.percentile(), 990);
    }

    /// Recommendations are 12 (10 and 15 %), then 1 and a node of margin.
    #[test]
    fn the_largest_of_an_hour_counts() {
        let mut bucket = Bucket::default();
        bucket.learn(10, 0.0, 2);
        bucket.learn(1, 0.0, 2);
        assert_eq!(bucket.recent, [12, 2]);
        bucket.learn(1, 0.0, 2);
        assert_eq!(bucket.recent, [2, 2]);
    }

    #[test]
    fn margins_are_smaller_for_many() {
        assert_eq!([0, 1, 10, 11, 100].map(with_margin), [0, 2, 12, 13, 110]);
    }
}
