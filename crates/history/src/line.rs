//! One line of the history: the record of a tick in version 1 of the format.
//!
//! A line identifies buckets and shapes by name, never by number, so that another process can read
//! it. Unknown fields are kept. A line of a newer version is refused, because its meaning is
//! unknown.

use std::collections::BTreeMap;

use chrono::{DateTime, SubsecRound as _, Utc};
use demand::record::{
    BucketTick, KeptPlan, NamespaceArrivals, ShapeId, Shapes, StepRun, Tick, TierArrivals,
    sum_by_key,
};
use embedder::{Bucket, BucketId, Catalog, Shape, VirtualInstance};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::finished::{FinishedPods, Offered};
use super::shape_key::{parse_shape_key, shape_key};

/// The version of the format that this build writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// The record of a tick, as files contain it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The version of the format.
    pub v: u32,
    /// The time of the tick, truncated to microseconds.
    #[serde(deserialize_with = "to_the_microsecond")]
    pub time: DateTime<Utc>,
    /// The policy, as NAMESPACE.NAME.
    pub policy: String,
    /// The buckets by their names.
    pub buckets: BTreeMap<String, BucketLine>,
    /// Launches that ended since the last tick.
    #[serde(default)]
    pub launches: Vec<EndedLaunch>,
    /// The nodes launched for placeholders to which the first batch pod came since the last tick.
    /// Absent in lines of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<UsedLaunch>,
    /// The percentage of the headroom that the rollout of the policy let stand. Absent if all of it
    /// stood, and in lines of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_percent: Option<u8>,
    /// Planned demand that ended since the last tick. Absent in lines of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptPlan>,
    /// Steps of workflows that ended since the last tick. Absent in lines of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<StepRun>,
    /// Pods that ended since the last tick.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finished: Vec<FinishedPods>,
    /// The buckets on offer, in the first line of a day, after a start and after a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offered>,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The record of one bucket, in instances, and of the shapes that are listed under it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketLine {
    /// Present demand.
    #[serde(deserialize_with = "count")]
    pub demand: u64,
    /// The maximum of present demand since the last tick.
    #[serde(deserialize_with = "count")]
    pub demand_max: u64,
    /// Announced demand.
    #[serde(deserialize_with = "count")]
    pub announced: u64,
    /// The headroom of the plan.
    #[serde(deserialize_with = "count")]
    pub headroom: u64,
    /// Placeholders that had a node or waited for one.
    #[serde(deserialize_with = "count")]
    pub placeholders: u64,
    /// Placeholders that had a node.
    #[serde(deserialize_with = "count")]
    pub ready: u64,
    /// Pods that started since the last tick and had waited no longer than one scan of the
    /// autoscaler. Absent in lines of earlier builds.
    #[serde(default, deserialize_with = "count")]
    pub pods_hidden: u64,
    /// Pods that started since the last tick and had waited longer. Absent in lines of earlier
    /// builds.
    #[serde(default, deserialize_with = "count")]
    pub pods_waited: u64,
    /// The part of the rise of demand since the last tick that is due to planned pods. Absent in
    /// lines of earlier builds.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "is_zero")]
    pub planned: u64,
    /// The notice of planned pods among the arrivals, in thousandths of a launch. Absent in lines
    /// of earlier builds.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "is_zero")]
    pub notice: u64,
    /// Of the placeholders that had a node, those whose instances are paid whether they run or not.
    /// Absent in lines of earlier builds.
    #[serde(default, deserialize_with = "count", skip_serializing_if = "is_zero")]
    pub prepaid: u64,
    /// For the most frequent shapes, how many more pods fit on occupied nodes.
    #[serde(default)]
    pub room: BTreeMap<String, u64>,
    /// Pods submitted since the last tick, by shape.
    #[serde(default)]
    pub arrivals: BTreeMap<String, u64>,
    /// Gangs submitted since the last tick that are larger than an instance, by the number of
    /// instances that one needs. Absent in lines of earlier builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gangs: BTreeMap<String, u64>,
    /// Of the pods submitted since the last tick, those that belong to a tier, by its name. They
    /// are listed under the smallest bucket that they fit. Absent in lines of earlier builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, u64>,
    /// The instances that the pods fill that each namespace submitted since the last tick, in
    /// thousandths of an instance. They are listed under the smallest bucket that they fit. Absent
    /// in lines of earlier builds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, u64>,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl BucketLine {
    /// The names of the counts, in the order of [`Self::counts`].
    pub const COUNTS: [&str; 11] = [
        "demand",
        "demand_max",
        "announced",
        "headroom",
        "placeholders",
        "ready",
        "pods_hidden",
        "pods_waited",
        "planned",
        "notice",
        "prepaid",
    ];

    /// Returns the counts, whose names are [`Self::COUNTS`] in the same order.
    pub fn counts(&self) -> [u64; Self::COUNTS.len()] {
        let &Self { demand, demand_max, announced, headroom, placeholders, ready, .. } = self;
        let &Self { pods_hidden, pods_waited, planned, notice, prepaid, .. } = self;
        [
            demand,
            demand_max,
            announced,
            headroom,
            placeholders,
            ready,
            pods_hidden,
            pods_waited,
            planned,
            notice,
            prepaid,
        ]
    }

    /// Returns a bucket with these counts and without shapes.
    pub(crate) fn of_counts(counts: [u64; Self::COUNTS.len()]) -> Self {
        let [
            demand,
            demand_max,
            announced,
            headroom,
            placeholders,
            ready,
            pods_hidden,
            pods_waited,
            planned,
            notice,
            prepaid,
        ] = counts;
        Self {
            demand,
            demand_max,
            announced,
            headroom,
            placeholders,
            ready,
            pods_hidden,
            pods_waited,
            planned,
            notice,
            prepaid,
            ..Self::default()
        }
    }
}

/// A launch of a node that ended, because the node became ready or the time limit passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedLaunch {
    /// The bucket's name.
    pub bucket: String,
    /// The group's name.
    pub group: String,
    /// When the node was requested: when a placeholder's scheduling gate was removed, or when the
    /// pod that waited was created.
    #[serde(deserialize_with = "to_the_microsecond")]
    pub requested: DateTime<Utc>,
    /// How it ended.
    #[serde(flatten)]
    pub end: LaunchEnd,
    /// Whether the instance was prepared in a warm pool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_warm_pool: bool,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How a launch ended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchEnd {
    /// A placeholder was scheduled to the node, so no pod waited for the node.
    Ready(#[serde(deserialize_with = "to_the_microsecond")] DateTime<Utc>),
    /// The node became ready, and a pod had waited for it.
    WaitedFor(#[serde(deserialize_with = "to_the_microsecond")] DateTime<Utc>),
    /// The placeholder had no node at the end of the time limit for a launch.
    Failed(#[serde(deserialize_with = "to_the_microsecond")] DateTime<Utc>),
}

/// A node that was launched for a placeholder, and to which a batch pod came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsedLaunch {
    /// The bucket's name.
    pub bucket: String,
    /// The group's name.
    pub group: String,
    /// When the placeholder's scheduling gate was removed.
    #[serde(deserialize_with = "to_the_microsecond")]
    pub requested: DateTime<Utc>,
    /// When the placeholder was scheduled to the node.
    #[serde(deserialize_with = "to_the_microsecond")]
    pub ready: DateTime<Utc>,
    /// When the pod was created. A pod that was created before `ready` waited for the node.
    #[serde(deserialize_with = "to_the_microsecond")]
    pub submitted: DateTime<Utc>,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl UsedLaunch {
    /// The waiting that the launch saved the pod, in seconds. Without the placeholder, the pod
    /// would have waited for the whole launch from its submission on.
    pub fn saved_seconds(&self) -> i64 {
        (self.submitted.min(self.ready) - self.requested).num_seconds().max(0)
    }
}

/// The fields of a bucket in a line that a [`Tick`] does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketExtras {
    /// The headroom of the plan.
    pub headroom: u64,
    /// Placeholders that had a node or waited for one.
    pub placeholders: u64,
    /// Of those that had a node, those whose instances are paid whether they run or not.
    pub prepaid: u64,
}

/// A line with the bucket and shape numbers of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// The recorded tick.
    pub tick: Tick,
    /// The launches of buckets that are still on offer.
    pub launches: Vec<EndedLaunch>,
    /// The number of shapes that were omitted, because their key cannot be parsed or there are too
    /// many.
    pub left_out: usize,
}

/// Why a text is not a line of the history.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The text is not JSON, or a field is missing or invalid.
    #[error("not a line of the history")]
    Malformed(#[source] serde_json::Error),
    /// The version is newer than [`VERSION`].
    #[error("field v: version {0} is newer than {VERSION}, the newest that this build reads")]
    Newer(u64),
    /// There is no such version.
    #[error("field v: there is no version {0}")]
    NoSuchVersion(u64),
}

impl Line {
    /// The line of a tick.
    ///
    /// `extras` has one entry per bucket, in the order of the catalog; missing entries are zero.
    /// Each shape is listed under the smallest bucket that it fits. A shape that fits no bucket is
    /// listed under the smallest bucket of all.
    pub fn new(
        policy: &str,
        tick: &Tick,
        extras: &[BucketExtras],
        launches: Vec<EndedLaunch>,
        catalog: &Catalog,
        shapes: &Shapes,
    ) -> Self {
        let mut lines: Vec<BucketLine> = (0..catalog.len())
            .map(|id| {
                let bucket = tick.buckets.get(id).copied().unwrap_or_default();
                let BucketTick { demand, demand_max, announced, ready, .. } = bucket;
                let BucketTick { pods_hidden, pods_waited, planned, notice, .. } = bucket;
                let BucketExtras { headroom, placeholders, prepaid } =
                    extras.get(id).copied().unwrap_or_default();
                let counts = [
                    demand,
                    demand_max,
                    announced,
                    headroom,
                    placeholders,
                    ready,
                    pods_hidden,
                    pods_waited,
                    planned,
                    notice,
                    prepaid,
                ];
                BucketLine::of_counts(counts.map(|count| count.min(COUNT_MAX)))
            })
            .collect();
        let under = |shape: &Shape| -> BucketId {
            catalog.buckets_for(shape).ok().and_then(|fitting| fitting.first()).unwrap_or_default()
        };
        let named = |counts: &[(ShapeId, u64)]| -> Vec<(BucketId, String, u64)> {
            let shape = |&(id, count): &(ShapeId, u64)| shapes.get(id).map(|shape| (shape, count));
            let named = |(shape, count)| (under(shape), shape_key(shape, catalog), count);
            counts.iter().filter_map(shape).map(named).collect()
        };
        for (bucket, key, count) in named(&tick.room) {
            lines[bucket].room.insert(key, count);
        }
        for (bucket, key, count) in named(&tick.arrivals) {
            lines[bucket].arrivals.insert(key, count);
        }
        for (VirtualInstance { bucket, instances }, count) in &tick.gangs {
            if let Some(line) = lines.get_mut(*bucket) {
                line.gangs.insert(instances.to_string(), *count);
            }
        }
        for TierArrivals { bucket, tier, pods } in &tick.tiers {
            if let Some(line) = lines.get_mut(*bucket) {
                line.tiers.insert(tier.clone(), *pods);
            }
        }
        for NamespaceArrivals { bucket, namespace, millis } in &tick.namespaces {
            if let Some(line) = lines.get_mut(*bucket) {
                line.namespaces.insert(namespace.clone(), *millis);
            }
        }
        Self {
            v: VERSION,
            time: tick.time.trunc_subsecs(6),
            policy: policy.into(),
            buckets: catalog
                .buckets()
                .iter()
                .map(|bucket| bucket.name.clone())
                .zip(lines)
                .collect(),
            launches,
            used: Vec::new(),
            rollout_percent: tick.rollout_percent,
            kept: tick.kept.clone(),
            runs: tick.runs.clone(),
            finished: Vec::new(),
            offered: None,
            rest: Map::new(),
        }
    }

    /// By bucket of the catalog: the target of the plan at the tick; zero for a bucket that is new.
    pub fn targets(&self, catalog: &Catalog) -> Vec<u64> {
        let target =
            |bucket: &Bucket| self.buckets.get(&bucket.name).map_or(0, |line| line.headroom);
        catalog.buckets().iter().map(target).collect()
    }

    /// Parses a line.
    ///
    /// # Errors
    /// Returns an error if the text is not a line, or a line of a newer version.
    pub fn parse(text: &[u8]) -> Result<Self, LineError> {
        /// The field that every version has.
        #[derive(Deserialize)]
        struct Versioned {
            v: u64,
        }
        let Versioned { v } = serde_json::from_slice(text).map_err(LineError::Malformed)?;
        match v {
            0 => Err(LineError::NoSuchVersion(v)),
            1 => serde_json::from_slice(text).map_err(LineError::Malformed),
            newer => Err(LineError::Newer(newer)),
        }
    }

    /// The text of the line, without a line end.
    ///
    /// # Errors
    /// Returns an error if the line cannot be serialized. No such line is known, because all fields
    /// are texts, numbers and times.
    pub fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The recorded tick, with the bucket and shape numbers of this process.
    ///
    /// A bucket of the catalog that the line does not have is zero. A bucket of the line that the
    /// catalog does not have is dropped. Shapes that are new to `shapes` are in
    /// [`Tick::first_seen`]. Counts are in the order of their shapes.
    pub fn recall(&self, catalog: &Catalog, shapes: &mut Shapes) -> Recalled {
        let mut recalled = Recalled {
            tick: Tick {
                time: self.time,
                buckets: Vec::new(),
                room: Vec::new(),
                first_seen: Vec::new(),
                arrivals: Vec::new(),
                gangs: Vec::new(),
                tiers: Vec::new(),
                namespaces: Vec::new(),
                kept: self.kept.clone(),
                runs: self.runs.clone(),
                rollout_percent: self.rollout_percent,
            },
            launches: Vec::new(),
            left_out: 0,
        };
        for (id, bucket) in catalog.buckets().iter().enumerate() {
            let line = self.buckets.get(&bucket.name);
            recalled.tick.gangs.extend(line.into_iter().flat_map(|line| gangs(id, line)));
            let tiers = line.into_iter().flat_map(|line| &line.tiers);
            let tiers = tiers.map(|(tier, &pods)| (tier.clone(), pods));
            let tiers = tiers.map(|(tier, pods)| TierArrivals { bucket: id, tier, pods });
            recalled.tick.tiers.extend(tiers);
            let namespaces = line.into_iter().flat_map(|line| &line.namespaces);
            let namespaces = namespaces.map(|(namespace, &millis)| NamespaceArrivals {
                bucket: id,
                namespace: namespace.clone(),
                millis,
            });
            recalled.tick.namespaces.extend(namespaces);
            recalled.tick.buckets.push(line.map_or_else(BucketTick::default, |line| BucketTick {
                demand: line.demand,
                demand_max: line.demand_max,
                announced: line.announced,
                ready: line.ready,
                pods_hidden: line.pods_hidden,
                pods_waited: line.pods_waited,
                planned: line.planned,
                notice: line.notice,
            }));
        }
        // The shapes of a dropped bucket are read, too, because they may fit another bucket.
        for line in self.buckets.values() {
            let room = numbered(&line.room, catalog, shapes, &mut recalled);
            recalled.tick.room.extend(room);
            let arrivals = numbered(&line.arrivals, catalog, shapes, &mut recalled);
            recalled.tick.arrivals.extend(arrivals);
        }
        merge(&mut recalled.tick.room);
        merge(&mut recalled.tick.arrivals);
        let on_offer = |launch: &&EndedLaunch| {
            catalog.buckets().iter().any(|bucket| bucket.name == launch.bucket)
        };
        recalled.launches = self.launches.iter().filter(on_offer).cloned().collect();
        recalled
    }
}

/// The gangs of a bucket, by size. A size that is not a number is left out.
fn gangs(
    bucket: BucketId,
    line: &BucketLine,
) -> impl Iterator<Item = (VirtualInstance, u64)> + use<'_> {
    let size = |text: &String| text.parse().ok();
    let mut gangs: Vec<(u64, u64)> =
        line.gangs.iter().filter_map(|(text, count)| Some((size(text)?, *count))).collect();
    gangs.sort_unstable();
    gangs.into_iter().map(move |(instances, count)| (VirtualInstance { bucket, instances }, count))
}

fn numbered(
    counts: &BTreeMap<String, u64>,
    catalog: &Catalog,
    shapes: &mut Shapes,
    recalled: &mut Recalled,
) -> Vec<(ShapeId, u64)> {
    let mut numbered = Vec::with_capacity(counts.len());
    for (key, count) in counts {
        let Some((id, new)) = shapes.intern_key(key, || parse_shape_key(key, catalog).ok()) else {
            recalled.left_out += 1;
            continue;
        };
        if new {
            recalled.tick.first_seen.extend(shapes.get(id).map(|shape| (id, shape.clone())));
        }
        numbered.push((id, *count));
    }
    numbered
}

/// Sorts counts by shape and adds the counts of equal shapes.
///
/// Two keys denote one shape if they differ only in buckets that the catalog no longer has.
fn merge(counts: &mut Vec<(ShapeId, u64)>) {
    counts.sort_unstable();
    sum_by_key(counts, u64::saturating_add);
}

/// The greatest count that a Parquet column can hold. Columns are signed, because not all readers
/// have unsigned integers.
const COUNT_MAX: u64 = i64::MAX.unsigned_abs();

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let count = u64::deserialize(deserializer)?;
    if count > COUNT_MAX {
        return Err(serde::de::Error::custom(format!("{count} is more than {COUNT_MAX}")));
    }
    Ok(count)
}

/// Truncates a time to microseconds, the resolution of the Parquet column.
fn to_the_microsecond<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<DateTime<Utc>, D::Error> {
    Ok(DateTime::deserialize(deserializer)?.trunc_subsecs(6))
}

#[cfg(test)]
mod tests;
