//! A histogram of past errors, which turns a forecast of one number into a distribution.
//!
//! An error has the weight w = 2^(-age / half-life). Around a forecast c, a count n has the total
//! weight of the errors e with round(c + e) = n, where negative counts become 0. If present errors
//! are distributed like past errors, each quantile is exceeded with its nominal probability.

use std::collections::BTreeMap;

use crate::forecast::hyperparameters::HALF_LIFE_SECONDS;
use crate::forecast::{distribution::Distribution, lead::Lead};

/// Resolution of the histogram, in bins per node. Bins are quarters of a node because errors are
/// added to forecasts that are not whole.
const PARTS: f64 = 4.0;

/// Weight of a new error, without a unit, at which all weights are rescaled. New weights grow
/// instead of old ones decaying, and 1e12 is well below 2^53 (9e15), where an `f64` loses the units
/// of a sum.
const WEIGHT_MAX: f64 = 1e12;

/// A decayed histogram of forecast errors.
#[derive(Clone, Debug)]
pub(crate) struct ErrorHistogram {
    /// The weights per error, which is in quarters of a node.
    weights: BTreeMap<i64, f64>,
    /// The weight of the next error.
    weight: f64,
    /// The factor by which `weight` grows in one tick.
    growth: f64,
    added: usize,
}

impl ErrorHistogram {
    pub(crate) fn new(lead: Lead) -> Self {
        let growth = (lead.tick_seconds as f64 / HALF_LIFE_SECONDS).exp2();
        Self { weights: BTreeMap::new(), weight: 1.0, growth, added: 0 }
    }

    /// Returns how many errors were added.
    pub(crate) fn added(&self) -> usize {
        self.added
    }

    /// Adds the error of one tick, in nodes: the observed value less the forecast.
    pub(crate) fn add(&mut self, error: f64) {
        *self.weights.entry(parts(error)).or_default() += self.weight;
        self.added += 1;
        self.weight *= self.growth;
        if self.weight > WEIGHT_MAX {
            self.weights.values_mut().for_each(|weight| *weight /= WEIGHT_MAX);
            // Negligible weights are dropped, so that memory stays bounded.
            self.weights.retain(|_, weight| *weight > 1.0 / WEIGHT_MAX);
            self.weight = 1.0;
        }
    }

    /// Returns the distribution of counts around the forecast `centre`, in nodes.
    ///
    /// It is 0 with certainty until an error has been added.
    pub(crate) fn around(&self, centre: f64) -> Distribution {
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
        reason = "the cast saturates, which is right for numbers out of range"
    )]
    let parts = (PARTS * nodes).round() as i64;
    parts
}

/// Returns the nearest count of nodes, at least 0. Halves are rounded up.
fn whole(parts: i64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 0 and whole"
    )]
    let whole = (parts as f64 / PARTS + 0.5).floor().max(0.0) as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    fn errors(of: &[f64]) -> ErrorHistogram {
        let mut errors = ErrorHistogram::new(sample::LEAD);
        for error in of {
            errors.add(*error);
        }
        errors
    }

    /// Around 1.5, the errors -2, 0 and 1 yield the counts 0, 2 and 3.
    #[test]
    fn past_errors_are_added_to_the_forecast() {
        let d = errors(&[0.0, 1.0, -2.0]).around(1.5);
        assert_eq!([0.3, 0.6, 0.9].map(|q| d.quantile(q)), [0, 2, 3]);
        assert_eq!(errors(&[]).around(7.0).most(), 0);
    }

    /// After one week of ticks the relative weight of an error has halved. The first error has the
    /// weight 1, and the 10,080 later errors have the weights 2^(n/10080).
    #[test]
    fn errors_have_a_half_life_of_one_week() {
        let mut errors = errors(&[5.0]);
        (0..10_080).for_each(|_| errors.add(0.0));
        let others = f64::from(10_080).recip().exp2();
        let sum = others * (2.0 - 1.0) / (others - 1.0);
        let chance = errors.around(0.0).chance_of(5);
        assert!((chance - 1.0 / (1.0 + sum)).abs() < 1e-9, "{chance}");
    }

    #[test]
    fn growing_weights_are_rescaled() {
        let mut errors = ErrorHistogram { growth: 1e7, ..errors(&[]) };
        for error in [1.0, 2.0, 3.0, 4.0] {
            errors.add(error);
        }
        assert_eq!(errors.around(0.0).quantile(0.5), 4);
        assert!(errors.weights.len() < 4 && errors.weight < WEIGHT_MAX);
    }
}
