//! Round-robin over the groups of a bucket, in whole virtual instances.
//!
//! Decides where new placeholders go and which leave first; standing ones are never moved for balance alone.

use embedder::Group;

use crate::reason::Reason;
use crate::standing::GroupStanding;

/// How many placeholders each group gets, and what held any back.
pub(crate) fn balance(
    target: u64,
    gangs: &[u64],
    groups: &[Group],
    standing: &[GroupStanding],
) -> (Vec<u64>, Option<Reason>) {
    let mut deal = Deal::new(groups, standing);
    let mut sizes: Vec<u64> = gangs.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut left = target;
    for size in sizes {
        // A virtual instance is dealt whole or not at all: half of one helps no gang.
        if size > 0 && size <= left && deal.whole(size) {
            left -= size;
        }
    }
    left -= deal.keep(left);
    left -= deal.add(left);
    let held = (left > 0).then(|| deal.why_full());
    (deal.wants, held)
}

struct Deal<'a> {
    standing: &'a [GroupStanding],
    /// The most placeholders that each group can hold.
    room: Vec<u64>,
    wants: Vec<u64>,
}

impl<'a> Deal<'a> {
    fn new(groups: &[Group], standing: &'a [GroupStanding]) -> Self {
        let room = groups.iter().zip(standing).map(|(group, standing)| {
            let room = group.max.saturating_sub(standing.occupied);
            // What stands may stay where a launch would fail.
            if standing.backoff { room.min(standing.placeholders) } else { room }
        });
        Self { standing, room: room.collect(), wants: vec![0; standing.len()] }
    }

    /// Puts `size` placeholders into one group: where most of them stand already, else where there are fewest.
    fn whole(&mut self, size: u64) -> bool {
        let fits = |&at: &usize| self.room[at] - self.wants[at] >= size;
        let new = |at: usize| size - self.unclaimed(at).min(size);
        let best =
            (0..self.wants.len()).filter(fits).min_by_key(|&at| (new(at), self.wants[at], at));
        if let Some(at) = best {
            self.wants[at] += size;
        }
        best.is_some()
    }

    /// Keeps up to `most` of those that stand; where fewer are kept, the fullest group gives up first.
    fn keep(&mut self, most: u64) -> u64 {
        let mut kept: Vec<u64> = (0..self.wants.len())
            .map(|at| self.unclaimed(at).min(self.room[at] - self.wants[at]))
            .collect();
        let total: u64 = kept.iter().fold(0, |sum, &n| sum.saturating_add(n));
        let mut surplus = total.saturating_sub(most);
        while surplus > 0 {
            let full = |at: usize| (self.wants[at] + kept[at], at);
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

    /// Adds up to `most`, one at a time, to the group with the fewest.
    fn add(&mut self, most: u64) -> u64 {
        let mut added = 0;
        while added < most {
            let open = (0..self.wants.len()).filter(|&at| self.wants[at] < self.room[at]);
            let Some(at) = open.min_by_key(|&at| (self.wants[at], at)) else { break };
            // Alone, a group takes all at once.
            let n = if self.wants.len() == 1 {
                (most - added).min(self.room[at] - self.wants[at])
            } else {
                1
            };
            self.wants[at] += n;
            added += n;
        }
        added
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
