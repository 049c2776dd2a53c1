//! All that the watches have told us: pods and nodes in the [`Index`], and the few objects that are kept as they are.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::core::DynamicObject;
use placeholders::{BUCKET_ANNOTATION, GROUP_ANNOTATION, POLICY_LABEL};
use serde::Deserialize;

use super::announced::Key;
use super::index::Index;
use super::karpenter::{NodeClaim, NodePool};
use crate::crd::OverprovisioningPolicy;

/// All that is known of a cluster.
#[derive(Debug, Default)]
pub struct World {
    /// Pods, nodes, DaemonSets, pods to be.
    pub index: Index,
    /// Policies, in the namespaces that count.
    pub policies: BTreeMap<Key, OverprovisioningPolicy>,
    /// Our ReplicaSets.
    pub sets: BTreeMap<Key, OwnedObject>,
    /// Our CapacityBuffers; `None` where the cluster has no such kind.
    pub buffers: Option<BTreeMap<Key, OwnedObject>>,
    /// Karpenter's pools.
    pub node_pools: BTreeMap<Key, NodePool>,
    /// The nodes that it has asked for.
    pub node_claims: BTreeMap<Key, NodeClaim>,
    /// Priorities by their class, which has no namespace.
    pub priorities: BTreeMap<Key, i32>,
    /// Groups that cluster-autoscaler backs off from.
    pub backoff: BTreeSet<String>,
    /// What fails, by what was asked for.
    pub failing: BTreeMap<String, String>,
    /// What decisions rest on.
    needed: BTreeSet<String>,
    /// What of it has not been listed yet.
    pub(super) unlisted: BTreeSet<String>,
}

impl World {
    /// The priority of a class.
    pub fn priority(&self, class: &str) -> Option<i32> {
        self.priorities.get(&Key { namespace: String::new(), name: class.into() }).copied()
    }

    /// Whether all that decisions rest on has been listed once.
    pub fn is_listed(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Whether a watch that decisions rest on fails: what is seen is the past.
    pub fn is_blind(&self) -> bool {
        self.needed.iter().any(|name| self.failing.contains_key(name))
    }

    /// Decisions rest on these, too.
    pub(super) fn need(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.needed.insert(name.clone());
            self.unlisted.insert(name);
        }
    }

    /// A kind is served no more: nothing waits for it, and it cannot fail.
    pub(super) fn forget(&mut self, kind: &str) {
        let of_kind = |name: &String| name == kind || name.starts_with(&format!("{kind} of "));
        self.failing.retain(|name, _| !of_kind(name));
        self.needed.retain(|name| !of_kind(name));
        self.unlisted.retain(|name| !of_kind(name));
    }
}

/// An object that stands for placeholders of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedObject {
    /// The policy's name.
    pub policy: String,
    /// The policy's UID.
    pub owner: String,
    /// The bucket's name.
    pub bucket: String,
    /// The group's name.
    pub group: String,
    /// The version that a write must carry.
    pub resource_version: String,
    /// Placeholders that it is asked for.
    pub replicas: u64,
}

impl OwnedObject {
    /// A ReplicaSet of ours; `None` for any other.
    pub fn of_set(set: &ReplicaSet) -> Option<Self> {
        let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
        Self::of(set, u64::try_from(replicas).unwrap_or(0))
    }

    /// A CapacityBuffer of ours; `None` for any other.
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
        })
    }
}

/// The part that is read of cluster-autoscaler's status, a ConfigMap.
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
struct ScaleUp {
    status: String,
}

/// The groups that cluster-autoscaler backs off from, by its status; none where it cannot be read.
pub(super) fn backing_off(status: &str) -> BTreeSet<String> {
    let parsed: Option<AutoscalerStatus> = serde_saphyr::from_str(status).ok();
    let groups = parsed.map(|status| status.node_groups).unwrap_or_default();
    groups
        .into_iter()
        .filter(|group| group.scale_up.status == "Backoff")
        .map(|group| group.name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::backing_off;

    #[test]
    fn backoff_is_read_from_the_autoscalers_status() {
        let status = "time: 2026-08-01\nautoscalerStatus: Running\nclusterWide: {health: {status: Healthy}}\nnodeGroups:\n\
            - {name: a, health: {status: Healthy, minSize: 0}, scaleUp: {status: Backoff, backoffInfo: {errorCode: x}}}\n\
            - {name: b, scaleUp: {status: NoActivity}, scaleDown: {status: NoCandidates}}\n";
        assert_eq!(backing_off(status).into_iter().collect::<Vec<_>>(), ["a"]);
        assert!(backing_off("Cluster-autoscaler status at ...").is_empty());
    }
}
