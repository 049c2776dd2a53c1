//! Correction of the service level that the shadow stocks have to reach.
//!
//! A shadow stock models neither gangs nor groups nor failed launches, so the share of pods that
//! wait in it differs from the share that waits in the cluster. The correction is learnt from the
//! pods that started in the cluster. Let S be the service level of the policy, and h = 1 for a pod
//! that waited no longer than one scan of the autoscaler, h = 0 for another pod. Then
//! logit(required level) = logit(S) + theta, and each node full of pods adds gain (S - mean of h)
//! to theta. This is adaptive conformal inference (Gibbs and Candès 2021, equation 2): over pods
//! that fill n nodes, the share of pods with h = 1 is within (range of theta) / (gain n) of S,
//! whatever the shadow stocks report. Launches that no pod used do not count.

use crate::forecast::hyperparameters::{FEEDBACK_GAIN, FEEDBACK_MAX};
use crate::record::BucketTick;

/// The correction of the service level, from the pods of all buckets.
#[derive(Clone, Debug, Default)]
pub(super) struct Feedback {
    /// The correction in log-odds of the level, at most `FEEDBACK_MAX` either way.
    theta: f64,
    /// Whether a placeholder ever had a node. Before that, a pod that waits is no evidence about
    /// the level, because the policy has not held any node.
    has_started: bool,
}

impl Feedback {
    /// Learns from a tick of a bucket. `level` is the service level of the policy, between 0 and 1.
    /// `pods_per_node` is the number of pods that fill a node, at least 1.
    pub(super) fn learn(&mut self, tick: BucketTick, level: f64, pods_per_node: f64) {
        self.has_started |= tick.ready > 0;
        if self.has_started {
            let (hidden, waited) = (tick.pods_hidden as f64, tick.pods_waited as f64);
            let missed = (level * waited - (1.0 - level) * hidden) / pods_per_node;
            self.theta = (self.theta + FEEDBACK_GAIN * missed).clamp(-FEEDBACK_MAX, FEEDBACK_MAX);
        }
    }

    /// Returns the level that a shadow stock has to reach, for the service level `level` of the
    /// policy.
    pub(super) fn ask(&self, level: f64) -> f64 {
        let odds = level / (1.0 - level) * self.theta.exp();
        odds / (1.0 + odds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each tick is (placeholders on nodes, pods hidden, pods that waited). Two pods fill a node.
    #[track_caller]
    fn check(ticks: &[(u64, u64, u64)], theta: f64) {
        let mut feedback = Feedback::default();
        for &(ready, pods_hidden, pods_waited) in ticks {
            let tick = BucketTick { ready, pods_hidden, pods_waited, ..BucketTick::default() };
            feedback.learn(tick, 0.9, 2.0);
        }
        assert!((feedback.theta - theta).abs() < 1e-12, "{feedback:?}");
    }

    #[test]
    fn a_pod_that_waited_raises_the_correction() {
        check(&[(0, 0, 4)], 0.0);
        check(&[(1, 2, 0)], -0.1 * FEEDBACK_GAIN);
        check(&[(1, 0, 0), (0, 0, 4)], 2.0 * 0.9 * FEEDBACK_GAIN);
        check(&[(1, 9, 1)], 0.0);
    }

    #[test]
    fn theta_moves_the_log_odds_of_the_level() {
        let feedback = Feedback { theta: 2.0_f64.ln(), ..Feedback::default() };
        assert!((feedback.ask(0.5) - 2.0 / 3.0).abs() < 1e-12);
        assert!((Feedback::default().ask(0.98) - 0.98).abs() < 1e-12);
    }
}
