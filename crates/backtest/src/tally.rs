//! The losses of one forecaster at one horizon, by day.

use super::answer::{JudgedForecast, LEVELS};

/// The losses of one forecaster at one horizon.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The sums, by scored day.
    pub(super) days: Vec<Sums>,
    /// By level, the number of actual values at most equal to the quantile.
    pub(super) at_most: [f64; LEVELS.len()],
}

/// Sums over ticks and buckets. One point is one forecast of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) points: f64,
    /// (forecast - actual)², divided by the square of the training maximum.
    pub(super) squares: f64,
    /// The same, of the forecasts above the actual value only.
    pub(super) squares_above: f64,
    /// |forecast - actual|, in nodes.
    pub(super) absolute: f64,
    /// The actual values, in nodes.
    pub(super) actual: f64,
    /// The mean pinball loss over levels, in nodes.
    pub(super) pinball: f64,
    /// The number of actual values below the held quantile.
    pub(super) below_held: f64,
    /// The number of actual values at most equal to the held quantile.
    pub(super) within_held: f64,
}

impl Tally {
    /// Adds a forecast on a day. `scale` is the training maximum of the bucket, in nodes.
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

    /// Returns the sums over all days.
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

/// Returns the pinball loss of a quantile, in nodes. A node above the quantile costs `level`, a
/// node below it costs `1 - level`.
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
    fn the_pinball_loss_depends_on_the_level() {
        near(pinball(0.9, 3.0, 5.0), 1.8);
        near(pinball(0.9, 5.0, 3.0), 0.2);
        near(pinball(0.5, 5.0, 5.0), 0.0);
    }

    /// The training maximum is 4 nodes. The first forecast, 6 for 4, is too high by half of it. The
    /// second, 1 for 2, is too low by a quarter.
    #[test]
    fn losses_equal_those_computed_by_hand() {
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
    fn an_actual_value_equal_to_the_quantile_is_within_and_not_below() {
        let sums = Sums::of(&JudgedForecast::certain(3), 3.0, 1.0);
        assert_eq!((sums.below_held, sums.within_held), (0.0, 1.0));
    }
}
