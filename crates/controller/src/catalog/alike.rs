//! Which groups of nodes are alike for pods, so that they are one bucket.
//!
//! Groups of one instance type and capacity type are one bucket unless a pod can be admitted by one
//! of them and not by another: because of their kind of accelerators, a taint, or a label by which
//! pods select nodes. Zones and placement groups do not count, because placeholders are dealt over
//! them within a bucket.

use std::collections::{BTreeMap, BTreeSet};

use embedder::{AcceleratorKind, CapacityType};
use instances::is_size_class;

use super::labels::ZONE_LABELS;
use crate::observe::{Taint, is_passing};

/// The label of a node's name, which never divides a bucket.
const HOST_NAME: &str = "kubernetes.io/hostname";

/// How groups of nodes are compared.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The node label that distinguishes placement groups.
    pub placement_group_label: &'a str,
    /// The keys of taints that nodes have only until they are set up.
    pub startup_taints: &'a BTreeSet<String>,
    /// The keys of the labels by which pods select nodes.
    pub selected_labels: &'a BTreeSet<String>,
    /// The parts that names of buckets had before, each after the name without parts and a slash.
    /// They stay in the names, so that a bucket keeps its name while its siblings have no nodes.
    /// Also the names of the size classes that pools without a list of instance types launch.
    pub named_parts: &'a BTreeSet<String>,
}

impl<'a> Comparison<'a> {
    /// A comparison without startup taints, for pods that select nodes by no label.
    pub fn by_taints(placement_group_label: &'a str) -> Self {
        static NONE: BTreeSet<String> = BTreeSet::new();
        Self {
            placement_group_label,
            startup_taints: &NONE,
            selected_labels: &NONE,
            named_parts: &NONE,
        }
    }

    /// The size classes that pools without a list of instance types launch.
    pub(super) fn size_classes(&self) -> impl Iterator<Item = &'a str> {
        self.named_parts.iter().map(String::as_str).filter(|name| is_size_class(name))
    }

    /// What distinguishes a group from others of its instance type and capacity type, as parts of
    /// its bucket's name: the kind of accelerators, the labels as `KEY=VALUE`, and the taints as
    /// kubectl prints them, `KEY=VALUE:EFFECT` or `KEY:EFFECT`. Two groups with equal parts are
    /// alike.
    pub(super) fn parts(
        &self,
        kind: &AcceleratorKind,
        labels: &BTreeMap<String, String>,
        taints: &[Taint],
    ) -> Vec<String> {
        let selected = self.selected_labels.iter().filter(|key| self.divides(key));
        let labels =
            selected.filter_map(|key| Some(format!("{key}={}", labels.get(key.as_str())?)));
        let taints: BTreeSet<String> =
            taints.iter().filter(|taint| self.keeps_off(taint)).map(ToString::to_string).collect();
        [kind.to_string()].into_iter().chain(labels).chain(taints).collect()
    }

    /// Whether groups that differ in a label may be different buckets.
    pub(super) fn divides(&self, key: &str) -> bool {
        key != self.placement_group_label && key != HOST_NAME && !ZONE_LABELS.contains(&key)
    }

    /// Whether a taint belongs to the nodes of a group, and keeps pods off them.
    pub(super) fn keeps_off(&self, taint: &Taint) -> bool {
        taint.effect != "PreferNoSchedule"
            && !is_passing(&taint.key)
            && !self.startup_taints.contains(&taint.key)
    }
}

/// The names of buckets, or of groups of live nodes, from their names without parts and their
/// parts. A name has the parts that not all with the same name share, and those in `named`. So the
/// name of a bucket that never had siblings has none.
pub(super) fn names(all: &[(String, Vec<String>)], named: &BTreeSet<String>) -> Vec<String> {
    let shared = |name: &str, part: &String| {
        all.iter().filter(|(other, _)| other == name).all(|(_, parts)| parts.contains(part))
    };
    let name = |(name, parts): &(String, Vec<String>)| {
        let before = |part: &String| named.contains(&format!("{name}/{part}"));
        let own = parts.iter().filter(|part| before(part) || !shared(name, part));
        let own: Vec<&str> = own.map(String::as_str).collect();
        if own.is_empty() { name.clone() } else { format!("{name}/{}", own.join(",")) }
    };
    all.iter().map(name).collect()
}

/// The parts of a bucket's name, each after the name without parts and a slash; and its size class,
/// if it is one of a size class.
pub fn named_parts(bucket: &str) -> impl Iterator<Item = String> + '_ {
    let parts = embedder::parts_of_name(bucket).split(',').filter(|part| !part.is_empty());
    let parts = parts.map(|part| format!("{}/{part}", embedder::plain_name(bucket)));
    let size = bucket.split('/').take(1).filter(|name| is_size_class(name));
    parts.chain(size.map(str::to_owned))
}

/// The name of a bucket without parts.
pub(super) fn plain_name(instance_type: &str, capacity_type: CapacityType) -> String {
    match capacity_type {
        CapacityType::OnDemand => instance_type.into(),
        CapacityType::Spot => format!("{instance_type}/spot"),
    }
}

/// The key of the label in one of [`named_parts`], if the part is one of a label.
pub fn label_of_part(named: &str) -> Option<&str> {
    let part = embedder::parts_of_name(named);
    part.split_once('=').filter(|_| !part.contains(':')).map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the names of these names and parts.
    #[track_caller]
    fn check(all: &[(&str, &[&str])], named: &[&str], expected: &[&str]) {
        let owned = |parts: &[&str]| parts.iter().map(ToString::to_string).collect();
        let all: Vec<(String, Vec<String>)> =
            all.iter().map(|(name, parts)| (name.to_string(), owned(parts))).collect();
        let named = named.iter().map(ToString::to_string).collect();
        assert_eq!(names(&all, &named), expected);
    }

    #[test]
    fn a_name_has_the_parts_that_its_siblings_lack() {
        let alone: &[(&str, &[&str])] = &[("m5.xlarge", &["gpu", "team=a", "web:NoSchedule"])];
        check(alone, &[], &["m5.xlarge"]);
        // The sibling that differs has no nodes at the moment.
        check(alone, &["m5.xlarge/team=a"], &["m5.xlarge/team=a"]);
        check(alone, &["m5.2xlarge/team=a"], &["m5.xlarge"]);
        check(
            &[("m5.xlarge", &["gpu"]), ("m5.xlarge", &["gpu", "web:NoSchedule"])],
            &[],
            &["m5.xlarge", "m5.xlarge/web:NoSchedule"],
        );
        check(
            &[
                ("m5.xlarge", &["gpu", "team=a", "x:NoExecute"]),
                ("m5.xlarge", &["gpu", "team=b", "web=1:NoSchedule", "x:NoExecute"]),
                ("m5.xlarge/spot", &["gpu", "team=b"]),
            ],
            &[],
            &["m5.xlarge/team=a", "m5.xlarge/team=b,web=1:NoSchedule", "m5.xlarge/spot"],
        );
    }

    #[test]
    fn the_labels_of_a_name_can_be_read_from_it() {
        let of = |name| {
            let labels =
                named_parts(name).filter_map(|part| label_of_part(&part).map(String::from));
            labels.collect::<Vec<_>>()
        };
        assert!(of("m5.xlarge").is_empty() && of("m5.xlarge/spot").is_empty());
        assert!(of("p4d.24xlarge/nvidia.com/mig-1g.5gb").is_empty());
        assert_eq!(
            of("m5.xlarge/spot/example.com/pool=a,team=b,web=1:NoSchedule"),
            ["example.com/pool", "team"]
        );
    }
}
