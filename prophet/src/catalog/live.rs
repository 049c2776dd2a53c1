//! Groups of nodes from live nodes, for clusters in which no source lists the groups.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{CapacityType, UNLIMITED};

use super::group::NodeGroup;
use super::karpenter;
use super::labels::{INSTANCE_TYPE_LABEL, capacity_type};
use crate::observe::{NodeFacts, Nodes, is_passing};

/// Builds groups from live nodes: one for each combination of instance type, capacity type and
/// placement group.
///
/// Nodes of `pools` are left out, and so are nodes that will be gone soon, because no new node is
/// like them. Taints that come and go, and `startup_taints`, are no taints of a group.
pub fn live_groups(
    nodes: &Nodes,
    pools: &[NodeGroup],
    placement_group_label: &str,
    startup_taints: &BTreeSet<String>,
) -> Vec<NodeGroup> {
    let mut groups: BTreeMap<(String, CapacityType, Option<String>), NodeGroup> = BTreeMap::new();
    let staying = nodes.iter().map(|(_, _, facts)| facts).filter(|facts| !facts.leaving);
    for facts in staying.filter(|facts| !karpenter::is_of(facts, pools)) {
        let Some(instance_type) = facts.labels.get(INSTANCE_TYPE_LABEL) else { continue };
        let capacity = capacity_type(&facts.labels).unwrap_or_default();
        let placement_group = facts.labels.get(placement_group_label).cloned();
        let key = (instance_type.clone(), capacity, placement_group.clone());
        match groups.get_mut(&key) {
            None => {
                let parts = [
                    instance_type.as_str(),
                    if capacity == CapacityType::Spot { "spot" } else { "" },
                ];
                let parts = parts
                    .into_iter()
                    .chain(placement_group.as_deref())
                    .filter(|part| !part.is_empty());
                let name = parts.collect::<Vec<_>>().join("/");
                let mut group = live_group(name, instance_type, facts, capacity, placement_group);
                group.taints.retain(|taint| {
                    !is_passing(&taint.key) && !startup_taints.contains(&taint.key)
                });
                take_accelerators(&mut group, facts);
                groups.insert(key, group);
            }
            Some(group) => {
                group.desired += 1;
                group.labels.retain(|key, value| facts.labels.get(key) == Some(value));
                group.taints.retain(|taint| facts.taints.contains(taint));
                take_accelerators(group, facts);
            }
        }
    }
    groups.into_values().collect()
}

/// Raises the group's accelerators to those of a node. The first node may be degraded, or its
/// device plugin may not have registered any yet.
fn take_accelerators(group: &mut NodeGroup, facts: &NodeFacts) {
    let has = facts.allocatable.accelerators.max(facts.accelerators_capacity);
    group.capacity.accelerators = group.capacity.accelerators.max(has);
    if let Some(kind) = &facts.accelerator_kind {
        group.accelerator_kind = kind.clone();
    }
}

fn live_group(
    name: String,
    instance_type: &str,
    facts: &NodeFacts,
    capacity_type: CapacityType,
    placement_group: Option<String>,
) -> NodeGroup {
    NodeGroup {
        name,
        instance_type: instance_type.into(),
        capacity_type,
        placement_group,
        zone: None,
        min: 0,
        max: UNLIMITED,
        desired: 1,
        labels: facts.labels.clone(),
        taints: facts.taints.clone(),
        capacity: facts.allocatable,
        accelerator_kind: facts.accelerator_kind.clone().unwrap_or_default(),
        resources: BTreeMap::new(),
        estimate: None,
        hourly: None,
    }
}
