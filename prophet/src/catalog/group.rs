//! Groups of nodes in one form for all sources, from which the buckets are built.
//!
//! A source is an Auto Scaling group, an instance type of a Karpenter `NodePool`, or live nodes of
//! one kind.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{AcceleratorKind, CapacityType, MicroDollars, Resources};

use crate::observe::Taint;

/// The instance types of a group beyond its first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OtherTypes {
    /// The group launches one instance type.
    #[default]
    None,
    /// The group launches these types, too, which have the size of the first.
    SameSize(BTreeSet<String>),
    /// The group launches types of other sizes.
    OtherSizes,
}

/// One Auto Scaling group, or its equivalent in another source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// The group's name, unique in its source.
    pub name: String,
    /// The instance type that cluster-autoscaler assumes: of a mixed-instances policy, the first
    /// override's.
    pub instance_type: String,
    /// The other instance types that the group launches. They have the same size as the first.
    /// Otherwise the group is left out, because its placeholders would have no single size.
    pub other_types: OtherTypes,
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
    /// The taints of a new node.
    pub taints: Vec<Taint>,
    /// The capacity of an instance, before the kubelet's reservation.
    pub capacity: Resources,
    /// The kind of the instance's accelerators.
    pub accelerator_kind: AcceleratorKind,
    /// Allocatable resources from tags, as Kubernetes quantities by resource name. They override
    /// the computed resources.
    pub resources: BTreeMap<String, String>,
    /// The autoscaler's own estimate of a node's allocatable resources, if known. The autoscaler
    /// launches no node for a pod that is larger.
    pub estimate: Option<Resources>,
    /// The price of an instance per hour, if the source has it.
    pub hourly: Option<MicroDollars>,
}
