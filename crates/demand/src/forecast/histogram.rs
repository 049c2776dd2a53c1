//! A weighted histogram whose weights decay: the weights of new values grow instead.

use std::collections::BTreeMap;

use super::hyperparameters::HALF_LIFE_SECONDS;
use super::lead::Lead;

/// Weight of a new value, without a unit, at which all weights are rescaled. It is well below 2^53
/// (9e15), where an `f64` loses the units of a sum.
const WEIGHT_MAX: f64 = 1e12;

/// Weights by value.
#[derive(Clone, Debug)]
pub(super) struct Histogram<K> {
    weights: BTreeMap<K, f64>,
}

/// The weight of the next value. It grows by a factor each tick, so that the weight of a value
/// halves in [`HALF_LIFE_SECONDS`] relative to that of a new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrowingWeight {
    weight: f64,
    growth: f64,
}

impl<K> Default for Histogram<K> {
    fn default() -> Self {
        Self { weights: BTreeMap::new() }
    }
}

impl<K: Ord> Histogram<K> {
    /// Adds a value with a weight.
    pub(super) fn add(&mut self, value: K, weight: f64) {
        *self.weights.entry(value).or_default() += weight;
    }

    /// Multiplies all weights by a factor below 1. Negligible weights are dropped, so that memory
    /// stays bounded.
    pub(super) fn scale(&mut self, by: f64) {
        self.weights.values_mut().for_each(|weight| *weight *= by);
        self.weights.retain(|_, weight| *weight > 1.0 / WEIGHT_MAX);
    }

    /// The values in ascending order, each with its weight.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, f64)> + Clone {
        self.weights.iter().map(|(value, weight)| (value, *weight))
    }
}

impl GrowingWeight {
    pub(super) fn new(lead: Lead) -> Self {
        Self { weight: 1.0, growth: (lead.tick_seconds as f64 / HALF_LIFE_SECONDS).exp2() }
    }

    /// The weight of a value of the present tick.
    pub(super) fn now(self) -> f64 {
        self.weight
    }

    /// Goes on to the next tick. Returns the factor by which all histograms must be scaled, if the
    /// weights have grown too large.
    pub(super) fn next_tick(&mut self) -> Option<f64> {
        self.weight *= self.growth;
        (self.weight > WEIGHT_MAX).then(|| 1.0 / std::mem::replace(&mut self.weight, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_weights_are_scaled_back() {
        let mut weight = GrowingWeight { weight: 1.0, growth: 1e7 };
        let mut histogram = Histogram::default();
        for value in 1..=3 {
            histogram.add(value, weight.now());
            if let Some(scale) = weight.next_tick() {
                histogram.scale(scale);
            }
        }
        let values: Vec<i32> = histogram.iter().map(|(value, _)| *value).collect();
        assert_eq!(values, [2, 3]);
        assert!(
            histogram.iter().all(|(_, weight)| weight < WEIGHT_MAX) && weight.now() < WEIGHT_MAX
        );
    }
}
