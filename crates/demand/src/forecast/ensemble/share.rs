//! Fixed share: weights of experts that follow a change of the best expert quickly.
//!
//! The loss of an expert at a tick is what following it would have cost. Herbster and Warmuth,
//! Tracking the Best Expert (1998): after a tick with losses l, `w_i` becomes `w_i` exp(-eta
//! `l_i`). Then each weight is mixed with a small part of its first value, so that every expert can
//! recover. eta is in units of the mean loss per day of the weighted experts, so the weights depend
//! neither on the currency nor on the size of the cluster. An expert without a forecast keeps its
//! share of all weights (Freund, Schapire, Singer and Warmuth, Using and combining predictors that
//! specialize, 1997).

use crate::forecast::hyperparameters::{ETA, FORGETTING_SECONDS, SCALE_SECONDS};

/// The weights of the experts of one bucket.
#[derive(Clone, Debug)]
pub(super) struct FixedShare {
    weights: Vec<f64>,
    /// The weights before the first tick.
    priors: Vec<f64>,
    /// Decayed sums: the mean losses of the ticks, and the number of ticks.
    sums: (f64, f64),
    /// The length of a tick in days.
    days: f64,
    /// The part of the first weights that is mixed into the weights at a tick, 0 to 1.
    share: f64,
    /// The factor by which a sum decays over a tick.
    keep: f64,
}

impl FixedShare {
    /// Starts with weights in the ratio of `priors`, of which one is positive at least. An expert
    /// with the prior 0 never gets weight.
    pub(super) fn new(priors: &[f64], tick_seconds: i64) -> Self {
        let (tick, sum) = (tick_seconds as f64, priors.iter().sum::<f64>());
        let priors: Vec<f64> = priors.iter().map(|prior| prior / sum).collect();
        Self {
            weights: priors.clone(),
            priors,
            sums: (0.0, 0.0),
            days: tick / 86_400.0,
            share: (tick / FORGETTING_SECONDS).min(1.0),
            keep: (-tick / SCALE_SECONDS).exp2(),
        }
    }

    /// Returns the weights in the order of the experts. They sum to 1.
    pub(super) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Learns from a tick: its cost with each expert, or `None` where an expert had no forecast.
    pub(super) fn learn(&mut self, losses: &[Option<f64>]) {
        let observed = || {
            let weighed = self.weights.iter().zip(losses).filter(|(weight, _)| **weight > 0.0);
            weighed.filter_map(|(weight, loss)| Some((*weight, (*loss)?)))
        };
        let (weight, sum) = observed()
            .fold((0.0, 0.0), |(all, sum), (weight, loss)| (all + weight, sum + weight * loss));
        if weight <= 0.0 {
            return;
        }
        let mean = sum / weight;
        self.sums = (self.keep * self.sums.0 + mean, self.keep * self.sums.1 + 1.0);
        let a_day = self.sums.0 / self.sums.1 / self.days;
        if a_day <= 0.0 {
            return;
        }
        let least = observed().map(|(_, loss)| loss).fold(f64::INFINITY, f64::min);
        let factor = |loss: f64| (-ETA * (loss - least) / a_day).exp();
        let together = observed().map(|(weight, loss)| weight * factor(loss)).sum::<f64>() / weight;
        let weighed = self.weights.iter_mut().zip(losses).filter(|(weight, _)| **weight > 0.0);
        for (weight, loss) in weighed {
            *weight *= loss.map_or(together, factor);
        }
        let sum: f64 = self.weights.iter().sum();
        for (weight, prior) in self.weights.iter_mut().zip(&self.priors) {
            *weight = (1.0 - self.share) * *weight / sum + self.share * prior;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of a day: the share is 1/7. The mean of the losses 1 and 3 is 2 per day, so the second
    /// expert loses 6 (3 - 1) / 2 e-folds against the first. Then 1/7 is distributed as at first.
    #[test]
    fn weights_follow_losses() {
        let mut share = FixedShare::new(&[1.0; 2], 86_400);
        share.learn(&[Some(1.0), Some(3.0)]);
        let first = 1.0 / (1.0 + (-6.0_f64).exp());
        assert!((share.weights()[0] - (6.0 / 7.0 * first + 1.0 / 14.0)).abs() < 1e-12, "{share:?}");
        assert!((share.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    /// Without a difference between the losses, the weights return to the first ones.
    #[test]
    fn weights_return_to_the_first_ones() {
        let mut share = FixedShare::new(&[1.0, 3.0], 86_400);
        assert_eq!(share.weights(), [0.25, 0.75]);
        share.learn(&[Some(1.0), Some(3.0)]);
        assert!(share.weights()[0] > 0.8, "{share:?}");
        (0..100).for_each(|_| share.learn(&[Some(1.0); 2]));
        assert!((share.weights()[0] - 0.25).abs() < 1e-6, "{share:?}");
    }

    #[test]
    fn weights_follow_a_change_of_the_best_expert() {
        let mut share = FixedShare::new(&[1.0; 3], 3_600);
        (0..2_400).for_each(|_| share.learn(&[1.0, 2.0, 3.0].map(Some)));
        assert!(share.weights()[0] > 0.9);
        (0..240).for_each(|_| share.learn(&[2.0, 1.0, 3.0].map(Some)));
        assert!(share.weights()[1] > 0.9, "{share:?}");
    }

    #[test]
    fn equal_weights_stay_equal_without_losses() {
        let mut share = FixedShare::new(&[1.0; 2], 60);
        share.learn(&[Some(0.0), Some(0.0)]);
        assert_eq!(share.weights(), [0.5, 0.5]);
    }

    /// The third expert has no forecast and keeps its third of the weights.
    #[test]
    fn an_expert_without_a_forecast_keeps_its_share_of_the_weights() {
        let mut share = FixedShare { share: 0.0, ..FixedShare::new(&[1.0; 3], 86_400) };
        share.learn(&[Some(1.0), Some(3.0), None]);
        let weights = share.weights();
        assert!(weights[0] > weights[1] && (weights[2] - 1.0 / 3.0).abs() < 1e-12, "{share:?}");
        let mut unchanged = FixedShare::new(&[1.0; 3], 86_400);
        unchanged.learn(&[None; 3]);
        assert!(unchanged.weights().iter().all(|weight| (weight - 1.0 / 3.0).abs() < 1e-12));
    }
}
