//! Placeholders with Karpenter, which creates nodes with its kwok provider.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use tests::control_plane::ControlPlane;
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::karpenter::{Karpenter, node_pool};
use tests::wait;

/// The longest wait for a condition. Karpenter batches pending pods for seconds, and checks for
/// empty nodes every few seconds.
const DEADLINE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn karpenter_launches_a_node_for_a_pending_pod_and_removes_it_afterwards() {
    let plane = ControlPlane::start().await.unwrap();
    let types = ["m5.xlarge", "g5.xlarge"];
    let _karpenter = Karpenter::start(&plane, &types, Duration::ZERO).await.unwrap();
    let pool = node_pool("cpu", "m5.xlarge", "spot", Duration::from_secs(2));
    plane.apply_yaml(&pool.to_string()).await.unwrap();
    plane
        .apply_yaml(
            "{apiVersion: v1, kind: Pod, metadata: {name: first}, spec: {containers: [
               {name: work, image: busybox, resources: {requests: {cpu: '3'}}}]}}",
        )
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(plane.client());
    let running = ListParams::default().fields("status.phase=Running");
    wait::until_true("the pod to run", DEADLINE, async || {
        Ok(pods.list(&running).await?.items.len() == 1)
    })
    .await
    .unwrap();
    let nodes: Api<Node> = Api::all(plane.client());
    let all = nodes.list(&ListParams::default()).await.unwrap().items;
    let [node] = &all[..] else { panic!("expected one node: {all:?}") };
    assert_eq!(node.labels()["node.kubernetes.io/instance-type"], "m5.xlarge");
    assert_eq!(node.labels()["karpenter.sh/capacity-type"], "spot");

    pods.delete("first", &DeleteParams::default().grace_period(0)).await.unwrap();
    wait::until_true("the node to go", DEADLINE, async || {
        Ok(nodes.list(&ListParams::default()).await?.items.is_empty())
    })
    .await
    .unwrap();
}

/// A policy with two placeholders at any demand.
const POLICY: &str =
    "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2]]}}}";

#[tokio::test(flavor = "multi_thread")]
async fn karpenter_launches_nodes_for_placeholders_and_removes_them_afterwards() {
    let plane = ControlPlane::start().await.unwrap();
    let types = ["m5.xlarge", "g5.xlarge"];
    let mut karpenter = Karpenter::start(&plane, &types, Duration::ZERO).await.unwrap();
    let pool = node_pool("cpu", "m5.xlarge", "on-demand", Duration::from_secs(2));
    plane.apply_yaml(&pool.to_string()).await.unwrap();
    let prophet = Prophet::install(&plane, &[], &[]).await.unwrap();
    plane.apply_yaml(&policy("batch", POLICY)).await.unwrap();
    let (nodes, pods): (Api<Node>, Api<Pod>) =
        (Api::all(plane.client()), Api::namespaced(plane.client(), NAMESPACE));
    let running = ListParams::default().fields("status.phase=Running");
    let mut wait_for = async |what: &str, ready: usize, node_count: usize| {
        let mut last = (0, 0);
        let waited = wait::until_true(what, DEADLINE, async || {
            let all = ListParams::default();
            last = (pods.list(&running).await?.items.len(), nodes.list(&all).await?.items.len());
            Ok(last == (ready, node_count))
        });
        if let Err(error) = waited.await {
            let logs = [prophet.log(), karpenter.process().log()].map(Result::unwrap_or_default);
            panic!("{error:#}; there are {last:?}\n{}", logs.join("\n"));
        }
    };
    wait_for("two placeholders on two nodes", 2, 2).await;
    plane.apply_yaml(&policy("batch", &POLICY.replace("[0, 2]", "[0, 0]"))).await.unwrap();
    wait_for("no placeholder and no node", 0, 0).await;
}
