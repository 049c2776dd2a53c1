//! The commands that need no cluster, and their errors after wrong usage.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::{prophet, run};

fn json(arguments: &[&str]) -> Value {
    let (code, out, error) = run(arguments);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).expect("JSON")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A week of a synthetic log, small enough for many runs.
fn log(folder: &Path) -> String {
    let path = folder.join("jobs.csv").display().to_string();
    let (code, _, error) =
        run(&["trace", "generate", "--days", "7", "--jobs-per-day", "300", "--out", &path]);
    assert_eq!(code, 0, "{error}");
    path
}

#[test]
fn the_main_command_compares_all_policies_on_a_synthetic_log() {
    let (code, out, error) = run(&["simulate"]);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("this is a synthetic log"), "{error}");
    let policies = [
        "reactive",
        "static-max",
        "constant:4",
        "best-constant",
        "ladder",
        "paper(last-value)",
        "ensemble",
        "oracle",
    ];
    for policy in policies {
        assert!(out.lines().any(|line| line.starts_with(policy)), "{policy} is not in\n{out}");
    }
}

#[test]
fn the_object_has_all_figures_and_its_settings_repeat_the_run() {
    let folder = folder();
    let log = log(folder.path());
    let first =
        json(&["simulate", "--trace", &log, "--from", "3d", "--replays", "2", "--output", "json"]);
    let keys = [
        "name",
        "jobs",
        "jobs_hidden_share",
        "launches",
        "launches_hidden_share",
        "instance_hours",
        "launching_instance_hours",
        "idle_instance_hours",
        "extra_idle",
        "extra_cost",
        "pending_pod_hours",
        "dollars",
        "placeholder_writes",
        "stderr",
    ];
    let policies = first["policies"].as_array().expect("policies");
    assert_eq!(policies.len(), 8);
    for policy in policies {
        for key in keys {
            assert!(policy.get(key).is_some(), "{key} is missing in {policy}");
        }
        for key in ["sum", "mean", "p50", "p95", "p99"] {
            assert!(policy["pending_minutes"][key].is_number(), "{key}");
            assert!(policy["stderr"]["pending_minutes"][key].is_number(), "{key}");
        }
    }
    assert!(policies[0]["cost_ratio"]["ratio"].is_number(), "{}", policies[0]);
    let file = folder.path().join("settings.json").display().to_string();
    fs::write(&file, first["settings"].to_string()).expect("settings are written");
    assert_eq!(json(&["simulate", "--settings", &file, "--output", "json"]), first);
}

#[test]
fn the_figures_can_be_recomputed_from_the_files() {
    let folder = folder();
    let log = log(folder.path());
    let out = folder.path().join("out");
    let out_text = out.display().to_string();
    let object = json(&[
        "simulate",
        "--trace",
        &log,
        "--from",
        "2d",
        "--until",
        "6d",
        "--policies",
        "reactive,increments",
        "--out",
        &out_text,
        "--output",
        "json",
        "--launch-latency",
        "lognormal:4m:9m",
        "--instance-type",
        "g5.48xlarge",
    ]);
    let rows = |name: &str| -> Vec<BTreeMap<String, String>> {
        let text = fs::read_to_string(out.join(name)).expect(name);
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_string));
        let header: Vec<String> = lines.next().expect("a header").collect();
        lines.map(|row| header.iter().cloned().zip(row).collect()).collect()
    };
    let number =
        |row: &BTreeMap<String, String>, key: &str| row[key].parse::<f64>().expect("a number");
    let (jobs, nodes, ticks) = (rows("jobs.csv"), rows("nodes.csv"), rows("ticks.csv"));
    let first = fs::read_to_string(&log)
        .expect("the log")
        .lines()
        .nth(1)
        .and_then(|l| l.split(',').nth(1).map(str::to_string));
    let first: f64 = first.and_then(|submit| submit.parse().ok()).expect("the first submission");
    let (from, until) = (first + 2.0 * 86_400.0, first + 6.0 * 86_400.0);
    for policy in object["policies"].as_array().expect("policies") {
        let name = policy["name"].as_str().expect("a name");
        let near = |key: &str, value: f64| {
            let reported =
                key.split('.').fold(policy, |value, key| &value[key]).as_f64().expect("a figure");
            assert!(
                (reported - value).abs() < 1e-6 * (1.0 + value.abs()),
                "{name} {key}: {reported} is not {value}"
            );
        };
        let own = |rows: &[BTreeMap<String, String>]| -> Vec<BTreeMap<String, String>> {
            rows.iter().filter(|row| row["policy"] == name).cloned().collect()
        };
        let waits: Vec<f64> = own(&jobs).iter().map(|row| number(row, "wait_s")).collect();
        near("jobs", waits.len() as f64);
        near("pending_minutes.sum", waits.iter().sum::<f64>() / 60.0);
        near(
            "jobs_hidden_share",
            waits.iter().filter(|wait| **wait <= 10.0).count() as f64 / waits.len() as f64,
        );
        let (mut alive, mut busy, mut paid) = (0.0, 0.0, 0.0);
        for node in own(&nodes) {
            let gone = if node["gone"] == "-1" { until } else { number(&node, "gone").min(until) };
            let since =
                |key: &str| if node[key] == "-1" { gone } else { number(&node, key).max(from) };
            alive += (gone - since("ready")).max(0.0);
            paid += (gone - since("requested")).max(0.0);
            busy += number(&node, "busy_s");
        }
        near("instance_hours", alive / 3_600.0);
        near("idle_instance_hours", (alive - busy) / 3_600.0);
        near("dollars", paid / 3_600.0 * 16.288);
        assert_eq!(own(&ticks).len(), 4 * 1_440);
    }
    let picture = fs::read_to_string(out.join("frontier.svg")).expect("frontier.svg");
    assert!(picture.starts_with("<svg xmlns=") && picture.contains("constant:N"), "{picture}");
    let page = fs::read_to_string(out.join("report.html")).expect("report.html");
    assert!(
        page.matches("<svg").count() >= 3 && !page.contains("http"),
        "one self-contained page with plots"
    );
}

#[test]
fn a_backtest_scores_forecasts_and_decisions() {
    let folder = folder();
    let log = log(folder.path());
    let out = folder.path().join("out");
    let out_text = out.display().to_string();
    let typed = ["--from", "3d", "--tick", "5m", "--forecasters", "ensemble,state", "--seeds", "2"];
    let mut arguments = vec!["backtest", "--trace", &log, "--output", "json", "--out", &out_text];
    arguments.extend(typed);
    let object = json(&arguments);
    let scores = object["forecast"].as_array().expect("scores");
    for score in scores {
        for key in ["name", "horizon", "mse", "pmse", "wape", "pinball", "coverage"] {
            assert!(score.get(key).is_some(), "{key} is missing in {score}");
        }
    }
    let horizons = |name: &str| -> Vec<Value> {
        scores
            .iter()
            .filter(|score| score["name"] == name)
            .map(|score| score["horizon"].clone())
            .collect()
    };
    for name in ["zero", "last-value", "static-max", "moving-window", "ensemble", "state", "oracle"]
    {
        assert_eq!(Value::from(horizons(name)), serde_json::json!([1, 2, 3, 6, "D"]), "{name}");
    }
    let of = |name: &str, key: &str| -> Vec<f64> {
        let own = scores.iter().filter(|score| score["name"] == name);
        own.map(|score| score[key].as_f64().expect("a figure")).collect()
    };
    assert_eq!(of("oracle", "mse"), [0.0; 5]);
    assert_eq!(of("zero", "pmse"), [0.0; 5]);
    assert!(of("ensemble", "mse").iter().all(|mse| *mse > 0.0));
    let decisions = object["decisions"].as_array().expect("decisions");
    let names: Vec<&str> = decisions.iter().filter_map(|policy| policy["name"].as_str()).collect();
    for name in [
        "reactive",
        "static-max",
        "best-constant",
        "ladder",
        "moving-window",
        "ensemble",
        "state",
        "oracle",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(decisions.iter().all(|policy| policy["stderr"]["dollars"].is_number()));
    let page = fs::read_to_string(out.join("backtest.html")).expect("backtest.html");
    assert!(
        page.matches("<svg").count() >= 4 && !page.contains("http"),
        "one self-contained page with plots"
    );
    let file = folder.path().join("settings.json").display().to_string();
    fs::write(&file, object["settings"].to_string()).expect("settings are written");
    assert_eq!(json(&["backtest", "--settings", &file, "--output", "json"]), object);
}

#[test]
fn the_papers_table_has_its_rows() {
    let folder = folder();
    let log = log(folder.path());
    let lstm = concat!("lstm=", env!("CARGO_MANIFEST_DIR"), "/../models/paper/lstm.onnx");
    let quantile =
        concat!("mine=", env!("CARGO_MANIFEST_DIR"), "/../models/pretrained/quantile.onnx");
    let table = [
        "--paper",
        "--forecasters",
        "increments",
        "--named-model",
        lstm,
        "--named-model",
        quantile,
    ];
    let (code, out, error) =
        run(&[&["backtest", "--trace", &log, "--from", "3d"], &table[..]].concat());
    assert_eq!(code, 0, "{error}");
    let row = |model: &str, ours: &str| {
        let rows = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows
            .filter(|cells| cells.len() == 6)
            .find(|cells| cells[0] == model && cells[3] == ours);
        row.unwrap_or_else(|| panic!("{model} is not in\n{out}"))
    };
    for (model, ours) in [("Transformer", "-"), ("Static", "static-max"), ("-", "increments")] {
        row(model, ours);
    }
    // The forecasts of the two models and of the last value differ, so none replaces another.
    let errors = [row("LSTM", "lstm")[4], row("-", "mine")[4], row("-", "last-value")[4]];
    assert!(
        errors[0] != errors[1] && errors[1] != errors[2] && errors[0] != errors[2],
        "{errors:?}"
    );
    assert!(out.contains("lstm: prophet.spec.horizon"), "{out}");
    assert!(out.contains("too few for intervals by day"), "{out}");
}

#[test]
fn embed_counts_instances() {
    let folder = folder();
    let shapes = folder.path().join("shapes.csv").display().to_string();
    let catalog = folder.path().join("catalog.yaml").display().to_string();
    let header =
        "name,count,accelerators,cpu_millis,memory_bytes,ephemeral_bytes,accelerator_kind\n";
    fs::write(
        &shapes,
        format!("{header}web,10,0,1000,1,0,\ntrain,3,4,0,0,0,\nodd,2,1,0,0,0,amd.com/gpu\n"),
    )
    .expect("shapes");
    let types = "instanceTypes:\n- {name: cpu, cpuMillis: 4000, pricePerHour: 1}\n- {name: gpu, accelerators: 8, pricePerHour: 9}\n";
    fs::write(&catalog, types).expect("catalog");
    let object = json(&["embed", "--shapes", &shapes, "--catalog", &catalog, "--output", "json"]);
    assert_eq!(object["instances"], serde_json::json!({"cpu": 3, "gpu": 2}));
    assert_eq!(
        object["unplaced"],
        serde_json::json!([{"name": "odd", "count": 2, "reason": "no_bucket_admits"}])
    );
    let share = json(&[
        "embed",
        "--shapes",
        &shapes,
        "--catalog",
        &catalog,
        "--mode",
        "share",
        "--output",
        "json",
    ]);
    assert_eq!(share["instances"], serde_json::json!({"cpu": 3, "gpu": 2}));
    let (code, out, _) = run(&["embed", "--shapes", &shapes]);
    assert!(code == 0 && out.contains("2 of odd fit nowhere: no instance type on offer has amd.com/gpu; give other types with --catalog"), "{out}");

    fs::write(&shapes, format!("{header}web,ten,0,1000,1,0,\n")).expect("shapes");
    let (code, _, error) = run(&["embed", "--shapes", &shapes]);
    assert_eq!(code, 1);
    assert!(
        error.contains(
            "shapes.csv:2: column count: expected a whole number from 0 to 2^60, got \"ten\""
        ),
        "{error}"
    );
}

#[test]
fn describe_prints_the_statistics_of_a_log() {
    let folder = folder();
    let log = log(folder.path());
    let object = json(&["trace", "describe", &log, "--output", "json"]);
    assert!(object["jobs"].as_u64().expect("jobs") > 500);
    assert_eq!(object["arrivals_by_hour"].as_array().map(Vec::len), Some(24));
    let (code, out, _) = run(&["trace", "describe", &log]);
    for part in ["offered demand", "arrivals by hour", "autocorrelation", "Pareto index"] {
        assert!(code == 0 && out.contains(part), "{part} is not in\n{out}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_failure_with_1() {
    let check = |arguments: &[&str], code: i32, expected: &str| {
        let (got, _, error) = run(arguments);
        assert!(got == code && error.contains(expected), "{arguments:?}: {got}, {error}");
    };
    check(&["simulat"], 2, "simulat");
    check(&["simulate", "--quantile", "1.5"], 2, "between 0 and 1");
    check(&["simulate", "--service-level", "0"], 2, "between 0 and 1");
    check(&["simulate", "--policies", "magic"], 2, "unknown policy");
    check(&["simulate", "--tick", "soon"], 2, "90s, 5m, 2h or 8d");
    check(&["simulate", "--wait-cost", "9"], 2, "--idle-cost");
    check(&["simulate", "--instance-type", "z9.huge"], 2, "z9.huge");
    check(&["simulate", "--trace", "/no/such/log"], 1, "failed to read /no/such/log");
    check(&["simulate", "--settings", "/no/such/file"], 1, "failed to read /no/such/file");
    check(
        &["simulate", "--from", "2030-01-01", "--policies", "reactive"],
        1,
        "no job is evaluated",
    );
    check(&["trace", "describe", "/no/such/log"], 1, "failed to read /no/such/log");
    check(&["backtest", "--forecasters", "magic"], 2, "unknown forecaster");
    check(&["backtest", "--forecasters", "constant:4"], 2, "unknown forecaster");
    check(&["backtest", "--paper", "--tick", "1m"], 2, "--tick");
    check(&["backtest", "--named-model", "mine.onnx"], 2, "expected NAME=FILE");
    check(&["backtest", "--named-model", "onnx=mine.onnx"], 2, "use another name for the model");
    check(
        &["backtest", "--named-model", "mine=/no/such.onnx"],
        1,
        "--named-model mine: the model /no/such.onnx cannot be run",
    );
    check(&["backtest", "--trace", "/no/such/log"], 1, "failed to read /no/such/log");
    check(&["backtest", "--from", "2030-01-01"], 1, "no job is evaluated");
    check(&["backtest", "--from", "0d"], 1, "no job precedes --from");
    let (code, out, _) = run(&["backtest", "--help"]);
    assert!(code == 0 && out.contains("Examples:") && out.contains("Scoring:"));
    let (code, out, _) = run(&["simulate", "--help"]);
    assert!(code == 0 && out.contains("Examples:") && out.contains("Policies, and"));
}

#[test]
fn an_interrupted_run_leaves_no_half_written_file() {
    let folder = folder();
    let out = folder.path().join("out");
    let out_text = out.display().to_string();
    let log = folder.path().join("jobs.csv").display().to_string();
    assert_eq!(
        run(&["trace", "generate", "--days", "400", "--jobs-per-day", "3000", "--out", &log]).0,
        0
    );
    let mut command = prophet(&["simulate", "--trace", &log, "--from", "1d", "--out", &out_text]);
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("prophet starts");
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let interrupt =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.is_ok_and(|status| status.success()));
    assert_eq!(child.wait().ok().and_then(|status| status.code()), Some(1));
    let left = fs::read_dir(&out).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files were left in {out_text}");
}

#[test]
fn a_closed_output_pipe_is_no_failure() {
    let mut child = prophet(&["trace", "generate", "--days", "30"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("prophet starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().ok().and_then(|status| status.code()), Some(0));
}
