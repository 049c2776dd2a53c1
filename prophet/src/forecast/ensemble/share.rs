//! Fixed share: weights of experts by what following each would have cost, quick to change their mind.
//!
//! Herbster and Warmuth, Tracking the Best Expert (1998): after a tick with losses l, w_i becomes w_i exp(-eta l_i), and
//! then each weight is mixed with a little of the mean, so that none is ever out of reach. eta is in units of the mean loss of
//! the weighted experts: no currency, and no size of a cluster, has a say.

use super::super::hyperparameters::{ETA, FORGETTING_SECONDS, SCALE_SECONDS};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct FixedShare {
    weights: Vec<f64>,
    /// Decayed sums of mean losses, and of ticks.
    sums: (f64, f64),
    /// Of a tick, in days.
    days: f64,
    /// What is mixed in at a tick.
    share: f64,
    /// What a sum keeps over a tick.
    keep: f64,
}

impl FixedShare {
    /// All alike.
    pub(super) fn new(experts: usize, tick_seconds: i64) -> Self {
        let tick = tick_seconds as f64;
        Self {
            weights: vec![1.0 / experts as f64; experts],
            sums: (0.0, 0.0),
            days: tick / 86_400.0,
            share: (tick / FORGETTING_SECONDS).min(1.0),
            keep: (-tick / SCALE_SECONDS).exp2(),
        }
    }

    /// Sums to one.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// What a tick would have cost with each expert.
    pub(super) fn learn(&mut self, losses: &[f64]) {
        let mean: f64 = self.weights.iter().zip(losses).map(|(weight, loss)| weight * loss).sum();
        self.sums = (self.keep * self.sums.0 + mean, self.keep * self.sums.1 + 1.0);
        let a_day = self.sums.0 / self.sums.1 / self.days;
        if a_day <= 0.0 {
            return;
        }
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        for (weight, loss) in self.weights.iter_mut().zip(losses) {
            *weight *= (-ETA * (loss - least) / a_day).exp();
        }
        let sum: f64 = self.weights.iter().sum();
        let even = self.share / self.weights.len() as f64;
        self.weights.iter_mut().for_each(|weight| *weight = (1.0 - self.share) * *weight / sum + even);
    }
}
