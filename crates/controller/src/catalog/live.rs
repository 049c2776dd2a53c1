//! Groups of nodes from live nodes, for clusters in which no source lists the groups.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{AcceleratorKind, CapacityType, UNLIMITED};

use super::alike::{Comparison, names, plain_name};
use super::group::{LaunchedBy, NodeGroup, OtherTypes};
use super::karpenter;
use super::labels::{INSTANCE_TYPE_LABEL, ZONE_LABELS, capacity_type};
use crate::observe::{Choice, NodeFacts, NodePool, Nodes, POOL_LABEL, is_passing};

/// The nodes of one instance type, capacity type and placement group that no taint and no label
/// distinguishes: the bucket's name without parts, its parts, and the placement group.
type GroupKey = ((String, Vec<String>), Option<String>);

/// Builds groups from live nodes: one for each combination of instance type, capacity type and
/// placement group, and of the taints and the labels that distinguish buckets.
///
/// Nodes of `pools` are left out, and so are nodes that will be gone soon, because no new node is
/// like them. Taints that come and go, and startup taints, are no taints of a group.
///
/// `launches` has the pools of Karpenter, and whether another autoscaler may launch nodes. The
/// nodes of a static pool or of none, and other nodes if only Karpenter launches any, are room for
/// pods: no pending pod brings another of them.
pub fn live_groups(
    nodes: &Nodes,
    pools: &[NodeGroup],
    comparison: &Comparison<'_>,
    launches: &Launchers<'_>,
) -> Vec<NodeGroup> {
    let mut groups: BTreeMap<GroupKey, NodeGroup> = BTreeMap::new();
    let mut zones: BTreeMap<(GroupKey, &str), BTreeSet<String>> = BTreeMap::new();
    let of_pools = karpenter::pairs(pools);
    let staying = nodes.iter().map(|(_, _, facts)| facts).filter(|facts| !facts.leaving);
    for facts in staying.filter(|facts| !karpenter::is_of(facts, &of_pools)) {
        let Some(instance_type) = facts.labels.get(INSTANCE_TYPE_LABEL) else { continue };
        let capacity = capacity_type(&facts.labels).unwrap_or_default();
        let placement_group = facts.labels.get(comparison.placement_group_label).cloned();
        // A node has no accelerators until its device plugin has started.
        let kind = AcceleratorKind::default();
        let parts = comparison.parts(&kind, &facts.labels, &facts.taints);
        let key = ((plain_name(instance_type, capacity), parts), placement_group.clone());
        for label in ZONE_LABELS {
            if let Some(zone) = facts.labels.get(label) {
                zones.entry((key.clone(), label)).or_default().insert(zone.clone());
            }
        }
        match groups.get_mut(&key) {
            None => {
                let mut group = live_group(instance_type, facts, capacity, placement_group);
                let startup = comparison.startup_taints;
                group
                    .taints
                    .retain(|taint| !is_passing(&taint.key) && !startup.contains(&taint.key));
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
    // A pod that selects one of the zones in which the group has nodes gets a node there.
    for ((key, label), zones) in zones {
        let group = groups.get_mut(&key).filter(|group| !group.labels.contains_key(label));
        group.map(|group| group.choices.insert(label.to_owned(), Choice::among(zones)));
    }
    let (keys, mut groups): (Vec<GroupKey>, Vec<NodeGroup>) = groups.into_iter().unzip();
    let (keys, _): (Vec<(String, Vec<String>)>, Vec<_>) = keys.into_iter().unzip();
    for (group, name) in groups.iter_mut().zip(names(&keys, comparison.named_parts)) {
        let placed = group.placement_group.as_ref().filter(|placed| !placed.is_empty());
        group.name = placed.map_or(name.clone(), |placed| format!("{name}/{placed}"));
        launches.describe(group);
    }
    groups
}

/// What launches nodes in a cluster whose groups no source lists.
#[derive(Clone, Debug, Default)]
pub struct Launchers<'a> {
    /// The pools of Karpenter, by name.
    pub pools: BTreeMap<&'a str, &'a NodePool>,
    /// The names of the pools that have groups of size classes.
    pub with_size_classes: BTreeSet<&'a str>,
    /// Whether cluster-autoscaler reports groups of its own.
    pub cluster_autoscaler: bool,
}

impl Launchers<'_> {
    /// Adds to a group of live nodes what its pool has: the values that labels may have, and the
    /// limits.
    fn describe(&self, group: &mut NodeGroup) {
        let Self { pools, with_size_classes, cluster_autoscaler } = self;
        let pool = match group.labels.get(POOL_LABEL) {
            Some(name) => pools.get(name.as_str()).filter(|pool| pool.replicas.is_none()),
            None if pools.is_empty() || *cluster_autoscaler => return,
            None => None,
        };
        // Pods launch only the size classes of a pool that has some.
        let launches = |pool: &&&NodePool| !with_size_classes.contains(pool.name.as_str());
        if let Some(pool) = pool.filter(launches) {
            karpenter::launch(group, pool);
        } else {
            group.launched_by = LaunchedBy::Nothing;
            group.max = group.desired;
        }
    }
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

/// The group of a node, without a name.
fn live_group(
    instance_type: &str,
    facts: &NodeFacts,
    capacity_type: CapacityType,
    placement_group: Option<String>,
) -> NodeGroup {
    NodeGroup {
        launched_by: LaunchedBy::Unknown,
        name: String::new(),
        instance_type: instance_type.into(),
        size_class: None,
        other_types: OtherTypes::None,
        capacity_type,
        placement_group,
        zone: None,
        min: 0,
        max: UNLIMITED,
        desired: 1,
        instances: BTreeSet::new(),
        described: true,
        labels: facts.labels.clone(),
        taints: facts.taints.clone(),
        capacity: facts.allocatable,
        accelerator_kind: facts.accelerator_kind.clone().unwrap_or_default(),
        choices: BTreeMap::new(),
        pool: None,
        resources: BTreeMap::new(),
        estimate: None,
        hourly: None,
        unneeded_seconds: None,
        weight: 0,
        may_have_warm_pool: false,
    }
}
