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

use crate::bucket::{BucketId, Catalog};
use crate::pack::{PodRequest, Unplaced};
use crate::resources::{DEVICES_MAX, Resources, UNLIMITED};

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
    let mut sums = Sums::new(catalog);
    let mut unplaced = Vec::new();
    for (index, PodRequest { shape, count }) in requests.iter().enumerate() {
        match catalog.buckets_for(shape) {
            Err(reason) => unplaced.push(Unplaced { request: index, count: *count, reason }),
            Ok(fitting) => {
                let Some(bucket) = fitting.first() else { continue };
                sums.add(bucket, shape.requests, *count);
            }
        }
    }
    Share { instances: sums.instances(catalog), unplaced }
}

/// The summed requests of the pods of each bucket, to which pods are added and removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums(Vec<[u128; 5 + DEVICES_MAX]>);

impl Sums {
    /// No pods.
    pub fn new(catalog: &Catalog) -> Self {
        Self(vec![[0; 5 + DEVICES_MAX]; catalog.len()])
    }

    /// Adds `count` pods with equal requests to a bucket: the first one that they fit.
    pub fn add(&mut self, bucket: BucketId, requests: Resources, count: u64) {
        self.change(bucket, requests, |sum, request| {
            sum.saturating_add(u128::from(request) * u128::from(count))
        });
    }

    /// Removes `count` pods with equal requests from a bucket.
    pub fn remove(&mut self, bucket: BucketId, requests: Resources, count: u64) {
        self.change(bucket, requests, |sum, request| {
            sum.saturating_sub(u128::from(request) * u128::from(count))
        });
    }

    fn change(
        &mut self,
        bucket: BucketId,
        requests: Resources,
        changed: impl Fn(u128, u64) -> u128,
    ) {
        let Some(sums) = self.0.get_mut(bucket) else { return };
        for (sum, request) in sums.iter_mut().zip(requests.amounts()) {
            *sum = changed(*sum, request);
        }
    }

    /// Returns the instances per bucket: the dominant share of the sums, rounded up.
    pub fn instances(&self, catalog: &Catalog) -> Vec<u64> {
        let instances = catalog.buckets().iter().zip(&self.0).map(|(bucket, sum)| {
            let shares = bucket.allocatable.amounts().into_iter().zip(sum);
            let limited = shares.filter(|&(capacity, _)| capacity != UNLIMITED && capacity > 0);
            let dominant =
                limited.map(|(capacity, total)| total.div_ceil(u128::from(capacity))).max();
            // Requests that no capacity limits still need one instance to run on.
            let some = u128::from(sum.iter().any(|&total| total > 0));
            u64::try_from(dominant.unwrap_or(0).max(some)).unwrap_or(u64::MAX)
        });
        instances.collect()
    }
}
