//! CapacityBuffers as placeholders, instead of pods.

use serde_json::json;
use tests::autoscaler::AutoscalerSettings;
use tests::crds;
use tests::installed::policy;
use tests::node_group::NodeGroup;
use tokio::time::Instant;

use super::world::{Plan, job};

/// A policy with a CapacityBuffer of two nodes at no demand, and of none from a demand of two
/// nodes.
const TWO_BUFFERED: &str = "{mode: Act, tick: 10s, placeholders: {kind: CapacityBuffer},
    forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2], [1, 1], [2, 0]]}}}";

#[tokio::test(flavor = "multi_thread")]
async fn buffers_hold_nodes_without_pods_and_follow_the_same_plan() {
    let autoscaler = AutoscalerSettings { capacity_buffers: true, ..AutoscalerSettings::default() };
    let plan = Plan {
        autoscaler,
        before: vec![crds::CAPACITY_BUFFER],
        ..Plan::of([NodeGroup::new("small", "m5.xlarge")])
    };
    let world = plan.start(&policy("batch", TWO_BUFFERED)).await;
    world.wait_for_nodes(2).await;
    world.wait_for_buffered(1, 2).await;
    world.wait_for_placeholders([0, 0, 0]).await;
    world.apply(&job("first", 2)).await;
    let waited = world.wait_for_job("first", 2).await;
    println!("a job of two nodes waits {waited:.2} s with CapacityBuffers");
    // At a demand of two nodes the plan lowers the buffer. Otherwise the autoscaler would refill
    // it. A scan that begins before the plan does so refills one or both of its nodes.
    world.wait_for_buffered(1, 0).await;
    let lowered = Instant::now();
    let launched = world.launched_after_scans(3).await;
    assert!((2..=4).contains(&launched), "{}", world.details());
    let scale_ups = world.autoscaler.counters().scale_ups;
    assert!(scale_ups.iter().all(|scale_up| scale_up.at < lowered), "{}", world.details());

    world.patch_policy("batch", json!({"mode": "Observe"})).await;
    world.wait_for_buffered(0, 0).await;
}
