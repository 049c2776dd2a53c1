//! Buckets (instance types with their capacity type), their groups, and the shapes of pods that go into them.
//!
//! A [`Catalog`] is sorted ascending and checked once; nothing downstream checks it again.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::pack::Unfit;
use crate::resources::{Resource, Resources};

/// The place of a bucket in its [`Catalog`], ascending.
pub type BucketId = usize;

/// The extended resource that an accelerator is asked for by, such as `nvidia.com/gpu`. Kinds do not mix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcceleratorKind(Arc<str>);

impl AcceleratorKind {
    /// NVIDIA GPUs.
    pub const NVIDIA: &'static str = "nvidia.com/gpu";
    /// AMD GPUs.
    pub const AMD: &'static str = "amd.com/gpu";
    /// AWS Trainium and Inferentia.
    pub const NEURON: &'static str = "aws.amazon.com/neuron";

    /// The kind of this resource name.
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

/// Millionths of a dollar: exact where prices are, and an hour of a million nodes fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroDollars(pub u64);

impl MicroDollars {
    /// The nearest amount to `dollars`; `None` when it is negative, not a number or above a billion.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
        (0.0..=1e9).contains(&dollars).then(|| Self((dollars * 1e6).round() as u64))
    }

    /// In dollars.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// `n` times this, saturating.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

/// How an instance is bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// Paid by the second, kept until given back.
    #[default]
    OnDemand,
    /// Cheaper, and may be taken away.
    Spot,
}

/// One Auto Scaling group, or the nodes that carry one value of the placement-group label, of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name, unique in the catalog.
    pub name: String,
    /// The placement group that its instances start in.
    pub placement_group: Option<String>,
    /// The fewest instances that it keeps.
    pub min: u64,
    /// The most instances that it may have.
    pub max: u64,
}

/// An instance type with its capacity type and kind of accelerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its name: the instance type, with `/spot` where it is bought so.
    pub name: String,
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// The kind of its accelerators, where it has any.
    pub accelerator_kind: AcceleratorKind,
    /// What pods can have of one instance, [`crate::UNLIMITED`] where nothing limits them.
    pub allocatable: Resources,
    /// The price of an instance for an hour.
    pub hourly: MicroDollars,
    /// Where its instances can be started: at least one group.
    pub groups: Vec<Group>,
}

/// The buckets on offer, ascending by allocatable resources, then price, then name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    buckets: Vec<Bucket>,
}

/// Why a list of buckets is no catalog.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// There is no bucket at all.
    #[error("a catalog needs at least one instance type")]
    Empty,
    /// Two buckets have one name.
    #[error("instance type {0} is listed twice")]
    BucketTwice(String),
    /// Two groups have one name.
    #[error("group {0} is listed twice")]
    GroupTwice(String),
    /// A bucket without a group.
    #[error("instance type {0} has no group")]
    NoGroup(String),
    /// A group whose minimum is above its maximum.
    #[error("group {0} has min {1} above max {2}")]
    MinAboveMax(String, u64, u64),
}

impl Catalog {
    /// Sorts and checks the buckets.
    ///
    /// # Errors
    /// No bucket, a bucket without a group, a name given twice, or a minimum above its maximum.
    pub fn new(mut buckets: Vec<Bucket>) -> Result<Self, CatalogError> {
        buckets.sort_by(|a, b| {
            (a.allocatable, a.hourly).cmp(&(b.allocatable, b.hourly)).then_with(|| a.name.cmp(&b.name))
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
        Ok(Self { buckets })
    }

    /// The buckets, ascending.
    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// How many buckets there are.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Never: a catalog has at least one bucket.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The buckets that a pod of this shape may use and fits on when they are empty.
    ///
    /// # Errors
    /// Why there is none: nothing admits it, or the resource that keeps it off the bucket that comes closest.
    pub fn buckets_for(&self, shape: &Shape) -> Result<BucketSet, Unfit> {
        let mut fitting = BucketSet::none();
        let mut shortage: Option<Resource> = None;
        let mut admitted = false;
        for (id, bucket) in self.buckets.iter().enumerate() {
            if !shape.admitted_by(id, bucket) {
                continue;
            }
            admitted = true;
            match bucket.allocatable.shortage(shape.asks) {
                None => fitting.insert(id),
                // The bucket that has enough of the dearest resources comes closest.
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
    /// Whether the buckets beyond `words` are in it.
    beyond: bool,
}

impl BucketSet {
    /// Every bucket.
    pub fn all() -> Self {
        Self { words: Vec::new(), beyond: true }
    }

    /// No bucket.
    pub fn none() -> Self {
        Self { words: Vec::new(), beyond: false }
    }

    /// These buckets.
    pub fn only(ids: impl IntoIterator<Item = BucketId>) -> Self {
        let mut set = Self::none();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }

    /// Adds a bucket.
    pub fn insert(&mut self, id: BucketId) {
        if self.contains(id) {
            return;
        }
        if self.words.len() <= id / 64 {
            self.words.resize(id / 64 + 1, 0);
        }
        self.words[id / 64] |= 1 << (id % 64);
    }

    /// Whether the bucket is in it.
    pub fn contains(&self, id: BucketId) -> bool {
        self.words.get(id / 64).map_or(self.beyond, |word| word >> (id % 64) & 1 == 1)
    }

    /// The first bucket in it, ascending.
    pub fn first(&self) -> Option<BucketId> {
        let set = self.words.iter().enumerate().find(|&(_, &word)| word != 0);
        let bit = set.map(|(at, word)| at * 64 + word.trailing_zeros() as usize);
        bit.or_else(|| self.beyond.then_some(self.words.len() * 64))
    }

    /// Whether it holds no bucket.
    pub fn is_empty(&self) -> bool {
        !self.beyond && self.words.iter().all(|&word| word == 0)
    }

    /// The buckets modulo 64 as bits: two sets whose masks do not meet have no bucket in common.
    pub(crate) fn mask(&self) -> u64 {
        if self.beyond { u64::MAX } else { self.words.iter().fold(0, |mask, word| mask | word) }
    }
}

/// What a pod asks for and where it may go. Pods of one shape are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// What one pod asks for, with `pods: 1`.
    pub asks: Resources,
    /// The kind of the accelerators that it asks for; without a meaning when it asks for none.
    pub accelerator_kind: AcceleratorKind,
    /// The buckets that its selectors, affinity, tolerations and architecture admit.
    pub admits: BucketSet,
}

impl Shape {
    /// A shape that every bucket admits, taking one pod slot.
    pub fn new(asks: Resources, accelerator_kind: AcceleratorKind) -> Self {
        Self { asks: Resources { pods: 1, ..asks }, accelerator_kind, admits: BucketSet::all() }
    }

    /// Whether the bucket admits it, by policy and by kind of accelerator; not whether it fits.
    pub fn admitted_by(&self, id: BucketId, bucket: &Bucket) -> bool {
        let right_kind = self.asks.accelerators == 0
            || (bucket.allocatable.accelerators > 0 && self.accelerator_kind == bucket.accelerator_kind);
        right_kind && self.admits.contains(id)
    }
}
