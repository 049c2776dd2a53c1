//! Announcements that are out of date, because their watch has been failing for more than a minute.
//!
//! Jobs that were announced may have been created, changed or deleted meanwhile. Placeholders for
//! them would be bought for nothing, or twice.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};

/// How long announcements of a failing watch still count: as long as the API server may take to
/// answer after a restart.
const COUNT: TimeDelta = TimeDelta::minutes(1);

/// The time since which each failing watch fails, by its name.
#[derive(Debug, Default)]
pub(super) struct Stale(BTreeMap<String, DateTime<Utc>>);

impl Stale {
    /// Notes the watches that fail now. Returns those whose announcements no longer count.
    pub(super) fn note<'a>(
        &mut self,
        failing: impl IntoIterator<Item = &'a String>,
        now: DateTime<Utc>,
    ) -> BTreeSet<String> {
        let since = |name: &String| (name.clone(), *self.0.get(name).unwrap_or(&now));
        self.0 = failing.into_iter().map(since).collect();
        let stale = self.0.iter().filter(|(_, since)| now - **since > COUNT);
        stale.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_count_for_a_minute_of_a_failing_watch() {
        let mut stale = Stale::default();
        let mut check = |seconds: i64, failing: &[&str], expected: &[&str]| {
            let failing: Vec<String> = failing.iter().map(ToString::to_string).collect();
            let found = stale.note(&failing, DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds));
            assert!(found.iter().eq(expected), "at {seconds}: {found:?}");
        };
        check(0, &["jobs"], &[]);
        check(30, &["jobs", "cronjobs"], &[]);
        check(60, &["jobs", "cronjobs"], &[]);
        check(61, &["jobs", "cronjobs"], &["jobs"]);
        check(91, &["jobs", "cronjobs"], &["cronjobs", "jobs"]);
        check(92, &["cronjobs"], &["cronjobs"]);
        check(93, &["jobs", "cronjobs"], &["cronjobs"]);
        check(94, &[], &[]);
    }
}
