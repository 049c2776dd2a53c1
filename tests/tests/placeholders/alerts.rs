//! Alerts by their faults: the metrics of the controller are scraped while the fault lasts, and
//! promtool evaluates the alert over them. A scrape stands for a part of the time for which the
//! alert waits, so a fault that comes and goes between two ticks fires none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, ResourceQuota};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tests::installed::{NAMESPACE, policy};
use tests::node_group::NodeGroup;
use tests::stepped_clock::SteppedClock;
use tests::{monitoring, wait};

use super::world::{Plan, World, job};

/// The number of scrapes of a fault. Together they take longer than a tick of ten seconds.
const SCRAPES: u32 = 21;

/// The pause between two scrapes.
const PAUSE: Duration = Duration::from_millis(600);

/// The longest wait for a fault.
const DEADLINE: Duration = Duration::from_mins(2);

/// The alerts that wait for nothing but states, and so are shown by scrapes in quick succession.
const ALERTS: [&str; 11] = [
    "ProphetClockLeapt",
    "ProphetHistoryFailed",
    "ProphetNoLeader",
    "ProphetOperatorLimit",
    "ProphetPlaceholderNotTriggering",
    "ProphetPlaceholdersPending",
    "ProphetPlaceholdersRefused",
    "ProphetPodsUnplaced",
    "ProphetPolicyDegraded",
    "ProphetPolicyInvalid",
    "ProphetSwitchedOff",
];

/// The rule of an alert, and the minutes for which it waits.
fn rule(name: &str) -> (Value, u32) {
    let alerts = monitoring::alerts().unwrap();
    let alert = alerts.into_iter().find(|alert| alert["alert"] == name).unwrap();
    let wait = alert["for"].as_str().unwrap_or("0m").to_owned();
    let (count, unit) = wait.split_at(wait.len() - 1);
    let minutes = match unit {
        "m" => 1,
        "h" => 60,
        _ => 24 * 60,
    };
    (alert, count.parse::<u32>().unwrap() * minutes)
}

/// Whether an alert fires after these scrapes.
fn fires(name: &str, scrapes: &[String]) -> bool {
    let (alert, waits) = rule(name);
    let named = monitoring::metrics(alert["expr"].as_str().unwrap());
    let mut series: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (at, scrape) in scrapes.iter().enumerate() {
        let lines = scrape.lines().filter_map(|line| line.rsplit_once(' '));
        for (of, value) in lines {
            if named.contains(of.split('{').next().unwrap_or_default()) {
                let values = series.entry(of).or_default();
                values.resize(at, "_");
                values.push(value);
            }
        }
    }
    // All but the last two scrapes span the time for which the alert waits.
    let minutes = waits.div_ceil(SCRAPES - 3).max(1);
    let mut test = format!(
        "rule_files: [rules.json]\nevaluation_interval: {minutes}m\ntests:\n  - interval: {minutes}m\n    input_series:\n"
    );
    for (of, mut values) in series {
        values.resize(scrapes.len(), "_");
        let _ = writeln!(test, "      - {{series: '{of}', values: \"{}\"}}", values.join(" "));
    }
    let end = minutes * (SCRAPES - 1);
    let _ = writeln!(
        test,
        "    alert_rule_test:\n      - {{alertname: {name}, eval_time: {end}m, exp_alerts: []}}"
    );
    let folder = tempfile::tempdir().unwrap();
    let rules = json!({"groups": [{"name": "one", "rules": [alert]}]});
    fs::write(folder.path().join("rules.json"), rules.to_string()).unwrap();
    fs::write(folder.path().join("alerts.yaml"), &test).unwrap();
    let (succeeded, printed) =
        monitoring::promtool(folder.path(), &["test", "rules", "alerts.yaml"]).unwrap();
    // The test expects no alert, so it fails by an alert, and by nothing else.
    let fired = printed.contains("got:") && printed.contains(name);
    assert!(succeeded != fired, "{printed}\n{test}");
    fired
}

impl World {
    /// Reports, as cluster-autoscaler does, that no node is launched for placeholders, for a reason
    /// that does not pass.
    async fn report_no_scale_up(&self) {
        let events: Api<Event> = Api::namespaced(self.plane.client(), NAMESPACE);
        let now = k8s_openapi::jiff::Timestamp::now().to_string();
        for pod in self.pods(NAMESPACE).await.unwrap() {
            let event = json!({
                "metadata": {"name": format!("{}.1", pod.name_any()), "namespace": NAMESPACE},
                "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": pod.name_any()},
                "reason": "NotTriggerScaleUp", "type": "Normal",
                "message": "pod didn't trigger scale-up: 1 node(s) had no available disk",
                "firstTimestamp": now, "lastTimestamp": now, "count": 1,
                "source": {"component": "cluster-autoscaler"},
            });
            let event = serde_json::from_value(event).unwrap();
            events.create(&PostParams::default(), &event).await.unwrap();
        }
    }

    async fn scrape(&self) -> Vec<String> {
        let mut scrapes = Vec::new();
        for _ in 0..SCRAPES {
            scrapes.push(self.prophet.as_ref().unwrap().metrics().await.unwrap());
            tokio::time::sleep(PAUSE).await;
        }
        scrapes
    }

    /// Waits until a line of the metrics begins with this text.
    async fn wait_for_metric(&self, line: &str) {
        self.wait_for_lines(line, |lines| lines.iter().any(|of| of.starts_with(line))).await;
    }

    /// Waits until no policy is degraded, so that the last fault fires no alert any more.
    async fn wait_for_mend(&self) {
        let is_degraded = |line: &&str| line.starts_with("prophet_degraded{");
        let what = "no degraded policy";
        self.wait_for_lines(what, |lines| !lines.iter().any(is_degraded)).await;
    }

    async fn wait_for_lines(&self, what: &str, is_there: impl Fn(&[&str]) -> bool) {
        let there = wait::until_true(what, DEADLINE, async || {
            let metrics = self.prophet.as_ref().unwrap().metrics().await?;
            Ok(is_there(&metrics.lines().collect::<Vec<_>>()))
        });
        there.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
    }

    /// Checks that these of [`ALERTS`] fire while a fault lasts, and no others. A line of the
    /// metrics begins with `line` once there is the fault.
    async fn check_alerts(&self, line: &str, expected: &[&str]) {
        self.wait_for_metric(line).await;
        let scrapes = self.scrape().await;
        let fired: Vec<&str> = ALERTS.into_iter().filter(|name| fires(name, &scrapes)).collect();
        assert_eq!(fired, expected, "{line}\n{}", scrapes.last().unwrap());
    }
}

fn degraded(reason: &str) -> String {
    format!(r#"prophet_degraded{{policy="{NAMESPACE}/batch",reason="{reason}"}} 1"#)
}

fn ladder(placeholders: u32) -> Value {
    let ladder = json!({"nodesToReplicas": [[0, placeholders]]});
    json!({"forecast": {"method": "ladder", "ladder": ladder, "expression": null}})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_fires_its_alert_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan { proxied: true, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let mut world = plan.start("").await;
    world.prophet.take().unwrap().stop().await.unwrap();
    let clock = SteppedClock::new().unwrap();
    let arguments = [
        format!("--data={}", folder.path().display()),
        "--max-placeholders=2".to_owned(),
        "--leader-elect".to_owned(),
        "--leader-elect-namespace=prophet".to_owned(),
        "--launch-latency=10s".to_owned(),
    ];
    world.start_controller_with(&arguments, &clock.environment()).await;
    let spec = json!({"mode": "Act", "tick": "10s", "forecast": ladder(2)["forecast"]});
    world.apply(&policy("batch", &spec.to_string())).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let ready = r#"prophet_ready_placeholders{policy="prophet/batch",bucket="m5.xlarge"} 2"#;
    world.check_alerts(ready, &[]).await;

    world.patch_policy("batch", ladder(5)).await;
    let limited = r#"prophet_buckets{policy="prophet/batch",reason="operator_limit"} 1"#;
    world.check_alerts(limited, &["ProphetOperatorLimit"]).await;
    world.patch_policy("batch", ladder(2)).await;
    let well = r#"prophet_buckets{policy="prophet/batch",reason="forecast"} 1"#;
    world.wait_for_metric(well).await;

    let invalid = json!({"forecast": {"method": "expression", "expression": "nodes +"}});
    world.patch_policy("batch", invalid).await;
    world.check_alerts(&degraded("InvalidPolicy"), &["ProphetPolicyInvalid"]).await;
    world.patch_policy("batch", ladder(2)).await;
    world.wait_for_mend().await;

    world.apply(&policy("other", &spec.to_string())).await;
    let overlapping = r#"prophet_degraded{policy="prophet/other",reason="OverlappingBuckets"} 1"#;
    world.check_alerts(overlapping, &["ProphetPolicyDegraded"]).await;
    world.delete_policy("other").await;
    world.wait_for_mend().await;

    world.apply(&job("huge", 1).replace("cpu: '3'", "cpu: '300'")).await;
    let unplaced = r#"prophet_unplaced_pods{policy="prophet/batch"} 1"#;
    world.check_alerts(unplaced, &["ProphetPodsUnplaced"]).await;
    let jobs: Api<Job> = Api::namespaced(world.plane.client(), "default");
    jobs.delete("huge", &DeleteParams::background()).await.unwrap();
    world.wait_for_metric(r#"prophet_unplaced_pods{policy="prophet/batch"} 0"#).await;

    let batch = folder.path().join("policy=prophet.batch");
    let aside = folder.path().join("aside");
    fs::rename(&batch, &aside).unwrap();
    fs::write(&batch, "no folder").unwrap();
    world.check_alerts(&degraded("HistoryFailed"), &["ProphetHistoryFailed"]).await;
    fs::remove_file(&batch).unwrap();
    fs::rename(&aside, &batch).unwrap();
    world.wait_for_mend().await;

    let client = world.plane.client();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let off = serde_json::from_value(json!({"metadata": {"name": "prophet-off"}})).unwrap();
    maps.create(&PostParams::default(), &off).await.unwrap();
    world.check_alerts(&degraded("SwitchedOff"), &["ProphetSwitchedOff"]).await;

    // No pod of a placeholder can be created.
    let quotas: Api<ResourceQuota> = Api::namespaced(client, NAMESPACE);
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    maps.delete("prophet-off", &DeleteParams::default()).await.unwrap();
    world.check_alerts(&degraded("PlaceholdersRefused"), &["ProphetPlaceholdersRefused"]).await;

    // Pods of placeholders are created, and no node comes for them.
    world.wait_for_nodes(0).await;
    world.joiner.fail("small");
    quotas.delete("none", &DeleteParams::default()).await.unwrap();
    let pending = r#"prophet_placeholders{policy="prophet/batch",bucket="m5.xlarge"} 2"#;
    world.check_alerts(pending, &["ProphetPlaceholdersPending"]).await;

    world.report_no_scale_up().await;
    let pending = ["ProphetPlaceholderNotTriggering", "ProphetPlaceholdersPending"];
    world.check_alerts(&degraded("PlaceholderNotTriggering"), &pending).await;

    clock.step(3_600).unwrap();
    let leapt = ["ProphetClockLeapt", pending[0], pending[1]];
    world.check_alerts(&degraded("ClockLeapt"), &leapt).await;
    clock.step(0).unwrap();

    // A replica that leads no more reports no policies.
    world.proxy.as_ref().unwrap().close();
    world.check_alerts("prophet_leader 0", &["ProphetNoLeader"]).await;
}
