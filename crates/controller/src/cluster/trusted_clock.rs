//! A wall clock that leaps is not followed at once: the time goes on by the monotonic clock.
//!
//! One wrong reading would record a tick at a wrong time, and no tick would be due until then. It
//! would also end launches that are in progress, and limits that last for minutes.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// The largest difference between the advances of both clocks that is no leap: more than a
/// correction by NTP, and than the time for which a machine is paused while it moves to another
/// host.
const TOLERANCE: TimeDelta = TimeDelta::seconds(30);

/// How long a wall clock that leapt must go on evenly before its time is taken over. A leap can be
/// right: after the machine was suspended, or after its clock was corrected.
const TRUSTED_AFTER: Duration = Duration::from_mins(10);

/// The time of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Now {
    /// The time.
    pub(super) time: DateTime<Utc>,
    /// Why it is not that of the wall clock.
    pub(super) fault: Option<String>,
    /// Whether an earlier time than before was taken over in this turn.
    pub(super) went_back: bool,
}

/// What is known of both clocks.
#[derive(Clone, Debug, Default)]
pub(super) struct TrustedClock {
    /// The last trusted time, and the monotonic clock then.
    trusted: Option<(DateTime<Utc>, Duration)>,
    /// The leap: the time of the wall clock right after it, and the monotonic clock then.
    leap: Option<(DateTime<Utc>, Duration)>,
}

impl TrustedClock {
    /// The time of a turn at which the wall clock shows `wall`, and `elapsed` has passed since the
    /// controller started.
    pub(super) fn now(&mut self, wall: DateTime<Utc>, elapsed: Duration) -> Now {
        let expected = |(time, at): (DateTime<Utc>, Duration)| {
            let since = TimeDelta::from_std(elapsed.saturating_sub(at)).unwrap_or(TimeDelta::MAX);
            time.checked_add_signed(since).unwrap_or(time)
        };
        let is_even = |since| (wall - expected(since)).abs() <= TOLERANCE;
        let Some(trusted) = self.trusted.filter(|trusted| !is_even(*trusted)) else {
            *self = Self { trusted: Some((wall, elapsed)), leap: None };
            return Now { time: wall, fault: None, went_back: false };
        };
        let (leapt_to, at) =
            *self.leap.take_if(|leap| is_even(*leap)).get_or_insert((wall, elapsed));
        if elapsed.saturating_sub(at) >= TRUSTED_AFTER {
            *self = Self { trusted: Some((wall, elapsed)), leap: None };
            return Now { time: wall, fault: None, went_back: wall < expected(trusted) };
        }
        self.leap = Some((leapt_to, at));
        let time = expected(trusted);
        // The text stays the same during a leap, because each other one would be written into the
        // status.
        let fault = format!(
            "the clock leapt by {} s, to {}",
            (leapt_to - time - TimeDelta::from_std(at).unwrap_or_default()
                + TimeDelta::from_std(elapsed).unwrap_or_default())
            .num_seconds(),
            leapt_to.format("%Y-%m-%d %H:%M:%S"),
        );
        Now { time, fault: Some(fault), went_back: false }
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
            ((now.time - zero - passed).num_seconds(), now.fault.is_some(), now.went_back)
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
            [(0, false, false), held, held, (3_600, false, false)]
        );
        // Back, and a leap within a leap, which begins anew.
        assert_eq!(
            turns(&[(0, 0), (60, -3_600), (600, -7_200), (661, -7_200), (1_200, -7_200)]),
            [(0, false, false), held, held, held, (-7_200, false, true)]
        );
    }
}
