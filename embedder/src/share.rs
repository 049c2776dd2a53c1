//! The paper's Algorithm 2: sums per bucket, and the ceiling of the dominant share.
//!
//! Fast, and where there is one bucket a lower bound of what packing needs. As printed, the algorithm walks vectors and buckets in lexicographic
//! order with a strict `<`; its own Table 2 needs `<=`, and a vector that is less in that order need not fit. Here a
//! vector counts towards the first bucket, ascending, that admits it and fits, component by component. Table 2's
//! count of 1.5 ought to be the maximum of its shares, 2.

use crate::bucket::Catalog;
use crate::pack::{Ask, Unplaced};
use crate::resources::UNLIMITED;

/// What the sums came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Instances per bucket of the catalog.
    pub instances: Vec<u64>,
    /// What fits nowhere.
    pub unplaced: Vec<Unplaced>,
}

/// The instances per bucket whose capacity covers the sum of what the pods ask for.
pub fn share(asks: &[Ask], catalog: &Catalog) -> Share {
    let mut sums = vec![[0_u128; 5]; catalog.len()];
    let mut unplaced = Vec::new();
    for (index, Ask { shape, count }) in asks.iter().enumerate() {
        match catalog.buckets_for(shape) {
            Err(reason) => unplaced.push(Unplaced { ask: index, count: *count, reason }),
            Ok(fitting) => {
                let Some(sum) = fitting.first().and_then(|id| sums.get_mut(id)) else { continue };
                for (total, ask) in sum.iter_mut().zip(shape.asks.components()) {
                    *total = total.saturating_add(u128::from(ask) * u128::from(*count));
                }
            }
        }
    }
    let instances = catalog.buckets().iter().zip(sums).map(|(bucket, sum)| {
        let shares = bucket.allocatable.components().into_iter().zip(sum);
        let limited = shares.filter(|&(capacity, _)| capacity != UNLIMITED && capacity > 0);
        let dominant = limited.map(|(capacity, total)| total.div_ceil(u128::from(capacity))).max();
        // What nothing limits still needs an instance to run on.
        let some = u128::from(sum.iter().any(|&total| total > 0));
        u64::try_from(dominant.unwrap_or(0).max(some)).unwrap_or(u64::MAX)
    });
    Share { instances: instances.collect(), unplaced }
}
