//! Pods that start together, as virtual instances.
//!
//! A virtual instance is k instances of one bucket, which one placement group receives as a whole.

use std::cmp::Reverse;

use crate::bucket::{Bucket, BucketId, BucketSet, CapacityType, Catalog, Shape, Unfit};
use crate::pack::{Order, PodRequest, pack};
use crate::resources::{Resource, Resources};

/// How a job that is larger than an instance is split into pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// Pods as large as an instance, and a remainder: 20 GPUs on 8-GPU instances are 8 + 8 + 4.
    #[default]
    Full,
    /// The same number of pods as [`Split::Full`], of sizes that differ by at most one unit: 20
    /// GPUs on 8-GPU instances are 7 + 7 + 6.
    Even,
}

/// Pods that are placed all at once or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gang {
    /// The pods of the gang.
    pub requests: Vec<PodRequest>,
}

/// The instances of one bucket that one gang takes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualInstance {
    /// The bucket of the instances.
    pub bucket: BucketId,
    /// The number of instances.
    pub instances: u64,
}

/// Splits `units` of `unit` into pods no larger than an instance of `bucket`, largest first.
///
/// Each element is (the requests of one pod, the number of such pods). Returns `None` if not even
/// one unit fits, or if `units` is 0.
pub fn split(
    units: u64,
    unit: Resources,
    bucket: &Bucket,
    how: Split,
) -> Option<Vec<(Resources, u64)>> {
    let pod = |units: u64| Resources { pods: 1, ..unit.times(units) };
    let one = Resources { pods: 1, ..unit };
    if !bucket.allocatable.fits(one) || units == 0 {
        return None;
    }
    let most = bucket.allocatable.holds(Resources { pods: 0, ..unit }).min(units);
    let pods = units.div_ceil(most);
    let sizes = match how {
        Split::Full => [(most, units / most), (units % most, 1)],
        Split::Even => [(units / pods + 1, units % pods), (units / pods, pods - units % pods)],
    };
    Some(
        sizes
            .into_iter()
            .filter(|&(units, pods)| units > 0 && pods > 0)
            .map(|(u, n)| (pod(u), n))
            .collect(),
    )
}

/// Returns the instances that a gang takes.
///
/// The result is one instance of the first bucket, ascending, that holds the whole gang. If no
/// bucket does, the result is as many instances as the gang needs of the bucket that needs the
/// fewest; of several such buckets, the one with the lowest cost is chosen. A gang that spot
/// buckets admit, too, takes spot instances if they cost less.
///
/// # Errors
/// No single bucket admits and fits every pod of the gang.
pub fn virtual_instance(gang: &Gang, catalog: &Catalog) -> Result<VirtualInstance, Unfit> {
    virtual_instance_of(gang, catalog, &BucketSet::all())
}

/// Like [`virtual_instance`], with instances of the buckets in `open` only.
pub(crate) fn virtual_instance_of(
    gang: &Gang,
    catalog: &Catalog,
    open: &BucketSet,
) -> Result<VirtualInstance, Unfit> {
    let of = |capacity_type| best(gang, catalog, open, capacity_type);
    let chosen = match (of(CapacityType::Spot), of(CapacityType::OnDemand)) {
        (Ok(spot), Ok(on_demand)) => {
            let price = |taken: &Taken| (taken.weight, taken.hourly);
            Ok(if price(&spot) < price(&on_demand) { spot } else { on_demand })
        }
        (Err(one), Err(other)) => Err(closer(one, other)),
        (spot, on_demand) => spot.or(on_demand),
    };
    chosen.map(|Taken { instances, bucket, .. }| VirtualInstance { bucket, instances })
}

/// The instances of a bucket that a gang takes. The least is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    /// The weight of the bucket, the largest first.
    weight: Reverse<u64>,
    /// The number of instances.
    instances: u64,
    /// Their price per hour, in millionths of a dollar.
    hourly: u64,
    bucket: BucketId,
}

/// The instances of buckets of one capacity type that a gang takes.
fn best(
    gang: &Gang,
    catalog: &Catalog,
    open: &BucketSet,
    capacity_type: CapacityType,
) -> Result<Taken, Unfit> {
    let mut best: Option<Taken> = None;
    let mut reason = Unfit::NoBucketAdmits;
    let buckets = catalog.buckets().iter().enumerate();
    for (id, bucket) in
        buckets.filter(|(id, bucket)| bucket.capacity_type == capacity_type && open.contains(*id))
    {
        if let Some(unfit) =
            gang.requests.iter().find_map(|request| unfit(&request.shape, id, bucket))
        {
            reason = closer(reason, unfit);
            continue;
        }
        let on_this = |request: &PodRequest| PodRequest {
            shape: Shape { admits: BucketSet::only([id]), ..request.shape.clone() },
            count: request.count,
        };
        let requests: Vec<PodRequest> = gang.requests.iter().map(on_this).collect();
        let instances = pack(&requests, &[], catalog, Order::Decreasing).opened[id];
        let taken = Taken {
            weight: Reverse(catalog.weight(id)),
            instances,
            hourly: bucket.hourly.0.saturating_mul(instances),
            bucket: id,
        };
        best = Some(best.map_or(taken, |best| best.min(taken)));
        // A later bucket of no larger weight is larger.
        let heavier = |later: BucketId| catalog.weight(later) > catalog.weight(id);
        if instances <= 1 && !(id..catalog.len()).any(heavier) {
            break;
        }
    }
    best.ok_or(reason)
}

fn unfit(shape: &Shape, id: BucketId, bucket: &Bucket) -> Option<Unfit> {
    if !shape.admitted_by(id, bucket) {
        return Some(Unfit::NoBucketAdmits);
    }
    bucket.allocatable.shortage(shape.requests).map(Unfit::TooLarge)
}

fn closer(a: Unfit, b: Unfit) -> Unfit {
    let rank = |unfit| match unfit {
        Unfit::NoBucketAdmits => None,
        Unfit::TooLarge(resource) => Some::<Resource>(resource),
    };
    if rank(b) > rank(a) { b } else { a }
}
