//! The groups in which AWS could launch no instance, as their scaling activities show.
//!
//! cluster-autoscaler backs off from such a group once it has noticed, and writes that into its
//! status. The activities show it at once, also where it writes no status.

use std::collections::BTreeMap;

use aws_sdk_autoscaling::types::{Activity, ScalingActivityStatusCode};
use chrono::{DateTime, TimeDelta, Utc};

/// How long a group is closed after a launch that failed: as long as cluster-autoscaler's first
/// backoff.
const CLOSED: TimeDelta = TimeDelta::minutes(5);

/// The start of the descriptions of launches.
const LAUNCH: &str = "Launching";

/// The groups that are closed, with the end of their backoff.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed(BTreeMap<String, DateTime<Utc>>);

impl Closed {
    /// Notes the newest activities: a group whose newest launch that has ended failed is closed for
    /// five minutes from then on, unless a launch that began later is in progress. Any cause
    /// counts: no capacity, a quota or a faulty template. A group without activities stays as it
    /// is.
    pub(super) fn note(&mut self, activities: &[Activity]) {
        let mut newest: BTreeMap<&str, Launch> = BTreeMap::new();
        for one in activities {
            let Some((group, launch)) = launch(one) else { continue };
            let known = newest.entry(group).or_insert(launch);
            *known = launch.max(*known);
        }
        for (group, launch) in newest {
            match launch.state {
                State::Failed => {
                    self.0.insert(group.to_owned(), launch.at + CLOSED);
                }
                State::InProgress | State::Successful => drop(self.0.remove(group)),
            }
        }
    }

    /// The groups that are closed at `now`.
    pub(super) fn at(&mut self, now: DateTime<Utc>) -> BTreeMap<String, DateTime<Utc>> {
        self.0.retain(|_, until| now < *until);
        self.0.clone()
    }
}

/// A launch: of two, the later one decides, and of those of one second, one that is in progress or
/// succeeded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Launch {
    at: DateTime<Utc>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Failed,
    InProgress,
    Successful,
}

/// The launch that an activity is, and its group. `at` is its end, or its start while it is in
/// progress.
fn launch(activity: &Activity) -> Option<(&str, Launch)> {
    let is_launch = activity.description().is_some_and(|text| text.starts_with(LAUNCH));
    let state = match activity.status_code()? {
        ScalingActivityStatusCode::Failed => State::Failed,
        ScalingActivityStatusCode::Successful => State::Successful,
        ScalingActivityStatusCode::Cancelled => return None,
        _ => State::InProgress,
    };
    let end = activity.end_time().filter(|_| state != State::InProgress);
    let at = DateTime::from_timestamp(end.or(activity.start_time())?.secs(), 0)?;
    Some((activity.auto_scaling_group_name().filter(|_| is_launch)?, Launch { at, state }))
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
            launch("e", 1_004, "InProgress"),
            activity("f", 1_000, "Failed", "Terminating EC2 instance: i-1"),
        ];
        let mut closed = Closed::default();
        closed.note(&activities);
        let expected: BTreeMap<String, DateTime<Utc>> = [("a".to_owned(), at(1_300))].into();
        assert_eq!(closed.at(at(1_020)), expected);
        // What the page does not have stays, and a later launch opens the group.
        closed.note(&[]);
        assert_eq!(closed.at(at(1_020)), expected);
        assert_eq!(closed.clone().at(at(1_300)), BTreeMap::new());
        closed.note(&[launch("a", 1_030, "Successful")]);
        assert_eq!(closed.at(at(1_040)), BTreeMap::new());
    }
}
