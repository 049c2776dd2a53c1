//! First-fit-increasing: packs pods onto free room, then onto new instances of the smallest bucket
//! that fits.
//!
//! The input is shapes with counts, which are packed in ascending order. Each pod goes to the first
//! existing node with enough free room. If there is none, it goes to the first new bin, in the
//! order of opening, with enough free room. If there is none either, it opens a new bin of the
//! first bucket, ascending, that admits it and that it fits, of those with the largest weight. A
//! pod that spot buckets admit, too, opens the first spot bucket if an instance of it costs less.
//!
//! Pods of one shape are placed in runs, and adjacent nodes with the same bucket and free room form
//! one run, so the running time grows with the number of shapes and runs, not with the number of
//! pods. Runs are grouped into blocks, and a segment tree over the blocks holds the component-wise
//! maximum of their free room (`room.rs`), so a search skips nodes on which a shape cannot fit.
//! This keeps packing fast even if every pod differs.

use std::collections::HashMap;

use crate::bucket::{
    AcceleratorKind, Bucket, BucketId, BucketSet, CapacityType, Catalog, Shape, Unfit,
};
use crate::resources::Resources;
use crate::room::{Index, Room, Run};

/// Pods of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRequest {
    /// The shape of each pod.
    pub shape: Shape,
    /// The number of pods.
    pub count: u64,
}

/// The order in which shapes are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Smallest first. This is the order of the paper: small jobs do not open large nodes.
    #[default]
    Increasing,
    /// Largest first, as in cluster-autoscaler's estimator.
    Decreasing,
    /// The order of the input.
    Given,
}

/// Pods of one request on a run of nodes, with the same number of pods on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// The index of the request in the input.
    pub request: usize,
    /// The first node. Existing nodes are counted from 0 in their order; new bins follow in the
    /// order of opening.
    pub node: u64,
    /// The number of nodes.
    pub nodes: u64,
    /// The number of pods on each node.
    pub pods_each: u64,
}

/// Pods that fit on no bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The index of the request in the input.
    pub request: usize,
    /// The number of pods.
    pub count: u64,
    /// Why no bucket accepts the pods.
    pub reason: Unfit,
}

/// The result of a packing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// The number of new bins per bucket of the catalog.
    pub opened: Vec<u64>,
    /// The placement of the pods.
    pub placed: Vec<Placed>,
    /// The pods that fit nowhere.
    pub unplaced: Vec<Unplaced>,
    /// The free room that is left on existing nodes and on new bins, in the order of the nodes.
    pub rooms: Vec<Room>,
}

/// Packs `requests` onto the free room of `rooms`, then onto new instances of the catalog's
/// buckets.
///
/// The order of shapes is total: resource requests, then kind of accelerator, then admitted
/// buckets, then the index in the input.
pub fn pack(requests: &[PodRequest], rooms: &[Room], catalog: &Catalog, order: Order) -> Packing {
    pack_within(requests, rooms, catalog, &BucketSet::all(), order)
}

/// Packs like [`pack`], but opens new instances only of the buckets in `open`.
///
/// Pods that would need an instance of another bucket fit nowhere.
pub fn pack_within(
    requests: &[PodRequest],
    rooms: &[Room],
    catalog: &Catalog,
    open: &BucketSet,
    order: Order,
) -> Packing {
    let mut packing = Packing { opened: vec![0; catalog.len()], ..Packing::default() };
    let mut index = Index::new(rooms);
    let mut admissions = Admissions::default();
    let mut entries = entries(requests, catalog, &mut admissions);
    sort(&mut entries, requests, order);
    let floors = floors(&entries);
    for (&Entry { requests: each, count, admission, at }, floor) in entries.iter().zip(floors) {
        let admitted = &admissions.sets[admission];
        let Packing { opened, placed, unplaced, .. } = &mut packing;
        let mut note = |node, nodes, pods_each| {
            placed.push(Placed { request: at, node, nodes, pods_each });
        };
        // A node may be larger than its bucket states, so pods that fit on no empty instance are
        // tried on the free room, too.
        let left = index.place(floor, admitted, each, count, &mut note);
        if left == 0 {
            continue;
        }
        match Opens::new(&requests[at].shape, admitted, catalog, open) {
            Err(reason) => unplaced.push(Unplaced { request: at, count: left, reason }),
            Ok(Opens { bucket, holds }) => {
                opened[bucket] = opened[bucket].saturating_add(left.div_ceil(holds));
                let allocatable = catalog.buckets()[bucket].allocatable;
                for (nodes, pods_each) in split(left, holds) {
                    note(index.nodes(), nodes, pods_each);
                    index.append(bucket, rest(allocatable, each, pods_each), nodes);
                }
            }
        }
    }
    packing.rooms = index.rooms();
    packing
}

/// The fields of a request that packing reads. Entries are sorted in the order of packing, so that
/// packing reads memory sequentially. Reads through indices took a third of the time of packing,
/// because they missed the caches of the processor.
struct Entry {
    /// The requests of one pod.
    requests: Resources,
    /// The number of pods, at least 1.
    count: u64,
    /// The index of the buckets in [`Admissions`].
    admission: usize,
    /// The index of the request in the input.
    at: usize,
}

/// The parts of a shape that decide which buckets admit it, whatever its size: the buckets that its
/// pods select, and the kind of its accelerators if it requests any.
type Admitting<'a> = (&'a BucketSet, Option<&'a AcceleratorKind>);

/// The buckets of a catalog that admit the shapes of a packing.
#[derive(Default)]
struct Admissions<'a> {
    sets: Vec<BucketSet>,
    known: HashMap<Admitting<'a>, usize>,
    /// The key and the index of the last shape, because adjacent requests often have the same key.
    last: Option<(Admitting<'a>, usize)>,
}

impl<'a> Admissions<'a> {
    /// Returns the index of the buckets that admit a shape.
    fn of(&mut self, shape: &'a Shape, catalog: &Catalog) -> usize {
        let kind = (shape.requests.accelerators > 0).then_some(&shape.accelerator_kind);
        let admitting = (&shape.admits, kind);
        if let Some((last, at)) = self.last
            && last == admitting
        {
            return at;
        }
        let Self { sets, known, .. } = self;
        let at = *known.entry(admitting).or_insert_with(|| {
            sets.push(admitted(shape, catalog));
            sets.len() - 1
        });
        self.last = Some((admitting, at));
        at
    }
}

/// Returns the buckets of the catalog that admit a shape. Shapes that differ in size only have the
/// same ones.
fn admitted(shape: &Shape, catalog: &Catalog) -> BucketSet {
    let buckets = catalog.buckets().iter().enumerate();
    let admitted = buckets.filter(|&(id, bucket)| shape.admitted_by(id, bucket));
    BucketSet::only(admitted.map(|(id, _)| id))
}

/// The new instance that is opened for a shape.
#[derive(Clone, Copy, Debug)]
struct Opens {
    bucket: BucketId,
    /// The number of pods of the shape that an empty instance holds, at least 1.
    holds: u64,
}

impl Opens {
    /// Resolves the new instance, of the buckets in `open`, for a shape that the buckets in
    /// `admitted` admit.
    fn new(
        shape: &Shape,
        admitted: &BucketSet,
        catalog: &Catalog,
        open: &BucketSet,
    ) -> Result<Self, Unfit> {
        let requests = shape.requests;
        let fits = |&(id, bucket): &(BucketId, &Bucket)| {
            bucket.allocatable.fits(requests) && admitted.contains(id) && open.contains(id)
        };
        let fitting = || catalog.buckets().iter().enumerate().filter(fits);
        let weight = fitting().map(|(id, _)| catalog.weight(id)).max();
        let first = |of: CapacityType| {
            fitting().find(|(id, bucket)| {
                bucket.capacity_type == of && Some(catalog.weight(*id)) == weight
            })
        };
        let opens = cheaper(first(CapacityType::Spot), first(CapacityType::OnDemand))
            .map(|(bucket, entry)| Self { bucket, holds: entry.allocatable.holds(requests) });
        opens.ok_or_else(|| catalog.buckets_for(shape).err().unwrap_or(Unfit::NoBucketAdmits))
    }
}

/// The spot bucket if an instance of it costs less than one of the on-demand bucket, or if there is
/// no on-demand bucket.
fn cheaper<'a>(
    spot: Option<(BucketId, &'a Bucket)>,
    on_demand: Option<(BucketId, &'a Bucket)>,
) -> Option<(BucketId, &'a Bucket)> {
    match (spot, on_demand) {
        (Some(spot), Some(on_demand)) if spot.1.hourly >= on_demand.1.hourly => Some(on_demand),
        (spot, on_demand) => spot.or(on_demand),
    }
}

/// Returns the bucket, of those in `open`, of which a new instance is opened for a shape, and the
/// number of pods that the instance holds. `None` if no bucket in `open` admits and fits the shape.
pub fn new_instance(shape: &Shape, catalog: &Catalog, open: &BucketSet) -> Option<(BucketId, u64)> {
    let opens = Opens::new(shape, &admitted(shape, catalog), catalog, open).ok()?;
    Some((opens.bucket, opens.holds))
}

/// A shape with its buckets resolved against a catalog, so that it can be packed many times.
#[derive(Clone, Debug)]
pub struct PackShape {
    requests: Resources,
    admitted: BucketSet,
    opens: Result<Opens, Unfit>,
}

impl PackShape {
    /// Resolves the buckets of the shape.
    pub fn new(shape: &Shape, catalog: &Catalog) -> Self {
        let admitted = admitted(shape, catalog);
        let opens = Opens::new(shape, &admitted, catalog, &BucketSet::all());
        Self { requests: shape.requests, admitted, opens }
    }

    /// Returns the bucket and the number of new instances that `count` pods of the shape open, if
    /// none of them is placed on free room. `None` if the shape fits on no bucket.
    pub fn new_instances(&self, count: u64) -> Option<(BucketId, u64)> {
        let Opens { bucket, holds } = self.opens.ok()?;
        Some((bucket, count.div_ceil(holds)))
    }

    /// Returns the bucket of which a new instance is opened for the shape, and the requests of one
    /// pod.
    pub fn opens(&self) -> Option<(BucketId, Resources)> {
        self.opens.ok().map(|opens| (opens.bucket, self.requests))
    }
}

/// Free room onto which pods can be packed repeatedly, each time from the same initial state.
///
/// Packings can have their first pods in common, which are then packed once for all of them.
#[derive(Clone)]
pub struct FreeRoom {
    initial: Index,
    /// `None` before the first packing, because [`FreeRoom::left`] needs no copy of the free room.
    packings: Option<Packings>,
}

/// The first pods of all packings, and the present packing.
#[derive(Clone)]
struct Packings {
    /// The first pods, on the initial free room.
    first: Filled,
    /// The present packing, on what the first pods leave.
    present: Filled,
}

/// Free room with pods on it.
#[derive(Clone)]
struct Filled {
    /// The free room that the pods leave.
    remaining: Index,
    /// The blocks that the pods changed, possibly repeatedly. Only these are copied afterwards,
    /// because a copy of all blocks would take longer than the packing itself.
    changed: Vec<usize>,
    /// The instances that the pods opened. They have no numbers: `first` is 0 in all of them.
    bins: Vec<Run>,
    /// The number of these instances, by bucket.
    opened: Vec<u64>,
}

impl FreeRoom {
    /// Creates the free room of nodes, in the order in which they are filled.
    pub fn new(rooms: &[Room]) -> Self {
        Self { initial: Index::new(rooms), packings: None }
    }

    /// Returns how many of `count` pods of one shape do not fit on the initial free room.
    pub fn left(&self, shape: &PackShape, count: u64) -> u64 {
        self.initial.left(&shape.admitted, shape.requests, count)
    }

    /// Adds `count` pods of one shape to the first pods of all further packings.
    ///
    /// Pods of the shape that was added last may be added in parts.
    pub fn add_first(&mut self, shape: &PackShape, count: u64, catalog: &Catalog) {
        let Packings { first, present } = self.packings(catalog);
        let changed = first.changed.len();
        first.pack(shape, count, catalog);
        // Each part may split runs. Unless they are joined, many parts leave many runs.
        Run::join(&mut first.bins);
        for &block in &first.changed[changed..] {
            first.remaining.join(block);
            present.remaining.copy_block(&first.remaining, block);
        }
        first.changed.dedup();
    }

    /// Lets further packings begin on the initial free room, without first pods.
    pub fn clear_first(&mut self) {
        let Some(Packings { first, present }) = &mut self.packings else { return };
        for block in first.changed.drain(..) {
            first.remaining.copy_block(&self.initial, block);
            present.remaining.copy_block(&self.initial, block);
        }
        first.bins.clear();
        first.opened.fill(0);
    }

    /// Returns the new instances per bucket that the first pods and then `pods` need beyond the
    /// initial free room.
    ///
    /// Shapes are packed in the given order. Pods that fit nowhere are ignored.
    pub fn opened<'a>(
        &mut self,
        pods: impl Iterator<Item = (&'a PackShape, u64)>,
        catalog: &Catalog,
    ) -> &[u64] {
        let Packings { first, present } = self.packings(catalog);
        present.bins.clone_from(&first.bins);
        present.opened.clone_from(&first.opened);
        let mut pods = pods.peekable();
        while let Some((shape, count)) = pods.next() {
            if pods.peek().is_some() {
                present.pack(shape, count, catalog);
            } else {
                present.pack_last(shape, count);
            }
        }
        for block in present.changed.drain(..) {
            present.remaining.copy_block(&first.remaining, block);
        }
        &present.opened
    }

    fn packings(&mut self, catalog: &Catalog) -> &mut Packings {
        self.packings.get_or_insert_with(|| {
            let first = Filled {
                remaining: self.initial.clone(),
                changed: Vec::new(),
                bins: Vec::new(),
                opened: vec![0; catalog.len()],
            };
            Packings { present: first.clone(), first }
        })
    }
}

impl Filled {
    fn pack(&mut self, shape: &PackShape, count: u64, catalog: &Catalog) {
        let PackShape { requests, admitted, opens, .. } = shape;
        let left = self.remaining.fill(admitted, *requests, count, &mut self.changed);
        let left = Run::place_all(&mut self.bins, admitted, *requests, left, &mut |_, _, _| {});
        let Ok(Opens { bucket, holds }) = *opens else { return };
        if left > 0 {
            self.opened[bucket] = self.opened[bucket].saturating_add(left.div_ceil(holds));
            let allocatable = catalog.buckets()[bucket].allocatable;
            for (nodes, pods_each) in split(left, holds) {
                let free = rest(allocatable, *requests, pods_each);
                self.bins.push(Run { first: 0, nodes, bucket, free });
            }
        }
    }

    /// Counts the new instances for the last shape of a packing. Nothing is packed after it, so the
    /// free room need not change. Most packings have few shapes.
    fn pack_last(&mut self, shape: &PackShape, count: u64) {
        let PackShape { requests, admitted, .. } = shape;
        let left = self.remaining.left(admitted, *requests, count);
        let left = Run::left(&self.bins, admitted, *requests, left);
        if let Some((bucket, nodes)) = shape.new_instances(left) {
            self.opened[bucket] = self.opened[bucket].saturating_add(nodes);
        }
    }
}

/// Splits pods over new instances that hold `holds` pods each: the number of full instances and
/// their pods, then an instance with the rest. Either is left out if it would be empty.
fn split(count: u64, holds: u64) -> impl Iterator<Item = (u64, u64)> {
    let parts = [(count / holds, holds), (1, count % holds)];
    parts.into_iter().filter(|&(nodes, pods_each)| nodes > 0 && pods_each > 0)
}

/// The free room of a new instance with `pods` pods.
fn rest(allocatable: Resources, requests: Resources, pods: u64) -> Resources {
    allocatable.take(requests.times(pods)).unwrap_or_default()
}

/// Returns the entries of the requests that have pods.
fn entries<'a>(
    requests: &'a [PodRequest],
    catalog: &Catalog,
    admissions: &mut Admissions<'a>,
) -> Vec<Entry> {
    let entry = |(at, PodRequest { shape, count }): (usize, &'a PodRequest)| Entry {
        requests: shape.requests,
        count: *count,
        admission: admissions.of(shape, catalog),
        at,
    };
    requests.iter().enumerate().filter(|(_, request)| request.count > 0).map(entry).collect()
}

/// Sorts the entries in the order of packing.
fn sort(entries: &mut [Entry], requests: &[PodRequest], order: Order) {
    // The requests of resources decide nearly always.
    let compare = |one: &Entry, other: &Entry| {
        let shape = |entry: &Entry| &requests[entry.at].shape;
        one.requests.cmp(&other.requests).then_with(|| shape(one).cmp(shape(other)))
    };
    match order {
        Order::Increasing => {
            entries.sort_unstable_by(|a, b| compare(a, b).then(a.at.cmp(&b.at)));
        }
        Order::Decreasing => {
            entries.sort_unstable_by(|a, b| compare(b, a).then(a.at.cmp(&b.at)));
        }
        Order::Given => {}
    }
}

/// Returns, for each entry, the component-wise minimum of the requests from there on.
fn floors(entries: &[Entry]) -> Vec<Resources> {
    let mut least = Resources::UNLIMITED;
    let floor = |entry: &Entry| {
        least = least.floor(entry.requests);
        least
    };
    let mut floors: Vec<Resources> = entries.iter().rev().map(floor).collect();
    floors.reverse();
    floors
}
