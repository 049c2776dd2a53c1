//! Faults of the API server and forged objects: the controller does no harm.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tests::control_plane::Options;
use tests::installed::{Prophet, policy};
use tests::node_group::NodeGroup;
use tokio::time::Instant;

use super::policies::all_writes;
use super::world::{Plan, World};

/// A policy with two placeholders at any demand.
const TWO: &str =
    "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2]]}}}";

/// The chart's role without the writes of ReplicaSets and, unless `status`, of the status.
fn without_writes(status: bool) -> String {
    let status = if status { "overprovisioningpolicies/status" } else { "nothing" };
    format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: prophet-act, namespace: prophet}}, rules: [
          {{apiGroups: [prophet.dev], resources: [overprovisioningpolicies], verbs: [list, watch]}},
          {{apiGroups: [prophet.dev], resources: [{status}], verbs: [patch]}},
          {{apiGroups: [apps], resources: [replicasets], verbs: [list, watch]}},
          {{apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}}]}}\n---\n"
    )
}

/// A pod that waits for its gate, so that its changes cause turns and no demand.
const GATED: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: gated, namespace: default}, spec: {
      schedulingGates: [{name: example.com/never}], containers: [{name: work, image: busybox}]}}";

impl World {
    /// Changes a pod every 200 ms for a time. Each change causes a turn.
    async fn churn(&self, duration: Duration) {
        let pods: Api<Pod> = Api::default_namespaced(self.plane.client());
        let end = Instant::now() + duration;
        for n in 0.. {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"n": n.to_string()}}}));
            pods.patch("gated", &PatchParams::default(), &patch).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
            if Instant::now() >= end {
                return;
            }
        }
    }

    /// The number of requests of the controller so far that change this resource.
    fn written(&self, resource: &str) -> usize {
        all_writes(self).iter().filter(|entry| entry.resource == resource).count()
    }
}

fn fails_to_write(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|condition| condition["reason"] == "WriteFailed")
}

/// The most attempts of a write that is refused within 12 s of changes: the pauses between them
/// double from 2 s on.
const ATTEMPTS_MAX: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn refused_writes_are_repeated_seldom_and_all_writes_have_a_budget() {
    let options = Options { audited: true, ..Options::default() };
    let arguments = vec!["--max-writes-per-minute=20".to_owned()];
    let group = NodeGroup::new("small", "m5.xlarge").sizes(0, 100);
    let plan = Plan { options, ..Plan::of([group]) };
    let world = plan.start_alone().await;
    let objects = [&without_writes(false), &policy("batch", TWO), GATED].concat();
    let world = world.with_controller(&arguments, &objects).await;
    world.churn(Duration::from_secs(12)).await;
    for resource in ["replicasets", "overprovisioningpolicies/status"] {
        let attempts = world.written(resource);
        assert!((2..=ATTEMPTS_MAX).contains(&attempts), "{attempts} writes of {resource}");
    }

    // The fault stays reported between the attempts.
    world.apply(&without_writes(true)).await;
    world.wait_for_status("batch", "the failing writes", fails_to_write).await;
    let before = world.written("overprovisioningpolicies/status");
    world.churn(Duration::from_secs(5)).await;
    let more = world.written("overprovisioningpolicies/status") - before;
    assert!(more <= 1, "the status changed {more} times");

    Prophet::apply_chart(&world.plane).await.unwrap();
    world.wait_for_placeholders([2, 0, 0]).await;

    // Each of 30 placeholders needs a write of its own.
    let (before, begin) = (world.written("pods"), Instant::now());
    let ladder = json!({"forecast": {"ladder": {"nodesToReplicas": [[0, 30]]}}});
    world.patch_policy("batch", ladder).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let lifted = world.written("pods") - before;
    let most = 20.0 * (1.0 + begin.elapsed().as_secs_f64() / 60.0);
    assert!(lifted > 0 && lifted as f64 <= most, "{lifted} gates were lifted");
    let metrics = world.prophet.as_ref().unwrap().metrics().await.unwrap();
    for series in [
        r#"prophet_writes_total{kind="placeholders",result="refused"}"#,
        r#"prophet_writes_total{kind="reports",result="refused"}"#,
        r#"prophet_writes_deferred_total{kind="placeholders",reason="backoff"}"#,
        r#"prophet_writes_deferred_total{kind="placeholders",reason="budget"}"#,
    ] {
        let count = metrics.lines().find_map(|line| line.strip_prefix(series));
        assert!(count.is_some_and(|count| count.trim() != "0"), "{series} in {metrics}");
    }
}

/// A pod that no node can run, with more fields of its metadata and of its spec.
fn forged(metadata: &Value, spec: &Value) -> Pod {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [{"name": "work", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

fn forged_pods() -> Vec<Pod> {
    let requests = |requests: Value| json!({"containers": [{"name": "work", "image": "busybox", "resources": {"requests": requests}}]});
    let selector = json!({"nodeSelector": {"no.such/label": "x"}});
    let labels: serde_json::Map<String, Value> =
        (0..10_000).map(|n| (format!("example.com/label-{n}"), json!(n.to_string()))).collect();
    let long = format!("{}end", "a.".repeat(125));
    vec![
        forged(
            &json!({"name": "huge"}),
            &requests(json!({"cpu": "9223372036854775", "memory": "7Ei"})),
        ),
        forged(
            &json!({"name": "tiny"}),
            &requests(json!({"cpu": "9223372036854775", "memory": "1m"})),
        ),
        forged(
            &json!({"name": "odd"}),
            &requests(json!({"cpu": "9P", "ephemeral-storage": "7Ei"})),
        ),
        forged(&json!({"name": "many-labels", "labels": labels}), &selector),
        forged(&json!({"name": long}), &selector),
        forged(
            &json!({"name": "nowhere"}),
            &json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "NotIn", "values": ["b"]}]}]}}}}),
        ),
    ]
}

/// A node of a group that nothing can run on.
const EMPTY_NODE: &str =
    "{apiVersion: v1, kind: Node, metadata: {name: empty, annotations: {kwok.x-k8s.io/node: fake},
      labels: {node.kubernetes.io/instance-type: m5.xlarge, kubernetes.io/hostname: empty}},
    spec: {providerID: 'aws:///us-east-1a/i-0123456789abcdef0'}}";

fn priority(value: i32) -> String {
    format!(
        "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: own}}, value: {value}, preemptionPolicy: Never}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_objects_cause_no_launches_and_remove_no_placeholders() {
    let groups = [NodeGroup::new("large", "m5.2xlarge"), NodeGroup::new("small", "m5.xlarge")];
    let class = priority(-9);
    let plan = Plan { before: vec![&class], ..Plan::of(groups) };
    let of = |instance_type: &str, more: &str| {
        let buckets = format!("{{buckets: {{instanceTypes: [{instance_type}]}}, {more}");
        TWO.replacen('{', &buckets, 1)
    };
    // The name of an object that Prophet creates ends in a dot where this name is cut.
    let long = format!("{}.{}", "a".repeat(29), "b.".repeat(100).trim_end_matches('.'));
    let own = of("m5.xlarge", "placeholders: {priorityClassName: own}, ");
    let policies = [policy("batch", &own), policy(&long, &of("m5.2xlarge", ""))];
    let world = plan.start(&policies.concat()).await;
    world.wait_for_groups(&[("large", 2), ("small", 2)]).await;

    let pods: Api<Pod> = Api::default_namespaced(world.plane.client());
    for pod in forged_pods() {
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let unplaced = |status: &Value| {
        let shapes = status["unplaced"].as_array().map_or(&[][..], Vec::as_slice);
        shapes.iter().filter_map(|shape| shape["pods"].as_u64()).sum::<u64>() == 6
    };
    world.wait_for_status("batch", "unplaced pods", unplaced).await;
    world.wait_for_status("batch", "no demand", |status| status["demand"] == 0).await;

    // A node flaps, and another one of the same type has nothing to allocate.
    world.apply(EMPTY_NODE).await;
    let nodes: Api<Node> = Api::all(world.plane.client());
    let nothing = json!({"status": {"allocatable": {"cpu": "0", "memory": "0", "pods": "0"},
        "capacity": {"cpu": "0", "memory": "0", "pods": "0"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    let parameters = PatchParams::default();
    nodes.patch_status("empty", &parameters, &Patch::Merge(&nothing)).await.unwrap();
    let small = |node: &&Node| {
        node.labels().get("node.kubernetes.io/instance-type").is_some_and(|of| of == "m5.xlarge")
            && node.name_any() != "empty"
    };
    let flapping = world.nodes().await.iter().find(small).unwrap().name_any();
    for second in 0..8 {
        let cordon = Patch::Merge(json!({"spec": {"unschedulable": second % 2 == 0}}));
        nodes.patch(&flapping, &parameters, &cordon).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // One node may replace the one that flaps.
    let launched = world.launched_after_scans(2).await;
    assert!(launched <= 5, "{launched} launches\n{}", world.details());
    nodes.delete("empty", &DeleteParams::default()).await.unwrap();

    // The PriorityClass changes while placeholders stand.
    let classes: Api<PriorityClass> = Api::all(world.plane.client());
    let reports = |status: &Value| {
        let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().any(|condition| condition["reason"] == "PriorityClass")
    };
    classes.delete("own", &DeleteParams::default()).await.unwrap();
    world.wait_for_status("batch", "the missing class", reports).await;
    world.apply(&priority(-1_000)).await;
    world.wait_for_status("batch", "the class below the cutoff", reports).await;
    let standing = world.ready_by_group().await;
    assert!(standing.iter().any(|(group, count)| group == "small" && *count >= 2), "{standing:?}");
    classes.delete("own", &DeleteParams::default()).await.unwrap();
    world.apply(&class).await;
    world.wait_for_status("batch", "a class that fits", |status| !reports(status)).await;
    let before = launched;
    let launched = world.launched_after_scans(2).await;
    assert_eq!(launched, before, "{}", world.details());
    let alive = world.prophet.as_ref().unwrap().metrics().await;
    assert!(alive.is_ok(), "{alive:?}");
}
