//! Groups of nodes from Karpenter's pools: one for each combination of instance type, capacity type
//! and placement group that a pool lists.
//!
//! A pool that lists no instance types may launch any type. Its groups come only from its live
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{AcceleratorKind, CapacityType, Resources, UNLIMITED};

use super::group::{NodeGroup, OtherTypes};
use super::labels::{INSTANCE_TYPE_LABEL, capacity_type};
use super::table;
use crate::observe::{NodeClaim, NodeFacts, NodePool};

/// Karpenter's label for the capacity type.
const CAPACITY_LABEL: &str = "karpenter.sh/capacity-type";

/// Karpenter's label for the pool of a node.
pub const POOL_LABEL: &str = "karpenter.sh/nodepool";

/// The share of a type's published memory that Karpenter assumes to be lost to the hypervisor
/// (`vmMemoryOverheadPercent`), in thousandths.
const MEMORY_LOST: u64 = 75;

/// The share of CPU and memory that stays free in addition, in thousandths, until a NodeClaim shows
/// Karpenter's estimate. Karpenter launches no node for a placeholder that exceeds its estimate,
/// whereas a placeholder that is too small is replaced by a larger one later.
const UNKNOWN: u64 = 50;

/// Builds the groups of the pools. `live` are the nodes of the cluster.
pub fn pool_groups<'a>(
    pools: impl Iterator<Item = &'a NodePool>,
    claims: &[&NodeClaim],
    live: &[&NodeFacts],
    placement_group_label: &str,
) -> Vec<NodeGroup> {
    pools.flat_map(|pool| groups(pool, claims, live, placement_group_label)).collect()
}

/// Whether a node belongs to one of the groups that [`pool_groups`] built.
pub(super) fn is_of(node: &NodeFacts, groups: &[NodeGroup]) -> bool {
    let same = |group: &NodeGroup, key: &str| node.labels.get(key) == group.labels.get(key);
    node.labels.contains_key(POOL_LABEL)
        && groups.iter().any(|group| same(group, POOL_LABEL) && same(group, INSTANCE_TYPE_LABEL))
}

fn groups(
    pool: &NodePool,
    claims: &[&NodeClaim],
    live: &[&NodeFacts],
    placement_group_label: &str,
) -> Vec<NodeGroup> {
    let on_demand = BTreeSet::from(["on-demand".to_owned()]);
    let capacity_types = pool.choices.get(CAPACITY_LABEL).unwrap_or(&on_demand);
    let placement_groups: Vec<Option<&String>> = match pool.choices.get(placement_group_label) {
        Some(values) => values.iter().map(Some).collect(),
        None => vec![pool.labels.get(placement_group_label)],
    };
    let mut groups = Vec::new();
    for instance_type in pool.choices.get(INSTANCE_TYPE_LABEL).into_iter().flatten() {
        let Some(known) = hardware(instance_type, claims, live) else { continue };
        for bought in capacity_types {
            for placement_group in &placement_groups {
                let placed =
                    placement_group.map(|value| (placement_group_label.to_owned(), value.clone()));
                let own = [
                    (INSTANCE_TYPE_LABEL, instance_type),
                    (CAPACITY_LABEL, bought),
                    (POOL_LABEL, &pool.name),
                ];
                let own = own.map(|(key, value)| (key.to_owned(), value.clone()));
                let labels =
                    pool.labels.clone().into_iter().chain(fixed(pool)).chain(placed).chain(own);
                let place = placement_group.map(String::as_str);
                groups.push(group(pool, labels.collect(), place, &known, claims));
            }
        }
    }
    groups
}

fn group(
    pool: &NodePool,
    labels: BTreeMap<String, String>,
    placement_group: Option<&str>,
    (capacity, accelerator_kind): &(Resources, AcceleratorKind),
    claims: &[&NodeClaim],
) -> NodeGroup {
    let instance_type = labels[INSTANCE_TYPE_LABEL].clone();
    let capacity_type = capacity_type(&labels).unwrap_or_default();
    let spot = Some("spot").filter(|_| capacity_type == CapacityType::Spot);
    let parts = [Some(pool.name.as_str()), Some(instance_type.as_str()), spot, placement_group];
    let name = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
    // Karpenter places a pod only on a node whose estimated resources have room for it.
    let same = |claim: &&&NodeClaim| {
        [INSTANCE_TYPE_LABEL, POOL_LABEL]
            .iter()
            .all(|key| claim.labels.get(*key) == labels.get(*key))
    };
    let estimate =
        claims.iter().filter(same).map(|claim| claim.allocatable).reduce(Resources::floor);
    let max = pool.cpu_millis_max.map_or(UNLIMITED, |most| most / capacity.cpu_millis.max(1));
    NodeGroup {
        name,
        instance_type,
        other_types: OtherTypes::None,
        capacity_type,
        placement_group: placement_group.map(str::to_owned),
        zone: None,
        min: 0,
        max,
        desired: 0,
        instances: BTreeSet::new(),
        described: true,
        labels,
        taints: pool.taints.clone(),
        capacity: *capacity,
        accelerator_kind: accelerator_kind.clone(),
        resources: BTreeMap::new(),
        estimate,
        hourly: None,
    }
}

/// Labels for which a pool allows exactly one value.
fn fixed(pool: &NodePool) -> impl Iterator<Item = (String, String)> + '_ {
    let single = pool.choices.iter().filter(|(_, values)| values.len() == 1);
    single.flat_map(|(key, values)| values.iter().map(|value| (key.clone(), value.clone())))
}

/// The resources of an instance type, from a NodeClaim, else a live node, else the table.
fn hardware(
    instance_type: &str,
    claims: &[&NodeClaim],
    live: &[&NodeFacts],
) -> Option<(Resources, AcceleratorKind)> {
    let is_it = |labels: &BTreeMap<String, String>| {
        labels.get(INSTANCE_TYPE_LABEL).is_some_and(|it| it == instance_type)
    };
    if let Some(claim) = claims.iter().find(|claim| is_it(&claim.labels)) {
        return Some((claim.capacity, claim.accelerator_kind.clone()));
    }
    // A degraded node has fewer accelerators than the others.
    let nodes = live.iter().filter(|node| node.ready && is_it(&node.labels));
    if let Some(node) = nodes.max_by_key(|node| node.allocatable.accelerators) {
        return Some((node.allocatable, node.accelerator_kind.clone().unwrap_or_default()));
    }
    let entry = table::instance_type(instance_type)?;
    let less =
        |whole: Option<u64>, lost: u64| whole.map_or(0, |whole| whole - whole / 1_000 * lost);
    let resources = Resources {
        accelerators: entry.accelerators.unwrap_or(0),
        cpu_millis: less(entry.cpu_millis, UNKNOWN),
        memory_bytes: less(entry.memory_bytes, MEMORY_LOST + UNKNOWN),
        ephemeral_bytes: UNLIMITED,
        pods: entry.pods.unwrap_or(UNLIMITED),
    };
    Some((resources, AcceleratorKind::default()))
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    fn pool() -> NodePool {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
            "spec": {
                "limits": {"cpu": "100"},
                "template": {
                    "metadata": {"labels": {"team": "batch"}},
                    "spec": {
                        "taints": [{"key": "batch", "effect": "NoSchedule"}],
                        "requirements": [
                            {"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": ["m5.xlarge", "x9.unknown"]},
                            {"key": CAPACITY_LABEL, "operator": "In", "values": ["on-demand", "spot"]},
                            {"key": "pg", "operator": "In", "values": ["a", "b"]},
                            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                            {"key": "size", "operator": "Gt", "values": ["1"]},
                        ],
                    },
                },
            },
        }))
        .unwrap();
        NodePool::of(&object).unwrap()
    }

    #[test]
    fn a_pool_has_one_group_for_each_combination_of_choices() {
        let groups = pool_groups([&pool()].into_iter(), &[], &[], "pg");
        let line = |group: &NodeGroup| {
            let label = |key: &str| group.labels.get(key).cloned().unwrap_or_default();
            format!(
                "{} {} {} {} {}",
                group.name,
                label("pg"),
                label("kubernetes.io/arch"),
                label("team"),
                group.max
            )
        };
        let groups: Vec<String> = groups.iter().map(line).collect();
        assert_eq!(
            groups,
            [
                "batch/m5.xlarge/a a amd64 batch 26",
                "batch/m5.xlarge/b b amd64 batch 26",
                "batch/m5.xlarge/spot/a a amd64 batch 26",
                "batch/m5.xlarge/spot/b b amd64 batch 26",
            ]
        );
    }

    #[test]
    fn the_estimate_is_that_of_karpenters_claim() {
        let claim: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "batch-1", "labels": {INSTANCE_TYPE_LABEL: "m5.xlarge", POOL_LABEL: "batch"}},
            "status": {"capacity": {"cpu": "4", "memory": "15Gi"}, "allocatable": {"cpu": "3900m", "memory": "14Gi"}},
        }))
        .unwrap();
        let claim = NodeClaim::of(&claim).unwrap();
        let groups = pool_groups([&pool()].into_iter(), &[&claim], &[], "pg");
        assert_eq!(groups[0].estimate.map(|estimate| estimate.cpu_millis), Some(3_900));
        assert_eq!(groups[0].capacity.cpu_millis, 4_000);
    }
}
