//! Past windows as long as the lead, and a draw of some of them by how much each says about now.
//!
//! A window weighs by recency, nearness in time of day and kind of day. To weigh thousands at each tick would be slow: every
//! ten minutes some are drawn into a pool by these weights, and what a method adds, likeness in some respect, is weighed
//! over the pool alone.

use std::collections::VecDeque;

use super::Lead;
use super::hyperparameters::{
    DAY_SCALE_SECONDS, HALF_LIFE_SECONDS, OTHER_KIND_OF_DAY, POOL, POOL_SECONDS, STRIDE, WINDOWS, WINDOWS_MIN,
};
use crate::record::History;

/// Past windows, each with what its method notes at its start and what it keeps of its ticks.
pub(super) struct Windows<N, S> {
    ticks: usize,
    ages: Ages,
    closed: VecDeque<Window<N, S>>,
    /// Starts of windows that are not over, every [`STRIDE`]-th tick.
    open: VecDeque<(usize, i64, N)>,
    learnt: usize,
    pool: Pool,
}

/// A window that is over.
pub(super) struct Window<N, S> {
    /// In Unix seconds.
    start: i64,
    /// What was noted then.
    pub(super) note: N,
    /// What was seen within it.
    pub(super) seen: S,
}

/// Windows at hand.
#[derive(Default)]
struct Pool {
    /// When they were drawn.
    at: Option<i64>,
    /// By their place among the closed ones, and how often each was drawn.
    drawn: Vec<(usize, u32)>,
}

impl<N, S> Windows<N, S> {
    pub(super) fn new(lead: Lead) -> Self {
        Self {
            ticks: lead.ticks(),
            ages: Ages::new(lead),
            closed: VecDeque::new(),
            open: VecDeque::new(),
            learnt: 0,
            pool: Pool::default(),
        }
    }

    /// How many ticks a window has.
    pub(super) fn ticks(&self) -> usize {
        self.ticks
    }

    /// Too few are over to go by.
    pub(super) fn are_few(&self) -> bool {
        self.closed.len() * STRIDE < WINDOWS_MIN
    }

    /// Learns from the last tick of `history`. `note` is kept where a window starts with it, `seen` where one ends.
    pub(super) fn learn(&mut self, history: &History, note: impl FnOnce() -> N, seen: impl FnOnce() -> S) {
        let Some(now) = history.last().map(|tick| tick.time.timestamp()) else { return };
        if let Some((_, start, note)) = self.open.pop_front_if(|(at, ..)| *at + self.ticks == self.learnt) {
            self.closed.push_back(Window { start, note, seen: seen() });
        }
        if self.learnt.is_multiple_of(STRIDE) {
            self.open.push_back((self.learnt, now, note()));
        }
        self.learnt += 1;
        self.ages.reach(history.len());
        let oldest = history.get(0).map_or(now, |tick| tick.time.timestamp());
        let mut gone = 0;
        while self.closed.pop_front_if(|window| window.start < oldest).is_some() {
            gone += 1;
        }
        if self.pool.at.is_some_and(|at| (0..POOL_SECONDS).contains(&(now - at))) {
            self.pool.forget(gone);
        } else {
            self.pool = self.fresh_pool(now);
        }
    }

    fn fresh_pool(&self, now: i64) -> Pool {
        let weight =
            |window: &Window<N, S>| self.ages.weight(window.start, now) * kind_of_day(window.start, now);
        let weights: Vec<f64> = self.closed.iter().map(weight).collect();
        let mut pool = Pool { at: Some(now), drawn: Vec::new() };
        draw(&weights, POOL, |place, times| pool.drawn.push((place, times)));
        pool
    }

    /// The starts of those at hand, in Unix seconds, and what they weigh by likeness.
    pub(super) fn moments(
        &self,
        likeness: impl Fn(&Window<N, S>) -> f64,
    ) -> impl Iterator<Item = (i64, f64)> {
        self.pool.drawn.iter().map(move |&(place, times)| {
            let window = &self.closed[place];
            (window.start, f64::from(times) * likeness(window))
        })
    }

    /// Draws of those at hand by likeness, and tells how often each was drawn.
    pub(super) fn draw<'a>(
        &'a self,
        likeness: impl Fn(&Window<N, S>) -> f64,
        mut drawn: impl FnMut(&'a Window<N, S>, u32),
    ) {
        let weights: Vec<f64> = self.moments(likeness).map(|(_, weight)| weight).collect();
        draw(&weights, WINDOWS, |at, times| drawn(&self.closed[self.pool.drawn[at].0], times));
    }
}

impl Pool {
    /// The oldest of all windows are gone.
    fn forget(&mut self, gone: usize) {
        if gone > 0 {
            self.drawn.retain_mut(|(place, _)| {
                let stays = *place >= gone;
                *place = place.saturating_sub(gone);
                stays
            });
        }
    }
}

/// What a window weighs by its age in ticks: recency, and nearness in time of day.
#[derive(Clone, Debug)]
struct Ages {
    tick_seconds: u32,
    weights: Vec<f32>,
}

impl Ages {
    fn new(lead: Lead) -> Self {
        Self { tick_seconds: u32::try_from(lead.tick_seconds).unwrap_or(1).max(1), weights: Vec::new() }
    }

    /// Makes ready for histories of so many ticks.
    fn reach(&mut self, ticks: usize) {
        while self.weights.len() <= ticks {
            self.weights.push(self.of_age(self.weights.len()));
        }
    }

    /// What a window that began at `start` weighs at `now`, in Unix seconds.
    fn weight(&self, start: i64, now: i64) -> f64 {
        let age = u32::try_from(now - start).ok().map(|age| age / self.tick_seconds);
        age.and_then(|age| self.weights.get(age as usize)).copied().unwrap_or(0.0).into()
    }

    fn of_age(&self, ticks: usize) -> f32 {
        let age = ticks as f64 * f64::from(self.tick_seconds);
        let around = age.rem_euclid(86_400.0);
        let apart = around.min(86_400.0 - around);
        #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more precision")]
        let weight = ((-age / HALF_LIFE_SECONDS).exp2() * (-apart / DAY_SCALE_SECONDS).exp()) as f32;
        weight
    }
}

/// What likeness in the kind of day, working day or weekend in UTC, adds to a weight.
fn kind_of_day(start: i64, now: i64) -> f64 {
    // 1970 began on a Thursday: days 2 and 3 of each week are Saturday and Sunday.
    let weekend = |time: i64| matches!(time.div_euclid(86_400).rem_euclid(7), 2 | 3);
    if weekend(start) == weekend(now) { 1.0 } else { OTHER_KIND_OF_DAY }
}

/// Draws so many by weight and tells how often each was drawn: systematic resampling, so that each is drawn as often as its weight
/// says, but for rounding.
pub(super) fn draw(weights: &[f64], count: usize, mut drawn: impl FnMut(usize, u32)) {
    let total: f64 = weights.iter().sum();
    let step = total / count as f64;
    // Weights too small to tell apart say nothing; nor must rounding make a draw endless.
    if !(step.is_finite() && step > f64::MIN_POSITIVE) {
        return;
    }
    let (mut sum, mut next) = (0.0, 0.5 * step);
    for (at, weight) in weights.iter().enumerate() {
        sum += weight;
        let mut times = 0;
        while next < sum {
            next += step;
            times += 1;
        }
        if times > 0 {
            drawn(at, times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(weights: &[f64], expected: &[(usize, u32)]) {
        let mut drawn = Vec::new();
        draw(weights, 400, |at, times| drawn.push((at, times)));
        assert_eq!(drawn, expected);
    }

    #[test]
    fn each_is_drawn_as_its_weight_says() {
        check(&[1.0, 2.0, 1.0], &[(0, 100), (1, 200), (2, 100)]);
        check(&[0.0, 5.0], &[(1, 400)]);
        check(&[0.0, 0.0], &[]);
        check(&[], &[]);
    }

    /// A day ago is as near as a moment ago in time of day, half a day is not; a week halves.
    #[test]
    fn nearness_in_time_of_day_counts() {
        let mut ages = Ages::new(Lead { seconds: 300, tick_seconds: 3_600 });
        ages.reach(200);
        let at = |hours: i64| ages.weight(0, 3_600 * hours);
        assert!((at(0) - 1.0).abs() < 1e-6);
        assert!((at(168) - 0.5).abs() < 1e-6);
        assert!((at(2) - (-1.0_f64).exp() * (-2.0_f64 / 168.0).exp2()).abs() < 1e-6);
        assert!(at(24) > 0.9 && at(12) < 0.01);
    }

    #[test]
    fn weekends_are_told_from_working_days() {
        let day = |n: i64| 86_400 * n + 5;
        // 1970-01-02 was a Friday.
        assert!((kind_of_day(day(1), day(2)) - OTHER_KIND_OF_DAY).abs() < 1e-12);
        assert!((kind_of_day(day(2), day(3)) - 1.0).abs() < 1e-12);
        assert!((kind_of_day(day(4), day(8)) - 1.0).abs() < 1e-12);
    }
}
