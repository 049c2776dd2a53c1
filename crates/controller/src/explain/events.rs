//! Kubernetes Events on a policy: news that a person should notice at once, each published once.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};
use placeholders::Reason;

use super::status::PRICES_KNOWN;
use crate::crd::{
    BucketStatus, OverprovisioningPolicy, OverprovisioningPolicyStatus, RolloutPhase,
};
use crate::observe::Key;
use crate::outcome::{Outcome, failure};
use crate::writes::{Admission, REQUEST, WriteKind, Writes, Written};

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

    /// Publishes the news of a turn, at most ten. News that cannot be published now is dropped.
    pub(super) async fn publish(
        &self,
        key: &Key,
        policy: &OverprovisioningPolicy,
        news: Vec<News>,
        writes: &Writes,
    ) {
        let object = format!("Event of {key}");
        for News { type_, reason, mut note } in news.into_iter().take(EVENTS_MAX) {
            if writes.admit(WriteKind::Reports, &object, 1) != Admission::Granted {
                tracing::debug!(policy = %key, reason, note, "event dropped");
                continue;
            }
            // The API server accepts at most 1024 bytes.
            if let Some((cut, _)) = note.char_indices().find(|(at, _)| *at > 1_000) {
                note.truncate(cut);
            }
            let event =
                Event { type_, reason, note: Some(note), action: "Turn".into(), secondary: None };
            let about = policy.object_ref(&());
            let published = self.recorder.publish(&event, &about);
            let written = match tokio::time::timeout(REQUEST, published).await {
                Ok(Ok(())) => Written::Accepted,
                Ok(Err(error)) => Written::Refused(error.to_string()),
                Err(_) => Written::Refused(format!("no response within {}s", REQUEST.as_secs())),
            };
            if let Written::Refused(error) = &written {
                tracing::warn!(policy = %key, error, "event not published");
            }
            writes.note(WriteKind::Reports, &object, written);
        }
    }
}

/// What an Event reports.
pub(super) struct News {
    type_: EventType,
    reason: String,
    note: String,
}

/// The news that a new status has: conditions that changed, steps of a rollout, and histories that
/// suffice.
pub(super) fn changed(
    before: &OverprovisioningPolicyStatus,
    status: &OverprovisioningPolicyStatus,
) -> Vec<News> {
    let mut news: Vec<News> = Vec::new();
    // That a price is not known concerns no object, so it is no Event.
    for condition in status.conditions.iter().filter(|known| known.type_ != PRICES_KNOWN) {
        let known = before.conditions.iter().find(|known| known.type_ == condition.type_);
        let same = known.is_some_and(|known| {
            (&known.status, &known.reason) == (&condition.status, &condition.reason)
        });
        let good = (condition.status == "True") == (condition.type_ == "Ready");
        // A new policy without problems is no news.
        if !(same || good && known.is_none()) {
            let type_ = if good { EventType::Normal } else { EventType::Warning };
            let (reason, note) = (condition.reason.clone(), condition.message.clone());
            // A fault that stops the policy is the reason of both conditions.
            if !news.iter().any(|news| (&news.reason, &news.note) == (&reason, &note)) {
                news.push(News { type_, reason, note });
            }
        }
    }
    let step = |of: &OverprovisioningPolicyStatus| of.rollout.as_ref().map(|of| of.since.clone());
    if let Some(rollout) = status.rollout.as_ref().filter(|_| step(before) != step(status)) {
        let went_back = rollout.phase == RolloutPhase::WentBack;
        let type_ = if went_back { EventType::Warning } else { EventType::Normal };
        let reason = format!("Rollout{:?}", rollout.phase);
        news.push(News { type_, reason, note: rollout.message.clone() });
    }
    for bucket in &status.buckets {
        let old = before.buckets.iter().find(|old| old.name == bucket.name);
        let began = |of: &BucketStatus| of.steps.first().map(|step| step.reason.clone());
        let cold = old.and_then(began).as_deref() == Some(Reason::TooLittleHistory.label());
        let learnt = [Reason::Forecast, Reason::NamespaceShare].map(Reason::label);
        if cold && began(bucket).is_some_and(|reason| learnt.contains(&reason.as_str())) {
            let note = format!("the history of {} suffices for a forecast", bucket.name);
            news.push(News { type_: EventType::Normal, reason: "HistorySuffices".into(), note });
        }
    }
    news
}

/// The news of what happened in a turn: launches that failed, and nodes that other workloads took.
pub(super) fn happened(outcome: &Outcome) -> Vec<News> {
    let failures = outcome.observation.launches.iter().filter_map(failure).map(|note| News {
        type_: EventType::Warning,
        reason: "LaunchFailed".into(),
        note,
    });
    let taken = outcome.observation.taken_by_other_workload.iter().map(|node| News {
        type_: EventType::Normal,
        reason: "taken_by_other_workload".into(),
        note: format!("pods outside batch demand took node {node} from a placeholder"),
    });
    failures.chain(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::{RolloutStatus, StepStatus};

    /// The status of a policy whose bucket gets its number for this reason.
    fn status(reason: Reason) -> OverprovisioningPolicyStatus {
        let step = StepStatus { reason: reason.label().into(), target: 1 };
        let bucket =
            BucketStatus { name: "m5.xlarge".into(), steps: vec![step], ..BucketStatus::default() };
        OverprovisioningPolicyStatus { buckets: vec![bucket], ..Default::default() }
    }

    #[test]
    fn each_step_of_a_rollout_is_news_once() {
        let status = |since: &str, phase| {
            let rollout = RolloutStatus { since: since.into(), phase, ..RolloutStatus::default() };
            OverprovisioningPolicyStatus { rollout: Some(rollout), ..Default::default() }
        };
        let reasons = |before, after| -> Vec<String> {
            changed(before, after).into_iter().map(|news| news.reason).collect()
        };
        let none = OverprovisioningPolicyStatus::default();
        let first = status("1970-01-01T00:00:00Z", RolloutPhase::Progressing);
        let back = status("1970-01-02T00:00:00Z", RolloutPhase::WentBack);
        assert_eq!(reasons(&none, &first), ["RolloutProgressing"]);
        assert_eq!(reasons(&first, &back), ["RolloutWentBack"]);
        assert_eq!(reasons(&back, &back), [""; 0]);
        assert_eq!(reasons(&back, &none), [""; 0]);
    }

    #[test]
    fn the_change_from_the_ladder_to_the_forecast_is_news_once() {
        let (cold, outdated, warm) =
            (status(Reason::TooLittleHistory), status(Reason::Outdated), status(Reason::Forecast));
        let reasons = |before, after| -> Vec<String> {
            changed(before, after).into_iter().map(|news| news.reason).collect()
        };
        assert_eq!(reasons(&cold, &warm), ["HistorySuffices"]);
        let shared = status(Reason::NamespaceShare);
        assert_eq!(reasons(&cold, &shared), ["HistorySuffices"]);
        for (before, after) in [(&cold, &cold), (&warm, &warm), (&outdated, &warm), (&warm, &cold)]
        {
            assert_eq!(reasons(before, after), [""; 0]);
        }
        // A new bucket with a recorded history.
        assert_eq!(reasons(&OverprovisioningPolicyStatus::default(), &warm), [""; 0]);
    }
}
