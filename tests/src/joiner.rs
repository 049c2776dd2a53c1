//! A stand-in for the kubelets: creates a Node for each instance of the Auto Scaling groups after a
//! latency, and deletes the Node and its pods when the instance is gone. kwok keeps the Nodes alive
//! in between, or real kubelets register themselves and run the pods.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use aws_sdk_autoscaling::types::{AutoScalingGroup, LifecycleState};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::background::Background;
use crate::control_plane::{ControlPlane, connect};
use crate::instances::GPU;
use crate::moto::{self, Moto};
use crate::node_template;
use crate::quantity::thousandths;
use crate::real_node::{Boot, Kubelets, RealNode};

/// The pause between two reads of the groups: short compared with every latency of the tests.
const PAUSE: Duration = Duration::from_millis(100);

/// The latencies and reservations of new nodes.
#[derive(Debug, Clone)]
pub struct JoinerSettings {
    /// The time from the first observation of an instance to its Ready node.
    pub latency: Duration,
    /// The time from the Ready node to the registration of its GPUs.
    pub gpu_latency: Duration,
    /// The kubelet's reserved CPU. The default is at most that of one of Amazon's node images with
    /// four cores.
    pub reserved_cpu_millis: u32,
    /// The kubelet's reserved memory. The default is a little less than that of Amazon's node
    /// images.
    pub reserved_memory_mib: u32,
    /// Real kubelets, which run the pods of their nodes. Without them, kwok must run.
    pub kubelets: Option<Kubelets>,
}

impl Default for JoinerSettings {
    fn default() -> Self {
        Self {
            latency: Duration::from_secs(1),
            gpu_latency: Duration::ZERO,
            reserved_cpu_millis: 80,
            reserved_memory_mib: 850,
            kubelets: None,
        }
    }
}

/// An instance that has become a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The Auto Scaling group.
    pub group: String,
    /// The name of the node, which is the ID of the instance.
    pub node: String,
    /// The time from the first observation of the instance to its Ready node.
    pub after: Duration,
}

#[derive(Debug, Default)]
struct State {
    latencies: BTreeMap<String, Duration>,
    failing: BTreeSet<String>,
    joined: Vec<Joined>,
    nodes: BTreeMap<String, Arc<RealNode>>,
    errors: Vec<String>,
}

/// A running joiner, stopped on drop.
#[derive(Debug)]
pub struct Joiner {
    state: Arc<Mutex<State>>,
    _background: Background,
}

impl Joiner {
    /// Starts a joiner. All groups have the latency of `settings` at first.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(plane: &ControlPlane, moto: &Moto, settings: JoinerSettings) -> Result<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let (kubeconfig, endpoint, shared) =
            (plane.kubeconfig(), moto.endpoint().to_owned(), Arc::clone(&state));
        let work = async move || {
            let autoscaling = aws_sdk_autoscaling::Client::new(&moto::configure(&endpoint).await);
            match connect(&kubeconfig).await {
                Ok(client) => {
                    Work::new(client, kubeconfig, autoscaling, settings, shared).run().await;
                }
                Err(error) => lock(&shared).errors.push(format!("{error:#}")),
            }
        };
        Ok(Self { state, _background: Background::start("joiner", work)? })
    }

    /// Sets the latency of a group's instances from now on.
    pub fn set_latency(&self, group: &str, latency: Duration) {
        lock(&self.state).latencies.insert(group.to_owned(), latency);
    }

    /// Keeps the instances of a group from becoming nodes from now on, as with a broken node
    /// start-up.
    pub fn fail(&self, group: &str) {
        lock(&self.state).failing.insert(group.to_owned());
    }

    /// Ends the effect of [`Joiner::fail`], also for instances that are waiting.
    pub fn heal(&self, group: &str) {
        lock(&self.state).failing.remove(group);
    }

    /// All instances that have become nodes, in order.
    pub fn joined(&self) -> Vec<Joined> {
        lock(&self.state).joined.clone()
    }

    /// A real node, by its name.
    pub fn node(&self, name: &str) -> Option<Arc<RealNode>> {
        lock(&self.state).nodes.get(name).cloned()
    }

    /// The errors so far. The joiner retries after each of them.
    pub fn errors(&self) -> Vec<String> {
        lock(&self.state).errors.clone()
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of one instance.
#[derive(Debug)]
struct Known {
    seen: Instant,
    joined: Option<Instant>,
    gpus_due: bool,
}

struct Work {
    client: Client,
    kubeconfig: PathBuf,
    autoscaling: aws_sdk_autoscaling::Client,
    settings: JoinerSettings,
    state: Arc<Mutex<State>>,
    known: BTreeMap<String, Known>,
}

impl Work {
    fn new(
        client: Client,
        kubeconfig: PathBuf,
        autoscaling: aws_sdk_autoscaling::Client,
        settings: JoinerSettings,
        state: Arc<Mutex<State>>,
    ) -> Self {
        Self { client, kubeconfig, autoscaling, settings, state, known: BTreeMap::new() }
    }

    async fn run(mut self) {
        loop {
            if let Err(error) = self.turn().await {
                lock(&self.state).errors.push(format!("{error:#}"));
            }
            sleep(PAUSE).await;
        }
    }

    async fn turn(&mut self) -> Result<()> {
        let pages = self.autoscaling.describe_auto_scaling_groups().into_paginator().items().send();
        let groups: Vec<AutoScalingGroup> = pages.collect::<Result<_, _>>().await?;
        let mut present = BTreeSet::new();
        for group in &groups {
            for instance in group.instances() {
                if instance.lifecycle_state() != Some(&LifecycleState::InService) {
                    continue;
                }
                let id = instance.instance_id().context("an instance has no ID")?;
                present.insert(id.to_owned());
                self.advance(group, id, instance.instance_type().unwrap_or_default()).await?;
            }
        }
        let gone: Vec<String> =
            self.known.keys().filter(|id| !present.contains(*id)).cloned().collect();
        for id in gone {
            self.remove(&id).await?;
            self.known.remove(&id);
        }
        Ok(())
    }

    /// Advances an instance by at most one step: creates its node, or registers the node's GPUs.
    async fn advance(
        &mut self,
        group: &AutoScalingGroup,
        id: &str,
        instance_type: &str,
    ) -> Result<()> {
        let name = group.auto_scaling_group_name().unwrap_or_default();
        let now = Instant::now();
        let (latency, failing) = {
            let state = lock(&self.state);
            let latency = state.latencies.get(name).copied().unwrap_or(self.settings.latency);
            (latency, state.failing.contains(name))
        };
        let new = Known { seen: now, joined: None, gpus_due: false };
        let known = self.known.entry(id.to_owned()).or_insert(new);
        let (seen, joined, gpus_due) = (known.seen, known.joined, known.gpus_due);
        match joined {
            None if !failing && now >= seen + latency => {
                let gpus_due = self.join(group, id, instance_type).await?;
                let known = Known { seen, joined: Some(Instant::now()), gpus_due };
                self.known.insert(id.to_owned(), known);
                let joined =
                    Joined { group: name.to_owned(), node: id.to_owned(), after: seen.elapsed() };
                lock(&self.state).joined.push(joined);
            }
            Some(joined) if gpus_due && now >= joined + self.settings.gpu_latency => {
                self.register_gpus(id).await?;
                self.known
                    .insert(id.to_owned(), Known { seen, joined: Some(joined), gpus_due: false });
            }
            _ => {}
        }
        Ok(())
    }

    /// Creates a Ready node with its status, as a kubelet does. Returns whether its GPUs come
    /// later.
    async fn join(&self, group: &AutoScalingGroup, id: &str, instance_type: &str) -> Result<bool> {
        let template = node_template::of(group, instance_type, id)?;
        let mut allocatable = template.capacity.clone();
        let JoinerSettings { reserved_cpu_millis, reserved_memory_mib, gpu_latency, .. } =
            self.settings;
        reserve(&mut allocatable, "cpu", i128::from(reserved_cpu_millis))?;
        reserve(&mut allocatable, "memory", i128::from(reserved_memory_mib) * (1_000 << 20))?;
        let gpus_due = !gpu_latency.is_zero() && template.capacity.contains_key(GPU);
        if let Some(kubelets) = &self.settings.kubelets {
            let boot = Boot {
                name: id.to_owned(),
                provider_id: format!("aws:///{}/{id}", template.zone),
                labels: template.labels,
                taints: template.taints,
                allocatable,
            };
            let node = RealNode::start(&self.kubeconfig, &boot, kubelets).await?;
            lock(&self.state).nodes.insert(id.to_owned(), Arc::new(node));
            // A device plugin registers GPUs, when the test starts it.
            return Ok(false);
        }
        let mut capacity = template.capacity;
        if gpus_due {
            capacity.remove(GPU);
            allocatable.remove(GPU);
        }
        let now = format!("{:.0}", Timestamp::now());
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": id, "labels": template.labels},
            "spec": {"providerID": format!("aws:///{}/{id}", template.zone), "taints": template.taints},
            "status": {
                "capacity": capacity,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
                    "lastHeartbeatTime": now, "lastTransitionTime": now}],
                "nodeInfo": {
                    "architecture": template.labels.get("kubernetes.io/arch"), "operatingSystem": "linux",
                    "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                    "kubeletVersion": "", "machineID": "", "osImage": "", "systemUUID": "",
                },
                "phase": "Running",
            },
        }))?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .create(&PostParams::default(), &node)
            .await
            .with_context(|| format!("failed to create node {id}"))?;
        Ok(gpus_due)
    }

    async fn register_gpus(&self, id: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let Some(node) = nodes.get_opt(id).await? else { return Ok(()) };
        let kind =
            node.labels().get("node.kubernetes.io/instance-type").cloned().unwrap_or_default();
        let gpus = crate::instances::instance(&kind)?.capacity().remove(GPU);
        let gpus = json!({GPU: gpus});
        let status = json!({"status": {"capacity": gpus, "allocatable": gpus}});
        nodes.patch_status(id, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    /// Ends the node of a terminated instance, and deletes its object and its pods, because no
    /// kubelet is left to do it.
    async fn remove(&self, id: &str) -> Result<()> {
        // The node ends without the lock, because its processes take a while to end.
        let node = lock(&self.state).nodes.remove(id);
        drop(node);
        let now = DeleteParams::default().grace_period(0);
        let nodes: Api<Node> = Api::all(self.client.clone());
        ignore_absence(nodes.delete(id, &now).await.map(drop))?;
        let pods: Api<Pod> = Api::all(self.client.clone());
        for pod in pods.list(&ListParams::default().fields(&format!("spec.nodeName={id}"))).await? {
            let namespace = pod.namespace().unwrap_or_default();
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
            ignore_absence(pods.delete(&pod.name_any(), &now).await.map(drop))?;
        }
        Ok(())
    }
}

fn ignore_absence(deleted: kube::Result<()>) -> Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other?),
    }
}

/// Subtracts `reserved` thousandths from the quantity `name`, down to zero.
fn reserve(amounts: &mut BTreeMap<String, Quantity>, name: &str, reserved: i128) -> Result<()> {
    if let Some(quantity) = amounts.get_mut(name) {
        let left = (thousandths(&quantity.0)? - reserved).max(0);
        // Whole units, such as bytes, need no suffix. Thousandths of CPUs have the suffix `m`.
        quantity.0 =
            if left % 1_000 == 0 { (left / 1_000).to_string() } else { format!("{left}m") };
    }
    Ok(())
}
