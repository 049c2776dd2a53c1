//! Pods of workloads preempt placeholders.

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::json;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tests::autoscaler::AutoscalerSettings;
use tests::installed::{NAMESPACE, policy};
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{DEADLINE, Plan, World, job};

/// A policy with two placeholders of each bucket at no demand, and none at any. The pods of a job
/// may be seen one by one, and one of them must order nothing.
const TWO_AT_FIRST: &str = "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2], [1, 0]]}}}";

async fn delete_job(world: &World, name: &str) {
    let jobs: Api<Job> = Api::default_namespaced(world.plane.client());
    let deleted = jobs.delete(name, &DeleteParams::background()).await;
    deleted.unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_preempts_placeholders_and_only_the_plan_orders_new_ones() {
    let plan = || Plan::of([NodeGroup::new("small", "m5.xlarge")]);
    let world = plan().start(&policy("batch", TWO_AT_FIRST)).await;
    world.wait_for_measured_placeholders(2).await;
    assert_eq!(world.autoscaler.counters().launched(), 2, "{}", world.details());
    // The controller charges the time from the turn in which it sees the placeholders on nodes.
    let prophet = world.prophet.as_ref().unwrap();
    let ready = r#"prophet_ready_placeholders{policy="prophet/batch",bucket="m5.xlarge"} 2"#;
    let seen = wait::until_true("a turn with both placeholders on nodes", DEADLINE, async || {
        Ok(prophet.metrics().await?.contains(ready))
    });
    seen.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));

    world.apply(&job("first", 2)).await;
    let with = world.wait_for_job("first", 2).await;
    // The plan has no placeholders now. The gate holds the pods that the ReplicaSet recreates,
    // until the controller removes them.
    world.wait_for_placeholders([0, 0, 0]).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());
    assert_eq!(world.nodes().await.len(), 2);
    // The time of the placeholders is charged to the namespace of the job.
    let metrics = prophet.metrics().await.unwrap();
    let charged = r#"prophet_charged_placeholder_seconds_total{policy="prophet/batch",bucket="m5.xlarge",namespace="default"} "#;
    let seconds = metrics.lines().find_map(|line| line.strip_prefix(charged)?.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 0.0), "{metrics}");

    delete_job(&world, "first").await;
    world.wait_for_placeholders([2, 0, 0]).await;
    for pod in world.pods(NAMESPACE).await.unwrap() {
        assert_eq!(pod.annotations()["prophet.dev/lifted-for"], "forecast");
    }

    let alone = plan().start_alone().await;
    alone.apply(&job("first", 2)).await;
    let without = alone.wait_for_job("first", 2).await;
    println!("a job of two nodes waits {with:.2} s with the controller, {without:.2} s without it");
    assert!(with < without, "{with} {without}");
}

/// Waits until a tick of so many seconds began one to five seconds ago. Ticks end at multiples of
/// their length since 1970.
#[expect(clippy::disallowed_methods, reason = "the ticks of the controller follow the clock")]
async fn early_in_a_tick(seconds: u64) {
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() % seconds;
    while !(1..5).contains(&second()) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_vanish_between_ticks_launch_nothing() {
    // The autoscaler does not scan during the test, because it would launch nodes for the pods
    // themselves.
    let idle = AutoscalerSettings {
        scan_interval: Duration::from_hours(1),
        ..AutoscalerSettings::default()
    };
    let plan =
        Plan { autoscaler: idle, ..Plan::of([NodeGroup::new("small", "m5.xlarge").sizes(0, 100)]) };
    let world = plan.start(&policy("batch", "{mode: Act, tick: 20s}")).await;
    world.wait_for_status("batch", "a first turn", |status| status["demand"] == 0).await;
    // The burst would be the demand of a tick if a tick ended while its pods exist.
    early_in_a_tick(20).await;
    world.apply(&job("burst", 50)).await;
    world.wait_for_status("batch", "the burst to be seen", |status| status["demand"] == 50).await;
    delete_job(&world, "burst").await;
    world.wait_for_status("batch", "the burst to be gone", |status| status["demand"] == 0).await;
    let until = wait::stays_true("nothing is held", Duration::from_secs(45), async || {
        Ok(world.pods(NAMESPACE).await?.is_empty())
    });
    until.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fits_both_takes_the_cheaper_placeholder() {
    let groups = [NodeGroup::new("cpu", "m5.xlarge"), NodeGroup::new("gpu", "g5.xlarge")];
    let spec =
        "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1]]}}}";
    let world = Plan::of(groups).start(&policy("batch", spec)).await;
    world.wait_for_groups(&[("cpu", 1), ("gpu", 1)]).await;
    world
        .patch_policy("batch", json!({"limits": {"buckets": {"m5.xlarge": 0}}, "mode": "Act"}))
        .await;
    world.wait_for_groups(&[("gpu", 1)]).await;
    world.patch_policy("batch", json!({"limits": {"buckets": {"m5.xlarge": 1}}})).await;
    // The CPU placeholder is now the younger one. The price decides on preemption, not the age.
    world.wait_for_groups(&[("cpu", 1), ("gpu", 1)]).await;
    world.apply(&job("small", 1)).await;
    world.wait_for_job("small", 1).await;
    let pods = world.pods("default").await.unwrap();
    let node = pods[0].spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap();
    let nodes = world.nodes().await;
    let taken = nodes.iter().find(|found| found.name_any() == node).unwrap();
    assert_eq!(taken.labels()["node.kubernetes.io/instance-type"], "m5.xlarge");
    world.wait_for_groups(&[("cpu", 1), ("gpu", 1)]).await;
    assert_eq!(world.autoscaler.counters().launched_in("gpu"), 1, "{}", world.details());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placeholder_that_another_workload_preempts_is_reported_and_replaced_within_the_limits() {
    let spec = "{mode: Act, tick: 10s, workloads: {namespaces: [batch]}, limits: {placeholders: 1},
        forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1]]}}}";
    let world =
        Plan::of([NodeGroup::new("small", "m5.xlarge")]).start(&policy("batch", spec)).await;
    world.wait_for_measured_placeholders(1).await;
    world.apply(&job("other", 1)).await;
    world.wait_for_job("other", 1).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());
    let reported = wait::until_true("the Event", DEADLINE, async || {
        Ok(world.events().await.iter().any(|reason| reason == "taken_by_other_workload"))
    });
    reported.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
}
