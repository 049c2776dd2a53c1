//! What is left of the instances that are paid whether they run or not.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{BucketId, CapacityType};
use instances::{CapacityReservation, PriceRules, Purchase, ReservationSelector};
use placeholders::{Prepaid, SharedLimit, Standing};

use super::{Seen, View, is_unusable};
use crate::catalog::{INSTANCE_TYPE_LABEL, LaunchedBy, Offer, Offers, capacity_type};
use crate::observe::{CAPACITY_LABEL, Index, NodeFacts, ReadReservations, ZONE_LABEL};

/// What one or several rules count together: instances of a type, bought in one way, in one zone or
/// in any.
#[derive(Clone, Copy, PartialEq)]
struct Kind<'a> {
    instance_type: &'a String,
    zone: Option<&'a String>,
    purchase: Option<Purchase>,
    /// Whether they are those of a capacity reservation of AWS.
    of_reservation: bool,
}

/// Whether nodes with these labels are reserved capacity of Karpenter.
fn is_reserved(labels: &BTreeMap<String, String>) -> bool {
    labels.get(CAPACITY_LABEL).is_some_and(|label| label == "reserved")
}

impl Kind<'_> {
    /// Whether a node with these labels is such an instance. `instance_types` are those that it may
    /// have. A node of reserved capacity whose zone is open comes where the capacity is.
    fn covers<'b>(
        &self,
        mut instance_types: impl Iterator<Item = &'b String>,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let reserved = is_reserved(labels);
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

    /// Whether a group launches such instances. Karpenter launches those of a capacity reservation
    /// as reserved capacity only.
    fn is_launched_by(&self, offer: &Offer) -> bool {
        let reserves = offer.launched_by != LaunchedBy::Karpenter || is_reserved(&offer.labels);
        self.covers(offer.instance_types.iter(), &offer.labels)
            && (!self.of_reservation || reserves)
    }
}

/// The instances that rules count together.
struct Counted<'a> {
    /// Their kinds, which differ in the zone only.
    kinds: Vec<Kind<'a>>,
    /// Their number as the operator gives it.
    count: u64,
    /// The capacity reservations whose instances they are, without those that ended.
    reservations: BTreeMap<&'a str, &'a CapacityReservation>,
    /// The groups that launch them, by bucket and group.
    groups: BTreeSet<(BucketId, usize)>,
}

/// Karpenter's label for the ID of the capacity reservation of a node.
const RESERVATION_LABEL: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// How long before AWS was read a node must have been created that uses no reservation by what was
/// read: a minute, because AWS shows a new instance late.
const SHOWN_LATE: TimeDelta = TimeDelta::minutes(1);

impl Counted<'_> {
    /// Whether the instance of a node uses one of the reservations, by what was read at `read`.
    /// `None` if the node is too new to say.
    fn is_used_by(&self, facts: &NodeFacts, read: DateTime<Utc>) -> Option<bool> {
        if let Some(id) = facts.labels.get(RESERVATION_LABEL) {
            return Some(self.reservations.contains_key(id.as_str()));
        }
        if self.has_instance_of(facts) {
            return Some(true);
        }
        let is_old = facts.created.is_some_and(|created| created < read - SHOWN_LATE);
        is_old.then_some(false)
    }

    /// Whether AWS showed the instance of a node in one of the reservations.
    fn has_instance_of(&self, facts: &NodeFacts) -> bool {
        facts.instance.as_deref().is_some_and(|instance| {
            self.reservations.values().any(|of| of.instances.contains(instance))
        })
    }

    /// Whether a node in none of the groups is one of the instances.
    fn covers(&self, labels: &BTreeMap<String, String>) -> bool {
        let instance_type = || labels.get(INSTANCE_TYPE_LABEL).into_iter();
        self.kinds.iter().any(|kind| kind.covers(instance_type(), labels))
    }
}

/// The instances that the rules count, those of one kind together. A group counts for the first
/// rule that covers it.
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
        let reservation = reservation.map(|of| (of.id.as_str(), of));
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
        if let (Some(count), Some(instance_type)) = (rule.prepaid, &rule.instance_type) {
            let zone = rule.zone.as_ref();
            let purchase = rule.capacity_type;
            let kind = Kind { instance_type, zone, purchase, of_reservation: false };
            add(kind, if is_paid(rule.until) { count } else { 0 }, None);
        }
        let Some(selector) = &rule.reservation else { continue };
        for of in reservations.iter().filter(|of| selector.selects(of)) {
            let CapacityReservation { instance_type, zone, .. } = of;
            let kind =
                Kind { instance_type, zone: Some(zone), purchase: None, of_reservation: true };
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
    groups.filter(|(_, offer)| kind.is_launched_by(offer)).map(|(group, _)| group).collect()
}

/// Why rules that name capacity reservations count nothing: one message for each rule, or why none
/// could be read.
pub(in crate::cluster) fn unread_reservations(
    rules: &PriceRules,
    read: Option<&ReadReservations>,
) -> Vec<String> {
    let Some(ReadReservations { known, failing, .. }) = read else { return Vec::new() };
    if let Some(error) = failing {
        let count = if known.is_empty() { "none counts" } else { "the last ones count" };
        let message = format!("capacity reservations were not read from AWS, so {count}");
        return vec![format!("{message}: {error}")];
    }
    let missing = rules.reservations().filter(|(_, of)| !known.iter().any(|one| of.selects(one)));
    let message = |(at, of): (usize, &ReservationSelector)| {
        format!("prices[{at}].reservation: AWS has no capacity reservation for {of}")
    };
    missing.map(message).collect()
}

impl View {
    /// Adds what is left of the instances that are paid anyway to what is seen: those that the
    /// rules count, less those of which pods need one, and less the placeholders of older policies,
    /// of which `taken` has the number by instance type. Of reserved capacity that a rule counts,
    /// no more is launched.
    pub fn note_prepaid(
        &self,
        index: &Index,
        offers: &Offers,
        (rules, read): (&PriceRules, Option<&ReadReservations>),
        taken: &BTreeMap<String, u64>,
        now: DateTime<Utc>,
        seen: &mut Seen,
    ) {
        let reservations = read.map_or(&[][..], |read| &read.known);
        for counted in counted(rules, reservations, offers, now) {
            if counted.groups.is_empty() {
                continue;
            }
            let left = if counted.kinds[0].of_reservation {
                let read = read.map_or(now, |read| read.time);
                self.left_of_reservations(&counted, index, read, taken, seen)
            } else {
                self.left_of_number(&counted, index, taken, &seen.standing)
            };
            let reserved = counted
                .groups
                .iter()
                .filter(|&&(bucket, at)| is_reserved(&offers.groups[bucket][at].labels));
            let limited: BTreeMap<(BucketId, usize), Vec<u64>> =
                reserved.map(|&group| (group, vec![1])).collect();
            if !limited.is_empty() {
                seen.standing.shared.push(SharedLimit { left: vec![left], groups: limited });
            }
            seen.standing.prepaid.push(Prepaid { left, groups: counted.groups });
        }
    }

    /// What is left of the number that the operator gives.
    fn left_of_number(
        &self,
        counted: &Counted<'_>,
        index: &Index,
        taken: &BTreeMap<String, u64>,
        standing: &Standing,
    ) -> u64 {
        let others = index.nodes().iter().filter(|(id, slot, facts)| {
            let here = self.places[*id].is_some_and(|place| counted.groups.contains(&place));
            !here && slot.placeholders == 0 && counted.covers(&facts.labels)
        });
        let others = u64::try_from(others.count()).unwrap_or(u64::MAX);
        let of_groups = counted.groups.iter().map(|&(bucket, at)| standing.buckets[bucket][at]);
        let used = of_groups
            .fold(others, |sum, of| sum.saturating_add(of.occupied).saturating_add(of.unusable));
        let taken = taken.get(counted.kinds[0].instance_type).copied().unwrap_or(0);
        counted.count.saturating_sub(used.saturating_add(taken))
    }

    /// What is left of capacity reservations, by what AWS showed at `read`.
    ///
    /// Instances without a node are those of other clusters, or those of placeholders that wait for
    /// their nodes. Such placeholders stay, but none is added for them.
    fn left_of_reservations(
        &self,
        counted: &Counted<'_>,
        index: &Index,
        read: DateTime<Utc>,
        taken: &BTreeMap<String, u64>,
        seen: &Seen,
    ) -> u64 {
        let (mut nodes, mut used, mut of_older) = (0_u64, 0_u64, 0_u64);
        for (id, slot, facts) in index.nodes().iter() {
            let here = self.places[id].is_some_and(|place| counted.groups.contains(&place));
            if !here && !counted.covers(&facts.labels) {
                continue;
            }
            of_older += if here { 0 } else { u64::from(slot.placeholders) };
            nodes += u64::from(counted.has_instance_of(facts));
            used += u64::from(match counted.is_used_by(facts, read) {
                Some(true) if !here => true,
                Some(true) => is_unusable(slot, facts),
                None => here && is_unusable(slot, facts),
                Some(false) => false,
            });
        }
        let of_all = counted.reservations.values();
        let (total, shown) = of_all.fold((0_u64, 0_u64), |(total, shown), of| {
            // Instances of other accounts are only in the numbers.
            let instances = u64::try_from(of.instances.len()).unwrap_or(u64::MAX);
            let shown_of = instances.max(of.total.saturating_sub(of.available));
            (total.saturating_add(of.total), shown.saturating_add(shown_of))
        });
        let without_node = shown.saturating_sub(nodes);
        // Placeholders of older policies that wait for a node, and whose instance is not there yet.
        let taken = taken.get(counted.kinds[0].instance_type).copied().unwrap_or(0);
        let of_older = taken.saturating_sub(of_older).saturating_sub(without_node);
        let rest = total.saturating_sub(used.saturating_add(of_older));
        let of_groups = |counts: &dyn Fn(BucketId, usize) -> u64| {
            let groups = counted.groups.iter();
            groups.fold(0, |sum: u64, &(bucket, at)| sum.saturating_add(counts(bucket, at)))
        };
        let held = of_groups(&|bucket, at| seen.standing.buckets[bucket][at].placeholders);
        let on_nodes = of_groups(&|bucket, at| {
            seen.ready.get(bucket).and_then(|groups| groups.get(at)).copied().unwrap_or(0)
        });
        let may_be_ours = without_node.min(held.saturating_sub(on_nodes));
        let left = rest.saturating_sub(without_node);
        left.max(rest.saturating_sub(without_node - may_be_ours).min(held))
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
        let cluster = Cluster { taken, reserved, ..Cluster::default() };
        assert_eq!(cluster.left(&[], rules), (prepaid.into(), shared.into()), "{rules:?}");
    }

    /// What the nodes and placeholders look like.
    #[derive(Default)]
    struct Cluster {
        /// The placeholders of older policies.
        taken: u64,
        /// Whether the group is reserved capacity.
        reserved: bool,
        /// Whether the nodes were created after the reservations were read.
        are_new: bool,
        /// The placeholders that wait for a node.
        waiting: u64,
        /// The reservation in the label of the node with the batch pod.
        label: &'static str,
    }

    impl Cluster {
        fn left(&self, known: &[CapacityReservation], rules: &str) -> (Vec<u64>, Vec<u64>) {
            let bought = if self.reserved { "reserved" } else { "on-demand" };
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
                let created = if self.are_new { "00:16:39" } else { "00:15:00" };
                node["metadata"]["creationTimestamp"] = format!("1970-01-01T{created}Z").into();
                node["spec"]["providerID"] = format!("aws:///a/i-{name}").into();
                node
            };
            let mut nodes = [of_pool("a", "batch"), of_pool("b", "batch"), of_pool("c", "web")];
            if !self.label.is_empty() {
                nodes[0]["metadata"]["labels"][RESERVATION_LABEL] = self.label.into();
            }
            let pods = [pod("job", "jobs", "a"), placeholder("b")];
            let mut seen = seen_of(&offers, &nodes, &pods);
            seen.standing.buckets[0][0].placeholders += self.waiting;
            let index = index(&nodes, &pods);
            let mut view = View::default();
            view.refresh(&index, &offers);
            let rules = PriceRules::parse(&format!("prices: [{rules}]"), "rules").unwrap();
            let now = DateTime::from_timestamp(1_000, 0).unwrap();
            let taken = [("m5.xlarge".to_owned(), self.taken)].into();
            let read = ReadReservations { known: known.into(), time: now, failing: None };
            view.note_prepaid(&index, &offers, (&rules, Some(&read)), &taken, now, &mut seen);
            let standing = &seen.standing;
            let left = standing.prepaid.iter().map(|of| of.left).collect();
            (left, standing.shared.iter().map(|of| of.left[0]).collect())
        }
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
        check("{instanceType: m5.xlarge, prepaid: 4}", true, &[2], &[2]);
        let ended = "{instanceType: m5.xlarge, capacityType: reserved, prepaid: 4, until: 1970-01-01T00:00:00Z}";
        check(ended, true, &[0], &[0]);
        let next = ended.replace("1970", "1971");
        check(&format!("{ended}, {next}"), true, &[2], &[2]);
    }

    /// An active reservation for m5.xlarge, with so many instances, of which these are in use.
    fn reservation(id: &str, zone: &str, total: u64, used: &[&str]) -> CapacityReservation {
        CapacityReservation {
            id: id.into(),
            tags: [("team".to_owned(), "batch".to_owned())].into(),
            instance_type: "m5.xlarge".into(),
            zone: zone.into(),
            total,
            available: total,
            instances: used.iter().map(|name| format!("i-{name}")).collect(),
            until: None,
        }
    }

    const BY_ID: &str = "{reservation: {id: cr-1}}";

    #[test]
    fn no_more_of_a_reservation_is_left_than_pods_and_other_clusters_leave() {
        let reserved = Cluster { reserved: true, ..Cluster::default() };
        let of = |total: u64, used: &[&str]| [reservation("cr-1", "a", total, used)];
        let check = |seen: &Cluster, of: &[CapacityReservation], left: u64| {
            assert_eq!(seen.left(of, BY_ID), (vec![left], vec![left]), "{of:?}");
        };
        // Pods need the nodes a and c, and the instance x is of another cluster.
        check(&reserved, &of(6, &["a", "b", "c", "x"]), 3);
        check(&reserved, &of(6, &["a", "b", "c"]), 4);
        check(&reserved, &of(2, &["x", "y"]), 0);
        check(&reserved, &of(2, &["x", "y", "z"]), 0);
        // Instances of another account are not listed.
        let shared = CapacityReservation { available: 1, ..reservation("cr-1", "a", 6, &["a"]) };
        check(&reserved, &[shared], 1);
        // Nodes whose instances use no reservation take nothing of it.
        check(&reserved, &of(6, &[]), 6);
        let other = Cluster { label: "cr-9", reserved: true, ..Cluster::default() };
        check(&other, &of(6, &["b"]), 6);
        check(
            &Cluster { taken: 1, reserved: true, ..Cluster::default() },
            &of(6, &["a", "b", "c"]),
            3,
        );
        let ended = DateTime::from_timestamp(1_000, 0);
        let ended = [CapacityReservation { until: ended, ..reservation("cr-1", "a", 6, &[]) }];
        check(&reserved, &ended, 0);
    }

    /// Instances come before their nodes.
    #[test]
    fn placeholders_that_wait_for_a_node_of_a_reservation_stay_and_order_no_more() {
        let waiting = |waiting| Cluster { waiting, reserved: true, ..Cluster::default() };
        let left = |seen: &Cluster, used: &[&str]| {
            seen.left(&[reservation("cr-1", "a", 6, used)], BY_ID).0[0]
        };
        // Two are launching.
        assert_eq!(left(&waiting(2), &["a", "b", "c"]), 4);
        // Their instances are there, or those of another cluster.
        assert_eq!(left(&waiting(2), &["a", "b", "c", "x", "y"]), 3);
        assert_eq!(left(&waiting(0), &["a", "b", "c", "x", "y"]), 2);
        // Of two clusters, one is faster.
        assert_eq!(left(&waiting(2), &["a", "b", "c", "x", "y", "z"]), 3);
        // What was read is older than the nodes: that of a job counts as one of the reservation.
        let new = Cluster { are_new: true, reserved: true, ..Cluster::default() };
        assert_eq!(left(&new, &[]), 5);
    }

    #[test]
    fn reservations_count_once_and_together_where_the_zone_is_open() {
        let by_tag = "{reservation: {tags: {team: batch}}}";
        let reserved = Cluster { reserved: true, ..Cluster::default() };
        let two = [reservation("cr-1", "a", 3, &["a", "x"]), reservation("cr-2", "b", 3, &["c"])];
        let expected = (vec![3], vec![3]);
        assert_eq!(reserved.left(&two, by_tag), expected);
        let both = format!("{by_tag}, {BY_ID}");
        assert_eq!(reserved.left(&two, &both), expected);
        let other =
            CapacityReservation { tags: BTreeMap::new(), ..reservation("cr-3", "c", 9, &[]) };
        assert_eq!(reserved.left(&[two.as_slice(), &[other]].concat(), by_tag), expected);
        // Nodes on demand have an open zone, so they may come in another one.
        let on_demand = Cluster::default();
        assert_eq!(on_demand.left(&two, by_tag), (vec![], vec![]));
    }

    #[test]
    fn a_rule_whose_reservation_aws_does_not_have_is_named() {
        let text = "prices: [{percent: 90}, {reservation: {id: cr-1, tags: {team: a}}}]";
        let rules = PriceRules::parse(text, "rules").unwrap();
        let read = ReadReservations::default();
        assert_eq!(unread_reservations(&rules, None), [""; 0]);
        let missing =
            "prices[1].reservation: AWS has no capacity reservation for cr-1 and the tag team=a";
        assert_eq!(unread_reservations(&rules, Some(&read)), [missing]);
        let failing = ReadReservations { failing: Some("denied".into()), ..read };
        let message = "capacity reservations were not read from AWS, so";
        let none = format!("{message} none counts: denied");
        assert_eq!(unread_reservations(&rules, Some(&failing)), [none]);
        let failing =
            ReadReservations { known: [reservation("cr-2", "a", 1, &[])].into(), ..failing };
        let last = format!("{message} the last ones count: denied");
        assert_eq!(unread_reservations(&rules, Some(&failing)), [last]);
    }
}
