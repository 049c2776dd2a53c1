//! Builds a group of nodes from an Auto Scaling group, its launch settings and its instance type.

use std::collections::BTreeMap;

use aws_sdk_autoscaling::types::{AutoScalingGroup, Instance};
use embedder::{CapacityType, Resources};
use instances::PodAddresses;

use super::eks::Description;
use super::found::Found;
use super::hardware::Hardware;
use super::launch::LaunchSpec;
use super::problem::{GroupFault, GroupProblem};
use super::tags::NodeTemplate;
use crate::catalog::group::{LaunchedBy, NodeGroup, OtherTypes};

/// Adds a group to `found`, with its problems; or only the problem that excludes it.
pub(super) fn add(
    found: &mut Found,
    group: &AutoScalingGroup,
    launch: Result<LaunchSpec, GroupFault>,
    managed: Option<&Result<Description, String>>,
    types: (&BTreeMap<String, Hardware>, PodAddresses),
    region: Option<&str>,
) {
    let name = group.auto_scaling_group_name().unwrap_or_default();
    let made = launch.and_then(|launch| node_group(name, group, launch, managed, types, region));
    let faults = match made {
        Ok((group, faults)) => {
            found.groups.push(group);
            faults
        }
        Err(fault) => vec![fault],
    };
    found
        .problems
        .extend(faults.into_iter().map(|fault| GroupProblem { group: name.into(), fault }));
}

fn node_group(
    name: &str,
    group: &AutoScalingGroup,
    launch: LaunchSpec,
    managed: Option<&Result<Description, String>>,
    types: (&BTreeMap<String, Hardware>, PodAddresses),
    region: Option<&str>,
) -> Result<(NodeGroup, Vec<GroupFault>), GroupFault> {
    // A group has a status only while it is being deleted.
    if group.status().is_some() {
        return Err(GroupFault::BeingDeleted);
    }
    let LaunchSpec {
        instance_type, other_types, capacity_type, placement_group, vcpus, least, ..
    } = launch;
    let mut faults = launch.faults;
    let (known, how) = types;
    let of_table =
        known.get(&instance_type).is_none().then(|| Hardware::of_table(&instance_type, how));
    let Some(hardware) = known.get(&instance_type).or(of_table.as_ref().and_then(Option::as_ref))
    else {
        return Err(GroupFault::UnknownInstanceType(instance_type));
    };
    if of_table.is_some() {
        faults.push(GroupFault::TypeFromTable(instance_type.clone()));
    }
    let (same_size, other_sizes): (Vec<String>, Vec<String>) = other_types
        .into_iter()
        .partition(|name| known.get(name).is_some_and(|other| other.is_like(hardware)));
    let other_hardware =
        |name: &&String| known.get(*name).is_some_and(|other| !other.has_like_devices(hardware));
    let other_hardware: Vec<String> = other_sizes.iter().filter(other_hardware).cloned().collect();
    if !other_hardware.is_empty() {
        return Err(GroupFault::MixedHardware(other_hardware));
    }
    faults.extend(hardware.unknown_maker.clone().map(GroupFault::UnknownAccelerator));
    let zone = only_zone(group);
    let capacities = same_size.iter().filter_map(|name| Some(known.get(name)?.capacity(vcpus)));
    let capacity = capacities.fold(hardware.capacity(vcpus), Resources::floor);
    let capacity = least.map_or(capacity, |least| least.of(capacity));
    let other_types = match (same_size.is_empty(), other_sizes.is_empty()) {
        (true, true) => OtherTypes::None,
        (false, true) => OtherTypes::SameSize(same_size.into_iter().collect()),
        (_, false) => {
            faults.push(match least {
                Some(_) => GroupFault::SelectedTypes(1 + same_size.len() + other_sizes.len()),
                None => GroupFault::MixedInstanceTypes(other_sizes.clone()),
            });
            OtherTypes::OtherSizes(same_size.into_iter().chain(other_sizes).collect())
        }
    };
    // Of several instance types, cluster-autoscaler's template has the label of the first.
    let mut labels = common_labels(hardware.architecture, region, zone.as_deref());
    labels.insert("node.kubernetes.io/instance-type".into(), instance_type.clone());
    let tags =
        group.tags().iter().filter_map(|tag| Some((tag.key()?, tag.value().unwrap_or_default())));
    let template = NodeTemplate::of(tags);
    let of_tags = !template.labels.is_empty() || !template.taints.is_empty();
    let mut taints = template.taints;
    match managed {
        Some(Ok(description)) => {
            labels.extend(description.labels.clone());
            taints.extend(description.taints.iter().cloned());
            taints.sort();
            taints.dedup();
        }
        Some(Err(error)) if !of_tags => faults.push(GroupFault::Undescribed(error.clone())),
        Some(Err(_)) | None => {}
    }
    labels.extend(template.labels);
    faults.extend(template.faults);

    let (min, desired) = (count(group.min_size()), count(group.desired_capacity()));
    let mut max = count(group.max_size());
    if group.suspended_processes().iter().any(|process| process.process_name() == Some("Launch")) {
        max = max.min(desired.max(min));
        faults.push(GroupFault::LaunchSuspended);
    }
    let group = NodeGroup {
        launched_by: LaunchedBy::ClusterAutoscaler,
        name: name.into(),
        instance_type,
        size_class: None,
        other_types,
        capacity_type,
        placement_group: group.placement_group().map(Into::into).or(placement_group),
        zone,
        min,
        max,
        desired,
        instances: group
            .instances()
            .iter()
            .filter(|instance| !is_warmed(instance))
            .filter_map(|instance| instance.instance_id().map(Into::into))
            .collect(),
        described: of_tags || matches!(managed, Some(Ok(_))),
        labels,
        taints,
        capacity,
        accelerator_kind: hardware.accelerator_kind.clone(),
        choices: BTreeMap::new(),
        pool: None,
        resources: template.resources,
        estimate: None,
        hourly: None,
        unneeded_seconds: template.unneeded_seconds,
        weight: 0,
        // AWS stops no spot instances, and the pool of a managed node group is a setting of EKS.
        may_have_warm_pool: capacity_type == CapacityType::OnDemand && managed.is_none(),
    };
    Ok((group, faults))
}

/// The zone of a group that has only one.
fn only_zone(group: &AutoScalingGroup) -> Option<String> {
    match group.availability_zones() {
        [zone] => Some(zone.clone()),
        _ => None,
    }
}

/// Whether an instance is in the warm pool of its group, and so is no node.
fn is_warmed(instance: &Instance) -> bool {
    instance.lifecycle_state().is_some_and(|state| state.as_str().starts_with("Warmed:"))
}

/// The labels of every node, except its instance type. A tag can override them, for example the
/// operating system of Windows nodes.
fn common_labels(
    architecture: Option<&str>,
    region: Option<&str>,
    zone: Option<&str>,
) -> BTreeMap<String, String> {
    let labels = [
        ("kubernetes.io/os", Some("linux")),
        ("kubernetes.io/arch", architecture),
        ("topology.kubernetes.io/region", region),
        ("topology.kubernetes.io/zone", zone),
    ];
    let labels =
        labels.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?.to_string())));
    labels.collect()
}

fn count(number: Option<i32>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}
