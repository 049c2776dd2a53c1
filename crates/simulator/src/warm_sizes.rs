//! How many stopped instances the warm pools shall have.
//!
//! A pool covers the new nodes that arrivals need until an instance is prepared, at the quantile at
//! which one more stopped instance pays off. It shrinks late: to prepare an instance again costs as
//! much as to keep it for `latency / share`, so it is kept for that long after it was last wanted,
//! as in the rule for renting or buying skis.

use std::collections::VecDeque;

use chrono::DateTime;
use control::{Control, Observed};
use demand::forecast::Method;
use embedder::{BucketId, Catalog};
use placeholders::{Policy, Prices};

use super::forecasters::causal_forecaster;
use super::input::SimulationInput;
use super::named_policy::NamedPolicy;
use super::settings::SimulationSettings;
use crate::replay::may_stop;

/// Decides the sizes of warm pools.
pub(super) struct WarmSizes {
    /// It forecasts the new nodes within the time in which an instance is prepared.
    control: Control,
    /// The quantile of each bucket. 0 for spot instances, which cannot be stopped.
    quantiles: Vec<f64>,
    /// How long a size is kept, in seconds.
    keep_seconds: i64,
    /// By bucket, the sizes of the last `keep_seconds` that were not followed by a larger one, with
    /// their times.
    wanted: Vec<VecDeque<(i64, u64)>>,
}

impl WarmSizes {
    /// Returns `None` if the settings admit no forecast.
    pub(super) fn new(world: SimulationInput<'_>, prices: &Prices) -> Option<Self> {
        let SimulationInput { catalog, settings, window, .. } = world;
        let increments = NamedPolicy::Forecast(Method::Increments, None);
        let from = DateTime::from_timestamp(window.0, 0).unwrap_or_default();
        let forecaster = causal_forecaster(increments, settings, catalog, from)?;
        let quantiles = (0..catalog.len()).map(|id| quantile(prices, id, settings, catalog));
        let keep = settings.launch_latency.typical() as f64 / settings.warm_share;
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
        let keep_seconds = keep as i64;
        Some(Self {
            control: Control::new(forecaster, catalog, settings.tick.as_seconds()),
            quantiles: quantiles.collect(),
            keep_seconds,
            wanted: vec![VecDeque::new(); catalog.len()],
        })
    }

    /// Returns a copy that learns and decides on its own. `None` if the forecaster has no copy.
    pub(super) fn copy(&self) -> Option<Self> {
        let (quantiles, wanted) = (self.quantiles.clone(), self.wanted.clone());
        Some(Self { control: self.control.copy()?, quantiles, wanted, ..*self })
    }

    /// Learns from what was observed.
    pub(super) fn watch(&mut self, observed: &Observed) {
        self.control.watch(observed);
    }

    /// Returns the size of the pools of each bucket.
    pub(super) fn decide(&mut self, observed: &Observed) -> Vec<u64> {
        let now = observed.time.timestamp();
        let turn = self.control.turn(observed, &Policy::default());
        let outlooks = turn.outlook.buckets.iter().zip(&self.quantiles);
        let sizes = outlooks.map(|(outlook, quantile)| outlook.headroom(*quantile));
        let keep_seconds = self.keep_seconds;
        let wanted = sizes.zip(&mut self.wanted);
        wanted.map(|(size, wanted)| largest(wanted, size, now, keep_seconds)).collect()
    }
}

/// Adds a size, and returns the largest one of the last `keep_seconds`.
fn largest(wanted: &mut VecDeque<(i64, u64)>, size: u64, now: i64, keep_seconds: i64) -> u64 {
    while wanted.back().is_some_and(|(_, earlier)| *earlier <= size) {
        wanted.pop_back();
    }
    wanted.push_back((now, size));
    while wanted.front().is_some_and(|(at, _)| now.saturating_sub(*at) > keep_seconds) {
        wanted.pop_front();
    }
    wanted.front().map_or(size, |(_, largest)| *largest)
}

/// The quantile of the new nodes that the pool of a bucket covers: the newsvendor's ratio of the
/// waiting that a stopped instance saves, while a launch takes longer than its start, and its price
/// while it is stopped.
fn quantile(
    prices: &Prices,
    bucket: BucketId,
    settings: &SimulationSettings,
    catalog: &Catalog,
) -> f64 {
    if !may_stop(&catalog.buckets()[bucket]) {
        return 0.0;
    }
    let launch = settings.launch_latency.typical().max(1) as f64;
    let saved = (1.0 - settings.warm_start.as_seconds() as f64 / launch).max(0.0) * prices.wait();
    let stopped = settings.warm_share * prices.idle(bucket);
    if saved + stopped > 0.0 { saved / (saved + stopped) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use placeholders::Objective;

    use super::*;

    /// Sizes at these seconds are kept for 100 seconds.
    #[test]
    fn a_size_is_kept_until_it_was_not_wanted_for_long() {
        let mut wanted = VecDeque::new();
        let sizes = [(0, 3), (10, 5), (50, 2), (90, 4), (110, 1), (111, 1), (190, 1), (191, 0)];
        let kept = sizes.map(|(now, size)| largest(&mut wanted, size, now, 100));
        assert_eq!(kept, [3, 5, 5, 5, 5, 4, 4, 1]);
        assert_eq!(wanted.len(), 2);
    }

    /// Launches take 300 seconds and starts 75, so a stopped instance saves three quarters of a
    /// waiting that costs nine times as much as an instance, for a fiftieth of its price.
    #[test]
    fn the_quantile_weighs_the_waiting_that_is_saved_against_the_price_while_stopped() {
        let catalog = testkit::catalog([("one", 8_000, 2.0)]);
        let prices = Prices::new(Objective::default(), &catalog);
        let of = |warm_share, warm_start| {
            let warm_start = base::span::Span::seconds(warm_start);
            let settings = SimulationSettings { warm_start, warm_share, ..Default::default() };
            quantile(&prices, 0, &settings, &catalog)
        };
        assert!((of(0.02, 75) - 6.75 / 6.77).abs() < 1e-12);
        // Instances that cost nothing, and those that start no faster.
        assert_eq!((of(0.0, 75), of(0.02, 300), of(0.0, 300)), (1.0, 0.0, 0.0));
    }
}
