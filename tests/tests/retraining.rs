//! Retraining: a recorded history, some steps of training, the comparison with the model in use,
//! and the publication, which controllers notice.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use chrono::{DateTime, TimeDelta, Utc};
use controller::cluster::RemoteModel;
use demand::forecast::onnx::{Model, PRETRAINED};
use history::{BucketLine, FinishedPods, Journal, Line, Offered, Place};
use serde_json::{Map, Value, json};
use tests::built;

const POLICY: &str = "batch.night";
const BUCKET: &str = "m5.xlarge";
/// Each pod fills a node.
const SHAPE: &str = "cpu_millis=4000,pods=1";
/// Days of the history: ten on which models are compared, seven before them, and one to spare.
const DAYS: i64 = 18;
const TICK_SECONDS: i64 = 300;

/// The Python of `models/`, if `make models-python` has built it.
fn python() -> Option<PathBuf> {
    let python = built::control_plane("../models-python/bin/python").ok();
    if python.is_none() {
        let note = b"note: retraining is not tested: run make models-python\n";
        std::io::stderr().write_all(note).unwrap();
    }
    python
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models")
}

/// Pods as their submission and their end, in seconds since the start: one for ten minutes in every
/// hour, and six for 40 minutes at two o'clock each night.
fn pods() -> Vec<(i64, i64)> {
    let hourly = (0..24 * DAYS).map(|hour| (3_600 * hour + 700, 3_600 * hour + 1_300));
    let nightly = (0..DAYS).flat_map(|day| {
        let at = 86_400 * day + 7_200;
        (0..6).map(move |pod| (at + pod, at + 2_400 + pod))
    });
    hourly.chain(nightly).collect()
}

/// Records the history of these pods, as the controller would.
async fn record(folder: &Path) {
    let place = Place::open(&folder.display().to_string()).unwrap();
    let mut journal = Journal::open(place, POLICY).await.unwrap();
    let start: DateTime<Utc> = "2026-07-01T00:00:00Z".parse().unwrap();
    let time = |seconds: i64| start + TimeDelta::seconds(seconds);
    let pods = pods();
    for tick in 0..DAYS * 86_400 / TICK_SECONDS {
        let now = tick * TICK_SECONDS;
        let since = |at: i64| now - TICK_SECONDS < at && at <= now;
        let count = |which: &dyn Fn(&(i64, i64)) -> bool| {
            u64::try_from(pods.iter().filter(|pod| which(pod)).count()).unwrap()
        };
        let demand = count(&|(begin, end)| *begin <= now && now < *end);
        let demand_max = count(&|(begin, end)| *begin <= now && now - TICK_SECONDS < *end);
        let arrivals = BTreeMap::from([(SHAPE.to_owned(), count(&|(begin, _)| since(*begin)))]);
        let ended = pods.iter().filter(|(_, end)| since(*end));
        let bucket = BucketLine { demand, demand_max, arrivals, ..BucketLine::default() };
        let line = Line {
            finished: ended.map(|(begin, end)| finished(time(*begin), time(*end))).collect(),
            offered: (tick == 0).then(offered),
            ..testkit::line(time(now), POLICY, [(BUCKET, bucket)])
        };
        journal.append(&line).await.unwrap();
    }
}

fn finished(begin: DateTime<Utc>, end: DateTime<Utc>) -> FinishedPods {
    FinishedPods {
        job: format!("job-{}", begin.timestamp()),
        owner_kind: "Job".into(),
        name: None,
        shape: SHAPE.into(),
        priority: 0,
        bucket: Some(BUCKET.into()),
        pods: 1,
        submitted: begin,
        started: begin,
        ended: end,
        waited: false,
        usage: None,
        rest: Map::new(),
    }
}

fn offered() -> Offered {
    let bucket = json!({
        "name": BUCKET, "capacity_type": "on-demand", "allocatable": {"cpu_millis": 4_000, "pods": 58},
        "hourly_micro_dollars": 192_000, "groups": [{"name": "asg", "max": 50}],
    });
    serde_json::from_value(json!({"buckets": [bucket], "objective": {"wait_ratio": 9.0}})).unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs `models/retrain` for some steps, and returns what it printed.
fn retrain(python: &Path, history: &Path, place: &Path, work: &Path) -> String {
    let mut command = Command::new(models().join("retrain"));
    command.args([history, place, work]);
    command.args(["--steps", "20", "--check-every", "10", "--batch", "16", "--", "--tick", "5m"]);
    let program = tests::prophet(&[]).get_program().to_owned();
    command.env("PROPHET", program).env("PYTHON", python).env("WINDOW", "10d");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    text(&output)
}

/// Writes a copy of a model that forecasts far too many nodes.
fn make_worse(python: &Path, from: &Path, folder: &Path) -> PathBuf {
    let program = "import sys, pathlib, json, networks, torch
network = networks.load(pathlib.Path(sys.argv[1]))
with torch.no_grad():
    network.headroom.bias += 3.0
    network.ahead.bias += 3.0
network.save(pathlib.Path(sys.argv[2]), training={'leads': [3, 6, 11], 'logs': ['worse']})";
    let file = folder.join("worse.onnx");
    let export = models().join("export.py");
    for arguments in [
        vec!["-c".as_ref(), program.as_ref(), from.as_os_str(), folder.as_os_str()],
        vec![export.as_os_str(), folder.as_os_str(), file.as_os_str()],
    ] {
        let mut command = Command::new(python);
        let output = command.args(arguments).env("PYTHONPATH", models()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
    file
}

/// Fetches the model as a controller does. Returns its content and version.
async fn fetched(watched: &mut RemoteModel) -> (Vec<u8>, u64) {
    watched.fetch().await;
    let slot = watched.slot();
    assert_eq!(slot.fault(), None);
    (slot.file().unwrap().to_vec(), slot.version())
}

#[tokio::test]
async fn a_history_retrains_the_model_in_use_and_a_worse_model_is_refused() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [history, work, published] =
        ["history", "work", "published"].map(|name| folder.path().join(name));
    record(&history).await;
    let place = published.join("own.onnx");

    // The first run starts from the shipped model, and the second one from the published model.
    let first = retrain(&python, &history, &place, &work);
    assert!(first.contains("the shipped model in use"), "{first}");
    assert!(first.contains("published to"), "{first}");
    let mut watched = RemoteModel::new(&format!("file://{}", place.display())).unwrap();
    let (model, version) = fetched(&mut watched).await;
    assert!(model != PRETRAINED && model == fs::read(work.join("own.onnx")).unwrap());
    Model::load(&model).map_err(|faults| format!("{faults:?}")).unwrap();
    let card = fs::read_to_string(published.join("own.card.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    assert_eq!((&card["accepted"], &card["days"]), (&json!(true), &json!(10)), "{card:#}");
    assert_eq!(card["candidate"]["training"]["steps_max"], 20, "{card:#}");

    let second = retrain(&python, &history, &place, &work);
    assert!(second.contains(&format!("with {} in use", place.display())), "{second}");
    assert!(second.contains("published to"), "{second}");
    let (second_model, second_version) = fetched(&mut watched).await;
    assert!(second_model != model && second_version == version + 1);

    let worse = make_worse(&python, &place, &work);
    let before = fs::read(published.join("own.card.json")).unwrap();
    let arguments = ["model", "accept", "--window", "10d", "--tick", "5m", "--candidate"];
    let mut accept = tests::prophet(&arguments);
    accept.arg(&worse).arg("--data").arg(&history).arg("--publish").arg(&place);
    let output = accept.output().unwrap();
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(
        printed.contains("The model in use stays, because the candidate is worse"),
        "{printed}"
    );
    assert!(printed.contains("- pinball loss of the model, nodes:"), "{printed}");
    assert_eq!(fetched(&mut watched).await, (second_model, second_version));
    assert_eq!(fs::read(published.join("own.card.json")).unwrap(), before);
    assert_eq!(fs::read_dir(&published).unwrap().count(), 2, "only the model and its card");

    // Of these 18 days, too few precede the last 14.
    let mut accept = tests::prophet(&["model", "accept", "--tick", "5m", "--candidate"]);
    let output = accept.arg(&worse).arg("--data").arg(&history).output().unwrap();
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("the history is too short: 4.0 days precede"), "{printed}");
}
