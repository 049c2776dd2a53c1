//! Groups of nodes in one form for all sources, from which the buckets are built.
//!
//! A source is an Auto Scaling group, an instance type of a Karpenter `NodePool`, or live nodes of
//! one kind.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{AcceleratorKind, CapacityType, MicroDollars, Resources};

use crate::observe::{Choice, Taint};

/// The instance types of a group beyond its first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OtherTypes {
    /// The group launches one instance type.
    #[default]
    None,
    /// The group launches these types, too, which have the size of the first.
    SameSize(BTreeSet<String>),
    /// The group launches these types, too, of which one or more have another size than the first.
    OtherSizes(BTreeSet<String>),
}

impl OtherTypes {
    /// The instance types beyond the first.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        let names = match self {
            Self::None => None,
            Self::SameSize(others) | Self::OtherSizes(others) => Some(others),
        };
        names.into_iter().flatten()
    }
}

/// What launches the nodes of a group, and so decides by which description of a node a pod fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchedBy {
    /// cluster-autoscaler, from the description of the instance type while the group has no nodes.
    ClusterAutoscaler,
    /// Karpenter, from its own estimate of the instance type.
    Karpenter,
    /// An autoscaler whose description is not known. The group is known by its live nodes.
    #[default]
    Unknown,
    /// Nothing: the nodes that the group has are room for pods, and no pending pod brings another.
    Nothing,
}

/// The pool of a group. Its limits bound the nodes of all its groups together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The name of the pool.
    pub name: String,
    /// The most that all nodes of the pool have together, by the name of the resource: `cpu` in
    /// thousandths of a core, `nodes` the number of nodes, any other in whole units.
    pub limits: BTreeMap<String, u64>,
    /// What one node of the group has of these resources.
    pub of_node: BTreeMap<String, u64>,
}

/// One Auto Scaling group, or its equivalent in another source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// The group's name, unique in its source.
    pub name: String,
    /// The instance type that cluster-autoscaler assumes: of a mixed-instances policy, the first
    /// override's.
    pub instance_type: String,
    /// The name of the size class, if the group launches any type of one. Its bucket has this name
    /// in place of the instance type's.
    pub size_class: Option<String>,
    /// The other instance types that the group launches. If they have other sizes, placeholders
    /// have the size of the first, as cluster-autoscaler assumes, or of the smallest node that
    /// came.
    pub other_types: OtherTypes,
    /// What launches its nodes.
    pub launched_by: LaunchedBy,
    /// How its instances are bought.
    pub capacity_type: CapacityType,
    /// The AWS placement group that its instances start in.
    pub placement_group: Option<String>,
    /// The zone, if all instances start in one.
    pub zone: Option<String>,
    /// The minimum number of instances.
    pub min: u64,
    /// The maximum number of instances.
    pub max: u64,
    /// The desired number of instances now.
    pub desired: u64,
    /// The IDs of its present instances, if the source lists them. Nodes of these instances belong
    /// to the group.
    pub instances: BTreeSet<String>,
    /// Whether the source describes the labels and taints of a new node. Otherwise only live nodes
    /// show them.
    pub described: bool,
    /// The known labels of a new node: those of the group's node-template tags, and those that
    /// every node has.
    pub labels: BTreeMap<String, String>,
    /// The labels of a new node whose value is not fixed, with the values that each may have. A
    /// pod may select any of them.
    pub choices: BTreeMap<String, Choice>,
    /// The taints of a new node.
    pub taints: Vec<Taint>,
    /// The capacity of an instance, before the kubelet's reservation.
    pub capacity: Resources,
    /// The kind of the instance's accelerators.
    pub accelerator_kind: AcceleratorKind,
    /// The limit that the nodes of this group and of others share, if there is one.
    pub pool: Option<Pool>,
    /// Allocatable resources from tags, as Kubernetes quantities by resource name. They override
    /// the computed resources.
    pub resources: BTreeMap<String, String>,
    /// The autoscaler's own estimate of a node's allocatable resources, if known. The autoscaler
    /// launches no node for a pod that is larger.
    pub estimate: Option<Resources>,
    /// The price of an instance per hour, if the source has it.
    pub hourly: Option<MicroDollars>,
    /// How long a node must be unneeded before the autoscaler removes it, in seconds, if the source
    /// has it.
    pub unneeded_seconds: Option<i64>,
    /// How strongly the autoscaler prefers the group: see [`embedder::Group::weight`].
    pub weight: u64,
    /// Whether the group may have a warm pool whose size is set by the API of Auto Scaling.
    pub may_have_warm_pool: bool,
}

impl NodeGroup {
    /// The group of a size class with those of its instance types that are kept. `None` if there is
    /// none.
    pub fn with_types(mut self, keep: impl Fn(&String) -> bool) -> Option<Self> {
        let mut kept: BTreeSet<String> =
            self.instance_types().filter(|&n| keep(n)).cloned().collect();
        if !kept.remove(&self.instance_type) {
            self.instance_type = kept.pop_first()?;
        }
        self.other_types =
            if kept.is_empty() { OtherTypes::None } else { OtherTypes::SameSize(kept) };
        Some(self)
    }

    /// The names of the instance types that the group launches.
    pub fn instance_types(&self) -> impl Iterator<Item = &String> {
        [&self.instance_type].into_iter().chain(self.other_types.names())
    }
}

#[cfg(test)]
impl NodeGroup {
    /// A group for tests: at most nine on-demand nodes, which cluster-autoscaler launches, without
    /// labels, taints and tags.
    pub(crate) fn of_type(name: &str, instance_type: &str, capacity: Resources) -> Self {
        Self {
            name: name.into(),
            instance_type: instance_type.into(),
            size_class: None,
            other_types: OtherTypes::None,
            launched_by: LaunchedBy::ClusterAutoscaler,
            capacity_type: CapacityType::OnDemand,
            placement_group: None,
            zone: None,
            min: 0,
            max: 9,
            desired: 0,
            instances: BTreeSet::new(),
            described: true,
            labels: BTreeMap::new(),
            choices: BTreeMap::new(),
            taints: Vec::new(),
            capacity,
            accelerator_kind: AcceleratorKind::default(),
            pool: None,
            resources: BTreeMap::new(),
            estimate: None,
            hourly: None,
            unneeded_seconds: None,
            weight: 0,
            may_have_warm_pool: false,
        }
    }
}
