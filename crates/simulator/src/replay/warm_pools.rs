//! Warm pools: instances that an Auto Scaling group has prepared and stopped. A stopped instance
//! starts in about a minute, where a new one takes several.
//!
//! Instances that start leave the pool, and the group prepares others in their place. A node that
//! is removed is terminated, as in a group without a reuse policy.

use std::collections::BTreeSet;

use embedder::{Bucket, BucketId, CapacityType, Catalog};

use crate::log::WarmRecord;

/// The index of an instance among all that were ever prepared for a pool.
pub(crate) type WarmId = usize;

/// Reports whether the groups of a bucket may have warm pools. AWS stops no instances of groups
/// that launch spot instances.
pub(crate) fn may_stop(bucket: &Bucket) -> bool {
    bucket.capacity_type != CapacityType::Spot
}

/// The warm pools of all groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct WarmPools {
    /// All instances that were ever in a pool.
    pub(crate) instances: Vec<WarmRecord>,
    /// By bucket and group.
    pools: Vec<Vec<Pool>>,
}

#[derive(Clone, Debug, Default)]
struct Pool {
    /// The instances that the pool shall have.
    wanted: u64,
    preparing: BTreeSet<WarmId>,
    stopped: BTreeSet<WarmId>,
}

impl Pool {
    fn has(&self) -> u64 {
        (self.preparing.len() + self.stopped.len()) as u64
    }
}

impl WarmPools {
    /// Empty pools for the groups of a catalog.
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let groups = catalog.buckets().iter().map(|bucket| bucket.groups.len());
        let pools = groups.map(|groups| vec![Pool::default(); groups]).collect();
        Self { instances: Vec::new(), pools }
    }

    /// Sets how many instances the pools of a bucket shall have, dealt to its groups one by one.
    /// Instances beyond that are terminated, those first that are still being prepared.
    pub(crate) fn want(&mut self, bucket: BucketId, wanted: u64, now: i64) {
        let groups = self.pools[bucket].len() as u64;
        for (at, pool) in (0_u64..).zip(&mut self.pools[bucket]) {
            pool.wanted = wanted / groups + u64::from(at < wanted % groups);
            while pool.has() > pool.wanted {
                let last = pool.preparing.pop_last().or_else(|| pool.stopped.pop_last());
                let Some(id) = last else { break };
                self.instances[id].gone = Some(now);
            }
        }
    }

    /// How many instances the pool of a group lacks.
    pub(crate) fn lacks(&self, (bucket, group): (BucketId, usize)) -> u64 {
        let pool = &self.pools[bucket][group];
        pool.wanted.saturating_sub(pool.has())
    }

    /// Terminates instances of a group that are being prepared, those that began last first, until
    /// its pool has at most this many instances or only stopped ones.
    pub(crate) fn lower(&mut self, (bucket, group): (BucketId, usize), most: u64, now: i64) {
        let pool = &mut self.pools[bucket][group];
        while pool.has() > most {
            let Some(id) = pool.preparing.pop_last() else { break };
            self.instances[id].gone = Some(now);
        }
    }

    /// Whether a pool has fewer instances than it shall have.
    pub(crate) fn any_lacks(&self) -> bool {
        self.pools.iter().flatten().any(|pool| pool.has() < pool.wanted)
    }

    /// The number of instances in the pool of a group, prepared or not.
    pub(crate) fn size(&self, (bucket, group): (BucketId, usize)) -> u64 {
        self.pools[bucket][group].has()
    }

    /// Begins to prepare an instance.
    pub(crate) fn prepare(&mut self, (bucket, group): (BucketId, usize), now: i64) -> WarmId {
        let id = self.instances.len();
        let times = WarmRecord { bucket, group, requested: now, stopped: None, gone: None };
        self.instances.push(times);
        self.pools[bucket][group].preparing.insert(id);
        id
    }

    /// Stops an instance that is ready, unless it was terminated meanwhile.
    pub(crate) fn stop(&mut self, id: WarmId, now: i64) {
        let WarmRecord { bucket, group, .. } = self.instances[id];
        let pool = &mut self.pools[bucket][group];
        if pool.preparing.remove(&id) {
            pool.stopped.insert(id);
            self.instances[id].stopped = Some(now);
        }
    }

    /// Takes a stopped instance out of the pool of a group, to start it as a node. Returns whether
    /// there was one.
    pub(crate) fn take(&mut self, (bucket, group): (BucketId, usize), now: i64) -> bool {
        let first = self.pools[bucket][group].stopped.pop_first();
        if let Some(id) = first {
            self.instances[id].gone = Some(now);
        }
        first.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: (BucketId, usize) = (0, 0);

    /// A pool of two instances that were prepared from second 0 to 300.
    fn of_two() -> WarmPools {
        let mut pools = WarmPools::new(&testkit::catalog([("one", 8_000, 1.0)]));
        pools.want(0, 2, 0);
        for _ in 0..pools.lacks(HOME) {
            let id = pools.prepare(HOME, 0);
            pools.stop(id, 300);
        }
        pools
    }

    #[test]
    fn an_instance_that_starts_is_replaced() {
        let mut pools = of_two();
        assert_eq!((pools.size(HOME), pools.lacks(HOME)), (2, 0));
        assert!(pools.take(HOME, 400));
        assert_eq!((pools.size(HOME), pools.lacks(HOME)), (1, 1));
        let id = pools.prepare(HOME, 400);
        // It is not stopped yet.
        assert!(pools.take(HOME, 410));
        assert!(!pools.take(HOME, 410));
        pools.stop(id, 700);
        assert!(pools.take(HOME, 710));
        let times = pools.instances.iter().map(|one| (one.requested, one.stopped, one.gone));
        assert_eq!(
            times.collect::<Vec<_>>(),
            [(0, 300, 400), (0, 300, 410), (400, 700, 710)].map(|(at, stopped, gone)| (
                at,
                Some(stopped),
                Some(gone)
            ))
        );
    }

    #[test]
    fn a_smaller_pool_terminates_instances_that_are_being_prepared_first() {
        let mut pools = of_two();
        pools.want(0, 3, 400);
        let id = pools.prepare(HOME, 400);
        pools.want(0, 1, 500);
        assert_eq!(pools.size(HOME), 1);
        assert_eq!(
            pools.instances.iter().map(|one| one.gone).collect::<Vec<_>>(),
            [None, Some(500), Some(500)]
        );
        // It was terminated, so its preparation has no effect.
        pools.stop(id, 700);
        assert_eq!((pools.size(HOME), pools.instances[id].stopped), (1, None));
    }

    #[test]
    fn a_pool_is_dealt_to_the_groups_of_its_bucket() {
        let mut bucket = testkit::bucket("one", 8_000, 1.0);
        bucket.groups = vec![testkit::group("a", 9), testkit::group("b", 9)];
        let mut pools = WarmPools::new(&testkit::catalog_of([bucket]));
        pools.want(0, 3, 0);
        assert_eq!([pools.lacks((0, 0)), pools.lacks((0, 1))], [2, 1]);
    }
}
