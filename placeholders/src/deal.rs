//! Deals the targets of all buckets to their groups, within the limits that groups of several
//! buckets share.

use std::cmp::Reverse;

use embedder::{BucketId, Catalog};

use crate::balance::{Rank, balance, rooms};
use crate::reason::Reason;
use crate::standing::{SharedLimit, Standing};
use crate::want::Want;

/// Returns, by bucket, the number of placeholders of each group, and the reason if the groups
/// cannot take the whole target.
///
/// Of a shared limit, standing placeholders keep their part. The rest goes to the buckets in
/// ascending order.
pub(crate) fn deal(
    targets: &[u64],
    wants: &[Want],
    standing: &Standing,
    catalog: &Catalog,
) -> Vec<(Vec<u64>, Option<Reason>)> {
    let buckets = catalog.buckets().iter().enumerate();
    let ranks = buckets.map(|(id, bucket)| {
        let groups = bucket.groups.iter().enumerate();
        groups.map(|(at, group)| (standing.is_prepaid(id, at), group.weight)).collect()
    });
    let ranks: Vec<Vec<Rank>> = ranks.collect();
    let shared = standing.shared.iter();
    let mut shared: Vec<Shared> =
        shared.map(|limit| Shared::new(limit, targets, &ranks, standing)).collect();
    let mut dealt = Vec::with_capacity(wants.len());
    for (want, &target) in wants.iter().zip(targets) {
        let have = &standing.buckets[want.bucket];
        let groups = &catalog.buckets()[want.bucket].groups;
        let mut rooms = rooms(groups, have);
        let ranks = &ranks[want.bucket];
        for shared in &shared {
            shared.lower(&mut rooms, ranks, (want.bucket, target), standing);
        }
        let (groups, held) = balance(target, want, rooms, ranks.clone(), have);
        for shared in &mut shared {
            shared.take(want.bucket, &groups, (target, ranks), standing);
        }
        dealt.push((groups, held));
    }
    dealt
}

/// A shared limit, while the buckets are dealt.
struct Shared<'a> {
    limit: &'a SharedLimit,
    /// The amounts that are left beyond what standing placeholders of later buckets keep.
    left: Vec<u64>,
}

impl<'a> Shared<'a> {
    fn new(
        limit: &'a SharedLimit,
        targets: &[u64],
        ranks: &[Vec<Rank>],
        standing: &Standing,
    ) -> Self {
        let mut left = limit.left.clone();
        for (bucket, &target) in targets.iter().enumerate() {
            for (at, nodes) in kept(bucket, target, &ranks[bucket], standing) {
                if let Some(each) = limit.groups.get(&(bucket, at)) {
                    lessen(&mut left, each, nodes);
                }
            }
        }
        Self { limit, left }
    }

    /// Lowers the rooms of the groups of a bucket, so that all of them together stay within what is
    /// left. Groups that have no standing placeholders for it share the rest, one node at a time,
    /// those of the largest rank first.
    fn lower(
        &self,
        rooms: &mut [u64],
        ranks: &[Rank],
        (bucket, target): (BucketId, u64),
        standing: &Standing,
    ) {
        let each = |at: usize| self.limit.groups.get(&(bucket, at));
        let mut left = self.left.clone();
        let mut lowered = rooms.to_vec();
        for (at, nodes) in kept(bucket, target, ranks, standing) {
            if each(at).is_some() {
                lowered[at] = rooms[at].min(nodes);
            }
        }
        let most = |at: usize| rooms[at].min(target);
        let members = (0..rooms.len()).filter_map(|at| Some((at, each(at)?)));
        let mut open: Vec<(usize, &Vec<u64>)> = members.collect();
        open.retain(|&(at, _)| lowered[at] < most(at));
        while !open.is_empty() {
            let rank = open.iter().map(|&(at, _)| ranks[at]).max();
            let is_next = |at: usize| Some(ranks[at]) == rank;
            let next = || open.iter().filter(|(at, _)| is_next(*at));
            // As many nodes at once as all of these groups can take.
            let room = next().map(|&(at, _)| most(at) - lowered[at]).min().unwrap_or(0);
            let nodes = (0..left.len()).fold(room, |nodes, of| {
                let all = next().fold(0, |sum: u64, (_, each)| sum.saturating_add(each[of]));
                left[of].checked_div(all).map_or(nodes, |fitting| nodes.min(fitting))
            });
            open.retain(|&(at, each)| {
                if !is_next(at) {
                    return true;
                }
                let fits = left.iter().zip(each).all(|(left, each)| left >= each);
                let nodes = if fits { nodes.max(1) } else { 0 };
                lessen(&mut left, each, nodes);
                lowered[at] += nodes;
                fits && lowered[at] < most(at)
            });
        }
        rooms.copy_from_slice(&lowered);
    }

    /// Takes what the groups of a bucket received, in place of what their standing placeholders
    /// kept.
    fn take(
        &mut self,
        bucket: BucketId,
        dealt: &[u64],
        (target, ranks): (u64, &[Rank]),
        standing: &Standing,
    ) {
        for (at, kept) in kept(bucket, target, ranks, standing) {
            let Some(each) = self.limit.groups.get(&(bucket, at)) else { continue };
            for (left, each) in self.left.iter_mut().zip(each) {
                *left = left
                    .saturating_add(each.saturating_mul(kept))
                    .saturating_sub(each.saturating_mul(dealt[at]));
            }
        }
    }
}

fn lessen(left: &mut [u64], each: &[u64], nodes: u64) {
    for (left, each) in left.iter_mut().zip(each) {
        *left = left.saturating_sub(each.saturating_mul(nodes));
    }
}

/// The standing placeholders of each group of a bucket, as far as the target keeps them: those of
/// the groups of the largest rank first.
fn kept(bucket: BucketId, target: u64, ranks: &[Rank], standing: &Standing) -> Vec<(usize, u64)> {
    let groups = &standing.buckets[bucket];
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|&at| Reverse(ranks[at]));
    let mut more = target;
    let kept = order.into_iter().map(|at| {
        let kept = groups[at].placeholders.min(more);
        more -= kept;
        (at, kept)
    });
    kept.collect()
}
