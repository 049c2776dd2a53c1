//! What is left of the instances that are paid whether they run or not.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use embedder::CapacityType;
use instances::{PriceRules, Purchase};
use placeholders::{GroupStanding, Prepaid, SharedLimit, Standing};

use super::View;
use crate::catalog::{INSTANCE_TYPE_LABEL, Offer, Offers, capacity_type};
use crate::observe::{CAPACITY_LABEL, Index, ZONE_LABEL};

impl View {
    /// Adds what is left of the instances that are paid anyway to `standing`: each rule that counts
    /// such instances, less the nodes of its type that placeholders cannot use, and the nodes that
    /// are in no group on offer to the policy. Of reserved capacity, no more than that is launched.
    pub fn note_prepaid(
        &self,
        index: &Index,
        offers: &Offers,
        rules: &PriceRules,
        now: DateTime<Utc>,
        standing: &mut Standing,
    ) {
        for rule in &rules.0 {
            let (Some(count), Some(instance_type)) = (rule.prepaid, &rule.instance_type) else {
                continue;
            };
            let reserved_only = rule.capacity_type == Some(Purchase::Reserved);
            let is_bought = |labels: &BTreeMap<String, String>| {
                let label = labels.get(CAPACITY_LABEL).map(String::as_str);
                let is_zone = |zone: &String| labels.get(ZONE_LABEL) == Some(zone);
                rule.zone.as_ref().is_none_or(is_zone)
                    && capacity_type(labels) != Some(CapacityType::Spot)
                    && match rule.capacity_type {
                        Some(Purchase::Reserved) => label == Some("reserved"),
                        Some(_) => label != Some("reserved"),
                        None => true,
                    }
            };
            let covers = |offer: &Offer| {
                offer.instance_types.iter().eq([instance_type]) && is_bought(&offer.labels)
            };
            let mut used = 0_u64;
            let (mut buckets, mut groups) = (Vec::new(), BTreeMap::new());
            for (bucket, of_bucket) in offers.groups.iter().enumerate() {
                let covered: Vec<usize> =
                    (0..of_bucket.len()).filter(|&at| covers(&of_bucket[at])).collect();
                // The rest of a bucket would take its placeholders to instances that are not paid.
                if covered.is_empty() || covered.len() < of_bucket.len() && !reserved_only {
                    continue;
                }
                buckets.push(bucket);
                for at in covered {
                    let GroupStanding { occupied, unusable, .. } = standing.buckets[bucket][at];
                    used = used.saturating_add(occupied).saturating_add(unusable);
                    groups.insert((bucket, at), vec![1]);
                }
            }
            let outside = index.nodes().iter().filter(|(id, _, facts)| {
                self.places[*id].is_none()
                    && facts.labels.get(INSTANCE_TYPE_LABEL) == Some(instance_type)
                    && is_bought(&facts.labels)
            });
            let used = used.saturating_add(u64::try_from(outside.count()).unwrap_or(u64::MAX));
            let is_paid = rule.until.is_none_or(|until| now < until);
            let left = if is_paid { count.saturating_sub(used) } else { 0 };
            if !buckets.is_empty() {
                standing.prepaid.push(Prepaid { left, buckets });
            }
            if reserved_only && !groups.is_empty() {
                standing.shared.push(SharedLimit { left: vec![left], groups });
            }
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
        view.note_prepaid(&index, &offers, &rules, now, &mut seen.standing);
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
    }

    #[test]
    fn no_more_reserved_capacity_is_launched_than_there_is() {
        check("{instanceType: m5.xlarge, capacityType: reserved, prepaid: 4}", true, &[2], &[2]);
        check("{instanceType: m5.xlarge, capacityType: reserved, prepaid: 4}", false, &[], &[]);
        check("{instanceType: m5.xlarge, capacityType: on-demand, prepaid: 4}", true, &[], &[]);
        check("{instanceType: m5.xlarge, prepaid: 4}", true, &[2], &[]);
    }
}
