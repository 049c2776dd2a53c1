//! The new nodes of drawn windows, as distributions.

use embedder::BucketId;

use crate::forecast::distribution::Distribution;
use crate::record::sum_by_key;

/// The new nodes of drawn windows, by bucket.
#[derive(Default)]
pub(crate) struct DrawnNodes {
    /// The number of draws.
    draws: u32,
    /// By bucket and count of nodes, except 0 nodes: the number of draws.
    counts: Vec<((BucketId, u64), u32)>,
}

impl DrawnNodes {
    /// Adds a window that was drawn `times` times. `nodes` are its new nodes, by bucket; buckets
    /// without new nodes may be left out.
    pub(crate) fn add(&mut self, times: u32, nodes: &[(BucketId, u64)]) {
        self.draws = self.draws.saturating_add(times);
        let positive = nodes.iter().filter(|(_, nodes)| *nodes > 0);
        self.counts.extend(positive.map(|&key| (key, times)));
    }

    /// Returns the distribution of the new nodes, for each of `buckets` buckets.
    pub(crate) fn distributions(mut self, buckets: usize) -> Vec<Distribution> {
        self.counts.sort_unstable_by_key(|(key, _)| *key);
        sum_by_key(&mut self.counts, u32::saturating_add);
        let mut all = vec![Distribution::certain(0); buckets];
        for counts in self.counts.chunk_by(|((one, _), _), ((other, _), _)| one == other) {
            let drawn: u32 = counts.iter().map(|(_, times)| times).sum();
            let none = (0, f64::from(self.draws.saturating_sub(drawn)));
            let some = counts.iter().map(|&((_, nodes), times)| (nodes, f64::from(times)));
            if let Some(of_bucket) = counts.first().and_then(|((id, _), _)| all.get_mut(*id)) {
                *of_bucket = Distribution::weighted(std::iter::once(none).chain(some));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In six draws, bucket 1 needs no node three times, two nodes twice and nine nodes once.
    #[test]
    fn draws_without_new_nodes_count_as_zero() {
        let mut drawn = DrawnNodes::default();
        drawn.add(2, &[(1, 2)]);
        drawn.add(1, &[(0, 0), (1, 9)]);
        drawn.add(3, &[]);
        let expected = [(0, 3.0), (2, 2.0), (9, 1.0)].into_iter();
        let found = drawn.distributions(3);
        let none = Distribution::certain(0);
        assert_eq!(found, [none.clone(), Distribution::weighted(expected), none]);
        assert_eq!(DrawnNodes::default().distributions(1), [Distribution::certain(0)]);
    }
}
