//! Confidence intervals of a ratio of losses, by resampling days (block bootstrap).
//!
//! Days are the unit, because losses within a day are strongly correlated and losses of different
//! days are not. Each resample draws days with replacement, uses the same days for both losses, and
//! takes the ratio of the sums.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// The smallest number of days for which an interval is computed. With fewer days, the interval
/// would be too narrow.
pub const DAYS_MIN: usize = 10;

/// The number of resamples. With 2,000, fifty of them lie below the 2.5th percentile.
const RESAMPLES: usize = 2_000;

/// A loss divided by the loss of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The ratio of the sums over all days.
    pub ratio: f64,
    /// The interval that holds 95 % of the resamples; `None` for fewer than [`DAYS_MIN`] days.
    pub interval: Option<(f64, f64)>,
    /// Whether the interval covers 1; `None` without an interval.
    pub tie: Option<bool>,
}

impl Ratio {
    /// Computes the ratio of two losses given by day.
    ///
    /// Returns `None` when the ratio is not finite, for example when `reference` sums to 0.
    pub fn of(ours: &[f64], reference: &[f64], seed: u64) -> Option<Self> {
        let sum = |losses: &[f64]| losses.iter().sum::<f64>();
        let ratio = Some(sum(ours) / sum(reference)).filter(|ratio| ratio.is_finite())?;
        let interval = interval(ours, reference, seed);
        let tie = interval.map(|(low, high)| (low..=high).contains(&1.0));
        Some(Self { ratio, interval, tie })
    }
}

fn interval(ours: &[f64], reference: &[f64], seed: u64) -> Option<(f64, f64)> {
    let days = ours.len().min(reference.len());
    if days < DAYS_MIN {
        return None;
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut resample = || {
        let drawn = (0..days).map(|_| random.random_range(0..days));
        let sums = drawn.fold((0.0, 0.0), |sum, day| (sum.0 + ours[day], sum.1 + reference[day]));
        sums.0 / sums.1
    };
    let mut ratios: Vec<f64> =
        (0..RESAMPLES).map(|_| resample()).filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an index into the list"
        )]
        let place = (share * ratios.len() as f64) as usize;
        ratios.get(place.min(ratios.len().saturating_sub(1))).copied()
    };
    Some((at(0.025)?, at(0.975)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When every day has the same ratio, every resample has that ratio.
    #[test]
    fn a_ratio_that_is_equal_on_every_day_has_an_interval_of_width_zero() {
        let reference: Vec<f64> = (1..=12).map(f64::from).collect();
        let ours: Vec<f64> = reference.iter().map(|loss| 0.5 * loss).collect();
        let ratio = Ratio::of(&ours, &reference, 1).unwrap();
        assert_eq!(ratio, Ratio { ratio: 0.5, interval: Some((0.5, 0.5)), tie: Some(false) });
    }

    /// Half of the 20 days have a loss of 2, the other half a loss of 0, and the reference is 1 on
    /// every day. The sum of 20 draws of 0 or 2 has mean 20 and standard deviation √20.
    #[test]
    fn the_interval_matches_the_deviation_of_a_sum_of_days() {
        let ours: Vec<f64> = (0..20).map(|day| f64::from(2 * (day % 2))).collect();
        let ratio = Ratio::of(&ours, &[1.0; 20], 7).unwrap();
        assert!((ratio.ratio - 1.0).abs() < 1e-12 && ratio.tie == Some(true));
        let (low, high) = ratio.interval.unwrap();
        let two_deviations = 1.96 * 20.0_f64.sqrt() / 20.0;
        assert!((low - (1.0 - two_deviations)).abs() < 0.11, "{low}");
        assert!((high - (1.0 + two_deviations)).abs() < 0.11, "{high}");
        assert_eq!(
            Ratio::of(&ours, &[1.0; 20], 7),
            Some(ratio),
            "the same seed must give the same interval"
        );
    }

    #[test]
    fn too_few_days_give_no_interval_and_a_reference_of_zero_gives_no_ratio() {
        let ratio = Ratio::of(&[2.0; 9], &[1.0; 9], 1).unwrap();
        assert_eq!((ratio.ratio, ratio.interval, ratio.tie), (2.0, None, None));
        assert_eq!(Ratio::of(&[2.0; 12], &[0.0; 12], 1), None);
    }
}
