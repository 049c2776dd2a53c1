//! Planned pods: what PlannedDemands announce.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::announced::{AnnouncedPods, Announcement, Held};
use super::objects::PodTemplate;
use super::plan::{Plan, RecalledPlan};
use crate::crd::{PlannedDemandSpec, PlannedDemandStatus};

/// The name of the watch of PlannedDemands.
pub const PLANNED_DEMANDS: &str = "planneddemands";

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
        let held = if plan.is_some() { Held::Scheduled } else { Held::Unscheduled };
        let labels = metadata.labels.clone().unwrap_or_default();
        let pods = vec![AnnouncedPods::of(&template, metadata, spec.pods.into())];
        Some(Self {
            gang: spec.gang,
            plan,
            recalled: at.map(|at| RecalledPlan { at: at.as_second(), came: status.came }),
            resource_version: metadata.resource_version.clone(),
            ..Self::new(held, labels, pods)
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
            "2026-12-24T15:00:00Z",
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
