//! The decayed empirical distribution of past needs.
//!
//! At each tick the need of the window that ends with it becomes known: D, the largest demand
//! within the window less the demand at its start. The forecast is a histogram of D with
//! exponentially decaying weights. It does not depend on the present state.
//!
//! Where the history of a bucket is too short, the histogram over all buckets is used. Where that
//! history is also too short, the normal approximation of compound arrivals is used: the quantile q
//! of D is `z_q` sqrt(batch × rate × lead), where batch = E\[b²\]/E\[b\] over the rises b of demand
//! from tick to tick, and rate is in nodes a second, averaged over at least two hours of one-minute
//! ticks. One burst is no evidence of another one, so the approximation is capped: of the sums of
//! rises in the lead times so far, the third largest is the most.

use std::sync::OnceLock;

use embedder::BucketId;
use placeholders::Reason;

use crate::forecast::histogram::{GrowingWeight, Histogram};
use crate::forecast::hyperparameters::{HALF_LIFE_SECONDS, STRIDE, WINDOWS_MIN};
use crate::forecast::windows::{Changes, need};
use crate::forecast::{
    cache::Copied,
    demand_ahead::Ahead,
    distribution::Distribution,
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::{History, Tick};

/// Forecasts D from a decayed histogram of past needs, for each bucket and over all buckets.
#[derive(Clone)]
pub struct Increments {
    lead: Lead,
    buckets: Vec<NeedHistogram>,
    /// The histogram over all buckets in use.
    pooled: NeedHistogram,
    weight: GrowingWeight,
    changes: Changes,
}

/// A decayed histogram of needs, with the sums for the normal approximation.
#[derive(Clone, Debug, Default)]
struct NeedHistogram {
    /// The needs, in nodes.
    needs: Histogram<u64>,
    /// The number of ticks at which a need was added.
    windows: f64,
    /// Whether there has ever been demand.
    used: bool,
    /// The number of ticks over which rises of demand were counted.
    ticks: u64,
    /// The sum of the rises, in nodes.
    rises: u64,
    /// The sum of the squared rises, in squared nodes.
    squares: u64,
    /// The sum of the rises in the current lead time, and the largest of earlier ones, in nodes.
    lead_rises: u64,
    largest: [u64; SEPARATE],
    /// The distribution, cached until a need is added.
    distribution: OnceLock<Distribution>,
}

/// The largest forecast of the rule of thumb, in nodes.
const THUMB_MAX: u64 = 1_000;

/// The number of lead times with rises that a rule of thumb needs. The first burst of a history can
/// fall into two of them.
const SEPARATE: usize = 3;

impl Increments {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self {
            lead,
            buckets: vec![NeedHistogram::default(); buckets],
            pooled: NeedHistogram::default(),
            weight: GrowingWeight::new(lead),
            changes: Changes::new(lead),
        }
    }

    fn bucket(&self, id: BucketId) -> BucketOutlook {
        let own = &self.buckets[id];
        // The needs of other buckets are no evidence for a bucket that was never in use.
        let pooled = Some(&self.pooled).filter(|_| own.used);
        let seen = [Some(own), pooled]
            .into_iter()
            .flatten()
            .find(|needs| needs.windows >= WINDOWS_MIN as f64);
        match seen {
            Some(needs) => BucketOutlook::new(needs.distribution(), Reason::Forecast),
            None => BucketOutlook::new(own.rule_of_thumb(self.lead), Reason::TooLittleHistory),
        }
    }
}

impl Forecaster for Increments {
    fn learn(&mut self, history: &History) {
        let window = self.lead.ticks();
        let ticks: Vec<&Tick> = history.latest(window + 1).collect();
        let Some((start, rest)) = ticks.split_first() else { return };
        for (id, needs) in self.buckets.iter_mut().enumerate() {
            let at = |tick: &Tick| tick.buckets.get(id).copied().unwrap_or_default();
            if let Some((last, before)) =
                rest.split_last().map(|(last, before)| (last, before.last().unwrap_or(start)))
            {
                // Only demand at ticks counts here, because demand that ends between two ticks is
                // too little evidence for a cold start.
                let rise = at(last).demand.saturating_sub(at(before).demand);
                needs.rise(rise.saturating_sub(at(last).planned), self.lead);
            }
            needs.used |= rest.last().is_some_and(|last| at(last).demand_max > 0);
            if rest.len() == window && needs.used {
                let need = need(&ticks, id);
                needs.add(need, self.weight.now());
                needs.windows += 1.0;
                self.pooled.add(need, self.weight.now());
            }
        }
        if rest.len() == window && self.buckets.iter().any(|needs| needs.used) {
            self.pooled.windows += 1.0;
        }
        if let Some(scale) = self.weight.next_tick() {
            self.buckets.iter_mut().chain([&mut self.pooled]).for_each(|of| of.needs.scale(scale));
        }
    }

    fn forecast(&self, _: &History, _: &Present<'_>) -> Outlook {
        Outlook { buckets: (0..self.buckets.len()).map(|id| self.bucket(id)).collect() }
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.clone()))
    }
}

impl DemandForecaster for Increments {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let now = history.last().map_or(0, |tick| tick.time.timestamp());
        let apart = self.lead.tick_seconds * i64::try_from(STRIDE).unwrap_or(1);
        let keep = (-apart as f64 / HALF_LIFE_SECONDS).exp2();
        let earlier = |&(at, weight): &(i64, f64)| Some((at - apart, weight * keep));
        let count = history.len().div_ceil(STRIDE);
        self.changes
            .ahead(history, ticks, || std::iter::successors(Some((now, 1.0)), earlier).take(count))
    }
}

impl NeedHistogram {
    fn add(&mut self, need: u64, weight: f64) {
        self.needs.add(need, weight);
        self.distribution = OnceLock::new();
    }

    fn rise(&mut self, nodes: u64, lead: Lead) {
        self.ticks += 1;
        self.lead_rises = self.lead_rises.saturating_add(nodes);
        if self.ticks.is_multiple_of(lead.ticks() as u64) {
            self.largest = self.largest_with_current();
            self.lead_rises = 0;
        }
        self.rises = self.rises.saturating_add(nodes);
        self.squares = self.squares.saturating_add(nodes.saturating_mul(nodes));
    }

    /// The largest sums of rises in a lead time, the largest one first.
    fn largest_with_current(&self) -> [u64; SEPARATE] {
        let [first, second, third] = self.largest;
        let mut sums = [first, second, third, self.lead_rises];
        sums.sort_unstable_by(|a, b| b.cmp(a));
        let [first, second, third, _] = sums;
        [first, second, third]
    }

    fn distribution(&self) -> Distribution {
        let weights = || self.needs.iter().map(|(need, weight)| (*need, weight));
        self.distribution.get_or_init(|| Distribution::weighted(weights())).clone()
    }

    /// Returns the normal approximation, in whole nodes. It is truncated at 4 standard deviations
    /// and at the third largest sum of rises in a lead time.
    fn rule_of_thumb(&self, lead: Lead) -> Distribution {
        let [.., cap] = self.largest_with_current();
        if cap == 0 || self.rises == 0 || self.ticks == 0 {
            return Distribution::certain(0);
        }
        let batch = self.squares as f64 / self.rises as f64;
        // The lower bound keeps the first rise from yielding too high a rate.
        let ticks = (self.ticks as f64).max(WINDOWS_MIN as f64);
        let rate = self.rises as f64 / (ticks * lead.tick_seconds as f64);
        let deviation = (batch * rate * lead.seconds as f64).sqrt();
        let below = |nodes: u64| normal_cdf(nodes as f64 / deviation);
        let most = cap.min(THUMB_MAX);
        let most = (0..most).find(|nodes| *nodes as f64 >= 4.0 * deviation).unwrap_or(most);
        let steps = (0..=most).map(|nodes| {
            let at_most = if nodes == most { 1.0 } else { below(nodes) };
            (nodes, at_most - if nodes > 0 { below(nodes - 1) } else { 0.0 })
        });
        Distribution::weighted(steps)
    }
}

/// The standard normal distribution function, by Abramowitz and Stegun 7.1.26, with an absolute
/// error of at most 1.5e-7.
fn normal_cdf(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let erf = 1.0 - poly * (-x * x).exp();
    if z >= 0.0 { 0.5 * (1.0 + erf) } else { 0.5 * (1.0 - erf) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample::{self, LEAD};
    use crate::record::BucketTick;

    fn learnt(demand: impl Iterator<Item = u64>) -> Increments {
        let (mut history, mut increments) =
            (History::new(&sample::catalog()), Increments::new(1, LEAD));
        for (minute, demand) in demand.enumerate() {
            let minute = i64::try_from(minute).unwrap();
            let bucket = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket]));
            increments.learn(&history);
        }
        increments
    }

    /// Demand rises by 4 once in ten ticks and falls back, so three of ten windows of three ticks
    /// contain the rise.
    #[test]
    fn the_quantile_is_the_quantile_of_past_needs() {
        let spikes = learnt((0..1_000).map(|minute| if minute % 10 == 0 { 4 } else { 0 }));
        let outlook = spikes.bucket(0);
        assert_eq!(outlook.reason, Reason::Forecast);
        assert_eq!((outlook.new_nodes.quantile(0.65), outlook.new_nodes.quantile(0.75)), (0, 4));
    }

    /// There are 10 rises of 2 nodes in 100 ticks, which count as 120 ticks. With batch 2, rate 20
    /// / 7200 s and lead time 180 s the standard deviation is 1.
    #[test]
    fn a_cold_start_uses_the_normal_approximation() {
        let cold = learnt((0..101).map(|minute| 2 * (minute / 10)));
        let outlook = cold.bucket(0);
        assert_eq!(outlook.reason, Reason::TooLittleHistory);
        // The normal quantiles are 1.645 nodes at 0.95 and 2.326 nodes at 0.99, but no lead time
        // had more than 2.
        assert_eq!((outlook.new_nodes.quantile(0.95), outlook.new_nodes.quantile(0.99)), (2, 2));
        assert!(learnt(std::iter::repeat_n(7, 50)).bucket(0).new_nodes.quantile(0.999) == 0);
    }

    /// Bursts of 500 nodes, half an hour apart. The first two are no evidence of a third.
    #[test]
    fn a_cold_start_holds_nothing_for_one_burst() {
        let bursts = |minutes: i64| {
            let demand = (0..minutes).map(|minute| if minute % 30 == 15 { 500 } else { 0 });
            learnt(demand).bucket(0).new_nodes.quantile(0.9)
        };
        let held: Vec<u64> = [16, 45, 46, 75, 76, 100].map(bursts).to_vec();
        assert!(held[..4] == [0; 4] && held[4] > 0 && held[5] <= 500, "{held:?}");
    }

    /// One of eight buckets is in use. The forecast for the others is 0.
    #[test]
    fn the_needs_of_other_buckets_do_not_apply_to_an_unused_bucket() {
        let (mut history, mut increments) =
            (History::new(&sample::catalog()), Increments::new(8, LEAD));
        for minute in 0..400 {
            let demand = if minute % 5 == 0 { 9 } else { 0 };
            let mut buckets = vec![BucketTick::default(); 8];
            buckets[3] = BucketTick { demand, demand_max: demand, ..BucketTick::default() };
            history.record(sample::tick(minute, buckets));
            increments.learn(&history);
        }
        let quantiles: Vec<u64> =
            (0..8).map(|id| increments.bucket(id).new_nodes.quantile(0.95)).collect();
        assert_eq!(quantiles, [0, 0, 0, 9, 0, 0, 0, 0]);
    }

    #[test]
    fn the_normal_distribution_matches_tabulated_values() {
        for (z, chance) in [(0.0, 0.5), (1.0, 0.841_345), (1.645, 0.950_015), (-2.326, 0.010_009)] {
            assert!((normal_cdf(z) - chance).abs() < 1e-5, "{z}");
        }
    }
}
