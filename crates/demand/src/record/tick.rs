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
    /// Planned demand that ended since the last tick. Empty without planned demand.
    pub kept: Vec<KeptPlan>,
    /// Steps of workflows that ended since the last tick. Empty without workflows.
    pub runs: Vec<StepRun>,
    /// The percentage of the headroom that the rollout of the policy let stand. Absent if all of it
    /// stood.
    pub rollout_percent: Option<u8>,
}

/// What became of the planned pods of one author that were to come together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct KeptPlan {
    /// Who planned them.
    pub author: String,
    /// The number of planned pods.
    pub planned: u64,
    /// Of these, the pods that came.
    pub came: u64,
}

/// How long a step of a workflow took.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct StepRun {
    /// The template of the step: steps of one template take about the same time.
    pub template: String,
    /// The time from when its pods were created until they ended, in seconds.
    pub seconds: u32,
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
    /// Present demand, with what is held for planned pods.
    pub demand: u64,
    /// The maximum of that demand since the last tick.
    pub demand_max: u64,
    /// The part of the rise of demand since the last tick that is due to planned pods of which the
    /// policy knew for as long as a launch takes. No forecast is needed for them.
    pub planned: u64,
    /// The notice of planned pods that are among the arrivals, because the policy knew of them for
    /// less time than a launch takes: the sum over pods, in thousandths of a launch.
    pub notice: u64,
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
