//! The price of an instance, and where it comes from.
//!
//! In this order: what the operator pays (`prices`), the group's own price, the prices of AWS, the
//! table, and an estimate. Prices rank the buckets, weigh idling and enforce ceilings in dollars.

use base::input::{self, YamlError};
use chrono::{DateTime, Utc};
use embedder::{CapacityType, MicroDollars, Resources, UNLIMITED};
use serde::{Deserialize, Serialize};

use crate::aws_prices::AwsPrices;
use crate::reservation::ReservationSelector;
use crate::table::{
    InstanceType, US_EAST_1, family_of, instance_type, instance_types, prices_date,
};

/// The price of a spot instance as a share of the on-demand price, in the long run.
const SPOT_SHARE: f64 = 0.4;

/// Where a price comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// `prices`, which the operator gave.
    Operator,
    /// The catalog file.
    CatalogFile,
    /// A `NodeOverlay` of Karpenter.
    NodeOverlay,
    /// The mean of the spot prices of the last day, which AWS gave.
    SpotHistory,
    /// AWS's Price List service, today.
    PriceList,
    /// The built-in table, for the region.
    Table,
    /// The built-in table, for another region, because it has no price of this one.
    OtherRegion,
    /// The price of the most expensive instance type of the table with as many GPUs and cores,
    /// because the type is unknown.
    Estimate,
}

impl PriceSource {
    /// Whether the price is that of the instance type, and not of another one. A limit in dollars
    /// needs such a price.
    pub fn is_known(self) -> bool {
        self != Self::Estimate
    }

    /// Whether the price was read from AWS.
    pub fn is_of_aws(self) -> bool {
        matches!(self, Self::SpotHistory | Self::PriceList)
    }

    /// Whether the price is that of the built-in table.
    pub fn is_listed(self) -> bool {
        matches!(self, Self::Table | Self::OtherRegion)
    }

    /// The spelling in metrics, JSON and the status.
    pub fn label(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::CatalogFile => "catalog_file",
            Self::NodeOverlay => "node_overlay",
            Self::SpotHistory => "spot_history",
            Self::PriceList => "price_list",
            Self::Table => "table",
            Self::OtherRegion => "other_region",
            Self::Estimate => "estimate",
        }
    }

    /// The source with this label.
    pub fn of_label(label: &str) -> Option<Self> {
        let all = [
            Self::Operator,
            Self::CatalogFile,
            Self::NodeOverlay,
            Self::SpotHistory,
            Self::PriceList,
            Self::Table,
            Self::OtherRegion,
            Self::Estimate,
        ];
        all.into_iter().find(|source| source.label() == label)
    }

    /// The source in words.
    pub fn in_words(self) -> String {
        match self {
            Self::Operator => "the operator's prices".into(),
            Self::CatalogFile => "the catalog file".into(),
            Self::NodeOverlay => "Karpenter's NodeOverlays".into(),
            Self::SpotHistory => "AWS's spot prices of the last day".into(),
            Self::PriceList => "AWS's price list of today".into(),
            Self::Table => format!("AWS's price list of {}", prices_date()),
            Self::OtherRegion => {
                format!("AWS's price list of {}, for another region", prices_date())
            }
            Self::Estimate => "an estimate from its size".into(),
        }
    }
}

/// A price of an instance for one hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The price.
    pub hourly: MicroDollars,
    /// Where it comes from.
    pub source: PriceSource,
}

/// What the operator pays. The first rule that applies to an instance decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PriceRules(pub Vec<PriceRule>);

/// What the operator pays for some instances. An absent condition holds for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PriceRule {
    /// The instance type, such as `p5.48xlarge`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_type: Option<String>,
    /// The family, such as `m5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// The zone. The rule then applies to groups whose nodes all start in that zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How the instance is bought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<Purchase>,
    /// The price in dollars per hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// The share of the price that the instance would have without `prices`, in percent: 72 for a
    /// Savings Plan that takes 28 % off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// The number of instances that are paid whether they run or not, such as reserved ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepaid: Option<u64>,
    /// When they are no longer paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// The capacity reservations of AWS whose instances are for this cluster. Their number, type,
    /// zone and end are read from AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationSelector>,
}

/// How instances are bought, as operators and Karpenter name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purchase {
    /// On demand.
    OnDemand,
    /// Spot.
    Spot,
    /// The capacity of a reservation, which Karpenter launches under this name.
    Reserved,
}

/// The instance whose price is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Bought<'a> {
    /// The instance type.
    pub instance_type: &'a str,
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// The region. us-east-1 if unknown.
    pub region: Option<&'a str>,
    /// The zone, if all instances of the group start in one.
    pub zone: Option<&'a str>,
    /// What it has for pods, from which the price of an unknown type is estimated.
    pub has: Resources,
    /// The price of the group's own description.
    pub described: Option<MicroDollars>,
    /// The prices that were read from AWS.
    pub read: Option<&'a AwsPrices>,
    /// How a `NodeOverlay` of Karpenter changes the price.
    pub overlay: Option<PriceChange>,
}

/// How a `NodeOverlay` of Karpenter changes the price of an instance for one hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriceChange {
    /// The price is this.
    To(MicroDollars),
    /// So many dollars are added, or taken off if negative.
    By(f64),
    /// So many percent are added, or taken off if negative.
    Percent(f64),
}

impl PriceChange {
    /// The change of the `priceAdjustment`, such as `-0.5` or `+10%`. `None` if the
    /// text is no number.
    pub fn of_adjustment(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite());
        match text.strip_suffix('%') {
            Some(percent) => number(percent).map(Self::Percent),
            None => number(text).map(Self::By),
        }
    }

    /// The price after the change, which is at least 0. A change of an estimate is an estimate.
    fn apply(self, price: Price) -> Price {
        let Price { hourly, source } = price;
        let dollars = match self {
            Self::To(hourly) => return Price { hourly, source: PriceSource::NodeOverlay },
            Self::By(dollars) => hourly.dollars() + dollars,
            Self::Percent(percent) => hourly.dollars() * (1.0 + percent / 100.0),
        };
        let source = if source.is_known() { PriceSource::NodeOverlay } else { source };
        let hourly = MicroDollars::from_dollars(dollars.max(0.0));
        Price { hourly: hourly.unwrap_or(price.hourly), source }
    }
}

impl PriceRule {
    /// Whether the rule counts instances that are paid anyway, and gives no price.
    fn is_of_prepaid(&self) -> bool {
        self.prepaid.is_some() || self.reservation.is_some()
    }

    fn applies(&self, bought: &Bought<'_>) -> bool {
        let Self { instance_type, family, zone, capacity_type, .. } = self;
        let is = |given: &Option<String>, found: &str| given.as_ref().is_none_or(|it| it == found);
        is(instance_type, bought.instance_type)
            && is(family, family_of(bought.instance_type))
            && zone.as_deref().is_none_or(|zone| bought.zone == Some(zone))
            && capacity_type.is_none_or(|of| match of {
                Purchase::OnDemand => bought.capacity_type == CapacityType::OnDemand,
                Purchase::Spot => bought.capacity_type == CapacityType::Spot,
                // Karpenter's reserved instances are prepaid.
                Purchase::Reserved => false,
            })
    }

    /// Why the rule is invalid: the field, and the problem.
    fn fault(&self) -> Option<(&'static str, String)> {
        let Self { instance_type, family, capacity_type, .. } = self;
        let Self { price_per_hour, percent, prepaid, until, reservation, .. } = self;
        let named = [("instanceType", instance_type), ("family", family)];
        for (field, name) in named {
            if name.as_ref().is_some_and(|name| name.trim().is_empty()) {
                return Some((field, "is empty".into()));
            }
        }
        if let Some(reservation) = reservation {
            let is_alone = instance_type.is_none()
                && family.is_none()
                && self.zone.is_none()
                && price_per_hour.is_none()
                && percent.is_none()
                && prepaid.is_none()
                && until.is_none()
                && capacity_type.is_none();
            let problem = match (reservation.is_valid(), is_alone) {
                (false, _) => "expected an id such as cr-56fac701cc1951b03, tags, or both",
                (true, false) => "allows no other field beside it",
                (true, true) => return None,
            };
            return Some(("reservation", problem.to_owned()));
        }
        if prepaid.is_none() {
            let of_prepaid = |field| Some((field, "needs prepaid".to_owned()));
            if until.is_some() {
                return of_prepaid("until");
            }
            if *capacity_type == Some(Purchase::Reserved) {
                return of_prepaid("capacityType");
            }
        }
        match (price_per_hour, percent, prepaid) {
            (None, None, Some(_)) => {
                let of_spot = *capacity_type == Some(Purchase::Spot);
                let problem = match (instance_type, of_spot) {
                    (None, _) => "needs instanceType",
                    (Some(_), true) => "is not for spot instances",
                    (Some(_), false) => return None,
                };
                Some(("prepaid", problem.to_owned()))
            }
            (Some(dollars), None, None) => {
                MicroDollars::from_dollars(*dollars).is_none().then(|| {
                    (
                        "pricePerHour",
                        format!("expected a price of 0 to a billion dollars, got {dollars}"),
                    )
                })
            }
            (None, Some(percent), None) => (!(0.0..=1_000.0).contains(percent))
                .then(|| ("percent", format!("expected 0 to 1000 percent, got {percent}"))),
            _ => Some((
                "pricePerHour",
                "give one of pricePerHour, percent, prepaid and reservation".into(),
            )),
        }
    }
}

impl PriceRules {
    /// Parses YAML or JSON: a field `prices` with a list of rules. `file` stands for the file in
    /// errors.
    ///
    /// # Errors
    /// A syntax error, an unknown field or an invalid value, with the line.
    pub fn parse(text: &str, file: &str) -> Result<Self, YamlError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct PricesFile {
            prices: PriceRules,
        }
        let PricesFile { prices } = input::parse(text, file)?;
        match prices.fault() {
            None => Ok(prices),
            Some((at, field, problem)) => {
                let field = format!("prices[{at}].{field}");
                Err(YamlError::new(file, input::line_of(text, &field), &field, problem))
            }
        }
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules that count capacity reservations of AWS, with their positions.
    pub fn reservations(&self) -> impl Iterator<Item = (usize, &ReservationSelector)> {
        let rules = self.0.iter().enumerate();
        rules.filter_map(|(at, rule)| Some((at, rule.reservation.as_ref()?)))
    }

    /// The first rule that is invalid: its position, the field, and the problem.
    pub fn fault(&self) -> Option<(usize, &'static str, String)> {
        let mut rules = self.0.iter().enumerate();
        rules.find_map(|(at, rule)| rule.fault().map(|(field, why)| (at, field, why)))
    }

    /// The price of an instance for one hour without these rules.
    pub fn listed(bought: &Bought<'_>) -> Price {
        without_rules(bought)
    }

    /// The price of an instance for one hour.
    pub fn price(&self, bought: &Bought<'_>) -> Price {
        let mut rules = self.0.iter().filter(|rule| !rule.is_of_prepaid());
        let of_rule = rules.find(|rule| rule.applies(bought));
        let dollars = of_rule.and_then(|rule| rule.price_per_hour);
        if let Some(hourly) = dollars.and_then(MicroDollars::from_dollars) {
            return Price { hourly, source: PriceSource::Operator };
        }
        let Price { hourly, source } = without_rules(bought);
        match of_rule.and_then(|rule| rule.percent) {
            Some(percent) => {
                let hourly = MicroDollars::from_dollars(hourly.dollars() * percent / 100.0);
                // A share of an estimate is an estimate.
                let source = if source.is_known() { PriceSource::Operator } else { source };
                Price { hourly: hourly.unwrap_or_default(), source }
            }
            None => Price { hourly, source },
        }
    }
}

fn without_rules(bought: &Bought<'_>) -> Price {
    let price = without_overlay(bought);
    bought.overlay.map_or(price, |change| change.apply(price))
}

fn without_overlay(bought: &Bought<'_>) -> Price {
    let &Bought { instance_type: name, capacity_type, region, has, described, read, .. } = bought;
    if let Some(hourly) = described {
        return Price { hourly, source: PriceSource::CatalogFile };
    }
    let is_of_region = |prices: &&AwsPrices| region.is_none_or(|region| region == prices.region);
    if let Some(price) = read.filter(is_of_region).and_then(|prices| of_aws(prices, bought)) {
        return price;
    }
    let (on_demand, source) =
        listed(name, region).unwrap_or_else(|| (estimate(has), PriceSource::Estimate));
    let ratio = read.filter(is_of_region).filter(|_| source == PriceSource::OtherRegion);
    let ratio = ratio.and_then(AwsPrices::ratio).unwrap_or(1.0);
    let share = if capacity_type == CapacityType::Spot { SPOT_SHARE } else { 1.0 };
    let hourly = MicroDollars::from_dollars(on_demand.dollars() * ratio * share);
    Price { hourly: hourly.unwrap_or_default(), source }
}

/// The price that AWS gave for an instance. A spot instance whose price was not read has a share of
/// its on-demand price.
fn of_aws(prices: &AwsPrices, bought: &Bought<'_>) -> Option<Price> {
    let &Bought { instance_type, capacity_type, zone, .. } = bought;
    let is_spot = capacity_type == CapacityType::Spot;
    if let Some(hourly) = prices.spot(instance_type, zone).filter(|_| is_spot) {
        return Some(Price { hourly, source: PriceSource::SpotHistory });
    }
    let share = if is_spot { SPOT_SHARE } else { 1.0 };
    let dollars = prices.on_demand(instance_type)?.dollars() * share;
    let hourly = MicroDollars::from_dollars(dollars)?;
    Some(Price { hourly, source: PriceSource::PriceList })
}

/// The on-demand price of the table: that of the region, else that of us-east-1.
fn listed(name: &str, region: Option<&str>) -> Option<(MicroDollars, PriceSource)> {
    let known = instance_type(name)?;
    let of_region = known.price_in(region.unwrap_or(US_EAST_1));
    let here = of_region.map(|price| (price, PriceSource::Table));
    here.or_else(|| known.price().map(|price| (price, PriceSource::OtherRegion)))
}

/// The estimated on-demand price of a node that has these resources for pods: that of the most
/// expensive type of the table with as many accelerators and cores. Without such a type, the
/// highest price of an accelerator, or of a core, times their number. So idling is not priced too
/// low.
fn estimate(has: Resources) -> MicroDollars {
    let cores = if has.cpu_millis == UNLIMITED { 0 } else { has.cpu_millis.div_ceil(1_000) };
    let count = |known: &InstanceType| known.accelerators.map_or(0, |those| those.count);
    // The kubelet of a large type keeps more than a core.
    let near = |vcpus: u64| (cores..=cores.saturating_add(vcpus / 100)).contains(&vcpus);
    let alike = |known: &&InstanceType| count(known) == has.accelerators && near(known.vcpus);
    if let Some(price) = instance_types().iter().filter(alike).filter_map(InstanceType::price).max()
    {
        return price;
    }
    let (amount, of): (u64, fn(&InstanceType) -> u64) = match has.accelerators {
        0 => (cores, |known| if known.accelerators.is_none() { known.vcpus } else { 0 }),
        some => (some, |known| known.accelerators.map_or(0, |those| those.count)),
    };
    let each = instance_types().iter().filter(|known| of(known) > 0);
    let each = each.filter_map(|known| Some(known.price()?.0.div_ceil(of(known))));
    MicroDollars(each.max().unwrap_or(0)).times(amount)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::aws_prices::of_europe;

    fn bought(name: &str) -> Bought<'_> {
        Bought {
            instance_type: name,
            capacity_type: CapacityType::OnDemand,
            region: None,
            zone: None,
            has: Resources { cpu_millis: 3_920, ..Resources::default() },
            described: None,
            read: None,
            overlay: None,
        }
    }

    fn rules(text: &str) -> PriceRules {
        serde_json::from_str(text).unwrap()
    }

    #[track_caller]
    fn check(text: &str, bought: Bought<'_>, dollars: f64, source: PriceSource) {
        let expected = Price { hourly: MicroDollars::from_dollars(dollars).unwrap(), source };
        assert_eq!(rules(text).price(&bought), expected);
    }

    #[test]
    fn the_table_has_a_price_for_its_regions_and_a_hint_for_others() {
        use PriceSource::{CatalogFile, OtherRegion, Table};
        let in_region = |region| Bought { region: Some(region), ..bought("m5.xlarge") };
        check("[]", bought("p5.48xlarge"), 55.04, Table);
        check("[]", in_region("us-gov-east-1"), 0.242, Table);
        check("[]", in_region("eu-central-1"), 0.192, OtherRegion);
        check(
            "[]",
            Bought { described: Some(MicroDollars(7)), ..bought("m5.xlarge") },
            7e-6,
            CatalogFile,
        );
        let spot = Bought { capacity_type: CapacityType::Spot, ..bought("m5.xlarge") };
        check("[]", spot, 0.0768, Table);
    }

    #[test]
    fn an_overlay_changes_the_price_and_the_rules_apply_to_that() {
        use PriceSource::{Estimate, NodeOverlay, Operator};
        let change = |name, text| Bought {
            overlay: Some(PriceChange::of_adjustment(text).unwrap()),
            ..bought(name)
        };
        check("[]", change("m5.xlarge", "+10%"), 0.2112, NodeOverlay);
        check("[]", change("m5.xlarge", "-100%"), 0.0, NodeOverlay);
        check("[]", change("m5.xlarge", "-0.092"), 0.1, NodeOverlay);
        check("[]", change("m5.xlarge", "-7"), 0.0, NodeOverlay);
        check(r#"[{"percent": 50}]"#, change("m5.xlarge", "+1"), 0.596, Operator);
        check(r#"[{"pricePerHour": 3}]"#, change("m5.xlarge", "+1"), 3.0, Operator);
        let to = Some(PriceChange::To(MicroDollars(2_000_000)));
        check("[]", Bought { overlay: to, ..bought("z9.huge") }, 2.0, NodeOverlay);
        let estimate = PriceRules::default().price(&bought("z9.huge")).hourly.dollars();
        check("[]", change("z9.huge", "+100%"), estimate * 2.0, Estimate);
        for text in ["", "%", "ten", "NaN", "inf%"] {
            assert_eq!(PriceChange::of_adjustment(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_first_rule_that_applies_decides() {
        use PriceSource::{Estimate, Operator, Table};
        let text = r#"[
            {"instanceType": "p5.48xlarge", "zone": "a", "pricePerHour": 20},
            {"instanceType": "p5.48xlarge", "capacityType": "spot", "pricePerHour": 12.5},
            {"family": "m5", "percent": 72},
            {"capacityType": "spot", "percent": 50}
        ]"#;
        check(text, bought("p5.48xlarge"), 55.04, Table);
        check(text, Bought { zone: Some("a"), ..bought("p5.48xlarge") }, 20.0, Operator);
        let spot = |name| Bought { capacity_type: CapacityType::Spot, ..bought(name) };
        check(text, spot("p5.48xlarge"), 12.5, Operator);
        check(text, bought("m5.xlarge"), 0.13824, Operator);
        check(text, bought("m5a.xlarge"), 0.172, Table);
        check(text, spot("m7i.xlarge"), 0.2016 * 0.4 * 0.5, Operator);
        let unknown = rules(text).price(&spot("x9.xlarge"));
        assert_eq!(unknown.source, Estimate);
    }

    #[test]
    fn an_invalid_rule_is_named() {
        let fault = |text: &str| rules(text).fault();
        assert_eq!(fault(r#"[{"percent": 90}, {"family": "m5", "pricePerHour": 0}]"#), None);
        let both = r#"[{"percent": 90}, {"percent": 9, "pricePerHour": 1}]"#;
        let problem = || "give one of pricePerHour, percent, prepaid and reservation".to_owned();
        assert_eq!(fault(both), Some((1, "pricePerHour", problem())));
        assert_eq!(fault("[{}]"), Some((0, "pricePerHour", problem())));
        assert_eq!(fault(r#"[{"percent": -1}]"#).map(|(_, field, _)| field), Some("percent"));
        assert_eq!(
            fault(r#"[{"family": " ", "percent": 1}]"#).map(|(_, field, _)| field),
            Some("family")
        );
        let of_prepaid = [
            (
                r#"{"instanceType": "m5.large", "prepaid": 3, "until": "2026-12-24T00:00:00Z"}"#,
                None,
            ),
            (r#"{"instanceType": "p5.48xlarge", "capacityType": "reserved", "prepaid": 3}"#, None),
            (r#"{"family": "m5", "prepaid": 3}"#, Some(("prepaid", "needs instanceType"))),
            (
                r#"{"instanceType": "m5.large", "capacityType": "spot", "prepaid": 3}"#,
                Some(("prepaid", "is not for spot instances")),
            ),
            (
                r#"{"percent": 3, "until": "2026-12-24T00:00:00Z"}"#,
                Some(("until", "needs prepaid")),
            ),
            (
                r#"{"percent": 3, "capacityType": "reserved"}"#,
                Some(("capacityType", "needs prepaid")),
            ),
            (
                r#"{"instanceType": "m5.large", "prepaid": 3, "percent": 3}"#,
                Some((
                    "pricePerHour",
                    "give one of pricePerHour, percent, prepaid and reservation",
                )),
            ),
            (r#"{"reservation": {"id": "cr-1"}}"#, None),
            (r#"{"reservation": {"tags": {"team": "a"}}}"#, None),
            (
                r#"{"reservation": {"id": "r-1"}}"#,
                Some(("reservation", "expected an id such as cr-56fac701cc1951b03, tags, or both")),
            ),
            (
                r#"{"reservation": {}}"#,
                Some(("reservation", "expected an id such as cr-56fac701cc1951b03, tags, or both")),
            ),
            (
                r#"{"reservation": {"id": "cr-1"}, "prepaid": 3, "instanceType": "m5.large"}"#,
                Some(("reservation", "allows no other field beside it")),
            ),
        ];
        for (rule, expected) in of_prepaid {
            let found = fault(&format!("[{rule}]"));
            let found = found.as_ref().map(|(_, field, why)| (*field, why.as_str()));
            assert_eq!(found, expected, "{rule}");
        }
        // Such a rule gives no price.
        for of in
            [r#""instanceType": "m5.xlarge", "prepaid": 3"#, r#""reservation": {"id": "cr-1"}"#]
        {
            let text = format!(r#"[{{{of}}}, {{"percent": 50}}]"#);
            check(&text, bought("m5.xlarge"), 0.096, PriceSource::Operator);
        }
    }

    /// If a type of the table were unknown, its estimate would not be below its price, whether the
    /// size is that of the type or that of a node.
    #[test]
    fn an_estimate_is_never_below_the_price_of_a_type_of_equal_size() {
        for known in instance_types() {
            let capacity = known.capacity();
            if capacity.accelerators != known.accelerators.map_or(0, |those| those.count) {
                continue;
            }
            for has in [capacity, known.allocatable()] {
                assert!(Some(estimate(has)) >= known.price(), "{}", known.name);
            }
        }
        let none_alike = Resources { accelerators: 7, cpu_millis: 1_000, ..Resources::default() };
        assert!(estimate(none_alike).dollars() > 7.0 * 55.04 / 8.0);
    }

    #[test]
    fn prices_of_aws_precede_the_table() {
        use CapacityType::{OnDemand, Spot};
        use PriceSource::{OtherRegion, PriceList, SpotHistory, Table};
        let read = of_europe();
        let here = (Some("eu-central-1"), None);
        let table = [
            ("m5.xlarge", OnDemand, here, 0.23, PriceList),
            ("m5.xlarge", OnDemand, (None, None), 0.23, PriceList),
            ("m5.xlarge", OnDemand, (Some("us-east-1"), None), 0.192, Table),
            ("m5.xlarge", Spot, (here.0, Some("b")), 0.08, SpotHistory),
            ("m5.xlarge", Spot, here, 0.07, SpotHistory),
            ("m7i.xlarge", OnDemand, here, 0.2016, OtherRegion),
            ("c5.xlarge", Spot, here, 0.068, OtherRegion),
        ];
        for (name, capacity_type, (region, zone), dollars, source) in table {
            let read = Some(&read);
            let one = Bought { capacity_type, region, zone, read, ..bought(name) };
            check("[]", one, dollars, source);
        }
        // The prices of three types show what the region costs.
        let mut more = read.clone();
        for (name, dollars) in [("c5.large", 0.1), ("r5.large", 0.15)] {
            more.note_on_demand(name, MicroDollars::from_dollars(dollars), 0);
        }
        let ratio = more.ratio().unwrap();
        assert!((ratio - 0.15 / 0.126).abs() < 1e-9, "{ratio}");
        let one = Bought { region: here.0, read: Some(&more), ..bought("m7i.xlarge") };
        check("[]", one, 0.2016 * ratio, OtherRegion);
        // A spot price that was not read is a share of the price list.
        let read = AwsPrices { spot: BTreeMap::new(), ..read };
        let spot = Bought { capacity_type: Spot, read: Some(&read), ..bought("m5.xlarge") };
        check("[]", spot, 0.092, PriceList);
    }
}
