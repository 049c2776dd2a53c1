//! Demand ahead by several methods together: a mean of what they say, by weights that follow their squared errors.
//!
//! The gradient of the squared error tells each method's regret r against the mean of all; weights are
//! w = (R)+ / (S + max r²), with R the sum of regrets and S of their squares (Gaillard, Stoltz and van Erven, A second-order bound with
//! excess losses, 2014, section 5: ML-Poly). So they go to the best mean of methods, not only to the best method, and no rate
//! has to be chosen. Sums are forgotten by half in a week. No decision rests on it: a backtest teaches it, and nothing else.

use super::super::hyperparameters::SCALE_SECONDS;

/// See the module.
#[derive(Clone, Debug)]
pub struct Blend {
    weights: Vec<f64>,
    /// By method: decayed sums of regrets, and of their squares.
    sums: Vec<(f64, f64)>,
    /// The largest square of a regret.
    most: f64,
    /// What a sum keeps over a tick.
    keep: f64,
}

impl Blend {
    /// Of so many methods, all alike.
    pub fn new(methods: usize, tick_seconds: i64) -> Self {
        Self {
            weights: vec![1.0 / methods as f64; methods],
            sums: vec![(0.0, 0.0); methods],
            most: 0.0,
            keep: (-(tick_seconds as f64) / SCALE_SECONDS).exp2(),
        }
    }

    /// What say each method has; they sum to one.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Learns what demand came to, of which the methods said so much.
    pub fn learn(&mut self, said: &[f64], demand: f64) {
        let mixed: f64 = self.weights.iter().zip(said).map(|(weight, said)| weight * said).sum();
        let regrets: Vec<f64> = said.iter().map(|said| 2.0 * (mixed - demand) * (mixed - said)).collect();
        self.most = regrets.iter().map(|regret| regret * regret).fold(self.keep * self.most, f64::max);
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

    /// Of 1 and 5 the mean is 3: too high by 1 for 2, so that the first was right to be 2 lower, a regret of 4, and the second
    /// has one of -4.
    #[test]
    fn weights_follow_regrets() {
        let mut blend = Blend::new(2, 60);
        blend.learn(&[1.0, 5.0], 2.0);
        assert_eq!(blend.weights(), [1.0, 0.0]);
        assert!((blend.sums[0].0 - 4.0).abs() < 1e-12 && (blend.sums[1].0 + 4.0).abs() < 1e-12, "{blend:?}");
    }

    /// One is always 1 too low, the other 3 too high: three parts of the first and one of the second are right.
    #[test]
    fn the_best_mean_is_found() {
        let mut blend = Blend::new(2, 60);
        (0..5_000).for_each(|tick| blend.learn(&[9.0, 13.0], 10.0 + f64::from(tick % 2) - 0.5));
        let mean = 9.0 * blend.weights()[0] + 13.0 * blend.weights()[1];
        assert!((mean - 10.0).abs() < 0.3, "{blend:?}");
    }

    #[test]
    fn it_changes_its_mind() {
        let mut blend = Blend::new(2, 3_600);
        (0..200).for_each(|_| blend.learn(&[1.0, 2.0], 1.0));
        assert!(blend.weights()[0] > 0.9, "{blend:?}");
        (0..800).for_each(|_| blend.learn(&[1.0, 2.0], 2.0));
        assert!(blend.weights()[1] > 0.9, "{blend:?}");
    }

    #[test]
    fn without_errors_nothing_changes() {
        let mut blend = Blend::new(2, 60);
        blend.learn(&[4.0, 4.0], 4.0);
        assert_eq!(blend.weights(), [0.5, 0.5]);
    }
}
