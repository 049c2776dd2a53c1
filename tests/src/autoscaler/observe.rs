//! The inputs of a scan: nodes, pods and `DaemonSets` of the API server, and the Auto Scaling
//! groups.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use aws_sdk_autoscaling::types::{AutoScalingGroup, Filter, LifecycleState};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::fit::{Ask, Room, requests};
use crate::node_group::{CLUSTER_TAG, ENABLED_TAG};
use crate::node_template;
use crate::quantity::{amounts, thousandths};

/// The taint of a node that is about to be removed, so that no further pod is bound to it.
pub(super) const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// The label of GPU nodes on AWS. A node with this label is not ready until its GPUs are
/// registered.
const ACCELERATOR_LABEL: &str = "k8s.amazonaws.com/accelerator";

/// The objects of the cluster at one time.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    /// The pods that have not ended.
    pub(super) pods: Vec<Pod>,
    pub(super) daemon_sets: Vec<DaemonSet>,
}

impl Cluster {
    pub(super) async fn observe(client: &Client) -> Result<Self> {
        let all = ListParams::default();
        let unfinished =
            ListParams::default().fields("status.phase!=Succeeded,status.phase!=Failed");
        let (nodes, pods, sets): (Api<Node>, Api<Pod>, Api<DaemonSet>) =
            (Api::all(client.clone()), Api::all(client.clone()), Api::all(client.clone()));
        // Pods are listed before nodes, so that the list of nodes has the node of every bound pod.
        let pods = pods.list(&unfinished).await.context("failed to list pods")?.items;
        let nodes = nodes.list(&all).await.context("failed to list nodes")?.items;
        let daemon_sets = sets.list(&all).await.context("failed to list DaemonSets")?.items;
        Ok(Self { nodes, pods, daemon_sets })
    }
}

/// A group, with its instances by state.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) min: usize,
    pub(super) max: usize,
    /// The desired capacity.
    pub(super) target: usize,
    /// A future node, with the requests of its own pods taken.
    pub(super) template: Room,
    /// The number of instances that have a node, ready or not.
    pub(super) registered: usize,
    /// Instances whose node is ready.
    pub(super) ready: Vec<String>,
    /// Instances without a node.
    pub(super) unregistered: Vec<String>,
    /// Instances whose node was ready before and is not ready now.
    pub(super) unready: Vec<String>,
}

impl Group {
    /// The number of requested nodes that have never been ready.
    pub(super) fn upcoming(&self) -> usize {
        self.target.saturating_sub(self.ready.len() + self.unready.len())
    }
}

/// The CPU of the pod of kube-proxy that cluster-autoscaler adds to a template, in thousandths of a
/// core.
const KUBE_PROXY_MILLIS: i128 = 100;

/// How long a node must be ready before it is the template of its group.
const STABLE_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Reads the groups. The instance type of each group is read once and cached.
pub(super) struct Groups {
    pub(super) autoscaling: aws_sdk_autoscaling::Client,
    pub(super) ec2: aws_sdk_ec2::Client,
    /// Instance types by group.
    pub(super) types: BTreeMap<String, String>,
    /// Instances whose node has been ready.
    pub(super) seen_ready: BTreeSet<String>,
    /// By group, a future node like the last one that was a template.
    pub(super) templates: BTreeMap<String, Room>,
}

impl Groups {
    pub(super) async fn observe(&mut self, cluster: &Cluster) -> Result<Vec<Group>> {
        let tag = |key: &str| Filter::builder().name("tag-key").values(key).build();
        let request = self.autoscaling.describe_auto_scaling_groups();
        let request = request.filters(tag(ENABLED_TAG)).filters(tag(CLUSTER_TAG));
        let pages = request.into_paginator().items().send();
        let described: Vec<AutoScalingGroup> = pages
            .collect::<Result<_, _>>()
            .await
            .context("failed to describe Auto Scaling groups")?;
        let mut groups = Vec::new();
        for group in &described {
            groups.push(self.group(group, cluster).await?);
        }
        groups.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(groups)
    }

    async fn group(&mut self, group: &AutoScalingGroup, cluster: &Cluster) -> Result<Group> {
        let name = group.auto_scaling_group_name().context("a group has no name")?.to_owned();
        let count = |size: Option<i32>| {
            size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default()
        };
        let template = self.template(&name, group, cluster).await?;
        let (mut registered, mut ready) = (0, Vec::new());
        let (mut unregistered, mut unready) = (Vec::new(), Vec::new());
        for instance in group.instances() {
            let id = instance.instance_id().unwrap_or_default().to_owned();
            if instance.lifecycle_state() != Some(&LifecycleState::InService) {
                continue;
            }
            let node = cluster.nodes.iter().find(|node| instance_of(node) == Some(&id));
            registered += usize::from(node.is_some());
            match node {
                None => unregistered.push(id),
                Some(node) if is_ready(node) => {
                    self.seen_ready.insert(id.clone());
                    ready.push(id);
                }
                Some(_) if self.seen_ready.contains(&id) => unready.push(id),
                Some(_) => {}
            }
        }
        let (min, max) = (count(group.min_size()), count(group.max_size()));
        let target = count(group.desired_capacity());
        Ok(Group { name, min, max, target, template, registered, ready, unregistered, unready })
    }

    /// A future node of a group: like a present node, else like the last present one, else as the
    /// group describes it.
    async fn template(
        &mut self,
        name: &str,
        group: &AutoScalingGroup,
        cluster: &Cluster,
    ) -> Result<Room> {
        let ids: BTreeSet<&str> =
            group.instances().iter().filter_map(|instance| instance.instance_id()).collect();
        let is_own = |node: &&Node| instance_of(node).is_some_and(|id| ids.contains(id));
        let mut own = cluster.nodes.iter().filter(is_own);
        let present = own.find(|node| is_stable(node)).map(|node| like(node, name, cluster));
        if let Some(room) = present.transpose()?.flatten() {
            self.templates.insert(name.to_owned(), room);
        }
        if let Some(room) = self.templates.get(name) {
            return Ok(room.clone());
        }
        let node = format!("template-of-{name}");
        let template = node_template::of(group, &self.instance_type(name, group).await?, &node)?;
        let (labels, taints) = (template.labels, template.taints);
        // The free room is the capacity, without the kubelet's reservations, less a pod of
        // kube-proxy, whether or not the cluster runs one.
        let mut free = amounts(Some(&template.capacity))?;
        *free.entry("cpu".to_owned()).or_default() -= KUBE_PROXY_MILLIS;
        *free.entry("pods".to_owned()).or_default() -= 1_000;
        let mut template = Room { node, labels, taints, free, held: false };
        force_daemon_sets(&mut template, &cluster.daemon_sets)?;
        Ok(template)
    }

    /// The instance type of a group: the first override of a mixed instances policy, else that of
    /// the launch template.
    async fn instance_type(&mut self, name: &str, group: &AutoScalingGroup) -> Result<String> {
        if let Some(known) = self.types.get(name) {
            return Ok(known.clone());
        }
        let mixed = group.mixed_instances_policy().and_then(|policy| policy.launch_template());
        let first = mixed.and_then(|template| template.overrides().first());
        let found = if let Some(instance_type) = first.and_then(|first| first.instance_type()) {
            instance_type.to_owned()
        } else {
            let specified = mixed.and_then(|template| template.launch_template_specification());
            let template = specified
                .or(group.launch_template())
                .context("the group has no launch template")?;
            let request = self.ec2.describe_launch_template_versions().versions("$Latest");
            let request =
                request.set_launch_template_id(template.launch_template_id().map(str::to_owned));
            let answer = request.send().await.context("failed to describe a launch template")?;
            let version = answer.launch_template_versions().first().context("no version")?;
            let data = version.launch_template_data().context("the launch template is empty")?;
            data.instance_type()
                .context("the launch template has no instance type")?
                .as_str()
                .to_owned()
        };
        self.types.insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

/// A future node like a present one: the same, without other pods than its own.
fn like(node: &Node, group: &str, cluster: &Cluster) -> Result<Option<Room>> {
    let Some(mut room) = room(node)? else { return Ok(None) };
    let name = node.name_any();
    let on_it = |pod: &&Pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name.as_str())
    };
    for pod in cluster.pods.iter().filter(on_it).filter(|pod| is_of_node(pod)) {
        if let Some(spec) = &pod.spec {
            room.take(&requests(spec)?);
        }
    }
    room.node = format!("template-of-{group}");
    room.labels.insert("kubernetes.io/hostname".to_owned(), room.node.clone());
    Ok(Some(room))
}

/// Whether a node has been ready for long enough to be a template.
fn is_stable(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|one| one.type_ == "Ready" && one.status == "True");
    let since = ready.find_map(|one| one.last_transition_time.as_ref());
    since.is_some_and(|since| Timestamp::now().duration_since(since.0) >= STABLE_AFTER)
}

/// Takes the requests of all `DaemonSets` that would run on the node.
fn force_daemon_sets(template: &mut Room, sets: &[DaemonSet]) -> Result<()> {
    for set in sets {
        let Some(spec) = set.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()) else {
            continue;
        };
        if template.admits(spec) {
            template.take(&requests(spec)?);
        }
    }
    Ok(())
}

/// The ID of a node's instance.
pub(super) fn instance_of(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()?.rsplit('/').next()
}

/// Whether a node is ready for pods: its GPUs are registered, and it is not about to be removed.
pub(super) fn is_ready(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tainted = |key: &str| taints.clone().any(|taint| taint.key == key);
    let status = node.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
    let ready =
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let gpus = status.and_then(|status| status.allocatable.as_ref()?.get(crate::instances::GPU));
    let has_gpus = gpus.is_some_and(|gpus| thousandths(&gpus.0).is_ok_and(|gpus| gpus > 0));
    let whole = has_gpus || !node.labels().contains_key(ACCELERATOR_LABEL);
    ready && whole && !tainted("node.kubernetes.io/not-ready") && !tainted(TO_BE_DELETED)
}

/// A present node without any pods; `None` if it is cordoned or not ready.
pub(super) fn room(node: &Node) -> Result<Option<Room>> {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default();
    if cordoned || !is_ready(node) {
        return Ok(None);
    }
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let free = amounts(node.status.as_ref().and_then(|status| status.allocatable.as_ref()))?;
    Ok(Some(Room {
        node: node.name_any(),
        labels: node.labels().clone(),
        taints,
        free,
        held: false,
    }))
}

/// The placement input of a pod.
pub(super) fn ask(pod: &Pod) -> Result<Ask> {
    let spec = pod.spec.clone().context("the pod has no spec")?;
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    Ask::new(name, spec.priority.unwrap_or_default(), spec)
}

/// Whether a pod belongs to its node: a pod of a `DaemonSet`, or a mirror pod.
pub(super) fn is_of_node(pod: &Pod) -> bool {
    pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet")
        || pod.annotations().contains_key("kubernetes.io/config.mirror")
}

/// Whether the scheduler tried to place the pod and failed. The scheduler does not try gated pods.
pub(super) fn is_unschedulable(pod: &Pod) -> bool {
    let gated = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unschedulable = conditions.any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    unschedulable && gated.is_none_or(Vec::is_empty) && pod.metadata.deletion_timestamp.is_none()
}
