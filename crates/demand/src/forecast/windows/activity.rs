//! Activity: the arrivals of the last minute and of the last ten minutes, and the similarity of two
//! moments by them.
//!
//! The similarity is exp(-sum of w |sqrt a - sqrt a'|) over both periods, where a and a' are the
//! arrivals at the two moments in eighths of a node, and w is the weight of the period.
//!
//! Past moments are ticks. The present is any moment, so a burst changes the activity before the
//! tick that records it.

use crate::forecast::hyperparameters::{ACTIVITY_SECONDS, ACTIVITY_WEIGHTS};
use crate::forecast::{lead::Lead, question::Present};
use crate::record::History;

/// The square roots of the arrivals per period, in steps of 1/8, where arrivals are in eighths of a
/// node. Arrivals of up to 127 nodes have distinct levels.
pub(crate) type ActivityLevel = [u8; 2];

/// The number of levels.
const LEVELS: usize = 256;

/// Computes activity levels and their similarity.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    tick_seconds: i64,
    /// The length of each period in ticks, at least 1.
    ticks: [usize; 2],
    /// The similarity per period and difference of levels, in (0, 1].
    likeness: Box<[[f64; LEVELS]; 2]>,
}

impl Activity {
    pub(crate) fn new(lead: Lead) -> Self {
        let ticks =
            |seconds: i64| usize::try_from(seconds / lead.tick_seconds.max(1)).unwrap_or(1).max(1);
        let likeness =
            |weight: f64| std::array::from_fn(|apart| (-weight * apart as f64 / 8.0).exp());
        Self {
            tick_seconds: lead.tick_seconds.max(1),
            ticks: ACTIVITY_SECONDS.map(ticks),
            likeness: Box::new(ACTIVITY_WEIGHTS.map(likeness)),
        }
    }

    /// Returns the level at the last tick.
    pub(crate) fn at_tick(&self, history: &History) -> ActivityLevel {
        self.ticks.map(|ticks| {
            level(history.latest(ticks).map(|tick| history.shapes().eighths(&tick.arrivals)).sum())
        })
    }

    /// Returns the level at the moment `now`.
    ///
    /// The arrivals since the last tick are added. The elapsed fraction of the oldest tick of each
    /// period is subtracted. A shape that is new since the last tick counts from the next tick on.
    pub(crate) fn now(&self, history: &History, now: &Present<'_>) -> ActivityLevel {
        let since = history.last().map_or(0, |tick| (now.time - tick.time).num_seconds());
        let past = since.clamp(0, self.tick_seconds) as f64 / self.tick_seconds as f64;
        let arriving = history.shapes().eighths(now.arriving);
        self.ticks.map(|ticks| {
            let oldest = history.len().checked_sub(ticks).and_then(|at| history.get(at));
            let gone = oldest.map_or(0.0, |tick| past * history.shapes().eighths(&tick.arrivals));
            let recent: f64 =
                history.latest(ticks).map(|tick| history.shapes().eighths(&tick.arrivals)).sum();
            level(arriving + recent - gone)
        })
    }

    /// Returns the similarity of two levels, in (0, 1].
    pub(crate) fn likeness(&self, one: ActivityLevel, other: ActivityLevel) -> f64 {
        let [minute, ten_minutes] = &*self.likeness;
        minute[usize::from(one[0].abs_diff(other[0]))]
            * ten_minutes[usize::from(one[1].abs_diff(other[1]))]
    }
}

fn level(eighths: f64) -> u8 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the range of u8"
    )]
    let level = (8.0 * eighths.sqrt()).round().clamp(0.0, 255.0) as u8;
    level
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use embedder::Demand;

    use super::*;
    use crate::forecast::sample;

    /// One minute is one tick, and ten minutes are ten ticks. The roots differ by 1 in the minute
    /// and by 2 in the ten minutes, so the similarity is exp(-1 - 2/2).
    #[test]
    fn similarity_depends_on_both_periods() {
        let activity = Activity::new(sample::LEAD);
        assert_eq!(activity.ticks, [1, 10]);
        assert!((activity.likeness([8, 0], [0, 16]) - (-2.0_f64).exp()).abs() < 1e-12);
        assert!((activity.likeness([9, 40], [9, 40]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_period_has_at_least_one_tick() {
        let slow = Lead { seconds: 600, tick_seconds: 300 };
        assert_eq!(Activity::new(slow).ticks, [1, 2]);
    }

    /// Records `minutes` of arrivals, in eighths of a node. Then four eighths arrive within
    /// `seconds` of the last tick.
    #[track_caller]
    fn check(minutes: &[u64], seconds: i64, eighths: [f64; 2]) {
        let activity = Activity::new(sample::LEAD);
        let mut history = History::new(&sample::catalog());
        for (minute, &pods) in (0..).zip(minutes) {
            let mut tick = sample::tick(minute, vec![]);
            tick.first_seen = vec![(0, testkit::shape(testkit::cpus(1_000)))];
            tick.arrivals = vec![(0, pods)];
            history.record(tick);
        }
        let demand = Demand::default();
        let tick = Present::at_tick(history.last().unwrap().time, &demand);
        assert_eq!(activity.now(&history, &tick), activity.at_tick(&history));
        let time = tick.time + TimeDelta::seconds(seconds);
        let now = Present { time, arriving: &[(0, 4)], ..tick };
        assert_eq!(activity.now(&history, &now), eighths.map(level));
    }

    /// The oldest minute of each period counts by the fraction that is still within the period.
    #[test]
    fn arrivals_since_the_last_tick_count() {
        let minutes = [9, 64, 1, 1, 1, 1, 1, 1, 1, 1, 8];
        check(&minutes, 0, [12.0, 84.0]);
        check(&minutes, 15, [10.0, 68.0]);
        check(&minutes, 60, [4.0, 20.0]);
        check(&minutes, 600, [4.0, 20.0]);
    }

    #[test]
    fn arrivals_within_a_short_history_count_in_full() {
        check(&[64, 8], 30, [8.0, 76.0]);
    }
}
