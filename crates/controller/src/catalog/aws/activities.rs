//! The groups in which AWS could launch no instance, as their scaling activities show.
//!
//! cluster-autoscaler backs off from such a group once it has noticed, and writes that into its
//! status. The activities say so at once, also where it writes no status.

use std::collections::BTreeMap;

use aws_sdk_autoscaling::types::{Activity, ScalingActivityStatusCode};
use chrono::{DateTime, TimeDelta, Utc};

/// How long a group is closed after a launch that failed: as long as cluster-autoscaler's first
/// backoff.
const CLOSED: TimeDelta = TimeDelta::minutes(5);

/// The start of the descriptions of launches.
const LAUNCH: &str = "Launching";

/// The groups whose newest launch that has ended failed less than five minutes before `now`, with
/// the end of their backoff. Any cause counts: no capacity, a quota or a faulty template.
pub(super) fn closed(
    activities: &[Activity],
    now: DateTime<Utc>,
) -> BTreeMap<String, DateTime<Utc>> {
    let mut newest: BTreeMap<&str, (DateTime<Utc>, bool)> = BTreeMap::new();
    for one in activities {
        let is_launch = one.description().is_some_and(|text| text.starts_with(LAUNCH));
        let failed = match one.status_code() {
            Some(ScalingActivityStatusCode::Failed) => true,
            Some(ScalingActivityStatusCode::Successful) => false,
            _ => continue,
        };
        let at = one.end_time().or(one.start_time());
        let at = at.and_then(|at| DateTime::from_timestamp(at.secs(), 0));
        let (Some(group), Some(at), true) = (one.auto_scaling_group_name(), at, is_launch) else {
            continue;
        };
        let known = newest.entry(group).or_insert((at, failed));
        // Of launches that ended in one second, one that succeeded shows that there is capacity.
        if at > known.0 || at == known.0 && !failed {
            *known = (at, failed);
        }
    }
    let closed = newest.into_iter().filter(|(_, (at, failed))| *failed && now < *at + CLOSED);
    closed.map(|(group, (at, _))| (group.to_owned(), at + CLOSED)).collect()
}

#[cfg(test)]
mod tests {
    use aws_sdk_autoscaling::primitives::DateTime as AwsTime;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn activity(group: &str, end: i64, status: &str, description: &str) -> Activity {
        Activity::builder()
            .activity_id("a")
            .auto_scaling_group_name(group)
            .cause("At 2026-01-01T00:00:00Z an instance was started")
            .description(description)
            .start_time(AwsTime::from_secs(end - 3))
            .end_time(AwsTime::from_secs(end))
            .status_code(status.into())
            .build()
    }

    #[test]
    fn a_group_is_closed_while_its_newest_launch_failed() {
        let launch = |group: &str, end: i64, status: &str| {
            activity(group, end, status, "Launching a new EC2 instance")
        };
        let activities = [
            launch("a", 1_000, "Failed"),
            launch("a", 900, "Successful"),
            launch("b", 1_000, "Failed"),
            launch("b", 1_010, "Successful"),
            launch("c", 1_000, "Failed"),
            launch("c", 1_000, "Successful"),
            launch("d", 600, "Failed"),
            launch("e", 1_000, "Failed"),
            launch("e", 1_010, "InProgress"),
            activity("f", 1_000, "Failed", "Terminating EC2 instance: i-1"),
        ];
        let expected = ["a", "e"].map(|group| (group.to_owned(), at(1_300))).into();
        assert_eq!(closed(&activities, at(1_020)), expected);
        assert_eq!(closed(&activities, at(1_300)), BTreeMap::new());
    }
}
