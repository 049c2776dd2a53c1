//! Fixed share: weights of experts by what following each would have cost, quick to change their mind.
//!
//! Herbster and Warmuth, Tracking the Best Expert (1998): after a tick with losses l, `w_i` becomes `w_i` exp(-eta `l_i`), and
//! then each weight is mixed with a little of the mean, so that none is ever out of reach. eta is in units of the mean loss of
//! the weighted experts: no currency, and no size of a cluster, has a say. An expert that says nothing keeps its
//! share of all (Freund, Schapire, Singer and Warmuth, Using and combining predictors that specialize, 1997).

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

    /// What a tick would have cost with each expert; nothing where it had no opinion.
    pub(super) fn learn(&mut self, losses: &[Option<f64>]) {
        let heard = || self.weights.iter().zip(losses).filter_map(|(weight, loss)| Some((*weight, (*loss)?)));
        let (weight, sum) =
            heard().fold((0.0, 0.0), |(all, sum), (weight, loss)| (all + weight, sum + weight * loss));
        if weight <= 0.0 {
            return;
        }
        let mean = sum / weight;
        self.sums = (self.keep * self.sums.0 + mean, self.keep * self.sums.1 + 1.0);
        let a_day = self.sums.0 / self.sums.1 / self.days;
        if a_day <= 0.0 {
            return;
        }
        let least = heard().map(|(_, loss)| loss).fold(f64::INFINITY, f64::min);
        let factor = |loss: f64| (-ETA * (loss - least) / a_day).exp();
        let together = heard().map(|(weight, loss)| weight * factor(loss)).sum::<f64>() / weight;
        for (weight, loss) in self.weights.iter_mut().zip(losses) {
            *weight *= loss.map_or(together, factor);
        }
        let sum: f64 = self.weights.iter().sum();
        let even = self.share / self.weights.len() as f64;
        self.weights.iter_mut().for_each(|weight| *weight = (1.0 - self.share) * *weight / sum + even);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of a day: the share is a seventh. Of losses 1 and 3 the mean is 2, a day's: the second loses 6 (3 - 1) / 2
    /// e-folds against the first, and then 1/7 is dealt evenly.
    #[test]
    fn weights_follow_losses() {
        let mut share = FixedShare::new(2, 86_400);
        share.learn(&[Some(1.0), Some(3.0)]);
        let first = 1.0 / (1.0 + (-6.0_f64).exp());
        assert!((share.weights()[0] - (6.0 / 7.0 * first + 1.0 / 14.0)).abs() < 1e-12, "{share:?}");
        assert!((share.weights().iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn it_changes_its_mind() {
        let mut share = FixedShare::new(3, 3_600);
        (0..2_400).for_each(|_| share.learn(&[1.0, 2.0, 3.0].map(Some)));
        assert!(share.weights()[0] > 0.9);
        (0..240).for_each(|_| share.learn(&[2.0, 1.0, 3.0].map(Some)));
        assert!(share.weights()[1] > 0.9, "{share:?}");
    }

    #[test]
    fn without_losses_nothing_changes() {
        let mut share = FixedShare::new(2, 60);
        share.learn(&[Some(0.0), Some(0.0)]);
        assert_eq!(share.weights(), [0.5, 0.5]);
    }

    /// The third says nothing, and keeps its third.
    #[test]
    fn who_says_nothing_loses_what_the_others_lose_together() {
        let mut share = FixedShare { share: 0.0, ..FixedShare::new(3, 86_400) };
        share.learn(&[Some(1.0), Some(3.0), None]);
        let weights = share.weights();
        assert!(weights[0] > weights[1] && (weights[2] - 1.0 / 3.0).abs() < 1e-12, "{share:?}");
        let mut silent = FixedShare::new(3, 86_400);
        silent.learn(&[None; 3]);
        assert!(silent.weights().iter().all(|weight| (weight - 1.0 / 3.0).abs() < 1e-12));
    }
}
