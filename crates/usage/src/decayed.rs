//! A histogram of usage whose samples count less with age.
//!
//! Numbers in parentheses are the equations of Autopilot, section 3.2.2. A sample of age τ has the
//! weight w = 2^(-τ / half-life) (1).

use super::ladder::LADDER;
use super::sample::SAMPLE_SECONDS;
use super::spread::Spread;

/// The decayed samples of one resource of a container.
#[derive(Clone, Debug)]
pub(super) struct DecayedUsage {
    half_life_seconds: f64,
    /// The decayed weights, by index in [`LADDER`], up to the largest bin that was used. So a
    /// histogram takes at most 3.2 kB.
    weights: Vec<f64>,
    /// The decayed sums of the means of samples, and of their weights.
    means: (f64, f64),
    /// The number of the last sample.
    last: Option<i64>,
}

impl DecayedUsage {
    pub(super) fn new(half_life_seconds: f64) -> Self {
        Self { half_life_seconds, weights: Vec::new(), means: (0.0, 0.0), last: None }
    }

    /// Adds the sample with a number. A gap between numbers ages earlier samples, too.
    pub(super) fn add(&mut self, number: i64, spread: &Spread) {
        let samples = self.last.map_or(0, |last| number.saturating_sub(last).max(0));
        let keep = (-(samples as f64) * SAMPLE_SECONDS as f64 / self.half_life_seconds).exp2();
        self.last = Some(number);
        self.weights.iter_mut().for_each(|weight| *weight *= keep);
        for (bin, weight) in spread.bins() {
            if bin >= self.weights.len() {
                self.weights.resize(bin + 1, 0.0);
            }
            self.weights[bin] += weight;
        }
        let (sum, weights) = self.means;
        self.means = (sum * keep + spread.mean(), weights * keep + 1.0);
    }

    /// The weighted average of the means of samples (2).
    pub(super) fn average(&self) -> f64 {
        let (sum, weights) = self.means;
        if weights > 0.0 { sum / weights } else { 0.0 }
    }

    /// The percentile of the load-adjusted histogram h\[k\] = b\[k\] × the weights in k (3), with
    /// `share` in \[0, 1\].
    pub(super) fn load_percentile(&self, share: f64) -> u64 {
        load_percentile(LADDER.iter().copied().zip(self.weights.iter().copied()), share)
    }
}

/// The smallest value up to which values carry at least a share of all load. The load of a value is
/// the value times its weight. `weights` has values in ascending order. Without any load it is 0.
pub fn load_percentile(weights: impl Iterator<Item = (u64, f64)> + Clone, share: f64) -> u64 {
    let mut loads = weights.map(|(value, weight)| (value, value as f64 * weight));
    let total: f64 = loads.clone().map(|(_, load)| load).sum();
    let mut sum = 0.0;
    let reached = loads.find(|(_, load)| {
        sum += load;
        *load > 0.0 && sum >= share * total
    });
    reached.map_or(0, |(value, _)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// In the paper's figure 2, nine samples of 1 and one of 10 have the loads 9 and 10.
    #[test]
    fn percentiles_are_taken_over_load() {
        let mut usage = DecayedUsage::new(f64::INFINITY);
        (0..9).for_each(|number| usage.add(number, &Spread::of(&[1])));
        usage.add(9, &Spread::of(&[10]));
        assert_eq!([0.47, 0.48, 0.9].map(|share| usage.load_percentile(share)), [1, 10, 10]);
        // The weights are equal, so the average is that of the samples.
        assert!((usage.average() - 1.9).abs() < 1e-12);
    }

    /// The essay's example: \[0, 150, 300, 150\] at 0, 10, 20 and 30 has the loads 0, 1500, 6000
    /// and 4500.
    #[test]
    fn the_example_of_the_essay_has_its_loads() {
        let weights = [(0, 0.0), (10, 150.0), (20, 300.0), (30, 150.0)];
        let at = |share| load_percentile(weights.into_iter(), share);
        assert_eq!([0.125, 0.126, 0.625, 0.626, 0.95].map(at), [10, 20, 20, 30, 30]);
    }

    /// With a half-life of one sample, 8 at age 2, 4 at age 1 and 2 at age 0 have the weights 1/4,
    /// 1/2 and 1. So each has a load of 2, and the average is 6 / 1.75.
    #[test]
    fn a_sample_loses_half_of_its_weight_in_a_half_life() {
        let mut usage = DecayedUsage::new(SAMPLE_SECONDS as f64);
        for (number, value) in [(0, 8), (1, 4), (2, 2)] {
            usage.add(number, &Spread::of(&[value]));
        }
        assert_eq!(
            [0.33, 0.34, 0.66, 0.67].map(|share| usage.load_percentile(share)),
            [2, 4, 4, 8]
        );
        assert!((usage.average() - 6.0 / 1.75).abs() < 1e-12);
        // A gap of two samples quarters the weights.
        let mut gap = DecayedUsage::new(SAMPLE_SECONDS as f64);
        gap.add(0, &Spread::of(&[8]));
        gap.add(2, &Spread::of(&[2]));
        assert!((gap.average() - (8.0 * 0.25 + 2.0) / 1.25).abs() < 1e-12);
    }

    #[test]
    fn nothing_used_has_no_load() {
        let mut usage = DecayedUsage::new(1.0);
        assert_eq!((usage.load_percentile(0.98), usage.average()), (0, 0.0));
        usage.add(0, &Spread::of(&[0, 0]));
        assert_eq!((usage.load_percentile(0.98), usage.average()), (0, 0.0));
    }

    proptest! {
        /// The exact percentile of the load over all measurements, with their ages, is between the
        /// boundary below the answer and the answer.
        #[test]
        fn a_percentile_of_the_histogram_is_the_exact_one_rounded_up(
            samples in prop::collection::vec(prop::collection::vec(1..5_000_000_u64, 1..6), 1..40),
            share in 0.01..0.999_f64,
            half_life in 300.0..100_000.0_f64,
        ) {
            let mut usage = DecayedUsage::new(half_life);
            let mut exact: Vec<(u64, f64)> = Vec::new();
            for (number, values) in samples.iter().enumerate() {
                usage.add(i64::try_from(number).unwrap(), &Spread::of(values));
                let age = (samples.len() - 1 - number) as f64 * SAMPLE_SECONDS as f64;
                // A measurement counts with the load of its boundary, so that only its place in the
                // order is exact.
                let weight = (-age / half_life).exp2();
                exact.extend(values.iter().map(|value| (*value, weight)));
            }
            exact.sort_by_key(|(value, _)| *value);
            let load = |value: u64, weight: f64| LADDER[super::super::ladder::rung(value)] as f64 * weight;
            let total: f64 = exact.iter().map(|&(value, weight)| load(value, weight)).sum();
            let got = usage.load_percentile(share);
            // Rounding of sums may move the answer if the share is met by a hair.
            let reach = |slack: f64| {
                let mut sum = 0.0;
                let found = exact.iter().find(|&&(value, weight)| {
                    sum += load(value, weight);
                    sum >= share * total * (1.0 + slack)
                });
                LADDER[super::super::ladder::rung(found.or(exact.last()).unwrap().0)]
            };
            prop_assert!((reach(-1e-9)..=reach(1e-9)).contains(&got), "{got}");
        }
    }
}
