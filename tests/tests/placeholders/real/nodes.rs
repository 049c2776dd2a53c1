//! Nodes whose devices come late, that are interrupted, or whose kubelet stops.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tests::installed::{NAMESPACE, policy};
use tests::instances::GPU;
use tests::node_group::NodeGroup;
use tests::wait;

use super::super::world::{DEADLINE, World, is_bound, is_placeholder};
use super::{Images, TYPE, end, holding, is_ready, is_running, job, kubectl};

impl World {
    /// Checks for ten seconds that so many nodes were requested, and no more.
    async fn assert_launched(&self, count: usize) {
        let what = format!("{count} nodes were requested");
        let stays = wait::stays_true(&what, Duration::from_secs(10), async || {
            Ok(self.autoscaler.counters().launched() == count)
        });
        stays.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
    }

    /// Waits until the only placeholder runs on another node than this one; returns its node.
    async fn wait_for_placeholder_beside(&self, node: &str, deadline: Duration) -> String {
        let waited = wait::until("a placeholder on another node", deadline, async || {
            let mut pods = self.pods(NAMESPACE).await?;
            pods.retain(|pod| is_placeholder(pod) && is_running(pod));
            let on = pods.first().and_then(|pod| pod.spec.as_ref()?.node_name.clone());
            Ok(on.filter(|on| pods.len() == 1 && on != node))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()))
    }

    /// Waits until a node of this name is Ready, or is not.
    async fn wait_for_readiness(&self, name: &str, ready: bool) {
        let waited = wait::until_true("the readiness of a node", DEADLINE, async || {
            let nodes = self.nodes().await;
            Ok(nodes.iter().any(|node| node.name_any() == name && is_ready(node) == ready))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
    }

    /// The name of the only node.
    async fn only_node(&self) -> String {
        let nodes = self.nodes().await;
        assert_eq!(nodes.len(), 1);
        nodes[0].name_any()
    }
}

/// A device plugin registers the GPUs of a node long after the node is Ready. The placeholder waits
/// for them, and no second node is bought meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_placeholder_waits_for_the_devices_of_its_node() {
    let Some(images) = Images::where_permitted() else { return };
    // Without the label, cluster-autoscaler takes the node for one that has no GPUs.
    let group = NodeGroup::new("gpu", TYPE).resource(GPU, "2");
    let plan = images.plan([group.label("k8s.amazonaws.com/accelerator", "nvidia-tesla-t4")]);
    let world = plan.start(&policy("batch", &holding(1))).await;
    world.wait_for_ready_nodes(1).await;
    world.assert_launched(1).await;
    let bound = world.pods(NAMESPACE).await.unwrap();
    let requests =
        |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.containers[0].resources.clone());
    let bound: Vec<_> = bound.iter().filter(|pod| is_bound(pod)).map(requests).collect();
    assert!(bound.is_empty(), "placeholders without GPUs: {bound:?}\n{}", world.details());

    let node = world.joiner.node(&world.only_node().await).unwrap();
    let plugin = node.start_device_plugin().unwrap();
    world.wait_for_running_placeholders(1).await;
    let limits = format!("command: [sleep, '1'], resources: {{limits: {{cpu: '1', {GPU}: 1}}}}");
    world.apply(&job("work", &limits).replace("resources: {requests: {cpu: '1'}}, ", "")).await;
    world.wait_for_pod("work", "has ended", |pod| end(pod) == Some(("Completed", 0))).await;
    world.wait_for_running_placeholders(1).await;
    world.assert_launched(1).await;
    drop(plugin);
}

/// The notice of a spot interruption is a taint that evicts pods, as from the termination handler
/// of AWS. The placeholder moves to one new node, on which a job then runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_placeholder_leaves_a_node_that_is_interrupted() {
    let Some(images) = Images::where_permitted() else { return };
    let plan = images.plan([NodeGroup::new("small", TYPE).sizes(0, 3)]);
    let world = plan.start(&policy("batch", &holding(1))).await;
    world.wait_for_running_placeholders(1).await;
    world.wait_for_measured_placeholders(1).await;
    let interrupted = world.only_node().await;
    let taint = "aws-node-termination-handler/spot-itn=1:NoExecute";
    kubectl(&world, &["taint", "node", &interrupted, taint]).unwrap();
    let next = world.wait_for_placeholder_beside(&interrupted, DEADLINE).await;
    world.assert_launched(2).await;

    world.apply(&job("work", "command: [sleep, '1']")).await;
    let ran = world.wait_for_pod("work", "has ended", |pod| end(pod).is_some()).await;
    assert_eq!(ran.spec.unwrap().node_name, Some(next));
    world.assert_launched(2).await;
}

/// A kubelet stops without a word. Its placeholder is replaced once, after a minute, and goes when
/// the kubelet is back.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes three minutes; run by make real"]
async fn a_placeholder_whose_kubelet_stops_is_replaced_once() {
    let Some(images) = Images::where_permitted() else { return };
    let plan = images.plan([NodeGroup::new("small", TYPE).sizes(0, 3)]);
    let world = plan.start(&policy("batch", &holding(1))).await;
    world.wait_for_running_placeholders(1).await;
    world.wait_for_measured_placeholders(1).await;
    let silent = world.only_node().await;
    let node = world.joiner.node(&silent).unwrap();
    node.signal_kubelet("STOP").unwrap();
    world.wait_for_readiness(&silent, false).await;
    world.wait_for_nodes(2).await;
    world.assert_launched(2).await;
    world.apply(&job("work", "command: [sleep, '1']")).await;
    let ran = world.wait_for_pod("work", "has ended", |pod| end(pod).is_some()).await;
    assert_ne!(ran.spec.unwrap().node_name.as_ref(), Some(&silent));

    node.signal_kubelet("CONT").unwrap();
    world.wait_for_readiness(&silent, true).await;
    world.wait_for_running_placeholders(1).await;
    // Two ticks and more.
    let one = wait::stays_true("one placeholder runs", Duration::from_secs(25), async || {
        let pods = world.pods(NAMESPACE).await?;
        let ours = pods.iter().filter(|pod| is_placeholder(pod) && is_running(pod));
        Ok(ours.count() == 1)
    });
    one.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    world.assert_launched(2).await;
}
