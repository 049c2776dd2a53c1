//! Groups of nodes from Karpenter's pools: one for each combination of instance type, capacity type
//! and placement group that a pool lists.
//!
//! A pool that lists no instance types may launch many. Its groups are of size classes: one for
//! each size that batch pods of the cluster need. Its nodes of other sizes are room for pods, and
//! so are those of a static pool: no pending pod launches one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use embedder::{AcceleratorKind, Resources, UNLIMITED};
use instances::{InstanceType, SizeClass, for_pods, size_classes, usable_memory};

use super::alike::Comparison;
use super::group::{LaunchedBy, NodeGroup, OtherTypes, Pool};
use super::labels::{INSTANCE_TYPE_LABEL, ZONE_LABELS, capacity_type};
use super::overlays::added;
use super::type_labels::{is_known, labels_of_type};
use crate::observe::{
    ACCELERATORS, CAPACITY_LABEL, Choice, Key, NodeClaim, NodeFacts, NodeOverlay, NodePool,
    POOL_LABEL,
};

/// The values of Karpenter's label for the capacity type.
const CAPACITY_TYPES: [&str; 3] = ["on-demand", "reserved", "spot"];

/// The resource of Elastic Fabric Adapters, which Karpenter expects on a node of a type that has
/// some.
const EFA: &str = "vpc.amazonaws.com/efa";

/// The share of CPU and memory that stays free in addition, in thousandths, until a NodeClaim shows
/// Karpenter's estimate. Karpenter launches no node for a placeholder that exceeds its estimate,
/// whereas a placeholder that is too small is replaced by a larger one later.
///
/// The estimate is the capacity, of whose memory [`usable_memory`] is left, less the reservations
/// that the provider computes: on AWS those of [`super::size::template`] (`kubeReservedResources`
/// and `evictionThreshold` of its provider), with 100m of CPU in the kwok provider, and what a node
/// class configures for the kubelet.
const UNKNOWN: u64 = 50;

/// Builds the groups of the pools, with what `overlays` add to their nodes. `live` are the nodes of
/// the cluster.
pub fn pool_groups<'a>(
    pools: impl Iterator<Item = &'a NodePool>,
    overlays: &BTreeMap<Key, NodeOverlay>,
    (claims, live): (&[&NodeClaim], &[&NodeFacts]),
    comparison: &Comparison<'_>,
) -> Vec<NodeGroup> {
    let mut seen = Seen { claims: HashMap::new(), nodes: HashMap::new(), overlays };
    for claim in claims {
        if let Some(name) = claim.labels.get(INSTANCE_TYPE_LABEL) {
            seen.claims.entry(name).or_default().push(claim);
        }
    }
    for node in live.iter().filter(|node| node.ready) {
        if let Some(name) = node.labels.get(INSTANCE_TYPE_LABEL) {
            seen.nodes.entry(name).or_default().push(node);
        }
    }
    pools.flat_map(|pool| groups(pool, &seen, comparison)).collect()
}

/// Karpenter's claims and the ready nodes, by instance type, and its overlays.
pub(super) struct Seen<'a> {
    claims: HashMap<&'a str, Vec<&'a NodeClaim>>,
    nodes: HashMap<&'a str, Vec<&'a NodeFacts>>,
    overlays: &'a BTreeMap<Key, NodeOverlay>,
}

impl<'a> Seen<'a> {
    /// The claims of instances of one of these types in a pool.
    fn claims_of<'b>(
        &'b self,
        types: &'b [String],
        pool: &'b NodePool,
    ) -> impl Iterator<Item = &'a NodeClaim> + 'b {
        let all = types.iter().filter_map(|name| self.claims.get(name.as_str())).flatten();
        all.copied().filter(|claim| claim.labels.get(POOL_LABEL) == Some(&pool.name))
    }
}

/// The pools and instance types of groups, as in the labels of their nodes.
pub(super) fn pairs(groups: &[NodeGroup]) -> HashSet<(&str, &str)> {
    let of_group = |group: &'_ NodeGroup| group.labels.contains_key(POOL_LABEL);
    let groups = groups.iter().filter(|group| of_group(group));
    let pairs = groups.flat_map(|group| {
        group.instance_types().map(|name| (group.labels[POOL_LABEL].as_str(), name.as_str()))
    });
    pairs.collect()
}

/// Whether a node belongs to one of the groups of these [`pairs`].
pub(super) fn is_of(node: &NodeFacts, pairs: &HashSet<(&str, &str)>) -> bool {
    let label = |key: &str| node.labels.get(key).map(String::as_str);
    let pair = label(POOL_LABEL).zip(label(INSTANCE_TYPE_LABEL));
    pair.is_some_and(|pair| pairs.contains(&pair))
}

fn groups(pool: &NodePool, seen: &Seen<'_>, comparison: &Comparison<'_>) -> Vec<NodeGroup> {
    let placement_group_label = comparison.placement_group_label;
    let listed = |key: &str| pool.choices.get(key).and_then(Choice::values);
    let capacity_types: Vec<String> = match pool.choices.get(CAPACITY_LABEL) {
        // Without a requirement, Karpenter launches spot instances where it can. Placeholders order
        // nodes on demand, on which all pods may run.
        None => vec!["on-demand".into()],
        Some(choice) => {
            let all = CAPACITY_TYPES.map(str::to_owned).into_iter();
            all.filter(|value| choice.allows(value)).collect()
        }
    };
    let placement_groups: Vec<Option<&String>> = match listed(placement_group_label) {
        Some(values) => values.map(Some).collect(),
        None => vec![pool.labels.get(placement_group_label)],
    };
    let mut groups = Vec::new();
    for launched in launched(pool, comparison) {
        let Some(known) = launched.hardware(seen) else { continue };
        for bought in &capacity_types {
            for placement_group in &placement_groups {
                let placed =
                    placement_group.map(|value| (placement_group_label.to_owned(), value.clone()));
                let own = [(CAPACITY_LABEL, bought), (POOL_LABEL, &pool.name)];
                let own = own.map(|(key, value)| (key.to_owned(), value.clone()));
                let labels = launched.labels.clone().into_iter().chain(pool.labels.clone());
                let labels = labels.chain(fixed(pool)).chain(placed).chain(own);
                let place = placement_group.map(|value| (placement_group_label, value.as_str()));
                groups.push(group(pool, &launched, labels.collect(), place, &known, seen));
            }
        }
    }
    groups
}

/// The instance types that a pool launches for one size of placeholder.
#[derive(Clone, Debug)]
pub(super) struct Launched {
    /// The size class, unless the pool lists its instance types.
    size_class: Option<String>,
    /// The instance types, the cheapest first. At least one.
    types: Vec<String>,
    /// The labels that a node has whichever of the types it is.
    pub(super) labels: BTreeMap<String, String>,
    /// The labels in which the types differ, with their values.
    pub(super) choices: BTreeMap<String, Choice>,
}

impl Launched {
    pub(super) fn of_class(pool: &NodePool, class: &SizeClass) -> Self {
        let types = class.types.iter().map(|known| known.name.to_owned());
        Self::new(pool, Some(class.name.clone()), types.collect())
    }

    fn new(pool: &NodePool, size_class: Option<String>, types: Vec<String>) -> Self {
        let mut values: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
        let each: Vec<BTreeMap<String, String>> =
            types.iter().map(|name| with_type_label(name, pool)).collect();
        let keys: BTreeSet<&String> = each.iter().flatten().map(|(key, _)| key).collect();
        for key in keys {
            let of_key = each.iter().map(|labels| labels.get(key).cloned());
            values.insert(key.clone(), of_key.collect());
        }
        let (mut labels, mut choices) = (BTreeMap::new(), BTreeMap::new());
        for (key, values) in values {
            match values.first() {
                Some(Some(value)) if values.len() == 1 => drop(labels.insert(key, value.clone())),
                _ => drop(choices.insert(key, Choice::any_of(values))),
            }
        }
        Self { size_class, types, labels, choices }
    }

    /// The least resources of the instance types that are known, and the kind of accelerators.
    pub(super) fn hardware(&self, seen: &Seen<'_>) -> Option<(Resources, AcceleratorKind)> {
        let known = self.types.iter().filter_map(|name| hardware(name, seen));
        known.reduce(|(least, kind), (next, _)| (least.floor(next), kind))
    }
}

/// What a pool launches: each type that it lists, or the size classes of the comparison of which it
/// admits a type.
fn launched(pool: &NodePool, comparison: &Comparison<'_>) -> Vec<Launched> {
    if is_flexible(pool) {
        let wanted = comparison.size_classes().filter_map(|name| size_classes().get(name));
        let mut admitted: Vec<SizeClass> =
            wanted.filter_map(|class| admitted(pool, class)).collect();
        // The class of a family adds nothing where the pool admits no other family of the size.
        admitted.sort_by_key(|class| class.of_family);
        let mut sets = BTreeSet::new();
        admitted.retain(|class| {
            sets.insert(class.types.iter().map(|known| known.name).collect::<Vec<_>>())
        });
        return admitted.iter().map(|class| Launched::of_class(pool, class)).collect();
    }
    let listed = pool.choices.get(INSTANCE_TYPE_LABEL).and_then(Choice::values);
    let admitted = listed.into_iter().flatten().filter(|name| admits(pool, name));
    admitted.map(|name| Launched::new(pool, None, vec![name.clone()])).collect()
}

/// Whether a pool selects instance types of AWS by their attributes, and lists none.
pub fn is_flexible(pool: &NodePool) -> bool {
    let of_aws = || {
        [EKS_CLASS, AWS_CLASS].contains(&pool.class_group.as_str())
            || pool.choices.keys().any(|key| is_known(key))
    };
    let lists = pool.choices.get(INSTANCE_TYPE_LABEL).is_some_and(|of| of.values().is_some());
    pool.replicas.is_none() && !lists && of_aws()
}

/// The types of a size class that a pool launches, if it launches any.
pub(super) fn admitted(pool: &NodePool, class: &SizeClass) -> Option<SizeClass> {
    let those = class.of_admitted(|known| admits(pool, known.name))?;
    has_enough(pool, &those).then_some(those)
}

/// Whether a pool admits an instance type, as far as its labels are known.
fn admits(pool: &NodePool, instance_type: &str) -> bool {
    let labels = with_type_label(instance_type, pool);
    pool.choices.iter().all(|(key, choice)| match labels.get(key) {
        Some(value) => choice.allows(value),
        // Of a type of the table, all labels with these names are known.
        None => {
            choice.allows_none()
                || !is_known(key)
                || instances::instance_type(instance_type).is_none()
        }
    })
}

/// Whether the types of a class have as many values of each label as the pool demands.
fn has_enough(pool: &NodePool, class: &SizeClass) -> bool {
    pool.min_values.iter().all(|(key, fewest)| {
        let labels = class.types.iter().map(|known| with_type_label(known.name, pool));
        let values: BTreeSet<String> = labels.filter_map(|mut labels| labels.remove(key)).collect();
        // Labels such as the zone do not follow from the type.
        values.is_empty() || u64::try_from(values.len()).unwrap_or(u64::MAX) >= *fewest
    })
}

/// The labels of a node of an instance type that follow from the type, with that of the type.
fn with_type_label(instance_type: &str, pool: &NodePool) -> BTreeMap<String, String> {
    let of_eks = || pool.choices.keys().any(|key| key.starts_with("eks.amazonaws.com/instance-"));
    let mut labels = labels_of_type(instance_type, pool.class_group == EKS_CLASS || of_eks());
    labels.insert(INSTANCE_TYPE_LABEL.to_owned(), instance_type.to_owned());
    for (label, former) in FORMER_LABELS {
        if let Some(value) = labels.get(label).cloned() {
            labels.insert(former.to_owned(), value);
        }
    }
    labels
}

/// Labels under their present and former names. Karpenter takes a selector of the former name for
/// one of the present name (`NormalizedLabels`).
pub(super) const FORMER_LABELS: [(&str, &str); 3] = [
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    (INSTANCE_TYPE_LABEL, "beta.kubernetes.io/instance-type"),
];

/// The keys of the taints that nodes of these pools have only until they are set up, less those
/// that a pool's nodes keep.
pub fn startup_taints<'a>(pools: impl Iterator<Item = &'a NodePool> + Clone) -> BTreeSet<String> {
    let kept: BTreeSet<&String> =
        pools.clone().flat_map(|pool| &pool.taints).map(|taint| &taint.key).collect();
    let passing = pools.flat_map(|pool| &pool.startup_taints);
    passing.filter(|key| !kept.contains(key)).cloned().collect()
}

/// The API group of the node classes of Karpenter's provider for AWS.
const AWS_CLASS: &str = "karpenter.k8s.aws";

/// The API group of the node classes of EKS Auto Mode, whose labels have another prefix.
const EKS_CLASS: &str = "eks.amazonaws.com";

fn group(
    pool: &NodePool,
    launched: &Launched,
    labels: BTreeMap<String, String>,
    placement_group: Option<(&str, &str)>,
    (capacity, accelerator_kind): &(Resources, AcceleratorKind),
    seen: &Seen<'_>,
) -> NodeGroup {
    let instance_type = launched.types.first().cloned().unwrap_or_default();
    let others: BTreeSet<String> = launched.types.iter().skip(1).cloned().collect();
    let capacity_type = capacity_type(&labels).unwrap_or_default();
    // Karpenter places a pod only on a node whose estimated resources have room for it. Any type of
    // a size class may come, also one that has no claim yet.
    let claims = || seen.claims_of(&launched.types, pool);
    let unseen = launched.types.iter().filter(|name| !seen.claims.contains_key(name.as_str()));
    let computed = unseen.filter_map(|name| instances::instance_type(name)).map(estimated);
    let estimate = claims().map(|claim| claim.allocatable).reduce(Resources::floor);
    let estimate = estimate.map(|least| computed.fold(least, Resources::floor));
    // The devices that Karpenter expects on a node: those of its overlays, and those that its
    // NodeClaims list.
    let mut devices = added(seen.overlays, &labels, &launched.types);
    let (capacity, accelerator_kind) = with_accelerators(*capacity, accelerator_kind, &mut devices);
    let efa = |name: &String| instances::instance_type(name).map_or(0, |known| known.efa);
    let efa = launched.types.iter().map(efa).min().filter(|efa| *efa > 0);
    devices.extend(efa.map(|efa| (EFA.to_owned(), efa)));
    devices.extend(claims().flat_map(|claim| claim.devices.clone()));
    let mut of_node = amounts(capacity, &accelerator_kind);
    of_node.extend(devices.clone());
    let limited = Pool { name: pool.name.clone(), limits: pool.limits.clone(), of_node };
    NodeGroup {
        name: name(pool, launched, &labels, placement_group),
        instance_type,
        size_class: launched.size_class.clone(),
        other_types: if others.is_empty() {
            OtherTypes::None
        } else {
            OtherTypes::SameSize(others)
        },
        launched_by: if pool.replicas.is_some() {
            LaunchedBy::Nothing
        } else {
            LaunchedBy::Karpenter
        },
        capacity_type,
        placement_group: placement_group.map(|(_, value)| value.to_owned()),
        zone: None,
        min: 0,
        max: pool.replicas.unwrap_or_else(|| limited.nodes_max()),
        desired: 0,
        instances: BTreeSet::new(),
        described: true,
        choices: choices(pool, &launched.choices, &labels),
        labels,
        taints: pool.taints.clone(),
        capacity,
        accelerator_kind,
        pool: Some(limited),
        resources: devices.iter().map(|(name, n)| (name.clone(), n.to_string())).collect(),
        estimate,
        hourly: None,
        unneeded_seconds: pool.unneeded_seconds,
        weight: pool.weight,
        may_have_warm_pool: false,
    }
}

/// The capacity of a node and the kind of its accelerators, with the accelerators that are among
/// the resources that overlays add. They are taken out of `added`.
fn with_accelerators(
    capacity: Resources,
    kind: &AcceleratorKind,
    added: &mut BTreeMap<String, u64>,
) -> (Resources, AcceleratorKind) {
    let others = if capacity.accelerators == 0 { &ACCELERATORS[..] } else { &[] };
    let mut kinds = [kind.as_str()].into_iter().chain(others.iter().copied());
    match kinds.find_map(|kind| Some((kind, added.remove(kind)?))) {
        Some((kind, accelerators)) => {
            (Resources { accelerators, ..capacity }, AcceleratorKind::new(kind))
        }
        None => (capacity, kind.clone()),
    }
}

/// Makes a group of live nodes one whose nodes Karpenter launches: labels that the pool leaves open
/// may have other values on a new node, and the limits of the pool apply.
pub(super) fn launch(group: &mut NodeGroup, pool: &NodePool) {
    let pinned = [INSTANCE_TYPE_LABEL, CAPACITY_LABEL, POOL_LABEL];
    let single: BTreeSet<String> = fixed(pool).map(|(key, _)| key).collect();
    let is_open = |key: &String| {
        !pinned.contains(&key.as_str())
            && !single.contains(key)
            && (pool.choices.contains_key(key) || ZONE_LABELS.contains(&key.as_str()))
    };
    group.unneeded_seconds = pool.unneeded_seconds;
    group.weight = pool.weight;
    group.labels.retain(|key, _| !is_open(key));
    group.choices = choices(pool, &BTreeMap::new(), &group.labels);
    let limited = Pool {
        name: pool.name.clone(),
        limits: pool.limits.clone(),
        of_node: amounts(group.capacity, &group.accelerator_kind),
    };
    group.max = limited.nodes_max();
    group.pool = Some(limited);
    group.launched_by = LaunchedBy::Karpenter;
}

/// The name of a group: that of the pool, the instance type or size class, the capacity type unless
/// it is on demand, and the placement group. A placement group that is named as a capacity type is
/// written with its label.
fn name(
    pool: &NodePool,
    launched: &Launched,
    labels: &BTreeMap<String, String>,
    placement_group: Option<(&str, &str)>,
) -> String {
    let bought = labels.get(CAPACITY_LABEL).filter(|bought| *bought != CAPACITY_TYPES[0]);
    let placed = placement_group.map(|(label, value)| {
        let is_plain = !CAPACITY_TYPES.contains(&value);
        if is_plain { value.to_owned() } else { format!("{label}={value}") }
    });
    let size = launched.size_class.as_ref().or(launched.types.first());
    let parts = [Some(&pool.name), size, bought, placed.as_ref()];
    parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join("/")
}

/// The labels of a new node that have no fixed value: those with requirements, and those of the
/// zone, because Karpenter chooses a zone in which the pod may run. `of_types` are those in which
/// instance types differ.
pub(super) fn choices(
    pool: &NodePool,
    of_types: &BTreeMap<String, Choice>,
    labels: &BTreeMap<String, String>,
) -> BTreeMap<String, Choice> {
    let zones = ZONE_LABELS.map(|key| (key.to_owned(), Choice::default()));
    let all = zones.into_iter().chain(pool.choices.clone()).chain(of_types.clone());
    all.filter(|(key, _)| !labels.contains_key(key)).collect()
}

/// The resources of a node by name, in the units of [`Pool`].
fn amounts(capacity: Resources, kind: &AcceleratorKind) -> BTreeMap<String, u64> {
    let Resources { devices: _, accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods } =
        capacity;
    let all = [
        ("nodes", 1),
        (kind.as_str(), accelerators),
        ("cpu", cpu_millis),
        ("memory", memory_bytes),
        ("ephemeral-storage", ephemeral_bytes),
        ("pods", pods),
    ];
    let known = all.into_iter().filter(|(_, amount)| *amount != UNLIMITED);
    known.map(|(name, amount)| (name.to_owned(), amount)).collect()
}

impl Pool {
    /// The most nodes like one of this group that the limits allow.
    pub(crate) fn nodes_max(&self) -> u64 {
        let of = |(name, limit): (&String, &u64)| {
            let each = self.of_node.get(name).copied().filter(|each| *each > 0)?;
            Some(limit / each)
        };
        self.limits.iter().filter_map(of).min().unwrap_or(UNLIMITED)
    }
}

/// Labels for which a pool allows exactly one value.
pub(super) fn fixed(pool: &NodePool) -> impl Iterator<Item = (String, String)> + '_ {
    pool.choices.iter().filter_map(|(key, choice)| {
        let mut values = choice.values()?;
        let first = values.next()?;
        values.next().is_none().then(|| (key.clone(), first.clone()))
    })
}

/// The resources of an instance type, from a NodeClaim, else a live node, else the table.
fn hardware(instance_type: &str, seen: &Seen<'_>) -> Option<(Resources, AcceleratorKind)> {
    if let Some(claim) = seen.claims.get(instance_type).and_then(|claims| claims.first()) {
        return Some((claim.capacity, claim.accelerator_kind.clone()));
    }
    // A degraded node has fewer accelerators than the others.
    let nodes = seen.nodes.get(instance_type).into_iter().flatten();
    let published = instances::instance_type(instance_type);
    let of_table = published.and_then(|known| known.accelerators).and_then(|those| those.kind());
    if let Some(node) = nodes.max_by_key(|node| node.allocatable.accelerators) {
        // A device plugin may not have started, or offer the accelerators under another name.
        let published = published.map_or(0, |known| known.capacity().accelerators);
        let accelerators = node.allocatable.accelerators.max(published);
        let kind = node.accelerator_kind.clone().or(of_table).unwrap_or_default();
        return Some((Resources { accelerators, ..node.allocatable }, kind));
    }
    Some((less_unknown(published?), of_table.unwrap_or_default()))
}

/// The capacity of an instance type of the table that Karpenter estimates at least.
fn less_unknown(known: &InstanceType) -> Resources {
    let capacity = known.capacity();
    let less = |amount: u64| amount - amount / 1_000 * UNKNOWN;
    Resources {
        cpu_millis: less(capacity.cpu_millis),
        memory_bytes: less(usable_memory(capacity.memory_bytes)),
        ..capacity
    }
}

/// What a node of an instance type of the table has for pods, as Karpenter estimates at least.
pub(super) fn estimated(known: &InstanceType) -> Resources {
    for_pods(less_unknown(known))
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pool() -> NodePool {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
            "spec": {
                "limits": {"cpu": "100"},
                "template": {
                    "metadata": {"labels": {"team": "batch"}},
                    "spec": {
                        "taints": [{"key": "batch", "effect": "NoSchedule"}],
                        "requirements": [
                            {"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": ["m5.xlarge", "x9.unknown"]},
                            {"key": CAPACITY_LABEL, "operator": "In", "values": ["on-demand", "spot"]},
                            {"key": "pg", "operator": "In", "values": ["a", "b"]},
                            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                            {"key": "size", "operator": "Gt", "values": ["1"]},
                        ],
                    },
                },
            },
        }))
        .unwrap();
        NodePool::of(&object).unwrap()
    }

    #[test]
    fn nodes_of_a_pool_have_the_former_names_of_labels() {
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
            "spec": {"template": {"spec": {"requirements": [
                {"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": ["m5.xlarge"]},
            ]}}},
        });
        let pool = NodePool::of(&serde_json::from_value(object).unwrap()).unwrap();
        let comparison = Comparison::by_taints("pg");
        let groups = pool_groups([&pool].into_iter(), &<_>::default(), (&[], &[]), &comparison);
        let expected = [
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/instance-type", "m5.xlarge"),
        ];
        for (key, value) in expected {
            assert_eq!(groups[0].labels.get(key).map(String::as_str), Some(value), "{key}");
        }
    }

    #[test]
    fn an_empty_node_stays_for_the_time_of_its_pool() {
        let unneeded = |disruption: serde_json::Value| {
            let object = json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
                "spec": {"disruption": disruption, "template": {"spec": {
                    "expireAfter": "10h",
                    "requirements": [
                        {"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": ["m5.xlarge"]},
                    ],
                }}},
            });
            let pool = NodePool::of(&serde_json::from_value(object).unwrap()).unwrap();
            let groups = pool_groups(
                [&pool].into_iter(),
                &<_>::default(),
                (&[], &[]),
                &Comparison::by_taints("pg"),
            );
            groups[0].unneeded_seconds
        };
        let after = |text: &str| unneeded(json!({"consolidateAfter": text}));
        assert_eq!(["30s", "1h5m", "0s"].map(after), [Some(30), Some(3_900), Some(0)]);
        assert_eq!(
            [after("Never"), after("soon"), unneeded(json!({}))],
            [Some(36_000), None, None]
        );
        let budget = |budget: serde_json::Value| {
            unneeded(json!({"consolidateAfter": "30s", "budgets": [{"nodes": "10%"}, budget]}))
        };
        let table = [
            (json!({"nodes": "0"}), 36_000),
            (json!({"nodes": "0%", "reasons": ["Drifted", "Empty"]}), 36_000),
            (json!({"nodes": "0", "reasons": ["Underutilized"]}), 30),
            (json!({"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}), 30),
            (json!({"nodes": "1"}), 30),
        ];
        for (case, expected) in table {
            assert_eq!(budget(case.clone()), Some(expected), "{case}");
        }
    }

    #[test]
    fn a_pool_has_one_group_for_each_combination_of_choices() {
        let groups = pool_groups(
            [&pool()].into_iter(),
            &<_>::default(),
            (&[], &[]),
            &Comparison::by_taints("pg"),
        );
        let line = |group: &NodeGroup| {
            let label = |key: &str| group.labels.get(key).cloned().unwrap_or_default();
            format!(
                "{} {} {} {} {}",
                group.name,
                label("pg"),
                label("kubernetes.io/arch"),
                label("team"),
                group.max
            )
        };
        let groups: Vec<String> = groups.iter().map(line).collect();
        assert_eq!(
            groups,
            [
                "batch/m5.xlarge/a a amd64 batch 26",
                "batch/m5.xlarge/b b amd64 batch 26",
                "batch/m5.xlarge/spot/a a amd64 batch 26",
                "batch/m5.xlarge/spot/b b amd64 batch 26",
            ]
        );
    }

    #[test]
    fn the_estimate_is_that_of_karpenters_claim() {
        let claim: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "batch-1", "labels": {INSTANCE_TYPE_LABEL: "m5.xlarge", POOL_LABEL: "batch"}},
            "status": {"capacity": {"cpu": "4", "memory": "15Gi"}, "allocatable": {"cpu": "3900m", "memory": "14Gi"}},
        }))
        .unwrap();
        let claim = NodeClaim::of(&claim).unwrap();
        let groups = pool_groups(
            [&pool()].into_iter(),
            &<_>::default(),
            (&[&claim], &[]),
            &Comparison::by_taints("pg"),
        );
        assert_eq!(groups[0].estimate.map(|estimate| estimate.cpu_millis), Some(3_900));
        assert_eq!(groups[0].capacity.cpu_millis, 4_000);
    }

    /// Overlays by name, each with the capacity that it adds for some instance types, and its
    /// weight.
    fn overlays(all: &[(&str, &[&str], i32)]) -> BTreeMap<Key, NodeOverlay> {
        let overlay = |(at, (capacity, types, weight)): (usize, &(&str, &[&str], i32))| {
            let requirement =
                json!({"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": types});
            let capacity: serde_json::Value = base::input::parse(capacity, "capacity").unwrap();
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "a"},
                "spec": {"requirements": [requirement], "capacity": capacity, "weight": weight},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .unwrap();
            let key = Key { namespace: String::new(), name: at.to_string() };
            (key, NodeOverlay::of(&object).unwrap())
        };
        all.iter().enumerate().map(overlay).collect()
    }

    /// Checks the devices and the accelerators of a new node of a pool that launches a type, with
    /// these overlays.
    #[track_caller]
    fn check_added(all: &[(&str, &[&str], i32)], name: &str, devices: &[(&str, &str)], gpus: u64) {
        let pool = pool_of("batch", &[(INSTANCE_TYPE_LABEL, vec![name.to_owned()])]);
        let overlays = overlays(all);
        let comparison = Comparison::by_taints("pg");
        let groups = pool_groups([&pool].into_iter(), &overlays, (&[], &[]), &comparison);
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        assert_eq!(groups[0].resources, devices.iter().map(pair).collect(), "{all:?}");
        assert_eq!(groups[0].capacity.accelerators, gpus, "{all:?}");
    }

    #[test]
    fn overlays_add_resources_to_the_nodes_of_their_types() {
        let here: &[&str] = &["m5.xlarge"];
        let (fuse, none) = ([("example.com/fuse", "3")], []);
        check_added(&[("{example.com/fuse: 3}", here, 1)], "m5.xlarge", &fuse, 0);
        check_added(&[("{example.com/fuse: 3}", here, 1)], "m5.large", &none, 0);
        // Of each resource, the overlay with the largest weight counts.
        let both = [
            ("{example.com/fuse: 1, example.com/fpga: 2}", here, 1),
            ("{example.com/fuse: 3}", here, 2),
        ];
        let of_both = [("example.com/fpga", "2"), ("example.com/fuse", "3")];
        check_added(&both, "m5.xlarge", &of_both, 0);
        // Accelerators are no devices.
        check_added(&[("{nvidia.com/gpu: 1}", here, 1)], "m5.xlarge", &none, 1);
        check_added(&[("{nvidia.com/gpu: 4}", &["g5.xlarge"], 1)], "g5.xlarge", &none, 4);
        // Some types have adapters of their own.
        check_added(&[], "p5.48xlarge", &[(EFA, "32")], 8);
    }

    #[test]
    fn the_types_of_a_group_have_in_common_the_least_that_overlays_add() {
        let overlays = overlays(&[
            ("{example.com/fuse: 3, example.com/fpga: 1}", &["m5.xlarge"], 1),
            ("{example.com/fuse: 2}", &["m5.large"], 1),
        ]);
        let types = ["m5.xlarge", "m5.large"].map(str::to_owned);
        let expected = [("example.com/fuse".to_owned(), 2)].into();
        assert_eq!(added(&overlays, &BTreeMap::new(), &types), expected);
    }

    /// A pool with these requirements.
    fn pool_of(name: &str, requirements: &[(&str, Vec<String>)]) -> NodePool {
        let requirements: Vec<_> = requirements
            .iter()
            .map(|(key, values)| json!({"key": key, "operator": "In", "values": values}))
            .collect();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"template": {"spec": {"requirements": requirements}}},
        }))
        .unwrap();
        NodePool::of(&object).unwrap()
    }

    fn some(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        let owned: Vec<String> = of.iter().map(ToString::to_string).collect();
        proptest::sample::subsequence(owned, 1..=of.len())
    }

    proptest! {
        /// The name of a group has all that distinguishes it from others.
        #[test]
        fn no_two_groups_have_one_name(
            types in some(&["m5.xlarge", "m5.2xlarge", "g5.xlarge"]),
            bought in some(&["on-demand", "spot", "reserved"]),
            placed in some(&["a", "spot", "reserved", "on-demand"]),
            with_placement in any::<bool>(),
        ) {
            let mut requirements = vec![(INSTANCE_TYPE_LABEL, types.clone()), (CAPACITY_LABEL, bought.clone())];
            if with_placement {
                requirements.push(("pg", placed.clone()));
            }
            let pools = [pool_of("batch", &requirements), pool_of("other", &requirements)];
            let groups = pool_groups(pools.iter(), &<_>::default(), (&[], &[]), &Comparison::by_taints("pg"));
            let places = if with_placement { placed.len() } else { 1 };
            prop_assert_eq!(groups.len(), 2 * types.len() * bought.len() * places);
            let names: BTreeSet<&String> = groups.iter().map(|group| &group.name).collect();
            prop_assert_eq!(names.len(), groups.len());
        }
    }

    #[test]
    fn a_startup_taint_of_a_pool_passes_unless_nodes_keep_it() {
        let pool = |passing: &str, kept: &str| {
            let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
                "spec": {"template": {"spec": {"taints": taint(kept), "startupTaints": taint(passing)}}},
            }))
            .unwrap();
            NodePool::of(&object).unwrap()
        };
        let pools = [pool("cilium", "team"), pool("ebs", "cilium"), pool("ebs", "team")];
        assert_eq!(startup_taints(pools.iter()), ["ebs".to_owned()].into());
    }

    #[test]
    fn a_pool_leaves_out_the_types_that_its_other_requirements_exclude() {
        let list = |values: &[&str]| values.iter().map(ToString::to_string).collect();
        let requirements = [
            (INSTANCE_TYPE_LABEL, list(&["m5.xlarge", "g5.xlarge"])),
            ("karpenter.k8s.aws/instance-category", list(&["g"])),
        ];
        let groups = pool_groups(
            [&pool_of("batch", &requirements)].into_iter(),
            &<_>::default(),
            (&[], &[]),
            &Comparison::by_taints("pg"),
        );
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["batch/g5.xlarge"]);
    }
}
