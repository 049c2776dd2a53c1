//! A histogram of past errors, which turns a forecast of one number into a distribution.
//!
//! An error has the weight w = 2^(-age / half-life). Around a forecast c, a count n has the total
//! weight of the errors e with round(c + e) = n, where negative counts become 0. If present errors
//! are distributed like past errors, each quantile is exceeded with its nominal probability.

use crate::forecast::histogram::{GrowingWeight, Histogram};
use crate::forecast::{distribution::Distribution, lead::Lead};

/// Resolution of the histogram, in bins per node. Bins are quarters of a node because errors are
/// added to forecasts that are not whole.
const PARTS: f64 = 4.0;

/// A decayed histogram of forecast errors.
#[derive(Clone, Debug)]
pub(crate) struct ErrorHistogram {
    /// By error, in quarters of a node.
    errors: Histogram<i64>,
    weight: GrowingWeight,
    added: usize,
}

impl ErrorHistogram {
    pub(crate) fn new(lead: Lead) -> Self {
        Self { errors: Histogram::default(), weight: GrowingWeight::new(lead), added: 0 }
    }

    /// Returns how many errors were added.
    pub(crate) fn added(&self) -> usize {
        self.added
    }

    /// Adds the error of one tick, in nodes: the observed value less the forecast.
    pub(crate) fn add(&mut self, error: f64) {
        self.errors.add(parts(error), self.weight.now());
        self.added += 1;
        if let Some(scale) = self.weight.next_tick() {
            self.errors.scale(scale);
        }
    }

    /// Returns the distribution of counts around the forecast `centre`, in nodes.
    ///
    /// It is 0 with certainty until an error has been added.
    pub(crate) fn around(&self, centre: f64) -> Distribution {
        let centre = parts(centre);
        let mut counts: Vec<(u64, f64)> = Vec::new();
        for (error, weight) in self.errors.iter() {
            let count = whole(centre.saturating_add(*error));
            match counts.last_mut().filter(|last| last.0 == count) {
                Some(last) => last.1 += weight,
                None => counts.push((count, weight)),
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
}
