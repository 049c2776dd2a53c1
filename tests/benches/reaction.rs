//! Measures the reaction time to an arriving pod, end to end: `cargo bench -p tests --bench
//! reaction`.
//!
//! The API server is real, the controller has the permissions of its chart, and pods arrive one by
//! one. Each pod has a scheduling gate that the policy names, so each adds a node to the announced
//! demand. The controller reacts with one more replica of a ReplicaSet. The time runs from the API
//! server's response to the pod's creation until a watch delivers that ReplicaSet.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::json;
use tests::control_plane::ControlPlane;
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::moto::Moto;
use tests::node_group::NodeGroup;
use tokio::time::{Instant, sleep, timeout};

const SPEC: &str = "{mode: Act, tick: 1m, forecast: {method: scheduled}, workloads: {releasedGates: [example.com/soon]}}";

const DISCOVERY: &str = "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled";

#[tokio::main]
async fn main() -> Result<()> {
    // Cargo passes `--bench` only for `cargo bench`. `cargo test --benches` needs no measurement,
    // so two pods are enough.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let (plane, moto) = tokio::try_join!(ControlPlane::start(), Moto::start())?;
    NodeGroup::new("small", "m5.xlarge").sizes(0, 1_000).create(&moto).await?;
    let prophet = Prophet::install(&plane, &[DISCOVERY], &moto.environment()).await?;
    plane.apply_yaml(&policy("batch", SPEC)).await?;
    let seconds = reactions(&plane, if whole { 200 } else { 2 }).await?;
    let at = |share: usize| seconds[(seconds.len() - 1) * share / 100];
    println!(
        "reaction to a pod: {:.3} s, p90 {:.3} s, p99 {:.3} s ({} pods)",
        at(50),
        at(90),
        at(99),
        seconds.len()
    );
    println!("{:.0} MB resident", prophet.resident_bytes()? as f64 / 1e6);
    Ok(())
}

/// The reaction times to this number of pods, in seconds, ascending.
async fn reactions(plane: &ControlPlane, pods: usize) -> Result<Vec<f64>> {
    let sets: Api<ReplicaSet> = Api::namespaced(plane.client(), NAMESPACE);
    let mut events =
        std::pin::pin!(watcher(sets, watcher::Config::default()).applied_objects().boxed());
    let api: Api<Pod> = Api::default_namespaced(plane.client());
    let mut seconds = Vec::new();
    for wanted in 1..=pods {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": format!("work-{wanted}")},
            "spec": {
                "schedulingGates": [{"name": "example.com/soon"}],
                "containers": [{"name": "work", "image": "busybox", "resources": {"requests": {"cpu": "3"}}}],
            },
        }))?;
        api.create(&PostParams::default(), &pod).await?;
        let start = Instant::now();
        let reaction = async {
            while let Some(set) = events.try_next().await? {
                if set.spec.and_then(|spec| spec.replicas) == i32::try_from(wanted).ok() {
                    return Ok(start.elapsed().as_secs_f64());
                }
            }
            anyhow::bail!("the watch has ended")
        };
        seconds.push(timeout(Duration::from_mins(1), reaction).await.context("no reaction")??);
        // The pauses differ, so that the pods arrive at different phases of the controller's loop.
        sleep(Duration::from_millis(300 + 37 * (wanted as u64 % 11))).await;
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds)
}
