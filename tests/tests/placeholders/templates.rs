//! Changes of the placeholders' pod template.

use std::time::Duration;

use serde_json::json;
use tests::autoscaler::AutoscalerSettings;
use tests::installed::{NAMESPACE, policy};
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{DEADLINE, Plan, is_bound};

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
