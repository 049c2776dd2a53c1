//! The figures of a forecaster at a horizon, computed from its losses.

use serde::Serialize;
use simulator::Ratio;

use super::horizon::Horizon;
use super::tally::{Sums, Tally};

/// The figures of a forecaster at a horizon.
///
/// A figure that cannot be computed is NaN, which is `null` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// The name of the forecaster.
    pub name: String,
    /// The horizon: a number of ticks ahead, or D.
    pub horizon: Horizon,
    /// The mean of (forecast - actual)², divided by the square of the bucket's training maximum.
    pub mse: f64,
    /// The mean of max(0, forecast - actual)² over all points, in the same unit.
    pub pmse: f64,
    /// The sum of |forecast - actual|, divided by the sum of the actual values.
    pub wape: f64,
    /// The mean pinball loss over levels, in nodes.
    pub pinball: f64,
    /// The share of actual values at most equal to the quantile of the objective; for D, to the
    /// headroom.
    pub coverage: f64,
    /// The share of actual values below it. It differs from `coverage`, because whole numbers can
    /// be equal.
    pub coverage_below: f64,
    /// The extremes of both shares over any 7 days; `None` when there are at most 7 days.
    pub coverage_over_7_days: Option<CoverageOverDays>,
    /// The squared error, divided by that of the last value.
    pub mse_ratio: Option<Ratio>,
    /// The pinball loss, divided by that of the last value.
    pub pinball_ratio: Option<Ratio>,
    /// By level of the pinball loss, the share of actual values at most equal to the quantile.
    pub calibration: Vec<f64>,
    /// The pinball loss by day, from which forecasters are compared in pairs.
    #[serde(skip)]
    pub(super) pinball_by_day: Vec<f64>,
}

/// The extremes of coverage over periods of 7 days, as shares in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoverageOverDays {
    /// The largest share of actual values below the held quantile.
    pub most_below: f64,
    /// The smallest share of actual values at most equal to it.
    pub least_at_most: f64,
}

/// The length in days of the periods over which coverage is measured: one week.
pub(super) const COVERAGE_DAYS: usize = 7;

impl CoverageOverDays {
    /// Returns `None` for at most [`COVERAGE_DAYS`] days, and when all periods are empty.
    fn of(days: &[Sums]) -> Option<Self> {
        if days.len() <= COVERAGE_DAYS {
            return None;
        }
        let share = |of: fn(&Sums) -> f64| {
            let shares = days.windows(COVERAGE_DAYS).map(move |days| {
                let points: f64 = days.iter().map(|day| day.points).sum();
                (points > 0.0).then(|| days.iter().map(of).sum::<f64>() / points)
            });
            shares.flatten()
        };
        Some(Self {
            most_below: share(|day| day.below_held).reduce(f64::max)?,
            least_at_most: share(|day| day.within_held).reduce(f64::min)?,
        })
    }
}

impl Score {
    /// Computes the figures. `reference` holds the losses of the last value.
    pub(super) fn of(
        name: String,
        horizon: Horizon,
        tally: &Tally,
        reference: &Tally,
        seed: u64,
    ) -> Self {
        let Sums {
            points,
            squares,
            squares_above,
            absolute,
            actual,
            pinball,
            below_held,
            within_held,
        } = tally.total();
        let by_day =
            |tally: &Tally, of: fn(&Sums) -> f64| tally.days.iter().map(of).collect::<Vec<f64>>();
        let ratio = |of| Ratio::of(&by_day(tally, of), &by_day(reference, of), seed);
        Self {
            name,
            horizon,
            mse: squares / points,
            pmse: squares_above / points,
            wape: absolute / actual,
            pinball: pinball / points,
            coverage: within_held / points,
            coverage_below: below_held / points,
            coverage_over_7_days: CoverageOverDays::of(&tally.days),
            mse_ratio: ratio(|day| day.squares),
            pinball_ratio: ratio(|day| day.pinball),
            calibration: tally.at_most.iter().map(|count| count / points).collect(),
            pinball_by_day: by_day(tally, |day| day.pinball),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of eight days has ten forecasts. On the first day, nine actual values are below the
    /// quantile and one equals it. On the other days, five are below and four are equal.
    #[test]
    fn coverage_is_measured_over_every_period_of_seven_days() {
        let day = |below_held, within_held| Sums {
            points: 10.0,
            below_held,
            within_held,
            ..Sums::default()
        };
        let days = [vec![day(9.0, 10.0)], vec![day(5.0, 9.0); 7]].concat();
        let expected = CoverageOverDays { most_below: 39.0 / 70.0, least_at_most: 63.0 / 70.0 };
        assert_eq!(CoverageOverDays::of(&days), Some(expected));
        assert_eq!(CoverageOverDays::of(&days[1..]), None);
        assert_eq!(CoverageOverDays::of(&[Sums::default(); 9]), None);
    }
}
