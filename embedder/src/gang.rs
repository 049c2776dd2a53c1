//! Pods that start together, as virtual instances: k instances of one bucket, dealt to one placement group as a whole.

use crate::bucket::{Bucket, BucketId, Catalog, Shape};
use crate::pack::{Ask, Order, Unfit, pack};
use crate::resources::{Resource, Resources};

/// How a job that is larger than an instance is cut into pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// Full instances and a remainder: 20 GPUs on 8-GPU instances are 8 + 8 + 4.
    #[default]
    Full,
    /// The same number of pods, as even as can be: 20 GPUs on 8-GPU instances are 7 + 7 + 6.
    Even,
}

/// Pods that are placed all at once or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gang {
    /// Its pods.
    pub asks: Vec<Ask>,
    /// Whether all of them must be in one placement group.
    pub one_placement_group: bool,
}

/// Instances of one bucket that one gang takes together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualInstance {
    /// Their bucket.
    pub bucket: BucketId,
    /// How many.
    pub instances: u64,
    /// Whether all of them must be in one placement group.
    pub one_placement_group: bool,
}

/// Cuts `units` of `unit` into pods no larger than an instance of `bucket`, largest first, as (what one asks for,
/// how many); `None` when not even one unit fits.
pub fn split(units: u64, unit: Resources, bucket: &Bucket, how: Split) -> Option<Vec<(Resources, u64)>> {
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
    Some(sizes.into_iter().filter(|&(units, pods)| units > 0 && pods > 0).map(|(u, n)| (pod(u), n)).collect())
}

/// The instances that a gang takes: one of the first bucket, ascending, that holds it whole, else as many as it needs
/// of the bucket that needs the fewest, the cheapest of those.
///
/// # Errors
/// No single bucket takes every pod of the gang.
pub fn virtual_instance(gang: &Gang, catalog: &Catalog) -> Result<VirtualInstance, Unfit> {
    let mut best: Option<(u64, u64, BucketId)> = None;
    let mut reason = Unfit::NoBucketAdmits;
    for (id, bucket) in catalog.buckets().iter().enumerate() {
        if let Some(unfit) = gang.asks.iter().find_map(|ask| unfit(&ask.shape, id, bucket)) {
            reason = closer(reason, unfit);
            continue;
        }
        let on_this = |ask: &Ask| Ask {
            shape: Shape { admits: crate::BucketSet::only([id]), ..ask.shape.clone() },
            count: ask.count,
        };
        let asks: Vec<Ask> = gang.asks.iter().map(on_this).collect();
        let instances = pack(&asks, &[], catalog, Order::Decreasing).opened[id];
        let candidate = (instances, bucket.hourly.0.saturating_mul(instances), id);
        if best.is_none_or(|best| candidate < best) {
            best = Some(candidate);
        }
        if instances <= 1 {
            break;
        }
    }
    let one_placement_group = gang.one_placement_group;
    best.map(|(instances, _, bucket)| VirtualInstance { bucket, instances, one_placement_group })
        .ok_or(reason)
}

fn unfit(shape: &Shape, id: BucketId, bucket: &Bucket) -> Option<Unfit> {
    if !shape.admitted_by(id, bucket) {
        return Some(Unfit::NoBucketAdmits);
    }
    bucket.allocatable.shortage(shape.asks).map(Unfit::TooLarge)
}

fn closer(a: Unfit, b: Unfit) -> Unfit {
    let rank = |unfit| match unfit {
        Unfit::NoBucketAdmits => None,
        Unfit::TooLarge(resource) => Some::<Resource>(resource),
    };
    if rank(b) > rank(a) { b } else { a }
}
