//! Demand ahead, from the changes of demand after past moments.
//!
//! The method gives each past moment t a weight. Demand h ticks ahead is present demand plus the
//! change d(t + h) - d(t), and at least 0. Only moments whose change is wholly in the past count.
//! The demand of the history is copied at the first call only, because no decision needs it.

use std::collections::VecDeque;

use super::past::draw;
use crate::forecast::hyperparameters::WINDOWS;
use crate::forecast::{cache::Cache, demand_ahead::Ahead, distribution::Distribution, lead::Lead};
use crate::record::History;

/// Forecasts demand ahead from past changes, with a lazily built copy of past demand.
#[derive(Clone)]
pub(crate) struct Changes {
    tick_seconds: i64,
    past: Cache<Past>,
}

/// A copy of the demand in the history, which is empty until the first forecast.
#[derive(Clone, Default)]
struct Past {
    /// The times of the ticks in Unix seconds, oldest first.
    times: VecDeque<i64>,
    /// The demand in nodes, per bucket and tick.
    demand: Vec<VecDeque<u64>>,
    /// The positions of past ticks with their weights, as of the last tick.
    moments: Vec<(usize, f64)>,
}

impl Changes {
    pub(crate) fn new(lead: Lead) -> Self {
        Self { tick_seconds: lead.tick_seconds.max(1), past: Cache::default() }
    }

    /// Forecasts demand `ticks` ticks after the last tick, per bucket.
    ///
    /// `moments` returns past moments in Unix seconds with their weights. It is called once for
    /// each new tick.
    pub(crate) fn ahead<M: Iterator<Item = (i64, f64)>>(
        &self,
        history: &History,
        ticks: usize,
        moments: impl FnOnce() -> M,
    ) -> Vec<Ahead> {
        let mut past = self.past.lock();
        if past.catch_up(history) {
            let known = moments().filter_map(|(start, weight)| {
                Some((past.place(start, self.tick_seconds)?, weight))
            });
            past.moments = known.collect();
        }
        let after = i64::try_from(ticks).unwrap_or(i64::MAX).saturating_mul(self.tick_seconds);
        let over = |at: usize| {
            past.times.get(at + ticks).is_some_and(|end| *end - past.times[at] == after)
        };
        let (places, weights): (Vec<usize>, Vec<f64>) =
            past.moments.iter().filter(|(at, _)| over(*at)).copied().unzip();
        past.demand.iter().map(|bucket| ahead(bucket, ticks, &places, &weights)).collect()
    }
}

impl Past {
    /// Copies the new ticks of `history` and drops the forgotten ones. Returns whether there were
    /// new ticks.
    fn catch_up(&mut self, history: &History) -> bool {
        let known = self.times.back().copied().unwrap_or(i64::MIN);
        let ticks = history.len();
        let latest = (0..ticks).rev().map_while(|at| history.get(at));
        let newer = latest.take_while(|tick| tick.time.timestamp() > known).count();
        for tick in history.latest(newer) {
            self.times.push_back(tick.time.timestamp());
            self.demand.resize_with(tick.buckets.len(), VecDeque::new);
            self.demand
                .iter_mut()
                .zip(&tick.buckets)
                .for_each(|(all, seen)| all.push_back(seen.demand));
        }
        let over = self.times.len().saturating_sub(ticks);
        self.times.drain(..over);
        self.demand.iter_mut().for_each(|all| drop(all.drain(..over.min(all.len()))));
        newer > 0
    }

    /// Returns the position of the tick at the time `start`, in Unix seconds.
    fn place(&self, start: i64, tick_seconds: i64) -> Option<usize> {
        let at = usize::try_from((start - self.times.front()?) / tick_seconds).ok()?;
        (self.times.get(at) == Some(&start)).then_some(at)
    }
}

fn ahead(demand: &VecDeque<u64>, ticks: usize, places: &[usize], weights: &[f64]) -> Ahead {
    let present = demand.back().copied().unwrap_or(0);
    let after = |at: usize| present.saturating_add(demand[at + ticks]).saturating_sub(demand[at]);
    let total: f64 = weights.iter().sum();
    let sum: f64 = places.iter().zip(weights).map(|(at, weight)| weight * after(*at) as f64).sum();
    if !(total.is_finite() && total > f64::MIN_POSITIVE) {
        return Ahead::certain(present);
    }
    let mut drawn: Vec<(u64, u32)> = Vec::new();
    draw(weights.iter().copied(), WINDOWS, |at, times| drawn.push((after(places[at]), times)));
    drawn.sort_unstable();
    let counts = drawn.iter().map(|&(nodes, times)| (nodes, f64::from(times)));
    Ahead { mean: sum / total, demand: Distribution::weighted(counts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    const LEAD: Lead = sample::LEAD;

    fn history(demand: &[u64]) -> History {
        let mut history = History::new(&sample::catalog());
        for (minute, &demand) in (0..).zip(demand) {
            history.record(sample::tick(
                minute,
                vec![BucketTick { demand, demand_max: demand, ..BucketTick::default() }],
            ));
        }
        history
    }

    #[track_caller]
    fn check(demand: &[u64], ticks: usize, moments: &[(i64, f64)], mean: f64, most: u64) {
        let moments = moments.iter().map(|&(minute, weight)| (60 * minute, weight));
        let ahead = Changes::new(LEAD).ahead(&history(demand), ticks, || moments);
        assert!((ahead[0].mean - mean).abs() < 1e-12, "{ahead:?}");
        assert_eq!(ahead[0].demand.most(), most);
    }

    /// In two minutes demand rises by 3 from minute 0 and falls by 2 from minute 1.
    #[test]
    fn past_changes_are_added_to_present_demand_by_weight() {
        check(&[1, 2, 4, 0, 5], 2, &[(0, 1.0)], 8.0, 8);
        check(&[1, 2, 4, 0, 5], 2, &[(0, 1.0), (1, 3.0)], 5.0 + (3.0 - 3.0 * 2.0) / 4.0, 8);
    }

    /// After minute 0 demand fell by 4, which exceeds the present demand of 1.
    #[test]
    fn demand_is_at_least_zero() {
        check(&[9, 5, 1], 1, &[(0, 1.0)], 0.0, 0);
    }

    /// The change in the two ticks after minute 3 is not complete yet, and a minute before the
    /// first tick has no change.
    #[test]
    fn only_complete_changes_count() {
        check(&[1, 2, 4, 0, 5], 2, &[(3, 1.0), (-1, 1.0)], 5.0, 5);
        check(&[1, 2, 4, 0, 5], 4, &[(0, 1.0), (1, 1.0)], 9.0, 9);
    }

    #[test]
    fn the_copy_of_demand_follows_the_history() {
        let changes = Changes::new(LEAD);
        let mean =
            |demand: &[u64]| changes.ahead(&history(demand), 1, || [(0, 1.0)].into_iter())[0].mean;
        assert!((mean(&[1, 3]) - 5.0).abs() < 1e-12);
        assert!((mean(&[1, 3, 7, 4]) - 6.0).abs() < 1e-12);
    }
}
