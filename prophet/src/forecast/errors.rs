//! Past errors, the recent ones more: what makes a distribution of a forecast of one number.
//!
//! An error weighs w = 2^(-age / half-life). Around a number c, a count n has the weight of the errors e with round(c + e) = n,
//! all below 0 counting as 0: where errors of now are like those of the past, each quantile is exceeded as often as it says.

use std::collections::BTreeMap;

use super::hyperparameters::HALF_LIFE_SECONDS;
use super::{Distribution, Lead};

/// Errors are told apart by quarters of a node: they are added to numbers that are not whole.
const PARTS: f64 = 4.0;

/// Growing weights are scaled back before they lose precision.
const WEIGHT_MAX: f64 = 1e12;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Errors {
    /// By quarters of a node.
    weights: BTreeMap<i64, f64>,
    /// What the next weighs.
    weight: f64,
    /// By how much a tick makes that more.
    growth: f64,
    added: usize,
}

impl Errors {
    pub(super) fn new(lead: Lead) -> Self {
        let growth = (lead.tick_seconds as f64 / HALF_LIFE_SECONDS).exp2();
        Self { weights: BTreeMap::new(), weight: 1.0, growth, added: 0 }
    }

    /// How many there were.
    pub(super) fn added(&self) -> usize {
        self.added
    }

    /// Adds that of a tick, in nodes: what came less what was forecast.
    pub(super) fn add(&mut self, error: f64) {
        *self.weights.entry(parts(error)).or_default() += self.weight;
        self.added += 1;
        self.weight *= self.growth;
        if self.weight > WEIGHT_MAX {
            self.weights.values_mut().for_each(|weight| *weight /= WEIGHT_MAX);
            // What has decayed to nothing would only fill memory.
            self.weights.retain(|_, weight| *weight > 1.0 / WEIGHT_MAX);
            self.weight = 1.0;
        }
    }

    /// The counts around a forecast; zero for sure where there was no error yet.
    pub(super) fn around(&self, centre: f64) -> Distribution {
        let centre = parts(centre);
        let mut counts: Vec<(u64, f64)> = Vec::new();
        for (error, weight) in &self.weights {
            let count = whole(centre.saturating_add(*error));
            match counts.last_mut().filter(|last| last.0 == count) {
                Some(last) => last.1 += weight,
                None => counts.push((count, *weight)),
            }
        }
        Distribution::weighted(counts.into_iter())
    }
}

fn parts(nodes: f64) -> i64 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "as many as there can be where it is beyond its range"
    )]
    let parts = (PARTS * nodes).round() as i64;
    parts
}

/// The nearest count, halves up.
fn whole(parts: i64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0, and whole")]
    let whole = (parts as f64 / PARTS + 0.5).floor().max(0.0) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    fn errors(of: &[f64]) -> Errors {
        let mut errors = Errors::new(sample::LEAD);
        for error in of {
            errors.add(*error);
        }
        errors
    }

    /// Around 1.5, the errors -2, 0 and 1 are the counts 0, 2 and 3.
    #[test]
    fn past_errors_lie_around_the_forecast() {
        let d = errors(&[0.0, 1.0, -2.0]).around(1.5);
        assert_eq!([0.3, 0.6, 0.9].map(|q| d.quantile(q)), [0, 2, 3]);
        assert_eq!(errors(&[]).around(7.0).most(), 0);
    }

    /// A week of ticks later, an error weighs half: 1 against the weights 2^(n/10080) of 10,080 others.
    #[test]
    fn old_errors_are_forgotten_by_half_in_a_week() {
        let mut errors = errors(&[5.0]);
        (0..10_080).for_each(|_| errors.add(0.0));
        let others = f64::from(10_080).recip().exp2();
        let sum = others * (2.0 - 1.0) / (others - 1.0);
        let chance = errors.around(0.0).chance_of(5);
        assert!((chance - 1.0 / (1.0 + sum)).abs() < 1e-9, "{chance}");
    }

    #[test]
    fn weights_are_scaled_back() {
        let mut errors = Errors { growth: 1e7, ..errors(&[]) };
        for error in [1.0, 2.0, 3.0, 4.0] {
            errors.add(error);
        }
        assert_eq!(errors.around(0.0).quantile(0.5), 4);
        assert!(errors.weights.len() < 4 && errors.weight < WEIGHT_MAX);
    }
}
