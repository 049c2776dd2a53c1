//! The figures of a forecaster at a horizon.

use serde::Serialize;

use super::horizon::Horizon;
use super::tally::{Sums, Tally};
use crate::simulate::Ratio;

/// The figures of a forecaster at a horizon; what cannot be computed is NaN, `null` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Of the forecaster.
    pub name: String,
    /// Ticks ahead, or the new nodes within the lead.
    pub horizon: Horizon,
    /// The mean of (forecast - actual)², over the square of the training maximum of the bucket.
    pub mse: f64,
    /// The mean of max(0, forecast - actual)², over all points, on the same scale.
    pub pmse: f64,
    /// The sum of |forecast - actual| over the sum of what came.
    pub wape: f64,
    /// The mean pinball loss over levels, in nodes.
    pub pinball: f64,
    /// How often what came was at most the quantile of the objective; of D, at most the headroom.
    pub coverage: f64,
    /// How often it was less: counts tie.
    pub coverage_below: f64,
    /// Both over any [`COVERAGE_DAYS`] days, where there are more.
    pub coverage_over_7_days: Option<CoverageOverDays>,
    /// The squared error as a share of the last value's.
    pub mse_ratio: Option<Ratio>,
    /// The pinball loss as a share of the last value's.
    pub pinball_ratio: Option<Ratio>,
    /// By level of the pinball loss, how often what came was at most the quantile.
    pub calibration: Vec<f64>,
}

/// How far coverage strays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CoverageOverDays {
    /// The largest share of what came that was less than what was held.
    pub most_below: f64,
    /// The smallest share that was at most that.
    pub least_at_most: f64,
}

/// A quantile is promised over so many days.
pub(super) const COVERAGE_DAYS: usize = 7;

impl CoverageOverDays {
    /// `None` where there are not more days than are promised.
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
    /// `reference` is the last value's.
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten answers a day. On the first of eight days nine of them are below and one is met; on the others five and four are.
    #[test]
    fn coverage_is_followed_over_seven_days() {
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
