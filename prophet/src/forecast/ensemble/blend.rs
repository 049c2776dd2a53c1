//! Demand ahead by several methods together: the mean of what they say, by weights that follow their squared errors.
//!
//! Fixed share as in `share.rs`, for each bucket by itself. A squared error e² counts as it does in the likelihood of normal errors,
//! exp(-e² / 2 h s²), where s² is the decayed mean square of the blend's own errors, and h the ticks looked ahead: errors
//! of overlapping windows are h times the same news. No decision rests on it: a backtest teaches it, and nothing else.

use super::super::hyperparameters::{FORGETTING_SECONDS, SCALE_SECONDS};

/// See the module.
#[derive(Clone, Debug)]
pub struct Blend {
    ticks_ahead: f64,
    weights: Vec<f64>,
    /// Decayed sums of squares, and of ticks.
    squares: (f64, f64),
    /// What is dealt evenly at a tick.
    share: f64,
    /// What a sum keeps over a tick.
    keep: f64,
}

impl Blend {
    /// Of so many methods, all alike, for demand so many ticks ahead.
    pub fn new(methods: usize, ticks_ahead: usize, tick_seconds: i64) -> Self {
        let tick = tick_seconds as f64;
        Self {
            ticks_ahead: ticks_ahead.max(1) as f64,
            weights: vec![1.0 / methods as f64; methods],
            squares: (0.0, 0.0),
            share: (tick / FORGETTING_SECONDS).min(1.0),
            keep: (-tick / SCALE_SECONDS).exp2(),
        }
    }

    /// What say each method has; they sum to one.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Learns what demand came to, of which the methods said so much.
    pub fn learn(&mut self, said: &[f64], demand: f64) {
        let mixed: f64 = self.weights.iter().zip(said).map(|(weight, said)| weight * said).sum();
        let square = (mixed - demand).powi(2);
        self.squares = (self.keep * self.squares.0 + square, self.keep * self.squares.1 + 1.0);
        let scale = 2.0 * self.ticks_ahead * self.squares.0 / self.squares.1;
        if scale <= 0.0 {
            return;
        }
        let losses = said.iter().map(|said| (said - demand).powi(2) / scale);
        let least = losses.clone().fold(f64::INFINITY, f64::min);
        self.weights.iter_mut().zip(losses).for_each(|(weight, loss)| *weight *= (least - loss).exp());
        let sum: f64 = self.weights.iter().sum();
        let even = self.share / self.weights.len() as f64;
        self.weights.iter_mut().for_each(|weight| *weight = (1.0 - self.share) * *weight / sum + even);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of a day: a seventh is dealt evenly. Of 1 and 5 the mean is 3, a square of 1 off 2: the first loses 1/2, the second 9/2.
    #[test]
    fn weights_follow_squares() {
        let mut blend = Blend::new(2, 1, 86_400);
        blend.learn(&[1.0, 5.0], 2.0);
        let first = 1.0 / (1.0 + (-4.0_f64).exp());
        assert!((blend.weights()[0] - (6.0 / 7.0 * first + 1.0 / 14.0)).abs() < 1e-12, "{blend:?}");
    }

    #[test]
    fn it_changes_its_mind() {
        let mut blend = Blend::new(2, 1, 3_600);
        (0..200).for_each(|_| blend.learn(&[1.0, 2.0], 1.0));
        assert!(blend.weights()[0] > 0.9, "{blend:?}");
        (0..200).for_each(|_| blend.learn(&[1.0, 2.0], 2.0));
        assert!(blend.weights()[1] > 0.9, "{blend:?}");
    }

    #[test]
    fn without_errors_nothing_changes() {
        let mut blend = Blend::new(2, 3, 60);
        blend.learn(&[4.0, 4.0], 4.0);
        assert_eq!(blend.weights(), [0.5, 0.5]);
    }
}
