//! The buckets on offer in a cluster, built from groups of nodes of any source and sized by live
//! nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use embedder::{
    AcceleratorKind, Bucket, BucketId, CapacityType, Catalog, CatalogError, DEVICES_MAX, Devices,
    Group, MicroDollars, Resources, UNLIMITED,
};
use instances::{Price, PriceSource};

use super::alike::{Comparison, names, plain_name};
use super::group::{LaunchedBy, NodeGroup, OtherTypes, Pool};
use super::karpenter::FORMER_LABELS;
use super::known::Sizes;
use super::labels::{CAPACITY_LABELS, INSTANCE_TYPE_LABEL, capacity_type};
use super::price::Pricing;
use super::size::{devices, observed_daemons, requested_devices, size, template};
use crate::observe::{
    Choice, Constraints, Daemon, NodeFacts, NodeSlot, Nodes, Taint, is_passing, units,
};

/// A catalog, with the Kubernetes properties of each group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    /// The buckets.
    pub catalog: Catalog,
    /// The groups, by bucket and then by group, in the catalog's order.
    pub groups: Vec<Vec<Offer>>,
    /// Where the price of each bucket comes from.
    pub prices: Vec<PriceSource>,
    /// The prices by which the buckets rank: those without what was read from AWS, so that the
    /// classes of placeholders do not change with spot prices.
    pub ranking: Vec<MicroDollars>,
    /// Problems of groups, one message each.
    pub problems: Vec<String>,
}

/// The Kubernetes properties of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The instance types. A mixed-instances group has several of the same size.
    pub instance_types: BTreeSet<String>,
    /// The names of the source's groups that are merged into this one, because no label
    /// distinguishes them.
    pub members: Vec<String>,
    /// The labels of a new node.
    pub labels: BTreeMap<String, String>,
    /// The labels of a new node whose value is not fixed, with the values that each may have.
    pub choices: BTreeMap<String, Choice>,
    /// The taints of a new node.
    pub taints: Vec<Taint>,
    /// What launches the nodes.
    pub launched_by: LaunchedBy,
    /// The pool whose limits the nodes of the group share with those of other groups.
    pub pool: Option<Pool>,
    /// The devices that a new node offers beyond the bucket's size, by name, with their amounts.
    pub devices: BTreeMap<String, u64>,
    /// Those of the devices that a placeholder requests.
    pub requested_devices: BTreeMap<String, u64>,
    /// How long a node must be unneeded before the autoscaler removes it, in seconds, if the source
    /// has it: the longest time of the groups that are merged, if all of them have one.
    pub unneeded_seconds: Option<i64>,
    /// Whether the source gives the local disk of a new node. Otherwise an autoscaler's template of
    /// the group has none while the group has no nodes, as on AWS, so a placeholder that requests
    /// local disk launches no node.
    pub disk_known: bool,
    /// Whether the labels and taints of a new node are known. Otherwise the group has had no node,
    /// and its source does not describe any.
    pub described: bool,
    /// The labels that a placeholder selects, so that it can only run on a node of this group.
    pub pins: BTreeMap<String, String>,
}

impl Offers {
    /// The price of the bucket with this name.
    pub fn price(&self, bucket: &str) -> Option<Price> {
        let mut all = self.catalog.buckets().iter().zip(&self.prices);
        let (bucket, source) = all.find(|(known, _)| known.name == bucket)?;
        Some(Price { hourly: bucket.hourly, source: *source })
    }

    /// The prices of the buckets, by name.
    pub fn by_name(&self) -> BTreeMap<String, Price> {
        let all = self.catalog.buckets().iter().zip(&self.prices);
        let price = |(bucket, source): (&Bucket, &PriceSource)| {
            (bucket.name.clone(), Price { hourly: bucket.hourly, source: *source })
        };
        all.map(price).collect()
    }

    /// The buckets whose price is an estimate, because no source has it.
    pub fn unpriced(&self) -> BTreeSet<BucketId> {
        let sources = self.prices.iter().enumerate();
        sources.filter(|(_, source)| !source.is_known()).map(|(id, _)| id).collect()
    }
}

impl Offer {
    /// Whether a node of one of the group's instance types has the labels of the group.
    pub fn owns(&self, node: &NodeFacts) -> bool {
        self.pins.iter().all(|(key, value)| node.labels.get(key) == Some(value))
    }

    /// Whether pods with these constraints may run on one of the nodes that the group launches.
    pub fn admits(&self, constraints: &Constraints) -> bool {
        constraints.admit_any(&self.labels, &self.choices, &self.taints)
    }

    /// The taints of a node of a pool that keep pods off and that the pool does not give. What an
    /// Auto Scaling group gives is not known as surely.
    pub fn own_taints<'a>(&'a self, node: &'a NodeFacts) -> impl Iterator<Item = &'a Taint> {
        node.taints.iter().filter(|taint| {
            self.pool.is_some()
                && taint.effect != "PreferNoSchedule"
                && !is_passing(&taint.key)
                && !self.taints.contains(taint)
        })
    }

    /// The number of the group's taints that a node has, or `None` if it lacks one. It decides
    /// between groups that only taints distinguish.
    pub fn taints_on(&self, node: &NodeFacts) -> Option<usize> {
        self.taints.iter().all(|taint| node.taints.contains(taint)).then_some(self.taints.len())
    }
}

/// Builds the buckets of `groups`, sized by `nodes`. Updates `sizes`.
///
/// # Errors
/// No group is left to build a bucket from.
pub fn offers(
    groups: &[NodeGroup],
    nodes: &Nodes,
    daemons: &[Daemon],
    (comparison, pricing): (&Comparison<'_>, &Pricing<'_>),
    sizes: &mut Sizes,
) -> Result<Offers, CatalogError> {
    let mut problems = Vec::new();
    let alike = alike(groups, comparison, &mut problems);
    let live = by_type(nodes);
    let (keys, merged): (Vec<_>, Vec<_>) = alike.into_iter().unzip();
    let all: Vec<&Merged> = merged.iter().flatten().collect();
    let pins: Vec<_> =
        all.iter().map(|one| pins(one, &all, comparison.placement_group_label)).collect();
    problems.extend(distinguished_by_taints_alone(&all, &pins));
    let mut pins = pins.into_iter();
    let mut offers: BTreeMap<String, Vec<Offer>> = BTreeMap::new();
    let (mut made, mut sources) = (Vec::new(), BTreeMap::new());
    for (name, merged) in names(&keys, comparison.named_parts).into_iter().zip(&merged) {
        let Some(Merged { first, capacity_type, .. }) = merged.first() else { continue };
        let (capacity_type, accelerator_kind) = (*capacity_type, first.accelerator_kind.clone());
        let mut offered: Vec<Offer> =
            merged.iter().zip(pins.by_ref()).map(|(one, pins)| offer(one, pins)).collect();
        problems.extend(degraded(&name, &offered, &live, &accelerator_kind));
        let mut too_large = BTreeSet::new();
        let allocatable =
            sized(merged, &offered, &live, (daemons, comparison), sizes, &mut too_large);
        problems.extend(too_large.into_iter().map(|daemon| {
            format!("{name}: DaemonSet {daemon} fits on no empty node, so it is not subtracted")
        }));
        let Some(allocatable) = allocatable else {
            problems.push(format!(
                "{name}: DaemonSets leave no room on its nodes, or their size is unknown"
            ));
            continue;
        };
        for (one, offer) in merged.iter().zip(&mut offered) {
            offer.devices = devices(&one.first, owned(offer, &live), sizes);
            offer.requested_devices =
                requested_devices(&one.first, sizes, allocatable.accelerators);
        }
        let new = price(merged, capacity_type, allocatable, pricing);
        let listed = price(merged, capacity_type, allocatable, &pricing.without_aws());
        let Price { hourly, source } = pricing.kept(&name, new, listed);
        sources.insert(name.clone(), (source, listed.hourly));
        made.push(Bucket {
            hourly,
            groups: merged.iter().map(Merged::group).collect(),
            name: name.clone(),
            capacity_type,
            accelerator_kind,
            allocatable,
        });
        offers.insert(name, offered);
    }
    let names = device_names(offers.values().flatten(), &mut problems);
    for bucket in &mut made {
        let groups = offers.get(&bucket.name).into_iter().flatten();
        bucket.allocatable.devices = offered_devices(groups, &names);
    }
    let catalog = Catalog::with_devices(made, names)?;
    let estimate = (PriceSource::Estimate, MicroDollars(0));
    let source = |bucket: &Bucket| sources.get(&bucket.name).copied().unwrap_or(estimate);
    let (prices, ranking) = catalog.buckets().iter().map(source).unzip();
    let groups = catalog
        .buckets()
        .iter()
        .map(|bucket| offers.remove(&bucket.name).unwrap_or_default())
        .collect();
    Ok(Offers { catalog, groups, prices, ranking, problems })
}

/// The part of the name of a bucket of groups that launch types of several sizes.
const MIXED: &str = "mixed";

/// The groups that can be used, by the name and the parts of their bucket. Adds a problem for each
/// of the others.
fn alike(
    groups: &[NodeGroup],
    comparison: &Comparison<'_>,
    problems: &mut Vec<String>,
) -> BTreeMap<(String, Vec<String>), Vec<Merged>> {
    let placement_group_label = comparison.placement_group_label;
    let with_accelerators = groups.iter().filter(|group| group.capacity.accelerators > 0);
    let kinds: HashMap<&str, &AcceleratorKind> = with_accelerators
        .map(|group| (group.instance_type.as_str(), &group.accelerator_kind))
        .collect();
    let mut alike: BTreeMap<(String, Vec<String>), Vec<Merged>> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for group in groups {
        let capacity = labelled_capacity_type(group, problems);
        if let (Some(placement_group), None) =
            (&group.placement_group, group.labels.get(placement_group_label))
        {
            problems.push(format!(
                "group {}: its node-template tags lack the label {placement_group_label}, so placeholders cannot be put into placement group {placement_group}",
                group.name
            ));
        }
        if let Some(why) = unusable(group, names.insert(&group.name)) {
            problems.push(format!("group {}: left out, because {why}", group.name));
            continue;
        }
        let mut group = group.clone();
        if group.capacity.accelerators == 0
            && let Some(kind) = kinds.get(group.instance_type.as_str())
        {
            // The device plugins of its nodes have not started yet.
            group.accelerator_kind = (*kind).clone();
        }
        let mut parts = comparison.parts(&group.accelerator_kind, &group.labels, &group.taints);
        if matches!(group.other_types, OtherTypes::OtherSizes(_)) {
            // Its placeholders may become smaller than those of groups of the first type alone.
            parts.push(MIXED.to_owned());
        }
        let name = group.size_class.as_ref().unwrap_or(&group.instance_type);
        let key = (plain_name(name, capacity), parts);
        merge(alike.entry(key).or_default(), &group, capacity, problems);
    }
    alike
}

/// Why a group cannot be used, if it cannot. `first` is whether no group before has its name.
fn unusable(group: &NodeGroup, first: bool) -> Option<String> {
    let NodeGroup { min, max, .. } = group;
    if !first {
        return Some("another group has the same name".into());
    }
    (min > max).then(|| format!("its minimum size, {min}, exceeds its maximum size, {max}"))
}

/// The names of the devices whose amounts are counted: all that groups offer, but no more than a
/// catalog has room for. Adds a problem that names the others.
fn device_names<'a>(
    offers: impl Iterator<Item = &'a Offer>,
    problems: &mut Vec<String>,
) -> Vec<String> {
    let all: BTreeSet<&String> = offers.flat_map(|offer| offer.devices.keys()).collect();
    let mut names: Vec<String> = all.into_iter().cloned().collect();
    // Pods request extended resources more often than huge pages.
    names.sort_by_key(|name| (!name.contains('/'), name.clone()));
    if names.len() > DEVICES_MAX {
        let others = names.split_off(DEVICES_MAX);
        problems.push(format!(
            "the nodes offer more than {DEVICES_MAX} kinds of devices, so the amounts of {} are not counted",
            others.join(", ")
        ));
    }
    names
}

/// The amounts of devices of a new node of a bucket: of each, the largest of its groups.
fn offered_devices<'a>(groups: impl Iterator<Item = &'a Offer>, names: &[String]) -> Devices {
    let mut devices = Devices::NONE;
    for offer in groups {
        for (at, name) in names.iter().enumerate() {
            let amount = offer.devices.get(name).copied().unwrap_or(0);
            // Huge pages are counted in pages.
            let size = name.strip_prefix("hugepages-").and_then(units).unwrap_or(1).max(1);
            devices.set(at, (amount / size).max(devices.get(at)));
        }
    }
    devices
}

/// Groups of a source that no label distinguishes.
struct Merged {
    first: NodeGroup,
    capacity_type: CapacityType,
    instance_types: BTreeSet<String>,
    members: Vec<String>,
    min: u64,
    max: u64,
}

impl Merged {
    fn group(&self) -> Group {
        let Self { first, min, max, .. } = self;
        Group {
            name: first.name.clone(),
            placement_group: first.placement_group.clone(),
            min: *min,
            max: *max,
            weight: first.weight,
        }
    }

    /// Whether a node could belong to both groups, judged by its instance type and capacity type
    /// alone.
    fn could_share_nodes(&self, other: &Self) -> bool {
        self.capacity_type == other.capacity_type
            && !self.instance_types.is_disjoint(&other.instance_types)
    }
}

fn merge(
    merged: &mut Vec<Merged>,
    group: &NodeGroup,
    capacity_type: CapacityType,
    problems: &mut Vec<String>,
) {
    let alike = |known: &&mut Merged| {
        known.first.labels == group.labels
            && known.first.choices == group.choices
            && known.first.taints == group.taints
            && known.first.other_types == group.other_types
            && known.first.launched_by == group.launched_by
            && known.first.pool == group.pool
    };
    if let Some(known) = merged.iter_mut().find(alike) {
        problems.push(format!(
            "groups {} and {}: no label distinguishes them, so they count as one",
            known.first.name, group.name
        ));
        known.members.push(group.name.clone());
        known.min = known.min.saturating_add(group.min);
        known.max = known.max.saturating_add(group.max);
        let both = known.first.unneeded_seconds.zip(group.unneeded_seconds);
        known.first.unneeded_seconds = both.map(|(known, other)| known.max(other));
        return;
    }
    let members = vec![group.name.clone()];
    merged.push(Merged {
        first: group.clone(),
        capacity_type,
        instance_types: group.instance_types().cloned().collect(),
        members,
        min: group.min,
        max: group.max,
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
    (daemons, comparison): (&[Daemon], &Comparison<'_>),
    sizes: &mut Sizes,
    too_large: &mut BTreeSet<String>,
) -> Option<Resources> {
    let most = most_accelerators(offered, live);
    let sizes = merged.iter().zip(offered).map(|(one, offer)| {
        let (mut admitted, others): (Vec<&Daemon>, Vec<&Daemon>) =
            daemons.iter().partition(|daemon| offer.admits(&daemon.constraints));
        let nodes = owned(offer, live).map(|(_, facts)| facts);
        let observed = observed_daemons(&one.first, nodes, &others, comparison, sizes);
        admitted.extend(others.into_iter().filter(|daemon| observed.contains(&daemon.name)));
        size(&one.first, owned(offer, live), admitted.into_iter(), most, sizes, too_large)
    });
    sizes.reduce(|a, b| a.zip(b).map(|(a, b)| a.floor(b))).flatten()
}

/// The live nodes of a group.
fn owned<'a>(
    offer: &'a Offer,
    live: &'a Live<'a>,
) -> impl Iterator<Item = (&'a NodeSlot, &'a NodeFacts)> {
    let types = offer.instance_types.iter();
    let alike = types.filter_map(|name| live.get(name.as_str())).flatten().copied();
    alike.filter(|(_, facts)| offer.owns(facts))
}

/// The most accelerators of a ready node of a bucket.
fn most_accelerators(offered: &[Offer], live: &Live<'_>) -> u64 {
    let nodes = offered.iter().flat_map(|offer| owned(offer, live));
    let ready = nodes.filter(|(_, facts)| facts.ready);
    ready.map(|(_, facts)| facts.allocatable.accelerators).max().unwrap_or(0)
}

/// The most degraded nodes that one message names.
const NAMED_MAX: usize = 5;

/// A message that names the degraded nodes of a bucket, if there are any.
fn degraded(
    bucket: &str,
    offered: &[Offer],
    live: &Live<'_>,
    kind: &AcceleratorKind,
) -> Option<String> {
    let most = most_accelerators(offered, live);
    let nodes = offered.iter().flat_map(|offer| owned(offer, live));
    let found = nodes.filter(|(_, facts)| facts.ready && facts.is_degraded(most));
    let found: BTreeMap<&str, (u64, u64)> = found
        .map(|(slot, facts)| {
            let of = facts.accelerators_capacity.max(most);
            (&*slot.name, (facts.allocatable.accelerators, of))
        })
        .collect();
    let named = found.iter().take(NAMED_MAX);
    let mut named: Vec<String> =
        named.map(|(name, (has, of))| format!("{name} has {has} of {of} {kind}")).collect();
    if found.len() > NAMED_MAX {
        named.push(format!("{} more nodes are degraded", found.len() - NAMED_MAX));
    }
    (!found.is_empty())
        .then(|| format!("{bucket}: degraded nodes do not define its size: {}", named.join(", ")))
}

fn offer(one: &Merged, pins: BTreeMap<String, String>) -> Offer {
    Offer {
        instance_types: one.instance_types.clone(),
        members: one.members.clone(),
        labels: one.first.labels.clone(),
        choices: one.first.choices.clone(),
        taints: one.first.taints.clone(),
        launched_by: one.first.launched_by,
        pool: one.first.pool.clone(),
        devices: BTreeMap::new(),
        requested_devices: BTreeMap::new(),
        unneeded_seconds: one.first.unneeded_seconds,
        described: one.first.described,
        disk_known: template(&one.first).ephemeral_bytes != UNLIMITED,
        pins,
    }
}

/// The labels that distinguish the nodes of a group: the standard labels, and the labels in which
/// it differs from other groups of its instance types, unless the placement group distinguishes all
/// of them.
fn pins(one: &Merged, all: &[&Merged], placement_group_label: &str) -> BTreeMap<String, String> {
    let labels = &one.first.labels;
    let known =
        [INSTANCE_TYPE_LABEL, CAPACITY_LABELS[0].0, CAPACITY_LABELS[1].0, placement_group_label];
    let standard: BTreeSet<&str> = known.into_iter().collect();
    let all: Vec<&Merged> =
        all.iter().copied().filter(|other| other.could_share_nodes(one)).collect();
    let differs = |key: &String| {
        all.iter().any(|other| {
            other.first.labels.get(key).is_some_and(|value| labels.get(key) != Some(value))
        })
    };
    let by_placement = all.iter().enumerate().all(|(i, a)| {
        let at = |merged: &Merged| merged.first.labels.get(placement_group_label).cloned();
        at(a).is_some() && all[..i].iter().all(|b| at(a) != at(b))
    });
    let is_former = |key: &String| FORMER_LABELS.iter().any(|(_, former)| former == key);
    let one_type = one.first.other_types == OtherTypes::None;
    let pinned = |key: &String| {
        (standard.contains(key.as_str()) || (!by_placement && differs(key)))
            && (one_type || key != INSTANCE_TYPE_LABEL)
            && !is_former(key)
    };
    let pins = labels.iter().filter(|(key, _)| pinned(key));
    pins.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A message for each two groups whose nodes have the same labels, so that a placeholder that
/// tolerates the taints of one can run on a node of the other.
fn distinguished_by_taints_alone(
    all: &[&Merged],
    pins: &[BTreeMap<String, String>],
) -> Vec<String> {
    let mut problems = Vec::new();
    for (at, one) in all.iter().enumerate() {
        for (before, other) in all[..at].iter().enumerate() {
            // Size classes of a pool may have types in common, and the same taints.
            let classes = one.first.size_class.is_some() && one.first.pool == other.first.pool;
            if pins[at] == pins[before] && one.could_share_nodes(other) && !classes {
                problems.push(format!(
                    "groups {} and {}: only taints distinguish them, so a placeholder of one may run on a node of the other; add a label to one of them",
                    other.first.name, one.first.name
                ));
            }
        }
    }
    problems
}

/// The price of an instance of a bucket: that of the group with the highest one, so that a limit in
/// dollars holds.
fn price(
    merged: &[Merged],
    capacity_type: CapacityType,
    allocatable: Resources,
    pricing: &Pricing<'_>,
) -> Price {
    let estimate = Price { hourly: MicroDollars(0), source: PriceSource::Estimate };
    let prices = merged.iter().map(|one| pricing.of(&one.first, capacity_type, allocatable));
    prices.max_by_key(|price| price.hourly).unwrap_or(estimate)
}

#[cfg(test)]
mod tests;
