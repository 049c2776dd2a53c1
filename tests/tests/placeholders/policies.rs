//! Policies that observe, act, overlap and are deleted.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use std::time::Duration;
use tests::audit::Entry;
use tests::autoscaler::AutoscalerSettings;
use tests::aws_proxy::{self, Call, INSTANCES, RESERVATIONS, instances, reservations};
use tests::control_plane::Options;
use tests::installed::{self, NAMESPACE, policy};
use tests::node_group::NodeGroup;
use tests::stepped_clock::SteppedClock;
use tests::wait;
use tokio::net::TcpListener;

use super::world::{Plan, World, job};

/// The longest wait for a condition, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A policy with two placeholders of each bucket at any demand.
fn two(mode: &str) -> String {
    format!(
        "{{mode: {mode}, tick: 10s, forecast: {{method: ladder, ladder: {{nodesToReplicas: [[0, 2]]}}}}}}"
    )
}

/// The controller's write requests.
pub(crate) fn all_writes(world: &World) -> Vec<Entry> {
    let mut log = world.plane.audit_log().unwrap_or_else(|error| panic!("{error:#}"));
    let ours = "system:serviceaccount:prophet:prophet";
    log.retain(|entry| entry.user == ours && entry.writes());
    log
}

/// The controller's write requests, except those of status and Events.
fn writes(world: &World) -> Vec<Entry> {
    let reports = ["overprovisioningpolicies/status", "events"];
    let mut writes = all_writes(world);
    writes.retain(|entry| !reports.contains(&entry.resource.as_str()));
    writes
}

#[tokio::test(flavor = "multi_thread")]
async fn observe_mode_writes_only_status_and_events_and_a_rollout_goes_back_by_itself() {
    let options = Options { audited: true, ..Options::default() };
    let plan = Plan { options, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", &two("Observe"))).await;
    world.wait_for_status("batch", "a target", |status| status["target"] == 2).await;
    assert_eq!(world.launched_after_scans(3).await, 0, "{}", world.details());
    assert_eq!(writes(&world), []);
    let metrics = world.prophet.as_ref().unwrap().metrics().await.unwrap();
    let target = r#"prophet_target_placeholders{policy="prophet/batch",bucket="m5.xlarge"} 2"#;
    assert!(metrics.contains(target), "{metrics}");
    let page = world.prophet.as_ref().unwrap().dashboard().await.unwrap();
    for part in ["prophet/batch", "m5.xlarge", "0 stand, the target is 2", "There are no faults."] {
        assert!(page.contains(part), "{part} is not in {page}");
    }

    // Half of two placeholders stands, until they cost more than the rollout allows.
    let rollout = json!({"steps": [50, 100], "stepDuration": "10s"});
    world.patch_policy("batch", json!({"mode": "Act", "rollout": rollout})).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    let phase = |status: &Value| status["rollout"]["phase"].clone();
    world.wait_for_status("batch", "half", |status| status["rollout"]["percent"] == 50).await;
    world.patch_policy("batch", json!({"rollout": {"dollarsPerHour": 0}})).await;
    world.wait_for_status("batch", "a step back", |status| phase(status) == "WentBack").await;
    world.wait_for_placeholders([0, 0, 0]).await;
    world.patch_policy("batch", json!({"rollout": null})).await;
    world.wait_for_placeholders([2, 0, 0]).await;

    // An expression replaces the ladder. One with a mistake changes nothing until it is corrected.
    let expression = |text: &str| json!({"forecast": {"method": "expression", "expression": text}});
    world.patch_policy("batch", expression("bucket == \"m5.xlarge\" ? demand + 1 : 0")).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    world.patch_policy("batch", expression("demnd + 2")).await;
    let mistaken = |status: &Value| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            message.contains("spec.forecast.expression: ")
                && message.contains("did you mean demand?")
        })
    };
    world.wait_for_status("batch", "the mistake", mistaken).await;
    let launched = world.launched_after_scans(1).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(world.launched_after_scans(1).await, launched, "{}", world.details());
    // The mode is read in spite of the mistake, because it is how people stop a policy.
    world.patch_policy("batch", json!({"mode": "Observe"})).await;
    world.wait_for_placeholders([0, 0, 0]).await;
    world.patch_policy("batch", json!({"mode": "Act"})).await;
    world.patch_policy("batch", expression("demand + 2")).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let ladder = json!({"forecast": {"method": "ladder", "expression": null}});
    world.patch_policy("batch", ladder).await;
    world.patch_policy("batch", json!({"mode": "Observe"})).await;
    world.wait_for_placeholders([0, 0, 0]).await;
    wait::until_true("no ReplicaSet", DEADLINE, async || Ok(world.sets().await?.is_empty()))
        .await
        .unwrap();
    let (before, launched) = (writes(&world).len(), world.launched_after_scans(1).await);
    world.wait_for_status("batch", "a target", |status| status["target"] == 2).await;
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert_eq!(writes(&world).len(), before, "{:?}", writes(&world));
    assert_eq!(world.launched_after_scans(1).await, launched, "{}", world.details());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_deleted_leaves_nothing() {
    let world =
        Plan::of([NodeGroup::new("small", "m5.xlarge")]).start(&policy("batch", &two("Act"))).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    world.delete_policy("batch").await;
    world.wait_for_placeholders([0, 0, 0]).await;
    wait::until_true("no ReplicaSet", DEADLINE, async || Ok(world.sets().await?.is_empty()))
        .await
        .unwrap();
    world.wait_for_nodes(0).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_that_a_quota_refuses_are_reported() {
    let quota = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}
---
{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: few, namespace: {NAMESPACE}}}, spec: {{hard: {{pods: '1'}}}}}}"
    );
    let plan = Plan { before: vec![&quota], ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", &two("Act"))).await;
    let refused = |status: &serde_json::Value| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["reason"] == "PlaceholdersRefused"
                && condition["message"].as_str().is_some_and(|text| text.contains("exceeded quota"))
        })
    };
    world.wait_for_status("batch", "the refusal", refused).await;
    assert_eq!(world.launched_after_scans(3).await, 1, "{}", world.details());

    let quotas: Api<ResourceQuota> = Api::namespaced(world.plane.client(), NAMESPACE);
    quotas.delete("few", &DeleteParams::default()).await.unwrap();
    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_status("batch", "no refusal", |status| !refused(status)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_yield_to_a_pod_that_a_ceiling_of_the_cluster_keeps_waiting() {
    let groups = [NodeGroup::new("large", "m5.2xlarge"), NodeGroup::new("small", "m5.xlarge")];
    let autoscaler =
        AutoscalerSettings { max_nodes_total: Some(2), ..AutoscalerSettings::default() };
    let arguments = vec!["--launch-latency=10s".to_owned()];
    let plan = Plan { autoscaler, arguments, ..Plan::of(groups) };
    let small = two("Act").replace("mode:", "buckets: {instanceTypes: [m5.xlarge]}, mode:");
    let world = plan.start(&policy("batch", &small)).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    // The pod fits only a large node, and the cluster has as many nodes as it may have.
    world.apply(&job("large", 1).replace("cpu: '3'", "cpu: '6'")).await;
    let yields =
        |status: &serde_json::Value| status["buckets"][0]["reason"] == "yields_to_real_pods";
    world.wait_for_status("batch", "the reason", yields).await;
    world.wait_for_job("large", 1).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(world.launched_after_scans(3).await, 3, "{}", world.details());
}

/// The ceilings of the example in docs/installing.md hold a node of each of these types, because
/// their prices are known.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_ceilings_hold_placeholders_on_present_instance_types() {
    let page = include_str!("../../../docs/installing.md");
    let number = |field: &str| {
        let (_, rest) = page.split_once(&format!("\n  {field}: ")).unwrap();
        rest.lines().next().unwrap().to_owned()
    };
    let arguments = vec![
        format!("--max-placeholders={}", number("placeholders")),
        format!("--max-dollars-per-hour={}", number("dollarsPerHour")),
    ];
    let types = ["g6.xlarge", "m7i.2xlarge", "p5.48xlarge"];
    let groups = types.map(|name| NodeGroup::new(name.split('.').next().unwrap(), name));
    let plan = Plan { arguments, ..Plan::of(groups) };
    let world = plan.start(&policy("batch", &two("Act").replace("[0, 2]", "[0, 1]"))).await;
    world.wait_for_measured_placeholders(3).await;
    world.wait_for_groups(&[("g6", 1), ("m7i", 1), ("p5", 1)]).await;
}

/// A ceiling of no dollars leaves the instances of a reservation, which are paid anyway, except the
/// one that another cluster uses. A job takes one of them, and no further one is bought.
#[tokio::test(flavor = "multi_thread")]
async fn reserved_instances_are_held_while_no_pod_needs_them() {
    let folder = tempfile::tempdir().unwrap();
    let prices = folder.path().join("prices.yaml");
    fs::write(&prices, "prices: [{reservation: {id: cr-open}}]").unwrap();
    let arguments =
        ["--max-dollars-per-hour=0".to_owned(), format!("--prices={}", prices.display())];
    let mut world = Plan::of([NodeGroup::new("small", "m5.xlarge")]).start_alone().await;
    let used = Arc::new(Mutex::new(vec!["i-other".to_owned()]));
    let endpoint = with_reservation(world.moto.endpoint(), Arc::clone(&used)).await;
    let installed = installed::Prophet::apply_chart(&world.plane).await;
    installed.unwrap_or_else(|error| panic!("{error:#}"));
    world.start_controller_with(&arguments, &[("AWS_ENDPOINT_URL", endpoint)]).await;
    world.apply(&policy("batch", &two("Act").replace("[0, 2]", "[0, 0]"))).await;
    world.wait_for_measured_placeholders(2).await;
    let ids = world.nodes().await.into_iter().filter_map(|node| node.spec?.provider_id);
    used.lock().unwrap().extend(ids.filter_map(|id| Some(id.rsplit('/').next()?.to_owned())));
    let reason = |status: &Value| status["buckets"][0]["reason"] == "prepaid";
    world.wait_for_status("batch", "the reason", reason).await;
    let metrics = world.prophet.as_ref().unwrap().metrics().await.unwrap();
    let free =
        r#"prophet_placeholder_dollars_per_hour{policy="prophet/batch",bucket="m5.xlarge"} 0.0"#;
    assert!(metrics.contains(free), "{metrics}");
    world.apply(&job("first", 1)).await;
    world.wait_for_job("first", 1).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());
    assert_eq!(world.end_pods("default").await, 1);
    world.wait_for_placeholders([2, 0, 0]).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());
}

/// Starts a proxy to the emulated AWS, which has a reservation of three instances, of which these
/// are in use; returns its URL. It ends with the test.
async fn with_reservation(emulator: &str, used: Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |call: Call| {
        let used = used.lock().unwrap().clone();
        async move {
            match call.action.as_str() {
                RESERVATIONS => Ok(reservations(3, 3 - u64::try_from(used.len()).unwrap_or(0))),
                INSTANCES => Ok(instances(&used)),
                _ => call.forward().await,
            }
        }
    };
    let emulator = emulator.to_owned();
    tokio::spawn(async move { aws_proxy::serve(listener, &emulator, answer).await });
    endpoint
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_controller_headroom_is_used_up_and_a_restart_recalls_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = vec![format!("--data={}", folder.path().display())];
    let groups = [NodeGroup::new("large", "m5.2xlarge"), NodeGroup::new("small", "m5.xlarge")];
    let plan = Plan { arguments: arguments.clone(), ..Plan::of(groups) };
    let of = |instance_type: &str| {
        let buckets = format!("buckets: {{instanceTypes: [{instance_type}]}}, mode:");
        two("Act").replace("mode:", &buckets)
    };
    let mut world = plan.start(&policy("batch", &of("m5.xlarge"))).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    // After one more tick the history has a line to recall.
    tokio::time::sleep(Duration::from_secs(11)).await;
    world.prophet.take().unwrap().stop().await.unwrap();

    // The gate holds the pod that the ReplicaSet recreates, so no node is launched for it.
    world.apply(&job("first", 1)).await;
    world.wait_for_job("first", 1).await;
    world.wait_for_placeholders([1, 0, 1]).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());

    world.start_controller(&arguments).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let log = world.prophet.as_ref().unwrap().log().unwrap();
    let recalled = log.lines().rev().find(|line| line.contains("history recalled")).unwrap();
    let ticks = recalled.rsplit_once("recalled=").and_then(|(_, ticks)| ticks.trim().parse().ok());
    assert!(ticks.is_some_and(|ticks: u64| ticks > 0), "{recalled}");
    let listed = tests::run(&["history", "--data", folder.path().to_str().unwrap()]);
    assert!(listed.0 == 0 && listed.1.contains("prophet.batch"), "{listed:?}");
    assert!(
        recorded(&folder.path().join("policy=prophet.batch"))
            .contains(r#""launches":[{"bucket":"m5.xlarge","group":"small""#)
    );

    // The history of another, older policy cannot be read to its end: a pipe gives no data.
    world.prophet.take().unwrap().stop().await.unwrap();
    let batch = folder.path().join("policy=prophet.batch");
    let stuck = folder.path().join("policy=prophet.stuck").join(today(&batch));
    fs::create_dir_all(&stuck).unwrap();
    pipe(&stuck.join("ticks-00000.jsonl"));
    world.apply(&policy("stuck", &of("m5.2xlarge"))).await;
    world.apply(&job("second", 1)).await;
    world.wait_for_job("second", 1).await;
    world.wait_for_placeholders([1, 0, 1]).await;
    world.start_controller(&arguments).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let reading = |status: &serde_json::Value| {
        status["conditions"][0]["reason"] == "ReadingHistory"
            && status["conditions"][0]["status"] == "False"
    };
    world.wait_for_status("stuck", "the read of the history", reading).await;

    // The buckets of a policy change while its history cannot be read. Its placeholders stay.
    let launched = world.launched_after_scans(1).await;
    let last = batch.join(today(&batch)).join("ticks-09999.jsonl");
    pipe(&last);
    let buckets = json!({"buckets": {"instanceTypes": ["m5.2xlarge", "m5.xlarge"]}});
    world.patch_policy("batch", buckets).await;
    world.wait_for_status("batch", "the read of the history", reading).await;
    assert_eq!(world.launched_after_scans(3).await, launched, "{}", world.details());
    world.wait_for_groups(&[("small", 2)]).await;
    // The read ends when the only writer closes the pipe, and the next one finds no pipe.
    let writer = fs::File::options().write(true).open(&last).unwrap();
    fs::remove_file(&last).unwrap();
    drop(writer);
    world.wait_for_groups(&[("large", 2), ("small", 2)]).await;
    // The controller ends in spite of the read.
    world.prophet.take().unwrap().stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_leaps_costs_neither_ticks_nor_days_of_the_history() {
    let (clock, folder) = (SteppedClock::new().unwrap(), tempfile::tempdir().unwrap());
    let plan = Plan::of([NodeGroup::new("small", "m5.xlarge")]);
    let mut world = plan.start(&policy("batch", &two("Act"))).await;
    world.prophet.take().unwrap().stop().await.unwrap();
    let arguments = vec![format!("--data={}", folder.path().display())];
    world.start_controller_with(&arguments, &clock.environment()).await;
    let batch = folder.path().join("policy=prophet.batch");
    let ticks = || if batch.exists() { recorded(&batch).lines().count() } else { 0 };
    let wait_for_tick = async || {
        let before = ticks();
        wait::until_true("a tick", DEADLINE, async || Ok(ticks() > before)).await.unwrap();
    };
    wait_for_tick().await;
    let has_leapt = |status: &Value| status.to_string().contains("ClockLeapt");
    clock.step(2 * 86_400).unwrap();
    world.wait_for_status("batch", "the leap", has_leapt).await;
    // Time goes on evenly meanwhile.
    wait_for_tick().await;
    clock.step(0).unwrap();
    world.wait_for_status("batch", "the end of the leap", |status| !has_leapt(status)).await;
    wait_for_tick().await;
    let names: Vec<_> =
        fs::read_dir(&batch).unwrap().flatten().map(|day| day.file_name()).collect();
    let last = recorded(&batch).lines().last().unwrap_or_default().to_owned();
    let now = today(&batch).into_string().unwrap().replace("day=", "");
    assert!(names.len() <= 2 && last.contains(&now), "{names:?} {last}");
    world.wait_for_placeholders([2, 0, 0]).await;
    assert_eq!(world.launched_after_scans(1).await, 2, "{}", world.details());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_cannot_be_written_is_a_fault_until_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = vec![format!("--data={}", folder.path().display())];
    let plan = Plan { arguments, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", &two("Observe"))).await;
    let batch = folder.path().join("policy=prophet.batch");
    wait::until_true("the history", DEADLINE, async || Ok(batch.exists())).await.unwrap();
    let aside = folder.path().join("aside");
    fs::rename(&batch, &aside).unwrap();
    fs::write(&batch, "no folder").unwrap();
    let fails = |status: &Value| status.to_string().contains("HistoryFailed");
    world.wait_for_status("batch", "the failure", fails).await;
    // Most of these are between two ticks.
    for _ in 0..25 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let status = installed::status(&world.plane, "batch").await.unwrap();
        assert!(fails(&status), "{status:#}");
    }
    fs::remove_file(&batch).unwrap();
    fs::rename(&aside, &batch).unwrap();
    world.wait_for_status("batch", "the end of the failure", |status| !fails(status)).await;
}

/// Makes a named pipe.
fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The name of the folder of the last day of a policy.
fn today(policy: &Path) -> std::ffi::OsString {
    let days = fs::read_dir(policy).unwrap().flatten();
    days.map(|day| day.file_name()).max().unwrap()
}

/// All recorded lines of a policy, from the files of all days.
pub(crate) fn recorded(policy: &Path) -> String {
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let files = entries(policy).flat_map(|day| entries(&day).collect::<Vec<_>>());
    files.map(|file| fs::read_to_string(file).unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_policy_is_refused_or_reported() {
    let class = |name: &str, rest: &str| {
        format!(
            "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: {name}}}, {rest}}}\n---\n"
        )
    };
    let classes = [
        class("inert", "value: -1000, preemptionPolicy: Never"),
        class("rude", "value: -5"),
        class("mighty", "value: 1000000, preemptionPolicy: Never"),
    ];
    let classes = classes.concat();
    let plan = Plan { before: vec![&classes], ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let inert = two("Act").replace("mode:", "placeholders: {priorityClassName: inert}, mode:");
    let world = plan.start(&policy("inert", &inert)).await;
    let reports = |part: &'static str| {
        move |status: &serde_json::Value| {
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| {
                condition["reason"] == "PriorityClass"
                    && condition["message"].as_str().is_some_and(|message| message.contains(part))
            })
        }
    };
    world.wait_for_status("inert", "the wrong priority", reports("-1000")).await;
    let with = |class: &str| {
        let workloads = json!({"priority": {"min": 2_000_000_000}});
        json!({"placeholders": {"priorityClassName": class}, "workloads": workloads})
    };
    world.patch_policy("inert", with("rude")).await;
    world.wait_for_status("inert", "the policy", reports("preemptionPolicy must be Never")).await;
    world.patch_policy("inert", with("mighty")).await;
    world.wait_for_status("inert", "the high priority", reports("the operator allows")).await;
    assert!(world.sets().await.unwrap().is_empty());

    for (spec, message) in [
        ("{objective: {serviceLevel: 95, waitCost: 9}}", "set only one of"),
        ("{objective: {waitCost: 9, waitRatio: 9}}", "set only one of"),
        ("{tick: soon}", "spec.tick"),
        ("{tick: 9s}", "tick must be 10s to 1h"),
        ("{tick: 61m}", "tick must be 10s to 1h"),
        ("{rollout: {steps: [50, 25]}}", "each step must be higher than the one before"),
        ("{rollout: {steps: [25, 25]}}", "each step must be higher than the one before"),
        ("{rollout: {stepDuration: 0d}}", "stepDuration must be at least one tick"),
        ("{rollout: {stepDuration: 5s}}", "stepDuration must be at least one tick"),
        (
            "{placeholders: {kind: CapacityBuffer, warmImages: [{image: a}]}}",
            "a CapacityBuffer has no pods that load images or data",
        ),
        (
            "{workloads: {tiers: [{name: a, priorityMin: 0, weight: 1}, {name: a, priorityMin: 1, weight: 1}]}}",
            "two tiers have one name",
        ),
        (
            "{workloads: {tiers: [{name: a, priorityMin: 0, weight: 1}, {name: b, priorityMin: 0, weight: 1}]}}",
            "two tiers have one priorityMin",
        ),
        ("{mode: Perhaps}", "spec.mode"),
        ("{limits: {placeholders: 100001}}", "spec.limits.placeholders"),
        ("{limits: {buckets: {m5.xlarge: 1e300}}}", "spec.limits.buckets.m5.xlarge"),
        ("{forecast: {ladder: {nodesToReplicas: [[0, 4294967295]]}}}", "nodesToReplicas"),
        ("{workloads: {priority: {min: 9000000000}}}", "spec.workloads.priority.min"),
        ("{forecast: {method: expression}}", "the method expression needs the field expression"),
        (
            "{forecast: {expression: forecast + 1}}",
            "the field expression needs the method expression",
        ),
    ] {
        let refused = world.plane.apply_yaml(&policy("nonsense", spec)).await.unwrap_err();
        assert!(format!("{refused:#}").contains(message), "{refused:#}");
    }
    for spec in [
        "{tick: 10s, rollout: {steps: [1, 25, 100], stepDuration: 600s}}",
        "{tick: 1h, rollout: {steps: [100], stepDuration: 4d}}",
        "{tick: 60m, placeholders: {kind: CapacityBuffer}, workloads: {tiers: [
            {name: a, priorityMin: 0, weight: 1}, {name: b, priorityMin: 1, weight: 1}]}}",
    ] {
        world.plane.apply_yaml(&policy("sensible", spec)).await.unwrap();
    }
}

/// A policy of an older or newer version of the definition may have numbers and names that this
/// version cannot represent.
#[tokio::test(flavor = "multi_thread")]
async fn a_stored_policy_that_cannot_be_read_is_reported_and_stops_no_other() {
    let world =
        Plan::of([NodeGroup::new("small", "m5.xlarge")]).start(&policy("batch", &two("Act"))).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.plane.client());
    let name = "overprovisioningpolicies.prophet.dev";
    let strict = definitions.get(name).await.unwrap();
    let replace = async |schema: serde_json::Value| {
        let mut definition = definitions.get(name).await.unwrap();
        definition.spec.versions[0].schema = serde_json::from_value(schema).unwrap();
        definitions.replace(name, &PostParams::default(), &definition).await.unwrap();
    };
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let properties = json!({"spec": any, "status": any});
    replace(json!({"openAPIV3Schema": {"type": "object", "properties": properties}})).await;
    let absurd = "{mode: Act, limits: {placeholders: -5}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1e300]]}}, behavior: {scaleUp: {tolerance: {}}}}";
    wait::until_true("the lenient definition", DEADLINE, async || {
        Ok(world.plane.apply_yaml(&policy("absurd", absurd)).await.is_ok())
    })
    .await
    .unwrap();
    replace(serde_json::to_value(&strict.spec.versions[0].schema).unwrap()).await;

    let reports = |status: &serde_json::Value| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            condition["reason"] == "InvalidPolicy"
                && ["spec.limits: ", "spec.forecast: ", "spec.behavior: "]
                    .iter()
                    .all(|field| message.contains(field))
        })
    };
    world.wait_for_status("absurd", "the fields", reports).await;
    // The other policy is still followed, also after a restart.
    let one = json!({"forecast": {"ladder": {"nodesToReplicas": [[0, 1]]}}});
    world.patch_policy("batch", one).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    let (code, text, error) = explained(&world);
    assert!(code == 0 && text.contains("batch") && text.contains("spec.limits: "), "{text}{error}");
    let mut world = world;
    world.prophet.take().unwrap().stop().await.unwrap();
    world.start_controller(&[]).await;
    world
        .patch_policy("batch", json!({"forecast": {"ladder": {"nodesToReplicas": [[0, 2]]}}}))
        .await;
    world.wait_for_placeholders([2, 0, 0]).await;
    // Once its fields are corrected, the policy is applied: an older one has its buckets.
    let corrected = json!({"limits": null, "forecast": null, "behavior": null});
    world.patch_policy("absurd", corrected).await;
    let applied = |status: &serde_json::Value| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["reason"] == "OverlappingBuckets")
    };
    world.wait_for_status("absurd", "the overlap", applied).await;
    world.wait_for_placeholders([2, 0, 0]).await;
}

/// The exit code and the output of `prophet explain`.
fn explained(world: &World) -> (i32, String, String) {
    let mut command = tests::prophet(&["explain", "--namespace", NAMESPACE]);
    let output = command.env("KUBECONFIG", world.plane.kubeconfig()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}
