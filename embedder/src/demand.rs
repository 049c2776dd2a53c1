//! Embed: a cluster as demand per bucket.
//!
//! What is true beats what could be packed tighter: occupied nodes count as they are, and only pods that wait are
//! packed, first onto the free room of occupied nodes.

use crate::bucket::Catalog;
use crate::gang::{Gang, VirtualInstance, virtual_instance};
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
    /// Pods among those to be released that start together.
    pub gangs: Vec<Gang>,
}

/// Instances that a cluster needs, per bucket of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Present: occupied nodes, and new ones for pods that wait.
    pub present: Vec<u64>,
    /// Announced: further ones for pods that will be released within the launch latency.
    pub announced: Vec<u64>,
    /// What gangs that are larger than an instance add to it.
    pub gangs: Vec<VirtualInstance>,
    /// The free room on occupied nodes, and on new ones for pods that wait, once those are placed.
    pub rooms: Vec<Room>,
    /// Pods that wait and fit nowhere, by their place in [`Cluster::pending`].
    pub unplaced: Vec<Unplaced>,
}

/// The demand of a cluster, by first-fit-increasing.
///
/// A gang that fits on one instance is packed with the others. A larger one takes its instances whole, whatever room is
/// free: its pods start in one place.
pub fn embed(cluster: &Cluster, catalog: &Catalog) -> Demand {
    let Cluster { occupied, rooms, pending, announced, gangs } = cluster;
    let mut demand =
        Demand { present: occupied.clone(), announced: vec![0; catalog.len()], ..Demand::default() };
    demand.present.resize(catalog.len(), 0);
    if pending.is_empty() && announced.is_empty() && gangs.is_empty() {
        demand.rooms.clone_from(rooms);
        return demand;
    }
    let mut further: Vec<Ask> = announced.clone();
    for gang in gangs {
        match virtual_instance(gang, catalog) {
            Ok(virtual_instance) if virtual_instance.instances > 1 => {
                demand.announced[virtual_instance.bucket] += virtual_instance.instances;
                demand.gangs.push(virtual_instance);
            }
            _ => further.extend(gang.asks.iter().cloned()),
        }
    }
    let packed = pack(pending, rooms, catalog, Order::Increasing);
    if !further.is_empty() {
        let all: Vec<Ask> = pending.iter().cloned().chain(further).collect();
        let with = pack(&all, rooms, catalog, Order::Increasing);
        for (id, (with, without)) in with.opened.iter().zip(&packed.opened).enumerate() {
            demand.announced[id] += with.saturating_sub(*without);
        }
    }
    for (present, opened) in demand.present.iter_mut().zip(&packed.opened) {
        *present += opened;
    }
    demand.unplaced = packed.unplaced;
    demand.rooms = packed.rooms;
    demand
}
