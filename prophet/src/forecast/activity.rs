//! How much arrived in the last minute and in the last ten, and how alike two such moments are: exp(-sum of w |sqrt a - sqrt a'|) over
//! both, with a in eighths of a node and w their weights.
//!
//! Past moments are ticks. The present is any moment: a burst tells of itself before the tick that records it.

use super::hyperparameters::{ACTIVITY_SECONDS, ACTIVITY_WEIGHTS};
use super::shapes::Shapes;
use super::{Lead, Present};
use crate::record::History;

/// The square roots of what arrived, in steps of an eighth: up to 128 nodes are told apart.
pub(super) type Level = [u8; 2];

/// How alike levels are, by their difference.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    tick_seconds: i64,
    ticks: [usize; 2],
    likeness: [Vec<f64>; 2],
}

impl Activity {
    pub(super) fn new(lead: Lead) -> Self {
        let ticks = |seconds: i64| usize::try_from(seconds / lead.tick_seconds.max(1)).unwrap_or(1).max(1);
        let likeness =
            |weight: f64| (0..=u8::MAX).map(|apart| (-weight * f64::from(apart) / 8.0).exp()).collect();
        Self {
            tick_seconds: lead.tick_seconds.max(1),
            ticks: ACTIVITY_SECONDS.map(ticks),
            likeness: ACTIVITY_WEIGHTS.map(likeness),
        }
    }

    /// The level at the last tick.
    pub(super) fn at_tick(&self, history: &History, shapes: &Shapes) -> Level {
        self.ticks.map(|ticks| level(history.latest(ticks).map(|tick| shapes.eighths(&tick.arrivals)).sum()))
    }

    /// The level now: with what arrived since the last tick, and without as much of the oldest as is past. A shape that was never seen
    /// before counts from the next tick on.
    pub(super) fn now(&self, history: &History, shapes: &Shapes, now: &Present<'_>) -> Level {
        let since = history.last().map_or(0, |tick| (now.time - tick.time).num_seconds());
        let past = since.clamp(0, self.tick_seconds) as f64 / self.tick_seconds as f64;
        let arriving = shapes.eighths(now.arriving);
        self.ticks.map(|ticks| {
            let oldest = history.len().checked_sub(ticks).and_then(|at| history.get(at));
            let gone = oldest.map_or(0.0, |tick| past * shapes.eighths(&tick.arrivals));
            let recent: f64 = history.latest(ticks).map(|tick| shapes.eighths(&tick.arrivals)).sum();
            level(arriving + recent - gone)
        })
    }

    /// In (0, 1].
    pub(super) fn likeness(&self, one: Level, other: Level) -> f64 {
        let apart = one.into_iter().zip(other).map(|(one, other)| usize::from(one.abs_diff(other)));
        self.likeness.iter().zip(apart).map(|(likeness, apart)| likeness[apart]).product()
    }
}

fn level(eighths: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to its range")]
    let level = (8.0 * eighths.sqrt()).round().clamp(0.0, 255.0) as u8;
    level
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use embedder::{AcceleratorKind, Demand, Resources, Shape};

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

    /// Of ten minutes of arrivals, in eighths of a node; then four eighths since the last tick.
    #[track_caller]
    fn check(minutes: &[u64], seconds: i64, eighths: [f64; 2]) {
        let (activity, mut shapes) = (Activity::new(sample::LEAD), Shapes::new(&sample::catalog()));
        let asks = Resources { cpu_millis: 1_000, ..Resources::default() };
        let mut history = History::default();
        for (minute, &pods) in (0..).zip(minutes) {
            let mut tick = sample::tick(minute, vec![]);
            tick.first_seen = vec![(0, Shape::new(asks, AcceleratorKind::default()))];
            tick.arrivals = vec![(0, pods)];
            shapes.note(&tick);
            history.record(tick);
        }
        let demand = Demand::default();
        let tick = Present::at_tick(history.last().unwrap().time, &demand);
        assert_eq!(activity.now(&history, &shapes, &tick), activity.at_tick(&history, &shapes));
        let time = tick.time + TimeDelta::seconds(seconds);
        let now = Present { time, arriving: &[(0, 4)], ..tick };
        assert_eq!(activity.now(&history, &shapes, &now), eighths.map(level));
    }

    /// Of the minute that ended with the last tick, and of the oldest of ten, counts what is not over.
    #[test]
    fn what_arrived_since_the_last_tick_counts() {
        let minutes = [9, 64, 1, 1, 1, 1, 1, 1, 1, 1, 8];
        check(&minutes, 0, [12.0, 84.0]);
        check(&minutes, 15, [10.0, 68.0]);
        check(&minutes, 60, [4.0, 20.0]);
        check(&minutes, 600, [4.0, 20.0]);
    }

    #[test]
    fn what_is_within_ten_minutes_is_not_over() {
        check(&[64, 8], 30, [8.0, 76.0]);
    }
}
