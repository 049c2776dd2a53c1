//! How much more, or less, has to be asked of shadows for launches to be hidden as often as is wanted: learnt from the launches
//! that were really made.
//!
//! A shadow stock knows nothing of gangs, groups and failures. With h = 1 for a launch that was hidden, 0 for one that a pod
//! waited for, and S the level wanted, logit(asked) = logit(S) + theta and theta += gain (S - h): as adaptive conformal
//! inference has it (Gibbs and Candès 2021, equation 2), so that over n launches the share hidden is within
//! (range of theta) / (gain n) of S, whatever the shadows say.

use super::super::hyperparameters::{FEEDBACK_GAIN, FEEDBACK_MAX};
use crate::record::BucketTick;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Feedback {
    theta: f64,
    /// Whether a placeholder ever had a node: what waits before has nothing to do with what was asked.
    is_heard: bool,
}

impl Feedback {
    /// Learns from a tick, with the level wanted.
    pub(super) fn learn(&mut self, tick: BucketTick, level: f64) {
        self.is_heard |= tick.ready > 0 || tick.hidden > 0;
        if self.is_heard {
            let (hidden, waited_for) = (tick.hidden as f64, tick.waited_for as f64);
            let missed = level * waited_for - (1.0 - level) * hidden;
            self.theta = (self.theta + FEEDBACK_GAIN * missed).clamp(-FEEDBACK_MAX, FEEDBACK_MAX);
        }
    }

    /// The level to ask of shadows.
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
    fn a_launch_that_was_waited_for_asks_for_more() {
        check(&[(0, 0, 4)], 0.0);
        check(&[(1, 1, 0)], -0.1 * FEEDBACK_GAIN);
        check(&[(1, 0, 0), (0, 0, 2)], 2.0 * 0.9 * FEEDBACK_GAIN);
        check(&[(1, 9, 1)], 0.0);
    }

    #[test]
    fn what_is_asked_moves_by_odds() {
        let feedback = Feedback { theta: 2.0_f64.ln(), ..Feedback::default() };
        assert!((feedback.ask(0.5) - 2.0 / 3.0).abs() < 1e-12);
        assert!((Feedback::default().ask(0.98) - 0.98).abs() < 1e-12);
    }
}
