//! What a pod needs of a node beyond the resources that are counted: extended resources other than
//! its accelerators, huge pages, and `ResourceClaims`.
//!
//! Only the names matter. A bucket either offers a resource or it does not, and no bucket offers
//! `ResourceClaims`, because their devices are not read.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::PodSpec;
use super::quantity::units;

/// One thing that a pod needs beyond the resources that are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// A resource of this name.
    Resource(String),
    /// A `ResourceClaim` with this name in the pod.
    Claim(String),
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resource(name) => f.write_str(name),
            Self::Claim(name) => write!(f, "ResourceClaim {name}"),
        }
    }
}

/// The resources that are counted, besides the accelerators of one kind.
const COUNTED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Returns what a pod needs beyond the resources that are counted. `kind` is the kind of its
/// accelerators.
pub(super) fn needed(spec: &PodSpec, kind: &str) -> BTreeSet<Device> {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let requested = containers
        .map(|container| &container.resources.requests)
        .chain([&spec.resources.requests, &spec.overhead])
        .flat_map(|requests| others(requests, kind));
    let claims = spec.resource_claims.iter().map(|claim| Device::Claim(claim.name.clone()));
    requested.map(Device::Resource).chain(claims).collect()
}

/// Returns the names of the resources that quantities contain beyond those that are counted.
pub(crate) fn others<'a>(
    quantities: &'a BTreeMap<String, String>,
    kind: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let other = move |name: &str| name != kind && !COUNTED.contains(&name);
    let some = |quantity: &str| units(quantity).unwrap_or(0) > 0;
    let found = quantities.iter().filter(move |(name, quantity)| other(name) && some(quantity));
    found.map(|(name, _)| name.clone())
}
