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
    /// The squared error as a share of the last value's.
    pub mse_ratio: Option<Ratio>,
    /// The pinball loss as a share of the last value's.
    pub pinball_ratio: Option<Ratio>,
    /// By level of the pinball loss, how often what came was at most the quantile.
    pub calibration: Vec<f64>,
}

impl Score {
    /// `reference` is the last value's.
    pub(super) fn of(name: String, horizon: Horizon, tally: &Tally, reference: &Tally, seed: u64) -> Self {
        let Sums { points, squares, squares_above, absolute, actual, pinball, below_held, within_held } =
            tally.total();
        let by_day = |tally: &Tally, of: fn(&Sums) -> f64| tally.days.iter().map(of).collect::<Vec<f64>>();
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
            mse_ratio: ratio(|day| day.squares),
            pinball_ratio: ratio(|day| day.pinball),
            calibration: tally.at_most.iter().map(|count| count / points).collect(),
        }
    }
}
