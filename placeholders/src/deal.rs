//! Deals the targets of all buckets to their groups, within the limits that groups of several
//! buckets share.

use embedder::{BucketId, Catalog, Group};

use crate::balance::{balance, rooms};
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
    let mut shared: Vec<Shared> =
        standing.shared.iter().map(|limit| Shared::new(limit, targets, standing)).collect();
    let mut dealt = Vec::with_capacity(wants.len());
    for (want, &target) in wants.iter().zip(targets) {
        let have = &standing.buckets[want.bucket];
        let groups = &catalog.buckets()[want.bucket].groups;
        let mut rooms = rooms(groups, have);
        for shared in &shared {
            shared.lower(&mut rooms, groups, (want.bucket, target), standing);
        }
        let (groups, held) = balance(target, want, rooms, groups, have);
        for shared in &mut shared {
            shared.take(want.bucket, &groups, target, standing);
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
    fn new(limit: &'a SharedLimit, targets: &[u64], standing: &Standing) -> Self {
        let mut left = limit.left.clone();
        for (bucket, &target) in targets.iter().enumerate() {
            for (at, nodes) in kept(bucket, target, standing) {
                if let Some(each) = limit.groups.get(&(bucket, at)) {
                    lessen(&mut left, each, nodes);
                }
            }
        }
        Self { limit, left }
    }

    /// Lowers the rooms of the groups of a bucket, so that all of them together stay within what is
    /// left. Groups that have no standing placeholders for it share the rest, one node at a time,
    /// those of the largest weight first.
    fn lower(
        &self,
        rooms: &mut [u64],
        groups: &[Group],
        (bucket, target): (BucketId, u64),
        standing: &Standing,
    ) {
        let each = |at: usize| self.limit.groups.get(&(bucket, at));
        let mut left = self.left.clone();
        let mut lowered = rooms.to_vec();
        for (at, nodes) in kept(bucket, target, standing) {
            if each(at).is_some() {
                lowered[at] = rooms[at].min(nodes);
            }
        }
        let most = |at: usize| rooms[at].min(target);
        let members = (0..rooms.len()).filter_map(|at| Some((at, each(at)?)));
        let mut open: Vec<(usize, &Vec<u64>)> = members.collect();
        open.retain(|&(at, _)| lowered[at] < most(at));
        while !open.is_empty() {
            let weight = open.iter().map(|&(at, _)| groups[at].weight).max();
            let is_next = |at: usize| Some(groups[at].weight) == weight;
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
    fn take(&mut self, bucket: BucketId, dealt: &[u64], target: u64, standing: &Standing) {
        for (at, kept) in kept(bucket, target, standing) {
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

/// The standing placeholders of each group of a bucket, as far as the target keeps them.
fn kept(
    bucket: BucketId,
    target: u64,
    standing: &Standing,
) -> impl Iterator<Item = (usize, u64)> + '_ {
    let mut more = target;
    standing.buckets[bucket].iter().enumerate().map(move |(at, group)| {
        let kept = group.placeholders.min(more);
        more -= kept;
        (at, kept)
    })
}
