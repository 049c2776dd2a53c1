//! Changes of the placeholders' pod template.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tests::autoscaler::AutoscalerSettings;
use tests::installed::{NAMESPACE, policy};
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{DEADLINE, Plan, World, is_bound};

/// A policy with three placeholders of each bucket at any demand.
const THREE: &str =
    "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 3]]}}}";

/// A DaemonSet that requests half a core of each node, at a priority above all placeholders.
const DAEMON_SET: &str =
    "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent, namespace: kube-system}, spec: {
    selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [
        {name: agent, image: busybox, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}}}}";

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_template_and_a_new_daemon_set_launch_nothing() {
    // A rollout leaves nodes empty for a short time, so the unneeded time is longer than that.
    let autoscaler = AutoscalerSettings {
        unneeded_time: Duration::from_secs(30),
        ..AutoscalerSettings::default()
    };
    let plan = Plan { autoscaler, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", THREE)).await;
    world.wait_for_placeholders([3, 0, 0]).await;

    world.patch_policy("batch", json!({"placeholders": {"image": "example.com/pause:1"}})).await;
    let image = "the new image everywhere";
    let rolled = wait::until_true(image, DEADLINE, async || {
        let pods = world.pods(NAMESPACE).await?;
        let new = pods.iter().filter(|pod| is_bound(pod)).filter(|pod| {
            pod.spec.as_ref().and_then(|spec| spec.containers[0].image.as_deref())
                == Some("example.com/pause:1")
        });
        Ok(pods.len() == 3 && new.count() == 3)
    });
    rolled.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    assert_eq!(world.launched_after_scans(3).await, 3, "{}", world.details());
    assert_eq!(world.sets().await.unwrap().len(), 1, "the old ReplicaSet is gone");

    world.apply(DAEMON_SET).await;
    let room = wait::until_true("placeholders beside the DaemonSet's pods", DEADLINE, async || {
        let (agents, ours) = (world.pods("kube-system").await?, world.pods(NAMESPACE).await?);
        let bound = |pods: &[k8s_openapi::api::core::v1::Pod]| {
            pods.iter().filter(|pod| is_bound(pod)).count()
        };
        Ok(bound(&agents) == 3 && bound(&ours) == 3 && ours.len() == 3)
    });
    room.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    assert_eq!(world.launched_after_scans(3).await, 3, "{}", world.details());
    assert!(world.autoscaler.counters().removed.is_empty(), "{}", world.details());
}

/// A DaemonSet that requests half a core of the nodes with a label that only node feature discovery
/// sets.
const DRIVER: &str =
    "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: driver, namespace: kube-system}, spec: {
    selector: {matchLabels: {app: driver}}, template: {metadata: {labels: {app: driver}}, spec: {
        nodeSelector: {feature.node.kubernetes.io/device: 'true'}, containers: [
            {name: driver, image: busybox, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}}}}";

/// The CPU that the placeholders request, by their only ReplicaSet.
async fn requested(world: &World) -> Option<String> {
    let sets = world.sets().await.unwrap();
    let [set] = sets.as_slice() else { return None };
    let template = set.spec.as_ref()?.template.as_ref()?.spec.as_ref()?;
    let requests = template.containers.first()?.resources.as_ref()?.requests.as_ref()?;
    Some(requests["cpu"].0.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_without_a_history_remembers_the_daemon_sets_of_a_group_without_nodes() {
    let plan = Plan { before: vec![DRIVER], ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let one =
        "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 1]]}}}";
    let mut world = plan.start(&policy("batch", one)).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(requested(&world).await.as_deref(), Some("3890m"), "{}", world.details());

    let node = world.nodes().await[0].name_any();
    let nodes: Api<Node> = Api::all(world.plane.client());
    let label = json!({"metadata": {"labels": {"feature.node.kubernetes.io/device": "true"}}});
    nodes.patch(&node, &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    // A node has ephemeral storage. The autoscaler's template of the group has none, so it would
    // launch nothing for a placeholder that requests some.
    let storage = json!({"ephemeral-storage": "80Gi"});
    let storage = json!({"status": {"capacity": storage, "allocatable": storage}});
    nodes.patch_status(&node, &PatchParams::default(), &Patch::Merge(&storage)).await.unwrap();
    let smaller = async |world: &World| {
        let what = "placeholders that leave room for the driver";
        let waited = wait::until_true(what, DEADLINE, async || {
            Ok(requested(world).await.as_deref() == Some("3390m"))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    };
    smaller(&world).await;
    world.wait_for_placeholders([1, 0, 0]).await;

    world.patch_policy("batch", json!({"mode": "Observe"})).await;
    world.wait_for_nodes(0).await;
    world.prophet.take().unwrap().stop().await.unwrap();
    world.start_controller(&[]).await;
    world.patch_policy("batch", json!({"mode": "Act"})).await;
    wait::until_true("placeholders", DEADLINE, async || Ok(requested(&world).await.is_some()))
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    assert_eq!(requested(&world).await.as_deref(), Some("3390m"), "{}", world.details());
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(requested(&world).await.as_deref(), Some("3390m"), "{}", world.details());
}
