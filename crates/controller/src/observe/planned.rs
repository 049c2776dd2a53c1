//! Planned pods: what PlannedDemands announce.

use std::collections::BTreeSet;

use base::span::Span;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::announced::{AnnouncedPods, Announcement, Held};
use super::objects::PodTemplate;
use super::schedule::Schedule;
use crate::crd::{PlannedDemandSpec, PlannedDemandStatus};

/// When planned pods come, and who planned them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Who planned the pods: the namespace, and the value of [`AUTHOR_LABEL`] if there is one.
    pub author: String,
    times: Times,
    /// How long after the time nodes are held for the pods, in seconds.
    hold_seconds: i64,
    /// Whether nodes are held for that long in any case, beside those of pods that run.
    pub for_duration: bool,
    /// Whether the author asks that all pods are held.
    pub certain: bool,
    /// When the plan was made, in Unix seconds.
    pub created: i64,
    /// How long after its end the object is deleted, in seconds.
    ttl_seconds: Option<u32>,
}

/// The label of a PlannedDemand that names its author within the namespace.
const AUTHOR_LABEL: &str = "prophet.dev/author";

/// How long after the time nodes are held for pods that did not come yet, in seconds.
const TOLERANCE_SECONDS: i64 = 600;

/// The most days without pods that are skipped one after the other.
const EXCEPT_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq)]
enum Times {
    /// Once, in Unix seconds.
    Once(i64),
    Repeated {
        schedule: Schedule,
        zone: TimeZone,
        except: BTreeSet<Date>,
    },
}

/// An earlier report of the controller on a plan, from which it goes on after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecalledPlan {
    /// The time at which the pods were to come, in Unix seconds.
    pub at: i64,
    /// The pods that came.
    pub came: u64,
}

impl Plan {
    fn of(metadata: &ObjectMeta, spec: &PlannedDemandSpec) -> Option<Self> {
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(AUTHOR_LABEL));
        let seconds = |text: &Option<String>| {
            text.as_deref().and_then(|text| Some(text.parse::<Span>().ok()?.as_seconds()))
        };
        let created = metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        let duration = seconds(&spec.duration).unwrap_or(0);
        let tolerance = seconds(&spec.tolerance).unwrap_or(TOLERANCE_SECONDS);
        Some(Self {
            author: label.map_or(namespace.clone(), |label| format!("{namespace}/{label}")),
            times: Times::of(spec, created)?,
            hold_seconds: duration.max(tolerance),
            for_duration: duration > 0,
            certain: spec.certain,
            created,
            ttl_seconds: spec.ttl_seconds_after_end,
        })
    }

    /// The first time of the pods whose nodes are still held at `now`. `None` after the last one.
    /// Both are Unix seconds.
    pub fn next(&self, now: i64) -> Option<i64> {
        let from = now.saturating_sub(self.hold_seconds).saturating_add(1);
        match &self.times {
            Times::Once(at) => (*at >= from).then_some(*at),
            Times::Repeated { schedule, zone, except } => {
                let mut next = schedule.next(from)?;
                for _ in 0..EXCEPT_MAX {
                    let day = Timestamp::from_second(next).ok()?.to_zoned(zone.clone()).date();
                    if !except.contains(&day) {
                        return Some(next);
                    }
                    next = schedule.next(next.checked_add(1)?)?;
                }
                None
            }
        }
    }

    /// The end of the time for which nodes are held for pods that come at `at`, in Unix seconds.
    pub fn end(&self, at: i64) -> i64 {
        at.saturating_add(self.hold_seconds)
    }
}

impl Plan {
    /// Whether the object is to be deleted at `now`, in Unix seconds, because its end is long ago.
    pub fn is_expired(&self, now: i64) -> bool {
        let Times::Once(at) = &self.times else { return false };
        let ends = |ttl: u32| self.end(*at).saturating_add(ttl.into());
        self.ttl_seconds.is_some_and(|ttl| ends(ttl) <= now)
    }
}

impl Times {
    fn of(spec: &PlannedDemandSpec, created: i64) -> Option<Self> {
        if let Some(at) = &spec.at {
            return Some(Self::Once(at.parse::<Timestamp>().ok()?.as_second()));
        }
        let zone = spec.time_zone.as_deref();
        let schedule = Schedule::parse(spec.schedule.as_deref()?, zone, created)?;
        let zone = zone.map_or(Some(TimeZone::UTC), |name| TimeZone::get(name).ok())?;
        let except = spec.except.iter().map(|day| day.parse().ok());
        Some(Self::Repeated { schedule, zone, except: except.collect::<Option<_>>()? })
    }
}

impl Announcement {
    /// Returns the pods that a PlannedDemand announces.
    pub fn of_planned(
        metadata: &ObjectMeta,
        spec: &PlannedDemandSpec,
        status: &PlannedDemandStatus,
    ) -> Option<Self> {
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        let template: PodTemplate = serde_json::from_value(spec.template.clone()).ok()?;
        let plan = Plan::of(metadata, spec);
        let at = status.next.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        Some(Self {
            held: if plan.is_some() { Held::Scheduled } else { Held::Unscheduled },
            labels: metadata.labels.clone().unwrap_or_default(),
            pods: vec![AnnouncedPods::of(&template, metadata, spec.pods.into())],
            gang: spec.gang,
            indexed: false,
            schedule: None,
            fired: None,
            since: None,
            plan,
            recalled: at.map(|at| RecalledPlan { at: at.as_second(), came: status.came }),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the times of a plan, the first one at or after `from`, each after the end of the one
    /// before.
    #[track_caller]
    fn check(spec: &serde_json::Value, from: &str, expected: &[&str]) {
        let seconds = |text: &str| text.parse::<Timestamp>().unwrap().as_second();
        let mut all = json!({"pods": 4, "template": {"spec": {}}});
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let spec = serde_json::from_value(all).unwrap();
        let metadata = ObjectMeta { namespace: Some("batch".into()), ..ObjectMeta::default() };
        let announced = Announcement::of_planned(&metadata, &spec, &PlannedDemandStatus::default());
        let plan = announced.unwrap().plan.unwrap();
        let mut now = seconds(from);
        let mut found = Vec::new();
        while let Some(at) = plan.next(now).filter(|_| found.len() < 3) {
            found.push(Timestamp::from_second(at).unwrap().to_string());
            now = plan.end(at);
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn a_plan_is_for_one_time_until_its_nodes_are_held_no_more() {
        let at = "2026-12-03T08:00:00Z";
        check(&json!({"at": "2026-12-03T09:00:00+01:00"}), "2026-12-01T00:00:00Z", &[at]);
        check(&json!({"at": at}), "2026-12-03T08:09:59Z", &[at]);
        check(&json!({"at": at}), "2026-12-03T08:10:00Z", &[]);
        check(&json!({"at": at, "tolerance": "1m"}), "2026-12-03T08:01:00Z", &[]);
        check(&json!({"at": at, "duration": "2h"}), "2026-12-03T09:59:59Z", &[at]);
    }

    #[test]
    fn a_plan_expires_after_its_end() {
        let spec = json!({"pods": 1, "template": {}, "at": "1970-01-01T01:00:00Z", "ttlSecondsAfterEnd": 60});
        let spec: PlannedDemandSpec = serde_json::from_value(spec).unwrap();
        let plan = Plan::of(&ObjectMeta::default(), &spec).unwrap();
        assert_eq!([4_259, 4_260].map(|now| plan.is_expired(now)), [false, true]);
        let kept = PlannedDemandSpec { ttl_seconds_after_end: None, ..spec };
        assert!(!Plan::of(&ObjectMeta::default(), &kept).unwrap().is_expired(i64::MAX));
    }

    /// The clocks of Berlin go back an hour on 25 October, and the day after Christmas is one of
    /// the days without pods.
    #[test]
    fn a_schedule_has_a_time_zone_and_days_without_pods() {
        let thursdays = json!({"schedule": "0 9 * * THU", "timeZone": "Europe/Berlin", "except": ["2026-10-29"]});
        check(
            &thursdays,
            "2026-10-20T00:00:00Z",
            &["2026-10-22T07:00:00Z", "2026-11-05T08:00:00Z", "2026-11-12T08:00:00Z"],
        );
        // The day of an exception begins at midnight of the time zone.
        let nightly =
            json!({"schedule": "30 0 * * *", "timeZone": "Asia/Tokyo", "except": ["2026-12-26"]});
        check(
            &nightly,
            "2026-12-24T16:00:00Z",
            &["2026-12-24T15:30:00Z", "2026-12-26T15:30:00Z", "2026-12-27T15:30:00Z"],
        );
    }

    #[test]
    fn a_plan_that_cannot_be_read_has_no_time() {
        let plan = |spec: serde_json::Value| {
            let spec: PlannedDemandSpec = serde_json::from_value(spec).unwrap();
            let status = PlannedDemandStatus::default();
            let found = Announcement::of_planned(&ObjectMeta::default(), &spec, &status).unwrap();
            (found.held, found.plan)
        };
        let nothing = (Held::Unscheduled, None);
        let with = |more: (&str, &str)| {
            plan(json!({"pods": 1, "template": {}, "schedule": "0 9 * * *", more.0: more.1}))
        };
        assert_eq!(with(("schedule", "every day")), nothing);
        assert_eq!(with(("timeZone", "Mars/Olympus")), nothing);
        assert_eq!(plan(json!({"pods": 1, "template": {}, "at": "tomorrow"})), nothing);
        assert_eq!(plan(json!({"pods": 1, "template": {}})), nothing);
    }
}
