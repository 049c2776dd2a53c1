//! The record of one tick.

use chrono::{DateTime, Utc};
use embedder::{BucketId, Shape, VirtualInstance};

/// The number that identifies a shape, from 0, in the order of first use in this process.
pub type ShapeId = u32;

/// The record of one tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The time of the tick.
    pub time: DateTime<Utc>,
    /// Per bucket of the catalog.
    pub buckets: Vec<BucketTick>,
    /// For the most frequent shapes, how many more pods fit on occupied nodes.
    pub room: Vec<(ShapeId, u64)>,
    /// Shapes that arrived for the first time since the last tick.
    pub first_seen: Vec<(ShapeId, Shape)>,
    /// Pods submitted since the last tick, by shape.
    pub arrivals: Vec<(ShapeId, u64)>,
    /// Gangs submitted since the last tick that are larger than an instance, by what they need.
    pub gangs: Vec<(VirtualInstance, u64)>,
    /// Of the pods in `arrivals`, those that belong to a tier, by bucket and tier.
    pub tiers: Vec<TierArrivals>,
    /// What each namespace submitted since the last tick, by bucket and namespace. Empty where
    /// namespaces are not known, as in job logs.
    pub namespaces: Vec<NamespaceArrivals>,
    /// The percentage of the headroom that the rollout of the policy let stand. Absent if all of it
    /// stood.
    pub rollout_percent: Option<u8>,
}

/// The pods of a tier that were submitted since the last tick and for which a new instance would be
/// of this bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TierArrivals {
    /// The index of the bucket in the catalog.
    pub bucket: BucketId,
    /// The name of the tier.
    pub tier: String,
    /// The number of pods.
    pub pods: u64,
}

/// The pods of a namespace that were submitted since the last tick and for which a new instance
/// would be of this bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceArrivals {
    /// The index of the bucket in the catalog.
    pub bucket: BucketId,
    /// The name of the namespace.
    pub namespace: String,
    /// The instances that the pods fill, in thousandths of an instance.
    pub millis: u64,
}

/// The record of one bucket at a tick, in instances, except the pods that started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketTick {
    /// Present demand.
    pub demand: u64,
    /// The maximum of present demand since the last tick.
    pub demand_max: u64,
    /// Announced demand.
    pub announced: u64,
    /// Placeholders on nodes.
    pub ready: u64,
    /// The number of pods that started since the last tick and had waited for no node: they waited
    /// no longer than one scan of the autoscaler.
    pub pods_hidden: u64,
    /// The number of pods that started since the last tick and had waited longer than one scan of
    /// the autoscaler.
    pub pods_waited: u64,
}
