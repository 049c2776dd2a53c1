//! The size of a group's nodes: the room that a node has for pods.
//!
//! It is the smallest allocatable of the group's live nodes that are not degraded. For a group
//! without such nodes it is the last known size, else the instance type's capacity less the
//! kubelet's reservation, or the amounts of the group's tags. It is never more than what the
//! autoscaler of the group assumes for a node, because the autoscaler launches no node for a pod
//! that is larger. DaemonSets that would run on the node, and static pods, are always subtracted.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{Resources, UNLIMITED};
use instances::for_pods;

use super::alike::Comparison;
use super::group::{LaunchedBy, NodeGroup, OtherTypes};
use super::known::{Sizes, known};
use crate::observe::{Daemon, NodeFacts, NodeSlot, Taint, amounts, resources};

/// The size of the nodes of a group with the live nodes `nodes`, on which `daemons` run. Updates
/// `sizes`. `None` if DaemonSets leave no room, or the size is unknown.
///
/// A DaemonSet whose pod does not fit on an empty node runs on none, so it takes no room. Its name
/// is added to `too_large`.
///
/// Nodes that are not ready, that lack accelerators, or that have fewer than `accelerators`, do not
/// define the size.
pub(super) fn size<'a>(
    group: &NodeGroup,
    nodes: impl Iterator<Item = (&'a NodeSlot, &'a NodeFacts)>,
    daemons: impl Iterator<Item = &'a Daemon>,
    accelerators: u64,
    sizes: &mut Sizes,
    too_large: &mut BTreeSet<String>,
) -> Option<Resources> {
    let expected = expects_accelerators(group);
    let templates = nodes.filter(|(_, facts)| {
        facts.ready
            && (!expected
                || facts.accelerator_kind.is_some()
                || substitutes(group, &facts.devices).next().is_some())
            && !facts.is_degraded(accelerators)
    });
    let seen = templates.map(|(slot, facts)| facts.allocatable.less(slot.static_used));
    let known = known(sizes, group);
    let none = |size: Resources| size.accelerators == 0;
    if expected
        && known.size.is_some_and(none)
        && substitutes(group, &known.devices).next().is_none()
    {
        // It is that of a node whose device plugin had not started, from a former version.
        known.size = None;
    }
    let size = match (seen.reduce(Resources::floor), known.size) {
        (Some(seen), Some(known)) if near(seen, known) => Some(known),
        // The size must not follow the mixture of the group's instance types at the moment.
        (Some(seen), Some(known)) if group.other_types != OtherTypes::None => {
            Some(seen.floor(known))
        }
        (Some(seen), _) => Some(seen),
        (None, known) => known,
    };
    known.size = size;
    let mut left = size.unwrap_or_else(|| template(group));
    if matches!(group.other_types, OtherTypes::OtherSizes(_)) {
        // A node of the first type may come after larger ones.
        left = left.floor(template(group));
    }
    if let Some(estimate) = group.estimate {
        left = left.floor(estimate);
    }
    if group.launched_by == LaunchedBy::ClusterAutoscaler {
        left = left.floor(assumed_by_cluster_autoscaler(group));
    }
    let empty = left;
    for daemon in daemons {
        let requests = Resources { accelerators: 0, ..daemon.requests };
        if empty.take(requests).is_none() {
            too_large.insert(daemon.name.clone());
            continue;
        }
        left = left.take(requests)?;
    }
    (left.pods > 0 && (left.cpu_millis > 0 || left.accelerators > 0)).then_some(left)
}

/// Whether a new node of a group has accelerators once its device plugin has registered them, by
/// its instance type or its tags. A tag of 0 promises none under this name: the device plugin may
/// offer slices in their place.
fn expects_accelerators(group: &NodeGroup) -> bool {
    group.capacity.accelerators > 0 || template(group).accelerators > 0
}

/// The most nodes of a group that are examined for DaemonSets in a turn: twenty, because nodes of a
/// group are alike and turns are frequent.
const EXAMINED_MAX: usize = 20;

/// The most DaemonSets that are remembered of a group.
const DAEMONS_MAX: usize = 100;

/// Notes the DaemonSets of `others` that run on one of the live nodes of a group. They are those
/// that the known labels and taints of the group do not admit. Updates `sizes`; returns their
/// names, also of those that ran on a former node.
pub(super) fn observed_daemons<'a>(
    group: &NodeGroup,
    nodes: impl Iterator<Item = &'a NodeFacts>,
    others: &[&Daemon],
    comparison: &Comparison<'_>,
    sizes: &mut Sizes,
) -> BTreeSet<String> {
    let known = known(sizes, group);
    // A DaemonSet that was deleted takes no room from others.
    known.daemons.retain(|name| others.iter().any(|daemon| daemon.name == *name));
    for facts in nodes.filter(|facts| facts.ready && !facts.leaving).take(EXAMINED_MAX) {
        let new = others.iter().filter(|daemon| !known.daemons.contains(&daemon.name));
        let new: Vec<&Daemon> = new.copied().collect();
        if new.is_empty() {
            break;
        }
        let lasting = |taint: &&Taint| comparison.keeps_off(taint);
        let taints: Vec<Taint> = facts.taints.iter().filter(lasting).cloned().collect();
        let runs = |daemon: &&Daemon| daemon.constraints.admit(&facts.labels, &taints);
        let running = new.into_iter().filter(runs).map(|daemon| daemon.name.clone());
        let room = DAEMONS_MAX.saturating_sub(known.daemons.len());
        let running: Vec<String> = running.take(room).collect();
        known.daemons.extend(running);
    }
    known.daemons.clone()
}

/// The devices that the nodes of a group offer beyond their size, with their amounts: those of its
/// live nodes, of its former nodes, and of its tags. Updates `sizes`.
///
/// Of live nodes that have different amounts, the largest counts, because a device may be unhealthy
/// for a while. A device that no live node has any more is forgotten once one of them has another
/// of the same vendor, because the devices were divided anew.
pub(super) fn devices<'a>(
    group: &NodeGroup,
    nodes: impl Iterator<Item = (&'a NodeSlot, &'a NodeFacts)>,
    sizes: &mut Sizes,
) -> BTreeMap<String, u64> {
    let mut live: BTreeMap<String, u64> = BTreeMap::new();
    let nodes = nodes.filter(|(_, facts)| facts.ready && !facts.leaving);
    for (name, amount) in nodes.flat_map(|(_, facts)| &facts.devices) {
        let most = live.entry(name.clone()).or_default();
        *most = (*amount).max(*most);
    }
    let tagged = amounts(&group.resources, group.accelerator_kind.as_str());
    let known = known(sizes, group);
    let vendors: BTreeSet<String> =
        live.keys().filter_map(|name| Some(name.split_once('/')?.0.to_owned())).collect();
    known
        .devices
        .retain(|name, _| name.split_once('/').is_none_or(|(vendor, _)| !vendors.contains(vendor)));
    known.devices.extend(live);
    tagged.chain(known.devices.clone()).collect()
}

/// The devices of a node in place of the accelerators of its instance type: those of the same
/// vendor, such as slices (`nvidia.com/mig-3g.20gb`) or shared GPUs (`nvidia.com/gpu.shared`). The
/// device plugin offers them under another name, so it has started.
pub(super) fn substitutes<'a>(
    group: &'a NodeGroup,
    devices: &'a BTreeMap<String, u64>,
) -> impl Iterator<Item = (&'a String, &'a u64)> {
    let vendor = group.accelerator_kind.as_str().split_once('/').map_or("", |(vendor, _)| vendor);
    let expected = expects_accelerators(group);
    devices.iter().filter(move |(name, _)| {
        expected && name.split_once('/').is_some_and(|(of, _)| of == vendor)
    })
}

/// The devices that a placeholder of a group requests: of those that its nodes have offered, those
/// in place of accelerators, and those that the autoscaler expects on a new node. `accelerators` is
/// the number of the bucket's accelerators.
///
/// Other devices are not requested, because an autoscaler launches no node for a pod that requests
/// a device that it does not expect on the node, and a node on which such a device never registers
/// has no room for the placeholder.
pub(super) fn requested_devices(
    group: &NodeGroup,
    sizes: &mut Sizes,
    accelerators: u64,
) -> BTreeMap<String, u64> {
    let offered = &known(sizes, group).devices;
    let in_place: BTreeSet<&String> = match accelerators {
        0 => substitutes(group, offered).map(|(name, _)| name).collect(),
        _ => BTreeSet::new(),
    };
    let requested = offered
        .iter()
        .filter(|(name, _)| in_place.contains(name) || group.resources.contains_key(*name));
    requested.map(|(name, amount)| (name.clone(), *amount)).collect()
}

/// Whether two sizes count as the same. Instances of one type differ by some KiB of memory. The
/// tolerated differences are smaller than the margin that a placeholder leaves free.
fn near(a: Resources, b: Resources) -> bool {
    let Resources { devices: _, accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } = a;
    (accelerators, pods) == (b.accelerators, b.pods)
        && cpu_millis.abs_diff(b.cpu_millis) <= 5
        && memory_bytes.abs_diff(b.memory_bytes) <= 8 * MIB
        && ephemeral_bytes.abs_diff(b.ephemeral_bytes) <= ephemeral_bytes / 1_000
}

const MIB: u64 = 1 << 20;

/// CPU that cluster-autoscaler subtracts from the capacity of an instance type for a pod of
/// kube-proxy, in thousandths of a core, whether or not the cluster runs kube-proxy.
pub(super) const KUBE_PROXY_MILLIS: u64 = 100;

/// What cluster-autoscaler assumes that a node of a group without nodes has for DaemonSets and
/// other pods, on AWS: the capacity of the instance type, or the amounts of the group's
/// `node-template/resources` tags, less 100m of CPU for a pod of kube-proxy. It subtracts no
/// reservation of the kubelet, because it sets allocatable to the capacity (cluster-autoscaler
/// 1.36.1: `buildNodeFromTemplate` and `TemplateNodeInfo` of its AWS provider, and `BuildKubeProxy`
/// of `cloudprovider`).
///
/// For a type with up to four vCPUs this is less than what a real node has: of m5.xlarge 3,900m,
/// and a node has 3,920m. It counts for groups with nodes, too. cluster-autoscaler then describes a
/// new node by one of them, but a placeholder whose size changed with the first node would be
/// replaced as soon as it has a node.
///
/// The number of pods is not limited: a placeholder is one pod, and nodes admit their own number.
fn assumed_by_cluster_autoscaler(group: &NodeGroup) -> Resources {
    let NodeGroup { capacity, resources: tags, accelerator_kind, .. } = group;
    let tagged = resources(tags, accelerator_kind.as_str());
    let pick = |name: &str, from_tag: u64, value: u64| {
        if tags.contains_key(name) { from_tag } else { value }
    };
    let cpu_millis = pick("cpu", tagged.cpu_millis, capacity.cpu_millis);
    Resources {
        devices: embedder::Devices::NONE,
        accelerators: pick(accelerator_kind.as_str(), tagged.accelerators, capacity.accelerators),
        cpu_millis: if cpu_millis == UNLIMITED {
            cpu_millis
        } else {
            cpu_millis.saturating_sub(KUBE_PROXY_MILLIS)
        },
        memory_bytes: pick("memory", tagged.memory_bytes, capacity.memory_bytes),
        ephemeral_bytes: pick(
            "ephemeral-storage",
            tagged.ephemeral_bytes,
            capacity.ephemeral_bytes,
        ),
        pods: UNLIMITED,
    }
}

/// The size of the first node of a group that has no nodes: the amounts of its tags, else its
/// capacity less the kubelet's reservation.
///
/// [`for_pods`] subtracts that reservation. Of the memory that AWS publishes, the hypervisor and
/// the kernel keep a share in addition. Karpenter's estimates have no such share any more.
pub(super) fn template(group: &NodeGroup) -> Resources {
    let NodeGroup { capacity, resources: tags, accelerator_kind, .. } = group;
    let usable = match group.launched_by {
        LaunchedBy::ClusterAutoscaler => instances::usable_memory(capacity.memory_bytes),
        _ => capacity.memory_bytes,
    };
    let computed = for_pods(Resources { memory_bytes: usable, ..*capacity });
    let tagged = resources(tags, accelerator_kind.as_str());
    let pick = |name: &str, from_tag: u64, value: u64| {
        if tags.contains_key(name) { from_tag } else { value }
    };
    Resources {
        devices: embedder::Devices::NONE,
        accelerators: pick(accelerator_kind.as_str(), tagged.accelerators, computed.accelerators),
        cpu_millis: pick("cpu", tagged.cpu_millis, computed.cpu_millis),
        memory_bytes: pick("memory", tagged.memory_bytes, computed.memory_bytes),
        ephemeral_bytes: pick(
            "ephemeral-storage",
            tagged.ephemeral_bytes,
            computed.ephemeral_bytes,
        ),
        pods: pick("pods", tagged.pods, computed.pods),
    }
}

#[cfg(test)]
mod tests {
    use instances::{instance_type, instance_types};

    use super::*;
    use crate::catalog::Known;

    fn group(name: &str, launched_by: LaunchedBy, tags: &[(&str, &str)]) -> NodeGroup {
        let capacity = instance_type(name).unwrap().capacity();
        NodeGroup {
            launched_by,
            resources: tags.iter().map(|&(name, text)| (name.into(), text.into())).collect(),
            ..NodeGroup::of_type(name, name, capacity)
        }
    }

    fn of_kube_proxy(cpu_millis: u64) -> Daemon {
        let pod = serde_json::from_str("{}").unwrap();
        Daemon {
            name: "kube-system/kube-proxy".into(),
            constraints: crate::observe::Constraints::of_daemon(&pod),
            requests: Resources { cpu_millis, pods: 1, ..Resources::default() },
        }
    }

    fn size_of(group: &NodeGroup, daemons: &[Daemon], sizes: &mut Sizes) -> Resources {
        size(group, std::iter::empty(), daemons.iter(), 0, sizes, &mut BTreeSet::new()).unwrap()
    }

    /// For every type of the table, the room for a placeholder of a group without nodes is what
    /// cluster-autoscaler 1.36.1 finds free on its template, the capacity less 100m for its own
    /// pod of kube-proxy, or what a node has, whichever is less, and less the DaemonSets.
    #[test]
    fn cluster_autoscaler_launches_a_node_for_the_placeholder_of_every_type() {
        for known in instance_types() {
            let name = known.name;
            let group = group(name, LaunchedBy::ClusterAutoscaler, &[]);
            for daemons in [vec![], vec![of_kube_proxy(100)]] {
                let found = size_of(&group, &daemons, &mut Sizes::new());
                let taken: u64 = daemons.iter().map(|daemon| daemon.requests.cpu_millis).sum();
                // A tenth of a thousandth of a core, for each core.
                let reserved = (0..group.capacity.cpu_millis / 1_000).map(|core| match core {
                    0 => 600,
                    1 => 100,
                    2 | 3 => 50,
                    _ => 25,
                });
                let reserved = reserved.sum::<u64>().div_ceil(10);
                let free = group.capacity.cpu_millis - reserved.max(100) - taken;
                assert_eq!(found.cpu_millis, free, "{name}");
                assert!(found.memory_bytes <= group.capacity.memory_bytes, "{name}");
                assert_eq!(found.accelerators, group.capacity.accelerators, "{name}");
            }
        }
    }

    /// Checks the CPU of a group of m5.xlarge with these tags, and whose last node had this much.
    #[track_caller]
    fn check(tags: &[(&str, &str)], known: Option<u64>, expected: u64) {
        let group = group("m5.xlarge", LaunchedBy::ClusterAutoscaler, tags);
        let size = known.map(|cpu_millis| Resources { cpu_millis, ..Resources::UNLIMITED });
        let known = Known { instance_type: "m5.xlarge".into(), size, ..Known::default() };
        let mut sizes = Sizes::from([("m5.xlarge".to_owned(), known)]);
        assert_eq!(size_of(&group, &[], &mut sizes).cpu_millis, expected);
    }

    #[test]
    fn the_smaller_of_the_assumed_and_the_real_node_counts() {
        check(&[], None, 3_900);
        // A node, or the autoscaler after a restart while the group has none.
        check(&[], Some(3_920), 3_900);
        check(&[], Some(3_500), 3_500);
        check(&[("cpu", "3")], None, 2_900);
        check(&[("cpu", "3")], Some(3_920), 2_900);
        let other = group("m5.xlarge", LaunchedBy::Unknown, &[]);
        assert_eq!(size_of(&other, &[], &mut Sizes::new()).cpu_millis, 3_920);
    }
}
