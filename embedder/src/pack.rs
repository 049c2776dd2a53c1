//! First-fit-increasing: packs pods onto free room, then onto new instances of the smallest bucket
//! that fits.
//!
//! The input is shapes with counts, which are packed in ascending order. Each pod goes to the first
//! existing node with enough free room. If there is none, it goes to the first new bin, in the
//! order of opening, with enough free room. If there is none either, it opens a new bin of the
//! first bucket, ascending, that admits it and that it fits.
//!
//! Pods of one shape are placed in runs, and adjacent nodes with the same bucket and free room form
//! one run, so the running time grows with the number of shapes and runs, not with the number of
//! pods. Runs are grouped into blocks. Each block holds the component-wise maximum of its free
//! room, so a search can skip blocks on which a shape cannot fit. This keeps packing fast even if
//! every pod differs.

use crate::bucket::{BucketId, BucketSet, Catalog, Shape, Unfit};
use crate::resources::Resources;

/// Pods of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRequest {
    /// The shape of each pod.
    pub shape: Shape,
    /// The number of pods.
    pub count: u64,
}

/// Adjacent nodes with the same free room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The bucket of the nodes.
    pub bucket: BucketId,
    /// The free room on each node.
    pub free: Resources,
    /// The number of nodes.
    pub nodes: u64,
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
    /// The reason.
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
    let mut runs = Runs::new(rooms);
    for index in sorted(requests, order) {
        let PodRequest { shape, count } = &requests[index];
        if *count == 0 {
            continue;
        }
        let shape = PackShape::within(shape, catalog, open);
        let Packing { opened, placed, unplaced, .. } = &mut packing;
        let left = runs.fill(&shape, *count, catalog, opened, &mut |node, nodes, pods_each| {
            placed.push(Placed { request: index, node, nodes, pods_each });
        });
        if let (Err(reason), true) = (shape.opens, left > 0) {
            unplaced.push(Unplaced { request: index, count: left, reason });
        }
    }
    packing.rooms = runs.rooms();
    packing
}

/// A shape with its buckets resolved against a catalog, so that it can be packed many times.
#[derive(Clone, Debug)]
pub struct PackShape {
    requests: Resources,
    admitted: BucketSet,
    /// The bucket of which a new instance is opened for the shape.
    opens: Result<BucketId, Unfit>,
}

impl PackShape {
    /// Resolves the buckets of the shape.
    pub fn new(shape: &Shape, catalog: &Catalog) -> Self {
        Self::within(shape, catalog, &BucketSet::all())
    }

    /// Resolves the buckets of the shape, with new instances only of the buckets in `open`.
    fn within(shape: &Shape, catalog: &Catalog, open: &BucketSet) -> Self {
        let buckets = catalog.buckets().iter().enumerate();
        let admitted =
            buckets.filter(|&(id, bucket)| shape.admitted_by(id, bucket)).map(|(id, _)| id);
        let opens = catalog.buckets_for(shape).and_then(|fitting| {
            let open = (0..catalog.len()).find(|&id| fitting.contains(id) && open.contains(id));
            open.ok_or(Unfit::NoBucketAdmits)
        });
        Self { requests: shape.requests, admitted: BucketSet::only(admitted), opens }
    }

    /// Returns the bucket of which a new instance is opened for the shape, and the requests of one
    /// pod.
    pub fn opens(&self) -> Option<(BucketId, Resources)> {
        self.opens.ok().map(|bucket| (bucket, self.requests))
    }
}

/// Free room onto which pods can be packed repeatedly, each time from the same initial state.
pub struct FreeRoom {
    room: Runs,
    /// The copy onto which pods are packed. Only its changed blocks are restored after each
    /// packing, because allocating a new copy would take longer than the packing itself.
    scratch: Runs,
    opened: Vec<u64>,
}

impl FreeRoom {
    /// Creates the free room of nodes, in the order in which they are filled.
    pub fn new(rooms: &[Room]) -> Self {
        let room = Runs::new(rooms);
        let scratch = Runs { is_tidy: false, ..room.clone() };
        Self { room, scratch, opened: Vec::new() }
    }

    /// Returns the new instances per bucket that pods need beyond this free room.
    ///
    /// Shapes are packed in the given order. Pods that fit nowhere are ignored.
    pub fn opened<'a>(
        &mut self,
        pods: impl Iterator<Item = (&'a PackShape, u64)>,
        catalog: &Catalog,
    ) -> &[u64] {
        let Self { room, scratch, opened } = self;
        opened.clear();
        opened.resize(catalog.len(), 0);
        for (shape, count) in pods.filter(|(_, count)| *count > 0) {
            scratch.fill(shape, count, catalog, opened, &mut |_, _, _| {});
        }
        scratch.restore(room);
        opened
    }
}

fn sorted(requests: &[PodRequest], order: Order) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..requests.len()).collect();
    match order {
        Order::Increasing => indices.sort_by(|&a, &b| requests[a].shape.cmp(&requests[b].shape)),
        Order::Decreasing => indices.sort_by(|&a, &b| requests[b].shape.cmp(&requests[a].shape)),
        Order::Given => {}
    }
    indices
}

/// The maximum number of runs in a block: 32. A block that exceeds it is split. The value keeps
/// both the number of blocks and the search within one block small.
const BLOCK_RUNS_MAX: usize = 32;

/// Nodes in their order, as runs with the same bucket and free room. Runs are grouped into blocks
/// that a search can skip.
#[derive(Clone)]
struct Runs {
    blocks: Vec<Block>,
    nodes: u64,
    /// Whether changed blocks are split and measured again. Both take time, which pays off only if
    /// many pods are packed.
    is_tidy: bool,
}

#[derive(Clone, Default)]
struct Block {
    runs: Vec<Run>,
    /// The component-wise maximum of the free room of all runs.
    roof: Resources,
    /// The buckets of all runs, modulo 64, as bits.
    mask: u64,
    /// Whether pods or nodes were added since the last restore.
    is_changed: bool,
}

#[derive(Clone, Copy)]
struct Run {
    first: u64,
    nodes: u64,
    bucket: BucketId,
    free: Resources,
}

impl Runs {
    fn new(rooms: &[Room]) -> Self {
        let mut runs = Self { blocks: Vec::new(), nodes: 0, is_tidy: true };
        for &Room { bucket, free, nodes } in rooms {
            runs.append(bucket, free, nodes);
        }
        runs
    }

    fn append(&mut self, bucket: BucketId, free: Resources, nodes: u64) {
        let first = self.nodes;
        if nodes == 0 {
            return;
        }
        self.nodes = self.nodes.saturating_add(nodes);
        if self.blocks.last().is_none_or(|block| block.runs.len() >= BLOCK_RUNS_MAX) {
            self.blocks.push(Block::default());
        }
        if let Some(block) = self.blocks.last_mut() {
            match block.runs.last_mut() {
                Some(last) if last.bucket == bucket && last.free == free => {
                    last.nodes = last.nodes.saturating_add(nodes);
                }
                _ => block.runs.push(Run { first, nodes, bucket, free }),
            }
            block.roof = block.roof.roof(free);
            block.mask |= 1 << (bucket % 64);
            block.is_changed = true;
        }
    }

    /// Restores the state of `original`, of which `self` is a copy.
    fn restore(&mut self, original: &Self) {
        self.blocks.truncate(original.blocks.len());
        for (block, original) in
            self.blocks.iter_mut().zip(&original.blocks).filter(|(b, _)| b.is_changed)
        {
            let Block { runs, roof, mask, is_changed: _ } = original;
            block.runs.clear();
            block.runs.extend_from_slice(runs);
            *block = Block {
                runs: std::mem::take(&mut block.runs),
                roof: *roof,
                mask: *mask,
                is_changed: false,
            };
        }
        self.nodes = original.nodes;
    }

    /// Places pods on existing nodes and bins, then on new instances. Returns the number of pods
    /// that fit nowhere.
    fn fill(
        &mut self,
        shape: &PackShape,
        count: u64,
        catalog: &Catalog,
        opened: &mut [u64],
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        // A node may be larger than its bucket states, so pods that fit on no empty instance are
        // tried on the free room, too.
        let left = self.place(shape, count, placed);
        match shape.opens {
            Ok(bucket) if left > 0 => {
                let nodes = self.open(bucket, shape.requests, left, catalog, placed);
                opened[bucket] = opened[bucket].saturating_add(nodes);
                0
            }
            _ => left,
        }
    }

    /// Places up to `count` pods on existing nodes and bins. Returns the number of pods that are
    /// left.
    fn place(
        &mut self,
        shape: &PackShape,
        count: u64,
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        let mask = shape.admitted.mask();
        let mut left = count;
        let mut at = 0;
        while left > 0 && at < self.blocks.len() {
            let block = &mut self.blocks[at];
            if block.mask & mask != 0 && block.roof.fits(shape.requests) {
                let before = left;
                left = block.place(shape, left, placed);
                if self.is_tidy && left < before {
                    block.measure();
                }
                if self.is_tidy && block.runs.len() > BLOCK_RUNS_MAX {
                    let tail = block.split_off();
                    self.blocks.insert(at + 1, tail);
                    // The pods were already tried on the runs of the tail, before the split.
                    at += 1;
                }
            }
            at += 1;
        }
        left
    }

    /// Opens as many instances of a bucket as `count` pods need. Returns the number of instances.
    fn open(
        &mut self,
        bucket: BucketId,
        requests: Resources,
        count: u64,
        catalog: &Catalog,
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        let allocatable = catalog.buckets()[bucket].allocatable;
        let each = allocatable.holds(requests).min(count);
        for (nodes, pods_each) in [(count / each, each), (1, count % each)] {
            if nodes == 0 || pods_each == 0 {
                continue;
            }
            let free = allocatable.take(requests.times(pods_each)).unwrap_or_default();
            placed(self.nodes, nodes, pods_each);
            self.append(bucket, free, nodes);
        }
        count.div_ceil(each)
    }

    fn rooms(&self) -> Vec<Room> {
        let runs = self.blocks.iter().flat_map(|block| &block.runs);
        runs.map(|&Run { bucket, free, nodes, .. }| Room { bucket, free, nodes }).collect()
    }
}

impl Block {
    fn place(
        &mut self,
        shape: &PackShape,
        count: u64,
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        let requests = shape.requests;
        let mut left = count;
        let mut at = 0;
        while left > 0 && at < self.runs.len() {
            let run = self.runs[at];
            if !(run.free.fits(requests) && shape.admitted.contains(run.bucket)) {
                at += 1;
                continue;
            }
            let each = run.free.holds(requests).min(left);
            let nodes = (left / each).min(run.nodes);
            placed(run.first, nodes, each);
            left -= nodes * each;
            let free = run.free.take(requests.times(each)).unwrap_or_default();
            self.runs[at] = Run { nodes, free, ..run };
            if nodes < run.nodes {
                let rest = Run { first: run.first + nodes, nodes: run.nodes - nodes, ..run };
                self.runs.insert(at + 1, rest);
            }
            at += 1;
        }
        self.is_changed |= left < count;
        left
    }

    fn measure(&mut self) {
        self.roof = self.runs.iter().fold(Resources::default(), |roof, run| roof.roof(run.free));
        self.mask = self.runs.iter().fold(0, |mask, run| mask | 1 << (run.bucket % 64));
    }

    fn split_off(&mut self) -> Self {
        let mut tail = Self { runs: self.runs.split_off(self.runs.len() / 2), ..Self::default() };
        tail.measure();
        self.measure();
        tail
    }
}
