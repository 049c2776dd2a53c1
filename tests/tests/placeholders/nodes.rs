//! Nodes that offer less than their group, and pods that need what no node offers.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tests::installed::{NAMESPACE, policy};
use tests::instances::GPU;
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{DEADLINE, Plan, World, is_bound, job};

/// A policy of the groups with these names, with this number of placeholders at any demand.
fn of_groups(name: &str, groups: &str, placeholders: u32) -> String {
    let ladder = json!({"nodesToReplicas": [[0, placeholders]]});
    let spec = json!({"mode": "Act", "tick": "10s", "buckets": {"groups": [groups]},
        "forecast": {"method": "ladder", "ladder": ladder},
        "workloads": {"releasedGates": [GATE]}});
    policy(name, &spec.to_string())
}

/// A taint that the operator names as a startup taint.
const STARTUP: &str = "example.com/agent-not-ready";

/// A gate that keeps pods from the scheduler. The policies count these pods as demand.
const GATE: &str = "example.com/data";

/// A pod of batch demand with `more` in the spec of its container, and in its own.
fn pod(name: &str, container: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default}}, spec: {{{more}
          containers: [{{name: work, image: busybox, {container}}}]}}}}\n---\n"
    )
}

impl World {
    async fn node_of(&self, instance_type: &str) -> String {
        let nodes = self.nodes().await;
        let of = |node: &&Node| node.labels()["node.kubernetes.io/instance-type"] == instance_type;
        nodes.iter().find(of).unwrap().name_any()
    }

    async fn patch_node(&self, name: &str, patch: Value) {
        let nodes: Api<Node> = Api::all(self.plane.client());
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = nodes.patch(name, &parameters, &patch).await;
        patched.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Sets the GPUs that pods may use on a node.
    async fn set_gpus(&self, node: &str, gpus: &str) {
        let nodes: Api<Node> = Api::all(self.plane.client());
        let patch = Patch::Merge(json!({"status": {"allocatable": {GPU: gpus}}}));
        let patched = nodes.patch_status(node, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Waits until this number of placeholders is on nodes of an instance type that take pods, and
    /// none waits for a node.
    async fn wait_for_usable(&self, instance_type: &str, expected: usize) {
        let mut last = (0, 0);
        let what = format!("{expected} placeholders of {instance_type} on nodes that take pods");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let nodes = self.nodes().await;
            let takes_pods = |node: &Node| {
                let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable);
                node.labels()["node.kubernetes.io/instance-type"] == instance_type
                    && cordoned != Some(true)
            };
            let names: Vec<String> =
                nodes.iter().filter(|node| takes_pods(node)).map(ResourceExt::name_any).collect();
            let pods = self.pods(NAMESPACE).await?;
            let usable = pods.iter().filter(|pod| {
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
                node.is_some_and(|node| names.contains(node))
            });
            last = (usable.count(), self.placeholders().await?[1]);
            Ok(last == (expected, 0))
        });
        if let Err(error) = waited.await {
            panic!("{error:#}; there are {last:?}\n{}", self.details());
        }
    }
}

/// The names of the ReplicaSets, which change with the pods' template.
async fn names(world: &World) -> Vec<String> {
    let sets = world.sets().await.unwrap();
    sets.iter().map(ResourceExt::name_any).collect()
}

/// The message of the condition with this reason.
fn message<'a>(status: &'a Value, reason: &str) -> &'a str {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let found = conditions.iter().find(|condition| condition["reason"] == reason);
    found.and_then(|condition| condition["message"].as_str()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn degraded_cordoned_and_foreign_nodes_change_no_template_and_exceed_no_maximum() {
    let groups = [
        NodeGroup::new("gpu-a", "p4d.24xlarge").sizes(0, 3),
        NodeGroup::new("small", "m5.xlarge").sizes(0, 4),
    ];
    let policies = [of_groups("gpus", "gpu-*", 1), of_groups("cpus", "small", 2)].concat();
    let arguments = vec![format!("--startup-taint={STARTUP}")];
    let world = Plan { arguments, ..Plan::of(groups) }.start(&policies).await;
    world.wait_for_groups(&[("gpu-a", 1), ("small", 2)]).await;
    let before = names(&world).await;

    // One of eight GPUs fails, cluster-autoscaler considers to remove a node, and an agent of the
    // node starts again.
    let node = world.node_of("p4d.24xlarge").await;
    world.set_gpus(&node, "7").await;
    let candidate = "DeletionCandidateOfClusterAutoscaler";
    let taints = json!([{"key": candidate, "effect": "PreferNoSchedule", "value": "1"},
        {"key": STARTUP, "effect": "NoSchedule"}]);
    let small = world.node_of("m5.xlarge").await;
    world.patch_node(&small, json!({"spec": {"taints": taints}})).await;
    let named = |status: &Value| message(status, "Groups").contains(&node);
    world.wait_for_status("gpus", "the degraded node", named).await;
    assert_eq!(world.launched_after_scans(2).await, 3, "{}", world.details());
    assert_eq!(names(&world).await, before, "{}", world.details());
    world.set_gpus(&node, "8").await;
    world.wait_for_status("gpus", "no degraded node", |status| !named(status)).await;

    // Pods that need what no node offers are not demand for CPUs.
    let device = pod("device", "resources: {limits: {example.com/fpga: '1'}}", "");
    let claim = pod(
        "claim",
        "resources: {claims: [{name: net}]}",
        "resourceClaims: [{name: net, resourceClaimTemplateName: none}],",
    );
    world.apply(&[device, claim].concat()).await;
    let unplaced = |status: &Value| {
        let shapes = status["unplaced"].as_array().map_or(&[][..], Vec::as_slice);
        ["no_bucket_offers: example.com/fpga", "no_bucket_offers: ResourceClaim net"]
            .iter()
            .all(|reason| shapes.iter().any(|shape| shape["reason"] == *reason))
            && status["demand"] == 0
    };
    world.wait_for_status("cpus", "the unplaced pods", unplaced).await;

    // A pod that selects a label that no tag declares fits no group until its nodes have the label.
    let selective = format!(
        "schedulingGates: [{{name: {GATE}}}], nodeSelector: {{example.com/fast-disk: 'true'}},"
    );
    world.apply(&pod("selective", "resources: {requests: {cpu: '3'}}", &selective)).await;
    let shapes = |status: &Value| status["unplaced"].as_array().map_or(0, Vec::len);
    world.wait_for_status("cpus", "three unplaced shapes", |status| shapes(status) == 3).await;
    let label = json!({"metadata": {"labels": {"example.com/fast-disk": "true"}}});
    for node in world.nodes().await {
        world.patch_node(&node.name_any(), label.clone()).await;
    }
    let placed = |status: &Value| shapes(status) == 2 && status["buckets"][0]["announced"] == 1;
    world.wait_for_status("cpus", "the pod that selects the label", placed).await;

    // A cordoned node is no headroom, and counts to the maximum of its group.
    world.patch_node(&small, json!({"spec": {"unschedulable": true}})).await;
    world.wait_for_usable("m5.xlarge", 2).await;
    assert_eq!(world.launched_after_scans(2).await, 4, "{}", world.details());
    // So does the node of a pod that is no batch demand.
    world
        .apply(&job("other", 1).replace("metadata: {", "metadata: {namespace: kube-system, "))
        .await;
    let runs = wait::until_true("the other pod", DEADLINE, async || {
        Ok(world.pods("kube-system").await?.iter().any(is_bound))
    });
    runs.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    world.wait_for_usable("m5.xlarge", 2).await;
    world
        .patch_policy("cpus", json!({"forecast": {"ladder": {"nodesToReplicas": [[0, 10]]}}}))
        .await;
    let full = |status: &Value| status["buckets"][0]["reason"] == "groups_full";
    world.wait_for_status("cpus", "the full group", full).await;
    assert_eq!(world.launched_after_scans(3).await, 5, "{}", world.details());
    world.wait_for_usable("m5.xlarge", 2).await;
}
