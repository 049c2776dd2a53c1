//! The new nodes of drawn windows, as distributions.

use embedder::BucketId;

use crate::forecast::distribution::Distribution;
use crate::record::sum_by_key;

/// The new nodes of drawn windows, by bucket.
pub(crate) struct DrawnNodes {
    /// The number of draws.
    draws: u32,
    /// By bucket: the number of draws that need 1, 2 and so on up to [`FEW`] nodes. They are
    /// counted in place, because sorting them took longer than drawing the windows.
    few: Vec<[u32; FEW]>,
    /// By bucket and count of nodes above [`FEW`]: the number of draws.
    many: Vec<((BucketId, u64), u32)>,
}

/// The largest count of nodes that is counted in place. Nearly all windows need fewer.
const FEW: usize = 16;

impl DrawnNodes {
    /// Creates the counts of `buckets` buckets, without any draw.
    pub(crate) fn new(buckets: usize) -> Self {
        Self { draws: 0, few: vec![[0; FEW]; buckets], many: Vec::new() }
    }

    /// Adds a window that was drawn `times` times. `nodes` are its new nodes, by bucket; buckets
    /// without new nodes may be left out.
    pub(crate) fn add(&mut self, times: u32, nodes: &[(BucketId, u64)]) {
        self.draws = self.draws.saturating_add(times);
        for &(bucket, nodes) in nodes.iter().filter(|(_, nodes)| *nodes > 0) {
            let place = usize::try_from(nodes - 1).ok();
            let few = self.few.get_mut(bucket);
            match few.zip(place).and_then(|(few, place)| few.get_mut(place)) {
                Some(drawn) => *drawn = drawn.saturating_add(times),
                None => self.many.push(((bucket, nodes), times)),
            }
        }
    }

    /// Returns the distribution of the new nodes, for each bucket.
    pub(crate) fn distributions(mut self) -> Vec<Distribution> {
        self.many.sort_unstable_by_key(|(key, _)| *key);
        sum_by_key(&mut self.many, u32::saturating_add);
        let of_bucket = |(bucket, few): (BucketId, &[u32; FEW])| {
            let many = self.many.partition_point(|((id, _), _)| *id < bucket);
            let many = self.many[many..].iter().take_while(|((id, _), _)| *id == bucket);
            let few = (1..).zip(few).filter(|(_, times)| **times > 0);
            let counts = few.map(|(nodes, times)| (nodes, *times));
            let counts = counts.chain(many.map(|&((_, nodes), times)| (nodes, times)));
            let drawn: u32 = counts.clone().map(|(_, times)| times).sum();
            if drawn == 0 {
                return Distribution::certain(0);
            }
            let none = (0, f64::from(self.draws.saturating_sub(drawn)));
            let some = counts.map(|(nodes, times)| (nodes, f64::from(times)));
            Distribution::weighted(std::iter::once(none).chain(some))
        };
        self.few.iter().enumerate().map(of_bucket).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In six draws, bucket 1 needs no node three times, two nodes twice and 99 nodes once.
    #[test]
    fn draws_without_new_nodes_count_as_zero() {
        let mut drawn = DrawnNodes::new(3);
        drawn.add(2, &[(1, 2)]);
        drawn.add(1, &[(0, 0), (1, 99)]);
        drawn.add(3, &[]);
        let expected = [(0, 3.0), (2, 2.0), (99, 1.0)].into_iter();
        let found = drawn.distributions();
        let none = Distribution::certain(0);
        assert_eq!(found, [none.clone(), Distribution::weighted(expected), none]);
        assert_eq!(DrawnNodes::new(1).distributions(), [Distribution::certain(0)]);
    }

    #[test]
    fn counts_in_place_and_beyond_are_one_distribution() {
        let few = FEW as u64;
        let mut drawn = DrawnNodes::new(2);
        for nodes in [few + 1, few, 1, few + 1, few + 9] {
            drawn.add(1, &[(0, nodes), (1, few + 1)]);
        }
        let of = |counts: &[(u64, f64)]| Distribution::weighted(counts.iter().copied());
        let first = of(&[(1, 1.0), (few, 1.0), (few + 1, 2.0), (few + 9, 1.0)]);
        assert_eq!(drawn.distributions(), [first, of(&[(few + 1, 5.0)])]);
    }
}
