//! How much arrived in the last minute and in the last ten, and how alike two such moments are: exp(-sum of w |sqrt a - sqrt a'|) over
//! both, with a in eighths of a node and w their weights.

use super::Lead;
use super::hyperparameters::{ACTIVITY_SECONDS, ACTIVITY_WEIGHTS};
use super::shapes::Shapes;
use crate::record::History;

/// The square roots of what arrived, in steps of an eighth: up to 128 nodes are told apart.
pub(super) type Level = [u8; 2];

/// How alike levels are, by their difference.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    ticks: [usize; 2],
    likeness: [Vec<f64>; 2],
}

impl Activity {
    pub(super) fn new(lead: Lead) -> Self {
        let ticks = |seconds: i64| usize::try_from(seconds / lead.tick_seconds.max(1)).unwrap_or(1).max(1);
        let likeness =
            |weight: f64| (0..=u8::MAX).map(|apart| (-weight * f64::from(apart) / 8.0).exp()).collect();
        Self { ticks: ACTIVITY_SECONDS.map(ticks), likeness: ACTIVITY_WEIGHTS.map(likeness) }
    }

    /// The level at the last tick.
    pub(super) fn level(&self, history: &History, shapes: &Shapes) -> Level {
        self.ticks.map(|ticks| {
            let recent: f64 = history.latest(ticks).map(|tick| shapes.eighths(&tick.arrivals)).sum();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "clamped to its range"
            )]
            let level = (8.0 * recent.sqrt()).round().clamp(0.0, 255.0) as u8;
            level
        })
    }

    /// In (0, 1].
    pub(super) fn likeness(&self, one: Level, other: Level) -> f64 {
        let apart = one.into_iter().zip(other).map(|(one, other)| usize::from(one.abs_diff(other)));
        self.likeness.iter().zip(apart).map(|(likeness, apart)| likeness[apart]).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    /// A minute is one tick and ten minutes are ten. One apart in the root of the minute and two in that of the ten: exp(-1 - 2/2).
    #[test]
    fn both_differences_count() {
        let activity = Activity::new(sample::LEAD);
        assert_eq!(activity.ticks, [1, 10]);
        assert!((activity.likeness([8, 0], [0, 16]) - (-2.0_f64).exp()).abs() < 1e-12);
        assert!((activity.likeness([9, 40], [9, 40]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn ticks_that_are_longer_are_one() {
        let slow = Lead { seconds: 600, tick_seconds: 300 };
        assert_eq!(Activity::new(slow).ticks, [1, 2]);
    }
}
