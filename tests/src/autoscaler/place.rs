//! Places pods: bound pods on their nodes, and pending pods on free room of present and upcoming
//! nodes.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;

use super::fit::{Ask, Room, requests};
use super::observe::{Cluster, Group, ask, is_of_node, is_unschedulable, room};

/// The nodes with their placed pods, and the pods that fit on none.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) rooms: BTreeMap<String, Room>,
    /// The pods that fit on no node, the highest priority first.
    pub(super) left: Vec<Ask>,
    /// The number of nodes, upcoming nodes included.
    pub(super) nodes_total: usize,
}

/// Places bound and nominated pods, then pending pods where they fit, then virtual pods.
pub(super) fn place(
    cluster: &Cluster,
    groups: &[Group],
    virtual_pods: Vec<Ask>,
    cutoff: i32,
) -> Result<Placed> {
    let mut rooms = BTreeMap::new();
    for node in &cluster.nodes {
        rooms.extend(room(node)?.map(|room| (room.node.clone(), room)));
    }
    let mut waiting = Vec::new();
    for pod in &cluster.pods {
        let Some(spec) = &pod.spec else { continue };
        let expendable = spec.priority.unwrap_or_default() < cutoff;
        if expendable {
            continue;
        }
        let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_ref());
        let node = spec.node_name.as_ref().or(nominated.filter(|node| rooms.contains_key(*node)));
        if let Some(node) = node {
            if let Some(room) = rooms.get_mut(node) {
                room.take(&requests(spec)?);
                room.held |= !is_of_node(pod);
            }
        } else if is_unschedulable(pod) && !is_of_node(pod) {
            waiting.push(ask(pod)?);
        }
    }
    let mut nodes_total = cluster.nodes.len();
    for group in groups {
        nodes_total += group.target.saturating_sub(group.registered);
        for number in 0..group.upcoming() {
            let node = format!("{}-{number}", group.template.node);
            rooms.insert(node.clone(), Room { node, ..group.template.clone() });
        }
    }
    waiting.sort_by(|one, other| {
        other.priority.cmp(&one.priority).then_with(|| one.name.cmp(&other.name))
    });
    let mut left = Vec::new();
    for ask in waiting.into_iter().chain(virtual_pods) {
        match rooms.values_mut().find(|room| room.fits(&ask)) {
            Some(room) => {
                room.take(&ask.requests);
                room.held = true;
            }
            None => left.push(ask),
        }
    }
    Ok(Placed { rooms, left, nodes_total })
}

/// The number of pods that keep their node from being removed.
pub(super) fn holders(pods: &[Pod], cutoff: i32) -> usize {
    let holds = |pod: &&Pod| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        priority >= cutoff && !is_of_node(pod) && !matches!(phase, Some("Succeeded" | "Failed"))
    };
    pods.iter().filter(holds).count()
}
