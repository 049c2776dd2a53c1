//! How many stopped instances the warm pools of a bucket's groups shall have.
//!
//! A warm pool has instances that an Auto Scaling group has prepared and stopped. A stopped
//! instance costs a few percent of its price, and starts in about a minute, where a new one takes
//! several.
//!
//! A pool covers the new nodes that arrivals need until an instance is prepared, at the quantile at
//! which one more stopped instance pays off. It shrinks late: to prepare an instance again costs as
//! much as to keep it for `latency / share`, so it is kept for that long after it was last wanted,
//! as in the rule for renting or buying skis.

use std::collections::VecDeque;

use chrono::{DateTime, Utc};
use demand::forecast::{Forecaster, Learners, Present};
use demand::record::Tick;
use embedder::Catalog;
use placeholders::Prices;

/// The price of a stopped instance as a share of that of a running one, if nothing else is known:
/// that of its disk.
pub const WARM_SHARE: f64 = 0.02;

/// The time from the start of a stopped instance until its node is ready, in seconds, if nothing
/// else is known.
pub const WARM_START_SECONDS: i64 = 75;

/// What the warm pools of a bucket's groups save and cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmTerms {
    /// The time from the request of a new instance until its node is ready, in seconds.
    pub launch_seconds: i64,
    /// The time from the start of a stopped instance until its node is ready, in seconds.
    pub start_seconds: i64,
    /// The price of a stopped instance as a share of that of a running one, from 0 to 1.
    pub share: f64,
}

impl WarmTerms {
    /// The quantile of new nodes that a pool covers: the newsvendor's ratio of the waiting that a
    /// stopped instance saves, while a launch takes longer than its start, and its price while it
    /// is stopped. `wait` and `idle` are the prices of a waiting pod and of an instance.
    fn quantile(self, wait: f64, idle: f64) -> f64 {
        let launch = self.launch_seconds.max(1) as f64;
        let saved = (1.0 - self.start_seconds as f64 / launch).max(0.0) * wait;
        let stopped = self.share * idle;
        if saved + stopped > 0.0 { saved / (saved + stopped) } else { 0.0 }
    }

    /// How long a stopped instance is kept after it was last wanted, in seconds.
    fn keep_seconds(self) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
        let seconds = (self.launch_seconds as f64 / self.share) as i64;
        seconds
    }
}

/// Decides the sizes of warm pools.
pub struct WarmPools {
    /// They forecast the new nodes within the time in which an instance is prepared.
    learners: Learners,
    /// By bucket. `None` where no pool is possible, as for spot instances.
    pools: Vec<Option<WarmPool>>,
}

/// The pools of the groups of a bucket.
#[derive(Clone, Debug)]
struct WarmPool {
    quantile: f64,
    keep_seconds: i64,
    /// The sizes of the last `keep_seconds` that were not followed by a larger one, with their
    /// times.
    wanted: VecDeque<(i64, u64)>,
}

impl WarmPools {
    /// Creates pools that were never wanted. `forecaster` forecasts the new nodes within the time
    /// in which an instance is prepared. `terms` has, by bucket, what a pool saves and costs, or
    /// `None` where no pool is possible.
    pub fn new(
        forecaster: Box<dyn Forecaster>,
        catalog: &Catalog,
        prices: &Prices,
        terms: &[Option<WarmTerms>],
    ) -> Self {
        let pool = |(bucket, terms): (usize, &Option<WarmTerms>)| {
            let terms = (*terms)?;
            Some(WarmPool {
                quantile: terms.quantile(prices.wait(), prices.idle(bucket)),
                keep_seconds: terms.keep_seconds(),
                wanted: VecDeque::new(),
            })
        };
        Self {
            learners: Learners::new(forecaster, catalog),
            pools: terms.iter().enumerate().map(pool).collect(),
        }
    }

    /// Returns a copy that learns and decides on its own. `None` if the forecaster has no copy.
    pub(crate) fn copy(&self) -> Option<Self> {
        Some(Self { learners: self.learners.copy()?, pools: self.pools.clone() })
    }

    /// Takes the present size of the pools of a bucket as one that is wanted now, after a restart.
    pub fn resume(&mut self, bucket: usize, size: u64, now: DateTime<Utc>) {
        if let Some(pool) = self.pools.get_mut(bucket).and_then(Option::as_mut) {
            pool.largest(size, now.timestamp());
        }
    }

    /// Takes over the sizes that were wanted of the pools that these replace, by the names of the
    /// buckets in both catalogs.
    pub(crate) fn succeed(&mut self, predecessor: &Self, theirs: &Catalog, ours: &Catalog) {
        for (bucket, pool) in ours.buckets().iter().zip(&mut self.pools) {
            let known = theirs.buckets().iter().position(|known| known.name == bucket.name);
            let known = known.and_then(|known| predecessor.pools.get(known)?.as_ref());
            if let (Some(pool), Some(known)) = (pool, known) {
                pool.wanted.clone_from(&known.wanted);
            }
        }
    }

    /// Learns from a tick.
    pub(crate) fn learn(&mut self, tick: Tick) {
        self.learners.learn(tick);
    }

    /// Returns how many stopped instances the pools of each bucket shall have.
    pub(crate) fn decide(&mut self, present: &Present<'_>) -> Vec<u64> {
        let outlook = self.learners.forecast(present);
        let now = present.time.timestamp();
        let size = |(outlook, pool): (&demand::forecast::BucketOutlook, &mut Option<WarmPool>)| {
            let Some(pool) = pool else { return 0 };
            pool.largest(outlook.headroom(pool.quantile), now)
        };
        outlook.buckets.iter().zip(&mut self.pools).map(size).collect()
    }
}

impl WarmPool {
    /// Adds a size, and returns the largest one of the last `keep_seconds`.
    fn largest(&mut self, size: u64, now: i64) -> u64 {
        let Self { keep_seconds, wanted, .. } = self;
        while wanted.back().is_some_and(|(_, earlier)| *earlier <= size) {
            wanted.pop_back();
        }
        wanted.push_back((now, size));
        while wanted.front().is_some_and(|(at, _)| now.saturating_sub(*at) > *keep_seconds) {
            wanted.pop_front();
        }
        wanted.front().map_or(size, |(_, largest)| *largest)
    }
}

/// Cuts sizes until they fit: the largest ones to one level, and what is left then goes to the
/// buckets in their order. `fits` must hold of smaller sizes if it holds of larger ones.
pub fn cut_to_fit(sizes: Vec<u64>, fits: impl Fn(&[u64]) -> bool) -> Vec<u64> {
    if fits(&sizes) {
        return sizes;
    }
    let at = |level: u64| sizes.iter().map(|size| *size.min(&level)).collect::<Vec<_>>();
    let (mut low, mut high) = (0, sizes.iter().copied().max().unwrap_or(0));
    while high - low > 1 {
        let level = low + (high - low) / 2;
        if fits(&at(level)) { low = level } else { high = level }
    }
    let mut cut = at(low);
    for (bucket, size) in sizes.iter().enumerate() {
        if *size > low {
            cut[bucket] += 1;
            if !fits(&cut) {
                cut[bucket] -= 1;
            }
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes at these seconds are kept for 100 seconds.
    #[test]
    fn a_size_is_kept_until_it_was_not_wanted_for_long() {
        let mut pool = WarmPool { quantile: 0.9, keep_seconds: 100, wanted: VecDeque::new() };
        let sizes = [(0, 3), (10, 5), (50, 2), (90, 4), (110, 1), (111, 1), (190, 1), (191, 0)];
        let kept = sizes.map(|(now, size)| pool.largest(size, now));
        assert_eq!(kept, [3, 5, 5, 5, 5, 4, 4, 1]);
        assert_eq!(pool.wanted.len(), 2);
    }

    /// Launches take 300 seconds and starts 75, so a stopped instance saves three quarters of a
    /// waiting that costs nine times as much as an instance, for a fiftieth of its price.
    #[test]
    fn the_quantile_weighs_the_waiting_that_is_saved_against_the_price_while_stopped() {
        let of = |share, start_seconds| {
            WarmTerms { launch_seconds: 300, start_seconds, share }.quantile(18.0, 2.0)
        };
        assert!((of(0.02, 75) - 6.75 / 6.77).abs() < 1e-12);
        // Instances that cost nothing, and those that start no faster.
        assert_eq!((of(0.0, 75), of(0.02, 300), of(0.0, 300)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn an_instance_is_kept_as_long_as_its_preparation_costs() {
        let keep =
            |share| WarmTerms { launch_seconds: 300, start_seconds: 75, share }.keep_seconds();
        assert_eq!((keep(0.02), keep(1.0), keep(0.0)), (15_000, 300, i64::MAX));
    }
}
