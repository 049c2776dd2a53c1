//! Groups of nodes from a catalog in a file.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{Bucket, CapacityType, MicroDollars, Resources, UNLIMITED};
use instances::{CatalogFault, CatalogFile, GroupEntry, InstanceTypeEntry};

use super::group::{LaunchedBy, NodeGroup, OtherTypes};
use super::labels::{INSTANCE_TYPE_LABEL, capacity_type};
use super::size::KUBE_PROXY_MILLIS;
use crate::observe::Taint;

/// Builds the groups of nodes of a catalog, with the labels and taints that their nodes have in a
/// cluster.
///
/// # Errors
/// An invalid value.
pub fn file_groups(
    file: &CatalogFile,
    placement_group_label: &str,
) -> Result<Vec<NodeGroup>, CatalogFault> {
    let mut groups = Vec::new();
    for (index, entry) in file.instance_types.iter().enumerate() {
        let fault = |(field, problem)| CatalogFault::Field { index, field, problem };
        let bucket = entry.bucket(&file.prices).map_err(fault)?;
        let given = entry.groups.clone();
        let given = if given.is_empty() {
            vec![GroupEntry { name: bucket.name.clone(), ..GroupEntry::default() }]
        } else {
            given
        };
        for group in given {
            groups.push(node_group(group, entry, &bucket, placement_group_label).map_err(fault)?);
        }
    }
    Ok(groups)
}

fn node_group(
    group: GroupEntry,
    entry: &InstanceTypeEntry,
    bucket: &Bucket,
    placement_group_label: &str,
) -> Result<NodeGroup, (&'static str, String)> {
    let GroupEntry { name, placement_group, min, max, mut labels, taints } = group;
    let mut taint = |text: String| match text.rsplit_once(':') {
        Some((key, effect)) if !key.is_empty() && !effect.is_empty() => {
            let (key, value) = key.split_once('=').unwrap_or((key, ""));
            Ok(Taint { key: key.into(), value: value.into(), effect: effect.into() })
        }
        _ => Err(("groups.taints", format!("expected key=value:effect, got {text:?}"))),
    };
    let taints = taints.into_iter().map(&mut taint).collect::<Result<Vec<_>, _>>()?;
    labels.insert(INSTANCE_TYPE_LABEL.into(), entry.name.clone());
    if bucket.capacity_type == CapacityType::Spot && capacity_type(&labels).is_none() {
        labels.insert("karpenter.sh/capacity-type".into(), "spot".into());
    }
    if let Some(placement_group) = &placement_group {
        labels.entry(placement_group_label.into()).or_insert_with(|| placement_group.clone());
    }
    Ok(NodeGroup {
        size_class: None,
        other_types: OtherTypes::None,
        launched_by: LaunchedBy::Unknown,
        name,
        instance_type: entry.name.clone(),
        capacity_type: bucket.capacity_type,
        placement_group,
        zone: None,
        min,
        max: max.unwrap_or(UNLIMITED),
        desired: 0,
        instances: BTreeSet::new(),
        described: true,
        labels,
        taints,
        capacity: bucket.allocatable,
        accelerator_kind: bucket.accelerator_kind.clone(),
        choices: BTreeMap::new(),
        pool: None,
        unneeded_seconds: None,
        weight: 0,
        may_have_warm_pool: false,
        resources: quantities(bucket),
        // Karpenter's groups are its pools, so a file describes those of a cluster-autoscaler.
        estimate: Some(Resources {
            cpu_millis: entry
                .cpu_capacity()
                .map_or(UNLIMITED, |cpu| cpu.saturating_sub(KUBE_PROXY_MILLIS)),
            ..Resources::UNLIMITED
        }),
        hourly: entry.price_per_hour.and_then(MicroDollars::from_dollars),
    })
}

/// The bucket's allocatable resources as Kubernetes quantities, by name. They override the computed
/// resources, so that the kubelet's reservation is not subtracted a second time.
fn quantities(bucket: &Bucket) -> BTreeMap<String, String> {
    let Resources { devices: _, accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } =
        bucket.allocatable;
    let all = [
        (bucket.accelerator_kind.as_str(), accelerators, ""),
        ("cpu", cpu_millis, "m"),
        ("memory", memory_bytes, ""),
        ("ephemeral-storage", ephemeral_bytes, ""),
        ("pods", pods, ""),
    ];
    let limited = all.into_iter().filter(|(_, amount, _)| *amount != UNLIMITED);
    limited.map(|(name, amount, unit)| (name.into(), format!("{amount}{unit}"))).collect()
}
