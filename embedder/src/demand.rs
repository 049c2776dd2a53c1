//! Embed: turns the state of a cluster into demand per bucket.
//!
//! Occupied nodes count as they are, even if their pods could be packed onto fewer nodes. Only
//! pending pods are packed, first onto the free room of occupied nodes.

use crate::bucket::Catalog;
use crate::gang::{Gang, VirtualInstance, virtual_instance};
use crate::pack::{Order, PodRequest, Unplaced, pack};
use crate::room::Room;

/// The state of a cluster that embedding needs, for batch pods only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The number of nodes on which batch pods run or are nominated, per bucket of the catalog.
    pub occupied: Vec<u64>,
    /// The free room on those of the occupied nodes that are Ready and schedulable, in the order in
    /// which the scheduler fills them.
    pub rooms: Vec<Room>,
    /// Pending pods without a scheduling gate.
    pub pending: Vec<PodRequest>,
    /// Pods that will be released within the launch latency.
    pub announced: Vec<PodRequest>,
    /// Gangs (pods that start together) that will be released within the launch latency.
    pub gangs: Vec<Gang>,
}

/// The instances that a cluster needs, per bucket of the catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Present demand: occupied nodes, and new nodes for pending pods.
    pub present: Vec<u64>,
    /// Announced demand: further nodes for pods that will be released within the launch latency.
    pub announced: Vec<u64>,
    /// The virtual instances, counted in `announced`, of gangs that are larger than one instance.
    pub gangs: Vec<VirtualInstance>,
    /// The free room that is left once pending pods are placed, on occupied nodes and on the new
    /// nodes that pending pods need.
    pub rooms: Vec<Room>,
    /// Pending pods that fit nowhere, by their index in [`Cluster::pending`].
    pub unplaced: Vec<Unplaced>,
}

/// Computes the demand of a cluster, by first-fit-increasing.
///
/// A gang that fits on one instance is packed with the other pods. A larger gang takes whole
/// instances, even if occupied nodes have free room, because its pods start in one place.
pub fn embed(cluster: &Cluster, catalog: &Catalog) -> Demand {
    let Cluster { occupied, rooms, pending, announced, gangs } = cluster;
    let mut demand = Demand {
        present: occupied.clone(),
        announced: vec![0; catalog.len()],
        ..Demand::default()
    };
    demand.present.resize(catalog.len(), 0);
    if pending.is_empty() && announced.is_empty() && gangs.is_empty() {
        demand.rooms.clone_from(rooms);
        return demand;
    }
    let mut further: Vec<PodRequest> = announced.clone();
    for gang in gangs {
        match virtual_instance(gang, catalog) {
            Ok(virtual_instance) if virtual_instance.instances > 1 => {
                demand.announced[virtual_instance.bucket] += virtual_instance.instances;
                demand.gangs.push(virtual_instance);
            }
            _ => further.extend(gang.requests.iter().cloned()),
        }
    }
    let packed = pack(pending, rooms, catalog, Order::Increasing);
    if !further.is_empty() {
        let all: Vec<PodRequest> = pending.iter().cloned().chain(further).collect();
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
