//! Kubernetes Events on a policy: news that a person should notice at once, each published once.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};

use placeholders::Reason;

use crate::crd::{BucketStatus, OverprovisioningPolicy, OverprovisioningPolicyStatus};
use crate::outcome::{Outcome, failure};

/// Publishes Events.
pub(super) struct Events {
    recorder: Recorder,
}

/// The most Events of one turn: ten, because more would add no information.
const EVENTS_MAX: usize = 10;

impl Events {
    pub(super) fn new(client: Client) -> Self {
        Self {
            recorder: Recorder::new(
                client,
                Reporter { controller: "prophet".into(), instance: None },
            ),
        }
    }

    /// Publishes the news of a turn: conditions that changed, launches that failed, and nodes that
    /// other workloads took.
    pub(super) async fn turn(
        &self,
        policy: &OverprovisioningPolicy,
        outcome: &Outcome,
        before: &OverprovisioningPolicyStatus,
        status: &OverprovisioningPolicyStatus,
    ) {
        let mut events = Vec::new();
        for condition in &status.conditions {
            let known = before.conditions.iter().find(|known| known.type_ == condition.type_);
            let same = known.is_some_and(|known| {
                (&known.status, &known.reason) == (&condition.status, &condition.reason)
            });
            let good = (condition.status == "True") == (condition.type_ == "Ready");
            // A new policy without problems is no news.
            if !(same || good && known.is_none()) {
                let type_ = if good { EventType::Normal } else { EventType::Warning };
                events.push((type_, condition.reason.clone(), condition.message.clone()));
            }
        }
        for bucket in &status.buckets {
            let old = before.buckets.iter().find(|old| old.name == bucket.name);
            let began = |of: &BucketStatus| of.steps.first().map(|step| step.reason.clone());
            let cold = old.and_then(began).as_deref() == Some(Reason::TooLittleHistory.label());
            if cold && began(bucket).as_deref() == Some(Reason::Forecast.label()) {
                let note = format!("the history of {} suffices for a forecast", bucket.name);
                events.push((EventType::Normal, "HistorySuffices".into(), note));
            }
        }
        let failures = outcome.launches.iter().filter_map(failure);
        events.extend(failures.map(|note| (EventType::Warning, "LaunchFailed".into(), note)));
        let taken = outcome.taken_by_other_workload.iter();
        events.extend(taken.map(|node| {
            let note = format!("pods outside batch demand took node {node} from a placeholder");
            (EventType::Normal, "taken_by_other_workload".into(), note)
        }));
        for (type_, reason, mut note) in events.into_iter().take(EVENTS_MAX) {
            // The API server accepts at most 1024 bytes.
            if let Some((cut, _)) = note.char_indices().find(|(at, _)| *at > 1_000) {
                note.truncate(cut);
            }
            let event =
                Event { type_, reason, note: Some(note), action: "Turn".into(), secondary: None };
            if let Err(error) = self.recorder.publish(&event, &policy.object_ref(&())).await {
                tracing::warn!(%error, "event not published");
            }
        }
    }
}
