//! The times at which a CronJob fires.

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The schedule of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Times of the calendar, in a time zone.
    Calendar {
        /// The times.
        cron: Box<Cron>,
        /// The time zone.
        zone: TimeZone,
    },
    /// A fixed interval.
    Every {
        /// The interval in seconds, at least 1.
        seconds: i64,
        /// The Unix time from which the intervals are counted.
        since: i64,
    },
}

/// Prefixes that set the time zone in a schedule itself. The API server accepted them in older
/// versions.
const ZONE_PREFIXES: [&str; 2] = ["TZ=", "CRON_TZ="];

impl Schedule {
    /// Parses `spec.schedule` and `spec.timeZone` of a CronJob. Without a time zone, UTC applies.
    ///
    /// `since` is the last time at which the CronJob fired, else the time of its creation, in Unix
    /// seconds. `@every 1m30s` counts from there (Kubernetes, `mostRecentScheduleTime`).
    ///
    /// Returns `None` if the schedule or the time zone is invalid.
    pub fn parse(schedule: &str, zone: Option<&str>, since: i64) -> Option<Self> {
        let schedule = schedule.trim();
        let with_zone = ZONE_PREFIXES.iter().find_map(|prefix| schedule.strip_prefix(prefix));
        let (own_zone, schedule) = match with_zone {
            Some(text) => text.split_once(' ').map(|(zone, rest)| (Some(zone), rest.trim()))?,
            None => (None, schedule),
        };
        if let Some(interval) = schedule.strip_prefix("@every ") {
            let seconds = go_seconds(interval.trim())?.max(1);
            return Some(Self::Every { seconds, since });
        }
        let named = zone.or(own_zone).map(|name| TimeZone::get(name).ok());
        let zone = named.unwrap_or(Some(TimeZone::UTC))?;
        let schedule = if schedule == "@midnight" { "@daily" } else { schedule };
        Some(Self::Calendar { cron: Box::new(with_ranges(schedule).parse().ok()?), zone })
    }

    /// Returns the first time at or after `from` at which the CronJob fires, or `None` if there is
    /// none. Both times are Unix seconds.
    pub fn next(&self, from: i64) -> Option<i64> {
        match self {
            Self::Calendar { cron, zone } => {
                let from = Timestamp::from_second(from).ok()?.to_zoned(zone.clone());
                let next = cron.find_next_occurrence(&from, true).ok()?;
                Some(next.timestamp().as_second())
            }
            Self::Every { seconds, since } => {
                let passed = from.saturating_sub(*since).max(1);
                let intervals = passed.checked_add(seconds - 1)? / seconds;
                since.checked_add(intervals.checked_mul(*seconds)?)
            }
        }
    }
}

/// Writes a number with a step, such as `5/15`, as the range `5-59/15`, as Kubernetes reads it
/// (robfig/cron, `getRange`).
fn with_ranges(schedule: &str) -> String {
    /// The largest value of each field, and its name. Sunday has two numbers, of which a range has
    /// the first.
    const LARGEST: [(&str, &str); 5] =
        [("59", ""), ("23", ""), ("31", ""), ("12", "DEC"), ("6", "SAT")];
    let range = |part: &str, (largest, name): (&str, &str)| match part.split_once('/') {
        Some(("?", step)) => format!("*/{step}"),
        Some((from, step)) if !from.is_empty() && from.bytes().all(|at| at.is_ascii_digit()) => {
            format!("{from}-{largest}/{step}")
        }
        Some((from, step)) if from.bytes().all(|at| at.is_ascii_alphabetic()) => {
            format!("{from}-{name}/{step}")
        }
        _ => part.to_owned(),
    };
    let fields = schedule.split_whitespace().enumerate().map(|(at, field)| {
        let Some(largest) = LARGEST.get(at) else { return field.to_owned() };
        let parts: Vec<String> = field.split(',').map(|part| range(part, *largest)).collect();
        parts.join(",")
    });
    fields.collect::<Vec<_>>().join(" ")
}

/// Parses a duration of Go, such as `1h30m` or `1.5h`, into whole seconds, rounded down. Returns
/// `None` if it is invalid or negative.
fn go_seconds(text: &str) -> Option<i64> {
    /// The units with their nanoseconds.
    const UNITS: [(&str, u64); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let length = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(length);
        let (_, of_unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let mut part = whole.checked_mul(*of_unit)?;
        let mut digit_of = *of_unit;
        for digit in fraction.bytes() {
            digit_of /= 10;
            part = part.checked_add(u64::from(digit.checked_sub(b'0')?).checked_mul(digit_of)?)?;
        }
        nanos = nanos.checked_add(part)?;
        rest = next;
    }
    i64::try_from(nanos / 1_000_000_000).ok()
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[track_caller]
    fn check(schedule: &str, zone: Option<&str>, from: &str, next: &str) {
        let seconds = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
        let since = seconds("2026-03-01T00:00:10Z");
        let schedule = Schedule::parse(schedule, zone, since).unwrap();
        assert_eq!(schedule.next(seconds(from)), Some(seconds(next)));
    }

    #[test]
    fn a_cron_job_fires_in_its_own_time_zone() {
        check("*/15 * * * *", None, "2026-03-01T10:07:00Z", "2026-03-01T10:15:00Z");
        check("0/5 * * * *", None, "2026-03-01T10:07:00Z", "2026-03-01T10:10:00Z");
        check("3,29/15 * * * *", None, "2026-03-01T10:04:00Z", "2026-03-01T10:29:00Z");
        check("3,29/15 * * * *", None, "2026-03-01T10:30:00Z", "2026-03-01T10:44:00Z");
        check("?/30 0 * FEB/3 *", None, "2026-03-01T10:07:00Z", "2026-05-01T00:00:00Z");
        check("0 3 * * WED/3", None, "2026-03-05T00:00:00Z", "2026-03-07T03:00:00Z");
        check("0 20/3 * * *", None, "2026-03-01T20:30:00Z", "2026-03-01T23:00:00Z");
        check("@hourly", None, "2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z");
        check("@midnight", None, "2026-03-01T10:00:00Z", "2026-03-02T00:00:00Z");
        check("0 3 ? * *", None, "2026-03-01T10:00:00Z", "2026-03-02T03:00:00Z");
        check("0 3 * * MON", Some("Europe/Berlin"), "2026-03-02T02:30:00Z", "2026-03-09T02:00:00Z");
        // The same local time is an hour earlier in UTC once summer time has begun.
        check("0 3 * * MON", Some("Europe/Berlin"), "2026-03-28T00:00:00Z", "2026-03-30T01:00:00Z");
        let berlin = "CRON_TZ=Europe/Berlin 0 3 * * *";
        check(berlin, None, "2026-03-01T10:00:00Z", "2026-03-02T02:00:00Z");
    }

    #[test]
    fn an_interval_counts_from_the_last_firing() {
        check("@every 1m30s", None, "2026-03-01T00:00:10Z", "2026-03-01T00:01:40Z");
        check("@every 1m30s", None, "2026-03-01T00:01:40Z", "2026-03-01T00:01:40Z");
        check("@every 1m30s", None, "2026-03-01T00:01:41Z", "2026-03-01T00:03:10Z");
        check("@every 1.5h", None, "2026-03-01T01:00:00Z", "2026-03-01T01:30:10Z");
        check("@every 1ms", None, "2026-03-01T01:00:00Z", "2026-03-01T01:00:00Z");
    }

    #[test]
    fn invalid_schedules_are_none() {
        for text in ["every day", "@every", "@every ", "@every 5", "@every 1x", "@every -5m"] {
            assert!(Schedule::parse(text, None, 0).is_none(), "{text}");
        }
        assert!(Schedule::parse("0 3 * * *", Some("Middle/Earth"), 0).is_none());
        assert_eq!(Schedule::parse("0 3 31 2 *", None, 0).unwrap().next(0), None);
    }
}
