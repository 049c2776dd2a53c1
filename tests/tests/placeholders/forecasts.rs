//! Forecasts from a recalled history: a service level, and a faulty model.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use demand::forecast::onnx::PRETRAINED;
use history::{BucketLine, Journal, Place};
use serde_json::{Value, json};
use tests::crds;
use tests::installed::policy;
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{DEADLINE, POD, Plan, job};

const TICK_SECONDS: i64 = 10;

#[expect(clippy::disallowed_methods, reason = "a history ends now")]
fn now() -> DateTime<Utc> {
    Utc::now()
}

/// Records a history in which two nodes are needed for six of every 20 minutes.
///
/// Six minutes are longer than a launch, so that no pod that waits for a node gets the other node
/// first. They are short enough that the autoscaler removes the nodes in between. The pods are
/// alone, or a `gang`.
///
/// The pods are under the name that the bucket had before it was divided. Those count for all
/// buckets of the instance type, and the demand under this name counts for none.
pub(super) async fn record(folder: &Path, hours: i64, gang: bool) {
    let mut journal =
        Journal::open(Place::open(&folder.display().to_string()).unwrap(), "prophet.batch")
            .await
            .unwrap();
    let now = now().timestamp().div_euclid(TICK_SECONDS) * TICK_SECONDS;
    let start = DateTime::from_timestamp(now, 0).unwrap() - TimeDelta::hours(hours);
    let mut arrived = false;
    for tick in 0..hours * 3_600 / TICK_SECONDS - 1 {
        let busy = tick % 120 < 36;
        let demand = if busy { 2 } else { 0 };
        let pods = if busy && !arrived { 2 } else { 0 };
        arrived = busy;
        let arrivals =
            BTreeMap::from([("cpu_millis=3000,memory_bytes=8589934592,pods=1".to_owned(), pods)]);
        let gangs = (gang && pods > 0).then(|| ("2".to_owned(), 1)).into_iter().collect();
        let bucket = BucketLine { demand, demand_max: demand, gangs, ..BucketLine::default() };
        let divided = BucketLine { demand: 7, demand_max: 7, arrivals, ..BucketLine::default() };
        let time = start + TimeDelta::seconds(tick * TICK_SECONDS);
        let buckets = [("m5.xlarge", bucket), ("m5.xlarge/team=former", divided)];
        let line = testkit::line(time, "prophet.batch", buckets);
        journal.append(&line).await.unwrap();
    }
}

/// The reason of the condition `Degraded`.
fn degraded(status: &Value) -> &str {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let degraded = conditions.iter().find(|condition| condition["type"] == "Degraded");
    degraded.and_then(|condition| condition["reason"].as_str()).unwrap_or_default()
}

/// The nodes for a gang are in one placement group. Dealt node by node, one would be in each.
#[tokio::test(flavor = "multi_thread")]
async fn headroom_for_the_gangs_of_a_history_is_in_one_placement_group() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    record(&history, 8, true).await;
    let groups = [
        NodeGroup::new("left", "m5.xlarge").placement_group("a"),
        NodeGroup::new("right", "m5.xlarge").placement_group("b"),
    ];
    let arguments = vec![format!("--data={}", history.display())];
    let plan = Plan { arguments, before: vec![crds::JOB_SET], ..Plan::of(groups) };
    let spec = "{mode: Act, tick: 10s, objective: {serviceLevel: 95}, workloads: {releasedJobs: {matchLabels: {queue: soon}}}}";
    let world = plan.start(&policy("batch", spec)).await;
    world.wait_for_groups(&[("left", 2)]).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());

    // An announced gang is recorded once.
    let set = format!(
        "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: gang, namespace: default, labels: {{queue: soon}}}},
          spec: {{suspend: true, replicatedJobs: [{{name: workers, replicas: 1, template: {{spec: {{parallelism: 3, completions: 3, template: {POD}}}}}}}]}}}}"
    );
    world.apply(&set).await;
    world.launched_after_scans(3).await;
    let recorded = || {
        let days = std::fs::read_dir(history.join("policy=prophet.batch")).unwrap();
        let files = days.flat_map(|day| std::fs::read_dir(day.unwrap().path()).unwrap());
        let texts =
            files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default());
        texts.map(|text| text.matches(r#""gangs":{"3":1}"#).count()).sum::<usize>()
    };
    let once = wait::until_true("a recorded gang", DEADLINE, async || Ok(recorded() == 1));
    if let Err(error) = once.await {
        panic!("{error:#}: {} times\n{}", recorded(), world.details());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recalled_history_holds_a_service_level_with_a_faulty_and_with_a_valid_model() {
    let folder = tempfile::tempdir().unwrap();
    let (history, model) = (folder.path().join("history"), folder.path().join("model.onnx"));
    record(&history, 8, false).await;
    std::fs::write(&model, b"not a model").unwrap();
    let arguments =
        vec![format!("--data={}", history.display()), format!("--model={}", model.display())];
    let plan = Plan { arguments, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let spec = "{mode: Act, tick: 10s, objective: {serviceLevel: 95}}";
    let world = plan.start(&policy("batch", spec)).await;
    world.wait_for_status("batch", "two", |status| status["target"] == 2).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_status("batch", "the faulty model", |status| degraded(status) == "Model").await;
    let metrics = world.prophet.as_ref().unwrap().metrics().await.unwrap();
    let faulty = r#"prophet_degraded{policy="prophet/batch",reason="Model"} 1"#;
    assert!(metrics.contains(faulty), "{metrics}");

    std::fs::write(&model, PRETRAINED).unwrap();
    world.wait_for_status("batch", "no fault", |status| degraded(status) == "AllWell").await;

    world.apply(&job("burst", 2)).await;
    let waited = world.wait_for_job("burst", 2).await;
    println!("a burst of two nodes waits {waited:.2} s");
    let status = tests::installed::status(&world.plane, "batch").await.unwrap();
    assert!(
        status["buckets"][0]["expert"].as_str().is_some_and(|expert| !expert.is_empty()),
        "{status:#}"
    );

    // With nearly free waiting, the policy holds no placeholders.
    let prices = json!({"serviceLevel": null, "waitCost": 0.000_001});
    world.patch_policy("batch", json!({"objective": prices})).await;
    world.wait_for_status("batch", "no target", |status| status["target"] == 0).await;

    // The nodes that were launched to replace the placeholders must be gone. Otherwise the next job
    // would use them.
    world.wait_for_placeholders([0, 0, 0]).await;
    world.launched_after_scans(1).await;
    world.wait_for_nodes(2).await;
    // The launches that its pods wait for are counted as waited for.
    world.apply(&job("surprise", 2)).await;
    world.wait_for_job("surprise", 2).await;
    let waited_for = r#"prophet_launches_total{policy="prophet/batch",reason="waited_for"} 2"#;
    let counted = wait::until_true(waited_for, DEADLINE, async || {
        Ok(world.prophet.as_ref().unwrap().metrics().await?.contains(waited_for))
    });
    if let Err(error) = counted.await {
        panic!("{error:#}\n{}", world.details());
    }
    world.launched_after_scans(3).await;
    let metrics = world.prophet.as_ref().unwrap().metrics().await.unwrap();
    assert!(metrics.contains(waited_for), "each launch is counted once: {metrics}");

    // The pods of both jobs end. Prophet records them, and simulates the cluster from its history.
    let ran = world.end_pods("default").await;
    assert_eq!(ran, 4);
    let history = history.display().to_string();
    let all = ["--from", "0s", "--policies", "reactive", "--output", "json"];
    let simulate = [&["simulate", "--data", &history][..], &all].concat();
    let mut last = (-1, String::new(), String::new());
    let replayed = wait::until_true("four pods in the history", DEADLINE, async || {
        last = tests::run(&simulate);
        Ok(last.2.contains("recorded: 4 pods ended"))
    });
    if let Err(error) = replayed.await {
        panic!("{error:#}: {last:?}\n{}", world.details());
    }
    let document: Value = serde_json::from_str(&last.1).unwrap();
    assert_eq!(document["policies"][0]["pods"], 4);
    assert_eq!(document["settings"]["catalog"]["instanceTypes"][0]["name"], "m5.xlarge");

    // In the mode Observe, the page has what would have happened if the policy had acted.
    world.patch_policy("batch", json!({"mode": "Observe"})).await;
    let answer = wait::until_true("what would have happened", DEADLINE, async || {
        let page = world.prophet.as_ref().unwrap().dashboard().await?;
        Ok(page.contains("If prophet/batch had acted:</b> From ")
            && page.contains(" 4 pods would have waited "))
    });
    if let Err(error) = answer.await {
        panic!("{error:#}\n{}", world.details());
    }
}
