//! The commands that need no cluster. `usage.rs` compares their errors after wrong usage.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use expect_test::expect_file;
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
fn the_main_command_compares_all_policies_on_the_example_log() {
    let (code, out, error) = run(&["simulate"]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(
        error,
        "note: without --trace, this is an example: four weeks of Microsoft's Philly cluster\n"
    );
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let policies = [
        "reactive",
        "static-max",
        "constant:4",
        "best-constant",
        "burst:10m:4",
        "ladder",
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
        "pods",
        "pods_hidden_share",
        "used_launches",
        "used_launches_hidden_share",
        "extra_packing",
        "break_even_dollars",
        "jobs_never_started",
        "instance_hours",
        "launching_instance_hours",
        "idle_instance_hours",
        "extra_idle",
        "extra_cost",
        "pending_pod_hours",
        "dollars",
        "bill",
        "launches_ratio",
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

/// Programs can rely on the version of the objects that commands print.
#[test]
fn documents_have_a_version_and_may_be_yaml() {
    for arguments in [
        &["catalog", "types", "m7i.large"][..],
        &["simulate", "--policies", "reactive", "--until", "15d"],
        &[
            "model",
            "check",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../models/pretrained/quantile.onnx"),
        ],
    ] {
        let object = json(&[arguments, &["--output", "json"]].concat());
        assert_eq!(object["version"], 1, "{arguments:?}: {object}");
        let (code, out, error) = run(&[arguments, &["-o", "yaml"]].concat());
        assert_eq!(code, 0, "{error}");
        let yaml: Value = serde_saphyr::from_str(&out).expect("YAML");
        assert_eq!(yaml, object, "{arguments:?}");
    }
}

#[test]
fn shells_and_man_know_the_commands() {
    for (shell, part) in [
        ("bash", "complete -F _prophet"),
        ("zsh", "#compdef prophet"),
        ("fish", "complete -c prophet"),
    ] {
        let (code, out, error) = run(&["completions", shell]);
        assert!(code == 0 && out.contains(part) && out.contains("simulate"), "{shell}: {error}");
    }
    let folder = folder();
    let (code, _, error) = run(&["man", &folder.path().display().to_string()]);
    assert_eq!(code, 0, "{error}");
    let page = fs::read_to_string(folder.path().join("prophet-simulate.1")).expect("a page");
    assert!(page.contains("Replay a job log") && page.contains("policy\\-file"), "{page}");
    let (code, out, _) = run(&["--version"]);
    assert!(code == 0 && out.contains("\ncommit: ") && out.contains("\nfeatures: "), "{out}");
}

/// kubectl runs a program `kubectl-NAME` on the path as `kubectl NAME`.
#[test]
fn the_program_is_a_plugin_of_kubectl() {
    let folder = folder();
    let plugin = folder.path().join("kubectl-prophet");
    std::os::unix::fs::symlink(prophet(&[]).get_program(), &plugin).expect("a link");
    let help = Command::new(&plugin).args(["explain", "--help"]).output().expect("it runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(help.contains("Usage: kubectl prophet explain"), "{help}");
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
        "reactive,increments,warm-pool:2,ensemble+warm-pool",
        "--out",
        &out_text,
        "--output",
        "json",
        "--launch-latency",
        "lognormal:4m:9m",
        "--instance-type",
        "g5.48xlarge",
    ]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../evaluation/recompute.py");
    let recompute = || {
        let output = Command::new("python3").arg(script).arg(&out).output().expect("python3 runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(recompute(), (Some(0), String::new()));
    assert!(object["window"]["from"].is_i64() && object["window"]["until"].is_i64(), "{object}");
    let jobs = fs::read_to_string(out.join("jobs.csv")).expect("jobs.csv");
    let without_last = jobs.trim_end().rsplit_once('\n').expect("rows").0;
    fs::write(out.join("jobs.csv"), without_last).expect("jobs.csv");
    let (code, text) = recompute();
    assert!(code == Some(1) && text.contains("jobs: figures.json has"), "{text}");
    let picture = fs::read_to_string(out.join("frontier.svg")).expect("frontier.svg");
    assert!(picture.starts_with("<svg xmlns=") && picture.contains("constant:N"), "{picture}");
    let page = fs::read_to_string(out.join("report.html")).expect("report.html");
    is_self_contained(&page, 3);
    for text in
        ["hours</b> for nodes in 4 days", "with the autoscaler alone", "g5.48xlarge", "16.288"]
    {
        assert!(page.contains(text), "{text} is not in the page");
    }
    for name in ["reactive", "increments", "constant:N", "scenario+arrivals:Q", "jobs waiting"] {
        let drawn = page.matches(&format!(">{name}<")).count();
        assert!(drawn >= 2, "{name} is not in the pictures for wide and for narrow screens");
    }
}

/// Checks that a page has at least this many figures, each for wide and for narrow screens, and
/// that it needs no other file.
fn is_self_contained(page: &str, figures: usize) {
    for class in ["<figure>", "<div class=\"broad\">", "<div class=\"narrow\">"] {
        assert!(page.matches(class).count() >= figures, "{class}");
    }
    for reference in ["http", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(reference), "{reference}");
    }
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
    for name in ["zero", "last-value", "static-max", "moving-window", "state", "oracle"] {
        assert_eq!(Value::from(horizons(name)), serde_json::json!([1, 2, 3, 6, "D"]), "{name}");
    }
    assert_eq!(Value::from(horizons("blend")), serde_json::json!([1, 2, 3, 6]));
    assert_eq!(Value::from(horizons("ensemble")), serde_json::json!(["D"]));
    let of = |name: &str, key: &str| -> Vec<f64> {
        let own = scores.iter().filter(|score| score["name"] == name);
        own.map(|score| score[key].as_f64().expect("a figure")).collect()
    };
    assert_eq!(of("oracle", "mse"), [0.0; 5]);
    assert_eq!(of("zero", "pmse"), [0.0; 5]);
    assert!(of("blend", "mse").iter().all(|mse| *mse > 0.0));
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
    is_self_contained(&page, 4);
    let (answer, details) = page.split_once("<table>").expect("a table after the answer");
    for text in
        ["</b> forecasts the new nodes needed within", " below that of the last value", "tie"]
    {
        assert!(answer.contains(text), "{text} is not in {answer}");
    }
    assert!(!answer.contains("<svg") && details.contains("<svg"), "the answer has no picture");
    let file = folder.path().join("settings.json").display().to_string();
    fs::write(&file, object["settings"].to_string()).expect("settings are written");
    assert_eq!(json(&["backtest", "--settings", &file, "--output", "json"]), object);
}

#[test]
fn the_papers_table_has_its_rows() {
    let folder = folder();
    let log = log(folder.path());
    let report = folder.path().join("report").display().to_string();
    let quantile =
        concat!("mine=", env!("CARGO_MANIFEST_DIR"), "/../models/pretrained/quantile.onnx");
    let table =
        ["--paper", "--forecasters", "increments", "--named-model", quantile, "--out", &report];
    let (code, out, error) =
        run(&[&["backtest", "--trace", &log, "--from", "158h"], &table[..]].concat());
    assert_eq!(code, 0, "{error}");
    let row = |model: &str, ours: &str| {
        let rows = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = rows
            .filter(|cells| cells.len() == 8)
            .find(|cells| cells[0] == model && cells[4] == ours);
        row.unwrap_or_else(|| panic!("{model} is not in\n{out}"))
    };
    for (model, ours) in [("Static", "static-max"), ("-", "increments")] {
        row(model, ours);
    }
    // The forecasts of the models and of the last value differ, so none replaces another.
    let rows = [
        ("LSTM", "lstm"),
        ("Transformer", "transformer"),
        ("SES", "ses"),
        ("-", "mine"),
        ("-", "last-value"),
    ];
    let errors: std::collections::BTreeSet<&str> =
        rows.iter().map(|(model, ours)| row(model, ours)[5]).collect();
    assert_eq!(errors.len(), rows.len(), "{errors:?}");
    assert!(out.contains("lstm: prophet.spec.horizon"), "{out}");
    assert!(out.contains("too few for intervals by day"), "{out}");
    let page = fs::read_to_string(folder.path().join("report/backtest.html")).expect("page");
    for title in ["Bucket counts", "Forecasts one tick ahead: transformer"] {
        assert!(page.contains(title), "{title}");
    }
}

/// The errors one tick ahead of the last value, of no instance and of as many as the maximum follow
/// from the counts of Algorithm 2 alone. Those of the models are as they were measured.
#[test]
fn the_papers_table_has_the_errors_of_the_counts() {
    let folder = folder();
    let log = log(folder.path());
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/paper/unit.yaml");
    let counted = ["trace", "ticks", &log, "--catalog", unit, "--tick", "5m", "--mode", "share"];
    let (code, ticks, error) = run(&counted);
    assert_eq!(code, 0, "{error}");
    let row = |line: &str| {
        let mut cells = line.split(',');
        let time: i64 = cells.next().unwrap().parse().unwrap();
        (time, cells.nth(1).unwrap().parse::<f64>().unwrap())
    };
    let counts: Vec<(i64, f64)> = ticks.lines().skip(1).map(row).collect();
    let forecasters = "increments,arima,holt-winters";
    let scored = ["backtest", "--trace", &log, "--paper", "--forecasters", forecasters];
    let (code, out, error) = run(&[&scored[..], &["--from", "158h", "--output", "json"]].concat());
    assert_eq!(code, 0, "{error}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let judged = usize::try_from(document["judged"]["ticks"].as_u64().unwrap()).unwrap();
    let errors = |name: &str| {
        let rows = document["table4"].as_array().unwrap();
        let ours = rows.iter().map(|row| &row["ours"]).find(|ours| ours["name"] == name);
        let ours = ours.unwrap_or_else(|| panic!("{name} is not in {document:#}"));
        [ours["mse"].as_f64().unwrap(), ours["pmse"].as_f64().unwrap()]
    };
    let first = counts.iter().position(|(time, _)| *time >= START + 158 * 3_600).unwrap();
    let most = counts[..first].iter().map(|(_, count)| *count).fold(0.0, f64::max);
    let expected = |forecast: &dyn Fn(usize) -> f64| {
        let error = |at: usize| (forecast(at) - counts[at + 1].1) / most;
        let mean = |of: &dyn Fn(f64) -> f64| {
            (first..first + judged).map(|at| of(error(at))).sum::<f64>() / judged as f64
        };
        [mean(&|error| error * error), mean(&|error| error.max(0.0).powi(2))]
    };
    let check = |name: &str, expected: [f64; 2], tolerance: f64| {
        for (found, expected) in errors(name).into_iter().zip(expected) {
            let apart = (found - expected).abs();
            assert!(apart <= tolerance * expected, "{name}: {found} is not {expected}");
        }
    };
    check("zero", expected(&|_| 0.0), 1e-9);
    check("last-value", expected(&|at| counts[at].1), 1e-9);
    check("static-max", expected(&|_| most), 1e-9);
    check("transformer", [3.394_567e-3; 2], 0.02);
    check("lstm", [4.204_201e-2; 2], 0.02);
    check("ses", [6.094_719e-5, 3.014_211e-5], 0.02);
    let [mse, pmse] = errors("arima");
    assert!(0.0 < pmse && pmse < mse && mse < errors("static-max")[0], "{mse} {pmse}");
    errors("holt-winters");
}

/// The first second of a synthetic log.
const START: i64 = 1_704_067_200;

/// The shipped networks were trained for another bucket than the types of AWS.
#[test]
fn networks_of_other_buckets_have_no_row_and_others_are_named() {
    let folder = folder();
    let log = log(folder.path());
    let file = |name: &str| format!("{}/../models/paper/{name}", env!("CARGO_MANIFEST_DIR"));
    let mine = format!("mine={}", file("lstm.onnx"));
    let scored = ["backtest", "--forecasters", "increments", "--paper", "--from", "160h"];
    let types = ["--trace", &log, "--instance-type", "m5.24xlarge,g4dn.metal"];
    let (code, out, error) = run(&[&scored[..], &types, &["--named-model", &mine]].concat());
    assert_eq!(code, 0, "{error}");
    for name in ["transformer", "lstm", "mine"] {
        let fault = format!("{name}: prophet.spec.buckets: \"unit\" is not a bucket");
        assert!(out.contains(&fault), "{name} is not in\n{out}");
    }
    assert!(out.lines().any(|line| line.starts_with("SES")), "{out}");
}

/// The check runs each network on the input of its file, and compares the output.
#[test]
fn the_networks_of_the_paper_are_usable() {
    for name in ["transformer", "lstm", "transformer-g4dn", "transformer-g4dn-differences"] {
        let file = format!("{}/../models/paper/{name}.onnx", env!("CARGO_MANIFEST_DIR"));
        let (code, out, error) = run(&["model", "check", &file]);
        assert_eq!(code, 0, "{name}: {error}");
        assert!(out.contains("usable, run by the embedded engine"), "{name}: {out}");
    }
}

/// The last hours of a week of a synthetic log.
#[test]
fn the_papers_autoscaler_holds_what_its_networks_forecast() {
    let folder = folder();
    let log = log(folder.path());
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../models/paper/unit.yaml");
    let policies = "paper,paper(lstm),paper(holt-winters),paper(last-value),ladder";
    let simulate = ["simulate", "--trace", &log, "--from", "163h", "--policies", policies];
    let with = |catalog: &[&str]| {
        let (code, out, error) = run(&[&simulate, catalog, &["--output", "json"]].concat());
        assert_eq!(code, 0, "{error}");
        let object: Value = serde_json::from_str(&out).expect("JSON");
        (object, error)
    };
    let idle = |object: &Value, name: &str| {
        let mut found = object["policies"].as_array().expect("policies").iter();
        let found = found.find(|policy| policy["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not in {object}"))["idle_instance_hours"].clone()
    };
    let (object, error) = with(&["--catalog", unit]);
    assert!(!error.contains("holds the ladder"), "{error}");
    assert_eq!(idle(&object, "paper(last-value)"), idle(&object, "reactive"));
    for name in ["paper(transformer)", "paper(lstm)", "paper(holt-winters)"] {
        assert!(idle(&object, name) != idle(&object, "ladder"), "{name}");
    }
    assert!(idle(&object, "paper(holt-winters)") != idle(&object, "reactive"));
    // The networks were not trained for the types that suit the log.
    let (object, error) = with(&[]);
    assert!(error.contains("note: paper(transformer) holds the ladder"), "{error}");
    assert_eq!(idle(&object, "paper(transformer)"), idle(&object, "ladder"));
    assert!(idle(&object, "paper(holt-winters)") != idle(&object, "ladder"));
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
    let json = |arguments: &[&str]| -> Value {
        let (code, out, error) = run(arguments);
        assert!(code == 1 && error.contains("2 of odd"), "{error}");
        serde_json::from_str(&out).expect("JSON")
    };
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

    // Two pods of 2,500 thousandths share no node of 4,000, but the sum of four fits three nodes.
    let halves = folder.path().join("halves.csv").display().to_string();
    fs::write(&halves, format!("{header}half,4,0,2500,1,0,\n")).expect("shapes");
    for (mode, instances) in [("bins", 4), ("share", 3)] {
        let arguments = ["embed", "--shapes", &halves, "--catalog", &catalog, "--mode", mode];
        let (code, out, error) = run(&[&arguments[..], &["--output", "json"]].concat());
        assert_eq!(code, 0, "{error}");
        let object: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(object["instances"], serde_json::json!({"cpu": instances}), "{mode}");
    }

    // An m5.xlarge has four CPUs, of which the kubelet keeps a part.
    let whole = folder.path().join("whole.csv").display().to_string();
    fs::write(&whole, format!("{header}whole,3,0,4000,16384,0,\n")).expect("shapes");
    let (code, out, error) = run(&["embed", "--shapes", &whole, "--output", "json"]);
    assert_eq!(code, 0, "{error}");
    let object: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(object["instances"], serde_json::json!({"m5.2xlarge": 3}));

    let (code, out, error) = run(&["embed", "--shapes", &shapes]);
    assert_eq!(code, 1);
    let why = "2 of odd fit nowhere: no instance type on offer has amd.com/gpu; give other types with --catalog";
    assert!(out.contains("m5.large") && out.contains(why), "{out}");
    assert_eq!(error, "prophet: no instance type fits 2 of odd\n");
}

#[test]
fn advise_chooses_a_base_instance() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let log = path("jobs.csv").display().to_string();
    // Every hour, four jobs that each fill the smallest type, and one that needs the largest.
    let mut lines = vec!["submit,runtime,pods,cpu_millis".to_owned()];
    for hour in 0..72 {
        lines.extend(vec![format!("{},3000,1,7900", hour * 3_600); 4]);
        lines.push(format!("{},3000,1,90000", hour * 3_600 + 60));
    }
    fs::write(&log, lines.join("\n")).expect("a log");
    let out = path("advice").display().to_string();
    let arguments = ["catalog", "advise", "--trace", &log, "--from", "1d", "--series", "r5,p3"];
    let object = json(&[&arguments[..], &["--output", "json", "--out", &out]].concat());
    let file = fs::read_to_string(path("advice/advice.json")).expect("advice.json");
    assert_eq!(serde_json::from_str::<Value>(&file).expect("JSON"), object);
    // Four jobs fill four of r5.2xlarge or one of r5.8xlarge, at the same price; larger types are
    // never full with them.
    let chosen = ["r5.8xlarge", "r5.12xlarge", "r5.16xlarge", "r5.24xlarge"];
    assert_eq!(object["instance_types"], serde_json::json!(chosen));
    let series = object["series"].as_array().expect("series");
    assert_eq!((&series[0]["base"], &series[1]["base"]), (&"r5.8xlarge".into(), &Value::Null));
    let choices = series[0]["choices"].as_array().expect("choices");
    assert_eq!(choices.len(), 8);
    for choice in choices {
        let policies = choice["policies"].as_array().expect("policies");
        let names: Vec<&Value> = policies.iter().map(|policy| &policy["policy"]).collect();
        assert_eq!(names, ["reactive", "ensemble"]);
        let of =
            |at: usize, field: &str| policies[at]["figures"][field].as_f64().expect("a number");
        assert!(of(0, "dollars") >= choice["scale_dollars"].as_f64().expect("dollars"));
        // With the largest types, nodes stay through the gaps between jobs, so there is nothing to
        // remove, and a placeholder may take the room of a job once.
        assert!(of(1, "pending_pod_hours") <= of(0, "pending_pod_hours") + 0.5, "{choice}");
    }
    let picture = fs::read_to_string(path("advice/r5.svg")).expect("r5.svg");
    assert!(picture.starts_with("<svg") && picture.contains("r5.2xlarge"), "{picture}");
    assert!(!path("advice/p3.svg").exists());
    let catalog = path("advice/catalog.yaml").display().to_string();
    let replay = ["simulate", "--trace", &log, "--policies", "reactive", "--catalog", &catalog];
    assert_eq!(run(&replay).0, 0);
    let (code, out, _) = run(&arguments);
    let parts =
        ["r5: the base instance is r5.8xlarge", "p3: no job runs on it", "mean nodes by type"];
    for part in
        [&parts[..], &["Chosen: --instance-type r5.8xlarge,r5.12xlarge,r5.16xlarge,r5.24xlarge"]]
            .concat()
    {
        assert!(code == 0 && out.contains(part), "{part} is not in\n{out}");
    }
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
}

/// "Borg: the Next Generation" isolates the few giant jobs (hogs) from the others (mice), because
/// they delay them. Here, the headroom for the mice hardly changes after a hog.
#[test]
fn a_giant_job_hardly_changes_the_headroom_of_the_following_days() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mice = fs::read_to_string(log(folder.path())).expect("a log");
    let mut lines: Vec<&str> = mice.lines().collect();
    let column = |line: &str, at: usize| line.split(',').nth(at).map(str::to_owned);
    let submit = |line: &str| column(line, 1).and_then(|text| text.parse::<i64>().ok());
    let start = submit(lines[1]).expect("a time") + 3 * 86_400;
    // A thousand nodes for a day.
    let hog = format!("hog,{start},86400,1000,,,8,,8000,0,0,0,,");
    let at = lines.iter().skip(1).position(|line| submit(line) > Some(start)).expect("a job");
    lines.insert(at + 1, &hog);
    fs::write(path("hog.csv"), lines.join("\n")).expect("a log with a hog");
    let types = "catalog: {instanceTypes: [{name: eight, accelerators: 8, cpuMillis: 8000, pricePerHour: 1}]}\n";
    fs::write(path("settings.yaml"), types).expect("settings");
    let headroom = |log: &str| {
        let out = path(&format!("{log}-out"));
        let files = ["--trace", &path(log), "--settings", &path("settings.yaml"), "--out", &out];
        let policy = ["simulate", "--from", "2d", "--policies", "ensemble"];
        let (code, _, error) = run(&[&policy[..], &files].concat());
        assert_eq!(code, 0, "{error}");
        let ticks = fs::read_to_string(Path::new(&out).join("ticks.csv")).expect("ticks.csv");
        let cells = ticks.lines().filter(|line| line.starts_with("ensemble,"));
        let after = cells.filter(|line| submit(line) >= Some(start + 86_400));
        let counts: Vec<f64> = after.filter_map(|line| column(line, 4)?.parse().ok()).collect();
        assert!(counts.len() > 2 * 1_440, "{} ticks", counts.len());
        counts.iter().sum::<f64>() / counts.len() as f64
    };
    let (without, with) = (headroom("jobs.csv"), headroom("hog.csv"));
    assert!((with - without).abs() < 1.0, "{without} nodes, and {with} after a hog");
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
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
}

/// Ten jobs of a core for an hour, ten minutes apart, and one of ten cores for ten hours.
#[test]
fn describe_prints_all_figures_of_a_small_log() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut lines = vec!["submit,runtime,cpu_millis,memory_bytes,priority".to_owned()];
    lines.extend((0..10).map(|at| format!("{},3600,1000,4294967296,0", 600 * at)));
    lines.push("6000,36000,10000,42949672960,5".into());
    fs::write(path("jobs.csv"), lines.join("\n")).expect("a log");
    let out = path("out");
    let (code, text, error) = run(&["trace", "describe", &path("jobs.csv"), "--out", &out]);
    assert_eq!(code, 0, "{error}");
    let (_, text) = text.split_once(": ").expect("the path of the log");
    expect_file!["data/described.txt"].assert_eq(text);
    let page = fs::read_to_string(path("out/description.html")).expect("description.html");
    is_self_contained(&page, 4);
    for part in ["<h2>Consumption</h2>", "<h2>Arrivals</h2>", "<h2>Tiers</h2>", "priority 5"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let file = fs::read_to_string(path("out/description.json")).expect("description.json");
    let object = json(&["trace", "describe", &path("jobs.csv"), "--output", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&file).expect("JSON"), object);
    let cores = &object["consumption"][0];
    assert_eq!(cores["resource"], "core-hours");
    // The variance is (10 × 9² + 90²) / 11 = 810, so C² is 8.1, and the delay (8.1 + 1) / 2.
    let figures = [
        (&cores["mean"], 10.0),
        (&cores["tail"]["delay_at_half_load"], 4.55),
        (&cores["tail"]["delays"][0]["delay"], 0.3 / 0.7 * 4.55),
        (&cores["tail"]["delays"][5]["delay"], 0.95 / 0.05 * 4.55),
        (&object["cpu_memory_correlation"], 1.0),
    ];
    for (got, expected) in figures {
        assert!((got.as_f64().expect("a number") - expected).abs() < 1e-9, "{got} {expected}");
    }
}

/// The `prophet` command with these arguments, after it has begun to handle SIGINT and SIGTERM.
fn started(arguments: &[&str]) -> Child {
    let mut command = prophet(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("prophet starts");
    let status = format!("/proc/{}/status", child.id());
    let handles_signals = || {
        let status = fs::read_to_string(&status).expect("the status of the process");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("SigCgt").trim(), 16);
        // SIGINT is signal 2, so it is the second bit, and SIGTERM is signal 15.
        let both = (1 << 1) | (1 << 14);
        caught.expect("a mask") & both == both
    };
    while !handles_signals() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// All files and folders below a folder.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = paths
        .flat_map(|path| {
            if path.is_dir() { [vec![path.clone()], tree(&path)].concat() } else { vec![path] }
        })
        .collect();
    all.sort();
    all
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test measures how long the command takes to end"
)]
fn ctrl_c_and_sigterm_end_a_command_at_once_and_leave_nothing_behind() {
    let folder = folder();
    let existing = folder.path().join("existing");
    fs::create_dir(&existing).expect("a folder");
    fs::write(existing.join("report.html"), "an older report").expect("a file");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let before = tree(folder.path());
    let end = |arguments: &[&str], signal: &str, expected: i32, last: &str| {
        let mut child = started(arguments);
        std::thread::sleep(Duration::from_secs(1));
        let interrupted = Instant::now();
        let kill =
            std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(kill.is_ok_and(|status| status.success()), "{arguments:?} has ended before");
        // Waiting would close standard input, and a command that reads it would end by itself.
        let _stdin = child.stdin.take();
        let code = child.wait().expect("prophet ends").code();
        let took = interrupted.elapsed();
        let mut error = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut error).expect("text");
        assert_eq!(code, Some(expected), "{arguments:?}: {error}");
        assert!(took < Duration::from_secs(10), "{arguments:?} took {took:?}");
        assert!(error.ends_with(&format!("prophet: {last}\n")), "{arguments:?}: {error}");
        assert_eq!(tree(folder.path()), before, "{arguments:?}");
    };
    let check = |arguments: &[&str]| {
        end(arguments, "-INT", 130, "interrupted");
        end(arguments, "-TERM", 143, "terminated");
    };
    // Each of these runs for minutes, or waits for standard input.
    let simulate = ["simulate", "--policies", "ensemble", "--replays", "100", "--out"];
    check(&[&simulate[..], &[&path("existing"), "--force"]].concat());
    check(&[&simulate[..], &[&path("new/folder")]].concat());
    check(&["backtest", "--seeds", "100", "--out", &path("new")]);
    check(&["simulate", "--trace", "-", "--out", &path("new")]);
    check(&["trace", "describe", "-"]);
    check(&["trace", "ticks", "-", "--out", &path("ticks.csv")]);
    let days = ["--days", "3660", "--jobs-per-day", "2000", "--out"];
    check(&[&["trace", "generate"], &days[..], &[&path("jobs.csv")]].concat());
    check(&["embed", "--shapes", "-"]);
}

#[test]
fn tables_fit_100_characters_unless_wide() {
    let folder = folder();
    let log = log(folder.path());
    let check = |arguments: &[&str], columns: &[&str]| {
        let arguments = [arguments, &["--trace", &log, "--from", "3d"]].concat();
        let (_, narrow, _) = run(&arguments);
        let (_, wide, _) = run(&[&arguments[..], &["--wide"]].concat());
        let longest = narrow.lines().max_by_key(|line| line.chars().count()).expect("lines");
        assert!(longest.chars().count() <= 100, "{longest}");
        assert!(narrow.contains("Columns that --wide adds: "), "{narrow}");
        assert!(!wide.contains("--wide"), "{wide}");
        for column in columns {
            assert!(wide.lines().any(|line| line.contains(column)), "{column} is not in\n{wide}");
        }
    };
    let policies = "reactive,scenario+arrivals:0.97123,best-constant";
    let columns = ["p95", "p99", "instance", "placeholder"];
    check(&["simulate", "--policies", policies, "--replays", "2"], &columns);
    check(&["backtest", "--forecasters", "scenario+arrivals", "--tick", "5m"], &["below %", "p99"]);
}

#[test]
fn a_closed_output_pipe_is_no_failure() {
    let mut child = prophet(&["trace", "generate", "--days", "30"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("prophet starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().ok().and_then(|status| status.code()), Some(0));
}

/// A log of Borg: for a day, a task of each of these priorities every 20 minutes.
fn borg(folder: &Path, priorities: &[u32]) -> String {
    let path = folder.join("borg.json").display().to_string();
    let mut events = Vec::new();
    for at in (0..72_u64).map(|number| number * 1_200) {
        for (task, priority) in priorities.iter().enumerate() {
            let event = |seconds: u64, kind: &str, request: Value| {
                let event = serde_json::json!({
                    "time": (seconds * 1_000_000).to_string(), "type": kind,
                    "collection_id": at.to_string(), "instance_index": task.to_string(),
                    "priority": priority.to_string(), "resource_request": request,
                });
                (seconds, event.to_string())
            };
            let request = serde_json::json!({"cpus": 0.5, "memory": 0.1});
            events.push(event(600 + at, "SUBMIT", request));
            events.push(event(601 + at, "SCHEDULE", Value::Null));
            events.push(event(900 + at, "FINISH", Value::Null));
        }
    }
    events.sort();
    let lines: Vec<String> = events.into_iter().map(|(_, line)| line).collect();
    fs::write(&path, lines.join("\n")).expect("a log");
    path
}

#[test]
fn tiers_of_a_borg_log_have_their_own_waiting() {
    let folder = folder();
    let log = borg(folder.path(), &[25, 110, 110, 200]);
    let arguments = [
        "simulate",
        "--trace",
        &log,
        "--from",
        "2h",
        "--policies",
        "reactive,constant:2",
        "--tier",
        "production=200:4",
        "--tier",
        "batch=100:1",
    ];
    let object = json(&[&arguments[..], &["--output", "json"]].concat());
    for policy in object["policies"].as_array().expect("policies") {
        let tiers = policy["tiers"].as_array().expect("tiers");
        let of = |field: &str| -> Vec<f64> {
            tiers.iter().map(|tier| tier[field].as_f64().unwrap_or(f64::NAN)).collect()
        };
        let names: Vec<Option<&str>> = tiers.iter().map(|tier| tier["tier"].as_str()).collect();
        assert_eq!(names, [Some("production"), Some("batch"), None], "{policy}");
        assert_eq!(of("jobs"), [66.0, 132.0, 66.0], "{policy}");
        let all = policy["pending_pod_hours"].as_f64().expect("pod-hours");
        assert!((of("pending_pod_hours").iter().sum::<f64>() - all).abs() < 1e-6, "{policy}");
    }
    let (code, out, error) = run(&arguments);
    assert_eq!(code, 0, "{error}");
    for row in ["reactive, production", "reactive, batch", "constant:2, no tier"] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in\n{out}");
    }
}

#[test]
fn spot_instances_are_compared_with_instances_on_demand() {
    let folder = folder();
    let log = log(folder.path());
    let catalog = folder.path().join("types.yaml");
    let size = "name: m5.4xlarge, cpuMillis: 16000, memoryBytes: 68719476736";
    let types = format!(
        "instanceTypes:\n- {{{size}, pricePerHour: 1}}\n- {{{size}, pricePerHour: 0.25, capacityType: spot}}\n"
    );
    fs::write(&catalog, types).expect("a catalog");
    let catalog = catalog.display().to_string();
    let arguments = [
        "simulate",
        "--trace",
        &log,
        "--from",
        "2d",
        "--policies",
        "reactive",
        "--catalog",
        &catalog,
        "--spot-for",
        "all",
        "--interruptions-per-hour",
        "0.5",
    ];
    let object = json(&[&arguments[..], &["--output", "json"]].concat());
    let cases = object["spot"].as_array().expect("cases");
    let of = |field: &str| -> Vec<f64> {
        cases.iter().map(|case| case[field].as_f64().unwrap_or(f64::NAN)).collect()
    };
    let kinds: Vec<&str> =
        cases.iter().filter_map(|case| case["spot_instances"].as_str()).collect();
    assert_eq!(kinds, ["on_demand", "uninterrupted", "as_set"]);
    let [dollars, lost] = ["dollars", "interrupted_pods"].map(of);
    assert!((dollars[1] - dollars[0] / 4.0).abs() < 1e-6, "{dollars:?}");
    assert!(dollars[2] > dollars[1] && dollars[2] < dollars[0], "{dollars:?}");
    assert!(lost[0] == 0.0 && lost[1] == 0.0 && lost[2] > 0.0, "{lost:?}");
    let (code, out, error) = run(&arguments);
    assert_eq!(code, 0, "{error}");
    for row in ["reactive, on demand", "reactive, spot, uninterrupted", "reactive, spot "] {
        assert!(out.lines().any(|line| line.starts_with(row)), "{row} is not in\n{out}");
    }
}

/// A machine of half the largest size and all of its memory. In two hours, a production job
/// requests all of its processors for one, and a free job half of them for both.
#[test]
fn describe_has_the_shares_of_borgs_machines_by_tier() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, lines: &[String]| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n")).unwrap();
        path.display().to_string()
    };
    let event = |seconds: u64, kind: &str, collection: u64, priority: u64, shares: [f64; 2]| {
        serde_json::json!({
            "time": seconds * 1_000_000, "type": kind, "collection_id": collection,
            "instance_index": 0, "priority": priority,
            "resource_request": {"cpus": shares[0], "memory": shares[1]},
        })
        .to_string()
    };
    let log = write(
        "instance_events.json",
        &[
            event(0, "SUBMIT", 1, 200, [0.5, 0.25]),
            event(0, "SUBMIT", 2, 50, [0.25, 0.5]),
            event(3_600, "FINISH", 1, 200, [0.0; 2]),
            event(7_200, "SUBMIT", 3, 200, [0.5, 0.25]),
            event(7_300, "FINISH", 2, 50, [0.0; 2]),
            event(7_300, "FINISH", 3, 200, [0.0; 2]),
        ],
    );
    let machines = write(
        "machine_events.json",
        &[r#"{"time": 0, "machine_id": 1, "type": 1, "capacity": {"cpus": 0.5, "memory": 1.0}}"#
            .into()],
    );
    let sample = |at: u64| {
        serde_json::json!({
            "start_time": at * 300_000_000, "end_time": (at + 1) * 300_000_000,
            "collection_id": 1, "instance_index": 0,
            "average_usage": {"cpus": 0.1, "memory": 0.25}, "maximum_usage": {"memory": 0.5},
        })
        .to_string()
    };
    // The last samples are after the last submission, with which the shares end.
    let samples = (0..12).chain(24..48).map(sample);
    let usage = write("instance_usage.json", &samples.collect::<Vec<_>>());
    let describe = ["trace", "describe", &log, "--machines", &machines];
    let with_usage = [&describe[..], &["--usage", &usage]].concat();
    let (code, out, error) = run(&with_usage);
    assert_eq!(code, 0, "{error}");
    for row in [
        "machines 1.0 on average, 48.0 cores, 384.0 GiB",
        "production 50.0 10.0 12.5 12.5",
        "free 50.0 0.0 50.0 0.0",
        "all 100.0 10.0 62.5 12.5",
    ] {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(out.lines().any(|line| words(line) == row), "{row} is not in\n{out}");
    }
    let (code, out, error) = run(&[&describe[..], &["--output", "json"]].concat());
    assert_eq!(code, 0, "{error}");
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    let all = document["allocation"]["tiers"].as_array().unwrap().last().unwrap();
    assert_eq!(all["cpu_requested"], 1.0);
    assert_eq!(all.get("cpu_used"), Some(&Value::Null));
}
