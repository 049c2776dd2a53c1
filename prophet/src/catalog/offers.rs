//! The buckets on offer in a cluster, built from groups of nodes of any source and sized by live
//! nodes.
//!
//! A node's size is the room that it has for pods: the smallest allocatable of the group's ready
//! nodes whose accelerators are registered. For a group without nodes it is the instance type's
//! capacity less the kubelet's reservation, or the amounts of the group's tags. DaemonSets that
//! would run on the node, and static pods, are always subtracted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use embedder::{
    AcceleratorKind, Bucket, CapacityType, Catalog, CatalogError, Group, MicroDollars, Resources,
    UNLIMITED,
};

use super::group::NodeGroup;
use super::labels::{CAPACITY_LABELS, INSTANCE_TYPE_LABEL, capacity_type};
use super::price::hourly;
use crate::observe::Taint;
use crate::observe::{Daemon, NodeFacts, NodeSlot, Nodes, resources};

/// A catalog, with the Kubernetes properties of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    /// The buckets.
    pub catalog: Catalog,
    /// The groups, by bucket and then by group, in the catalog's order.
    pub groups: Vec<Vec<Offer>>,
    /// Problems of groups, one message each.
    pub problems: Vec<String>,
}

/// The Kubernetes properties of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The instance type.
    pub instance_type: String,
    /// The names of the source's groups that are merged into this one, because no label
    /// distinguishes them.
    pub members: Vec<String>,
    /// The labels of a new node.
    pub labels: BTreeMap<String, String>,
    /// The taints of a new node.
    pub taints: Vec<Taint>,
    /// The labels that a placeholder selects, so that it can only run on a node of this group.
    pub pins: BTreeMap<String, String>,
}

impl Offer {
    /// Whether a node belongs to this group.
    pub fn owns(&self, node: &NodeFacts) -> bool {
        self.pins.iter().all(|(key, value)| node.labels.get(key) == Some(value))
    }
}

impl Offers {
    /// Removes the named buckets. Returns `None` if none is left.
    pub fn without(self, names: &BTreeSet<String>) -> Option<Self> {
        let Self { catalog, groups, problems } = self;
        let pairs = catalog.buckets().iter().cloned().zip(groups);
        let (buckets, groups): (Vec<Bucket>, Vec<_>) =
            pairs.filter(|(bucket, _)| !names.contains(&bucket.name)).unzip();
        // Removing buckets from a sorted catalog leaves it sorted.
        Some(Self { catalog: Catalog::new(buckets).ok()?, groups, problems })
    }
}

/// The last known size of each group's nodes before DaemonSets, by the group's name.
///
/// A group that has no nodes left, or whose nodes differ by a few bytes, keeps its size, because a
/// new size changes the placeholders' template and replaces all placeholders.
pub type Sizes = BTreeMap<String, Resources>;

/// Builds the buckets of `groups`, sized by `nodes`. Updates `sizes`.
///
/// # Errors
/// No group is left to build a bucket from.
pub fn offers(
    groups: &[NodeGroup],
    nodes: &Nodes,
    daemons: &[Daemon],
    placement_group_label: &str,
    sizes: &mut Sizes,
) -> Result<Offers, CatalogError> {
    let mut problems = Vec::new();
    let mut buckets: BTreeMap<(String, CapacityType, AcceleratorKind), Vec<Merged>> =
        BTreeMap::new();
    for group in groups {
        let capacity = labelled_capacity_type(group, &mut problems);
        if let (Some(placement_group), None) =
            (&group.placement_group, group.labels.get(placement_group_label))
        {
            problems.push(format!(
                "group {}: its node-template tags lack the label {placement_group_label}, so placeholders cannot be put into placement group {placement_group}",
                group.name
            ));
        }
        if !group.labels.contains_key(INSTANCE_TYPE_LABEL) {
            problems.push(format!(
                "group {}: left out, because its instances are of several types, so its placeholders would have no single size",
                group.name
            ));
            continue;
        }
        let key = (group.instance_type.clone(), capacity, group.accelerator_kind.clone());
        merge(buckets.entry(key).or_default(), group, &mut problems);
    }
    let live = by_type(nodes);
    let mut offers: BTreeMap<String, Vec<Offer>> = BTreeMap::new();
    let mut made = Vec::new();
    for ((instance_type, capacity_type, accelerator_kind), merged) in buckets {
        let suffix = if capacity_type == CapacityType::Spot { "/spot" } else { "" };
        let name = format!("{instance_type}{suffix}");
        let offered: Vec<Offer> =
            merged.iter().map(|one| offer(one, &merged, placement_group_label)).collect();
        let Some(allocatable) = sized(&merged, &offered, &live, daemons, sizes) else {
            problems.push(format!(
                "{name}: DaemonSets leave no room on its nodes, or their size is unknown"
            ));
            continue;
        };
        made.push(Bucket {
            hourly: price(&merged, capacity_type, allocatable),
            groups: merged.iter().map(Merged::group).collect(),
            name: name.clone(),
            capacity_type,
            accelerator_kind,
            allocatable,
        });
        offers.insert(name, offered);
    }
    let catalog = Catalog::new(made)?;
    let groups = catalog
        .buckets()
        .iter()
        .map(|bucket| offers.remove(&bucket.name).unwrap_or_default())
        .collect();
    Ok(Offers { catalog, groups, problems })
}

/// Groups of a source that no label distinguishes.
struct Merged {
    first: NodeGroup,
    members: Vec<String>,
    min: u64,
    max: u64,
    price: Option<MicroDollars>,
}

impl Merged {
    fn group(&self) -> Group {
        let Self { first, members: _, min, max, price: _ } = self;
        Group {
            name: first.name.clone(),
            placement_group: first.placement_group.clone(),
            min: *min,
            max: *max,
        }
    }
}

fn merge(merged: &mut Vec<Merged>, group: &NodeGroup, problems: &mut Vec<String>) {
    let alike = |known: &&mut Merged| {
        known.first.labels == group.labels && known.first.taints == group.taints
    };
    if let Some(known) = merged.iter_mut().find(alike) {
        problems.push(format!(
            "groups {} and {}: no label distinguishes them, so they count as one",
            known.first.name, group.name
        ));
        known.members.push(group.name.clone());
        known.min = known.min.saturating_add(group.min);
        known.max = known.max.saturating_add(group.max);
        return;
    }
    let members = vec![group.name.clone()];
    merged.push(Merged {
        first: group.clone(),
        members,
        min: group.min,
        max: group.max,
        price: group.hourly,
    });
}

/// The capacity type of a group's labels. Without such a label a group counts as on demand, because
/// pods can select spot nodes only by a label.
fn labelled_capacity_type(group: &NodeGroup, problems: &mut Vec<String>) -> CapacityType {
    let labelled = capacity_type(&group.labels);
    if labelled.is_none() && group.capacity_type == CapacityType::Spot {
        problems.push(format!(
            "group {}: it launches spot instances, but no node-template tag sets the label {}, so it counts as on demand",
            group.name, CAPACITY_LABELS[1].0
        ));
    }
    labelled.unwrap_or(CapacityType::OnDemand)
}

/// Live nodes by instance type.
type Live<'a> = HashMap<&'a str, Vec<(&'a NodeSlot, &'a NodeFacts)>>;

fn by_type(nodes: &Nodes) -> Live<'_> {
    let mut live: Live<'_> = HashMap::new();
    for (_, slot, facts) in nodes.iter() {
        let Some(instance_type) = facts.labels.get(INSTANCE_TYPE_LABEL) else { continue };
        live.entry(instance_type).or_default().push((slot, facts));
    }
    live
}

/// The size of a bucket's nodes: the componentwise minimum over its groups. `None` if DaemonSets
/// leave no room, or the size is unknown.
fn sized(
    merged: &[Merged],
    offered: &[Offer],
    live: &Live<'_>,
    daemons: &[Daemon],
    sizes: &mut Sizes,
) -> Option<Resources> {
    let sizes = merged
        .iter()
        .zip(offered)
        .map(|(one, offer)| size(&one.first, offer, live, daemons, sizes));
    sizes.reduce(|a, b| a.zip(b).map(|(a, b)| a.floor(b))).flatten()
}

/// Builds a group's offer. Its pins are the standard labels, and the labels in which it differs
/// from the bucket's other groups.
fn offer(one: &Merged, all: &[Merged], placement_group_label: &str) -> Offer {
    let labels = &one.first.labels;
    let known =
        [INSTANCE_TYPE_LABEL, CAPACITY_LABELS[0].0, CAPACITY_LABELS[1].0, placement_group_label];
    let standard: BTreeSet<&str> = known.into_iter().collect();
    let differs = |key: &String| {
        all.iter().any(|other| {
            other.first.labels.get(key).is_some_and(|value| labels.get(key) != Some(value))
        })
    };
    let by_placement = all.iter().enumerate().all(|(i, a)| {
        let at = |merged: &Merged| merged.first.labels.get(placement_group_label).cloned();
        at(a).is_some() && all[..i].iter().all(|b| at(a) != at(b))
    });
    let pins = labels
        .iter()
        .filter(|(key, _)| standard.contains(key.as_str()) || (!by_placement && differs(key)))
        .map(|(key, value)| (key.clone(), value.clone()));
    Offer {
        instance_type: one.first.instance_type.clone(),
        members: one.members.clone(),
        labels: labels.clone(),
        taints: one.first.taints.clone(),
        pins: pins.collect(),
    }
}

/// The size of a group's nodes. `None` if DaemonSets leave no room, or the size is unknown.
fn size(
    group: &NodeGroup,
    offer: &Offer,
    live: &Live<'_>,
    daemons: &[Daemon],
    sizes: &mut Sizes,
) -> Option<Resources> {
    let expected = group.capacity.accelerators > 0;
    let alike = live.get(offer.instance_type.as_str()).into_iter().flatten();
    let of_group = alike.filter(|(_, facts)| {
        facts.ready && offer.owns(facts) && (!expected || facts.accelerator_kind.is_some())
    });
    let seen =
        of_group.map(|(slot, facts)| crate::observe::less(facts.allocatable, slot.static_used));
    let known = sizes.get(&group.name).copied();
    let mut left = match (seen.reduce(Resources::floor), known) {
        (Some(seen), Some(known)) if near(seen, known) => known,
        (Some(seen), _) => {
            sizes.insert(group.name.clone(), seen);
            seen
        }
        (None, known) => known.unwrap_or_else(|| template(group)),
    };
    if let Some(estimate) = group.estimate {
        left = left.floor(estimate);
    }
    for daemon in
        daemons.iter().filter(|daemon| daemon.constraints.admit(&offer.labels, &offer.taints))
    {
        left = left.take(Resources { accelerators: 0, ..daemon.requests })?;
    }
    (left.pods > 0 && (left.cpu_millis > 0 || left.accelerators > 0)).then_some(left)
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
fn template(group: &NodeGroup) -> Resources {
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

fn price(merged: &[Merged], capacity_type: CapacityType, allocatable: Resources) -> MicroDollars {
    let given = merged.iter().find_map(|one| one.price);
    let instance_type = merged.first().map_or("", |one| one.first.instance_type.as_str());
    given.unwrap_or_else(|| hourly(instance_type, capacity_type, allocatable))
}

/// Builds groups from live nodes: one for each combination of instance type, capacity type and
/// placement group. Nodes of `pools` are left out.
pub fn live_groups(
    nodes: &Nodes,
    pools: &[NodeGroup],
    placement_group_label: &str,
) -> Vec<NodeGroup> {
    let mut groups: BTreeMap<(String, CapacityType, Option<String>), NodeGroup> = BTreeMap::new();
    for (_, _, facts) in nodes.iter().filter(|(_, _, facts)| !super::karpenter::is_of(facts, pools))
    {
        let Some(instance_type) = facts.labels.get(INSTANCE_TYPE_LABEL) else { continue };
        let capacity = capacity_type(&facts.labels).unwrap_or_default();
        let placement_group = facts.labels.get(placement_group_label).cloned();
        let key = (instance_type.clone(), capacity, placement_group.clone());
        match groups.get_mut(&key) {
            None => {
                let parts = [
                    instance_type.as_str(),
                    if capacity == CapacityType::Spot { "spot" } else { "" },
                ];
                let parts = parts
                    .into_iter()
                    .chain(placement_group.as_deref())
                    .filter(|part| !part.is_empty());
                let name = parts.collect::<Vec<_>>().join("/");
                groups
                    .insert(key, live_group(name, instance_type, facts, capacity, placement_group));
            }
            Some(group) => {
                group.desired += 1;
                group.labels.retain(|key, value| facts.labels.get(key) == Some(value));
                group.taints.retain(|taint| facts.taints.contains(taint));
            }
        }
    }
    groups.into_values().collect()
}

fn live_group(
    name: String,
    instance_type: &str,
    facts: &NodeFacts,
    capacity_type: CapacityType,
    placement_group: Option<String>,
) -> NodeGroup {
    let passing = |taint: &&Taint| !taint.key.starts_with("node.kubernetes.io/");
    NodeGroup {
        name,
        instance_type: instance_type.into(),
        capacity_type,
        placement_group,
        zone: None,
        min: 0,
        max: UNLIMITED,
        desired: 1,
        labels: facts.labels.clone(),
        taints: facts.taints.iter().filter(passing).cloned().collect(),
        capacity: facts.allocatable,
        accelerator_kind: facts.accelerator_kind.clone().unwrap_or_default(),
        resources: BTreeMap::new(),
        estimate: None,
        hourly: None,
    }
}
