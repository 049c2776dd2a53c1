//! How soon a pod that arrives is answered, end to end: `cargo bench -p tests --bench reaction`.
//!
//! A real API server, the controller under its chart's permissions, and pods that come one by one. Each is held by a gate
//! that the policy names, so each adds a node to what is announced: the answer is a ReplicaSet that asks for one pod more.
//! The time runs from the API server's answer to the pod's creation until the watch tells of that ReplicaSet.

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
    // `cargo test --benches` asks only whether it runs.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let (plane, moto) = tokio::try_join!(ControlPlane::start(), Moto::start())?;
    NodeGroup::new("small", "m5.xlarge").sizes(0, 1_000).create(&moto).await?;
    let prophet = Prophet::install(&plane, &[DISCOVERY], &moto.environment()).await?;
    plane.apply_yaml(&policy("batch", SPEC)).await?;
    let seconds = reactions(&plane, if whole { 200 } else { 2 }).await?;
    let at = |share: usize| seconds[(seconds.len() - 1) * share / 100];
    println!(
        "a pod is answered in {:.3} s, p90 {:.3} s, p99 {:.3} s ({} pods)",
        at(50),
        at(90),
        at(99),
        seconds.len()
    );
    println!("{:.0} MB resident", prophet.resident_bytes()? as f64 / 1e6);
    Ok(())
}

/// Seconds, ascending.
async fn reactions(plane: &ControlPlane, pods: usize) -> Result<Vec<f64>> {
    let sets: Api<ReplicaSet> = Api::namespaced(plane.client(), NAMESPACE);
    let mut told =
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
        let answered = async {
            while let Some(set) = told.try_next().await? {
                if set.spec.and_then(|spec| spec.replicas) == i32::try_from(wanted).ok() {
                    return Ok(start.elapsed().as_secs_f64());
                }
            }
            anyhow::bail!("the watch has ended")
        };
        seconds.push(timeout(Duration::from_mins(1), answered).await.context("no answer")??);
        // Each pod meets the controller at another moment of its pauses.
        sleep(Duration::from_millis(300 + 37 * (wanted as u64 % 11))).await;
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds)
}
