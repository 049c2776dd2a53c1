//! A cluster with groups and an autoscaler, with or without the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::discovery::{ApiGroup, Discovery, verbs};
use serde_json::{Value, json};
use tests::api_proxy::ApiProxy;
use tests::autoscaler::{Autoscaler, AutoscalerSettings};
use tests::control_plane::{ControlPlane, Options};
use tests::installed::{self, NAMESPACE, Prophet};
use tests::joiner::{Joiner, JoinerSettings};
use tests::moto::Moto;
use tests::node_group::{NodeGroup, PLACEMENT_GROUP_LABEL};
use tests::quantity::thousandths;
use tests::wait;
use tokio::time::Instant;

/// The longest wait for a condition, long enough for a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

pub(crate) const DISCOVERY: &str =
    "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled";

/// Kinds whose objects Kubernetes itself creates and deletes; an inventory leaves them out.
const OF_THEMSELVES: [&str; 7] =
    ["Event", "Lease", "Node", "CSINode", "ConfigMap", "APIService", "ComponentStatus"];

/// The configuration of a [`World`].
pub(crate) struct Plan<'a> {
    pub(crate) groups: Vec<NodeGroup>,
    pub(crate) options: Options,
    pub(crate) autoscaler: AutoscalerSettings,
    /// The nodes that join. By default, they are Ready after three seconds.
    pub(crate) nodes: JoinerSettings,
    /// YAML documents that are applied before the controller starts.
    pub(crate) before: Vec<&'a str>,
    /// Additional arguments of the controller.
    pub(crate) arguments: Vec<String>,
    /// Whether the controller reaches the API server through a proxy.
    pub(crate) proxied: bool,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            options: Options::default(),
            autoscaler: AutoscalerSettings::default(),
            nodes: JoinerSettings { latency: Duration::from_secs(3), ..Default::default() },
            before: Vec::new(),
            arguments: Vec::new(),
            proxied: false,
        }
    }
}

impl Plan<'_> {
    pub(crate) fn of(groups: impl IntoIterator<Item = NodeGroup>) -> Self {
        Self { groups: groups.into_iter().collect(), ..Self::default() }
    }

    /// Starts the cluster and the controller, and applies the policies.
    pub(crate) async fn start(self, policies: &str) -> World {
        let world = World::start(self, policies).await;
        world.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Starts the cluster without the controller.
    pub(crate) async fn start_alone(&self) -> World {
        World::alone(self).await.unwrap_or_else(|error| panic!("{error:#}"))
    }
}

/// A running cluster with groups, an autoscaler and, optionally, the controller.
pub(crate) struct World {
    pub(crate) prophet: Option<Prophet>,
    /// The proxy between the controller and the API server, if the plan has one.
    pub(crate) proxy: Option<ApiProxy>,
    pub(crate) autoscaler: Autoscaler,
    pub(crate) joiner: Joiner,
    pub(crate) moto: Moto,
    pub(crate) plane: ControlPlane,
}

impl World {
    async fn alone(plan: &Plan<'_>) -> Result<Self> {
        let (plane, moto) = tokio::join!(ControlPlane::start_with(plan.options), Moto::start());
        let (plane, moto) = (plane?, moto?);
        for group in &plan.groups {
            group.create(&moto).await?;
        }
        let joiner = Joiner::start(&plane, &moto, plan.nodes.clone())?;
        let autoscaler = Autoscaler::start(&plane, &moto, plan.autoscaler.clone())?;
        let proxy = plan.proxied.then(|| ApiProxy::start(plane.server())).transpose()?;
        Ok(Self { prophet: None, proxy, autoscaler, joiner, moto, plane })
    }

    async fn start(plan: Plan<'_>, policies: &str) -> Result<Self> {
        let world = Self::alone(&plan).await?;
        for objects in &plan.before {
            world.plane.apply_yaml(objects).await?;
        }
        Ok(world.with_controller(&plan.arguments, policies).await)
    }

    /// Applies the chart, starts the controller, and applies the policies.
    pub(crate) async fn with_controller(mut self, more: &[String], policies: &str) -> Self {
        let installed = Prophet::apply_chart(&self.plane).await;
        installed.unwrap_or_else(|error| panic!("{error:#}"));
        self.start_controller(more).await;
        self.apply(policies).await;
        self
    }

    /// Starts the controller, with these additional arguments.
    pub(crate) async fn start_controller(&mut self, more: &[String]) {
        self.start_controller_with(more, &[]).await;
    }

    /// Starts the controller, with these additional arguments and variables.
    pub(crate) async fn start_controller_with(
        &mut self,
        more: &[String],
        variables: &[(&'static str, String)],
    ) {
        let label = format!("--placement-group-label={PLACEMENT_GROUP_LABEL}");
        let mut arguments = vec![DISCOVERY, &label];
        arguments.extend(more.iter().map(String::as_str));
        let mut environment = self.moto.environment().to_vec();
        environment.extend_from_slice(variables);
        if let Some(proxy) = &self.proxy {
            let path = self.plane.kubeconfig_at(&proxy.url(), NAMESPACE, "prophet").await;
            let path = path.unwrap_or_else(|error| panic!("{error:#}"));
            environment.push(("KUBECONFIG", path.display().to_string()));
        }
        let prophet = Prophet::start(&self.plane, &arguments, &environment).await;
        self.prophet = Some(prophet.unwrap_or_else(|error| panic!("{error:#}")));
    }

    pub(crate) async fn apply(&self, objects: &str) {
        let applied = self.plane.apply_yaml(objects).await;
        applied.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// Changes a policy's spec by a merge patch.
    pub(crate) async fn patch_policy(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        let patched = self.policies().patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap_or_else(|error| panic!("{error:#}"));
    }

    pub(crate) async fn delete_policy(&self, name: &str) {
        let deleted = self.policies().delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("{error:#}"));
    }

    pub(crate) fn policies(&self) -> Api<DynamicObject> {
        self.ours("prophet.dev", "v1alpha1", "OverprovisioningPolicy")
    }

    /// The API of a kind in the namespace of the placeholders.
    fn ours(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.plane.client(), NAMESPACE, &resource)
    }

    /// The time of the controller's installation, in Unix seconds of the API server's clock.
    pub(crate) async fn started_at(&self) -> i64 {
        let namespaces: Api<Namespace> = Api::all(self.plane.client());
        let ours = namespaces.get(NAMESPACE).await.unwrap_or_else(|error| panic!("{error:#}"));
        ours.creation_timestamp().map_or(0, |time| time.0.as_second())
    }

    /// The reasons of the controller's Events in the namespace of the placeholders.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events = self.ours("events.k8s.io", "v1", "Event").list(&ListParams::default()).await;
        let events = events.unwrap_or_else(|error| panic!("{error:#}")).items;
        let ours = events.iter().filter(|event| event.data["reportingController"] == "prophet");
        ours.map(|event| event.data["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until there are at most `buffers_max` CapacityBuffers, with `nodes` replicas in total.
    pub(crate) async fn wait_for_buffered(&self, buffers_max: usize, nodes: u64) {
        let buffers = self.ours("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
        let mut last = Vec::new();
        let what = format!("CapacityBuffers of {nodes} nodes");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let all = buffers.list(&ListParams::default()).await?.items;
            last =
                all.iter().filter_map(|buffer| buffer.data["spec"]["replicas"].as_u64()).collect();
            Ok(last.len() <= buffers_max && last.iter().sum::<u64>() == nodes)
        });
        if let Err(error) = waited.await {
            panic!("{error:#}; there are {last:?}\n{}", self.details());
        }
    }

    /// All objects of the cluster except those that Kubernetes itself creates, as `KIND
    /// NAMESPACE/NAME`.
    ///
    /// # Errors
    /// A kind is deleted during the listing.
    pub(crate) async fn inventory(&self) -> Result<BTreeSet<String>> {
        let found = Discovery::new(self.plane.client()).run().await?;
        let mut all = BTreeSet::new();
        for (resource, capabilities) in found.groups().flat_map(ApiGroup::recommended_resources) {
            if OF_THEMSELVES.contains(&resource.kind.as_str())
                || !capabilities.supports_operation(verbs::LIST)
            {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(self.plane.client(), &resource);
            for object in api.list(&ListParams::default()).await?.items {
                all.insert(format!(
                    "{} {}/{}",
                    resource.kind,
                    object.namespace().unwrap_or_default(),
                    object.name_any()
                ));
            }
        }
        Ok(all)
    }

    pub(crate) async fn pods(&self, namespace: &str) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.plane.client(), namespace);
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    /// The ReplicaSets of the placeholders.
    pub(crate) async fn sets(&self) -> Result<Vec<ReplicaSet>> {
        let sets: Api<ReplicaSet> = Api::namespaced(self.plane.client(), NAMESPACE);
        Ok(sets.list(&ListParams::default()).await?.items)
    }

    /// The numbers of placeholders on nodes, pending without the gate, and held by the gate.
    pub(crate) async fn placeholders(&self) -> Result<[usize; 3]> {
        let mut pods = self.pods(NAMESPACE).await?;
        pods.retain(is_placeholder);
        let count = |of: fn(&Pod) -> bool| pods.iter().filter(|pod| of(pod)).count();
        Ok([count(is_bound), count(|pod| !is_bound(pod) && !is_gated(pod)), count(is_gated)])
    }

    pub(crate) async fn wait_for_placeholders(&self, expected: [usize; 3]) {
        let mut last = [0; 3];
        let what = format!("placeholders {expected:?}");
        let waited = wait::until_true(&what, DEADLINE, async || {
            last = self.placeholders().await?;
            Ok(last == expected)
        });
        if let Err(error) = waited.await {
            panic!("{error:#}; there are {last:?}\n{}", self.details());
        }
    }

    /// Waits until all placeholders are on nodes, `count` of them, with the sizes of those nodes.
    /// The controller estimates the size of a node that does not exist yet. When the first node is
    /// there, it replaces the placeholders of an estimated size, and a pod that comes at that
    /// moment takes a node without preemption.
    pub(crate) async fn wait_for_measured_placeholders(&self, count: usize) {
        /// What placeholders leave free on a node, and more, in bytes.
        const LEFT: i128 = 64 << 20;
        let what = format!("{count} placeholders of the sizes of their nodes");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let nodes = self.nodes().await;
            let sized = |pod: &Pod| {
                let node = pod.spec.as_ref()?.node_name.as_ref()?;
                let node = nodes.iter().find(|found| found.name_any() == *node)?;
                let has = memory(node.status.as_ref()?.allocatable.as_ref()?)?;
                let container = pod.spec.as_ref()?.containers.first()?;
                let asks = memory(container.resources.as_ref()?.requests.as_ref()?)?;
                Some(has - asks < LEFT)
            };
            let mut pods = self.pods(NAMESPACE).await?;
            pods.retain(is_placeholder);
            Ok(self.placeholders().await? == [count, 0, 0]
                && pods.iter().all(|pod| sized(pod) == Some(true)))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
    }

    /// The number of placeholders on nodes, by the group in their annotations.
    pub(crate) async fn ready_by_group(&self) -> Vec<(String, usize)> {
        let pods = self.pods(NAMESPACE).await.unwrap_or_else(|error| panic!("{error:#}"));
        let mut counts = std::collections::BTreeMap::new();
        for pod in pods.iter().filter(|pod| is_bound(pod)) {
            *counts.entry(pod.annotations()["prophet.dev/group-name"].clone()).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// Waits until the placeholders on nodes, by group, are exactly these.
    pub(crate) async fn wait_for_groups(&self, expected: &[(&str, usize)]) {
        let mut last = Vec::new();
        let what = format!("placeholders on nodes {expected:?}");
        let waited = wait::until_true(&what, DEADLINE, async || {
            last = self.ready_by_group().await;
            Ok(last
                .iter()
                .map(|(group, count)| (group.as_str(), *count))
                .eq(expected.iter().copied()))
        });
        if let Err(error) = waited.await {
            panic!("{error:#}; there are {last:?}\n{}", self.details());
        }
    }

    /// Waits until `pods` pods whose names begin with `name` are on nodes; returns the wait in
    /// seconds.
    pub(crate) async fn wait_for_job(&self, name: &str, pods: usize) -> f64 {
        let begin = Instant::now();
        let what = format!("{pods} pods of {name}");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let all = self.pods("default").await?;
            let ours = all.iter().filter(|pod| pod.name_any().starts_with(name));
            Ok(ours.filter(|pod| is_bound(pod)).count() == pods)
        });
        if let Err(error) = waited.await {
            panic!("{error:#}\n{}", self.details());
        }
        begin.elapsed().as_secs_f64()
    }

    /// Waits until the condition `holds` is true of the policy's status. `what` names the
    /// condition.
    pub(crate) async fn wait_for_status(
        &self,
        policy: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) {
        let mut last = Value::Null;
        let waited = wait::until_true(what, DEADLINE, async || {
            last = installed::status(&self.plane, policy).await?;
            Ok(holds(&last))
        });
        if let Err(error) = waited.await {
            panic!("{error:#}; the status is {last:#}\n{}", self.details());
        }
    }

    /// Ends the pods of a namespace that are on nodes, as a kubelet would. Returns their number.
    pub(crate) async fn end_pods(&self, namespace: &str) -> usize {
        let pods: Api<Pod> = Api::namespaced(self.plane.client(), namespace);
        let all = pods.list(&ListParams::default()).await;
        let all = all.unwrap_or_else(|error| panic!("{error:#}")).items;
        let mut ended = 0;
        for pod in all.iter().filter(|pod| is_bound(pod)) {
            let status = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
            let name = pod.name_any();
            match pods.patch_status(&name, &PatchParams::default(), &status).await {
                Ok(_) => ended += 1,
                // It was deleted after the list was read.
                Err(kube::Error::Api(gone)) if gone.code == 404 => {}
                Err(error) => panic!("{error:#}"),
            }
        }
        ended
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        let nodes: Api<Node> = Api::all(self.plane.client());
        let list = nodes.list(&ListParams::default()).await;
        list.unwrap_or_else(|error| panic!("{error:#}")).items
    }

    /// Waits until there are exactly `expected` nodes, and no others are launching.
    pub(crate) async fn wait_for_nodes(&self, expected: usize) {
        let mut last = (0, 0);
        let what = format!("{expected} nodes");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let counters = self.autoscaler.counters();
            let gone = counters.removed.len() + counters.given_up.len();
            last = (self.nodes().await.len(), counters.launched().saturating_sub(gone));
            Ok(last == (expected, expected))
        });
        if let Err(error) = waited.await {
            panic!("{error:#}; nodes and requested instances: {last:?}\n{}", self.details());
        }
    }

    /// The number of nodes that the autoscaler has requested, after waiting for `scans` more scans.
    pub(crate) async fn launched_after_scans(&self, scans: u32) -> usize {
        let waited = self.autoscaler.wait_for_scans(scans).await;
        waited.unwrap_or_else(|error| panic!("{error:#}"));
        self.autoscaler.counters().launched()
    }

    /// The counters and errors of the parts and the last 40 log lines of the controller, for the
    /// message of a failing test.
    pub(crate) fn details(&self) -> String {
        let log = self.prophet.as_ref().and_then(|prophet| prophet.log().ok()).unwrap_or_default();
        // Each turn has a line of its own, so lines of a minute would hide all that happened.
        let told = |line: &&str| !line.contains("turn after a change finished");
        let lines: Vec<&str> = log.lines().filter(told).collect();
        let last = lines[lines.len().saturating_sub(40)..].join("\n");
        format!("{:?}\n{:?}\n{last}", self.autoscaler.counters(), self.joiner.errors())
    }
}

/// An amount of memory, in bytes.
fn memory(of: &BTreeMap<String, Quantity>) -> Option<i128> {
    Some(thousandths(&of.get("memory")?.0).ok()? / 1_000)
}

pub(crate) fn is_placeholder(pod: &Pod) -> bool {
    pod.labels().contains_key("prophet.dev/policy")
}

pub(crate) fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

pub(crate) fn is_gated(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.is_some_and(|gates| !gates.is_empty())
}

/// The YAML document of a job of `pods` pods, each of which needs a node of m5.xlarge.
pub(crate) fn job(name: &str, pods: usize) -> String {
    job_with(name, pods, "")
}

/// As [`job`], with `more` added to the job's spec.
pub(crate) fn job_with(name: &str, pods: usize, more: &str) -> String {
    format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}, labels: {{job: {name}}}}}, spec: {{{more} parallelism: {pods}, completions: {pods}, template: {POD}}}}}\n---\n"
    )
}

/// The template of a pod that needs a node of m5.xlarge.
pub(crate) const POD: &str = "{spec: {restartPolicy: Never, containers: [
    {name: work, image: busybox, resources: {requests: {cpu: '3', memory: 8Gi}}}]}}";
