//! Losses of one forecaster at one horizon, by day.

use super::answer::{JudgedForecast, LEVELS};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// By judged day.
    pub(super) days: Vec<Sums>,
    /// By level, how often what came was at most the quantile.
    pub(super) at_most: [f64; LEVELS.len()],
}

/// Sums over ticks and buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) points: f64,
    /// (forecast - actual)², over the square of the training maximum.
    pub(super) squares: f64,
    /// The same, where the forecast is above.
    pub(super) squares_above: f64,
    /// |forecast - actual|, in nodes.
    pub(super) absolute: f64,
    /// In nodes.
    pub(super) actual: f64,
    /// Means over levels, in nodes.
    pub(super) pinball: f64,
    /// How often what came was less than what was held.
    pub(super) below_held: f64,
    /// How often it was at most that.
    pub(super) within_held: f64,
}

impl Tally {
    /// Counts an answer, on a day, in a bucket with this training maximum.
    pub(super) fn add(&mut self, day: usize, answer: &JudgedForecast, actual: u64, scale: f64) {
        if self.days.len() <= day {
            self.days.resize(day + 1, Sums::default());
        }
        let actual = actual as f64;
        self.days[day].add(&Sums::of(answer, actual, scale));
        for (count, quantile) in self.at_most.iter_mut().zip(answer.quantiles) {
            *count += f64::from(u8::from(actual <= quantile));
        }
    }

    /// Over all days.
    pub(super) fn total(&self) -> Sums {
        let mut total = Sums::default();
        self.days.iter().for_each(|day| total.add(day));
        total
    }
}

impl Sums {
    fn of(answer: &JudgedForecast, actual: f64, scale: f64) -> Self {
        let off = (answer.mean - actual) / scale;
        let one_if = |holds: bool| f64::from(u8::from(holds));
        let losses = LEVELS
            .iter()
            .zip(answer.quantiles)
            .map(|(&level, quantile)| pinball(level, quantile, actual));
        Self {
            points: 1.0,
            squares: off * off,
            squares_above: off.max(0.0).powi(2),
            absolute: (answer.mean - actual).abs(),
            actual,
            pinball: losses.sum::<f64>() / LEVELS.len() as f64,
            below_held: one_if(actual < answer.held),
            within_held: one_if(actual <= answer.held),
        }
    }

    fn add(&mut self, other: &Self) {
        let Self {
            points,
            squares,
            squares_above,
            absolute,
            actual,
            pinball,
            below_held,
            within_held,
        } = other;
        self.points += points;
        self.squares += squares;
        self.squares_above += squares_above;
        self.absolute += absolute;
        self.actual += actual;
        self.pinball += pinball;
        self.below_held += below_held;
        self.within_held += within_held;
    }
}

/// The loss of a quantile: what lies above it costs its level, what lies below it the rest.
fn pinball(level: f64, quantile: f64, actual: f64) -> f64 {
    let above = actual - quantile;
    (level * above).max((level - 1.0) * above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-12, "{value}, expected {expected}");
    }

    #[test]
    fn quantiles_lose_by_their_level() {
        near(pinball(0.9, 3.0, 5.0), 1.8);
        near(pinball(0.9, 5.0, 3.0), 0.2);
        near(pinball(0.5, 5.0, 5.0), 0.0);
    }

    /// Of 4 nodes at most in training: 6 forecast for 4 is half of it too much, 1 forecast for 2 a quarter too little.
    #[test]
    fn losses_are_as_by_hand() {
        let mut tally = Tally::default();
        tally.add(0, &JudgedForecast::certain(6), 4, 4.0);
        tally.add(2, &JudgedForecast::certain(1), 2, 4.0);
        let total = tally.total();
        near(total.points, 2.0);
        near(total.squares, 0.25 + 0.0625);
        near(total.squares_above, 0.25);
        near(total.absolute, 3.0);
        near(total.actual, 6.0);
        let mean_level = LEVELS.iter().sum::<f64>() / LEVELS.len() as f64;
        near(total.pinball, 2.0 * (1.0 - mean_level) + mean_level);
        near(total.below_held, 1.0);
        near(total.within_held, 1.0);
        assert_eq!(tally.days.len(), 3);
        near(tally.at_most[0], 1.0);
    }

    #[test]
    fn a_count_that_is_met_is_within_and_not_below() {
        let sums = Sums::of(&JudgedForecast::certain(3), 3.0, 1.0);
        assert_eq!((sums.below_held, sums.within_held), (0.0, 1.0));
    }
}
