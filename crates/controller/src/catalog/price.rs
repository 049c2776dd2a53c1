//! The price of an instance of a bucket.

use std::collections::BTreeMap;

use embedder::{CapacityType, Resources};
use instances::{AwsPrices, Bought, Price, PriceChange, PriceRules};

use super::group::{LaunchedBy, NodeGroup, OtherTypes};
use super::labels::{REGION_LABELS, ZONE_NAME_LABELS};
use super::overlays::applying;
use crate::observe::{Key, NodeOverlay};

/// The least change of a price of AWS that counts, in percent.
const CHANGE_MIN: u128 = 10;

/// What the prices of instances depend on, apart from the instances.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'a> {
    /// What the operator pays.
    pub rules: &'a PriceRules,
    /// The region of the cluster's nodes, if known. That of a group precedes it.
    pub region: Option<&'a str>,
    /// The prices that were read from AWS.
    pub read: Option<&'a AwsPrices>,
    /// Karpenter's changes of prices.
    pub overlays: &'a BTreeMap<Key, NodeOverlay>,
    /// The prices that the buckets have, by name. A price that was read from AWS replaces that of
    /// its bucket only if it differs by a tenth or more, because a policy learns its history again
    /// when the price of a bucket changes.
    pub last: Option<&'a BTreeMap<String, Price>>,
}

impl Pricing<'_> {
    /// The prices of the table for us-east-1.
    pub fn of_table() -> Self {
        static NONE: PriceRules = PriceRules(Vec::new());
        static NO_OVERLAYS: BTreeMap<Key, NodeOverlay> = BTreeMap::new();
        Self { rules: &NONE, region: None, read: None, overlays: &NO_OVERLAYS, last: None }
    }

    /// The same without what was read from AWS, which changes from hour to hour.
    pub(super) fn without_aws(self) -> Self {
        Self { read: None, last: None, ..self }
    }

    /// The price that the bucket with this name has, if the new one differs little from it and is
    /// one of AWS, or derived from one: `listed` is the price without those of AWS.
    pub(super) fn kept(&self, bucket: &str, new: Price, listed: Price) -> Price {
        let last = self.last.and_then(|last| last.get(bucket));
        let is_near = |last: &&Price| {
            let difference = u128::from(last.hourly.0.abs_diff(new.hourly.0));
            (new.source.is_of_aws() || new.hourly != listed.hourly)
                && last.source == new.source
                && difference * 100 < u128::from(last.hourly.0) * CHANGE_MIN
        };
        last.filter(is_near).copied().unwrap_or(new)
    }

    /// How Karpenter changes the price of an instance: by the first of its overlays that changes
    /// prices.
    fn overlay(&self, group: &NodeGroup, instance_type: &str) -> Option<PriceChange> {
        if group.launched_by != LaunchedBy::Karpenter {
            return None;
        }
        let applying = applying(self.overlays, &group.labels, instance_type);
        applying.into_iter().find_map(|overlay| overlay.change)
    }

    /// The price of an instance of a group whose nodes have `has` for pods: of the types that
    /// Karpenter launches, that of the one with the lowest list price, whatever the rules say; of
    /// types of several sizes the highest, so that a limit in dollars holds; and of the others that
    /// of the first, because cluster-autoscaler describes a group by it.
    pub(super) fn of(
        &self,
        group: &NodeGroup,
        capacity_type: CapacityType,
        has: Resources,
    ) -> Price {
        let label =
            |keys: &[&str]| keys.iter().find_map(|key| group.labels.get(*key)).map(String::as_str);
        let bought = |instance_type| Bought {
            instance_type,
            capacity_type,
            region: label(&REGION_LABELS).or(self.region),
            zone: group.zone.as_deref().or_else(|| label(&ZONE_NAME_LABELS)),
            has,
            described: group.hourly,
            read: self.read,
            overlay: self.overlay(group, instance_type),
        };
        let first = bought(group.instance_type.as_str());
        let all = || group.instance_types().map(|name| bought(name.as_str()));
        if matches!(group.other_types, OtherTypes::OtherSizes(_)) {
            let prices = all().map(|bought| self.rules.price(&bought));
            return prices.max_by_key(|price| price.hourly).unwrap_or(self.rules.price(&first));
        }
        if group.launched_by != LaunchedBy::Karpenter {
            return self.rules.price(&first);
        }
        // A region does not sell the types of which the table has a price only for another one.
        let cheapest = all().min_by_key(|bought| {
            let Price { source, .. } = PriceRules::listed(&Bought { overlay: None, ..*bought });
            (source, PriceRules::listed(bought).hourly)
        });
        self.rules.price(&cheapest.unwrap_or(first))
    }
}

#[cfg(test)]
mod tests {
    use embedder::MicroDollars;
    use instances::PriceSource;

    use super::*;

    /// Checks the price of an on-demand instance of a group of Karpenter with these types.
    #[track_caller]
    fn check(types: &[&str], region: &str, rules: &str, dollars: f64) {
        let others = types[1..].iter().map(ToString::to_string).collect();
        let group = NodeGroup {
            launched_by: LaunchedBy::Karpenter,
            other_types: OtherTypes::SameSize(others),
            ..NodeGroup::of_type("batch", types[0], Resources::default())
        };
        let rules = PriceRules::parse(&format!("prices: {rules}"), "rules").unwrap();
        let pricing = Pricing { rules: &rules, region: Some(region), ..Pricing::of_table() };
        let price = pricing.of(&group, CapacityType::OnDemand, Resources::default());
        assert!((price.hourly.dollars() - dollars).abs() < 1e-6, "{types:?} {rules:?}: {price:?}");
    }

    /// Overlays of Karpenter, in YAML, by their names.
    fn overlays(text: &str) -> BTreeMap<Key, NodeOverlay> {
        let list: Vec<(String, bool, serde_json::Value)> =
            base::input::parse(text, "overlays").unwrap();
        let overlay = |(name, ready, spec): (String, bool, serde_json::Value)| {
            let ready = if ready { "True" } else { "False" };
            let object = serde_json::json!({
                "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
                "metadata": {"name": name}, "spec": spec,
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            let object: kube::core::DynamicObject = serde_json::from_value(object).unwrap();
            Some((Key::of(&object.metadata), NodeOverlay::of(&object)?))
        };
        list.into_iter().filter_map(overlay).collect()
    }

    /// Checks the price of a spot instance of m5.xlarge in a pool `batch`, whose table price is
    /// $0.0768.
    #[track_caller]
    fn check_overlays(text: &str, dollars: f64, launched_by: LaunchedBy) {
        let labels = [("karpenter.sh/nodepool", "batch"), ("karpenter.sh/capacity-type", "spot")];
        let group = NodeGroup {
            launched_by,
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..NodeGroup::of_type("batch", "m5.xlarge", Resources::default())
        };
        let overlays = overlays(text);
        let pricing = Pricing { overlays: &overlays, ..Pricing::of_table() };
        let price = pricing.of(&group, CapacityType::Spot, Resources::default());
        assert!((price.hourly.dollars() - dollars).abs() < 1e-6, "{text}: {price:?}");
    }

    #[test]
    fn the_overlay_with_the_largest_weight_changes_the_price() {
        use LaunchedBy::{ClusterAutoscaler, Karpenter};
        let of =
            |requirements: &str, rest: &str| format!("{{requirements: [{requirements}], {rest}}}");
        let family = "{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}";
        let spot = "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}";
        let web = "{key: karpenter.sh/nodepool, operator: NotIn, values: [batch]}";
        let zone = "{key: topology.kubernetes.io/zone, operator: In, values: [a]}";
        let dearer = of(family, "priceAdjustment: '+50%'");
        check_overlays(&format!("[[a, true, {dearer}]]"), 0.1152, Karpenter);
        check_overlays(&format!("[[a, true, {dearer}]]"), 0.0768, ClusterAutoscaler);
        // Karpenter does not apply an overlay that is not ready.
        check_overlays(&format!("[[a, false, {dearer}]]"), 0.0768, Karpenter);
        let both = format!("{family}, {spot}");
        let heavy = of(&both, "price: '0.05', weight: 10");
        check_overlays(&format!("[[a, true, {dearer}], [b, true, {heavy}]]"), 0.05, Karpenter);
        let other = of(family, "price: '0.06', weight: 10");
        check_overlays(&format!("[[b, true, {heavy}], [c, true, {other}]]"), 0.06, Karpenter);
        for requirements in [web, zone] {
            let elsewhere = of(requirements, "price: '9'");
            check_overlays(&format!("[[a, true, {elsewhere}]]"), 0.0768, Karpenter);
        }
        let devices = of(family, "capacity: {smarter-devices/fuse: 1}");
        check_overlays(&format!("[[a, true, {devices}]]"), 0.0768, Karpenter);
    }

    #[test]
    fn a_price_of_aws_changes_by_a_tenth_or_not_at_all() {
        let price = |micros, source| Price { hourly: MicroDollars(micros), source };
        let last = [
            ("a".to_owned(), price(100, PriceSource::SpotHistory)),
            ("c".to_owned(), price(100, PriceSource::NodeOverlay)),
        ]
        .into();
        let pricing = Pricing { last: Some(&last), ..Pricing::of_table() };
        let table = [
            ("a", price(109, PriceSource::SpotHistory), 100),
            ("a", price(110, PriceSource::SpotHistory), 110),
            ("a", price(101, PriceSource::PriceList), 101),
            ("b", price(101, PriceSource::SpotHistory), 101),
            // An overlay over a price of AWS, and one whose price is without AWS the same.
            ("c", price(105, PriceSource::NodeOverlay), 100),
            ("c", price(101, PriceSource::NodeOverlay), 101),
        ];
        for (bucket, new, expected) in table {
            let listed = price(101, PriceSource::Table);
            let kept = pricing.kept(bucket, new, listed);
            assert_eq!(kept.hourly.0, expected, "{bucket} {new:?}");
        }
    }

    #[test]
    fn a_group_of_several_sizes_has_the_price_of_the_most_expensive_type() {
        let others = ["m5.large", "m5.2xlarge"].map(str::to_owned).into();
        let group = NodeGroup {
            other_types: OtherTypes::OtherSizes(others),
            ..NodeGroup::of_type("batch", "m5.xlarge", Resources::default())
        };
        let price = Pricing::of_table().of(&group, CapacityType::OnDemand, Resources::default());
        assert_eq!(price.hourly, instances::instance_type("m5.2xlarge").unwrap().price().unwrap());
    }

    #[test]
    fn a_size_class_has_the_price_of_the_type_that_karpenter_launches() {
        check(&["m7i.2xlarge", "m5a.2xlarge"], "us-east-1", "[]", 0.344);
        // Reserved instances of one type do not make the others free.
        let reserved = "[{instanceType: m7i.2xlarge, pricePerHour: 0}]";
        check(&["m7i.2xlarge", "m5a.2xlarge"], "us-east-1", reserved, 0.344);
        check(&["m7i.2xlarge", "m5a.2xlarge"], "us-east-1", "[{family: m5a, percent: 50}]", 0.172);
        // The region does not sell m6a.2xlarge, whose price in us-east-1 is lower.
        check(&["m6a.2xlarge", "m5a.2xlarge"], "us-gov-west-1", "[]", 0.436);
    }
}
