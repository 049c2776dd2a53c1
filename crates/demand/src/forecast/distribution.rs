//! Distributions over counts of nodes.

use std::sync::Arc;

/// A distribution over counts, which is cheap to clone.
///
/// Each step is a count with the probability of that count or less. Both rise, and the last
/// probability is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    steps: Arc<[(u64, f64)]>,
}

impl Distribution {
    /// The distribution that is `count` with certainty.
    pub fn certain(count: u64) -> Self {
        Self { steps: [(count, 1.0)].into() }
    }

    /// The distribution of counts with weights, in rising order of the counts.
    ///
    /// Weights at or below 0 are left out. Without a positive weight, or with a sum that is NaN,
    /// the result is 0 with certainty.
    pub fn weighted(weights: impl Iterator<Item = (u64, f64)> + Clone) -> Self {
        let total: f64 = weights.clone().map(|(_, weight)| weight.max(0.0)).sum();
        if total.is_nan() || total <= 0.0 {
            return Self::certain(0);
        }
        let mut sum = 0.0;
        let steps = weights.filter(|(_, weight)| *weight > 0.0).map(|(count, weight)| {
            sum += weight;
            (count, sum / total)
        });
        let mut steps: Vec<(u64, f64)> = steps.collect();
        if let Some(last) = steps.last_mut() {
            last.1 = 1.0;
        }
        Self { steps: steps.into() }
    }

    /// Returns the smallest count that suffices with a probability of at least `q`, in [0, 1].
    pub fn quantile(&self, q: f64) -> u64 {
        let enough = self.steps.iter().find(|(_, chance)| *chance >= q).or(self.steps.last());
        enough.map_or(0, |&(count, _)| count)
    }

    /// Returns the smallest count that suffices with a probability of at least `q`, in [0, 1], if
    /// the count is at most `most`. `None` if it never is.
    pub fn quantile_up_to(&self, q: f64, most: u64) -> Option<u64> {
        let within = self.steps.partition_point(|(count, _)| *count <= most);
        let (last, chance) = *self.steps[..within].last()?;
        let enough = self.steps[..within].iter().find(|(_, below)| *below >= q * chance);
        Some(enough.map_or(last, |(count, _)| *count))
    }

    /// Returns the distribution with levels shifted by `by` in log-odds.
    ///
    /// Its quantile q is the quantile of `self` at the level with the log-odds logit q + `by`.
    #[must_use]
    pub fn shifted(&self, by: f64) -> Self {
        if by.abs() < 1e-9 {
            return self.clone();
        }
        let odds = (-by).exp();
        let shifted = |chance: f64| {
            if chance < 1.0 { odds * chance / (1.0 - chance + odds * chance) } else { 1.0 }
        };
        Self { steps: self.steps.iter().map(|&(count, chance)| (count, shifted(chance))).collect() }
    }

    /// Returns the distribution with every count increased by `more`.
    #[must_use]
    pub fn plus(&self, more: u64) -> Self {
        let increased = |&(count, chance): &(u64, f64)| (count.saturating_add(more), chance);
        Self { steps: self.steps.iter().map(increased).collect() }
    }

    /// Returns the mean count.
    pub fn mean(&self) -> f64 {
        let mut below = 0.0;
        let share = |&(count, chance): &(u64, f64)| {
            let mean = count as f64 * (chance - below);
            below = chance;
            mean
        };
        self.steps.iter().map(share).sum()
    }

    /// Returns the largest count with a positive probability.
    pub fn most(&self) -> u64 {
        self.steps.last().map_or(0, |&(count, _)| count)
    }

    /// Returns the probabilities of at least 1, at least 2 and so on, up to the largest count and
    /// up to `most`.
    pub fn chances(&self, most: u64) -> Vec<f64> {
        let mut steps = self.steps.iter().peekable();
        let mut below = 0.0;
        let chance = |count: u64| {
            while let Some(&(_, chance)) = steps.next_if(|(step, _)| *step < count) {
                below = chance;
            }
            1.0 - below
        };
        (1..=self.most().min(most)).map(chance).collect()
    }

    /// Returns the probability of at least `count`.
    pub fn chance_of(&self, count: u64) -> f64 {
        let below = self.steps.iter().take_while(|(step, _)| *step < count).last();
        1.0 - below.map_or(0.0, |&(_, chance)| chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_observed_counts() {
        let d = Distribution::weighted([(0, 6.0), (1, 3.0), (4, 1.0)].into_iter());
        let quantiles: Vec<u64> =
            [0.0, 0.5, 0.6, 0.61, 0.9, 0.95, 1.0].map(|q| d.quantile(q)).into();
        assert_eq!(quantiles, [0, 0, 0, 1, 1, 4, 4]);
    }

    #[test]
    fn quantiles_up_to_a_count_leave_larger_counts_out() {
        let d = Distribution::weighted([(2, 6.0), (3, 3.0), (9, 1.0)].into_iter());
        let quantiles = |most| [0.5, 0.9, 1.0].map(|q| d.quantile_up_to(q, most));
        assert_eq!(quantiles(1), [None; 3]);
        assert_eq!(quantiles(2), [Some(2); 3]);
        assert_eq!(quantiles(8), [Some(2), Some(3), Some(3)]);
        assert_eq!(quantiles(9), [Some(2), Some(3), Some(9)]);
    }

    #[test]
    fn the_probability_of_at_least_a_count_falls_with_the_count() {
        let d = Distribution::weighted([(0, 6.0), (1, 3.0), (4, 1.0)].into_iter());
        let near =
            |count, chance: f64| assert!((d.chance_of(count) - chance).abs() < 1e-12, "{count}");
        near(0, 1.0);
        near(1, 0.4);
        near(2, 0.1);
        near(4, 0.1);
        near(5, 0.0);
        assert_eq!(d.chances(99), [1, 2, 3, 4].map(|count| d.chance_of(count)));
        assert_eq!(d.chances(2).len(), 2);
    }

    /// A shift by ln 3 divides the odds of the steps by three: 1/3, 3 and 9 become 1/9, 1 and 3.
    #[test]
    fn levels_are_shifted_in_log_odds() {
        let d = Distribution::weighted([(0, 5.0), (1, 10.0), (2, 3.0), (4, 2.0)].into_iter());
        let shifted = d.shifted(3.0_f64.ln());
        let near = |count, chance: f64| {
            assert!((shifted.chance_of(count) - chance).abs() < 1e-12, "{count}");
        };
        near(1, 0.9);
        near(2, 0.5);
        near(4, 0.25);
        assert_eq!((shifted.quantile(0.7), shifted.most()), (2, 4));
        assert_eq!(d.shifted(0.0), d);
    }

    #[test]
    fn the_mean_weighs_counts_by_their_probabilities() {
        let d = Distribution::weighted([(0, 6.0), (1, 3.0), (4, 1.0)].into_iter());
        assert!(
            (d.mean() - 0.7).abs() < 1e-12 && (Distribution::certain(3).mean() - 3.0).abs() < 1e-12
        );
    }

    #[test]
    fn without_weights_the_count_is_zero() {
        assert_eq!(Distribution::weighted(std::iter::empty()), Distribution::certain(0));
        assert_eq!(Distribution::weighted([(3, f64::NAN)].into_iter()).quantile(0.9), 0);
    }
}
