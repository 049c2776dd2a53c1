//! The paper's Algorithm 2: sums per bucket, and the ceiling of the dominant share.
//!
//! The algorithm is fast. If the catalog has one bucket, its result is a lower bound of the result
//! of packing.
//!
//! This implementation deviates from the printed algorithm in three ways:
//! - The printed algorithm uses a strict `<`, but the paper's own Table 2 needs `<=`.
//! - The printed algorithm compares vectors and buckets in lexicographic order, but a vector that
//!   is less in that order does not always fit. Here a vector counts towards the first bucket,
//!   ascending, that admits it and that it fits component by component.
//! - Table 2 prints a count of 1.5 where the maximum of the shares is 2. Here the count is 2.

use crate::bucket::Catalog;
use crate::pack::{PodRequest, Unplaced};
use crate::resources::UNLIMITED;

/// The result of [`share`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Instances per bucket of the catalog.
    pub instances: Vec<u64>,
    /// Pods that fit nowhere.
    pub unplaced: Vec<Unplaced>,
}

/// Returns the instances per bucket whose capacity covers the summed requests of the pods.
pub fn share(requests: &[PodRequest], catalog: &Catalog) -> Share {
    let mut sums = vec![[0_u128; 5]; catalog.len()];
    let mut unplaced = Vec::new();
    for (index, PodRequest { shape, count }) in requests.iter().enumerate() {
        match catalog.buckets_for(shape) {
            Err(reason) => unplaced.push(Unplaced { request: index, count: *count, reason }),
            Ok(fitting) => {
                let Some(sum) = fitting.first().and_then(|id| sums.get_mut(id)) else { continue };
                for (total, request) in sum.iter_mut().zip(shape.requests.components()) {
                    *total = total.saturating_add(u128::from(request) * u128::from(*count));
                }
            }
        }
    }
    let instances = catalog.buckets().iter().zip(sums).map(|(bucket, sum)| {
        let shares = bucket.allocatable.components().into_iter().zip(sum);
        let limited = shares.filter(|&(capacity, _)| capacity != UNLIMITED && capacity > 0);
        let dominant = limited.map(|(capacity, total)| total.div_ceil(u128::from(capacity))).max();
        // Requests that no capacity limits still need one instance to run on.
        let some = u128::from(sum.iter().any(|&total| total > 0));
        u64::try_from(dominant.unwrap_or(0).max(some)).unwrap_or(u64::MAX)
    });
    Share { instances: instances.collect(), unplaced }
}
