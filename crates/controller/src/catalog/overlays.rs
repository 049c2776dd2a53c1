//! Karpenter's overlays of an instance type: which of them hold, and what they add to its nodes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::labels::INSTANCE_TYPE_LABEL;
use super::type_labels::labels_of_type;
use crate::observe::{Key, NodeOverlay};

/// The overlays whose requirements a node of an instance type with the labels of its group meets,
/// the one with the largest weight first, of equal ones the one with the last name
/// (`OrderByWeight` of Karpenter's overlays).
pub(super) fn applying<'a>(
    overlays: &'a BTreeMap<Key, NodeOverlay>,
    group_labels: &BTreeMap<String, String>,
    instance_type: &str,
) -> Vec<&'a NodeOverlay> {
    if overlays.is_empty() {
        return Vec::new();
    }
    let mut labels = labels_of_type(instance_type, false);
    labels.extend(labels_of_type(instance_type, true));
    labels.insert(INSTANCE_TYPE_LABEL.to_owned(), instance_type.to_owned());
    labels.extend(group_labels.clone());
    let applies = |overlay: &&NodeOverlay| {
        overlay.choices.iter().all(|(key, choice)| match labels.get(key) {
            Some(value) => choice.allows(value),
            None => choice.allows_none(),
        })
    };
    let mut applying: Vec<&NodeOverlay> = overlays.values().rev().filter(applies).collect();
    applying.sort_by_key(|overlay| Reverse(overlay.weight));
    applying
}

/// The resources that overlays add to every node of one of these instance types: of each type those
/// of the overlay with the largest weight that names the resource, and of several types the least.
pub(super) fn added(
    overlays: &BTreeMap<Key, NodeOverlay>,
    group_labels: &BTreeMap<String, String>,
    instance_types: &[String],
) -> BTreeMap<String, u64> {
    let of_type = |name: &String| {
        let mut added: BTreeMap<String, u64> = BTreeMap::new();
        for (name, amount) in
            applying(overlays, group_labels, name).into_iter().flat_map(|one| &one.capacity)
        {
            added.entry(name.clone()).or_insert(*amount);
        }
        added
    };
    let all = instance_types.iter().map(of_type);
    let least = |least: BTreeMap<String, u64>, next: BTreeMap<String, u64>| {
        let both = least.into_iter().filter_map(|(name, amount)| {
            let amount = amount.min(*next.get(&name)?);
            Some((name, amount))
        });
        both.collect()
    };
    all.reduce(least).unwrap_or_default()
}
