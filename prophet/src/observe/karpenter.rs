//! What is read of Karpenter: pools of nodes, and claims, the nodes that it has asked for.

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
    /// Its name.
    pub name: String,
    /// The labels that each of its nodes gets.
    pub labels: BTreeMap<String, String>,
    /// Their taints.
    pub taints: Vec<Taint>,
    /// By label, the values that a node may have: the requirements of the operator `In`.
    pub choices: BTreeMap<String, BTreeSet<String>>,
    /// The most CPU of all its nodes together.
    pub cpu_millis_max: Option<u64>,
}

/// A `NodeClaim` of `karpenter.sh/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClaim {
    /// The labels of its node.
    pub labels: BTreeMap<String, String>,
    /// What an instance has.
    pub capacity: Resources,
    /// What Karpenter reckons that pods can have of it.
    pub allocatable: Resources,
    /// The kind of its accelerators.
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
    /// A pool; `None` for one that is going, or makes no sense.
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
    /// A claim; `None` for one that says nothing of its node yet.
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
