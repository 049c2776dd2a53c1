//! A wall clock that leaps is not followed at once: the time goes on by the monotonic clock.
//!
//! One wrong reading would record a tick at a wrong time, and no tick would be due until then. It
//! would also end launches that are in progress, and limits that last for minutes.
//!
//! A step back in the first minutes of the controller is followed, because a machine can start with
//! a clock that is ahead until NTP corrects it.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// The largest difference between the advances of both clocks that is no leap: more than a
/// correction by NTP, and than the time for which a machine is paused while it moves to another
/// host.
const TOLERANCE: TimeDelta = TimeDelta::seconds(30);

/// How long a wall clock must go on evenly before its time counts more than another one. A leap can
/// be right: after the machine was suspended, or after its clock was corrected.
const TRUSTED_AFTER: Duration = Duration::from_mins(10);

/// The time of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Now {
    /// The time that the turn uses.
    pub(super) time: DateTime<Utc>,
    /// Why `time` is not that of the wall clock. `None` if it is.
    pub(super) fault: Option<String>,
    /// Whether the time of a wall clock that leapt was taken over in this turn.
    pub(super) leapt: bool,
}

/// A time of the wall clock, and the reading of the monotonic clock at that moment.
type Reading = (DateTime<Utc>, Duration);

/// The readings of both clocks by which leaps of the wall clock are recognised.
#[derive(Clone, Debug, Default)]
pub(super) struct TrustedClock {
    /// The last trusted time.
    trusted: Option<Reading>,
    /// The reading of the monotonic clock since which the trusted time has gone on evenly.
    since: Duration,
    /// The trusted time before a step back that was followed.
    before: Option<Reading>,
    /// The time of the wall clock right after a leap that is not followed yet.
    leap: Option<Reading>,
}

/// The time at `elapsed` of the monotonic clock, by an earlier reading.
fn expected((time, at): Reading, elapsed: Duration) -> DateTime<Utc> {
    let since = TimeDelta::from_std(elapsed.saturating_sub(at)).unwrap_or(TimeDelta::MAX);
    time.checked_add_signed(since).unwrap_or(time)
}

impl TrustedClock {
    /// The time of a turn at which the wall clock shows `wall`, and `elapsed` has passed since the
    /// controller started.
    pub(super) fn now(&mut self, wall: DateTime<Utc>, elapsed: Duration) -> Now {
        let is_even = |reading| (wall - expected(reading, elapsed)).abs() <= TOLERANCE;
        let reading = Some((wall, elapsed));
        let followed = |leapt| Now { time: wall, fault: None, leapt };
        let Some(trusted) = self.trusted else {
            *self = Self { trusted: reading, since: elapsed, before: None, leap: None };
            return followed(false);
        };
        if is_even(trusted) {
            (self.trusted, self.leap) = (reading, None);
            if elapsed.saturating_sub(self.since) >= TRUSTED_AFTER {
                self.before = None;
            }
            return followed(false);
        }
        let time = expected(trusted, elapsed);
        if wall < time && elapsed.saturating_sub(self.since) < TRUSTED_AFTER {
            *self = Self { trusted: reading, since: elapsed, before: Some(trusted), leap: None };
            return followed(true);
        }
        if self.before.take_if(|before| is_even(*before)).is_some() {
            // The step back was the wrong reading.
            *self = Self { trusted: reading, since: self.since, before: None, leap: None };
            return followed(true);
        }
        let (leapt_to, at) =
            *self.leap.take_if(|leap| is_even(*leap)).get_or_insert((wall, elapsed));
        if elapsed.saturating_sub(at) >= TRUSTED_AFTER {
            *self = Self { trusted: reading, since: at, before: None, leap: None };
            return followed(true);
        }
        self.leap = Some((leapt_to, at));
        // The text stays the same during a leap, because each other one would be written into the
        // status.
        let fault = format!(
            "the clock leapt by {} s, to {}",
            (leapt_to - time - TimeDelta::from_std(at).unwrap_or_default()
                + TimeDelta::from_std(elapsed).unwrap_or_default())
            .num_seconds(),
            leapt_to.format("%Y-%m-%d %H:%M:%S"),
        );
        Now { time, fault: Some(fault), leapt: false }
    }

    /// The time at which the wall clock shows `wall`, without a turn: a leap is not followed.
    pub(super) fn between_turns(&self, wall: DateTime<Utc>, elapsed: Duration) -> DateTime<Utc> {
        self.trusted.map_or(wall, |trusted| expected(trusted, elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns at these seconds of the monotonic clock, at which the wall clock is ahead of it by
    /// these seconds. The result has by how much the time is ahead, and whether there is a fault.
    fn turns(turns: &[(u64, i64)]) -> Vec<(i64, bool, bool)> {
        let mut clock = TrustedClock::default();
        let zero = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let turn = |&(elapsed, ahead): &(u64, i64)| {
            let passed = TimeDelta::seconds(elapsed.cast_signed());
            let wall = zero + passed + TimeDelta::seconds(ahead);
            let now = clock.now(wall, Duration::from_secs(elapsed));
            ((now.time - zero - passed).num_seconds(), now.fault.is_some(), now.leapt)
        };
        turns.iter().map(turn).collect()
    }

    #[test]
    fn a_small_correction_is_followed_at_once() {
        let even = |ahead| (ahead, false, false);
        assert_eq!(turns(&[(0, 0), (60, 30), (120, 1)]), [even(0), even(30), even(1)]);
    }

    #[test]
    fn a_leap_is_not_followed_for_ten_minutes_and_one_that_ends_never() {
        let days = 182 * 86_400;
        let held = (0, true, false);
        assert_eq!(
            turns(&[(0, 0), (60, days), (72, days), (73, 0)]),
            [(0, false, false), held, held, (0, false, false)]
        );
        assert_eq!(
            turns(&[(0, 0), (60, 3_600), (600, 3_600), (660, 3_600)]),
            [(0, false, false), held, held, (3_600, false, true)]
        );
        // Back, and a leap within a leap, which begins anew.
        assert_eq!(
            turns(&[(0, 0), (660, -3_600), (1_200, -7_200), (1_261, -7_200), (1_800, -7_200)]),
            [(0, false, false), held, held, held, (-7_200, false, true)]
        );
    }

    #[test]
    fn a_step_back_in_the_first_ten_minutes_is_followed_at_once() {
        let even = (0, false, false);
        assert_eq!(
            turns(&[(0, 7_200), (60, 7_200), (90, 0), (100, 0)]),
            [(7_200, false, false), (7_200, false, false), (0, false, true), even]
        );
        // The wrong reading was the one that was behind.
        assert_eq!(
            turns(&[(0, 0), (60, -3_600), (72, -3_600), (73, 0)]),
            [even, (-3_600, false, true), (-3_600, false, false), (0, false, true)]
        );
        // What was wrong at the start is forgotten, so a later leap is none of it.
        assert_eq!(
            turns(&[(0, 7_200), (60, 0), (700, 0), (720, 7_200), (732, 0)])[3..],
            [(0, true, false), even]
        );
    }
}
