//! Intervals of a ratio of losses, by resampling days.
//!
//! Losses of one day hang together, those of different days much less: days are drawn with replacement, the same for
//! both losses, and the ratio of the sums is taken each time.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// With fewer days an interval by days would be too narrow to be believed.
pub const DAYS_MIN: usize = 10;

/// Resamples: the 2.5th percentile rests on fifty.
const RESAMPLES: usize = 2_000;

/// A loss as a share of a reference's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// Over all days.
    pub ratio: f64,
    /// Between these lies 95 % of resamples by day, where there are enough days.
    pub interval: Option<(f64, f64)>,
    /// Whether the interval covers 1.
    pub tie: Option<bool>,
}

impl Ratio {
    /// Of two losses by day; `None` where the second is 0.
    pub(crate) fn of(ours: &[f64], reference: &[f64], seed: u64) -> Option<Self> {
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
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| resample()).filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
        let place = (share * ratios.len() as f64) as usize;
        ratios.get(place.min(ratios.len().saturating_sub(1))).copied()
    };
    Some((at(0.025)?, at(0.975)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where every day has the same ratio, every resample has it.
    #[test]
    fn a_ratio_that_is_the_same_every_day_is_certain() {
        let reference: Vec<f64> = (1..=12).map(f64::from).collect();
        let ours: Vec<f64> = reference.iter().map(|loss| 0.5 * loss).collect();
        let ratio = Ratio::of(&ours, &reference, 1).unwrap();
        assert_eq!(ratio, Ratio { ratio: 0.5, interval: Some((0.5, 0.5)), tie: Some(false) });
    }

    /// Half of 20 days lose 2 instead of 1, half 0: sums of 20 draws of 0 or 2 have a deviation of the square root of 20 about 20.
    #[test]
    fn intervals_are_those_of_sums_of_days() {
        let ours: Vec<f64> = (0..20).map(|day| f64::from(2 * (day % 2))).collect();
        let ratio = Ratio::of(&ours, &[1.0; 20], 7).unwrap();
        assert!((ratio.ratio - 1.0).abs() < 1e-12 && ratio.tie == Some(true));
        let (low, high) = ratio.interval.unwrap();
        let two_deviations = 1.96 * 20.0_f64.sqrt() / 20.0;
        assert!((low - (1.0 - two_deviations)).abs() < 0.11, "{low}");
        assert!((high - (1.0 + two_deviations)).abs() < 0.11, "{high}");
        assert_eq!(Ratio::of(&ours, &[1.0; 20], 7), Some(ratio), "the same seed, the same interval");
    }

    #[test]
    fn few_days_have_no_interval_and_no_loss_no_ratio() {
        let ratio = Ratio::of(&[2.0; 9], &[1.0; 9], 1).unwrap();
        assert_eq!((ratio.ratio, ratio.interval, ratio.tie), (2.0, None, None));
        assert_eq!(Ratio::of(&[2.0; 12], &[0.0; 12], 1), None);
    }
}
