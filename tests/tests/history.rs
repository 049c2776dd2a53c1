//! The history for its users: listed, exported, and read by other programs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use chrono::{DateTime, TimeDelta, Utc};
use history::{BucketLine, EndedLaunch, FinishedPods, Journal, LaunchEnd, Line, Offered, Place};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tests::{built, run};

const POLICY: &str = "batch.night";

fn time(hours: i64) -> DateTime<Utc> {
    "2026-07-01T00:00:00Z".parse::<DateTime<Utc>>().unwrap() + TimeDelta::hours(hours)
}

/// The line of an hourly tick with two buckets: demand is the hour of the day, twice that for the
/// second bucket; a launch ends at noon.
fn line(hours: i64) -> Line {
    let demand = u64::try_from(hours % 24).unwrap();
    let bucket = |factor: u64| BucketLine {
        demand: factor * demand,
        demand_max: factor * demand,
        headroom: 2,
        placeholders: 2,
        arrivals: BTreeMap::from([("cpu_millis=4000,pods=1".to_owned(), demand)]),
        ..BucketLine::default()
    };
    let launch = EndedLaunch {
        bucket: "m5.large".into(),
        group: "asg-1".into(),
        requested: time(hours) - TimeDelta::seconds(90),
        end: LaunchEnd::Ready(time(hours)),
        from_warm_pool: false,
        rest: Map::new(),
    };
    let buckets = [("m5.large", bucket(1)), ("m5.xlarge", bucket(2))];
    Line {
        launches: if demand == 12 { vec![launch] } else { vec![] },
        finished: if demand % 6 == 0 { vec![finished(hours)] } else { vec![] },
        offered: (demand == 0).then(offered),
        ..testkit::line(time(hours), POLICY, buckets)
    }
}

/// Three pods that waited for 90 s, and then ran for half an hour.
fn finished(hours: i64) -> FinishedPods {
    FinishedPods {
        job: format!("0e1f4a52-0c3c-4b7e-9f3a-{hours:012}"),
        owner_kind: "Job".into(),
        name: None,
        shape: "cpu_millis=4000,pods=1;admits=m5.xlarge".into(),
        priority: 0,
        bucket: Some("m5.xlarge".into()),
        pods: 3,
        submitted: time(hours) - TimeDelta::seconds(1_890),
        started: time(hours) - TimeDelta::seconds(1_800),
        ended: time(hours),
        waited: true,
        usage: None,
        rest: Map::new(),
    }
}

/// Two instance types, of which the smaller one would hold a pod, too.
fn offered() -> Offered {
    let bucket = |name: &str, cpu_millis: u64| {
        serde_json::json!({
            "name": name,
            "capacity_type": "on-demand",
            "allocatable": {"accelerators": 0, "cpu_millis": cpu_millis, "pods": 58},
            "hourly_micro_dollars": 100 * cpu_millis,
            "groups": [{"name": format!("asg-{name}"), "max": 9}],
        })
    };
    let buckets = [bucket("m5.large", 4_000), bucket("m5.xlarge", 8_000)];
    let offered = serde_json::json!({"buckets": buckets, "objective": {"wait_cost": 4.0}});
    serde_json::from_value(offered).unwrap()
}

/// A history of hourly ticks: two closed days and half an open one. Returns its parent folder and
/// its path.
async fn history() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("history").display().to_string();
    let mut journal = Journal::open(Place::open(&place).unwrap(), POLICY).await.unwrap();
    for hours in 0..60 {
        journal.append(&line(hours)).await.unwrap();
    }
    let done = journal.compact(time(59).date_naive()).await.unwrap();
    assert_eq!((done.compacted.len(), done.kept.len()), (2, 0));
    (folder, place)
}

#[tokio::test]
async fn the_oldest_of_too_many_days_is_removed_and_two_weeks_stay() {
    let (folder, place) = history().await;
    let days = || {
        let path = folder.path().join("history").join(format!("policy={POLICY}"));
        let entries = fs::read_dir(path).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.collect::<BTreeSet<String>>()
    };
    let mut journal = Journal::open(Place::open(&place).unwrap(), POLICY).await.unwrap();
    for day in 3..16 {
        journal.append(&line(24 * day)).await.unwrap();
    }
    let all = days();
    assert_eq!(all.len(), 16);
    let day = |number: i64| time(24 * number).date_naive();
    assert_eq!(journal.expire(16).await.unwrap(), None);
    assert_eq!(journal.expire(15).await.unwrap(), Some(day(0)));
    assert_eq!(journal.expire(15).await.unwrap(), None);
    assert_eq!(journal.expire(1).await.unwrap(), Some(day(1)));
    assert_eq!(journal.expire(1).await.unwrap(), None);
    assert_eq!(days(), all.iter().skip(2).cloned().collect());
    // The file of an interrupted compaction is removed with its day. A day that has only files of
    // others is no day of the history.
    let path = folder.path().join("history").join(format!("policy={POLICY}"));
    for (day, file) in [(1, "notes.txt"), (2, "ticks.parquet.part")] {
        let folder = path.join(format!("day=2025-01-0{day}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(file), "x").unwrap();
    }
    assert_eq!(journal.expire(1).await.unwrap(), Some("2025-01-02".parse().unwrap()));
    assert_eq!(journal.expire(1).await.unwrap(), None);
    fs::remove_dir_all(path.join("day=2025-01-01")).unwrap();
    // The open day goes on.
    journal.append(&line(24 * 15 + 1)).await.unwrap();
    assert_eq!(days().len(), 14);
}

/// Nine times, three pods need two nodes of m5.xlarge, which the autoscaler alone launches in 90 s,
/// the latency of the recorded launches.
#[tokio::test]
async fn the_pods_that_ended_are_replayed_with_the_recorded_buckets_and_latencies() {
    let (folder, place) = history().await;
    let simulated = |more: &[&str]| {
        let (code, out, error) = run(&[&["simulate", "--output", "json"], more].concat());
        assert_eq!(code, 0, "{error}");
        (serde_json::from_str::<Value>(&out).unwrap(), error)
    };
    let (document, error) =
        simulated(&["--data", &place, "--from", "0s", "--policies", "reactive,constant:2"]);
    let note = "note: recorded: 27 pods ended, 0.0 % of them waited at most one scan, 0.7 pending pod-hours\n";
    assert!(error.contains(note), "{error}");
    let earlier = "note: 3 pods are left out, because they were created before the first line\n";
    assert!(error.contains(earlier), "{error}");
    let settings = &document["settings"];
    assert_eq!(settings["gang"], "pod-by-pod");
    assert_eq!(settings["launchLatency"], "90s");
    assert_eq!(settings["policy"]["objective"], serde_json::json!({"waitCost": 4.0}));
    let types = settings["catalog"]["instanceTypes"].as_array().unwrap();
    assert_eq!(types[1]["name"], "m5.xlarge");
    let policies = document["policies"].as_array().unwrap();
    let figures = |at: usize| {
        let names = ["launches", "pods", "pods_hidden_share", "pending_pod_hours"];
        names.map(|name| policies[at][name].as_f64().unwrap().to_string())
    };
    // Nine times, three pods wait for two nodes, for a scan of 10 s and a launch of 90 s.
    assert_eq!(figures(0), ["18", "27", "0", "0.75"]);
    assert_eq!(figures(1), ["16", "27", "0.888888889", "0.0583333333"]);

    // The settings of a report repeat the run.
    let file = folder.path().join("settings.json");
    fs::write(&file, settings.to_string()).unwrap();
    let (again, _) = simulated(&["--settings", &file.display().to_string()]);
    assert_eq!(again["policies"], document["policies"]);

    // A description has how long they waited.
    let out = folder.path().join("described").display().to_string();
    let (code, table, error) = run(&["trace", "describe", "--data", &place, "--out", &out]);
    assert_eq!(code, 0, "{error}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = table.lines().rev().take(2).map(words).collect();
    assert_eq!(rows, ["priority 0 27 90 90 90 90", "scheduling delay, s pods 50 % 90 % 99 % most"]);
    let page = fs::read_to_string(folder.path().join("described/description.html")).unwrap();
    assert!(page.contains("waited longer than a number of seconds, by tier"), "{page}");

    let (code, _, error) = run(&["simulate", "--data", &place, "--data-policy", "a.b"]);
    let expected = format!("prophet: {place}: there is no policy a.b, only {POLICY}\n");
    assert_eq!((code, error), (1, expected));
}

/// Runs a Python program in a folder; returns its standard output.
fn python(folder: &Path, program: &str) -> String {
    let python = built::control_plane("python/bin/python").unwrap();
    let done = Command::new(python).args(["-c", program]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The code block of docs/history.md that contains this text.
fn documented(first_line: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/history.md");
    let text = fs::read_to_string(docs).unwrap();
    let blocks: Vec<&str> = text.split("```").skip(1).step_by(2).collect();
    let block = blocks.iter().find(|block| block.contains(first_line));
    block
        .unwrap_or_else(|| panic!("no block with {first_line}"))
        .split_once('\n')
        .unwrap()
        .1
        .to_owned()
}

#[tokio::test]
async fn duckdb_reads_closed_days_in_three_lines() {
    let (folder, _) = history().await;
    let program = documented("history/*/*/*.parquet");
    assert_eq!(program.trim().lines().count(), 3);
    let out = python(folder.path(), &program);
    for expected in ["2026-07-01", "2026-07-02", "m5.xlarge", "46"] {
        assert!(out.contains(expected), "{expected} is not in\n{out}");
    }
    assert!(!out.contains("2026-07-03"), "the open day is JSON\n{out}");
    let out = python(folder.path(), &documented("p.waited"));
    let counts = "12 │     12 │";
    assert_eq!(out.matches(counts).count(), 2, "12 pods a day, all of which waited\n{out}");
}

#[tokio::test]
async fn duckdb_reads_the_open_day_and_an_export() {
    let (folder, place) = history().await;
    let out = python(folder.path(), &documented("history/*/*/*.jsonl"));
    assert!(out.contains("2026-07-03") && out.contains("m5.large"), "{out}");
    let file = folder.path().join("history.parquet").display().to_string();
    let (code, _, error) = run(&["history", "export", "--data", &place, "--out", &file]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(error, format!("60 ticks of {POLICY} written to {file}\n"));
    let types = "import duckdb\nprint(duckdb.sql(\"SELECT column_name || ' ' || column_type FROM (DESCRIBE FROM 'history.parquet')\").fetchall())";
    let found = python(folder.path(), types);
    for column in
        ["time TIMESTAMP WITH TIME ZONE", "policy VARCHAR", "demand BIGINT", "room VARCHAR"]
    {
        assert!(found.contains(column), "{column} is not in {found}");
    }
    let sums = "import duckdb\nprint(duckdb.sql(\"SELECT count(*), sum(demand), sum(json_array_length(launches)) FROM 'history.parquet'\").fetchall())";
    let demand: u64 = (0..60).map(|hours| 3 * (hours % 24)).sum();
    assert_eq!(python(folder.path(), sums).trim(), format!("[(120, {demand}, 2)]"));
}

/// Every query of docs/queries.md has rows for a history of two closed days, and those whose
/// answers are known have them.
#[tokio::test]
async fn the_queries_of_the_book_answer_their_questions() {
    let (folder, _) = history().await;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/queries.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks: Vec<&str> =
        page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    // A row as JSON, because Python's times in a zone need a package.
    let program = format!(
        r#"
import duckdb, json
blocks = json.loads({:?})
duckdb.sql(blocks[0])
for block in blocks[1:]:
    rows = duckdb.sql("SELECT to_json(r) FROM (" + block.strip().rstrip(";") + ") r").fetchall()
    print("[" + ",".join(row[0] for row in rows) + "]")
"#,
        serde_json::to_string(&blocks).unwrap()
    );
    let out = python(folder.path(), &program);
    let rows: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((blocks.len(), rows.len()), (11, 10));
    for (rows, block) in rows.iter().zip(&blocks[1..]) {
        assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()), "no row:\n{block}");
    }
    let first = |query: usize, expected: Value| {
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(rows[query][0][name], *value, "{name} of query {query}");
        }
    };
    // Twelve pods a day waited for 90 seconds each.
    first(0, json!({"day": "2026-07-01", "pods": 12, "waited_percent": 100.0, "pod_hours": 0.3}));
    // Demand is twice the hour of the day, at $0.80 an hour, for two days.
    first(3, json!({"bucket": "m5.xlarge", "node_hours": 1_104.0, "dollars": 883.2}));
    // A launch of 90 seconds ends at noon of each day.
    first(5, json!({"hour": 11, "launches": 2, "waited_for": 0, "failed": 0}));
    first(6, json!({"group": "asg-1", "launches": 2, "median_seconds": 90.0, "p95_seconds": 90.0}));
    first(9, json!({"pods": 24, "median_minutes": 30.0, "longest_hours": 0.5}));
}

#[tokio::test]
async fn the_history_is_listed_by_day_by_tick_as_json_and_as_csv() {
    let (_folder, place) = history().await;
    let listed = |arguments: &[&str]| {
        let (code, out, error) = run(&[&["history", "--data", &place], arguments].concat());
        assert_eq!((code, error.as_str()), (0, ""));
        out
    };
    let days = listed(&[]);
    assert_eq!(days.lines().count(), 1 + 3 * 2, "{days}");
    let row = days.lines().nth(2).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(
        row,
        ["2026-07-01", POLICY, "m5.xlarge", "24", "23.0", "46", "2.0", "2", "0", "0", "-"],
        "{days}"
    );
    let ticks = listed(&[
        "--per",
        "tick",
        "--since",
        "2026-07-02T23:00:00Z",
        "--until",
        "2026-07-03T01:00:00Z",
    ]);
    assert_eq!(ticks.lines().count(), 1 + 2 * 2, "{ticks}");
    let json = listed(&["--output", "json", "--policy", POLICY, "--until", "2026-07-02"]);
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[23]["time"]), (24, &Value::from("2026-07-01T23:00:00Z")));
    let csv = listed(&["--output", "csv"]);
    assert!(
        csv.starts_with(
            "time,policy,bucket,demand,demand_max,announced,headroom,placeholders,ready,pods_hidden,pods_waited,planned,notice,prepaid,room,"
        ),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 1 + 60 * 2);
}

#[tokio::test]
async fn wrong_usage_has_a_message_and_an_exit_code() {
    let (folder, place) = history().await;
    let check = |arguments: &[&str], expected_code: i32, expected: &str| {
        let (code, _, error) = run(&[&["history"], arguments].concat());
        assert_eq!(code, expected_code, "{error}");
        assert!(error.contains(expected), "{expected} is not in\n{error}");
    };
    check(&[], 2, "--data <PLACE>");
    check(&["--data", &place, "--since", "yesterday"], 2, "expected a time such as 2026-07-01");
    check(&["export", "--data", &place], 2, "--out <FILE>");
    let none = folder.path().join("none").display().to_string();
    check(&["--data", &none], 1, "none: No such file or directory");
    check(&["--data", "ftp://x"], 1, "expected a folder, file:///FOLDER or s3://BUCKET/PREFIX");
    check(&["--data", &folder.path().display().to_string()], 1, "there is no history");
    check(&["--data", &place, "--policy", "a.b"], 1, "there is no policy a.b, only batch.night");
    // A faulty line is reported, and the other lines are still read.
    let open = Path::new(&place).join(format!("policy={POLICY}/day=2026-07-03/ticks-00000.jsonl"));
    let text = fs::read_to_string(&open).unwrap();
    fs::write(&open, format!("{text}nonsense\n")).unwrap();
    check(&["--data", &place], 0, "skipped: ");
    check(&["--data", &place], 0, "day=2026-07-03/ticks-00000.jsonl:13: not a line of the history");
    fs::write(&open, format!("{text}{{\"v\":2}}\n")).unwrap();
    check(&["--data", &place], 1, "ticks-00000.jsonl:13: field v: version 2 is newer than 1");
}
