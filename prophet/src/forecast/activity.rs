//! How much arrived in the last minutes, and how alike two such moments are: exp(-|sqrt a - sqrt a'|), with a in eighths of
//! a node.

use super::Lead;
use super::hyperparameters::ACTIVITY_SECONDS;
use super::shapes::Shapes;
use crate::record::History;

/// The square root of what arrived, in steps of an eighth: up to 128 nodes are told apart.
pub(super) type Level = u8;

/// How alike levels are, by their difference.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    ticks: usize,
    likeness: Vec<f64>,
}

impl Activity {
    pub(super) fn new(lead: Lead) -> Self {
        let ticks = usize::try_from(ACTIVITY_SECONDS / lead.tick_seconds.max(1)).unwrap_or(1).max(1);
        let likeness = (0..=u8::MAX).map(|apart| (-f64::from(apart) / 8.0).exp()).collect();
        Self { ticks, likeness }
    }

    /// The level at the last tick.
    pub(super) fn level(&self, history: &History, shapes: &Shapes) -> Level {
        let recent: f64 = history.latest(self.ticks).map(|tick| shapes.eighths(&tick.arrivals)).sum();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to its range")]
        let level = (8.0 * recent.sqrt()).round().clamp(0.0, 255.0) as u8;
        level
    }

    /// In (0, 1].
    pub(super) fn likeness(&self, one: Level, other: Level) -> f64 {
        self.likeness[usize::from(one.abs_diff(other))]
    }
}
