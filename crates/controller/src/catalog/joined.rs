//! What live nodes add to the description of their group: labels and taints that the source of the
//! group does not have. Nodes belong to the group of their instance, or, in Karpenter's pools, to
//! that of their pool, instance type, capacity type and placement group.
//!
//! cluster-autoscaler, too, takes the labels and taints of a group from a live node, if there is
//! one.

use std::collections::{BTreeMap, HashMap};

use super::alike::Comparison;
use super::group::NodeGroup;
use super::known::{Known, Sizes, known};
use super::labels::{CAPACITY_LABELS, INSTANCE_TYPE_LABEL};
use crate::observe::{CAPACITY_LABEL, NodeFacts, Nodes, POOL_LABEL, Taint, is_passing};

/// Adds to each group what its live and its former nodes show. Updates `sizes`.
pub fn joined(
    groups: Vec<NodeGroup>,
    nodes: &Nodes,
    comparison: &Comparison<'_>,
    sizes: &mut Sizes,
) -> Vec<NodeGroup> {
    let mut live: HashMap<&str, Vec<&NodeFacts>> = HashMap::new();
    let groups_of = groups.iter().flat_map(|group| {
        group.instances.iter().map(|instance| (instance.as_str(), group.name.as_str()))
    });
    let groups_of: HashMap<&str, &str> = groups_of.collect();
    let keys = [POOL_LABEL, INSTANCE_TYPE_LABEL, CAPACITY_LABEL, comparison.placement_group_label];
    let of_pool = |labels: &BTreeMap<String, String>| -> Option<Vec<Option<String>>> {
        labels.contains_key(POOL_LABEL).then(|| keys.map(|key| labels.get(key).cloned()).into())
    };
    let with_type = |group: &NodeGroup, instance_type: &String| {
        let mut labels = group.labels.clone();
        labels.insert(INSTANCE_TYPE_LABEL.to_owned(), instance_type.clone());
        labels
    };
    let pools = groups.iter().filter(|group| group.labels.contains_key(POOL_LABEL));
    let pools = pools.flat_map(|group| group.instance_types().map(move |name| (group, name)));
    let pools: HashMap<Vec<Option<String>>, &str> = pools
        .filter_map(|(group, name)| Some((of_pool(&with_type(group, name))?, group.name.as_str())))
        .collect();
    if !groups_of.is_empty() || !pools.is_empty() {
        for (_, _, facts) in nodes.iter().filter(|(_, _, facts)| facts.ready && !facts.leaving) {
            let group = facts.instance.as_deref().and_then(|instance| groups_of.get(instance));
            let group = group.or_else(|| pools.get(&of_pool(&facts.labels)?));
            if let Some(group) = group {
                live.entry(group).or_default().push(facts);
            }
        }
    }
    for group in &groups {
        let known = known(sizes, group);
        if let Some(nodes) = live.get(group.name.as_str()) {
            observe(known, group, nodes, comparison);
        }
    }
    groups.into_iter().map(|group| complete(group, sizes)).collect()
}

/// Updates what is known of a group by its live nodes, of which there is at least one.
fn observe(known: &mut Known, group: &NodeGroup, nodes: &[&NodeFacts], comparison: &Comparison) {
    let standard = [CAPACITY_LABELS[0].0, CAPACITY_LABELS[1].0, comparison.placement_group_label];
    let selected = comparison.selected_labels.iter().map(String::as_str);
    let keys = selected.filter(|key| comparison.divides(key)).chain(standard);
    let known_of_source =
        |key: &str| group.labels.contains_key(key) || group.choices.contains_key(key);
    for key in keys.filter(|key| *key != INSTANCE_TYPE_LABEL && !known_of_source(key)) {
        let values: Vec<Option<&String>> = nodes.iter().map(|node| node.labels.get(key)).collect();
        let first = values.iter().flatten().next();
        let differ = values.iter().flatten().any(|value| Some(value) != first);
        match first {
            _ if differ => {
                known.labels.remove(key);
            }
            // A label that some nodes lack may come later, as those of node feature discovery do.
            Some(value) if values.iter().all(Option::is_some) => {
                known.labels.insert(key.to_owned(), (*value).clone());
            }
            _ => {}
        }
    }
    if !group.described {
        let lasting = |taint: &&Taint| {
            !is_passing(&taint.key) && !comparison.startup_taints.contains(&taint.key)
        };
        let of_all = |taint: &&Taint| nodes.iter().all(|node| node.taints.contains(taint));
        let taints = nodes.iter().take(1).flat_map(|node| &node.taints);
        let mut taints: Vec<Taint> = taints.filter(lasting).filter(of_all).cloned().collect();
        taints.sort();
        known.taints = Some(taints);
    }
}

/// The group with what is known of its nodes. The source's own labels and taints prevail.
fn complete(group: NodeGroup, sizes: &Sizes) -> NodeGroup {
    let Some(known) = sizes.get(&group.name) else { return group };
    let mut labels: BTreeMap<String, String> = known.labels.clone();
    labels.extend(group.labels);
    let (described, taints) = match &known.taints {
        Some(taints) if !group.described => (true, taints.clone()),
        _ => (group.described, group.taints),
    };
    NodeGroup { described, labels, taints, ..group }
}
