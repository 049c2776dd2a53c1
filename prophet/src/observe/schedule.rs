//! The times at which a CronJob fires.

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The schedule of a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

impl Schedule {
    /// Parses `spec.schedule` and `spec.timeZone` of a CronJob. Without a time zone, UTC applies.
    ///
    /// Returns `None` if the schedule or the time zone is invalid.
    pub fn parse(schedule: &str, zone: Option<&str>) -> Option<Self> {
        let zone = zone.map_or(Some(TimeZone::UTC), |name| TimeZone::get(name).ok())?;
        Some(Self { cron: schedule.parse().ok()?, zone })
    }

    /// Returns the first time at or after `from` at which the CronJob fires, or `None` if there is
    /// none. Both times are Unix seconds.
    pub fn next(&self, from: i64) -> Option<i64> {
        let from = Timestamp::from_second(from).ok()?.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&from, true).ok()?;
        Some(next.timestamp().as_second())
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[track_caller]
    fn check(schedule: &str, zone: Option<&str>, from: &str, next: &str) {
        let seconds = |text: &str| text.parse::<jiff::Timestamp>().unwrap().as_second();
        let schedule = Schedule::parse(schedule, zone).unwrap();
        assert_eq!(schedule.next(seconds(from)), Some(seconds(next)));
    }

    #[test]
    fn a_cron_job_fires_in_its_own_time_zone() {
        check("*/15 * * * *", None, "2026-03-01T10:07:00Z", "2026-03-01T10:15:00Z");
        check("@hourly", None, "2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z");
        check("0 3 * * MON", Some("Europe/Berlin"), "2026-03-02T02:30:00Z", "2026-03-09T02:00:00Z");
        // The same local time is an hour earlier in UTC once summer time has begun.
        check("0 3 * * MON", Some("Europe/Berlin"), "2026-03-28T00:00:00Z", "2026-03-30T01:00:00Z");
    }

    #[test]
    fn invalid_schedules_are_none() {
        assert!(Schedule::parse("every day", None).is_none());
        assert!(Schedule::parse("0 3 * * *", Some("Middle/Earth")).is_none());
        assert_eq!(Schedule::parse("0 3 31 2 *", None).unwrap().next(0), None);
    }
}
