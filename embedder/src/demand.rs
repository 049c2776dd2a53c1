//! Embed: turns the state of a cluster into demand per bucket.
//!
//! Occupied nodes count as they are, even if their pods could be packed onto fewer nodes. Only
//! pending pods are packed, first onto the free room of occupied nodes.

use std::borrow::Cow;

use crate::bucket::{BucketSet, Catalog};
use crate::gang::{Gang, VirtualInstance, virtual_instance, virtual_instance_of};
use crate::pack::{Order, Packing, PodRequest, Unplaced, pack, pack_within};
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
    embed_preferring(cluster, catalog, &BucketSet::all(), &[])
}

/// Computes the demand like [`embed`], while buckets outside of `open` launch nothing.
///
/// New instances of these buckets count only as far as there are empty nodes of them in `held`, and
/// for pods that fit no bucket in `open`.
pub fn embed_preferring(
    cluster: &Cluster,
    catalog: &Catalog,
    open: &BucketSet,
    held: &[Room],
) -> Demand {
    let mut held = held.to_vec();
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
        let chosen = match virtual_instance(gang, catalog) {
            Ok(of_all)
                if of_all.instances > 1
                    && !open.contains(of_all.bucket)
                    && !take_held(&of_all, &mut held) =>
            {
                virtual_instance_of(gang, catalog, open).or(Ok(of_all))
            }
            of_all => of_all,
        };
        match chosen {
            Ok(virtual_instance) if virtual_instance.instances > 1 => {
                demand.announced[virtual_instance.bucket] += virtual_instance.instances;
                demand.gangs.push(virtual_instance);
            }
            _ => further.extend(gang.requests.iter().cloned()),
        }
    }
    held.retain(|room| room.nodes > 0);
    let packed = pack_preferring(pending, rooms, &held, catalog, open);
    if !further.is_empty() {
        let all: Vec<PodRequest> = pending.iter().cloned().chain(further).collect();
        let with = pack_preferring(&all, rooms, &held, catalog, open);
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

/// Packs onto the nodes in `held`, then onto new instances of the buckets in `open`, and what fits
/// none of them onto instances of others. Nodes in `held` that are used count as new instances.
fn pack_preferring(
    requests: &[PodRequest],
    rooms: &[Room],
    held: &[Room],
    catalog: &Catalog,
    open: &BucketSet,
) -> Packing {
    let existing =
        if held.is_empty() { Cow::Borrowed(rooms) } else { Cow::Owned([rooms, held].concat()) };
    let mut packing = pack_within(requests, &existing, catalog, open, Order::Increasing);
    if *open != BucketSet::all() && !packing.unplaced.is_empty() {
        let left = std::mem::take(&mut packing.unplaced);
        let request = |unplaced: &Unplaced| PodRequest {
            shape: requests[unplaced.request].shape.clone(),
            count: unplaced.count,
        };
        let others: Vec<PodRequest> = left.iter().map(request).collect();
        let rest = pack(&others, &packing.rooms, catalog, Order::Increasing);
        packing.opened.iter_mut().zip(rest.opened).for_each(|(sum, opened)| *sum += opened);
        packing.rooms = rest.rooms;
        let original =
            |unplaced: Unplaced| Unplaced { request: left[unplaced.request].request, ..unplaced };
        packing.unplaced = rest.unplaced.into_iter().map(original).collect();
    }
    if !held.is_empty() {
        count_held(&mut packing, rooms, held, catalog);
    }
    packing
}

/// Counts the used nodes of `held`, which follow those of `rooms`, as new instances, and removes
/// the others from the free room.
fn count_held(packing: &mut Packing, rooms: &[Room], held: &[Room], catalog: &Catalog) {
    let nodes =
        |rooms: &[Room]| rooms.iter().fold(0, |sum: u64, room| sum.saturating_add(room.nodes));
    let first = nodes(rooms);
    let end = first.saturating_add(nodes(held));
    let mut at: u64 = 0;
    packing.rooms.retain_mut(|room| {
        let from = at;
        at = at.saturating_add(room.nodes);
        let among = at.min(end).saturating_sub(from.max(first));
        if room.free == catalog.buckets()[room.bucket].allocatable {
            room.nodes -= among;
        } else {
            packing.opened[room.bucket] += among;
        }
        room.nodes > 0
    });
}

/// Takes the nodes of a gang from `held`. Returns whether there are enough of its bucket.
fn take_held(gang: &VirtualInstance, held: &mut [Room]) -> bool {
    let room =
        held.iter_mut().find(|room| room.bucket == gang.bucket && room.nodes >= gang.instances);
    room.is_some_and(|room| {
        room.nodes -= gang.instances;
        true
    })
}
