//! Deals placeholders round-robin to the groups of a bucket, in whole virtual instances.
//!
//! The module decides which groups receive new placeholders and which placeholders are removed
//! first. Groups of a larger rank are filled first. Standing placeholders are never moved only for
//! balance.

use std::cmp::Reverse;

use embedder::Group;

use crate::reason::Reason;
use crate::standing::GroupStanding;
use crate::want::Want;

/// The order in which groups are filled, the largest first: those whose instances are paid anyway,
/// and then by their weight.
pub(crate) type Rank = (bool, u64);

/// The number of placeholders for which each group has room: its maximum less the nodes that
/// placeholders cannot use. A group that backs off keeps its standing placeholders, but gets no new
/// ones, because their launches would fail.
pub(crate) fn rooms(groups: &[Group], standing: &[GroupStanding]) -> Vec<u64> {
    let room = |(group, standing): (&Group, &GroupStanding)| {
        let used = standing.occupied.saturating_add(standing.unusable);
        let room = group.max.saturating_sub(used);
        if standing.backoff { room.min(standing.placeholders) } else { room }
    };
    groups.iter().zip(standing).map(room).collect()
}

/// Returns the number of placeholders of each group, and the reason if the groups cannot take all
/// of `target`. `rooms` is the most that each group can take, and `ranks` are their ranks.
///
/// Announced gangs come first, then those forecast gangs for which no announced one is as large.
/// The nodes of a forecast gang that is not dealt are dealt one by one, because other pods can use
/// them.
pub(crate) fn balance(
    target: u64,
    want: &Want,
    rooms: Vec<u64>,
    ranks: Vec<Rank>,
    standing: &[GroupStanding],
) -> (Vec<u64>, Option<Reason>) {
    let mut deal = Deal::new(rooms, ranks, standing);
    let mut left = target;
    let announced = largest_first(&want.gangs);
    let forecast = largest_first(&want.forecast_gangs).into_iter().enumerate();
    let uncovered = forecast
        .filter(|(rank, size)| announced.get(*rank).is_none_or(|announced| announced < size))
        .map(|(_, size)| size);
    for size in announced.iter().copied().chain(uncovered) {
        // A virtual instance is dealt whole or not at all, because a gang cannot start on a part of
        // it.
        if size > 0 && size <= left && deal.whole(size) {
            left -= size;
        }
    }
    left -= deal.keep(left);
    left -= deal.add(left);
    let held = (left > 0).then(|| deal.why_full());
    (deal.wants, held)
}

/// Returns the number of nodes of the gangs that fit into no group as a whole.
///
/// Groups that back off count with all their room. Otherwise a gang would be held back for the few
/// minutes of a backoff, and its standing placeholders would be removed.
pub(crate) fn split_nodes(gangs: &[u64], groups: &[Group], standing: &[GroupStanding]) -> u64 {
    let open: Vec<GroupStanding> =
        standing.iter().map(|group| GroupStanding { backoff: false, ..*group }).collect();
    let ranks = vec![Rank::default(); groups.len()];
    let mut deal = Deal::new(rooms(groups, &open), ranks, &open);
    let split = largest_first(gangs).into_iter().filter(|&size| size > 0 && !deal.whole(size));
    split.fold(0, u64::saturating_add)
}

fn largest_first(gangs: &[u64]) -> Vec<u64> {
    let mut sizes = gangs.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

struct Deal<'a> {
    standing: &'a [GroupStanding],
    /// The maximum number of placeholders in each group.
    room: Vec<u64>,
    ranks: Vec<Rank>,
    wants: Vec<u64>,
}

impl<'a> Deal<'a> {
    fn new(room: Vec<u64>, ranks: Vec<Rank>, standing: &'a [GroupStanding]) -> Self {
        Self { standing, room, ranks, wants: vec![0; standing.len()] }
    }

    /// Assigns `size` placeholders to one group and returns whether a group had enough room.
    ///
    /// The group with the most unclaimed standing placeholders comes first, then the group of the
    /// largest rank, then the group with the fewest assigned ones.
    fn whole(&mut self, size: u64) -> bool {
        let fits = |&at: &usize| self.room[at] - self.wants[at] >= size;
        let new = |at: usize| size - self.unclaimed(at).min(size);
        let best = (0..self.wants.len())
            .filter(fits)
            .min_by_key(|&at| (new(at), Reverse(self.ranks[at]), self.wants[at], at));
        if let Some(at) = best {
            self.wants[at] += size;
        }
        best.is_some()
    }

    /// Keeps up to `most` standing placeholders and returns their number. If some must be removed,
    /// the fullest group of the smallest rank gives up its placeholders first.
    fn keep(&mut self, most: u64) -> u64 {
        let mut kept: Vec<u64> = (0..self.wants.len())
            .map(|at| self.unclaimed(at).min(self.room[at] - self.wants[at]))
            .collect();
        let total: u64 = kept.iter().fold(0, |sum, &n| sum.saturating_add(n));
        let mut surplus = total.saturating_sub(most);
        while surplus > 0 {
            let full = |at: usize| (Reverse(self.ranks[at]), self.wants[at] + kept[at], at);
            let Some(at) = (0..kept.len()).filter(|&at| kept[at] > 0).max_by_key(|&at| full(at))
            else {
                break;
            };
            kept[at] -= 1;
            surplus -= 1;
        }
        self.wants.iter_mut().zip(&kept).for_each(|(want, kept)| *want += kept);
        total.min(most)
    }

    /// Adds up to `most` placeholders, each to the group with the fewest of those that have room
    /// and the largest rank, and returns their number. Of groups with equally many the first comes
    /// first.
    fn add(&mut self, most: u64) -> u64 {
        let mut left = most;
        while left > 0 {
            let mut open: Vec<usize> =
                (0..self.wants.len()).filter(|&at| self.wants[at] < self.room[at]).collect();
            let rank = open.iter().map(|&at| self.ranks[at]).max();
            open.retain(|&at| Some(self.ranks[at]) == rank);
            let Some(fewest) = open.iter().map(|&at| self.wants[at]).min() else { break };
            let (lowest, others): (Vec<usize>, Vec<usize>) =
                open.into_iter().partition(|&at| self.wants[at] == fewest);
            // All of the lowest groups rise together, until one is full or reaches another group.
            let full = lowest.iter().map(|&at| self.room[at]);
            let level = full.chain(others.iter().map(|&at| self.wants[at])).min();
            let groups = lowest.len() as u64;
            let each = (left / groups).min(level.unwrap_or(fewest) - fewest);
            if each > 0 {
                for at in lowest {
                    self.wants[at] += each;
                }
                left -= each * groups;
            } else {
                let some = lowest.iter().take(usize::try_from(left).unwrap_or(usize::MAX));
                some.for_each(|&at| self.wants[at] += 1);
                left = 0;
            }
        }
        most - left
    }

    fn unclaimed(&self, at: usize) -> u64 {
        self.standing[at].placeholders.saturating_sub(self.wants[at])
    }

    fn why_full(&self) -> Reason {
        if self.standing.iter().any(|group| group.backoff) {
            Reason::GroupBackoff
        } else {
            Reason::GroupsFull
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Adds placeholders one at a time.
    fn one_by_one(wants: &mut [u64], room: &[u64], ranks: &[Rank], most: u64) -> u64 {
        for added in 0..most {
            let open = (0..wants.len()).filter(|&at| wants[at] < room[at]);
            let next = open.min_by_key(|&at| (Reverse(ranks[at]), wants[at], at));
            let Some(at) = next else { return added };
            wants[at] += 1;
        }
        most
    }

    proptest! {
        #[test]
        fn adding_at_once_equals_adding_one_by_one(
            groups in prop::collection::vec((0..9_u64, 0..9_u64, 0..3_u64), 0..6),
            most in 0..60_u64,
        ) {
            let room: Vec<u64> = groups.iter().map(|(_, room, _)| *room).collect();
            let ranks: Vec<Rank> = groups.iter().map(|(.., weight)| (false, *weight)).collect();
            let wants: Vec<u64> = groups.iter().map(|(want, room, _)| *want.min(room)).collect();
            let mut expected = wants.clone();
            let added = one_by_one(&mut expected, &room, &ranks, most);
            let mut deal = Deal { standing: &[], room, ranks, wants };
            prop_assert_eq!(deal.add(most), added);
            prop_assert_eq!(deal.wants, expected);
        }
    }
}
