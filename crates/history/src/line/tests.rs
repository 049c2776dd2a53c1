use embedder::{AcceleratorKind, BucketSet, Resources};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::samples::{at, catalog, lines};

fn shape(cpu_millis: u64, accelerators: u64, admits: BucketSet) -> Shape {
    let requests = Resources { accelerators, cpu_millis, pods: 1, ..Resources::default() };
    Shape { requests, accelerator_kind: AcceleratorKind::new(AcceleratorKind::NVIDIA), admits }
}

#[test]
fn a_line_has_the_documented_format() {
    let (catalog, mut shapes) =
        (catalog(&["m5.large", "m5.xlarge", "g4dn.xlarge"]), Shapes::default());
    for new in [
        shape(500, 0, BucketSet::all()),
        shape(7_000, 0, BucketSet::only([1, 2])),
        shape(500, 2, BucketSet::all()),
        shape(99_000, 0, BucketSet::all()),
    ] {
        shapes.intern(&new).unwrap();
    }
    let bucket = |demand, ready| BucketTick {
        demand,
        demand_max: demand + 1,
        planned: ready,
        notice: 500 * ready,
        ready,
        ..BucketTick::default()
    };
    let tick = Tick {
        time: at(0, 1),
        buckets: vec![bucket(4, 1), bucket(0, 0), bucket(2, 0)],
        room: vec![(0, 7), (2, 1)],
        first_seen: vec![],
        arrivals: vec![(0, 3), (1, 1), (2, 2), (3, 9)],
        gangs: vec![],
        tiers: vec![TierArrivals { bucket: 0, tier: "production".into(), pods: 2 }],
        namespaces: vec![NamespaceArrivals { bucket: 2, namespace: "jobs".into(), millis: 1_500 }],
        kept: vec![KeptPlan { author: "jobs".into(), planned: 8, came: 6 }],
        runs: vec![StepRun { template: "Workflow batch/train/fit".into(), seconds: 540 }],
        rollout_percent: Some(50),
    };
    let extras = [BucketExtras { headroom: 2, placeholders: 1, prepaid: 0 }];
    let launch = |end| EndedLaunch {
        bucket: "m5.large".into(),
        group: "asg-1".into(),
        requested: at(0, 0),
        end,
        from_warm_pool: false,
        rest: Map::new(),
    };
    let launches = vec![launch(LaunchEnd::Ready(at(0, 1))), launch(LaunchEnd::Failed(at(0, 1)))];
    let line = Line::new("batch.night", &tick, &extras, launches, &catalog, &shapes);
    let found: Value = serde_json::from_str(&line.text().unwrap()).unwrap();
    let expected = json!({
        "v": 1,
        "time": "2026-07-01T00:01:00Z",
        "policy": "batch.night",
        "rollout_percent": 50,
        "kept": [{ "author": "jobs", "planned": 8, "came": 6 }],
        "runs": [{ "template": "Workflow batch/train/fit", "seconds": 540 }],
        "buckets": {
            "m5.large": {
                "demand": 4, "demand_max": 5, "announced": 0, "headroom": 2, "placeholders": 1, "ready": 1, "pods_hidden": 0, "pods_waited": 0,
                "planned": 1, "notice": 500,
                "room": { "cpu_millis=500,pods=1": 7 },
                "arrivals": { "cpu_millis=500,pods=1": 3, "cpu_millis=99000,pods=1": 9 },
                "tiers": { "production": 2 },
            },
            "m5.xlarge": {
                "demand": 0, "demand_max": 1, "announced": 0, "headroom": 0, "placeholders": 0, "ready": 0, "pods_hidden": 0, "pods_waited": 0,
                "room": {},
                "arrivals": { "cpu_millis=7000,pods=1;admits=m5.xlarge|g4dn.xlarge": 1 },
            },
            "g4dn.xlarge": {
                "demand": 2, "demand_max": 3, "announced": 0, "headroom": 0, "placeholders": 0, "ready": 0, "pods_hidden": 0, "pods_waited": 0,
                "room": { "accelerators=2,cpu_millis=500,pods=1;kind=nvidia.com/gpu": 1 },
                "arrivals": { "accelerators=2,cpu_millis=500,pods=1;kind=nvidia.com/gpu": 2 },
                "namespaces": { "jobs": 1500 },
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
fn new_buckets_are_zero_and_buckets_no_longer_on_offer_are_dropped() {
    let line = crate::samples::line(at(0, 1), 4);
    let mut shapes = Shapes::default();
    let recalled = line.recall(&catalog(&["c5.large", "m5.large"]), &mut shapes);
    let four = BucketTick {
        demand: 4,
        demand_max: 5,
        announced: 2,
        ready: 1,
        pods_hidden: 7,
        pods_waited: 1,
        planned: 2,
        notice: 900,
    };
    assert_eq!(recalled.tick.buckets, [BucketTick::default(), four]);
    assert_eq!(recalled.launches.len(), 1);
    let recalled = line.recall(&catalog(&["c5.large"]), &mut shapes);
    assert_eq!(recalled.tick.buckets, [BucketTick::default()]);
    assert_eq!(recalled.tick.arrivals, [(0, 5)], "arrivals of a dropped bucket are kept");
    assert_eq!(recalled.launches, []);
}

#[test]
fn a_shape_that_cannot_be_parsed_is_omitted_and_counted() {
    let mut line = crate::samples::line(at(0, 1), 4);
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
fn malformed_lines_are_refused_with_the_invalid_field() {
    refused("{", "not a line of the history: EOF");
    refused("{\"v\":1}", "not a line of the history: missing field `time`");
    refused("{\"time\":1}", "not a line of the history: missing field `v`");
    refused("{\"v\":0}", "field v: there is no version 0");
    // The version is checked first, whatever other fields a newer version has.
    refused(
        "{\"v\":2,\"time\":[]}",
        "field v: version 2 is newer than 1, the newest that this build reads",
    );
    let huge = r#"{"v":1,"time":"2026-07-01T00:00:00Z","policy":"p","buckets":{"m":{"demand":9223372036854775808}}}"#;
    refused(
        huge,
        "not a line of the history: 9223372036854775808 is more than 9223372036854775807",
    );
}

#[test]
fn time_is_truncated_to_microseconds() {
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
    (any::<[u64; 5]>(), 0..3_u64, "[ -~]{1,9}", admits).prop_map(
        |(requests, accelerators, kind, admits)| {
            let requests = Resources { accelerators, ..Resources::of(requests) };
            let accelerator_kind = if accelerators > 0 {
                AcceleratorKind::new(&kind)
            } else {
                AcceleratorKind::default()
            };
            Shape { requests, accelerator_kind, admits }
        },
    )
}

/// Shapes, and ticks with counts by the index of the shape.
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
    /// Writer and reader number the shapes differently, so the test compares shapes, not numbers.
    #[test]
    fn a_tick_survives_the_conversion_to_a_line_and_back((known, ticks) in run()) {
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
            let buckets = buckets.map(|[demand, demand_max, announced]| BucketTick { demand, demand_max, announced, ..BucketTick::default() });
            let time = at(0, u32::try_from(minute).unwrap());
            let tiers = arrivals.iter().take(1).map(|(_, pods)| TierArrivals { bucket: 1, tier: "batch".into(), pods: *pods });
            let tiers = tiers.collect();
            let namespaces = arrivals.iter().take(1).map(|(_, pods)| NamespaceArrivals { bucket: 0, namespace: "jobs".into(), millis: *pods });
            let namespaces = namespaces.collect();
            let rollout_percent = (minute % 2 == 0).then_some(25);
            let kept = vec![KeptPlan { author: "jobs".into(), planned: 3, came: 2 }];
            let runs = vec![StepRun { template: "step".into(), seconds: 7 }];
            let tick = Tick { time, buckets: buckets.into(), room, first_seen, arrivals, gangs: vec![], tiers, namespaces, kept, runs, rollout_percent };

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
            // With the writer's numbers, the whole tick is equal.
            let own = read.recall(&catalog, &mut writer.clone()).tick;
            prop_assert_eq!(own, Tick { first_seen: vec![], ..tick });
        }
    }

    #[test]
    fn a_line_with_unknown_fields_survives_the_conversion_to_text_and_back(lines in lines(0..4)) {
        for line in lines {
            prop_assert_eq!(Line::parse(line.text().unwrap().as_bytes()).unwrap(), line);
        }
    }
}
