//! Demand ahead as a weighted average over methods. The weights follow the squared errors of the
//! methods.
//!
//! The gradient of the squared error at the average gives each method's regret r. The weights are
//! proportional to w = (R)+ / (S + max r²), where R is the sum of a method's regrets and S the sum
//! of their squares (Gaillard, Stoltz and van Erven, A second-order bound with excess losses, 2014,
//! section 5: ML-Poly). The weights therefore converge to the best average of methods and not only
//! to the best method, and no learning rate has to be chosen. The sums have a half-life of one
//! week. Only the backtest uses a blend. No decision depends on it.

use super::hyperparameters::SCALE_SECONDS;

/// A weighted average over methods, with weights that follow their squared errors.
#[derive(Clone, Debug)]
pub struct Blend {
    weights: Vec<f64>,
    /// The decayed sums of regrets and of squared regrets, per method.
    sums: Vec<(f64, f64)>,
    /// The largest squared regret, decayed.
    most: f64,
    /// The factor by which sums decay in one tick.
    keep: f64,
}

impl Blend {
    /// A blend with equal weights for `methods` methods, at least 1.
    pub fn new(methods: usize, tick_seconds: i64) -> Self {
        Self {
            weights: vec![1.0 / methods as f64; methods],
            sums: vec![(0.0, 0.0); methods],
            most: 0.0,
            keep: (-(tick_seconds as f64) / SCALE_SECONDS).exp2(),
        }
    }

    /// Returns the weight of each method. The weights sum to 1.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Learns from the observed `demand` and the forecast of each method for it, all in nodes.
    pub fn learn(&mut self, forecasts: &[f64], demand: f64) {
        let weighted = self.weights.iter().zip(forecasts);
        let mixed: f64 = weighted.map(|(weight, forecast)| weight * forecast).sum();
        let regret = |forecast: &f64| 2.0 * (mixed - demand) * (mixed - forecast);
        let regrets: Vec<f64> = forecasts.iter().map(regret).collect();
        self.most =
            regrets.iter().map(|regret| regret * regret).fold(self.keep * self.most, f64::max);
        for (sums, regret) in self.sums.iter_mut().zip(&regrets) {
            *sums = (self.keep * sums.0 + regret, self.keep * sums.1 + regret * regret);
        }
        let scaled = |&(sum, squares): &(f64, f64)| sum.max(0.0) / (squares + self.most);
        let total: f64 = self.sums.iter().map(scaled).filter(|weight| weight.is_finite()).sum();
        if total > 0.0 {
            self.weights = self.sums.iter().map(|sums| scaled(sums) / total).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The average of the forecasts 1 and 5 is 3, which exceeds the demand 2 by 1. The first
    /// forecast is 2 below the average, so its regret is 2 · 1 · 2 = 4. The regret of the second is
    /// -4.
    #[test]
    fn weights_follow_regrets() {
        let mut blend = Blend::new(2, 60);
        blend.learn(&[1.0, 5.0], 2.0);
        assert_eq!(blend.weights(), [1.0, 0.0]);
        assert!(
            (blend.sums[0].0 - 4.0).abs() < 1e-12 && (blend.sums[1].0 + 4.0).abs() < 1e-12,
            "{blend:?}"
        );
    }

    /// One forecast is always 1 too low and the other 3 too high, so the best weights are 3/4 and
    /// 1/4.
    #[test]
    fn weights_converge_to_the_best_average() {
        let mut blend = Blend::new(2, 60);
        (0..5_000).for_each(|tick| blend.learn(&[9.0, 13.0], 10.0 + f64::from(tick % 2) - 0.5));
        let mean = 9.0 * blend.weights()[0] + 13.0 * blend.weights()[1];
        assert!((mean - 10.0).abs() < 0.3, "{blend:?}");
    }

    #[test]
    fn weights_shift_when_another_method_becomes_better() {
        let mut blend = Blend::new(2, 3_600);
        (0..200).for_each(|_| blend.learn(&[1.0, 2.0], 1.0));
        assert!(blend.weights()[0] > 0.9, "{blend:?}");
        (0..800).for_each(|_| blend.learn(&[1.0, 2.0], 2.0));
        assert!(blend.weights()[1] > 0.9, "{blend:?}");
    }

    #[test]
    fn without_errors_the_weights_do_not_change() {
        let mut blend = Blend::new(2, 60);
        blend.learn(&[4.0, 4.0], 4.0);
        assert_eq!(blend.weights(), [0.5, 0.5]);
    }
}
