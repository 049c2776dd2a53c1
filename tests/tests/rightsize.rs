//! `prophet rightsize`: recommendations from usage, as nodes and dollars.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tests::ports::Port;
use tests::process::Process;
use tests::run;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The files of a run.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    /// Nodes of 4 cores and 16 GiB for a dollar an hour.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let world = Self { folder };
        let catalog = format!(
            "instanceTypes:\n- {{name: node, cpuMillis: 4000, memoryBytes: {}, pods: 50, pricePerHour: 1}}\n",
            16 * GIB
        );
        world.write("catalog.yaml", &catalog);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("the file is written");
        self.path(name).display().to_string()
    }

    /// Runs `prophet rightsize` with the catalog of this world.
    fn run(&self, usage: &str, log: &str, more: &[&str]) -> (i32, String, String) {
        let catalog = self.path("catalog.yaml").display().to_string();
        let arguments = ["rightsize", "--usage", usage, "--trace", log, "--catalog", &catalog];
        run(&[&arguments[..], more].concat())
    }

    fn json(&self, usage: &str, log: &str, more: &[&str]) -> Value {
        let (code, out, error) = self.run(usage, log, &[more, &["--output", "json"]].concat());
        assert_eq!(code, 0, "{error}");
        serde_json::from_str(&out).expect("JSON")
    }
}

/// Three days of four jobs an hour, each of which runs for 50 minutes in a pod of 3 cores and 10
/// GiB.
fn hourly_jobs(world: &World) -> String {
    let mut lines = vec!["job,submit,runtime,cpu_millis,memory_bytes".to_owned()];
    for hour in 0..72 {
        let job = |at| format!("train-{},{},3000,3000,{}", 4 * hour + at, 3_600 * hour, 10 * GIB);
        lines.extend((0..4).map(job));
    }
    world.write("jobs.csv", &lines.join("\n"))
}

/// What they use: half a core and 1,052 MiB each.
fn hourly_usage(world: &World) -> String {
    let mut lines = vec!["time,owner,pod,cpu_millis,memory_bytes".to_owned()];
    for hour in 0..72 {
        for sample in 0..10 {
            let time = 3_600 * hour + 300 * sample;
            let row = |at| format!("{time},train,train-{},500,{}", 4 * hour + at, 1_052 * MIB);
            lines.extend((0..4).map(row));
        }
    }
    world.write("usage.csv", &lines.join("\n"))
}

#[track_caller]
fn near(value: &Value, expected: f64) {
    let got = value.as_f64().expect("a number");
    assert!((got - expected).abs() < 1e-6 * expected.abs().max(1.0), "{got}, expected {expected}");
}

/// The limit of CPU is 506, the boundary of 500, and 15 % of it: 582, or the next boundary 590.
/// That of memory is 1,052 MiB and 15 %: 1,210, or 1,229. Four such pods share a node, and before
/// each had one. Twelve samples ran under the request before there was a recommendation.
#[test]
fn right_sized_requests_save_nodes_and_dollars() {
    let world = World::new();
    let (log, usage) = (hourly_jobs(&world), hourly_usage(&world));
    let object = world.json(&usage, &log, &["--from", "1d"]);
    let advice = &object["advice"];
    let container = &advice["containers"][0];
    assert_eq!((&container["owner"], &container["jobs"]), (&json!("train"), &json!(288)));
    assert_eq!((&container["pods_max"], &container["samples"]), (&json!(4), &json!(720)));
    let statistics = json!({"cpu": "S_avg", "memory": "S_max"});
    assert_eq!(container["cpu_millis"]["statistic"], statistics["cpu"]);
    assert_eq!(container["memory_bytes"]["statistic"], statistics["memory"]);
    let memory = &container["memory_bytes"];
    assert_eq!(
        (&memory["request"], &memory["recommended"]),
        (&json!(10 * GIB), &json!(1_229 * MIB))
    );
    let cpu = json!({"statistic": "S_avg", "request": 3_000, "recommended": 590, "used_max": 500});
    assert_eq!(container["cpu_millis"], cpu);

    let (requested, recommended) = (&advice["requested"], &advice["recommended"]);
    near(&requested["slack_cpu"], 1.0 - 500.0 / 3_000.0);
    let limits = 12.0 * 3_000.0 + 708.0 * 590.0;
    near(&recommended["slack_cpu"], 1.0 - 720.0 * 500.0 / limits);
    near(&requested["footprint_cores"], 4.0 * 720.0 * 3.0 / (3.0 * 288.0));
    near(&recommended["footprint_cores"], 4.0 * limits / 1_000.0 / (3.0 * 288.0));
    near(&recommended["changes_per_day"], 2.0 / 3.0);
    near(&recommended["oom_day_share"], 0.0);

    let (before, after) = (&advice["cluster_requested"], &advice["cluster_right_sized"]);
    assert_eq!((&before["nodes"][0]["peak"], &after["nodes"][0]["peak"]), (&json!(4), &json!(1)));
    let mean = |cluster: &Value| cluster["nodes_mean"].as_f64().expect("a number");
    near(&json!(mean(before) / mean(after)), 4.0);
    // A pod of 3 cores and 10 GiB on a node of 4 cores and 16 GiB, and then four.
    let shares = |cluster: &Value, expected: [f64; 4]| {
        let names = ["cpu_requested", "cpu_used", "memory_requested", "memory_used"];
        for (name, share) in names.iter().zip(expected) {
            near(&cluster["utilisation"][name], share);
        }
    };
    shares(before, [0.75, 0.125, 10.0 / 16.0, 1_052.0 / 16_384.0]);
    shares(after, [0.59, 0.5, 4.0 * 1_229.0 / 16_384.0, 4.0 * 1_052.0 / 16_384.0]);
    for at in 0..2 {
        let figure = |cluster: &Value, name: &str| {
            cluster["policies"][at]["figures"][name].as_f64().expect("a number")
        };
        assert!(figure(after, "dollars") < 0.5 * figure(before, "dollars"), "{advice}");
        near(&json!(figure(after, "pods")), figure(before, "pods"));
    }
    assert_eq!(advice["jobs_right_sized"], 288);
}

#[test]
fn the_table_has_containers_limits_and_the_cluster() {
    let world = World::new();
    let (log, usage) = (hourly_jobs(&world), hourly_usage(&world));
    let (code, out, error) = world.run(&usage, &log, &["--from", "1d"]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    let words: Vec<String> =
        out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "train 288 3.00 0.59 10.00 1.20 83 > 21 90 > 24 0 > 0 / 3",
        "limits over 3 days of usage requested recommended",
        "footprint, cores 10.0 2.1",
        "slack of CPU, % 83.3 20.7",
        "job-days with an OOM, % 0.0 0.0",
        "recommendations by age of workload 1st hour to 6 hours to a day to a week later",
        "slack of memory, % 89.7 33.8 14.4 14.4 -",
        "288 of 288 jobs right-sized requested right-sized",
        "occupied nodes, mean 3.33 0.83",
        "requested of their CPU, % 75.0 59.0",
        "used of their memory, % 6.4 25.7",
    ] {
        assert!(words.iter().any(|found| found == line), "{line} is not in\n{out}");
    }
    let answer = words.last().expect("an answer");
    assert!(
        answer.starts_with("Right-sized requests save $")
            && answer.ends_with("no job was changed."),
        "{answer}"
    );
}

/// Pods of two containers with their own requests, and 500 millis and 1 GiB of a third one that has
/// no usage.
#[test]
fn containers_keep_their_parts_of_the_pod() {
    let world = World::new();
    let log = world.write("jobs.csv", &format!(
        "job,submit,runtime,cpu_millis,memory_bytes\nns/job,0,7200,3500,{}\nns/plain,60,7200,2500,{}\n",
        4 * GIB, 4 * GIB
    ));
    let mut lines = vec![
        "time,owner,container,cpu_millis,memory_bytes,cpu_request_millis,memory_request_bytes,oom_tolerance".to_owned(),
    ];
    for sample in 0..20 {
        let time = 300 * sample;
        lines.push(format!("{time},ns/job,main,500,{},2000,{},low", 1_052 * MIB, 2 * GIB));
        lines.push(format!("{time},ns/job,proxy,10,{},1000,{},intermediate", 20 * MIB, GIB));
    }
    let usage = world.write("usage.csv", &lines.join("\n"));
    let object = world.json(&usage, &log, &[]);
    let containers = object["advice"]["containers"].as_array().expect("containers");
    let of = |at: usize| {
        let container = &containers[at];
        let memory = &container["memory_bytes"];
        json!([
            container["container"],
            container["cpu_millis"]["recommended"],
            memory["statistic"],
            memory["recommended"].as_u64().expect("bytes") / MIB,
        ])
    };
    assert_eq!(of(0), json!(["main", 590, "S_p98", 1_229]));
    // 10 and 15 % are 12, and 20 and 15 % are 23.
    assert_eq!(of(1), json!(["proxy", 12, "max(S_p60, S_max/2)", 23]));
    assert_eq!(object["advice"]["jobs_right_sized"], 1);
    // The pods of 3,500 and 2,500 millis had a node each. The first one becomes 590 + 12 + 500,
    // which fits beside the other.
    let peak = |requests: &str| object["advice"][requests]["nodes"][0]["peak"].clone();
    assert_eq!([peak("cluster_requested"), peak("cluster_right_sized")], [2, 1]);
}

/// The rows follow the published schema of clusterdata-2019: two instances of a collection request
/// a quarter of a machine, 24 cores and 96 GiB, and use a hundredth and an eighth of it.
#[test]
fn borgs_usage_is_matched_to_its_events() {
    let world = World::new();
    let (mut events, mut rows) = (Vec::new(), Vec::new());
    for instance in 0..2 {
        let event = |time: u64, kind: &str| {
            json!({
                "time": time.to_string(), "type": kind, "collection_id": "7", "priority": "200",
                "instance_index": instance.to_string(),
                "resource_request": {"cpus": 0.25, "memory": 0.25},
            })
        };
        events.push((600, event(600_000_000, "SUBMIT")));
        events.push((601, event(601_000_000, "SCHEDULE")));
        events.push((7_800, event(7_800_000_000, "FINISH")));
        for sample in 2..26_u64 {
            let start = 300_000_000 * sample;
            let row = json!({
                "start_time": start.to_string(), "end_time": (start + 300_000_000).to_string(),
                "collection_id": "7", "instance_index": instance.to_string(), "machine_id": "1",
                "alloc_collection_id": "0",
                "average_usage": {"cpus": 0.01, "memory": 0.1},
                "maximum_usage": {"cpus": 0.02, "memory": 0.125},
                "cpu_usage_distribution": [0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01],
                "tail_cpu_usage_distribution": [0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01],
            });
            rows.push((sample, row));
        }
    }
    let lines = |mut rows: Vec<(u64, Value)>| {
        rows.sort_by_key(|(time, _)| *time);
        rows.iter().map(|(_, row)| row.to_string()).collect::<Vec<_>>().join("\n")
    };
    let (log, usage) =
        (world.write("events.json", &lines(events)), world.write("usage.json", &lines(rows)));
    let machine = ["--instance-type", "m5.24xlarge"];
    let arguments = ["rightsize", "--usage", &usage, "--trace", &log, "--output", "json"];
    let (code, out, error) = run(&[&arguments[..], &machine].concat());
    assert_eq!(code, 0, "{error}");
    let object: Value = serde_json::from_str(&out).expect("JSON");
    let container = &object["advice"]["containers"][0];
    assert_eq!((&container["owner"], &container["jobs"]), (&json!("7"), &json!(2)));
    // A hundredth of 96 cores is 960 millis, whose boundary is 974. 147 more are 1,121, or 1,137.
    let cpu =
        json!({"statistic": "S_avg", "request": 24_000, "recommended": 1_137, "used_max": 960});
    assert_eq!(container["cpu_millis"], cpu);
    // An eighth of 384 GiB is 48 GiB. Above the knee of the margin, 10 % are added.
    let memory = container["memory_bytes"]["recommended"].as_u64().expect("bytes");
    assert!((48 * GIB * 110 / 100..48 * GIB * 119 / 100).contains(&memory), "{memory}");
    assert_eq!(object["advice"]["jobs_right_sized"], 2);
}

/// Usage that rises to 4 GiB for one sample a day, half an hour after midnight.
fn spiky_usage(world: &World) -> String {
    let mut lines = vec!["time,owner,cpu_millis,memory_bytes".to_owned()];
    for sample in 0..3 * 288_u64 {
        let mib = if sample % 288 == 6 && sample > 288 { 4_096 } else { 500 };
        lines.push(format!("{},train,500,{}", 300 * sample, mib * MIB));
    }
    world.write("usage.csv", &lines.join("\n"))
}

/// The first peak kills the pod under every recommendation. The peak of a week covers the next one,
/// and the 98th percentile of load does not.
#[test]
fn a_tolerant_job_is_killed_at_peaks_and_a_minimal_one_at_the_first() {
    let world = World::new();
    let (log, usage) = (hourly_jobs(&world), spiky_usage(&world));
    let days = |tolerance: &str| {
        let object = world.json(&usage, &log, &["--from", "1d", "--oom-tolerance", tolerance]);
        let container = &object["advice"]["containers"][0];
        [&container["oom_days_requested"], &container["oom_days_recommended"], &container["days"]]
            .map(|days| days.as_u64().expect("days"))
    };
    assert_eq!(days("minimal"), [0, 1, 3]);
    assert_eq!(days("low"), [0, 2, 3]);
}

#[test]
fn the_recommender_by_models_and_its_sweep_report_the_same_figures() {
    let world = World::new();
    let (log, usage) = (hourly_jobs(&world), spiky_usage(&world));
    let models = world.json(&usage, &log, &["--from", "1d", "--recommender", "models"]);
    let recommended = &models["advice"]["recommended"];
    assert_eq!(models["advice"]["containers"][0]["cpu_millis"]["statistic"], Value::Null);
    let sweep = world.json(&usage, &log, &["--from", "1d", "--sweep"]);
    let rows = sweep["sweep"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 + 3 * 3 * 2 * 3);
    let weights = json!({
        "overrun": 30.0, "underrun": 1.0, "limit_change": 0.1, "model_change": 0.05,
        "cost_decay": 0.0048,
    });
    let same = rows.iter().find(|row| row["weights"] == weights).expect("the default weights");
    assert_eq!(&same["figures"], recommended);
    // A higher weight of overruns never has more days with a kill.
    let kills = |overrun: f64| {
        let of = rows.iter().filter(|row| row["weights"]["overrun"] == overrun);
        of.map(|row| row["figures"]["oom_day_share"].as_f64().expect("a share")).sum::<f64>()
    };
    assert!(kills(10.0) >= kills(30.0) && kills(30.0) >= kills(100.0));
    let short: Vec<String> =
        fs::read_to_string(&usage).expect("usage").lines().take(30).map(Into::into).collect();
    let short = world.write("short.csv", &short.join("\n"));
    let (code, out, _) = world.run(&short, &log, &["--from", "1d", "--sweep"]);
    assert!(code == 0 && out.lines().all(|line| line.chars().count() <= 100), "{out}");
    assert_eq!(out.lines().count(), 2 + rows.len());
}

/// Standard input and gzip are read, and `--lenient` skips bad rows.
#[test]
fn bad_rows_are_skipped_and_counted_if_lenient() {
    let world = World::new();
    let log = hourly_jobs(&world);
    let good = fs::read_to_string(Path::new(&hourly_usage(&world))).expect("usage");
    let usage = world.write("bad.csv", &format!("{good}\nx,train,,500,1\n"));
    let (code, _, error) = world.run(&usage, &log, &["--from", "1d"]);
    assert!(code == 1 && error.contains("bad.csv:2882: column time:"), "{error}");
    let (code, _, error) = world.run(&usage, &log, &["--from", "1d", "--lenient"]);
    assert!(code == 0 && error.contains("left out: 1 bad lines (the first: "), "{error}");
}

/// Two jobs have usage. With the requests that they need, one of them fits no node any more, and in
/// the second run, one that fitted no node fits.
#[test]
fn clusters_that_leave_out_different_jobs_are_not_compared() {
    let world = World::new();
    let log = hourly_jobs(&world);
    let mut lines = vec!["time,owner,cpu_millis".to_owned()];
    for sample in 0..72 * 12 {
        let time = 300 * sample;
        // Owners are names of jobs, of the first hour.
        lines.extend([format!("{time},train-0,500"), format!("{time},train-1,9000")]);
    }
    let usage = world.write("usage.csv", &lines.join("\n"));
    let check = |log: &str| {
        let (code, out, error) = world.run(&usage, log, &[]);
        assert_eq!(code, 0, "{error}");
        let answer = "1 of the jobs fit an instance type only as requested or only right-sized, so the dollars cannot be compared: give larger types with --instance-type or --catalog.";
        assert!(out.contains(answer), "{out}");
        assert!(!out.contains(" save $"), "{out}");
    };
    check(&log);
    let rows = fs::read_to_string(&log).expect("the log");
    let large = rows.replace("train-0,0,3000,3000", "train-0,0,3000,30000");
    let large = large.replace("train-1,0,3000,3000", "train-1,0,3000,10000");
    check(&world.write("large.csv", &large));
}

/// The usage table ends before there is an hour of it.
#[test]
fn containers_with_little_usage_are_counted() {
    let world = World::new();
    let log = hourly_jobs(&world);
    let usage = world.write("usage.csv", "time,owner,cpu_millis\n0,train,500\n300,train,500\n");
    let (code, _, error) = world.run(&usage, &log, &[]);
    assert_eq!(code, 0, "{error}");
    let note =
        "note: 1 of 1 containers have less than an hour of usage, so they keep their requests";
    assert!(error.contains(note), "{error}");
}

/// The history of a day with a run of the CronJob `nightly` every hour, each with two pods that
/// run for half an hour. A pod requests 3 cores and 8 GiB, and uses half a core and at most 1 GiB.
/// The pods of every tenth run were measured in `measured` minutes, those of the others in all.
fn history(world: &World, measured: u64) -> String {
    let day = world.path("history/policy=ns.batch/day=2026-07-01");
    fs::create_dir_all(&day).expect("the folder is created");
    let buckets = json!([{
        "name": "node", "capacity_type": "on-demand", "hourly_micro_dollars": 1_000_000,
        "allocatable": {"accelerators": 0, "cpu_millis": 4_000, "memory_bytes": 16 * GIB, "pods": 50},
        "groups": [{"name": "asg", "max": 9}],
    }]);
    let demand = json!({
        "demand": 0, "demand_max": 0, "announced": 0, "headroom": 0, "placeholders": 0, "ready": 0
    });
    let line = |hour: i64| {
        let at = |minute: i64| {
            let time =
                chrono::DateTime::from_timestamp(1_782_864_000 + 3_600 * hour + 60 * minute, 0);
            time.expect("a time")
        };
        let minutes = if hour % 10 == 5 { measured } else { 30 };
        let run = json!({
            "job": format!("uid-{hour}"), "owner_kind": "Job", "name": format!("ns/nightly-{hour}"),
            "shape": format!("cpu_millis=3000,memory_bytes={},pods=1", 8 * GIB), "bucket": "node",
            "pods": 2, "submitted": at(4), "started": at(5), "ended": at(35), "waited": false,
            "usage": {"cpu_millis": [[487, minutes]], "memory_bytes": GIB},
        });
        json!({
            "v": 1, "time": at(40), "policy": "ns.batch", "buckets": {"node": demand},
            "offered": {"buckets": buckets, "objective": {"wait_ratio": 9.0}},
            "finished": if hour > 0 { vec![run] } else { vec![] },
        })
    };
    let lines: Vec<String> = (0..24).map(|hour| line(hour).to_string() + "\n").collect();
    fs::write(day.join("ticks-00000.jsonl"), lines.concat()).expect("the file is written");
    world.path("history").display().to_string()
}

#[test]
fn usage_is_read_from_a_history() {
    let world = World::new();
    let place = history(&world, 30);
    let (code, out, error) = run(&["rightsize", "--data", &place, "--output", "json"]);
    assert_eq!(code, 0, "{error}");
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let container = &document["advice"]["containers"][0];
    assert_eq!(container["owner"], "ns/nightly");
    // Each pod is a job, also the last ones, which were bound after the last job was submitted.
    assert_eq!((&container["jobs"], &container["pods_max"]), (&json!(46), &json!(2)));
    // Half an hour from the fifth minute on has six samples.
    assert_eq!(container["samples"], 23 * 6);
    assert_eq!(container["cpu_millis"]["request"], 3_000);
    let cpu = container["cpu_millis"]["recommended"].as_u64().expect("a recommendation");
    assert!((560..620).contains(&cpu), "{cpu}");
    let memory = container["memory_bytes"]["recommended"].as_u64().expect("a recommendation");
    assert!((GIB..GIB * 5 / 4).contains(&memory), "{memory}");
    assert_eq!(document["advice"]["containers"].as_array().map(Vec::len), Some(1));
    // One node instead of two holds both pods.
    let nodes = |cluster: &str| document["advice"][cluster]["nodes_mean"].as_f64().expect("a mean");
    near(&json!(nodes("cluster_requested")), 2.0 * nodes("cluster_right_sized"));
}

#[test]
fn pods_of_a_history_that_were_hardly_measured_are_left_out() {
    let world = World::new();
    let place = history(&world, 14);
    let (code, _, error) = run(&["rightsize", "--data", &place, "--output", "json"]);
    assert_eq!(code, 0, "{error}");
    let note = "left out: 4 pods that were measured for less than half of their time";
    assert!(error.contains(note), "{error}");
}

#[test]
fn a_history_without_usage_is_an_error_that_has_the_flags() {
    let world = World::new();
    let place = history(&world, 30);
    let file = world.path("history/policy=ns.batch/day=2026-07-01/ticks-00000.jsonl");
    let lines = fs::read_to_string(&file).expect("the history");
    fs::write(&file, lines.replace("\"usage\"", "\"later\"")).expect("the history");
    let (code, _, error) = run(&["rightsize", "--data", &place]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("no pod has usage: give --usage or --prometheus"), "{error}");
    assert!(error.contains("--record-names and --record-usage"), "{error}");
}

/// Whether Prometheus and its tool are installed. If not, a note names what to install.
fn prometheus_is_installed() -> bool {
    let runs = |program: &str| {
        let mut version = Command::new(program);
        version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    };
    let both = runs("prometheus") && runs("promtool");
    if !both {
        // Written directly, because the output of a test that passes is not shown.
        let note = b"note: usage is not read from Prometheus, because there is none: apt-get install prometheus\n";
        let _ = std::io::stderr().write_all(note);
    }
    both
}

/// What the kubelets and kube-state-metrics would export of two Jobs, in the format that promtool
/// reads: half a core and 1,052 MiB of each pod from `start` for two hours, every 30 s.
fn exported(start: u64) -> String {
    let labels = |job: u64| format!(r#"namespace="batch",pod="train-{job}-abcde""#);
    let times = || (0..=240).map(move |at| (at, start + 30 * at));
    let mut lines = Vec::new();
    let mut series = |name: &str, kind: &str, line: &dyn Fn(u64, u64, u64) -> Vec<String>| {
        lines.push(format!("# TYPE {name} {kind}"));
        for job in [1, 2] {
            for (at, time) in times() {
                lines.extend(line(job, at, time).iter().map(|line| format!("{line} {time}")));
            }
        }
    };
    series("container_cpu_usage_seconds", "counter", &|job, at, _| {
        let container = |name: &str, value: u64| {
            format!(
                r#"container_cpu_usage_seconds_total{{{},container="{name}"}} {value}"#,
                labels(job)
            )
        };
        // The sandbox and the sum of the pod are no containers.
        vec![container("main", 15 * at), container("POD", 300 * at), container("", 300 * at)]
    });
    series("container_memory_working_set_bytes", "gauge", &|job, _, _| {
        let name = "container_memory_working_set_bytes";
        vec![format!(r#"{name}{{{},container="main"}} {}"#, labels(job), 1_052 * MIB)]
    });
    // The pods waited for a node at first. Their requests are two series with other labels.
    series("kube_pod_container_resource_requests", "gauge", &|job, at, _| {
        let node = if at < 10 { "" } else { "n1" };
        let request = |resource: &str, value: u64| {
            let name = "kube_pod_container_resource_requests";
            let more = format!(r#"container="main",resource="{resource}",node="{node}""#);
            format!("{name}{{{},{more}}} {value}", labels(job))
        };
        vec![request("cpu", 3), request("memory", 10 * GIB)]
    });
    // A Job that ended, and one that runs.
    for (name, of_job_1, of_job_2) in [
        ("kube_pod_created", Some(start), Some(start)),
        ("kube_pod_container_state_started", Some(start + 30), Some(start + 30)),
        ("kube_pod_completion_time", Some(start + 7_230), None),
    ] {
        series(name, "gauge", &|job, _, _| {
            let value = if job == 1 { of_job_1 } else { of_job_2 };
            value.map(|value| format!("{name}{{{}}} {value}", labels(job))).into_iter().collect()
        });
    }
    series("kube_pod_owner", "gauge", &|job, _, _| {
        let owner = format!(r#"owner_kind="Job",owner_name="train-{job}""#);
        vec![format!("kube_pod_owner{{{},{owner}}} 1", labels(job))]
    });
    lines.push("# EOF\n".into());
    lines.join("\n")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "Prometheus keeps samples of the last weeks only")]
fn usage_is_read_from_a_prometheus() {
    if !prometheus_is_installed() {
        return;
    }
    let world = World::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
    let start = now / 300 * 300 - 3 * 3_600;
    let text = world.write("metrics.txt", &exported(start));
    let data = world.path("data").display().to_string();
    let blocks = ["tsdb", "create-blocks-from", "openmetrics", &text, &data];
    let made = Command::new("promtool").args(blocks).output().expect("promtool starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let config = world.write("prometheus.yml", "");
    let port = Port::free().expect("a port");
    let mut command = Command::new("prometheus");
    command.args([
        format!("--config.file={config}"),
        format!("--storage.tsdb.path={data}"),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ]);
    let _server = Process::start("prometheus", &command, world.folder.path()).expect("it starts");
    let address = format!("http://127.0.0.1:{port}");
    let ready = run(&["health", &format!("{address}/-/ready"), "--wait", "2m"]);
    assert_eq!(ready.0, 0, "{ready:?}");

    let job = |at: u64| format!("batch/train-{at},{start},7200,3000,{}\n", 10 * GIB);
    let header = "job,submit,runtime,cpu_millis,memory_bytes\n";
    let log = world.write("jobs.csv", &format!("{header}{}{}", job(1), job(2)));
    let catalog = world.path("catalog.yaml").display().to_string();
    let arguments = ["rightsize", "--prometheus", &address, "--lookback", "6h", "--trace", &log];
    let rest = ["--catalog", &catalog, "--output", "json"];
    let (code, out, error) = run(&[&arguments[..], &rest].concat());
    assert_eq!(code, 0, "{error}");
    let object: Value = serde_json::from_str(&out).expect("JSON");
    let containers = object["advice"]["containers"].as_array().expect("containers");
    assert_eq!(containers.len(), 1, "{out}");
    let container = &containers[0];
    let names = (&container["owner"], &container["container"], &container["jobs"]);
    assert_eq!(names, (&json!("batch/train"), &json!("main"), &json!(2)));
    assert_eq!(container["pods_max"], 2);
    let cpu = &container["cpu_millis"];
    assert_eq!((&cpu["request"], &cpu["recommended"]), (&json!(3_000), &json!(590)));
    let memory = &container["memory_bytes"];
    assert_eq!(
        (&memory["request"], &memory["recommended"]),
        (&json!(10 * GIB), &json!(1_229 * MIB))
    );
    let peak = |requests: &str| object["advice"][requests]["nodes"][0]["peak"].clone();
    assert_eq!([peak("cluster_requested"), peak("cluster_right_sized")], [2, 1]);

    // The pods that ended, as a log.
    let jobs = world.path("fetched.csv").display().to_string();
    let fetch = ["trace", "fetch", "--prometheus", &address, "--days", "1", "--out", &jobs];
    let (code, _, error) = run(&fetch);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("note: 1 pods; 1 had not ended"), "{error}");
    let fetched = fs::read_to_string(&jobs).expect("the log");
    let row = format!("train-1-abcde,{start},7200,1,,,0,,3000,{},0,0,batch,", 10 * GIB);
    assert_eq!(fetched.lines().skip(1).collect::<Vec<_>>(), [row]);
    let (code, _, error) = run(&["trace", "describe", &jobs]);
    assert_eq!(code, 0, "{error}");

    // Before the first sample there is nothing.
    let (code, _, error) = run(&[&arguments[..4], &["1m", "--trace", &log], &rest[..]].concat());
    assert_eq!(code, 1);
    assert!(error.contains(&format!("{address}/: no container has usage in this time")), "{error}");
}
