//! The fields that Prophet reads of Karpenter: NodePools, and NodeClaims, which are the nodes that
//! Karpenter has requested.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{AcceleratorKind, Resources};
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde::Deserialize;

use super::objects::Taint;
use super::objects::{NodeTaint, Requirement};
use super::quantity::millis;
use super::requests::{kind_in, resources};

/// A `NodePool` of `karpenter.sh/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePool {
    /// The name of the pool.
    pub name: String,
    /// The labels of each node of the pool.
    pub labels: BTreeMap<String, String>,
    /// The taints of each node of the pool.
    pub taints: Vec<Taint>,
    /// The values that a node may have, by label: the requirements with the operator `In`.
    pub choices: BTreeMap<String, BTreeSet<String>>,
    /// The maximum CPU of all nodes of the pool together, in thousandths of a core.
    pub cpu_millis_max: Option<u64>,
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
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PoolSpec {
    template: PoolTemplate,
    limits: BTreeMap<String, serde_json::Value>,
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
    requirements: Vec<Requirement>,
    taints: Vec<NodeTaint>,
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
        let PoolSpec { template, limits } =
            serde_json::from_value(object.data.get("spec")?.clone()).ok()?;
        let PoolNode { requirements, taints } = template.spec;
        let mut choices: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for Requirement { key, operator, values } in requirements {
            if operator == "In" {
                choices.insert(key, values.into_iter().collect());
            }
        }
        let taint = |NodeTaint { key, value, effect }| Taint { key, value, effect };
        let cpu =
            limits.get("cpu").map(|limit| limit.as_str().map_or(limit.to_string(), str::to_owned));
        Some(Self {
            name: object.name_any(),
            labels: template.metadata.labels,
            taints: taints.into_iter().map(taint).collect(),
            choices,
            cpu_millis_max: cpu.and_then(|cpu| millis(&cpu)),
        })
    }
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
        })
    }
}
