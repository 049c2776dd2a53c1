//! The node labels of instance type, capacity type and zone.

use std::collections::BTreeMap;

use embedder::CapacityType;

pub use crate::observe::INSTANCE_TYPE_LABEL;
use crate::observe::{CAPACITY_LABEL, ZONE_LABEL};

/// Node labels of the capacity type, each with its values for spot and for on demand.
pub(super) const CAPACITY_LABELS: [(&str, &str, &str); 2] = [
    (CAPACITY_LABEL, "spot", "on-demand"),
    ("eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"),
];

/// The node labels of the zone, under their present and former names.
pub(super) const ZONE_LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
    ZONE_LABEL,
];

/// The node labels of the zone whose values are names of zones, such as `us-east-1a`.
pub(super) const ZONE_NAME_LABELS: [&str; 2] =
    [ZONE_LABEL, "failure-domain.beta.kubernetes.io/zone"];

/// The node labels of the region, under their present and former names.
pub(super) const REGION_LABELS: [&str; 2] =
    [REGION_LABEL, "failure-domain.beta.kubernetes.io/region"];

/// The node label of the region.
pub const REGION_LABEL: &str = "topology.kubernetes.io/region";

/// The labels of spot nodes, as key and value.
pub fn spot_labels() -> impl Iterator<Item = (&'static str, &'static str)> {
    CAPACITY_LABELS.into_iter().map(|(key, spot, _)| (key, spot))
}

/// Whether a label gives the capacity type of a node.
pub fn is_capacity_label(key: &str) -> bool {
    CAPACITY_LABELS.iter().any(|(label, ..)| *label == key)
}

/// The capacity type in a node's labels. `None` if no label gives it.
pub fn capacity_type(labels: &BTreeMap<String, String>) -> Option<CapacityType> {
    CAPACITY_LABELS.iter().find_map(|(key, spot, on_demand)| {
        let value = labels.get(*key)?;
        (value == spot)
            .then_some(CapacityType::Spot)
            .or_else(|| (value == on_demand).then_some(CapacityType::OnDemand))
    })
}
