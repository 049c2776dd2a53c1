//! First-fit-increasing: pods onto free room, then onto new instances of the smallest bucket that fits.
//!
//! Shapes come with counts, ascending. Each pod goes to the first given node with room, else to the first bin in
//! the order of opening, else to a new bin of the first bucket, ascending, that admits it and fits. Pods of one shape
//! are placed in runs, and nodes that are alike and adjacent are one run, so that the work grows with shapes and
//! runs, not with pods. Where every pod differs, blocks of runs carry the roof of their free room, and a search skips
//! those that cannot fit.

use crate::bucket::{BucketId, BucketSet, Catalog, Shape};
use crate::resources::{Resource, Resources};

/// Pods of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What each asks for.
    pub shape: Shape,
    /// How many there are.
    pub count: u64,
}

/// Adjacent nodes with the same free room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Their bucket.
    pub bucket: BucketId,
    /// What is free on each.
    pub free: Resources,
    /// How many nodes.
    pub nodes: u64,
}

/// In which order shapes are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Smallest first: the paper's choice, so that small jobs open no large node.
    #[default]
    Increasing,
    /// Largest first, as cluster-autoscaler's estimator counts.
    Decreasing,
    /// As the caller lists them.
    Given,
}

/// Pods of one ask on a run of nodes, the same number on each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// The place of the ask in the input.
    pub ask: usize,
    /// The first node: given nodes are counted from 0 in their order, new bins follow in the order of opening.
    pub node: u64,
    /// How many nodes.
    pub nodes: u64,
    /// How many pods on each.
    pub pods_each: u64,
}

/// Why pods fit nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unfit {
    /// No bucket admits them: selectors, taints, architecture or kind of accelerator.
    NoBucketAdmits,
    /// Every bucket that admits them is too small; the one that comes closest lacks this.
    TooLarge(Resource),
}

impl Unfit {
    /// The reason as it is spelled everywhere.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoBucketAdmits => "no_bucket_admits",
            Self::TooLarge(Resource::Accelerators) => "too_large: accelerators",
            Self::TooLarge(Resource::Cpu) => "too_large: cpu_millis",
            Self::TooLarge(Resource::Memory) => "too_large: memory_bytes",
            Self::TooLarge(Resource::Ephemeral) => "too_large: ephemeral_bytes",
            Self::TooLarge(Resource::Pods) => "too_large: pods",
        }
    }
}

/// Pods that no bucket takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// The place of the ask in the input.
    pub ask: usize,
    /// How many pods.
    pub count: u64,
    /// Why.
    pub reason: Unfit,
}

/// What a packing came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    /// New bins per bucket of the catalog.
    pub opened: Vec<u64>,
    /// What went where.
    pub placed: Vec<Placed>,
    /// What fits nowhere.
    pub unplaced: Vec<Unplaced>,
    /// The free room that is left, on given nodes and on new ones, in the order of the nodes.
    pub rooms: Vec<Room>,
}

/// Packs `asks` onto the free room of `rooms`, then onto new instances of the catalog's buckets.
///
/// The order of shapes is total: what they ask for, then kind, then admitted buckets, then their place in the input.
pub fn pack(asks: &[Ask], rooms: &[Room], catalog: &Catalog, order: Order) -> Packing {
    pack_within(asks, rooms, catalog, &BucketSet::all(), order)
}

/// The same, where new instances can be had only of `open` buckets. What would need another one fits nowhere.
pub fn pack_within(
    asks: &[Ask],
    rooms: &[Room],
    catalog: &Catalog,
    open: &BucketSet,
    order: Order,
) -> Packing {
    let mut packing = Packing { opened: vec![0; catalog.len()], ..Packing::default() };
    let mut runs = Runs::new(rooms);
    for index in sorted(asks, order) {
        let Ask { shape, count } = &asks[index];
        if *count == 0 {
            continue;
        }
        let shape = PackShape::within(shape, catalog, open);
        let Packing { opened, placed, unplaced, .. } = &mut packing;
        let left = runs.fill(&shape, *count, catalog, opened, &mut |node, nodes, pods_each| {
            placed.push(Placed { ask: index, node, nodes, pods_each });
        });
        if let (Err(reason), true) = (shape.opens, left > 0) {
            unplaced.push(Unplaced { ask: index, count: left, reason });
        }
    }
    packing.rooms = runs.rooms();
    packing
}

/// A shape made ready for a catalog, to be packed many times.
#[derive(Clone, Debug)]
pub struct PackShape {
    asks: Resources,
    admitted: BucketSet,
    /// The bucket of which a new instance is opened for it.
    opens: Result<BucketId, Unfit>,
}

impl PackShape {
    /// Looks up where the shape may go.
    pub fn new(shape: &Shape, catalog: &Catalog) -> Self {
        Self::within(shape, catalog, &BucketSet::all())
    }

    /// The same, where new instances can be had only of `open` buckets.
    fn within(shape: &Shape, catalog: &Catalog, open: &BucketSet) -> Self {
        let buckets = catalog.buckets().iter().enumerate();
        let admitted = buckets.filter(|&(id, bucket)| shape.admitted_by(id, bucket)).map(|(id, _)| id);
        let opens = catalog.buckets_for(shape).and_then(|fitting| {
            let open = (0..catalog.len()).find(|&id| fitting.contains(id) && open.contains(id));
            open.ok_or(Unfit::NoBucketAdmits)
        });
        Self { asks: shape.asks, admitted: BucketSet::only(admitted), opens }
    }

    /// The bucket of which a new instance is opened for it, and what it asks for.
    pub fn opens(&self) -> Option<(BucketId, Resources)> {
        self.opens.ok().map(|bucket| (bucket, self.asks))
    }
}

/// Free room that is packed onto again and again, each time anew.
pub struct FreeRoom {
    room: Runs,
    /// A copy to pack onto. What was changed in it is copied anew each time: allocating would take longer than packing.
    scratch: Runs,
    opened: Vec<u64>,
}

impl FreeRoom {
    /// The free room of nodes, in the order in which they are filled.
    pub fn new(rooms: &[Room]) -> Self {
        let room = Runs::new(rooms);
        let scratch = Runs { is_tidy: false, ..room.clone() };
        Self { room, scratch, opened: Vec::new() }
    }

    /// The new instances per bucket that pods need beyond this room, shapes in the order given. What fits nowhere is
    /// passed over.
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

fn sorted(asks: &[Ask], order: Order) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..asks.len()).collect();
    match order {
        Order::Increasing => indices.sort_by(|&a, &b| asks[a].shape.cmp(&asks[b].shape)),
        Order::Decreasing => indices.sort_by(|&a, &b| asks[b].shape.cmp(&asks[a].shape)),
        Order::Given => {}
    }
    indices
}

/// A block is split when it outgrows this: long enough that few blocks are looked at, short enough to look through.
const BLOCK_RUNS_MAX: usize = 32;

/// Nodes in their order, in runs of the same bucket and free room, in blocks that can be skipped as a whole.
#[derive(Clone)]
struct Runs {
    blocks: Vec<Block>,
    nodes: u64,
    /// Whether blocks are split and measured once they have changed: it takes time, and saves more where much is packed.
    is_tidy: bool,
}

#[derive(Clone, Default)]
struct Block {
    runs: Vec<Run>,
    /// The component-wise maximum of the free room of all runs.
    roof: Resources,
    /// The buckets of all runs, modulo 64.
    mask: u64,
    /// Whether pods or nodes were added.
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

    /// Makes this what it was a copy of.
    fn restore(&mut self, original: &Self) {
        self.blocks.truncate(original.blocks.len());
        for (block, original) in self.blocks.iter_mut().zip(&original.blocks).filter(|(b, _)| b.is_changed) {
            let Block { runs, roof, mask, is_changed: _ } = original;
            block.runs.clear();
            block.runs.extend_from_slice(runs);
            *block =
                Block { runs: std::mem::take(&mut block.runs), roof: *roof, mask: *mask, is_changed: false };
        }
        self.nodes = original.nodes;
    }

    /// Places pods on what stands, then on new instances; returns how many fit nowhere.
    fn fill(
        &mut self,
        shape: &PackShape,
        count: u64,
        catalog: &Catalog,
        opened: &mut [u64],
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        // A node may be larger than its bucket says: free room is offered even to what no empty instance takes.
        let left = self.place(shape, count, placed);
        match shape.opens {
            Ok(bucket) if left > 0 => {
                let nodes = self.open(bucket, shape.asks, left, catalog, placed);
                opened[bucket] = opened[bucket].saturating_add(nodes);
                0
            }
            _ => left,
        }
    }

    /// Places up to `count` pods on what stands; returns how many are left over.
    fn place(&mut self, shape: &PackShape, count: u64, placed: &mut impl FnMut(u64, u64, u64)) -> u64 {
        let mask = shape.admitted.mask();
        let mut left = count;
        let mut at = 0;
        while left > 0 && at < self.blocks.len() {
            let block = &mut self.blocks[at];
            if block.mask & mask != 0 && block.roof.fits(shape.asks) {
                let before = left;
                left = block.place(shape, left, placed);
                if self.is_tidy && left < before {
                    block.measure();
                }
                if self.is_tidy && block.runs.len() > BLOCK_RUNS_MAX {
                    let tail = block.split_off();
                    self.blocks.insert(at + 1, tail);
                    // The tail was searched with its head.
                    at += 1;
                }
            }
            at += 1;
        }
        left
    }

    /// Opens as many instances of a bucket as `count` pods need; returns how many.
    fn open(
        &mut self,
        bucket: BucketId,
        asks: Resources,
        count: u64,
        catalog: &Catalog,
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        let allocatable = catalog.buckets()[bucket].allocatable;
        let each = allocatable.holds(asks).min(count);
        for (nodes, pods_each) in [(count / each, each), (1, count % each)] {
            if nodes == 0 || pods_each == 0 {
                continue;
            }
            let free = allocatable.take(asks.times(pods_each)).unwrap_or_default();
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
    fn place(&mut self, shape: &PackShape, count: u64, placed: &mut impl FnMut(u64, u64, u64)) -> u64 {
        let asks = shape.asks;
        let mut left = count;
        let mut at = 0;
        while left > 0 && at < self.runs.len() {
            let run = self.runs[at];
            if !(run.free.fits(asks) && shape.admitted.contains(run.bucket)) {
                at += 1;
                continue;
            }
            let each = run.free.holds(asks).min(left);
            let nodes = (left / each).min(run.nodes);
            placed(run.first, nodes, each);
            left -= nodes * each;
            let free = run.free.take(asks.times(each)).unwrap_or_default();
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
