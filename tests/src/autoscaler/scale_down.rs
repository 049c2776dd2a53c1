//! Removes nodes that no pod has kept for the whole unneeded time.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::AutoscalerSettings;
use super::observe::{Cluster, Group, TO_BE_DELETED, instance_of};
use super::place::{Placed, holders};

/// The time since which each node is unneeded, by node name.
pub(super) type Unneeded = BTreeMap<String, Instant>;

/// A node to remove.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) group: String,
    pub(super) node: String,
    pub(super) instance: String,
}

/// The annotation with which an operator excludes a node from removal.
const DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";

/// Updates the unneeded nodes. Their time also runs while a scale-up delays removals, as in
/// cluster-autoscaler.
pub(super) fn update(unneeded: &mut Unneeded, cluster: &Cluster, placed: &Placed, now: Instant) {
    let free = |node: &&Node| {
        let name = node.name_any();
        let disabled = node.annotations().get(DISABLED).is_some_and(|value| value == "true");
        !disabled && placed.rooms.get(&name).is_some_and(|room| !room.held)
    };
    let free: Vec<String> = cluster.nodes.iter().filter(free).map(ResourceExt::name_any).collect();
    unneeded.retain(|node, _| free.contains(node));
    for node in free {
        unneeded.entry(node).or_insert(now);
    }
}

/// The nodes to remove now. No group shrinks below its smallest size.
pub(super) fn candidates(
    unneeded: &Unneeded,
    cluster: &Cluster,
    groups: &[Group],
    last_scale_up: &BTreeMap<String, Instant>,
    settings: &AutoscalerSettings,
    now: Instant,
) -> Vec<Candidate> {
    let last_of_all = last_scale_up.values().max();
    let mut chosen = Vec::new();
    for group in groups {
        let last =
            if settings.delay_type_local { last_scale_up.get(&group.name) } else { last_of_all };
        if last.is_some_and(|last| now < *last + settings.delay_after_add) {
            continue;
        }
        let due = cluster.nodes.iter().filter_map(|node| {
            let instance = instance_of(node)?;
            let since = unneeded.get(&node.name_any())?;
            let ours = group.ready.iter().any(|ready| ready == instance);
            (ours && now >= *since + settings.unneeded_time).then(|| Candidate {
                group: group.name.clone(),
                node: node.name_any(),
                instance: instance.to_owned(),
            })
        });
        chosen.extend(due.take(group.target.saturating_sub(group.min)));
    }
    chosen
}

/// Taints a node, checks once more that no pod keeps it, and terminates its instance. Returns
/// whether the node was removed.
pub(super) async fn remove(
    client: &Client,
    autoscaling: &aws_sdk_autoscaling::Client,
    candidate: &Candidate,
    cutoff: i32,
) -> Result<bool> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node = &candidate.node;
    let before = nodes.get(node).await?.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let mut after = before.clone();
    after.push(Taint {
        key: TO_BE_DELETED.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    });
    taint(&nodes, node, &after).await?;
    let pods: Api<Pod> = Api::all(client.clone());
    let on_it = pods.list(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await?;
    if holders(&on_it.items, cutoff) > 0 {
        taint(&nodes, node, &before).await?;
        return Ok(false);
    }
    terminate(autoscaling, &candidate.instance).await?;
    let deleted = nodes.delete(node, &DeleteParams::default()).await;
    // The joiner may have deleted the node first.
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        other => Ok(other.map(|_| true)?),
    }
}

async fn taint(nodes: &Api<Node>, node: &str, taints: &[Taint]) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
    let patched = nodes.patch(node, &PatchParams::default(), &patch).await;
    patched.with_context(|| format!("failed to set the taints of {node}"))?;
    Ok(())
}

/// Terminates an instance, and lowers the desired capacity of its group by one.
pub(super) async fn terminate(
    autoscaling: &aws_sdk_autoscaling::Client,
    instance: &str,
) -> Result<()> {
    let request = autoscaling.terminate_instance_in_auto_scaling_group().instance_id(instance);
    let answer = request.should_decrement_desired_capacity(true).send().await;
    answer.with_context(|| format!("failed to terminate {instance}"))?;
    Ok(())
}
