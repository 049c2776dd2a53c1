//! Groups of nodes as their source tells of them: an Auto Scaling group, an instance type of a Karpenter `NodePool`, or live
//! nodes that are alike. What they have in common, before buckets are made of them.

use std::collections::BTreeMap;

use embedder::{AcceleratorKind, CapacityType, MicroDollars, Resources};

/// One Auto Scaling group, or what takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// Its name, unique in its source.
    pub name: String,
    /// The instance type that cluster-autoscaler would start: the first override of a mixed-instances policy.
    pub instance_type: String,
    /// How its instances are bought.
    pub capacity_type: CapacityType,
    /// The AWS placement group that its instances start in.
    pub placement_group: Option<String>,
    /// The zone, where there is just one.
    pub zone: Option<String>,
    /// The fewest instances.
    pub min: u64,
    /// The most instances.
    pub max: u64,
    /// Instances asked for now.
    pub desired: u64,
    /// The labels that a new node of it is known to have, by its node-template tags and by what every node has.
    pub labels: BTreeMap<String, String>,
    /// The taints of a new node of it.
    pub taints: Vec<Taint>,
    /// What an instance has, before the kubelet keeps its part.
    pub capacity: Resources,
    /// The kind of its accelerators.
    pub accelerator_kind: AcceleratorKind,
    /// Allocatable resources that its tags give, by resource name and Kubernetes quantity: they override what is computed.
    pub resources: BTreeMap<String, String>,
    /// What the autoscaler itself reckons that pods can have of a node, where it is known: nothing larger would be placed.
    pub estimate: Option<Resources>,
    /// The price of an instance for an hour, where the source knows it.
    pub hourly: Option<MicroDollars>,
}

/// A node's taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, empty where there is none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}
