//! The complete observed state: pods and nodes in the [`Index`], and the few objects that are
//! stored as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use instances::{AwsPrices, CapacityReservation};
use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::core::DynamicObject;
use placeholders::{BUCKET_ANNOTATION, GROUP_ANNOTATION, POLICY_LABEL, SHRUNK_ANNOTATION};
use serde::Deserialize;

use super::class::Priority;
use super::index::Index;
use super::karpenter::{NodeClaim, NodeOverlay, NodePool};
use super::objects::Key;
use super::scale_up_events::ScaleUpReports;
use super::shortages::Shortages;
use super::written::Written;
use crate::crd::OverprovisioningPolicy;

/// The name of the ConfigMap that switches all policies off while it exists in the namespace of the
/// controller.
pub const OFF_SWITCH: &str = "prophet-off";

/// The observed state of a cluster.
#[derive(Debug, Default)]
pub struct World {
    /// Pods, nodes, DaemonSets and announced pods.
    pub index: Index,
    /// The policies in the namespaces that the operator lists.
    pub policies: BTreeMap<Key, OverprovisioningPolicy>,
    /// The ReplicaSets of Prophet.
    pub sets: BTreeMap<Key, OwnedObject>,
    /// The CapacityBuffers of Prophet; `None` if the cluster does not have this kind.
    pub buffers: Option<BTreeMap<Key, OwnedObject>>,
    /// The NodePools of Karpenter.
    pub node_pools: BTreeMap<Key, NodePool>,
    /// The `NodeOverlay`s of Karpenter.
    pub node_overlays: BTreeMap<Key, NodeOverlay>,
    /// The NodeClaims of Karpenter: nodes that it has requested.
    pub node_claims: BTreeMap<Key, NodeClaim>,
    /// Names of the groups for which cluster-autoscaler backs off.
    pub backoff: BTreeSet<String>,
    /// Whether cluster-autoscaler reports groups of its own.
    pub has_autoscaler_groups: bool,
    /// When the last scale-up of each group began that cluster-autoscaler reported, by the name of
    /// the group.
    pub scale_ups: BTreeMap<String, DateTime<Utc>>,
    /// Why autoscalers launch no nodes.
    pub scale_ups_reported: ScaleUpReports,
    /// The instance types of which Karpenter found no capacity.
    pub shortages: Shortages,
    /// Whether the off switch stops all policies.
    pub is_off: bool,
    /// The prices that were read from AWS. `None` until the first attempt, and where they are not
    /// read.
    pub aws_prices: Option<ReadPrices>,
    /// The capacity reservations that were read from AWS. `None` where they are not read, and until
    /// the first attempt.
    pub reservations: Option<ReadReservations>,
    /// The errors of failing watches, by the name of the watch.
    pub failing: BTreeMap<String, String>,
    /// The names of the watches whose first list the controller awaits when it starts.
    awaited: BTreeSet<String>,
    /// The names of the watches whose first list is not complete yet.
    pub(super) unlisted: BTreeSet<String>,
}

impl World {
    /// Returns the priority of a PriorityClass.
    pub fn priority(&self, class: &str) -> Option<Priority> {
        self.index.priority(class)
    }

    /// Whether every watch that the controller awaits has completed its first list. The off switch
    /// is not awaited once its watch fails, because a service account may not be able to read it.
    pub fn is_listed(&self) -> bool {
        let is_awaited = |name: &String| name != OFF_SWITCH || !self.failing.contains_key(name);
        !self.unlisted.iter().any(|name| self.awaited.contains(name) && is_awaited(name))
    }

    /// The names of the watches whose first list is not complete yet.
    pub fn unlisted(&self) -> impl Iterator<Item = &str> {
        self.unlisted.iter().map(String::as_str)
    }

    /// Adds watches whose first list the controller awaits when it starts.
    pub(super) fn wait_for(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.awaited.insert(name.clone());
            self.unlisted.insert(name);
        }
    }

    /// Removes the watches of a kind that the API server does not serve, so that decisions neither
    /// wait for them nor treat them as failing.
    pub(super) fn forget(&mut self, kind: &str) {
        let of_kind = |name: &String| name == kind || name.starts_with(&format!("{kind} of "));
        self.failing.retain(|name, _| !of_kind(name));
        self.awaited.retain(|name| !of_kind(name));
        self.unlisted.retain(|name| !of_kind(name));
    }
}

/// Prices of AWS, and why they could not be read again.
#[derive(Clone, Debug, Default)]
pub struct ReadPrices {
    /// What was read last.
    pub prices: Arc<AwsPrices>,
    /// What failed in the last attempt, one message for each action.
    pub failing: Vec<String>,
    /// Whether this process has tried to read them. Otherwise they are those of before a restart.
    pub is_tried: bool,
}

/// The capacity reservations of AWS, and why they could not be read again.
#[derive(Clone, Debug, Default)]
pub struct ReadReservations {
    /// What was read last.
    pub known: Arc<[CapacityReservation]>,
    /// When that was.
    pub time: DateTime<Utc>,
    /// What failed in the last attempt.
    pub failing: Option<String>,
}

/// An object that represents the placeholders of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedObject {
    /// The name of the policy.
    pub policy: String,
    /// The UID of the policy.
    pub owner: String,
    /// The name of the bucket.
    pub bucket: String,
    /// The name of the group.
    pub group: String,
    /// The `resourceVersion` that a write must carry.
    pub resource_version: String,
    /// The number of placeholders in `spec.replicas`.
    pub replicas: u64,
    /// Why the pods of a ReplicaSet cannot be created, as the API server puts it.
    pub refused: Option<String>,
    /// The pods of a ReplicaSet, as its template has them.
    pub written: Option<Written>,
    /// Why the placeholders are smaller than their nodes, as the controller wrote it.
    pub shrunk: Option<String>,
}

impl OwnedObject {
    /// Reads a ReplicaSet. Returns `None` if it does not belong to Prophet or is being deleted.
    pub fn of_set(set: &ReplicaSet) -> Option<Self> {
        let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
        let conditions = set.status.as_ref().and_then(|status| status.conditions.as_ref());
        let refused = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True");
        let refused = refused.map(|condition| condition.message.clone().unwrap_or_default());
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.spec.as_ref());
        let template = template.and_then(|spec| serde_json::to_value(spec).ok());
        let written = template.and_then(|spec| serde_json::from_value(spec).ok());
        let written = written.map(|spec| Written::of(&spec));
        Some(Self { refused, written, ..Self::of(set, u64::try_from(replicas).unwrap_or(0))? })
    }

    /// Reads a CapacityBuffer. Returns `None` if it does not belong to Prophet or is being deleted.
    pub fn of_buffer(buffer: &DynamicObject) -> Option<Self> {
        let replicas = buffer.data.pointer("/spec/replicas").and_then(serde_json::Value::as_u64);
        Self::of(buffer, replicas.unwrap_or(0))
    }

    fn of(object: &impl kube::ResourceExt, replicas: u64) -> Option<Self> {
        if object.meta().deletion_timestamp.is_some() {
            return None;
        }
        let owner = object
            .owner_references()
            .iter()
            .find(|owner| owner.kind == "OverprovisioningPolicy")?;
        Some(Self {
            policy: object.labels().get(POLICY_LABEL)?.clone(),
            owner: owner.uid.clone(),
            bucket: object.annotations().get(BUCKET_ANNOTATION)?.clone(),
            group: object.annotations().get(GROUP_ANNOTATION)?.clone(),
            resource_version: object.resource_version().unwrap_or_default(),
            replicas,
            refused: None,
            written: None,
            shrunk: object.annotations().get(SHRUNK_ANNOTATION).cloned(),
        })
    }
}

/// The part of cluster-autoscaler's status, a ConfigMap, that is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AutoscalerStatus {
    #[serde(default)]
    node_groups: Vec<NodeGroupStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeGroupStatus {
    name: String,
    scale_up: ScaleUp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScaleUp {
    status: String,
    /// When `status` changed last.
    #[serde(default)]
    last_transition_time: Option<String>,
}

impl World {
    /// Takes over the status of cluster-autoscaler. A status that cannot be parsed has no groups.
    pub fn read_autoscaler(&mut self, status: &str) {
        let parsed: Option<AutoscalerStatus> = serde_saphyr::from_str(status).ok();
        self.backoff.clear();
        self.has_autoscaler_groups =
            parsed.as_ref().is_some_and(|status| !status.node_groups.is_empty());
        let mut scale_ups = BTreeMap::new();
        for NodeGroupStatus { name, scale_up } in
            parsed.map(|status| status.node_groups).unwrap_or_default()
        {
            let began = scale_up.last_transition_time.as_deref().and_then(|time| time.parse().ok());
            let began = began.filter(|_| scale_up.status == "InProgress");
            // The status of a scale-up that has ended has the time of its end.
            if let Some(began) = began.or_else(|| self.scale_ups.get(&name).copied()) {
                scale_ups.insert(name.clone(), began);
            }
            if scale_up.status == "Backoff" {
                self.backoff.insert(name);
            }
        }
        self.scale_ups = scale_ups;
    }

    /// Forgets the status of cluster-autoscaler.
    pub(super) fn forget_autoscaler(&mut self) {
        self.backoff.clear();
        self.has_autoscaler_groups = false;
        self.scale_ups.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_is_read_from_the_status_of_cluster_autoscaler() {
        let status = "time: 2026-08-01\nautoscalerStatus: Running\nclusterWide: {health: {status: Healthy}}\nnodeGroups:\n\
            - {name: a, health: {status: Healthy, minSize: 0}, scaleUp: {status: Backoff, backoffInfo: {errorCode: x}}}\n\
            - {name: b, scaleUp: {status: NoActivity}, scaleDown: {status: NoCandidates}}\n";
        let mut world = World::default();
        world.read_autoscaler(status);
        assert_eq!(world.backoff, ["a".to_owned()].into());
        world.read_autoscaler("Cluster-autoscaler status at ...");
        assert_eq!(world.backoff, BTreeSet::new());
    }

    #[test]
    fn a_scale_up_is_remembered_until_the_next_one_of_its_group() {
        let mut world = World::default();
        let mut began = |status: &str, time: &str| {
            world.read_autoscaler(&format!(
                "nodeGroups: [{{name: a, scaleUp: {{status: {status}, lastTransitionTime: '{time}'}}}}]"
            ));
            world.scale_ups.get("a").map(|time| time.timestamp() % 60)
        };
        assert_eq!(began("NoActivity", "2026-08-01T10:00:01Z"), None);
        assert_eq!(began("InProgress", "2026-08-01T10:00:02Z"), Some(2));
        assert_eq!(began("NoActivity", "2026-08-01T10:00:03.123456Z"), Some(2));
        assert_eq!(began("InProgress", "2026-08-01T10:00:04.123456Z"), Some(4));
        assert_eq!(began("InProgress", "some day"), Some(4));
    }
}
