//! Past windows by weight: how much each says about now, and a draw of some of them.

use super::Lead;
use super::hyperparameters::{DAY_SCALE_SECONDS, HALF_LIFE_SECONDS, OTHER_KIND_OF_DAY, WINDOWS};

/// What a window weighs by its age in ticks: recency, and nearness in time of day.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    tick_seconds: u32,
    weights: Vec<f32>,
}

impl Ages {
    pub(super) fn new(lead: Lead) -> Self {
        Self { tick_seconds: u32::try_from(lead.tick_seconds).unwrap_or(1).max(1), weights: Vec::new() }
    }

    /// Makes ready for histories of so many ticks.
    pub(super) fn reach(&mut self, ticks: usize) {
        while self.weights.len() <= ticks {
            self.weights.push(self.of_age(self.weights.len()));
        }
    }

    /// What a window that began at `start` weighs at `now`, in Unix seconds.
    pub(super) fn weight(&self, start: i64, now: i64) -> f64 {
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
pub(super) fn kind_of_day(start: i64, now: i64) -> f64 {
    // 1970 began on a Thursday: days 2 and 3 of each week are Saturday and Sunday.
    let weekend = |time: i64| matches!(time.div_euclid(86_400).rem_euclid(7), 2 | 3);
    if weekend(start) == weekend(now) { 1.0 } else { OTHER_KIND_OF_DAY }
}

/// Draws by weight and tells how often each was drawn: systematic resampling, so that each is drawn as often as its weight
/// says, but for rounding.
pub(super) fn draw(weights: &[f64], mut drawn: impl FnMut(usize, u32)) {
    let total: f64 = weights.iter().sum();
    let step = total / WINDOWS as f64;
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
        draw(weights, |at, times| drawn.push((at, times)));
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
