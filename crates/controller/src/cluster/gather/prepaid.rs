//! What is left of the instances that are paid whether they run or not.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use embedder::{BucketId, CapacityType};
use instances::{CapacityReservation, PriceRules, Purchase, ReservationSelector};
use placeholders::{Prepaid, SharedLimit, Standing};

use super::View;
use crate::catalog::{INSTANCE_TYPE_LABEL, Offers, capacity_type};
use crate::observe::{CAPACITY_LABEL, Index, ReadReservations, ZONE_LABEL};

/// What one or several rules count together: instances of a type, bought in one way, in one zone or
/// in any.
#[derive(Clone, Copy, PartialEq)]
struct Kind<'a> {
    instance_type: &'a String,
    zone: Option<&'a String>,
    purchase: Option<Purchase>,
}

impl Kind<'_> {
    /// Whether a node with these labels is such an instance. `instance_types` are those that it may
    /// have. A node of reserved capacity whose zone is open comes where the capacity is.
    fn covers<'b>(
        &self,
        mut instance_types: impl Iterator<Item = &'b String>,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let reserved = labels.get(CAPACITY_LABEL).is_some_and(|label| label == "reserved");
        let is_one = instance_types.next() == Some(self.instance_type);
        let is_in = |zone| match labels.get(ZONE_LABEL) {
            Some(of) => of == zone,
            None => reserved,
        };
        is_one
            && instance_types.next().is_none()
            && self.zone.is_none_or(is_in)
            && capacity_type(labels) != Some(CapacityType::Spot)
            && self.purchase.is_none_or(|purchase| (purchase == Purchase::Reserved) == reserved)
    }
}

/// The instances that rules count together.
struct Counted<'a> {
    /// Their kinds, which differ in the zone only.
    kinds: Vec<Kind<'a>>,
    /// Their number as the operator gives it.
    count: u64,
    /// The capacity reservations whose number is read from AWS.
    reservations: Vec<&'a CapacityReservation>,
    /// The groups that launch them, by bucket and group.
    groups: BTreeSet<(BucketId, usize)>,
}

impl Counted<'_> {
    /// Whether a node with these labels is one of the instances.
    fn covers(&self, labels: &BTreeMap<String, String>) -> bool {
        let is_other = labels.get(RESERVATION_LABEL).is_some_and(|id| {
            !self.reservations.is_empty() && self.reservations.iter().all(|of| of.id != *id)
        });
        !is_other
            && self
                .kinds
                .iter()
                .any(|kind| kind.covers(labels.get(INSTANCE_TYPE_LABEL).into_iter(), labels))
    }

    /// The number of instances that are for this cluster, of which `here` are in use by it or
    /// launching: those that no other cluster uses.
    fn number(&self, here: u64) -> u64 {
        let sum = |amount: fn(&CapacityReservation) -> u64| {
            self.reservations.iter().fold(0, |sum: u64, of| sum.saturating_add(amount(of)))
        };
        let total = sum(|of| of.total);
        let ours = sum(|of| of.available).saturating_add(here).min(total);
        self.count.saturating_add(ours)
    }
}

/// Karpenter's label for the ID of the capacity reservation of a node.
const RESERVATION_LABEL: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// The instances that the rules count and that are still paid, those of rules of one kind together.
/// A group counts for the first rule that covers it.
fn counted<'a>(
    rules: &'a PriceRules,
    reservations: &'a [CapacityReservation],
    offers: &Offers,
    now: DateTime<Utc>,
) -> Vec<Counted<'a>> {
    let is_paid = |until: Option<DateTime<Utc>>| until.is_none_or(|until| now < until);
    let mut all: Vec<Counted<'a>> = Vec::new();
    let mut add = |kind: Kind<'a>, count: u64, reservation: Option<&'a CapacityReservation>| {
        let groups = groups_of(&kind, offers);
        let is_same = |known: &&mut Counted<'a>| {
            let of = known.kinds[0];
            known.groups == groups && Kind { zone: of.zone, ..kind } == of
        };
        if let Some(known) = all.iter_mut().find(is_same) {
            known.count = known.count.saturating_add(count);
            known.reservations.extend(reservation);
            known.kinds.push(kind);
        } else {
            let reservations = reservation.into_iter().collect();
            all.push(Counted { kinds: vec![kind], count, reservations, groups });
        }
    };
    for rule in &rules.0 {
        let purchase = rule.capacity_type;
        if let (Some(count), Some(instance_type)) = (rule.prepaid, &rule.instance_type) {
            let kind = Kind { instance_type, zone: rule.zone.as_ref(), purchase };
            add(kind, if is_paid(rule.until) { count } else { 0 }, None);
        }
        let selects = |of: &&CapacityReservation| {
            rule.reservation.as_ref().is_some_and(|selector| selector.selects(of))
        };
        for of in reservations.iter().filter(selects) {
            let CapacityReservation { instance_type, zone, .. } = of;
            let kind = Kind { instance_type, zone: Some(zone), purchase };
            add(kind, 0, is_paid(of.until).then_some(of));
        }
    }
    let mut owned = BTreeSet::new();
    for one in &mut all {
        one.groups.retain(|group| owned.insert(*group));
    }
    all
}

/// The groups that launch instances of a kind, by bucket and group.
fn groups_of(kind: &Kind<'_>, offers: &Offers) -> BTreeSet<(BucketId, usize)> {
    let all = offers.groups.iter().enumerate();
    let groups = all.flat_map(|(bucket, of)| {
        of.iter().enumerate().map(move |(at, offer)| ((bucket, at), offer))
    });
    let launching = groups
        .filter(|(_, offer)| kind.covers(offer.instance_types.iter(), &offer.labels))
        .map(|(group, _)| group);
    launching.collect()
}

/// Why rules that name capacity reservations count nothing: one message for each rule, or why none
/// could be read.
pub(in crate::cluster) fn unread_reservations(
    rules: &PriceRules,
    read: Option<&ReadReservations>,
) -> Vec<String> {
    let Some(ReadReservations { known, failing }) = read else { return Vec::new() };
    if let Some(error) = failing {
        let message = "capacity reservations were not read from AWS, so the last ones count";
        return vec![format!("{message}: {error}")];
    }
    let missing = rules.reservations().filter(|(_, of)| !known.iter().any(|one| of.selects(one)));
    let message = |(at, of): (usize, &ReservationSelector)| {
        format!("prices[{at}].reservation: AWS has no active capacity reservation for {of}")
    };
    missing.map(message).collect()
}

impl View {
    /// Adds what is left of the instances that are paid anyway to `standing`: those that the rules
    /// count, less the nodes of which pods need one, and less the placeholders of older policies,
    /// of which `taken` has the number by instance type. Of reserved capacity that a rule counts,
    /// no more is launched.
    pub fn note_prepaid(
        &self,
        index: &Index,
        offers: &Offers,
        (rules, reservations): (&PriceRules, &[CapacityReservation]),
        taken: &BTreeMap<String, u64>,
        now: DateTime<Utc>,
        standing: &mut Standing,
    ) {
        for counted in counted(rules, reservations, offers, now) {
            if counted.groups.is_empty() {
                continue;
            }
            let of_groups =
                || counted.groups.iter().map(|&(bucket, at)| standing.buckets[bucket][at]);
            let (mut others, mut nodes, mut held) = (0_u64, 0_u64, 0_u64);
            for (id, slot, facts) in index.nodes().iter() {
                let here = self.places[id].is_some_and(|place| counted.groups.contains(&place));
                if !here && !counted.covers(&facts.labels) {
                    continue;
                }
                nodes += 1;
                if here {
                    held = held.saturating_add(slot.placeholders.into());
                } else if slot.placeholders == 0 {
                    others += 1;
                }
            }
            // Placeholders without a node have ordered one, which may run already.
            let placeholders =
                of_groups().fold(0, |sum: u64, of| sum.saturating_add(of.placeholders));
            let here = nodes.saturating_add(placeholders.saturating_sub(held));
            let used = of_groups().fold(others, |sum, of| {
                sum.saturating_add(of.occupied).saturating_add(of.unusable)
            });
            let instance_type = counted.kinds[0].instance_type;
            let used = used.saturating_add(taken.get(instance_type).copied().unwrap_or(0));
            let left = counted.number(here).saturating_sub(used);
            if counted.kinds[0].purchase == Some(Purchase::Reserved) {
                let groups = counted.groups.iter().map(|&group| (group, vec![1])).collect();
                standing.shared.push(SharedLimit { left: vec![left], groups });
            }
            standing.prepaid.push(Prepaid { left, groups: counted.groups });
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
        check_all(&[], taken, rules, reserved, prepaid, shared);
    }

    /// The same, beside these capacity reservations of AWS.
    #[track_caller]
    fn check_all(
        reservations: &[CapacityReservation],
        taken: u64,
        rules: &str,
        reserved: bool,
        prepaid: &[u64],
        shared: &[u64],
    ) {
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
        let standing = &mut seen.standing;
        view.note_prepaid(&index, &offers, (&rules, reservations), &taken, now, standing);
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

    /// An active reservation for m5.xlarge, with so many instances, of which so many are not used.
    fn reservation(id: &str, zone: &str, total: u64, available: u64) -> CapacityReservation {
        CapacityReservation {
            id: id.into(),
            tags: [("team".to_owned(), "batch".to_owned())].into(),
            instance_type: "m5.xlarge".into(),
            zone: zone.into(),
            total,
            available,
            until: None,
        }
    }

    /// Three nodes are in use: one with a batch pod, one with a placeholder, and one of another
    /// group, all without a zone.
    #[test]
    fn reservations_have_the_number_that_no_other_cluster_uses() {
        let by_id = "{reservation: {id: cr-1}, capacityType: reserved}";
        let check = |of: &[CapacityReservation], prepaid: &[u64]| {
            check_all(of, 0, by_id, true, prepaid, prepaid);
        };
        // Of six instances, three are in use here, and one elsewhere.
        check(&[reservation("cr-1", "a", 6, 2)], &[3]);
        check(&[reservation("cr-1", "a", 6, 3)], &[4]);
        // What AWS shows is a minute old.
        check(&[reservation("cr-1", "a", 6, 6)], &[4]);
        check(&[reservation("cr-1", "a", 2, 0)], &[0]);
        check(&[reservation("cr-2", "a", 6, 2)], &[]);
        let ended = CapacityReservation {
            until: DateTime::from_timestamp(1_000, 0),
            ..reservation("cr-1", "a", 6, 2)
        };
        check(&[ended], &[0]);
        check_all(&[reservation("cr-1", "a", 6, 2)], 1, by_id, true, &[2], &[2]);
        // Nodes on demand have an open zone, so they may come in another one.
        let on_demand = "{reservation: {id: cr-1}}";
        check_all(&[reservation("cr-1", "a", 6, 2)], 0, on_demand, false, &[], &[]);
    }

    #[test]
    fn reservations_in_several_zones_count_together_where_the_zone_is_open() {
        let by_tag = "{reservation: {tags: {team: batch}}, capacityType: reserved}";
        let two = [reservation("cr-1", "a", 3, 1), reservation("cr-2", "b", 3, 2)];
        check_all(&two, 0, by_tag, true, &[4], &[4]);
        let other = CapacityReservation { tags: BTreeMap::new(), ..reservation("cr-3", "c", 9, 9) };
        let three = [two.as_slice(), &[other]].concat();
        check_all(&three, 0, by_tag, true, &[4], &[4]);
    }

    #[test]
    fn a_rule_whose_reservation_aws_does_not_have_is_named() {
        let text = "prices: [{percent: 90}, {reservation: {id: cr-1, tags: {team: a}}}]";
        let rules = PriceRules::parse(text, "rules").unwrap();
        let read = ReadReservations::default();
        assert_eq!(unread_reservations(&rules, None), [""; 0]);
        let missing = "prices[1].reservation: AWS has no active capacity reservation for cr-1 and the tag team=a";
        assert_eq!(unread_reservations(&rules, Some(&read)), [missing]);
        let failing = ReadReservations { failing: Some("denied".into()), ..read };
        let message =
            "capacity reservations were not read from AWS, so the last ones count: denied";
        assert_eq!(unread_reservations(&rules, Some(&failing)), [message]);
    }
}
