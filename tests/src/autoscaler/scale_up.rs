//! Chooses the groups that grow, and by how many nodes, for the pods that fit on no node.

use super::fit::{Ask, Room};
use super::observe::Group;

/// A group and its number of new nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Growth {
    pub(super) group: String,
    pub(super) by: usize,
}

/// Chooses groups until all pods fit or no group helps. Each step chooses the group with the least
/// waste. Returns the growths, and the pods that no group helps.
///
/// `nodes_max` is the number of nodes that the cluster may still add. `groups` must not have groups
/// that back off.
pub(super) fn plan(
    groups: &[&Group],
    mut left: Vec<Ask>,
    mut nodes_max: usize,
) -> (Vec<Growth>, Vec<Ask>) {
    let mut plan: Vec<Growth> = Vec::new();
    while !left.is_empty() {
        let options = groups.iter().filter_map(|group| {
            let planned: usize =
                plan.iter().filter(|growth| growth.group == group.name).map(|one| one.by).sum();
            let most = group.max.saturating_sub(group.target + planned).min(nodes_max);
            Some((group, pack(&group.template, &left, most)?))
        });
        let best = options.min_by(|(one, packed), (other, packed_other)| {
            packed.waste.total_cmp(&packed_other.waste).then_with(|| one.name.cmp(&other.name))
        });
        let Some((group, packed)) = best else { break };
        plan.push(Growth { group: group.name.clone(), by: packed.nodes });
        nodes_max -= packed.nodes;
        left = packed.left;
    }
    (plan, left)
}

/// The result of packing pods onto new nodes of one group.
struct Packed {
    nodes: usize,
    left: Vec<Ask>,
    /// The mean unused fraction of CPU and memory on the new nodes, from 0 to 1.
    waste: f64,
}

/// Packs pods first fit, larger pods first, onto at most `most` new nodes; `None` if no pod fits.
fn pack(template: &Room, asks: &[Ask], most: usize) -> Option<Packed> {
    let share = |ask: &Ask, name: &str| {
        let amount = |amounts: &crate::quantity::Amounts| {
            amounts.get(name).copied().unwrap_or_default() as f64
        };
        amount(&ask.requests) / amount(&template.free).max(1.0)
    };
    let size = |ask: &Ask| share(ask, "cpu") + share(ask, "memory");
    let mut order: Vec<&Ask> = asks.iter().collect();
    order.sort_by(|one, other| {
        size(other).total_cmp(&size(one)).then_with(|| one.name.cmp(&other.name))
    });
    let (mut rooms, mut left, mut used): (Vec<Room>, Vec<Ask>, f64) = (Vec::new(), Vec::new(), 0.0);
    for ask in order {
        let index = rooms.iter().position(|room| room.fits(ask)).or_else(|| {
            (rooms.len() < most && template.fits(ask)).then(|| {
                rooms.push(template.clone());
                rooms.len() - 1
            })
        });
        match index {
            Some(index) => {
                rooms[index].take(&ask.requests);
                used += size(ask) / 2.0;
            }
            None => left.push(ask.clone()),
        }
    }
    let nodes = rooms.len();
    (nodes > 0).then(|| Packed { nodes, left, waste: 1.0 - used / nodes as f64 })
}
