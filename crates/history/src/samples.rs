//! Sample data for the tests of the history.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use demand::record::{KeptPlan, StepRun};
use embedder::{Bucket, Catalog, Resources};
use placeholders::Objective;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::finished::{FinishedPods, Offered};
use super::journal::{Appended, Journal};
use super::line::{BucketLine, EndedLaunch, LaunchEnd, Line, UsedLaunch, VERSION};
use super::place::Place;
use super::replay::ReplayReport;

/// Buckets of one group each, in ascending size. A bucket whose name begins with `g` has
/// accelerators.
pub(crate) fn catalog(names: &[&str]) -> Catalog {
    let bucket = |(size, name): (u64, &&str)| {
        let bucket = testkit::bucket(name, 4_000 * size, 0.0001);
        let accelerators = if name.starts_with('g') { 4 } else { 0 };
        Bucket {
            allocatable: Resources { accelerators, ..bucket.allocatable },
            groups: vec![testkit::group(&format!("asg-{name}"), 9)],
            ..bucket
        }
    };
    testkit::catalog_of((1..).zip(names).map(bucket))
}

/// A day of the samples: 0 is 2026-07-01.
pub(crate) fn day(number: i64) -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 7, 1).unwrap() + TimeDelta::days(number)
}

/// A minute of a day of the samples.
pub(crate) fn at(day_number: i64, minute: u32) -> DateTime<Utc> {
    day(day_number).and_hms_opt(minute / 60, minute % 60, 0).unwrap().and_utc()
}

/// A line of the policy batch.night with one bucket, one shape and one launch.
pub(crate) fn line(time: DateTime<Utc>, demand: u64) -> Line {
    let shape = "cpu_millis=4000,pods=1".to_owned();
    let bucket = BucketLine {
        demand,
        demand_max: demand + 1,
        announced: 2,
        headroom: 3,
        placeholders: 3,
        ready: 1,
        pods_hidden: 7,
        pods_waited: 1,
        planned: 2,
        notice: 900,
        prepaid: 1,
        room: BTreeMap::from([(shape.clone(), u64::MAX)]),
        arrivals: BTreeMap::from([(shape, 5)]),
        gangs: BTreeMap::from([("4".to_owned(), 2)]),
        tiers: BTreeMap::from([("production".to_owned(), 3)]),
        namespaces: BTreeMap::from([("jobs".to_owned(), 1_500)]),
        rest: Map::new(),
    };
    let launch = EndedLaunch {
        bucket: "m5.large".into(),
        group: "asg-1".into(),
        requested: time - TimeDelta::seconds(90),
        end: LaunchEnd::Ready(time),
        from_warm_pool: false,
        rest: Map::new(),
    };
    Line {
        v: VERSION,
        time,
        policy: "batch.night".into(),
        buckets: BTreeMap::from([("m5.large".into(), bucket)]),
        launches: vec![launch],
        used: vec![],
        rollout_percent: None,
        kept: vec![],
        runs: vec![],
        finished: vec![finished(time)],
        offered: None,
        rest: Map::new(),
    }
}

/// Two pods that ended at `ended`.
pub(crate) fn finished(ended: DateTime<Utc>) -> FinishedPods {
    FinishedPods {
        job: "0e1f4a52-0c3c-4b7e-9f3a-5d5a7a1c2b3d".into(),
        owner_kind: "Job".into(),
        name: None,
        shape: "cpu_millis=4000,pods=1".into(),
        priority: 0,
        bucket: Some("m5.large".into()),
        pods: 2,
        submitted: ended - TimeDelta::seconds(400),
        started: ended - TimeDelta::seconds(300),
        ended,
        waited: true,
        usage: None,
        rest: Map::new(),
    }
}

/// Generates arbitrary lines of the policy batch.night, in the order of time, some with unknown
/// fields.
pub(crate) fn lines(how_many: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Line>> {
    let launches = (vec(launch(), 0..3), vec(used(), 0..3), vec(kept(), 0..3), vec(run(), 0..3));
    let rollout_percent = option::of(0..100_u8);
    let whole = (launches, rollout_percent, vec(ran(), 0..3), option::of(offered()), rest());
    let one = (1..200_000_000_i64, btree_map(".{0,9}", bucket(), 0..4), whole);
    vec(one, how_many).prop_map(|parts| {
        // The distance between lines is up to 2.3 days, so that the lines fall on several days.
        let mut time = at(0, 0);
        let line = |(
            step,
            buckets,
            ((launches, used, kept, runs), rollout_percent, finished, offered, rest),
        )| {
            time += TimeDelta::microseconds(step * 1_000);
            let policy = "batch.night".into();
            Line {
                v: VERSION,
                time,
                policy,
                buckets,
                launches,
                used,
                rollout_percent,
                kept,
                runs,
                finished,
                offered,
                rest,
            }
        };
        parts.into_iter().map(line).collect()
    })
}

fn bucket() -> impl Strategy<Value = BucketLine> {
    let count = || 0..=i64::MAX.unsigned_abs();
    let counts = std::array::from_fn::<_, { BucketLine::COUNTS.len() }, _>(|_| count());
    let shapes = || btree_map(".{0,9}", any::<u64>(), 0..3);
    (counts, shapes(), shapes(), rest()).prop_map(|(counts, room, arrivals, rest)| BucketLine {
        room,
        arrivals,
        rest,
        ..BucketLine::of_counts(counts)
    })
}

fn launch() -> impl Strategy<Value = EndedLaunch> {
    let pool = any::<bool>();
    (".{0,9}", ".{0,9}", 0..2_000_000_000_000_000_i64, 0..3_usize, pool, rest()).prop_map(
        |(bucket, group, micros, how, from_warm_pool, rest)| {
            let requested = DateTime::from_timestamp_micros(micros).unwrap();
            let end = requested + TimeDelta::seconds(60);
            let end = [LaunchEnd::Ready, LaunchEnd::WaitedFor, LaunchEnd::Failed][how](end);
            EndedLaunch { bucket, group, requested, end, from_warm_pool, rest }
        },
    )
}

fn used() -> impl Strategy<Value = UsedLaunch> {
    (launch(), 0..1_000_000_i64).prop_map(|(launch, micros)| {
        let EndedLaunch { bucket, group, requested, rest, .. } = launch;
        let ready = requested + TimeDelta::seconds(60);
        let submitted = ready + TimeDelta::microseconds(micros);
        UsedLaunch { bucket, group, requested, ready, submitted, rest }
    })
}

fn kept() -> impl Strategy<Value = KeptPlan> {
    (".{0,9}", any::<u64>(), any::<u64>()).prop_map(|(author, planned, came)| KeptPlan {
        author,
        planned,
        came,
    })
}

fn run() -> impl Strategy<Value = StepRun> {
    (".{0,9}", any::<u32>()).prop_map(|(template, seconds)| StepRun { template, seconds })
}

fn ran() -> impl Strategy<Value = FinishedPods> {
    (".{0,9}", option::of(".{0,9}"), any::<u64>(), 0..2_000_000_000_i64, rest()).prop_map(
        |(shape, name, pods, ended, rest)| {
            let ended = DateTime::from_timestamp(ended, 0).unwrap();
            FinishedPods { name, shape, pods, rest, ..finished(ended) }
        },
    )
}

fn offered() -> impl Strategy<Value = Offered> {
    (1..4_usize, any::<u32>(), rest()).prop_map(|(buckets, dollars, rest)| {
        let catalog = catalog(&["a", "g", "c/spot"][..buckets]);
        let objective = Objective::WaitCost(f64::from(dollars) / 4.0);
        Offered { rest, ..Offered::new(&catalog, objective) }
    })
}

/// Fields that no version of the format has.
fn rest() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        any::<u64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!({ "deep": [number, null] })),
        ".{0,9}".prop_map(|text| json!(text)),
    ];
    vec(("x_[a-z]{1,4}", value), 0..3).prop_map(|fields| fields.into_iter().collect())
}

pub(crate) const POLICY: &str = "batch.night";
pub(crate) const WRITTEN: Appended = Appended::Written { cut: None };

/// The journal in a folder.
pub(crate) async fn journal(folder: &TempDir) -> Journal {
    let place = Place::open(&folder.path().display().to_string()).unwrap();
    Journal::open(place, POLICY).await.unwrap()
}

pub(crate) fn file(folder: &TempDir, day_number: i64) -> PathBuf {
    folder.path().join(format!("policy={POLICY}/day={}/ticks-00000.jsonl", day(day_number)))
}

/// Changes the file of a day, as an editor or a crash may.
pub(crate) fn change(folder: &TempDir, day_number: i64, change: impl FnOnce(String) -> String) {
    let path = file(folder, day_number);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, change(text)).unwrap();
}

pub(crate) async fn replayed(journal: &Journal) -> (Vec<Line>, ReplayReport) {
    let mut replay = journal.replay(None).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = replay.next().await.unwrap() {
        lines.push(line);
    }
    (lines, replay.report().clone())
}

pub(crate) async fn append_all(journal: &mut Journal, lines: &[Line]) {
    for line in lines {
        assert_eq!(journal.append(line).await.unwrap(), WRITTEN);
    }
}

/// Three days of three ticks.
pub(crate) fn three_days() -> Vec<Line> {
    let tick = |number: u32| line(at(i64::from(number) / 3, number % 3), number.into());
    (0..9).map(tick).collect()
}

/// The names of the objects of a day.
pub(crate) async fn objects(place: &Place, day_number: i64) -> Vec<String> {
    let files = place.files(POLICY, day(day_number)).await.unwrap();
    files
        .parquet
        .iter()
        .chain(&files.segments)
        .map(|path| path.filename().unwrap().to_owned())
        .collect()
}
