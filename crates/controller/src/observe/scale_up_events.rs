//! The Events in which an autoscaler reports that it launches no node for a pod.
//!
//! cluster-autoscaler writes `NotTriggerScaleUp` on each pod at each scan, and
//! `MaxNodesTotalReached` on the ConfigMap of its status. Karpenter writes `FailedScheduling`.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::objects::{Event, InvolvedObject, Key, time};

/// The selectors of the Events of pods, as fields of Events. The API server cannot combine them.
pub(super) const OF_PODS: [&str; 2] =
    ["reason=NotTriggerScaleUp", "reason=FailedScheduling,reportingComponent=karpenter"];

/// The selector of the Events on the status of cluster-autoscaler.
pub(super) const OF_STATUS: &str = "reason=MaxNodesTotalReached";

/// How long after the last such Event the cluster counts as full: cluster-autoscaler repeats it at
/// each scan, but the API server's clients send at most one of equal Events in five minutes.
const FULL: TimeDelta = TimeDelta::minutes(6);

/// The most pods whose Events are kept: 1,000. A cluster has fewer placeholders that wait.
const PODS_MAX: usize = 1_000;

impl Event {
    /// When it was reported last.
    pub(super) fn at(&self) -> Option<DateTime<Utc>> {
        let exact = |at: &MicroTime| DateTime::from_timestamp(at.0.as_second(), 0);
        let series = self.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
        let last = series.and_then(exact).max(self.last_timestamp.as_ref().and_then(time));
        last.or(self.first_time.as_ref().and_then(exact)).or(self
            .metadata
            .creation_timestamp
            .as_ref()
            .and_then(time))
    }
}

/// Why an autoscaler launches no node for a pod, in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoScaleUp {
    /// The message of the Event.
    pub message: String,
    /// When it was reported last.
    pub at: DateTime<Utc>,
}

/// What autoscalers reported.
#[derive(Clone, Debug, Default)]
pub struct ScaleUpReports {
    /// The last report for each pod for which an autoscaler launched no node.
    pods: BTreeMap<Key, NoScaleUp>,
    /// When the cluster had as many nodes as cluster-autoscaler may launch.
    full_at: Option<DateTime<Utc>>,
}

impl ScaleUpReports {
    pub(super) fn note(&mut self, event: &Event) {
        let InvolvedObject { kind, namespace, name } = &event.involved_object;
        let Some(at) = event.at() else { return };
        match kind.as_str() {
            "ConfigMap" => self.full_at = self.full_at.max(Some(at)),
            "Pod" => {
                let key = Key { namespace: namespace.clone(), name: name.clone() };
                if self.pods.len() >= PODS_MAX && !self.pods.contains_key(&key) {
                    let oldest = self.pods.iter().min_by_key(|(_, report)| report.at);
                    let oldest = oldest.map(|(key, _)| key.clone());
                    if let Some(oldest) = oldest {
                        self.pods.remove(&oldest);
                    }
                }
                let report = NoScaleUp { message: event.message.clone(), at };
                let known = self.pods.entry(key).or_insert_with(|| report.clone());
                if report.at >= known.at {
                    *known = report;
                }
            }
            _ => {}
        }
    }

    /// Why an autoscaler launched no node for a pod at or after this time.
    pub fn of(&self, pod: &Key, since: DateTime<Utc>) -> Option<&NoScaleUp> {
        // Times of Events have a resolution of a second.
        self.pods.get(pod).filter(|report| report.at + TimeDelta::seconds(1) > since)
    }

    /// Whether the cluster has as many nodes as cluster-autoscaler may launch.
    pub fn is_full(&self, now: DateTime<Utc>) -> bool {
        self.full_at.is_some_and(|at| now - at < FULL)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, name: &str, message: &str, last: &str) -> Event {
        let event = json!({
            "metadata": {}, "message": message, "lastTimestamp": last,
            "involvedObject": {"kind": kind, "namespace": "a", "name": name},
        });
        serde_json::from_value(event).unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn the_latest_event_of_a_pod_counts_from_its_time_on() {
        let mut reports = ScaleUpReports::default();
        reports.note(&event("Pod", "p", "new", "2026-01-01T00:01:00Z"));
        reports.note(&event("Pod", "p", "old", "2026-01-01T00:00:00Z"));
        let pod = Key { namespace: "a".into(), name: "p".into() };
        let message = |since: &str| reports.of(&pod, at(since)).map(|report| &*report.message);
        assert_eq!(message("2026-01-01T00:00:30Z"), Some("new"));
        assert_eq!(message("2026-01-01T00:01:00.900Z"), Some("new"));
        assert_eq!(message("2026-01-01T00:01:01Z"), None);
        assert_eq!(reports.of(&Key::default(), at("2026-01-01T00:00:00Z")), None);
    }

    #[test]
    fn a_cluster_is_full_for_a_while_after_it_was_reported() {
        let mut reports = ScaleUpReports::default();
        assert!(!reports.is_full(at("2026-01-01T00:00:00Z")));
        reports.note(&event("ConfigMap", "status", "", "2026-01-01T00:00:00Z"));
        assert!(reports.is_full(at("2026-01-01T00:05:59Z")));
        assert!(!reports.is_full(at("2026-01-01T00:06:00Z")));
    }

    #[test]
    fn the_events_of_a_limited_number_of_pods_are_kept() {
        let mut reports = ScaleUpReports::default();
        for pod in 0..PODS_MAX + 9 {
            reports.note(&event("Pod", &pod.to_string(), "", "2026-01-01T00:00:00Z"));
        }
        assert_eq!(reports.pods.len(), PODS_MAX);
    }
}
