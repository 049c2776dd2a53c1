//! The history in an emulated S3.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use chrono::{DateTime, TimeDelta, Utc};
use history::{Appended, BucketLine, HistoryError, Journal, Line, Place};
use tests::moto::Moto;
use tests::prophet;

const POLICY: &str = "batch.night";
const WRITTEN: Appended = Appended::Written { cut: None };

fn time(minutes: i64) -> DateTime<Utc> {
    "2026-07-01T23:00:00Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::minutes(minutes)
}

fn line(minutes: i64, demand: u64) -> Line {
    let bucket = BucketLine { demand, demand_max: demand, ..BucketLine::default() };
    testkit::line(time(minutes), POLICY, [("m5.large", bucket)])
}

fn place(moto: &Moto, address: &str) -> Place {
    let environment = moto.environment().map(|(name, value)| (name.to_owned(), value));
    Place::open_in(address, &environment).unwrap()
}

async fn replayed(journal: &Journal) -> Vec<Line> {
    let mut replay = journal.replay(None).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = replay.next().await.unwrap() {
        lines.push(line);
    }
    assert_eq!((replay.report().faults_total, replay.report().not_later), (0, 0));
    lines
}

#[tokio::test]
async fn acknowledged_lines_survive_restarts_and_compaction() {
    let moto = Moto::start().await.unwrap();
    moto.make_bucket("logs").unwrap();
    let address = "s3://logs/prophet/production";
    let ticks: Vec<Line> = (0..130).map(|minute| line(minute, 1)).collect();
    // A new journal after every 50 lines stands for a restart: no line is buffered in memory.
    for part in ticks.chunks(50) {
        let mut journal = Journal::open(place(&moto, address), POLICY).await.unwrap();
        for line in part {
            assert_eq!(journal.append(line).await.unwrap(), WRITTEN);
        }
    }
    let mut journal = Journal::open(place(&moto, address), POLICY).await.unwrap();
    assert_eq!(journal.last(), Some(time(129)));
    assert_eq!(replayed(&journal).await, ticks);
    let done = journal.compact(time(129).date_naive()).await.unwrap();
    assert_eq!(done.compacted, [(time(0).date_naive(), 60)]);
    assert!(done.kept.is_empty(), "{done:?}");
    assert_eq!(replayed(&journal).await, ticks);
    assert_eq!(journal.append(&line(130, 1)).await.unwrap(), WRITTEN);

    // The command takes the endpoint and the credentials from the standard AWS variables.
    let mut command = prophet(&["history", "--data", address]);
    let listed = command.envs(moto.environment()).output().unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&listed.stderr));
    assert!(listed.status.success(), "{error}");
    let rows: Vec<Vec<&str>> =
        out.lines().map(|row| row.split_whitespace().take(4).collect()).collect();
    assert_eq!(rows[1], ["2026-07-01", POLICY, "m5.large", "60"], "{out}");
    assert_eq!(rows[2], ["2026-07-02", POLICY, "m5.large", "71"], "{out}");
}

#[tokio::test]
async fn a_second_writer_overwrites_nothing() {
    let moto = Moto::start().await.unwrap();
    moto.make_bucket("logs").unwrap();
    let mut one = Journal::open(place(&moto, "s3://logs"), POLICY).await.unwrap();
    let mut two = Journal::open(place(&moto, "s3://logs"), POLICY).await.unwrap();
    assert_eq!(one.append(&line(0, 1)).await.unwrap(), WRITTEN);
    // The second writer opened the journal before the first line was written.
    assert_eq!(two.append(&line(1, 2)).await.unwrap(), WRITTEN);
    assert_eq!(one.append(&line(1, 1)).await.unwrap(), Appended::NotLater { last: time(1) });
    assert_eq!(one.append(&line(2, 1)).await.unwrap(), WRITTEN);
    assert_eq!(replayed(&two).await, [line(0, 1), line(1, 2), line(2, 1)]);
}

#[tokio::test]
async fn a_missing_or_unreachable_bucket_is_an_error() {
    let mut moto = Moto::start().await.unwrap();
    let journal = Journal::open(place(&moto, "s3://none/x"), POLICY).await;
    let Err(HistoryError::Store { act: "list", file, .. }) = journal else {
        panic!("there is no bucket")
    };
    assert_eq!(file, format!("s3://none/x/policy={POLICY}"));
    moto.make_bucket("logs").unwrap();
    let mut journal = Journal::open(place(&moto, "s3://logs"), POLICY).await.unwrap();
    assert_eq!(journal.append(&line(0, 1)).await.unwrap(), WRITTEN);
    moto.process().kill();
    assert!(matches!(
        journal.append(&line(1, 1)).await,
        Err(HistoryError::Store { act: "append to", .. })
    ));
}

#[tokio::test]
async fn a_published_model_is_fetched_by_its_address() {
    let moto = Moto::start().await.unwrap();
    moto.make_bucket("models").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("own.onnx");
    let fetch = || {
        let mut command = prophet(&["model", "fetch", "s3://models/prophet/own.onnx", "--out"]);
        let output = command.arg(&out).envs(moto.environment()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = fetch();
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("s3://models/prophet/own.onnx: there is no model"), "{error}");
    let published = place(&moto, "s3://models/prophet");
    for content in [b"one", b"two"] {
        published.put_file("own.onnx", content.to_vec()).await.unwrap();
        assert_eq!(fetch(), (0, String::new()));
        assert_eq!(std::fs::read(&out).unwrap(), content);
    }
    assert!(published.file("own.onnx", 2).await.is_err(), "more than two bytes");
}
