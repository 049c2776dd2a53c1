//! What is left of the instances that are paid whether they run or not.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use embedder::CapacityType;
use instances::{PriceRules, Purchase};
use placeholders::{GroupStanding, Prepaid, SharedLimit, Standing};

use super::View;
use crate::catalog::{INSTANCE_TYPE_LABEL, Offers, capacity_type};
use crate::observe::{CAPACITY_LABEL, Index, ZONE_LABEL};

/// What one or several rules count together: instances of a type, bought in one way, in one zone or
/// in any.
#[derive(PartialEq)]
struct Kind<'a> {
    instance_type: &'a String,
    zone: Option<&'a String>,
    purchase: Option<Purchase>,
}

impl Kind<'_> {
    /// Whether a node with these labels is such an instance. `instance_types` are those that it may
    /// have.
    fn covers<'b>(
        &self,
        mut instance_types: impl Iterator<Item = &'b String>,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let reserved = labels.get(CAPACITY_LABEL).is_some_and(|label| label == "reserved");
        let is_one = instance_types.next() == Some(self.instance_type);
        is_one
            && instance_types.next().is_none()
            && self.zone.is_none_or(|zone| labels.get(ZONE_LABEL) == Some(zone))
            && capacity_type(labels) != Some(CapacityType::Spot)
            && self.purchase.is_none_or(|purchase| (purchase == Purchase::Reserved) == reserved)
    }
}

/// The instances that the rules count, with their number: those that are still paid of rules of one
/// kind together.
fn counted(rules: &PriceRules, now: DateTime<Utc>) -> Vec<(Kind<'_>, u64)> {
    let mut counted: Vec<(Kind<'_>, u64)> = Vec::new();
    for rule in &rules.0 {
        let (Some(count), Some(instance_type)) = (rule.prepaid, &rule.instance_type) else {
            continue;
        };
        let count = if rule.until.is_none_or(|until| now < until) { count } else { 0 };
        let kind = Kind { instance_type, zone: rule.zone.as_ref(), purchase: rule.capacity_type };
        match counted.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => counted.push((kind, count)),
        }
    }
    counted
}

impl View {
    /// Adds what is left of the instances that are paid anyway to `standing`: those that the rules
    /// count, less the nodes of which pods need one, and less the placeholders of older policies,
    /// of which `taken` has the number by instance type. A group counts for the first rule that
    /// covers it. Of reserved capacity that a rule counts, no more is launched.
    pub fn note_prepaid(
        &self,
        index: &Index,
        offers: &Offers,
        (rules, taken): (&PriceRules, &BTreeMap<String, u64>),
        now: DateTime<Utc>,
        standing: &mut Standing,
    ) {
        let mut owned = BTreeSet::new();
        for (kind, count) in counted(rules, now) {
            let mut groups = BTreeSet::new();
            for (bucket, of_bucket) in offers.groups.iter().enumerate() {
                for (at, offer) in of_bucket.iter().enumerate() {
                    let covers = kind.covers(offer.instance_types.iter(), &offer.labels);
                    if covers && owned.insert((bucket, at)) {
                        groups.insert((bucket, at));
                    }
                }
            }
            if groups.is_empty() {
                continue;
            }
            let of_groups = groups.iter().map(|&(bucket, at)| {
                let GroupStanding { occupied, unusable, .. } = standing.buckets[bucket][at];
                occupied.saturating_add(unusable)
            });
            let others = index.nodes().iter().filter(|(id, slot, facts)| {
                let here = self.places[*id].is_some_and(|place| groups.contains(&place));
                let instance_type = facts.labels.get(INSTANCE_TYPE_LABEL);
                !here
                    && slot.placeholders == 0
                    && kind.covers(instance_type.into_iter(), &facts.labels)
            });
            let others = u64::try_from(others.count()).unwrap_or(u64::MAX);
            let taken = taken.get(kind.instance_type).copied().unwrap_or(0);
            let used = of_groups.fold(others.saturating_add(taken), u64::saturating_add);
            let left = count.saturating_sub(used);
            if kind.purchase == Some(Purchase::Reserved) {
                let groups = groups.iter().map(|&group| (group, vec![1])).collect();
                standing.shared.push(SharedLimit { left: vec![left], groups });
            }
            standing.prepaid.push(Prepaid { left, groups });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::tests::{index, node, offers, placeholder, pod, seen_of};
    use super::*;

    /// What is left of prepaid instances, with what reserved capacity leaves, for the rules, in
    /// YAML. One node runs a batch pod, another one a placeholder, and a third one is in no group.
    /// The group of the offers is reserved capacity if `reserved`.
    #[track_caller]
    fn check(rules: &str, reserved: bool, prepaid: &[u64], shared: &[u64]) {
        check_beside(0, rules, reserved, prepaid, shared);
    }

    /// The same, beside so many placeholders of older policies.
    #[track_caller]
    fn check_beside(taken: u64, rules: &str, reserved: bool, prepaid: &[u64], shared: &[u64]) {
        let bought = if reserved { "reserved" } else { "on-demand" };
        let labels = [(CAPACITY_LABEL, bought), ("pool", "batch")];
        let mut offers = (*offers()).clone();
        let offer = &mut offers.groups[0][0];
        for (key, value) in labels {
            offer.labels.insert(key.to_owned(), value.to_owned());
            offer.pins.insert(key.to_owned(), value.to_owned());
        }
        let offers = Arc::new(offers);
        let of_pool = |name: &str, pool: &str| {
            let mut node = node(name, &json!({}));
            node["metadata"]["labels"][CAPACITY_LABEL] = bought.into();
            node["metadata"]["labels"]["pool"] = pool.into();
            node
        };
        let nodes = [of_pool("a", "batch"), of_pool("b", "batch"), of_pool("c", "web")];
        let pods = [pod("job", "jobs", "a"), placeholder("b")];
        let mut seen = seen_of(&offers, &nodes, &pods);
        let index = index(&nodes, &pods);
        let mut view = View::default();
        view.refresh(&index, &offers);
        let rules = PriceRules::parse(&format!("prices: [{rules}]"), "rules").unwrap();
        let now = DateTime::from_timestamp(1_000, 0).unwrap();
        let taken = [("m5.xlarge".to_owned(), taken)].into();
        view.note_prepaid(&index, &offers, (&rules, &taken), now, &mut seen.standing);
        let left: Vec<u64> = seen.standing.prepaid.iter().map(|of| of.left).collect();
        let limits: Vec<u64> = seen.standing.shared.iter().map(|of| of.left[0]).collect();
        assert_eq!((left.as_slice(), limits.as_slice()), (prepaid, shared), "{rules:?}");
    }

    #[test]
    fn what_no_pod_needs_is_left() {
        check("{instanceType: m5.xlarge, prepaid: 4}", false, &[2], &[]);
        check("{instanceType: m5.xlarge, prepaid: 1}", false, &[0], &[]);
        check("{instanceType: m5.large, prepaid: 4}", false, &[], &[]);
        check("{instanceType: m5.xlarge, capacityType: on-demand, prepaid: 4}", false, &[2], &[]);
        check("{instanceType: m5.xlarge, zone: a, prepaid: 4}", false, &[], &[]);
        check("{instanceType: m5.xlarge, percent: 50}", false, &[], &[]);
        let until = |time: &str| format!("{{instanceType: m5.xlarge, prepaid: 4, until: {time}}}");
        check(&until("1970-01-01T00:16:41Z"), false, &[2], &[]);
        check(&until("1970-01-01T00:16:40Z"), false, &[0], &[]);
        check_beside(1, "{instanceType: m5.xlarge, prepaid: 4}", false, &[1], &[]);
        // Rules of one kind count together, and a group is for the first kind that covers it.
        let ended = until("1970-01-01T00:16:40Z");
        let two = "{instanceType: m5.xlarge, prepaid: 4}, {instanceType: m5.xlarge, prepaid: 3}";
        check(&format!("{two}, {ended}"), false, &[5], &[]);
        let other = "{instanceType: m5.xlarge, capacityType: on-demand, prepaid: 9}";
        check(&format!("{two}, {other}"), false, &[5], &[]);
    }

    #[test]
    fn no_more_reserved_capacity_is_launched_than_there_is() {
        check("{instanceType: m5.xlarge, capacityType: reserved, prepaid: 4}", true, &[2], &[2]);
        check("{instanceType: m5.xlarge, capacityType: reserved, prepaid: 4}", false, &[], &[]);
        check("{instanceType: m5.xlarge, capacityType: on-demand, prepaid: 4}", true, &[], &[]);
        check("{instanceType: m5.xlarge, prepaid: 4}", true, &[2], &[]);
        let ended = "{instanceType: m5.xlarge, capacityType: reserved, prepaid: 4, until: 1970-01-01T00:00:00Z}";
        check(ended, true, &[0], &[0]);
        let next = ended.replace("1970", "1971");
        check(&format!("{ended}, {next}"), true, &[2], &[2]);
    }
}
