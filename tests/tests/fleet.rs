//! Advice for one cluster and for many, in shards that run anywhere.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tests::moto::Moto;
use tests::{finish, prophet, run};

/// Options that keep the runs short: few settings, and small instances.
const FEW: [&str; 10] = [
    "--policies",
    "constant:1,burst:10m:4",
    "--scale-down-unneeded-times",
    "5m",
    "--wait-ratios",
    "3",
    "--instance-type",
    "m5.4xlarge",
    "--launch-latency",
    "5m",
];

fn generate(folder: &Path, name: &str, days: u32, seed: u32) -> String {
    let file = folder.join(name).display().to_string();
    let (days, seed) = (days.to_string(), seed.to_string());
    let few = ["--jobs-per-day", "400", "--gpu-share", "0"];
    let all = ["trace", "generate", "--days", &days, "--seed", &seed, "--out", &file];
    let done = run(&[&all[..], &few].concat());
    assert_eq!(done.0, 0, "{}", done.2);
    file
}

fn json(arguments: &[&str]) -> Value {
    let (code, out, error) = run(&[arguments, &["--output", "json"]].concat());
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

/// The figures of the written policy, replayed from its file, are those of the chosen setting.
#[test]
fn the_advised_policy_is_the_setting_that_was_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let log = generate(folder.path(), "log.csv", 8, 7);
    let out = folder.path().join("advice").display().to_string();
    let options = [&["advise", "--trace", &log, "--from", "2d"][..], &FEW].concat();
    let told = json(&[&options[..], &["--out", &out]].concat());
    let advice = &told["advice"];
    assert_eq!((&advice["days_chosen_on"], &advice["days_checked_on"]), (&4.into(), &2.into()));
    let chosen = &advice["settings"][usize::try_from(advice["chosen"].as_u64().unwrap()).unwrap()];
    assert_eq!(advice["settings"][0]["name"], "reactive");
    assert!(["recommended", "weak"].contains(&advice["verdict"].as_str().unwrap()), "{advice}");
    let policy = format!("{out}/policy.yaml");
    let text = fs::read_to_string(&policy).unwrap();
    let name = chosen["name"].as_str().unwrap();
    assert!(text.starts_with(&format!("# The setting: {name}\n")), "{text}");
    assert_eq!(text.contains("--scale-down-unneeded-time"), name.contains("unneeded"), "{text}");
    let unneeded = if chosen["name"].as_str().unwrap().contains("unneeded") { "5m" } else { "10m" };
    let replay = json(&[
        "simulate",
        "--trace",
        &log,
        "--from",
        "2d",
        "--instance-type",
        "m5.4xlarge",
        "--policy-file",
        &policy,
        "--scale-down-unneeded-time",
        unneeded,
    ]);
    let figures = &replay["policies"][1];
    let both = |name: &str| {
        let of = |part: &str| chosen[part][name].as_f64().unwrap();
        of("chosen_on") + of("checked_on")
    };
    let same = |ours: f64, theirs: &Value| (ours / theirs.as_f64().unwrap() - 1.0).abs() < 1e-6;
    assert!(same(both("pending_pod_hours"), &figures["pending_pod_hours"]), "{chosen} {figures}");
    let dollars = ["idling", "launching", "warm_pool", "packing"].map(both).iter().sum::<f64>();
    assert!(same(dollars, &figures["dollars"]), "{dollars} {figures}");
    let page = fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert!(page.contains("Which setting pays off?") && page.contains("<svg"));

    let (code, text, error) = run(&options);
    assert_eq!(code, 0, "{error}");
    assert!(text.starts_with("Recommended: "), "{text}");
    let table = text.split("The policy").next().unwrap();
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn advice_needs_three_days_and_settings_that_a_run_can_have() {
    let folder = tempfile::tempdir().unwrap();
    let log = generate(folder.path(), "log.csv", 4, 7);
    let refused = |more: &[&str], expected_code: i32, expected: &str| {
        let (code, _, error) = run(&[&["advise", "--trace", &log], more].concat());
        assert_eq!(code, expected_code, "{error}");
        assert!(error.contains(expected), "{expected} is not in\n{error}");
    };
    refused(
        &["--from", "2d"],
        1,
        "the evaluated time has 2 days, and advice needs 3: two to choose a setting, and one to check it.",
    );
    refused(&["--policies", "best-constant"], 2, "give the constants, such as");
    refused(&["--bill-at-most", "0"], 2, "expected a share above 0%, such as 105% or 1.05");
    refused(&["--bill-at-most", "105%", "--waiting-at-most", "50%"], 2, "cannot be used with");
}

/// Two logs in a folder, and the options of a plan of four shards.
fn planned(folder: &TempDir, results: &str) -> Vec<String> {
    let logs =
        [generate(folder.path(), "berlin.csv", 9, 1), generate(folder.path(), "b.csv", 9, 2)];
    let named = format!("tokyo={}", logs[1]);
    let options = ["fleet", "plan", &logs[0], &named, "--from", "2d", "--windows", "3d"];
    let options = [&options[..], &FEW, &["--replays", "2", "--results", results]].concat();
    options.into_iter().map(str::to_owned).collect()
}

fn plan(options: &[String]) -> (i32, String, String) {
    run(&options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The report as JSON, without how long the shards ran.
fn reported(results: &str) -> Value {
    let mut document = json(&["fleet", "report", "--results", results]);
    document.as_object_mut().unwrap().remove("shard_hours");
    document
}

#[test]
fn shards_in_any_order_and_a_killed_one_give_the_report_of_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (whole, parts) = (place("whole"), place("parts"));
    let options = planned(&folder, &whole);
    let (code, _, error) = plan(&options);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("4 shards of 2 clusters, numbered from 0"), "{error}");
    let (code, _, error) = run(&["fleet", "run", "--results", &whole]);
    assert_eq!(code, 0, "{error}");
    let expected = reported(&whole);
    assert_eq!((&expected["complete"], &expected["missing"]), (&4.into(), &serde_json::json!([])));
    assert_eq!(expected["clusters"][0]["name"], "berlin");
    assert_eq!(expected["clusters"][1]["days"], 7);

    // The same runs in eight shards, each with one of the replays.
    let more = ["--replays-per-shard", "1"].map(str::to_owned);
    let mut options = planned(&folder, &parts);
    options.extend(more);
    assert_eq!(plan(&options).0, 0);
    let shard = |number: usize| {
        let mut command = prophet(&["fleet", "run", "--results", &parts]);
        command.env("JOB_COMPLETION_INDEX", number.to_string());
        command
    };
    let mut killed = shard(5).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    killed.kill().unwrap();
    killed.wait().unwrap();
    for number in [7, 2, 0, 1, 6, 3, 4] {
        let (code, _, error) = finish(&mut shard(number));
        assert_eq!(code, 0, "{error}");
    }
    let partial = reported(&parts);
    assert_eq!(partial["missing"], serde_json::json!([5]));
    assert_eq!(partial["clusters"][0], expected["clusters"][0]);
    let odd = partial["clusters"][1]["odd"][0].as_str();
    assert_eq!(odd, Some("1 window is missing"));
    let (_, text, _) = run(&["fleet", "report", "--results", &parts]);
    assert!(text.contains("1 of 8 shards are missing: 5."), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let (code, _, error) = run(&["fleet", "run", "--results", &parts]);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("shard 4: complete, and not run again"), "{error}");
    assert!(error.contains("shard 5: done"), "{error}");
    assert_eq!(reported(&parts)["clusters"], expected["clusters"]);

    let out = place("page");
    let (code, _, error) = run(&["fleet", "report", "--results", &parts, "--out", &out]);
    assert_eq!(code, 0, "{error}");
    let page = fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert!(page.contains("Where does Prophet pay off?") && page.matches("<figure").count() >= 2);
    let policies = fs::read_dir(format!("{out}/policies")).unwrap().count();
    let on = |cluster: &&Value| !cluster["advice"]["policy"].is_null();
    assert_eq!(policies, expected["clusters"].as_array().unwrap().iter().filter(on).count());
}

#[test]
fn results_of_another_plan_and_damaged_ones_are_errors_that_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results").display().to_string();
    let (code, _, error) = run(&["fleet", "run", "--results", &results]);
    assert_eq!(code, 1);
    assert!(error.contains("failed to open"), "{error}");
    fs::create_dir(&results).unwrap();
    let (_, _, error) = run(&["fleet", "report", "--results", &results]);
    assert!(
        error.contains("plan.json: there is no plan: prophet fleet plan writes one"),
        "{error}"
    );

    let options = planned(&folder, &results);
    assert_eq!(plan(&options).0, 0);
    // The same plan is no other one.
    assert_eq!(plan(&options).0, 0);
    assert_eq!(run(&["fleet", "run", "--results", &results, "--shard", "3"]).0, 0);
    let (code, _, error) = run(&["fleet", "run", "--results", &results, "--shard", "4"]);
    assert_eq!(code, 1);
    assert!(error.contains("shard 4: the plan has 4 shards, numbered from 0"), "{error}");
    let changed: Vec<String> = options
        .iter()
        .map(|option| if option == "5m" { "6m".into() } else { option.clone() })
        .collect();
    let (code, _, error) = plan(&changed);
    assert_eq!(code, 1);
    assert!(error.contains("plan.json: there is another plan: name another place"), "{error}");
    let forced = [&changed[..], &["--force".to_owned()]].concat();
    assert_eq!(plan(&forced).0, 0);
    let (code, _, error) = run(&["fleet", "report", "--results", &results]);
    assert_eq!(code, 1);
    assert!(error.contains("shard-00003.parquet: it is the result of another plan"), "{error}");
    fs::write(format!("{results}/shard-00003.parquet"), "text").unwrap();
    let (code, _, error) = run(&["fleet", "report", "--results", &results]);
    assert_eq!(code, 1);
    assert!(error.contains("shard-00003.parquet: it is no Parquet file, or is damaged"), "{error}");
    fs::write(format!("{results}/plan.json"), "{\"version\": 1, \"shards\": 7}").unwrap();
    let (_, _, error) = run(&["fleet", "report", "--results", &results]);
    assert!(error.contains("plan.json:1: shards"), "{error}");
}

/// A window without jobs has its days, like any other. A shard whose log is gone fails, and the
/// others go on.
#[test]
fn a_quiet_window_counts_and_a_failed_shard_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results").display().to_string();
    let log = folder.path().join("log.csv").display().to_string();
    let mut lines = vec!["submit,runtime,pods,cpu_millis".to_owned()];
    for hour in (0..24 * 8).filter(|hour| !(96..144).contains(hour)) {
        lines.push(format!("{},1800,{},3500", 3_600 * hour + 60 * (hour % 7), 1 + hour % 3));
    }
    fs::write(&log, lines.join("\n")).unwrap();
    let other = folder.path().join("other.csv").display().to_string();
    fs::copy(&log, &other).unwrap();
    let options = ["fleet", "plan", &log, &other, "--from", "2d", "--windows", "1d"];
    let planned = run(&[&options[..], &FEW, &["--results", &results]].concat());
    assert_eq!(planned.0, 0, "{}", planned.2);
    fs::write(&other, lines[..99].join("\n")).unwrap();
    let (code, _, error) = run(&["fleet", "run", "--results", &results]);
    assert_eq!(code, 1);
    assert!(error.contains("shard 10: "), "{error}");
    assert!(error.contains("other.csv: the log has changed since the plan"), "{error}");
    let report = reported(&results);
    let first = &report["clusters"][0];
    assert_eq!((&first["days"], &first["missing"]), (&6.into(), &serde_json::json!([])));
    assert_ne!(report["clusters"][1]["missing"], serde_json::json!([]));
}

/// What is refused before anything runs: settings and windows that no run can have.
#[test]
fn a_plan_has_whole_days_and_settings_that_a_policy_can_have() {
    let refused = |more: &[&str], expected: &str| {
        let plan = ["fleet", "plan", "log.csv", "--results", "results"];
        let (code, _, error) = run(&[&plan[..], more].concat());
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(expected), "{expected} is not in\n{error}");
    };
    refused(&["--windows", "36h"], "expected whole days, such as 7d, because days are compared");
    refused(&["--windows", "0s"], "expected whole days");
    refused(&["--ticks", "5s"], "expected 10s to 1h");
    refused(&["--trace", "log.csv"], "logs and histories are sources");
}

#[tokio::test]
async fn the_plan_and_the_results_may_be_in_s3() {
    let moto = Moto::start().await.unwrap();
    moto.make_bucket("lake").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let with_s3 = |arguments: &[&str]| {
        let (code, out, error) = finish(prophet(arguments).envs(moto.environment()));
        assert_eq!(code, 0, "{error}");
        (out, error)
    };
    let options = planned(&folder, "s3://lake/fleet");
    with_s3(&options.iter().map(String::as_str).collect::<Vec<_>>());
    let run = ["fleet", "run", "--results", "s3://lake/fleet"];
    with_s3(&run);
    let (_, again) = with_s3(&run);
    assert_eq!(again.matches("complete, and not run again").count(), 4);
    let (text, _) = with_s3(&["fleet", "report", "--results", "s3://lake/fleet"]);
    assert!(text.contains("berlin") && text.contains("tokyo"), "{text}");
}
