//! Embed: a cluster as demand per bucket.
//!
//! What is true beats what could be packed tighter: occupied nodes count as they are, and only pods that wait are
//! packed, first onto the free room of occupied nodes.

use crate::bucket::Catalog;
use crate::pack::{Ask, Order, Room, Unplaced, pack};

/// What embedding needs to know of a cluster, batch pods only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes per bucket of the catalog on which batch pods run or are nominated.
    pub occupied: Vec<u64>,
    /// The free room on those of them that are Ready and schedulable, in the order in which the scheduler fills it.
    pub rooms: Vec<Room>,
    /// Ungated pending pods.
    pub pending: Vec<Ask>,
    /// Pods that will be released within the launch latency.
    pub announced: Vec<Ask>,
}

/// Instances that a cluster needs, per bucket of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Present: occupied nodes, and new ones for pods that wait.
    pub present: Vec<u64>,
    /// Announced: further ones for pods that will be released within the launch latency.
    pub announced: Vec<u64>,
    /// The free room on occupied nodes, and on new ones for pods that wait, once those are placed.
    pub rooms: Vec<Room>,
    /// Pods that wait and fit nowhere, by their place in [`Cluster::pending`].
    pub unplaced: Vec<Unplaced>,
}

/// The demand of a cluster, by first-fit-increasing.
pub fn embed(cluster: &Cluster, catalog: &Catalog) -> Demand {
    let Cluster { occupied, rooms, pending, announced } = cluster;
    let mut present = occupied.clone();
    present.resize(catalog.len(), 0);
    let announced_nodes = vec![0; catalog.len()];
    let mut demand = Demand { present, announced: announced_nodes, rooms: Vec::new(), unplaced: Vec::new() };
    if pending.is_empty() && announced.is_empty() {
        demand.rooms.clone_from(rooms);
        return demand;
    }
    let packed = pack(pending, rooms, catalog, Order::Increasing);
    if !announced.is_empty() {
        let all: Vec<Ask> = pending.iter().chain(announced).cloned().collect();
        let with = pack(&all, rooms, catalog, Order::Increasing);
        let further =
            with.opened.iter().zip(&packed.opened).map(|(with, without)| with.saturating_sub(*without));
        demand.announced = further.collect();
    }
    for (present, opened) in demand.present.iter_mut().zip(&packed.opened) {
        *present += opened;
    }
    demand.unplaced = packed.unplaced;
    demand.rooms = packed.rooms;
    demand
}
