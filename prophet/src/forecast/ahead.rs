//! Demand ahead, by how demand changed after past moments.
//!
//! A moment t weighs as its method says; demand h ticks ahead is present demand and the change d(t + h) - d(t), at least 0.
//! Only moments whose change is wholly in the past count. A copy of demand is made once somebody asks: no decision does.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::hyperparameters::WINDOWS;
use super::past::draw;
use super::{Ahead, Distribution, Lead};
use crate::record::History;

/// See the module.
pub(super) struct Changes {
    tick_seconds: i64,
    past: Mutex<Past>,
}

/// What is known since somebody asked: as far back as the history reaches.
#[derive(Default)]
struct Past {
    /// Of ticks, in Unix seconds, oldest first.
    times: VecDeque<i64>,
    /// By bucket, then by tick.
    demand: Vec<VecDeque<u64>>,
    /// Ticks with their weights, as of the last.
    moments: Vec<(usize, f64)>,
}

impl Changes {
    pub(super) fn new(lead: Lead) -> Self {
        Self { tick_seconds: lead.tick_seconds.max(1), past: Mutex::default() }
    }

    /// Demand so many ticks after the last, by moments, in Unix seconds, with their weights: they are asked for once a tick.
    pub(super) fn ahead<M: Iterator<Item = (i64, f64)>>(
        &self,
        history: &History,
        ticks: usize,
        moments: impl FnOnce() -> M,
    ) -> Vec<Ahead> {
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        if past.catch_up(history) {
            let known =
                moments().filter_map(|(start, weight)| Some((past.place(start, self.tick_seconds)?, weight)));
            past.moments = known.collect();
        }
        let after = i64::try_from(ticks).unwrap_or(i64::MAX).saturating_mul(self.tick_seconds);
        let over = |at: usize| past.times.get(at + ticks).is_some_and(|end| *end - past.times[at] == after);
        let (places, weights): (Vec<usize>, Vec<f64>) =
            past.moments.iter().filter(|(at, _)| over(*at)).copied().unzip();
        past.demand.iter().map(|bucket| ahead(bucket, ticks, &places, &weights)).collect()
    }
}

impl Past {
    /// Whether there was anything new.
    fn catch_up(&mut self, history: &History) -> bool {
        let known = self.times.back().copied().unwrap_or(i64::MIN);
        let ticks = history.len();
        let latest = (0..ticks).rev().map_while(|at| history.get(at));
        let newer = latest.take_while(|tick| tick.time.timestamp() > known).count();
        for tick in history.latest(newer) {
            self.times.push_back(tick.time.timestamp());
            self.demand.resize_with(tick.buckets.len(), VecDeque::new);
            self.demand.iter_mut().zip(&tick.buckets).for_each(|(all, seen)| all.push_back(seen.demand));
        }
        let over = self.times.len().saturating_sub(ticks);
        self.times.drain(..over);
        self.demand.iter_mut().for_each(|all| drop(all.drain(..over.min(all.len()))));
        newer > 0
    }

    /// The place of the tick at a moment.
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
    draw(weights, WINDOWS, |at, times| drawn.push((after(places[at]), times)));
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
        let mut history = History::default();
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

    /// After minute 0 demand rose by 3, after minute 1 it fell by 2.
    #[test]
    fn past_changes_are_added_to_present_demand_by_weight() {
        check(&[1, 2, 4, 0, 5], 2, &[(0, 1.0)], 8.0, 8);
        check(&[1, 2, 4, 0, 5], 2, &[(0, 1.0), (1, 3.0)], 5.0 + (3.0 - 3.0 * 2.0) / 4.0, 8);
    }

    /// After minute 0 demand fell by 4: more than there is now.
    #[test]
    fn demand_is_at_least_zero() {
        check(&[9, 5, 1], 1, &[(0, 1.0)], 0.0, 0);
    }

    /// What followed minute 3 after two ticks is not known yet, nor is anything of a minute before the first.
    #[test]
    fn only_changes_that_are_over_count() {
        check(&[1, 2, 4, 0, 5], 2, &[(3, 1.0), (-1, 1.0)], 5.0, 5);
        check(&[1, 2, 4, 0, 5], 4, &[(0, 1.0), (1, 1.0)], 9.0, 9);
    }

    #[test]
    fn the_copy_of_demand_keeps_up() {
        let changes = Changes::new(LEAD);
        let mean = |demand: &[u64]| changes.ahead(&history(demand), 1, || [(0, 1.0)].into_iter())[0].mean;
        assert!((mean(&[1, 3]) - 5.0).abs() < 1e-12);
        assert!((mean(&[1, 3, 7, 4]) - 6.0).abs() < 1e-12);
    }
}
