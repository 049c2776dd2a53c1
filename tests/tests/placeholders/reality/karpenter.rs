//! A trace in real time with Karpenter.

use std::time::Duration;

use serde_json::json;
use tests::control_plane::ControlPlane;
use tests::installed::{Prophet, policy};
use tests::karpenter::{Karpenter, node_pool};

use super::observed::{observe, wait_for_start};
use super::outcome::Outcome;
use super::trace::{GPU, Trace};

/// The time that Karpenter waits for more pods before it requests nodes (`BATCH_IDLE_DURATION`).
const BATCH: Duration = Duration::from_secs(1);

/// The mean time from the end of `consolidateAfter` to the removal of an empty node. Karpenter
/// looks for such nodes every 10 s, and validates 15 s later that they are still empty.
const REMOVAL: Duration = Duration::from_secs(20);

/// Runs a trace with or without the controller, this much later than a multiple of ten seconds.
pub(super) async fn with_karpenter(
    trace: &'static Trace,
    with_controller: bool,
    later: Duration,
) -> Outcome {
    let plane = ControlPlane::start().await.unwrap();
    let latency = Duration::from_secs(trace.launch).saturating_sub(BATCH);
    let types = ["m5.xlarge", "g5.xlarge"];
    let _karpenter = Karpenter::start(&plane, &types, latency).await.unwrap();
    let empty_after = Duration::from_secs(trace.unneeded).saturating_sub(REMOVAL);
    let cpu = node_pool("small", "m5.xlarge", "on-demand", empty_after);
    let mut gpu = node_pool("gpu", "g5.xlarge", "on-demand", empty_after);
    gpu["spec"]["limits"] = json!({GPU: trace.gpus.to_string()});
    gpu["spec"]["template"]["spec"]["taints"] =
        json!([{"key": GPU, "value": "present", "effect": "NoSchedule"}]);
    for pool in [cpu, gpu] {
        plane.apply_yaml(&pool.to_string()).await.unwrap();
    }
    let mut prophet = None;
    if with_controller {
        prophet = Some(Prophet::install(&plane, &[], &[]).await.unwrap());
    }
    let start = wait_for_start(trace, later).await;
    if with_controller {
        plane.apply_yaml(&policy("batch", &trace.policy())).await.unwrap();
    }
    let outcome = observe(&plane, trace, start).await;
    drop(prophet);
    outcome
}
