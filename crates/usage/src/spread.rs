//! The histogram of one sample: the weights of its measurements, by boundary.

use std::collections::BTreeMap;

use super::ladder::{LADDER, rung};

/// A histogram of a few measurements. Only bins that have some take memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spread {
    /// The weights, by index in [`LADDER`].
    weights: BTreeMap<usize, f64>,
    /// The sum of weights.
    total: f64,
}

impl Spread {
    /// Adds a measurement, in units of the ladder, with a weight.
    pub(super) fn add(&mut self, value: u64, weight: f64) {
        *self.weights.entry(rung(value)).or_default() += weight;
        self.total += weight;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// The non-empty bins in ascending order, each with its weight.
    pub(super) fn bins(&self) -> impl Iterator<Item = (usize, f64)> {
        self.weights.iter().map(|(bin, weight)| (*bin, *weight))
    }

    /// The mean of the boundaries, as in equation 2.
    pub(super) fn mean(&self) -> f64 {
        let sum: f64 = self.bins().map(|(bin, weight)| LADDER[bin] as f64 * weight).sum();
        if self.total > 0.0 { sum / self.total } else { 0.0 }
    }

    /// The largest boundary that has a measurement.
    pub(super) fn max(&self) -> u64 {
        self.weights.last_key_value().map_or(0, |(bin, _)| LADDER[*bin])
    }

    /// The sums over the bins up to and including each bin, for the costs of many limits.
    pub(super) fn cumulated(&self) -> Cumulated {
        let (mut weight, mut load) = (0.0, 0.0);
        let steps = self.bins().map(|(bin, more)| {
            weight += more;
            load += more * LADDER[bin] as f64;
            (LADDER[bin], weight, load)
        });
        Cumulated { steps: steps.collect(), total: self.total }
    }
}

#[cfg(test)]
impl Spread {
    /// A histogram of these measurements, each with the weight 1.
    pub(super) fn of(values: &[u64]) -> Self {
        let mut spread = Self::default();
        for value in values {
            spread.add(*value, 1.0);
        }
        spread
    }
}

/// Cumulated weights and loads of a [`Spread`].
pub(super) struct Cumulated {
    /// Boundary, weight and load of the bins up to it.
    steps: Vec<(u64, f64, f64)>,
    total: f64,
}

impl Cumulated {
    /// The share of the measurements above a limit, and the mean share of the limit that
    /// measurements below it leave unused.
    pub(super) fn over_and_under(&self, limit: u64) -> (f64, f64) {
        if self.total <= 0.0 {
            return (0.0, 0.0);
        }
        let below = self.steps.partition_point(|(boundary, ..)| *boundary <= limit);
        let (weight, load) = below.checked_sub(1).map_or((0.0, 0.0), |at| {
            let (_, weight, load) = self.steps[at];
            (weight, load)
        });
        let under = if limit == 0 { 0.0 } else { weight - load / limit as f64 };
        ((self.total - weight) / self.total, under / self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of four measurements, 40, 10, 20 and 10, two are below 20, and one is above it. The limit
    /// leaves half of it unused at two of four times.
    #[test]
    fn costs_of_a_limit_are_the_share_above_it_and_the_unused_share_of_it() {
        let mut spread = Spread::default();
        for value in [40, 10, 20, 10] {
            spread.add(value, 1.0);
        }
        assert_eq!((spread.mean(), spread.max()), (20.0, 40));
        let costs = spread.cumulated();
        assert_eq!(costs.over_and_under(20), (0.25, 0.25));
        assert_eq!(costs.over_and_under(0), (1.0, 0.0));
        assert_eq!(costs.over_and_under(40), (0.0, 0.5));
        assert_eq!(costs.over_and_under(80), (0.0, 0.75));
    }
}
