//! One line of the history: what a tick was, in the words of format version 1.
//!
//! Buckets and shapes are named, never numbered, so that a line outlives the run that wrote it. Fields that we do not know
//! are kept. A line of a newer version is refused: what it means is not ours to guess.

use std::collections::BTreeMap;

use chrono::{DateTime, SubsecRound as _, Utc};
use embedder::{BucketId, Catalog, Shape};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::shapes::{Shapes, parse_shape_key, shape_key};
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
    /// When the node was asked for.
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
#[serde(rename_all = "lowercase")]
pub enum LaunchEnd {
    /// The node became ready.
    Ready(#[serde(deserialize_with = "to_the_microsecond")] DateTime<Utc>),
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
    /// Those that ran on a node.
    pub ready: u64,
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
                let BucketTick { demand, demand_max, announced } =
                    tick.buckets.get(id).copied().unwrap_or_default();
                let BucketExtras { headroom, placeholders, ready } =
                    extras.get(id).copied().unwrap_or_default();
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
            recalled.tick.buckets.push(line.map_or_else(BucketTick::default, |line| BucketTick {
                demand: line.demand,
                demand_max: line.demand_max,
                announced: line.announced,
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

fn numbered(
    counts: &BTreeMap<String, u64>,
    catalog: &Catalog,
    shapes: &mut Shapes,
    recalled: &mut Recalled,
) -> Vec<(ShapeId, u64)> {
    let mut numbered = Vec::with_capacity(counts.len());
    for (key, count) in counts {
        let shape = parse_shape_key(key, catalog).ok();
        let Some((shape, (id, new))) = shape.and_then(|shape| shapes.intern(&shape).map(|id| (shape, id)))
        else {
            recalled.left_out += 1;
            continue;
        };
        if new {
            recalled.tick.first_seen.push((id, shape));
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
mod tests {
    use embedder::{AcceleratorKind, BucketSet, Resources};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::record::samples::{at, catalog, lines};

    fn shape(cpu_millis: u64, accelerators: u64, admits: BucketSet) -> Shape {
        let asks = Resources { accelerators, cpu_millis, pods: 1, ..Resources::default() };
        Shape { asks, accelerator_kind: AcceleratorKind::new(AcceleratorKind::NVIDIA), admits }
    }

    #[test]
    fn a_line_is_as_the_format_has_it() {
        let (catalog, mut shapes) = (catalog(&["m5.large", "m5.xlarge", "g4dn.xlarge"]), Shapes::default());
        for new in [
            shape(500, 0, BucketSet::all()),
            shape(7_000, 0, BucketSet::only([1, 2])),
            shape(500, 2, BucketSet::all()),
            shape(99_000, 0, BucketSet::all()),
        ] {
            shapes.intern(&new).unwrap();
        }
        let bucket = |demand| BucketTick { demand, demand_max: demand + 1, announced: 0 };
        let tick = Tick {
            time: at(0, 1),
            buckets: vec![bucket(4), bucket(0), bucket(2)],
            room: vec![(0, 7), (2, 1)],
            first_seen: vec![],
            arrivals: vec![(0, 3), (1, 1), (2, 2), (3, 9)],
        };
        let extras = [BucketExtras { headroom: 2, placeholders: 1, ready: 1 }];
        let launch = |end| Launch {
            bucket: "m5.large".into(),
            group: "asg-1".into(),
            requested: at(0, 0),
            end,
            rest: Map::new(),
        };
        let launches = vec![launch(LaunchEnd::Ready(at(0, 1))), launch(LaunchEnd::Failed(at(0, 1)))];
        let line = Line::new("batch.night", &tick, &extras, launches, &catalog, &shapes);
        let found: Value = serde_json::from_str(&line.text().unwrap()).unwrap();
        let expected = json!({
            "v": 1,
            "time": "2026-07-01T00:01:00Z",
            "policy": "batch.night",
            "buckets": {
                "m5.large": {
                    "demand": 4, "demand_max": 5, "announced": 0, "headroom": 2, "placeholders": 1, "ready": 1,
                    "room": { "cpu_millis=500,pods=1": 7 },
                    "arrivals": { "cpu_millis=500,pods=1": 3, "cpu_millis=99000,pods=1": 9 },
                },
                "m5.xlarge": {
                    "demand": 0, "demand_max": 1, "announced": 0, "headroom": 0, "placeholders": 0, "ready": 0,
                    "room": {},
                    "arrivals": { "cpu_millis=7000,pods=1;admits=m5.xlarge|g4dn.xlarge": 1 },
                },
                "g4dn.xlarge": {
                    "demand": 2, "demand_max": 3, "announced": 0, "headroom": 0, "placeholders": 0, "ready": 0,
                    "room": { "accelerators=2,cpu_millis=500,pods=1;kind=nvidia.com/gpu": 1 },
                    "arrivals": { "accelerators=2,cpu_millis=500,pods=1;kind=nvidia.com/gpu": 2 },
                },
            },
            "launches": [
                { "bucket": "m5.large", "group": "asg-1", "requested": "2026-07-01T00:00:00Z", "ready": "2026-07-01T00:01:00Z" },
                { "bucket": "m5.large", "group": "asg-1", "requested": "2026-07-01T00:00:00Z", "failed": "2026-07-01T00:01:00Z" },
            ],
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_bucket_that_appears_is_zero_before_and_one_that_vanishes_is_dropped() {
        let line = crate::record::samples::line(at(0, 1), 4);
        let mut shapes = Shapes::default();
        let recalled = line.recall(&catalog(&["c5.large", "m5.large"]), &mut shapes);
        let four = BucketTick { demand: 4, demand_max: 5, announced: 2 };
        assert_eq!(recalled.tick.buckets, [BucketTick::default(), four]);
        assert_eq!(recalled.launches.len(), 1);
        let recalled = line.recall(&catalog(&["c5.large"]), &mut shapes);
        assert_eq!(recalled.tick.buckets, [BucketTick::default()]);
        assert_eq!(recalled.tick.arrivals, [(0, 5)], "what arrived may go elsewhere");
        assert_eq!(recalled.launches, []);
    }

    #[test]
    fn a_shape_that_cannot_be_read_is_left_out_and_counted() {
        let mut line = crate::record::samples::line(at(0, 1), 4);
        let bucket = line.buckets.get_mut("m5.large").unwrap();
        bucket.arrivals.insert("quantum_bits=4".into(), 1);
        let recalled = line.recall(&catalog(&["m5.large"]), &mut Shapes::default());
        assert_eq!((recalled.left_out, recalled.tick.arrivals), (1, vec![(0, 5)]));
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = Line::parse(text.as_bytes()).unwrap_err();
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = error.to_string() + &cause.unwrap_or_default();
        assert!(message.starts_with(expected), "{message}");
    }

    #[test]
    fn what_is_no_line_is_refused_with_the_field_at_fault() {
        refused("{", "not a line of the history: EOF");
        refused("{\"v\":1}", "not a line of the history: missing field `time`");
        refused("{\"time\":1}", "not a line of the history: missing field `v`");
        refused("{\"v\":0}", "field v: there is no version 0");
        // Whatever else a newer version has.
        refused(
            "{\"v\":2,\"time\":[]}",
            "field v: version 2 is newer than 1, the newest that this build reads",
        );
        let huge = r#"{"v":1,"time":"2026-07-01T00:00:00Z","policy":"p","buckets":{"m":{"demand":9223372036854775808}}}"#;
        refused(huge, "not a line of the history: 9223372036854775808 is more than 9223372036854775807");
    }

    #[test]
    fn time_is_exact_to_the_microsecond() {
        let text = r#"{"v":1,"time":"2026-07-01T02:00:00.1234567+02:00","policy":"p","buckets":{}}"#;
        assert_eq!(
            Line::parse(text.as_bytes()).unwrap().time.to_rfc3339(),
            "2026-07-01T00:00:00.123456+00:00"
        );
    }

    const NAMES: [&str; 4] = ["m5.large", "m5|odd", "g4dn.xlarge", "g5.xlarge"];

    fn any_shape() -> impl Strategy<Value = Shape> {
        let admits =
            prop_oneof![Just(BucketSet::all()), vec(0..NAMES.len(), 0..4).prop_map(BucketSet::only),];
        (any::<[u64; 5]>(), 0..3_u64, "[ -~]{1,9}", admits).prop_map(|(asks, accelerators, kind, admits)| {
            let asks = Resources { accelerators, ..Resources::of(asks) };
            let accelerator_kind =
                if accelerators > 0 { AcceleratorKind::new(&kind) } else { AcceleratorKind::default() };
            Shape { asks, accelerator_kind, admits }
        })
    }

    /// Shapes of a run, and its ticks: counts of shapes by their place.
    type Run = (Vec<Shape>, Vec<([[u64; 3]; 4], BTreeMap<usize, u64>, BTreeMap<usize, u64>)>);

    fn run() -> impl Strategy<Value = Run> {
        let counts = || btree_map(0..6_usize, any::<u64>(), 0..4);
        let count = || 0..=COUNT_MAX;
        let bucket = || [count(), count(), count()];
        let tick = ([bucket(), bucket(), bucket(), bucket()], counts(), counts());
        (vec(any_shape(), 6), vec(tick, 1..5))
    }

    fn resolved(counts: &[(ShapeId, u64)], shapes: &Shapes) -> Vec<(Shape, u64)> {
        let mut counts: Vec<_> =
            counts.iter().map(|&(id, count)| (shapes.get(id).unwrap().clone(), count)).collect();
        counts.sort();
        counts
    }

    proptest! {
        /// Numbers of shapes are those of a run: the reader's stand for the same shapes in the same ticks.
        #[test]
        fn a_tick_survives_its_line((known, ticks) in run()) {
            let catalog = catalog(&NAMES);
            let (mut writer, mut reader) = (Shapes::default(), Shapes::default());
            for (minute, (buckets, room, arrivals)) in ticks.into_iter().enumerate() {
                let mut first_seen = Vec::new();
                let mut numbered = |counts: BTreeMap<usize, u64>| -> Vec<(ShapeId, u64)> {
                    let mut ids = BTreeMap::new();
                    for (at, count) in counts {
                        let (id, new) = writer.intern(&known[at]).unwrap();
                        first_seen.extend(new.then(|| (id, known[at].clone())));
                        ids.insert(id, count);
                    }
                    ids.into_iter().collect()
                };
                let (room, arrivals) = (numbered(room), numbered(arrivals));
                let buckets = buckets.map(|[demand, demand_max, announced]| BucketTick { demand, demand_max, announced });
                let time = at(0, u32::try_from(minute).unwrap());
                let tick = Tick { time, buckets: buckets.into(), room, first_seen, arrivals };

                let line = Line::new("p", &tick, &[], vec![], &catalog, &writer);
                let read = Line::parse(line.text().unwrap().as_bytes()).unwrap();
                prop_assert_eq!(&read, &line);
                let back = read.recall(&catalog, &mut reader);
                prop_assert_eq!(back.left_out, 0);
                prop_assert_eq!(resolved(&back.tick.room, &reader), resolved(&tick.room, &writer));
                prop_assert_eq!(resolved(&back.tick.arrivals, &reader), resolved(&tick.arrivals, &writer));
                let seen = |tick: &Tick| {
                    let mut seen: Vec<Shape> = tick.first_seen.iter().map(|(_, shape)| shape.clone()).collect();
                    seen.sort();
                    seen
                };
                prop_assert_eq!(seen(&back.tick), seen(&tick));
                // With the writer's own numbers, the whole tick is the same.
                let own = read.recall(&catalog, &mut writer.clone()).tick;
                prop_assert_eq!(own, Tick { first_seen: vec![], ..tick });
            }
        }

        #[test]
        fn a_line_survives_its_text_with_fields_that_we_do_not_know(lines in lines(0..4)) {
            for line in lines {
                prop_assert_eq!(Line::parse(line.text().unwrap().as_bytes()).unwrap(), line);
            }
        }
    }
}
