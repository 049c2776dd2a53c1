//! One line of the history: what a tick was, in the words of format version 1.
//!
//! Buckets and shapes are named, never numbered, so that a line outlives the run that wrote it. Fields that we do not know
//! are kept. A line of a newer version is refused: what it means is not ours to guess.

use std::collections::BTreeMap;

use chrono::{DateTime, SubsecRound as _, Utc};
use embedder::{BucketId, Catalog, Shape};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::shapes::{Shapes, shape_key};
use super::{BucketTick, ShapeId, Tick};

/// The version of the format that we write, and the newest that we read.
pub const VERSION: u32 = 1;

/// What is recorded at a tick, as it lies in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The version of the format.
    pub v: u32,
    /// When, to the microsecond.
    #[serde(deserialize_with = "to_the_microsecond")]
    pub time: DateTime<Utc>,
    /// The policy, as NAMESPACE.NAME.
    pub policy: String,
    /// The buckets by their names.
    pub buckets: BTreeMap<String, BucketLine>,
    /// Launches that ended since the last tick.
    #[serde(default)]
    pub launches: Vec<Launch>,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// What is recorded of one bucket, in instances, and of the shapes that are listed under it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BucketLine {
    /// Present demand.
    #[serde(deserialize_with = "count")]
    pub demand: u64,
    /// Its maximum since the last tick.
    #[serde(deserialize_with = "count")]
    pub demand_max: u64,
    /// Announced demand.
    #[serde(deserialize_with = "count")]
    pub announced: u64,
    /// What the plan wanted beyond present demand.
    #[serde(deserialize_with = "count")]
    pub headroom: u64,
    /// Placeholders that stood or were on their way.
    #[serde(deserialize_with = "count")]
    pub placeholders: u64,
    /// Those that ran on a node.
    #[serde(deserialize_with = "count")]
    pub ready: u64,
    /// For the shapes that arrive most, how many more pods fit on occupied nodes.
    #[serde(default)]
    pub room: BTreeMap<String, u64>,
    /// Pods submitted since the last tick, by shape.
    #[serde(default)]
    pub arrivals: BTreeMap<String, u64>,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A launch that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// The bucket's name.
    pub bucket: String,
    /// The group's name.
    pub group: String,
    /// When the node was asked for: a placeholder's gate was lifted, or the pod that waited was made.
    #[serde(deserialize_with = "to_the_microsecond")]
    pub requested: DateTime<Utc>,
    /// How it ended.
    #[serde(flatten)]
    pub end: LaunchEnd,
    /// Fields that we do not know.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How a launch ended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchEnd {
    /// A placeholder was put on the node: no pod had waited for it.
    Ready(#[serde(deserialize_with = "to_the_microsecond")] DateTime<Utc>),
    /// A pod is on the node that had waited for it; when that was seen.
    WaitedFor(#[serde(deserialize_with = "to_the_microsecond")] DateTime<Utc>),
    /// It was given up.
    Failed(#[serde(deserialize_with = "to_the_microsecond")] DateTime<Utc>),
}

/// What a line has of a bucket beyond the [`Tick`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketExtras {
    /// What the plan wanted beyond present demand.
    pub headroom: u64,
    /// Placeholders that stood or were on their way.
    pub placeholders: u64,
}

/// A line, in the numbers of this run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// What was recorded.
    pub tick: Tick,
    /// The launches of buckets that are still on offer.
    pub launches: Vec<Launch>,
    /// Shapes that were left out: their key cannot be read, or there are too many.
    pub left_out: usize,
}

/// Why a text is no line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is no JSON, or a field is missing or wrong.
    #[error("not a line of the history")]
    Malformed(#[source] serde_json::Error),
    /// Its version is newer than ours.
    #[error("field v: version {0} is newer than {VERSION}, the newest that this build reads")]
    Newer(u64),
    /// There is no such version.
    #[error("field v: there is no version {0}")]
    NoSuchVersion(u64),
}

impl Line {
    /// The line of a tick. `extras` are parallel to the buckets of the catalog; missing ones are zero.
    ///
    /// Each shape is listed under the first bucket, ascending, that it fits; one that fits none, under the first.
    pub fn new(
        policy: &str,
        tick: &Tick,
        extras: &[BucketExtras],
        launches: Vec<Launch>,
        catalog: &Catalog,
        shapes: &Shapes,
    ) -> Self {
        let mut lines: Vec<BucketLine> = (0..catalog.len())
            .map(|id| {
                // What was hidden, or waited for, stands in the launches.
                let BucketTick { demand, demand_max, announced, ready, .. } =
                    tick.buckets.get(id).copied().unwrap_or_default();
                let BucketExtras { headroom, placeholders } = extras.get(id).copied().unwrap_or_default();
                let [demand, demand_max, announced, headroom, placeholders, ready] =
                    [demand, demand_max, announced, headroom, placeholders, ready]
                        .map(|count| count.min(COUNT_MAX));
                BucketLine {
                    demand,
                    demand_max,
                    announced,
                    headroom,
                    placeholders,
                    ready,
                    ..BucketLine::default()
                }
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
        Self {
            v: VERSION,
            time: tick.time.trunc_subsecs(6),
            policy: policy.into(),
            buckets: catalog.buckets().iter().map(|bucket| bucket.name.clone()).zip(lines).collect(),
            launches,
            rest: Map::new(),
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// It is no line, or one of a newer version.
    pub fn parse(text: &[u8]) -> Result<Self, LineError> {
        /// What every version has.
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

    /// The text of the line, without its end.
    ///
    /// # Errors
    /// None is known: all of it is text, numbers and times.
    pub fn text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// What was recorded, in the numbers of this run: a bucket that has appeared since is zero, one that has vanished is
    /// dropped, and shapes that are new to `shapes` were first seen here. Counts are in the order of their shapes.
    pub fn recall(&self, catalog: &Catalog, shapes: &mut Shapes) -> Recalled {
        let mut recalled = Recalled {
            tick: Tick {
                time: self.time,
                buckets: Vec::new(),
                room: Vec::new(),
                first_seen: Vec::new(),
                arrivals: Vec::new(),
            },
            launches: Vec::new(),
            left_out: 0,
        };
        for bucket in catalog.buckets() {
            let line = self.buckets.get(&bucket.name);
            let [hidden, waited_for] = launched(&self.launches, &bucket.name);
            recalled.tick.buckets.push(line.map_or_else(BucketTick::default, |line| BucketTick {
                demand: line.demand,
                demand_max: line.demand_max,
                announced: line.announced,
                ready: line.ready,
                hidden,
                waited_for,
            }));
        }
        // Shapes under a bucket that has vanished may fit another.
        for line in self.buckets.values() {
            let room = numbered(&line.room, catalog, shapes, &mut recalled);
            recalled.tick.room.extend(room);
            let arrivals = numbered(&line.arrivals, catalog, shapes, &mut recalled);
            recalled.tick.arrivals.extend(arrivals);
        }
        merge(&mut recalled.tick.room);
        merge(&mut recalled.tick.arrivals);
        let on_offer = |launch: &&Launch| catalog.buckets().iter().any(|bucket| bucket.name == launch.bucket);
        recalled.launches = self.launches.iter().filter(on_offer).cloned().collect();
        recalled
    }
}

/// How many launches of a bucket were hidden, and how many a pod waited for.
pub fn launched(launches: &[Launch], bucket: &str) -> [u64; 2] {
    launches.iter().filter(|launch| launch.bucket == bucket).fold([0, 0], |[hidden, waited_for], launch| {
        match launch.end {
            LaunchEnd::Ready(_) => [hidden + 1, waited_for],
            LaunchEnd::WaitedFor(_) => [hidden, waited_for + 1],
            LaunchEnd::Failed(_) => [hidden, waited_for],
        }
    })
}

fn numbered(
    counts: &BTreeMap<String, u64>,
    catalog: &Catalog,
    shapes: &mut Shapes,
    recalled: &mut Recalled,
) -> Vec<(ShapeId, u64)> {
    let mut numbered = Vec::with_capacity(counts.len());
    for (key, count) in counts {
        let Some((id, new)) = shapes.intern_key(key, catalog) else {
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

/// Two keys are one shape when what told them apart has vanished.
fn merge(counts: &mut Vec<(ShapeId, u64)>) {
    counts.sort_unstable();
    counts.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(next.1);
        }
        same
    });
}

/// The greatest count that a column of a Parquet file can have: signed, because not all readers know unsigned ones.
const COUNT_MAX: u64 = i64::MAX.unsigned_abs();

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let count = u64::deserialize(deserializer)?;
    if count > COUNT_MAX {
        return Err(serde::de::Error::custom(format!("{count} is more than {COUNT_MAX}")));
    }
    Ok(count)
}

/// What is finer does not survive a Parquet file.
fn to_the_microsecond<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    Ok(DateTime::deserialize(deserializer)?.trunc_subsecs(6))
}

#[cfg(test)]
mod tests;
