//! What a pod needs of a node beyond the resources that every node has: extended resources other
//! than its accelerators, huge pages, and `ResourceClaims`.
//!
//! No bucket offers `ResourceClaims`, because their devices are not read.

use std::collections::BTreeMap;

use base::quantity::units;

use super::objects::PodSpec;

/// One thing that a pod needs beyond the resources that every node has.
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

/// The resources of [`embedder::Resources`], besides the accelerators of one kind and devices.
const COUNTED: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Returns the devices of a pod with their amounts. `requested` has its requests beyond the
/// resources that every node has.
pub(super) fn needed(spec: &PodSpec, requested: BTreeMap<String, u64>) -> BTreeMap<Device, u64> {
    let claims = spec.resource_claims.iter().map(|claim| (Device::Claim(claim.name.clone()), 1));
    let resources = requested.into_iter().map(|(name, amount)| (Device::Resource(name), amount));
    resources.chain(claims).collect()
}

/// Returns the positive amounts of resources that quantities contain beyond those that every node
/// has, by name, in whole units. `kind` is the kind of accelerators, which are left out.
pub(crate) fn amounts<'a>(
    quantities: &'a BTreeMap<String, String>,
    kind: &'a str,
) -> impl Iterator<Item = (String, u64)> + 'a {
    let others = quantities
        .iter()
        .filter(move |(name, _)| *name != kind && !COUNTED.contains(&name.as_str()));
    let positive = |(name, quantity): (&String, &String)| {
        units(quantity).filter(|amount| *amount > 0).map(|amount| (name.clone(), amount))
    };
    others.filter_map(positive)
}
