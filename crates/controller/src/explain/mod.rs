//! Reports observations, forecasts and decisions to people and programs.
//!
//! ```text
//! status.rs     a policy's status, with its conditions
//! nodes.rs      what is known of the nodes of groups, in a status and back
//! plans.rs      the status of PlannedDemands
//! rfc3339.rs    times in a status
//! events.rs     Kubernetes Events on a policy
//! metrics.rs    metrics for Prometheus
//! view.rs       the dashboard's view of a turn
//! ```
//!
//! All of them spell reasons alike: [`placeholders::Reason::label`] and
//! [`crate::outcome::Cause::label`].

mod events;
mod metrics;
mod nodes;
mod plans;
mod reaction;
mod rfc3339;
mod status;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use self::events::{Events, changed, happened};
use self::plans::Plans;

pub use self::metrics::Metrics;
pub use self::nodes::recalled;
pub use self::reaction::Reaction;
pub use self::status::{shape_text, status};
use crate::crd::{Mode, OverprovisioningPolicy, OverprovisioningPolicyStatus};
use crate::observe::Key;
use crate::outcome::Outcome;
use crate::writes::{Admission, REQUEST, WriteCounts, WriteKind, Writes, Written};
use dashboard::Dashboard;

/// Reports the outcomes of turns.
pub struct Explain {
    client: Client,
    events: Events,
    metrics: Arc<Metrics>,
    dashboard: Arc<Dashboard>,
    /// The last status that was written, by policy.
    written: BTreeMap<Key, OverprovisioningPolicyStatus>,
    plans: Plans,
}

impl Explain {
    /// Creates reports that have not been written yet.
    pub fn new(client: Client) -> Self {
        Self {
            events: Events::new(client.clone()),
            plans: Plans::new(client.clone()),
            client,
            metrics: Arc::default(),
            dashboard: Arc::new(Dashboard::new(view::CAPTIONS)),
            written: BTreeMap::new(),
        }
    }

    /// The metrics for Prometheus.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// The dashboard, which shows the last turn of each policy.
    pub fn dashboard(&self) -> Arc<Dashboard> {
        Arc::clone(&self.dashboard)
    }

    /// Shows the outcome of the turn of a policy with this mode and this length of a tick on the
    /// dashboard, also where this replica does not lead.
    pub fn show(
        &self,
        key: &Key,
        (mode, tick_seconds): (Mode, i64),
        outcome: &Outcome,
        now: DateTime<Utc>,
    ) {
        self.dashboard.note(view::view(key, mode, tick_seconds, outcome, now));
    }

    /// Shows how the figures of the dashboard came about: their start, and whether this replica
    /// leads.
    pub fn show_since(&self, since: Option<DateTime<Utc>>, leads: bool) {
        let since = since.map(|since| since.format("%-d %b %Y %H:%M UTC"));
        let since =
            since.map_or(String::new(), |since| format!("The figures count from {since}. "));
        let standby = if leads { "" } else { "This replica stands by: another one writes." };
        self.dashboard.headline(format!("{since}{standby}").trim().into());
    }

    /// Sets whether this replica leads. A replica that does not lead reports no policies.
    pub fn leads(&mut self, leads: bool) {
        self.metrics.leads(leads);
        if !leads {
            self.keep(&BTreeSet::new());
        }
    }

    /// Sets the number of pods whose usage was measured last.
    pub(crate) fn measured(&self, pods: usize) {
        self.metrics.measured(pods);
    }

    /// Records the time that the response to a change took.
    pub fn reacted(&self, reaction: Reaction) {
        self.metrics.reacted(reaction);
        tracing::debug!(seconds = reaction.seconds, "turn after a change finished");
    }

    /// Adds to the counts of writes.
    pub(crate) fn wrote(&self, counts: &WriteCounts) {
        self.metrics.wrote(counts);
        let deferred = |kind| counts.get(&(kind, "budget")).copied().unwrap_or(0);
        let writes = deferred(WriteKind::Placeholders);
        if writes > 0 {
            tracing::warn!(writes, "writes of placeholders deferred: the budget is used up");
        }
    }

    /// Removes the state of policies that are not in `keys`.
    pub fn keep(&mut self, keys: &BTreeSet<Key>) {
        self.written.retain(|key, _| keys.contains(key));
        self.plans.keep(keys);
        self.metrics.keep(keys);
    }

    /// Reports the outcome of a policy's turn in the log, the metrics, Events and the status.
    pub(crate) async fn turn(
        &mut self,
        key: &Key,
        policy: &OverprovisioningPolicy,
        outcome: &Outcome,
        writes: &Writes,
        now: DateTime<Utc>,
    ) {
        let before =
            self.written.get(key).cloned().or_else(|| policy.status.clone()).unwrap_or_default();
        let status = status(policy, outcome, &before, now);
        log(&before, &status);
        self.metrics.turn((key, policy.spec.tick_seconds()), outcome, &status, now);
        let mut news = happened(outcome);
        let object = format!("OverprovisioningPolicy {key}");
        let writes_status = self.written.get(key) != Some(&status)
            && writes.admit(WriteKind::Reports, &object, 1) == Admission::Granted;
        if writes_status {
            // While the status is not written, the same conditions would be news at each turn.
            news.extend(changed(&before, &status));
        }
        self.events.publish(key, policy, news, writes).await;
        self.plans.report(key, outcome, writes).await;
        if !writes_status {
            return;
        }
        let written = tokio::time::timeout(REQUEST, self.write(key, &status)).await;
        let written = match written {
            Ok(Ok(())) => Written::Accepted,
            Ok(Err(error)) => Written::Refused(error.to_string()),
            Err(_) => Written::Refused(format!("no response within {}s", REQUEST.as_secs())),
        };
        if let Written::Refused(error) = &written {
            tracing::warn!(policy = %key, error, "status not written");
        } else {
            self.written.insert(key.clone(), status);
        }
        writes.note(WriteKind::Reports, &object, written);
    }

    async fn write(&self, key: &Key, status: &OverprovisioningPolicyStatus) -> kube::Result<()> {
        let api: Api<OverprovisioningPolicy> = Api::namespaced(self.client.clone(), &key.namespace);
        // A server-side apply fails on a stored policy whose fields do not have the types of the
        // definition. The status of such a policy is needed most.
        let replace = json!([{"op": "add", "path": "/status", "value": status}]);
        let replace = serde_json::from_value(replace).map_err(kube::Error::SerdeError)?;
        let manager = Some("prophet".to_owned());
        let parameters = PatchParams { field_manager: manager, ..PatchParams::default() };
        match api.patch_status(&key.name, &parameters, &Patch::Json::<()>(replace)).await {
            // The policy was deleted in the meantime.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            done => done.map(drop),
        }
    }
}

/// Logs one line for each bucket whose status changed.
fn log(before: &OverprovisioningPolicyStatus, status: &OverprovisioningPolicyStatus) {
    for bucket in status.buckets.iter().filter(|bucket| !before.buckets.contains(bucket)) {
        tracing::info!(
            bucket = bucket.name,
            demand = bucket.demand,
            have = bucket.placeholders,
            want = bucket.target,
            reason = bucket.reason,
            "decided"
        );
    }
}
