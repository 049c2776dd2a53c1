//! The free room of nodes in their order, with an index over it.
//!
//! Adjacent nodes with the same bucket and free room form a run. Runs are grouped into blocks, and
//! a segment tree over the blocks holds the component-wise maximum of the free room. A search for
//! the next block with enough free room skips subtrees whose maximum is too small.

use crate::bucket::{BucketId, BucketSet};
use crate::resources::Resources;

/// The maximum number of runs in a block. A block that exceeds it is split. A small block has a
/// tight maximum, and a large block keeps the tree small. Packing took the least time with 8 and 16
/// of 8, 16 and 32.
const BLOCK_RUNS_MAX: usize = 8;

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

/// Adjacent nodes with the same bucket and free room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The number of the first node.
    pub(crate) first: u64,
    /// The number of nodes.
    pub(crate) nodes: u64,
    /// The bucket of the nodes.
    pub(crate) bucket: BucketId,
    /// The free room on each node.
    pub(crate) free: Resources,
}

/// Nodes in their order, as runs in blocks.
#[derive(Clone)]
pub(crate) struct Index {
    blocks: Vec<Vec<Run>>,
    /// The component-wise minimum of all requests that are still to be placed. Runs that it does
    /// not fit on are left out of the maxima: if pods are placed in ascending order of CPU, the
    /// memory of a node without enough CPU does not mislead the search.
    floor: Resources,
    /// A segment tree. The root is at 1, the children of n are at 2n and 2n + 1, and the leaves are
    /// the last half: one leaf per block, then empty leaves.
    tree: Vec<Roof>,
    nodes: u64,
}

/// The most that may fit on a node of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Roof {
    /// The component-wise maximum of the free room.
    free: Resources,
    /// The buckets, modulo 64, as bits.
    mask: u64,
}

impl Run {
    /// Places up to `count` pods on runs, in their order, and splits runs whose nodes then differ.
    /// Returns the number of pods that are left.
    ///
    /// Calls `placed` with the first node, the number of nodes and the number of pods on each.
    pub(crate) fn place_all(
        runs: &mut Vec<Self>,
        admitted: &BucketSet,
        requests: Resources,
        count: u64,
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        let mut left = count;
        let mut at = 0;
        while left > 0 && at < runs.len() {
            let run = runs[at];
            if run.free.fits(requests) && admitted.contains(run.bucket) {
                // Most often all pods fit on one node, and a product takes less time than the
                // divisions of `holds`.
                let all = requests.times(left);
                let each =
                    if run.free.fits(all) { left } else { run.free.holds(requests).min(left) };
                let nodes = (left / each).min(run.nodes);
                placed(run.first, nodes, each);
                left -= nodes * each;
                let free = run.free.take(requests.times(each)).unwrap_or_default();
                runs[at] = Self { nodes, free, ..run };
                if nodes < run.nodes {
                    let rest = Self { first: run.first + nodes, nodes: run.nodes - nodes, ..run };
                    runs.insert(at + 1, rest);
                }
            }
            at += 1;
        }
        left
    }

    /// Joins adjacent runs that are alike.
    pub(crate) fn join(runs: &mut Vec<Self>) {
        runs.dedup_by(|next, run| {
            let alike = next.bucket == run.bucket && next.free == run.free;
            if alike {
                run.nodes = run.nodes.saturating_add(next.nodes);
            }
            alike
        });
    }

    /// Returns the number of pods that [`Run::place_all`] would leave, without placing any.
    pub(crate) fn left(
        runs: &[Self],
        admitted: &BucketSet,
        requests: Resources,
        count: u64,
    ) -> u64 {
        let mut left = count;
        for run in runs {
            if left == 0 {
                break;
            }
            if run.free.fits(requests) && admitted.contains(run.bucket) {
                // As in `place_all`, a product takes less time than divisions.
                let fits = run.free.fits(requests.times(left));
                let holds = if fits { left } else { run.free.holds(requests) };
                left = left.saturating_sub(holds.saturating_mul(run.nodes));
            }
        }
        left
    }
}

impl Index {
    pub(crate) fn new(rooms: &[Room]) -> Self {
        let floor = Resources::default();
        let mut index = Self { blocks: Vec::new(), floor, tree: Vec::new(), nodes: 0 };
        for &Room { bucket, free, nodes } in rooms {
            index.push(bucket, free, nodes);
        }
        index.rebuild();
        index
    }

    /// Returns the number of nodes. Nodes are numbered from 0, so the next node that is added gets
    /// this number.
    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Returns the free room of all nodes, in their order.
    pub(crate) fn rooms(&self) -> Vec<Room> {
        let room = |&Run { bucket, free, nodes, .. }: &Run| Room { bucket, free, nodes };
        self.blocks.iter().flatten().map(room).collect()
    }

    /// Adds nodes at the end.
    pub(crate) fn append(&mut self, bucket: BucketId, free: Resources, nodes: u64) {
        self.push(bucket, free, nodes);
        if self.blocks.len() <= self.leaves() {
            self.update(self.blocks.len() - 1);
        } else {
            self.rebuild();
        }
    }

    /// Adds nodes at the end without an update of the tree.
    fn push(&mut self, bucket: BucketId, free: Resources, nodes: u64) {
        if nodes == 0 {
            return;
        }
        let first = self.nodes;
        self.nodes = self.nodes.saturating_add(nodes);
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK_RUNS_MAX => match block.last_mut() {
                Some(last) if last.bucket == bucket && last.free == free => {
                    last.nodes = last.nodes.saturating_add(nodes);
                }
                _ => block.push(Run { first, nodes, bucket, free }),
            },
            _ => self.blocks.push(vec![Run { first, nodes, bucket, free }]),
        }
    }

    /// Places up to `count` pods. Returns the number of pods that are left.
    ///
    /// `floor` is the component-wise minimum of `requests` and of all later requests.
    pub(crate) fn place(
        &mut self,
        floor: Resources,
        admitted: &BucketSet,
        requests: Resources,
        count: u64,
        placed: &mut impl FnMut(u64, u64, u64),
    ) -> u64 {
        self.floor = floor;
        let (mut left, mut from) = (count, 0);
        while left > 0
            && let Some(at) = self.next(from, admitted, requests)
        {
            let block = &mut self.blocks[at];
            left = Run::place_all(block, admitted, requests, left, placed);
            from = at + 1;
            if block.len() > BLOCK_RUNS_MAX {
                let tail = block.split_off(block.len() / 2);
                self.blocks.insert(at + 1, tail);
                self.rebuild();
                // The pods were tried on the runs of the tail before the split.
                from += 1;
            } else {
                self.update(at);
            }
        }
        left
    }

    /// Places up to `count` pods, and adds the blocks that change to `changed`. Returns the number
    /// of pods that are left.
    ///
    /// No block is split, however many runs it has, because [`Index::copy_block`] needs the
    /// same blocks in both indexes.
    pub(crate) fn fill(
        &mut self,
        admitted: &BucketSet,
        requests: Resources,
        count: u64,
        changed: &mut Vec<usize>,
    ) -> u64 {
        let (mut left, mut from) = (count, 0);
        while left > 0
            && let Some(at) = self.next(from, admitted, requests)
        {
            let before = left;
            let block = &mut self.blocks[at];
            left = Run::place_all(block, admitted, requests, left, &mut |_, _, _| {});
            if left < before {
                changed.push(at);
                self.update(at);
            }
            from = at + 1;
        }
        left
    }

    /// Returns the number of pods that [`Index::fill`] would leave, without placing any.
    pub(crate) fn left(&self, admitted: &BucketSet, requests: Resources, count: u64) -> u64 {
        let (mut left, mut from) = (count, 0);
        while left > 0
            && let Some(at) = self.next(from, admitted, requests)
        {
            left = Run::left(&self.blocks[at], admitted, requests, left);
            from = at + 1;
        }
        left
    }

    /// Copies a block and its path in the tree from `other`. Both indexes must be clones of one
    /// index that only [`Index::fill`] and [`Index::join`] changed since. Once all blocks in which
    /// the two differ are copied, the trees are equal.
    pub(crate) fn copy_block(&mut self, other: &Self, block: usize) {
        self.blocks[block].clear();
        self.blocks[block].extend_from_slice(&other.blocks[block]);
        let mut at = self.leaves() + block;
        while at > 0 && self.tree[at] != other.tree[at] {
            self.tree[at] = other.tree[at];
            at /= 2;
        }
    }

    /// Joins adjacent runs of a block that have become alike.
    pub(crate) fn join(&mut self, block: usize) {
        Run::join(&mut self.blocks[block]);
    }

    /// Returns the first block, from `from` on, on which the shape may fit.
    fn next(&self, from: usize, admitted: &BucketSet, requests: Resources) -> Option<usize> {
        if from >= self.blocks.len() {
            return None;
        }
        let (mask, leaves) = (admitted.mask(), self.leaves());
        let mut at = leaves + from;
        loop {
            let Roof { free, mask: buckets } = self.tree[at];
            if buckets & mask != 0 && free.fits(requests) {
                if at >= leaves {
                    return Some(at - leaves);
                }
                at *= 2;
                continue;
            }
            // The next subtree begins at the sibling of the first ancestor that is a left child.
            while at % 2 == 1 {
                if at == 1 {
                    return None;
                }
                at /= 2;
            }
            at += 1;
        }
    }

    fn leaves(&self) -> usize {
        self.tree.len() / 2
    }

    fn rebuild(&mut self) {
        let leaves = self.blocks.len().next_power_of_two();
        self.tree.clear();
        self.tree.resize(2 * leaves, Roof::default());
        for (leaf, block) in self.tree[leaves..].iter_mut().zip(&self.blocks) {
            *leaf = Roof::of(block, self.floor);
        }
        for at in (1..leaves).rev() {
            self.tree[at] = self.tree[2 * at].with(self.tree[2 * at + 1]);
        }
    }

    /// Computes the maxima on the path from a block to the root anew.
    fn update(&mut self, block: usize) {
        let mut at = self.leaves() + block;
        let mut roof = Roof::of(&self.blocks[block], self.floor);
        while self.tree[at] != roof {
            self.tree[at] = roof;
            at /= 2;
            if at == 0 {
                return;
            }
            roof = self.tree[2 * at].with(self.tree[2 * at + 1]);
        }
    }
}

impl Roof {
    /// The maximum over the runs on which `floor` fits.
    fn of(runs: &[Run], floor: Resources) -> Self {
        let roof = |run: &Run| Self { free: run.free, mask: 1 << (run.bucket % 64) };
        runs.iter().filter(|run| run.free.fits(floor)).map(roof).fold(Self::default(), Self::with)
    }

    fn with(self, other: Self) -> Self {
        Self { free: self.free.roof(other.free), mask: self.mask | other.mask }
    }
}
