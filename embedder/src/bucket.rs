//! Buckets (instance types with their capacity type), their groups, and the shapes of pods.
//!
//! A [`Catalog`] is sorted in ascending order and validated once, so no later stage validates it
//! again.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resources::{Resource, Resources};

/// The index of a bucket in its [`Catalog`], ascending.
pub type BucketId = usize;

/// The name of an accelerator's extended resource, such as `nvidia.com/gpu`.
///
/// A pod that requests one kind never runs on accelerators of another kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcceleratorKind(Arc<str>);

impl AcceleratorKind {
    /// NVIDIA GPUs.
    pub const NVIDIA: &'static str = "nvidia.com/gpu";
    /// Habana's accelerators.
    pub const GAUDI: &'static str = "habana.ai/gaudi";
    /// AMD GPUs.
    pub const AMD: &'static str = "amd.com/gpu";
    /// AWS Trainium and Inferentia.
    pub const NEURON: &'static str = "aws.amazon.com/neuron";

    /// Returns the kind with this resource name.
    pub fn new(resource_name: &str) -> Self {
        Self(resource_name.into())
    }

    /// The resource name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for AcceleratorKind {
    fn default() -> Self {
        Self::new(Self::NVIDIA)
    }
}

impl fmt::Display for AcceleratorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An amount in millionths of a dollar.
///
/// Prices are exact in this unit, and the price of a million nodes for an hour fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroDollars(pub u64);

impl MicroDollars {
    /// Returns the amount nearest to `dollars`, or `None` if `dollars` is negative, not a number or
    /// above a billion.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        (0.0..=1e9).contains(&dollars).then(|| Self((dollars * 1e6).round() as u64))
    }

    /// Returns the amount in dollars.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the amount multiplied by `n`, saturating.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

/// The capacity type of an instance.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// An instance billed by the second, which runs until it is terminated.
    #[default]
    OnDemand,
    /// An instance with a lower price, which the cloud provider may reclaim.
    Spot,
}

/// An Auto Scaling group of one bucket, or the nodes of one bucket that carry one value of the
/// placement-group label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name, unique in the catalog.
    pub name: String,
    /// The placement group in which its instances start.
    pub placement_group: Option<String>,
    /// The minimum number of instances.
    pub min: u64,
    /// The maximum number of instances.
    pub max: u64,
    /// How strongly the autoscaler prefers the group, as a Karpenter pool's `weight` does: it
    /// launches nodes of the admitting groups with the largest weight. 0 where it has no
    /// preference.
    pub weight: u64,
}

/// An instance type with its capacity type and kind of accelerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The name: the instance type, followed by `/spot` for spot capacity, followed by what
    /// distinguishes it from other buckets of its instance type and capacity type, such as
    /// `m5.xlarge/spot/team=a,web:NoSchedule`.
    pub name: String,
    /// The capacity type of its instances.
    pub capacity_type: CapacityType,
    /// The kind of its accelerators, if it has any.
    pub accelerator_kind: AcceleratorKind,
    /// The allocatable resources of one instance, [`crate::UNLIMITED`] in components without a
    /// limit.
    pub allocatable: Resources,
    /// The price of one instance for one hour.
    pub hourly: MicroDollars,
    /// The groups in which its instances can be launched: at least one.
    pub groups: Vec<Group>,
}

/// What distinguishes a bucket from others of its instance type and capacity type, as its name has
/// it, separated by commas. Empty if nothing does.
pub fn parts_of_name(name: &str) -> &str {
    let Some((_, rest)) = name.split_once('/') else { return "" };
    match rest.strip_prefix("spot") {
        Some("") => "",
        Some(parts) if parts.starts_with('/') => &parts[1..],
        _ => rest,
    }
}

/// The instance type and capacity type in a bucket's name: the name without its parts.
pub fn plain_name(name: &str) -> &str {
    let parts = parts_of_name(name);
    if parts.is_empty() { name } else { &name[..name.len() - parts.len() - 1] }
}

/// The buckets on offer, ascending by allocatable resources, then price, then name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    buckets: Vec<Bucket>,
    /// The largest weight of the groups of each bucket that may have nodes.
    weights: Vec<u64>,
    devices: Vec<String>,
}

/// Why a list of buckets is not a valid catalog.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The list is empty.
    #[error("a catalog needs at least one instance type")]
    Empty,
    /// Two buckets have the same name.
    #[error("instance type {0} is listed twice")]
    BucketTwice(String),
    /// Two groups have the same name.
    #[error("group {0} is listed twice")]
    GroupTwice(String),
    /// A bucket has no group.
    #[error("instance type {0} has no group")]
    NoGroup(String),
    /// A group has a minimum above its maximum.
    #[error("group {0} has min {1} above max {2}")]
    MinAboveMax(String, u64, u64),
}

impl Catalog {
    /// Sorts and validates the buckets.
    ///
    /// # Errors
    /// The list has no bucket, a bucket has no group, a name is given twice, or a minimum is above
    /// its maximum.
    pub fn new(buckets: Vec<Bucket>) -> Result<Self, CatalogError> {
        Self::with_devices(buckets, Vec::new())
    }

    /// Like [`Catalog::new`], with the names of the devices in the order of their amounts. At most
    /// [`crate::DEVICES_MAX`] of them have amounts.
    ///
    /// # Errors
    /// Those of [`Catalog::new`].
    pub fn with_devices(
        mut buckets: Vec<Bucket>,
        devices: Vec<String>,
    ) -> Result<Self, CatalogError> {
        buckets.sort_by(|a, b| {
            (a.allocatable, a.hourly)
                .cmp(&(b.allocatable, b.hourly))
                .then_with(|| a.name.cmp(&b.name))
        });
        if buckets.is_empty() {
            return Err(CatalogError::Empty);
        }
        if let Some(name) = twice(buckets.iter().map(|b| &b.name)) {
            return Err(CatalogError::BucketTwice(name));
        }
        if let Some(name) = twice(buckets.iter().flat_map(|b| &b.groups).map(|g| &g.name)) {
            return Err(CatalogError::GroupTwice(name));
        }
        for bucket in &buckets {
            if bucket.groups.is_empty() {
                return Err(CatalogError::NoGroup(bucket.name.clone()));
            }
            if let Some(group) = bucket.groups.iter().find(|g| g.min > g.max) {
                return Err(CatalogError::MinAboveMax(group.name.clone(), group.min, group.max));
            }
        }
        let weight = |bucket: &Bucket| {
            let open = bucket.groups.iter().filter(|group| group.max > 0);
            open.map(|group| group.weight).max()
        };
        let weights = buckets.iter().map(|bucket| weight(bucket).unwrap_or(0)).collect();
        Ok(Self { buckets, weights, devices })
    }

    /// The buckets, ascending.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// The largest weight of the groups of a bucket, 0 for an unknown bucket.
    pub(crate) fn weight(&self, bucket: BucketId) -> u64 {
        self.weights.get(bucket).copied().unwrap_or(0)
    }

    /// The names of the devices, in the order of their amounts in [`crate::Resources::devices`].
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// The number of buckets.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Always false, because a catalog has at least one bucket.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The buckets, ascending, that a recorded name denotes: the bucket of that name. If there is
    /// none, all buckets of the same instance type and capacity type, because the name of a bucket
    /// changes when the groups of an instance type begin or cease to differ.
    pub fn named(&self, name: &str) -> Vec<BucketId> {
        let those = |of: &dyn Fn(&Bucket) -> bool| -> Vec<BucketId> {
            (0..self.len()).filter(|&id| of(&self.buckets[id])).collect()
        };
        let exact = those(&|bucket| bucket.name == name);
        if exact.is_empty() {
            those(&|bucket| plain_name(&bucket.name) == plain_name(name))
        } else {
            exact
        }
    }

    /// Returns the buckets that admit a pod of this shape and that it fits on while they are empty.
    ///
    /// # Errors
    /// No bucket admits the shape, or every bucket that admits it is too small. The second error
    /// carries the missing resource of the bucket that comes closest.
    pub fn buckets_for(&self, shape: &Shape) -> Result<BucketSet, Unfit> {
        let mut fitting = BucketSet::none();
        let mut shortage: Option<Resource> = None;
        let mut admitted = false;
        for (id, bucket) in self.buckets.iter().enumerate() {
            if !shape.admitted_by(id, bucket) {
                continue;
            }
            admitted = true;
            match bucket.allocatable.shortage(shape.requests) {
                None => fitting.insert(id),
                // The bucket that comes closest has enough of the resources with the highest cost
                // factors.
                Some(lacks) => shortage = shortage.max(Some(lacks)),
            }
        }
        match shortage {
            _ if !fitting.is_empty() => Ok(fitting),
            Some(resource) if admitted => Err(Unfit::TooLarge(resource)),
            _ => Err(Unfit::NoBucketAdmits),
        }
    }
}

fn twice<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name)).cloned()
}

/// A set of buckets of one catalog.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketSet {
    words: Vec<u64>,
    /// Whether the buckets beyond `words` are in the set.
    beyond: bool,
}

impl BucketSet {
    /// The set of all buckets.
    pub fn all() -> Self {
        Self { words: Vec::new(), beyond: true }
    }

    /// The empty set.
    pub fn none() -> Self {
        Self { words: Vec::new(), beyond: false }
    }

    /// The set of these buckets.
    pub fn only(ids: impl IntoIterator<Item = BucketId>) -> Self {
        let mut set = Self::none();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }

    /// Adds a bucket to the set.
    pub fn insert(&mut self, id: BucketId) {
        if self.contains(id) {
            return;
        }
        if self.words.len() <= id / 64 {
            self.words.resize(id / 64 + 1, 0);
        }
        self.words[id / 64] |= 1 << (id % 64);
    }

    /// Removes a bucket from the set.
    pub fn remove(&mut self, id: BucketId) {
        if !self.contains(id) {
            return;
        }
        if self.words.len() <= id / 64 {
            // Only buckets beyond the words are in the set without a bit of their own.
            self.words.resize(id / 64 + 1, u64::MAX);
        }
        self.words[id / 64] &= !(1 << (id % 64));
    }

    /// Whether the set contains the bucket.
    pub fn contains(&self, id: BucketId) -> bool {
        self.words.get(id / 64).map_or(self.beyond, |word| word >> (id % 64) & 1 == 1)
    }

    /// The first bucket of the set, ascending.
    pub fn first(&self) -> Option<BucketId> {
        let set = self.words.iter().enumerate().find(|&(_, &word)| word != 0);
        let bit = set.map(|(at, word)| at * 64 + word.trailing_zeros() as usize);
        bit.or_else(|| self.beyond.then_some(self.words.len() * 64))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        !self.beyond && self.words.iter().all(|&word| word == 0)
    }

    /// The buckets modulo 64, as bits. Two sets whose masks have no common bit have no common
    /// bucket.
    pub(crate) fn mask(&self) -> u64 {
        if self.beyond { u64::MAX } else { self.words.iter().fold(0, |mask, word| mask | word) }
    }
}

/// The requests of a pod and the buckets that admit it. Pods of one shape are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// The requests of one pod, with `pods: 1`.
    pub requests: Resources,
    /// The kind of the requested accelerators. It has no meaning if the pod requests none.
    pub accelerator_kind: AcceleratorKind,
    /// The buckets that the pod's selectors, affinity, tolerations and architecture admit.
    pub admits: BucketSet,
}

impl Shape {
    /// Returns a shape that every bucket admits and that takes one pod slot.
    pub fn new(requests: Resources, accelerator_kind: AcceleratorKind) -> Self {
        Self {
            requests: Resources { pods: 1, ..requests },
            accelerator_kind,
            admits: BucketSet::all(),
        }
    }

    /// Whether the bucket admits the shape, by `admits` and by the kind of accelerator. The size is
    /// not compared.
    pub fn admitted_by(&self, id: BucketId, bucket: &Bucket) -> bool {
        let right_kind = self.requests.accelerators == 0
            || (bucket.allocatable.accelerators > 0
                && self.accelerator_kind == bucket.accelerator_kind);
        right_kind && self.admits.contains(id)
    }
}

/// Why pods fit nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unfit {
    /// No bucket admits them, because of selectors, taints, architecture or kind of accelerator.
    NoBucketAdmits,
    /// Every bucket that admits them is too small. The bucket that comes closest lacks this
    /// resource.
    TooLarge(Resource),
}

impl Unfit {
    /// The spelling of the reason in metrics, events, status and messages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoBucketAdmits => "no_bucket_admits",
            Self::TooLarge(Resource::Accelerators) => "too_large: accelerators",
            Self::TooLarge(Resource::Devices) => "too_large: devices",
            Self::TooLarge(Resource::Cpu) => "too_large: cpu_millis",
            Self::TooLarge(Resource::Memory) => "too_large: memory_bytes",
            Self::TooLarge(Resource::Ephemeral) => "too_large: ephemeral_bytes",
            Self::TooLarge(Resource::Pods) => "too_large: pods",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        let bucket = |name: &&str| Bucket {
            name: (*name).into(),
            capacity_type: CapacityType::OnDemand,
            accelerator_kind: AcceleratorKind::default(),
            allocatable: Resources::default(),
            hourly: MicroDollars(0),
            groups: vec![Group {
                name: (*name).into(),
                placement_group: None,
                min: 0,
                max: 1,
                weight: 0,
            }],
        };
        let names = ["a.large", "a.large/spot", "b.large/spot/x:NoSchedule", "b.large/team=x"];
        let catalog = Catalog::new(names.iter().map(bucket).collect()).expect("distinct names");
        let found = catalog.named(name).into_iter();
        let found: Vec<&str> = found.map(|id| catalog.buckets()[id].name.as_str()).collect();
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn a_removed_bucket_is_not_in_the_set() {
        let mut set = BucketSet::all();
        set.remove(70);
        set.remove(70);
        let left: Vec<BucketId> = (0..200).filter(|id| !set.contains(*id)).collect();
        assert_eq!(left, [70]);
        set.insert(70);
        assert!((0..200).all(|id| set.contains(id)));
        let mut few = BucketSet::only([1, 3]);
        few.remove(3);
        few.remove(100);
        assert_eq!(few, BucketSet::only([1]));
    }

    #[test]
    fn a_name_that_is_gone_denotes_the_buckets_of_its_type() {
        check("a.large", &["a.large"]);
        check("a.large/spot", &["a.large/spot"]);
        check("a.large/team=x", &["a.large"]);
        check("a.large/spot/team=x", &["a.large/spot"]);
        check("b.large", &["b.large/team=x"]);
        check("b.large/team=y", &["b.large/team=x"]);
        check("b.large/spot", &["b.large/spot/x:NoSchedule"]);
        check("c.large", &[]);
        check("", &[]);
    }
}
