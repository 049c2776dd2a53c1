//! Correction of the service level that the shadow stocks have to reach.
//!
//! A shadow stock models neither gangs nor groups nor failed launches, so the share of launches
//! that it hides differs from the share that the cluster hides. The correction is learnt from the
//! launches of the cluster. Let S be the service level of the policy, and h = 1 for a launch that
//! was hidden, h = 0 for a launch that a pod waited for. Then logit(required level) = logit(S) +
//! theta, and each launch adds gain (S - h) to theta. This is adaptive conformal inference (Gibbs
//! and Candès 2021, equation 2): over n launches the share hidden is within (range of theta) /
//! (gain n) of S, whatever the shadow stocks report.

use crate::forecast::hyperparameters::{FEEDBACK_GAIN, FEEDBACK_MAX};
use crate::record::BucketTick;

/// The correction of the service level of one bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Feedback {
    /// The correction in log-odds of the level, at most `FEEDBACK_MAX` either way.
    theta: f64,
    /// Whether a placeholder ever had a node. Before that, no launch can be hidden, so a pod that
    /// waits is no evidence about the level.
    has_started: bool,
}

impl Feedback {
    /// Learns from a tick. `level` is the service level of the policy, between 0 and 1.
    pub(super) fn learn(&mut self, tick: BucketTick, level: f64) {
        self.has_started |= tick.ready > 0 || tick.hidden > 0;
        if self.has_started {
            let (hidden, waited_for) = (tick.hidden as f64, tick.waited_for as f64);
            let missed = level * waited_for - (1.0 - level) * hidden;
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

    /// Each tick is (ready, hidden, waited for).
    #[track_caller]
    fn check(ticks: &[(u64, u64, u64)], theta: f64) {
        let mut feedback = Feedback::default();
        for &(ready, hidden, waited_for) in ticks {
            feedback.learn(BucketTick { ready, hidden, waited_for, ..BucketTick::default() }, 0.9);
        }
        assert!((feedback.theta - theta).abs() < 1e-12, "{feedback:?}");
    }

    #[test]
    fn a_launch_that_a_pod_waited_for_raises_the_correction() {
        check(&[(0, 0, 4)], 0.0);
        check(&[(1, 1, 0)], -0.1 * FEEDBACK_GAIN);
        check(&[(1, 0, 0), (0, 0, 2)], 2.0 * 0.9 * FEEDBACK_GAIN);
        check(&[(1, 9, 1)], 0.0);
    }

    #[test]
    fn theta_moves_the_log_odds_of_the_level() {
        let feedback = Feedback { theta: 2.0_f64.ln(), ..Feedback::default() };
        assert!((feedback.ask(0.5) - 2.0 / 3.0).abs() < 1e-12);
        assert!((Feedback::default().ask(0.98) - 0.98).abs() < 1e-12);
    }
}
