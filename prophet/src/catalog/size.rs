//! The size of a group's nodes: the room that a node has for pods.
//!
//! It is the smallest allocatable of the group's live nodes that are not degraded. For a group
//! without such nodes it is the last known size, else the instance type's capacity less the
//! kubelet's reservation, or the amounts of the group's tags. DaemonSets that would run on the
//! node, and static pods, are always subtracted.

use std::collections::BTreeSet;

use embedder::{Resources, UNLIMITED};

use super::alike::Comparison;
use super::group::{NodeGroup, OtherTypes};
use super::known::{Sizes, known};
use crate::observe::{Daemon, NodeFacts, NodeSlot, Taint, less, others, resources};

/// The size of the nodes of a group with the live nodes `nodes`, on which `daemons` run. Updates
/// `sizes`. `None` if DaemonSets leave no room, or the size is unknown.
///
/// Nodes that are not ready, that lack accelerators, or that have fewer than `accelerators`, do not
/// define the size.
pub(super) fn size<'a>(
    group: &NodeGroup,
    nodes: impl Iterator<Item = (&'a NodeSlot, &'a NodeFacts)>,
    daemons: impl Iterator<Item = &'a Daemon>,
    accelerators: u64,
    sizes: &mut Sizes,
) -> Option<Resources> {
    let expected = group.capacity.accelerators > 0;
    let templates = nodes.filter(|(_, facts)| {
        facts.ready
            && (!expected || facts.accelerator_kind.is_some())
            && !facts.is_degraded(accelerators)
    });
    let seen = templates.map(|(slot, facts)| less(facts.allocatable, slot.static_used));
    let known = known(sizes, group);
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
    if let Some(estimate) = group.estimate {
        left = left.floor(estimate);
    }
    for daemon in daemons {
        left = left.take(Resources { accelerators: 0, ..daemon.requests })?;
    }
    (left.pods > 0 && (left.cpu_millis > 0 || left.accelerators > 0)).then_some(left)
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

/// The names of the resources that the nodes of a group offer beyond their size: those of its live
/// nodes, of its former nodes, and of its tags. Updates `sizes`.
pub(super) fn devices<'a>(
    group: &NodeGroup,
    nodes: impl Iterator<Item = (&'a NodeSlot, &'a NodeFacts)>,
    sizes: &mut Sizes,
) -> BTreeSet<String> {
    let live = nodes.flat_map(|(_, facts)| facts.devices.iter().cloned());
    let live: BTreeSet<String> = live.collect();
    let tagged = others(&group.resources, group.accelerator_kind.as_str());
    let known = known(sizes, group);
    known.devices.extend(live);
    tagged.chain(known.devices.iter().cloned()).collect()
}

/// Whether two sizes count as the same. Instances of one type differ by some KiB of memory. The
/// tolerated differences are smaller than the margin that a placeholder leaves free.
fn near(a: Resources, b: Resources) -> bool {
    let Resources { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } = a;
    (accelerators, pods) == (b.accelerators, b.pods)
        && cpu_millis.abs_diff(b.cpu_millis) <= 5
        && memory_bytes.abs_diff(b.memory_bytes) <= 8 * MIB
        && ephemeral_bytes.abs_diff(b.ephemeral_bytes) <= ephemeral_bytes / 1_000
}

const MIB: u64 = 1 << 20;

/// The size of the first node of a group that has no nodes: the amounts of its tags, else its
/// capacity less the kubelet's reservation.
///
/// The reservation is that of Amazon's node images (`/etc/eks/bootstrap.sh`). Memory: 255 MiB, 11
/// MiB per pod, and 100 MiB for the eviction threshold. CPU: 6 % of the first core, 1 % of the
/// second, 0.5 % of the next two, and 0.25 % of the rest.
pub(super) fn template(group: &NodeGroup) -> Resources {
    let NodeGroup { capacity, resources: tags, accelerator_kind, .. } = group;
    let pods = if capacity.pods == UNLIMITED { 110 } else { capacity.pods };
    let kept_memory = (255 + 100 + 11 * pods.min(1_000)) * MIB;
    let shares = [(1_000, 600), (1_000, 100), (2_000, 50), (UNLIMITED, 25)];
    let mut left = if capacity.cpu_millis == UNLIMITED { 0 } else { capacity.cpu_millis };
    let mut kept_cpu = 0;
    for (step, per_myriad) in shares {
        let part = left.min(step);
        kept_cpu += (part * per_myriad).div_ceil(10_000);
        left -= part;
    }
    let less =
        |have: u64, kept: u64| if have == UNLIMITED { have } else { have.saturating_sub(kept) };
    let computed = Resources {
        cpu_millis: less(capacity.cpu_millis, kept_cpu),
        memory_bytes: less(capacity.memory_bytes, kept_memory),
        ..*capacity
    };
    let tagged = resources(tags, accelerator_kind.as_str());
    let pick = |name: &str, from_tag: u64, value: u64| {
        if tags.contains_key(name) { from_tag } else { value }
    };
    Resources {
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
