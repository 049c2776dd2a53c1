//! Measures the controller while a crowd of pods arrives on a large cluster:
//! `cargo bench -p tests --bench crowd`.
//!
//! 2,000 nodes are in the API server, and 20,000 pods that are bound to them already are created as
//! fast as it takes them. The output has that rate, the resident set of the controller, and its
//! reaction: the time from one more pod, on a node of its own, until the policy's status counts it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tests::control_plane::{ControlPlane, Options};
use tests::installed::{self, Prophet, policy};
use tests::wait;
use tokio::time::Instant;

/// The size of the cluster.
struct Size {
    nodes: usize,
    pods: usize,
}

/// The requests in progress at once.
const AT_ONCE: usize = 64;

/// The longest wait for a reaction.
const DEADLINE: Duration = Duration::from_mins(5);

const SPEC: &str = "{mode: Observe, tick: 1m, forecast: {method: increments}}";

#[tokio::main]
async fn main() -> Result<()> {
    // Cargo passes `--bench` only for `cargo bench`. `cargo test --benches` needs no measurement,
    // so a small cluster is enough.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let size =
        if whole { Size { nodes: 2_000, pods: 20_000 } } else { Size { nodes: 4, pods: 40 } };
    let options = Options { kwok: false, ..Options::default() };
    let plane = ControlPlane::start_with(options).await?;
    create_nodes(&plane, size.nodes + 1).await?;
    let prophet = Prophet::install(&plane, &[], &[]).await?;
    plane.apply_yaml(&policy("batch", SPEC)).await?;
    wait::until_true("a status", DEADLINE, async || {
        Ok(installed::status(&plane, "batch").await?["buckets"].is_array())
    })
    .await?;
    println!("{} nodes: {:.0} MB resident", size.nodes, prophet.resident_bytes()? as f64 / 1e6);

    let begin = Instant::now();
    create_pods(&plane, &size).await?;
    let took = begin.elapsed().as_secs_f64();
    println!("{} pods in {took:.1} s: {:.0} a second", size.pods, size.pods as f64 / took);
    create_pod(&plane, size.pods, size.nodes).await?;
    let created = Instant::now();
    wait::until_true("the demand of all nodes", DEADLINE, async || {
        let status = installed::status(&plane, "batch").await?;
        Ok(status["demand"].as_u64() == u64::try_from(size.nodes + 1).ok())
    })
    .await
    .with_context(|| prophet.log().unwrap_or_default())?;
    println!("reaction to the last pod: {:.2} s", created.elapsed().as_secs_f64());
    let metrics = prophet.metrics().await?;
    let value = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    if let (Some(sum), Some(turns)) =
        (value("prophet_reaction_seconds_sum"), value("prophet_reaction_seconds_count"))
    {
        println!("{turns} turns after changes, {:.3} s each on average", sum / turns.max(1.0));
    }
    println!("{} pods: {:.0} MB resident", size.pods, prophet.resident_bytes()? as f64 / 1e6);
    Ok(())
}

async fn create_nodes(plane: &ControlPlane, nodes: usize) -> Result<()> {
    let api: Api<Node> = Api::all(plane.client());
    let one = async |id: usize| -> Result<()> {
        let name = format!("node-{id}");
        let node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "m5.4xlarge",
                "topology.kubernetes.io/zone": "us-east-1a",
            }},
            "spec": {"providerID": format!("aws:///us-east-1a/i-{id:017x}")},
        }))?;
        api.create(&PostParams::default(), &node).await?;
        let resources = json!({"cpu": "16", "memory": "60Gi", "pods": "110"});
        let status = json!({"status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    };
    let all = futures::stream::iter((0..nodes).map(one)).buffer_unordered(AT_ONCE);
    all.try_collect().await
}

async fn create_pods(plane: &ControlPlane, size: &Size) -> Result<()> {
    let one = |id: usize| create_pod(plane, id, id % size.nodes);
    let all = futures::stream::iter((0..size.pods).map(one)).buffer_unordered(AT_ONCE);
    all.try_collect().await
}

/// Creates a pod that is bound to a node already.
async fn create_pod(plane: &ControlPlane, id: usize, node: usize) -> Result<()> {
    let api: Api<Pod> = Api::default_namespaced(plane.client());
    let pod = serde_json::from_value(json!({
        "metadata": {"name": format!("work-{id}")},
        "spec": {
            "nodeName": format!("node-{node}"),
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "work", "image": "busybox", "resources": {
                "requests": {"cpu": format!("{}m", 100 + id % 200), "memory": "1Gi"},
            }}],
        },
    }))?;
    api.create(&PostParams::default(), &pod).await?;
    Ok(())
}
