//! The fields that Prophet reads of Karpenter: NodePools, and NodeClaims, which are the nodes that
//! Karpenter has requested.

use std::collections::{BTreeMap, BTreeSet};

use base::quantity::{millis, units};
use base::span::Span;
use embedder::{AcceleratorKind, MicroDollars, Resources};
use instances::PriceChange;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde::Deserialize;

use super::constraints::Choice;
use super::devices::amounts;
use super::objects::Taint;
use super::objects::{NodeTaint, Requirement, quantities};
use super::requests::{kind_in, resources};

/// Karpenter's label for the capacity type.
pub const CAPACITY_LABEL: &str = "karpenter.sh/capacity-type";

/// Karpenter's label for the pool of a node.
pub const POOL_LABEL: &str = "karpenter.sh/nodepool";

/// A `NodePool` of `karpenter.sh/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePool {
    /// The name of the pool.
    pub name: String,
    /// The labels of each node of the pool.
    pub labels: BTreeMap<String, String>,
    /// The taints of each node of the pool.
    pub taints: Vec<Taint>,
    /// The keys of the taints that a node of the pool has only until it is set up.
    pub startup_taints: BTreeSet<String>,
    /// The values that a node may have, by label: the requirements.
    pub choices: BTreeMap<String, Choice>,
    /// By label, the fewest values that the instance types for a new node must have, so that the
    /// autoscaler can choose.
    pub min_values: BTreeMap<String, u64>,
    /// The most that all nodes of the pool have together, by the name of the resource: `cpu` in
    /// thousandths of a core, `nodes` the number of nodes, any other in whole units.
    pub limits: BTreeMap<String, u64>,
    /// The API group of the pool's node class, which differs by provider.
    pub class_group: String,
    /// The number of nodes of a static pool. Pending pods launch no node of it.
    pub replicas: Option<u64>,
    /// How long a node must be empty before Karpenter removes it, in seconds: `consolidateAfter`,
    /// or, where a budget forbids the removal, `expireAfter`. `None` if the pool does not have it.
    pub unneeded_seconds: Option<i64>,
    /// The weight of the pool: Karpenter tries the pools with the largest weight first.
    pub weight: u64,
}

/// A `NodeClaim` of `karpenter.sh/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClaim {
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
    /// The capacity of the instance.
    pub capacity: Resources,
    /// The allocatable resources of the node, as Karpenter estimates them.
    pub allocatable: Resources,
    /// The kind of the accelerators of the node.
    pub accelerator_kind: AcceleratorKind,
    /// Further resources of the node, by name, in whole units.
    pub devices: BTreeMap<String, u64>,
}

/// A `NodeOverlay` of `karpenter.sh/v1alpha1`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeOverlay {
    /// The values that a node has for which the overlay holds, by label: the requirements.
    pub choices: BTreeMap<String, Choice>,
    /// The change of the price, if there is one.
    pub change: Option<PriceChange>,
    /// The resources that a node has in addition, by name, in whole units.
    pub capacity: BTreeMap<String, u64>,
    /// Of several overlays, the one with the largest weight holds.
    pub weight: i32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OverlaySpec {
    #[serde(default)]
    requirements: Vec<Requirement>,
    price: Option<String>,
    price_adjustment: Option<String>,
    #[serde(default, deserialize_with = "quantities")]
    capacity: BTreeMap<String, String>,
    #[serde(default)]
    weight: i32,
}

impl NodeOverlay {
    /// Reads a `NodeOverlay`. Returns `None` if it is being deleted, is invalid, or if Karpenter
    /// does not apply it, because it is not ready.
    pub fn of(object: &DynamicObject) -> Option<Self> {
        let conditions = object.data.pointer("/status/conditions")?.as_array()?;
        let is_ready =
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        if object.metadata.deletion_timestamp.is_some() || !is_ready {
            return None;
        }
        let OverlaySpec { requirements, price, price_adjustment, capacity, weight } =
            serde_json::from_value(object.data.get("spec")?.clone()).ok()?;
        let change = match (price, price_adjustment) {
            (Some(price), _) => {
                Some(PriceChange::To(MicroDollars::from_dollars(price.parse().ok()?)?))
            }
            (None, Some(adjustment)) => Some(PriceChange::of_adjustment(&adjustment)?),
            (None, None) => None,
        };
        let capacity = amounts(&capacity, "").collect();
        Some(Self { choices: choices(requirements.iter()), change, capacity, weight })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolSpec {
    template: PoolTemplate,
    #[serde(deserialize_with = "quantities")]
    limits: BTreeMap<String, String>,
    replicas: Option<u64>,
    weight: u64,
    disruption: PoolDisruption,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PoolDisruption {
    consolidate_after: Option<String>,
    budgets: Vec<Budget>,
}

/// The most nodes of a pool that Karpenter disrupts at once.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Budget {
    nodes: String,
    reasons: Option<Vec<String>>,
    schedule: Option<String>,
}

impl Budget {
    /// Whether Karpenter never removes an empty node. A budget with a schedule forbids it at times
    /// only.
    fn keeps_empty_nodes(&self) -> bool {
        let Self { nodes, reasons, schedule } = self;
        let is_none = ["0", "0%"].contains(&nodes.as_str());
        let of_empty = |reasons: &Vec<String>| reasons.iter().any(|reason| reason == "Empty");
        is_none && schedule.is_none() && reasons.as_ref().is_none_or(of_empty)
    }
}

impl PoolDisruption {
    /// How long an empty node stays, in seconds, if nodes end after `expire_after`.
    fn unneeded_seconds(&self, expire_after: Option<&str>) -> Option<i64> {
        let kept = self.budgets.iter().any(Budget::keeps_empty_nodes).then_some(i64::MAX);
        let unneeded = kept.or_else(|| self.consolidate_after.as_deref().and_then(seconds))?;
        Some(unneeded.min(expire_after.and_then(seconds).unwrap_or(i64::MAX)))
    }
}

/// A span of time of Karpenter, in seconds.
fn seconds(text: &str) -> Option<i64> {
    if text == "Never" { Some(i64::MAX) } else { Span::of_go(text).map(Span::as_seconds) }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolTemplate {
    metadata: PoolMeta,
    spec: PoolNode,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolMeta {
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolNode {
    requirements: Vec<PoolRequirement>,
    taints: Vec<NodeTaint>,
    #[serde(rename = "startupTaints")]
    startup_taints: Vec<NodeTaint>,
    #[serde(rename = "nodeClassRef")]
    node_class_ref: NodeClassRef,
    #[serde(rename = "expireAfter")]
    expire_after: Option<String>,
}

#[derive(Deserialize)]
struct PoolRequirement {
    #[serde(flatten)]
    requirement: Requirement,
    #[serde(default, rename = "minValues")]
    min_values: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeClassRef {
    group: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    capacity: BTreeMap<String, String>,
    allocatable: BTreeMap<String, String>,
}

impl NodePool {
    /// Reads a NodePool. Returns `None` if it is being deleted or is invalid.
    pub fn of(object: &DynamicObject) -> Option<Self> {
        if object.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let PoolSpec { template, limits, replicas, weight, disruption } =
            serde_json::from_value(object.data.get("spec")?.clone()).ok()?;
        let PoolNode { requirements, taints, startup_taints, node_class_ref, expire_after } =
            template.spec;
        let fewest =
            requirements.iter().filter_map(|PoolRequirement { requirement, min_values }| {
                Some((requirement.key.clone(), (*min_values)?))
            });
        let limit = |(name, quantity): (String, String)| {
            let amount = if name == "cpu" { millis(&quantity) } else { units(&quantity) };
            Some((name, amount?))
        };
        let taint = |NodeTaint { key, value, effect }| Taint { key, value, effect };
        Some(Self {
            name: object.name_any(),
            labels: template.metadata.labels,
            taints: taints.into_iter().map(taint).collect(),
            startup_taints: startup_taints.into_iter().map(|taint| taint.key).collect(),
            choices: choices(requirements.iter().map(|one| &one.requirement)),
            min_values: fewest.collect(),
            limits: limits.into_iter().filter_map(limit).collect(),
            class_group: node_class_ref.group,
            replicas,
            weight,
            unneeded_seconds: disruption.unneeded_seconds(expire_after.as_deref()),
        })
    }
}

/// The values that a node may have, by label.
fn choices<'a>(requirements: impl Iterator<Item = &'a Requirement>) -> BTreeMap<String, Choice> {
    let mut choices: BTreeMap<String, Choice> = BTreeMap::new();
    for requirement in requirements {
        choices.entry(requirement.key.clone()).or_default().require(requirement);
    }
    choices
}

/// The values that a node may have, by label, from the requirements of a NodeClaim. `None` if they
/// are invalid.
pub(super) fn requirements(list: &serde_json::Value) -> Option<BTreeMap<String, Choice>> {
    let list: Vec<Requirement> = serde_json::from_value(list.clone()).ok()?;
    Some(choices(list.iter()))
}

impl NodeClaim {
    /// Reads a NodeClaim. Returns `None` if its status has no allocatable resources yet or is
    /// invalid.
    pub fn of(object: &DynamicObject) -> Option<Self> {
        let ClaimStatus { capacity, allocatable } =
            serde_json::from_value(object.data.get("status")?.clone()).ok()?;
        if allocatable.is_empty() {
            return None;
        }
        let kind = kind_in(&capacity).unwrap_or(AcceleratorKind::NVIDIA);
        Some(Self {
            labels: object.labels().clone(),
            capacity: resources(&capacity, kind),
            allocatable: resources(&allocatable, kind),
            accelerator_kind: AcceleratorKind::new(kind),
            devices: amounts(&allocatable, kind).collect(),
        })
    }
}
