//! The status of PlannedDemands: what is held for them, and how many of their pods came.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::json;

use super::rfc3339::rfc3339;
use crate::crd::{PlannedDemand, PlannedDemandStatus};
use crate::observe::Key;
use crate::outcome::{Outcome, PlanSeen};
use crate::writes::{Admission, REQUEST, WriteKind, Writes, Written};

/// The most plans of a policy in its status and on the dashboard.
pub(super) const PLANS_MAX: usize = 20;

/// Writes the status of PlannedDemands.
pub(super) struct Plans {
    client: Client,
    /// By PlannedDemand: the policy that reports on it, and the last status that was written.
    written: BTreeMap<Key, (Key, Option<PlannedDemandStatus>)>,
}

impl Plans {
    pub(super) fn new(client: Client) -> Self {
        Self { client, written: BTreeMap::new() }
    }

    /// Removes the state of policies that are not in `keys`.
    pub(super) fn keep(&mut self, keys: &BTreeSet<Key>) {
        self.written.retain(|_, (policy, _)| keys.contains(policy));
    }

    /// Writes the status of the plans that a policy covers, where it changed. If several policies
    /// cover a plan, the first one reports on it.
    pub(super) async fn report(&mut self, policy: &Key, outcome: &Outcome, writes: &Writes) {
        if outcome.observation.blind {
            return;
        }
        for (key, version) in &outcome.observation.expired {
            self.delete(key, version.clone(), writes).await;
        }
        let plans = &outcome.observation.plans;
        let covered: BTreeSet<&Key> = plans.iter().map(|plan| &plan.key).collect();
        self.written.retain(|key, (of, _)| of != policy || covered.contains(key));
        for plan in plans {
            let status = plan_status(plan, policy, outcome);
            let (of, written) =
                self.written.entry(plan.key.clone()).or_insert_with(|| (policy.clone(), None));
            if of != policy || written.as_ref() == Some(&status) {
                continue;
            }
            let object = format!("PlannedDemand {}", plan.key);
            if writes.admit(WriteKind::Reports, &object, 1) != Admission::Granted {
                continue;
            }
            let done = within_limit(write(&self.client, &plan.key, &status)).await;
            if let Written::Refused(error) = &done {
                tracing::warn!(plan = %plan.key, error, "status not written");
            } else {
                *written = Some(status);
            }
            writes.note(WriteKind::Reports, &object, done);
        }
    }

    /// Deletes a PlannedDemand that ended long ago.
    async fn delete(&self, key: &Key, resource_version: Option<String>, writes: &Writes) {
        let object = format!("PlannedDemand {key}");
        if writes.admit(WriteKind::Reports, &object, 1) != Admission::Granted {
            return;
        }
        let api: Api<PlannedDemand> = Api::namespaced(self.client.clone(), &key.namespace);
        // Who announces again under the same name changes the object.
        let only = Preconditions { resource_version, uid: None };
        let parameters = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
        let deleted = async { gone(api.delete(&key.name, &parameters).await.map(drop)) };
        let done = within_limit(deleted).await;
        if let Written::Refused(error) = &done {
            tracing::warn!(plan = %key, error, "an ended PlannedDemand is not deleted");
        }
        writes.note(WriteKind::Reports, &object, done);
    }
}

/// The result of a request, which has a time limit.
async fn within_limit(request: impl Future<Output = kube::Result<()>>) -> Written {
    match tokio::time::timeout(REQUEST, request).await {
        Ok(Ok(())) => Written::Accepted,
        Ok(Err(error)) => Written::Refused(error.to_string()),
        Err(_) => Written::Refused(format!("no response within {}s", REQUEST.as_secs())),
    }
}

/// An object that was deleted in the meantime is no failure.
fn gone(done: kube::Result<()>) -> kube::Result<()> {
    match done {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        done => done,
    }
}

async fn write(client: &Client, key: &Key, status: &PlannedDemandStatus) -> kube::Result<()> {
    let api: Api<PlannedDemand> = Api::namespaced(client.clone(), &key.namespace);
    let replace = json!([{"op": "add", "path": "/status", "value": status}]);
    let replace = serde_json::from_value(replace).map_err(kube::Error::SerdeError)?;
    let manager = Some("prophet".to_owned());
    let parameters = PatchParams { field_manager: manager, ..PatchParams::default() };
    gone(api.patch_status(&key.name, &parameters, &Patch::Json::<()>(replace)).await.map(drop))
}

/// The status of a plan.
pub(super) fn plan_status(plan: &PlanSeen, policy: &Key, outcome: &Outcome) -> PlannedDemandStatus {
    let turn = outcome.turn();
    let held = turn.and_then(|turn| turn.planned.iter().find(|(name, _)| *name == plan.plan));
    let held = held.map_or(0, |(_, pods)| *pods);
    let kept = outcome.decision.as_ref().and_then(|decision| decision.kept.get(&plan.author));
    let time = |seconds: i64| DateTime::<Utc>::from_timestamp(seconds, 0).map(rfc3339);
    let ends = time(plan.end).unwrap_or_default();
    let message = if plan.is_over {
        format!("{} pods came", plan.came)
    } else if !plan.is_open {
        "the pods count as demand from one launch before the time on".into()
    } else if held == 0 {
        "no pods count as demand now: the pods are there, few of the pods that the author planned \
         before came, or a limit holds"
            .into()
    } else {
        format!("{held} pods count as demand until they come, at most until {ends}")
    };
    PlannedDemandStatus {
        next: time(plan.at),
        held,
        came: plan.came,
        kept: kept.map(|share| format!("{:.0}%", 100.0 * share)),
        policy: Some(policy.to_string()),
        message,
    }
}
