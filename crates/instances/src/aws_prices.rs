//! Prices that were read from AWS for one region: the price list, and the spot prices of a day.

use std::collections::{BTreeMap, BTreeSet};

use embedder::MicroDollars;
use serde::{Deserialize, Serialize};

use crate::table::{US_EAST_1, instance_type};

/// How long a price of the price list counts as current, in seconds: a day.
const LISTED_SECONDS: i64 = 86_400;

/// How long a spot price counts as current, in seconds: 15 minutes.
const SPOT_SECONDS: i64 = 900;

/// The fewest types whose prices show the ratio of a region.
const RATIOS_MIN: usize = 3;

/// How long the prices of an instance type that is not on offer are kept, in seconds: a week.
const KEPT_SECONDS: i64 = 7 * 86_400;

/// Prices of instances of one region, as AWS gave them. Times are in Unix seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AwsPrices {
    /// The region.
    pub region: String,
    /// The on-demand prices of the price list, by instance type.
    #[serde(default)]
    pub on_demand: BTreeMap<String, ListedPrice>,
    /// The spot prices, by instance type.
    #[serde(default)]
    pub spot: BTreeMap<String, SpotPrices>,
}

/// An on-demand price of the price list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListedPrice {
    /// The price for an hour in millionths of a dollar. `None` if the region does not sell the
    /// type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_dollars: Option<u64>,
    /// When it was read.
    pub read: i64,
}

/// The spot prices of an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpotPrices {
    /// The mean price of an hour in the last day, in millionths of a dollar, by zone.
    #[serde(default)]
    pub micro_dollars: BTreeMap<String, u64>,
    /// When they were read.
    pub read: i64,
}

impl SpotPrices {
    /// The price in a zone, or the mean of all zones.
    fn of(&self, zone: Option<&str>) -> Option<MicroDollars> {
        if let Some(price) = zone.and_then(|zone| self.micro_dollars.get(zone)) {
            return Some(MicroDollars(*price));
        }
        let sum = self.micro_dollars.values().fold(0, |sum: u64, one| sum.saturating_add(*one));
        Some(MicroDollars(sum.checked_div(self.micro_dollars.len() as u64)?))
    }
}

impl AwsPrices {
    /// No prices of a region yet.
    pub fn of_region(region: &str) -> Self {
        Self { region: region.to_owned(), ..Self::default() }
    }

    /// Whether the on-demand price of an instance type is to be read at `now`.
    pub fn is_on_demand_due(&self, name: &str, now: i64) -> bool {
        let read = self.on_demand.get(name).map(|price| price.read);
        !is_current(read, now, LISTED_SECONDS)
    }

    /// Whether the spot prices of an instance type are to be read at `now`.
    pub fn is_spot_due(&self, name: &str, now: i64) -> bool {
        let read = self.spot.get(name).map(|prices| prices.read);
        !is_current(read, now, SPOT_SECONDS)
    }

    /// Notes the on-demand price of an instance type, which was read at `now`. A price that is
    /// known stays if none was found.
    pub fn note_on_demand(&mut self, name: &str, price: Option<MicroDollars>, now: i64) {
        let known = self.on_demand.entry(name.to_owned()).or_default();
        known.micro_dollars = price.map(|price| price.0).or(known.micro_dollars);
        known.read = now;
    }

    /// Notes the mean spot prices of an instance type, in millionths of a dollar by zone, which
    /// were read at `now`. Prices that are known stay if none were found.
    pub fn note_spot(&mut self, name: &str, means: BTreeMap<String, u64>, now: i64) {
        let known = self.spot.entry(name.to_owned()).or_default();
        if !means.is_empty() {
            known.micro_dollars = means;
        }
        known.read = now;
    }

    /// Forgets the prices of the types that are not on offer and were not read for a week, so that
    /// their number stays bounded.
    pub fn forget_old(&mut self, wanted: &BTreeSet<String>, now: i64) {
        let is_kept = |name: &String, read| {
            wanted.contains(name) || is_current(Some(read), now, KEPT_SECONDS)
        };
        self.on_demand.retain(|name, price| is_kept(name, price.read));
        self.spot.retain(|name, prices| is_kept(name, prices.read));
    }

    /// The on-demand price that AWS gave for an instance type. `None` if it was not read, or the
    /// region does not sell the type.
    pub fn on_demand(&self, instance_type: &str) -> Option<MicroDollars> {
        self.on_demand.get(instance_type)?.micro_dollars.map(MicroDollars)
    }

    /// How many times as much an instance costs in this region as in us-east-1: the median of the
    /// types whose prices are known in both. `None` if they are fewer than three.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = |name: &String| {
            let here = self.on_demand(name)?.dollars();
            let there = instance_type(name)?.price_in(US_EAST_1)?.dollars();
            (there > 0.0).then(|| here / there)
        };
        let mut ratios: Vec<f64> = self.on_demand.keys().filter_map(ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        (ratios.len() >= RATIOS_MIN).then(|| ratios[ratios.len() / 2])
    }

    /// The spot price that AWS gave for an instance type in a zone, or the mean of all zones.
    /// `None` if it was not read, or no zone has the type.
    pub fn spot(&self, instance_type: &str, zone: Option<&str>) -> Option<MicroDollars> {
        self.spot.get(instance_type)?.of(zone)
    }
}

/// Whether what was read at `read` is at most `seconds` old. A time in the future, which a clock
/// that was set back leaves, is not.
fn is_current(read: Option<i64>, now: i64, seconds: i64) -> bool {
    read.is_some_and(|read| (0..seconds).contains(&now.saturating_sub(read)))
}

/// Prices of eu-central-1, which does not sell m7i.xlarge, for tests.
#[cfg(test)]
pub(crate) fn of_europe() -> AwsPrices {
    let listed = |micros| ListedPrice { micro_dollars: micros, read: 100 };
    let spot = [("a".to_owned(), 60_000), ("b".to_owned(), 80_000)].into();
    AwsPrices {
        region: "eu-central-1".into(),
        on_demand: [
            ("m5.xlarge".to_owned(), listed(Some(230_000))),
            ("m7i.xlarge".to_owned(), listed(None)),
        ]
        .into(),
        spot: [("m5.xlarge".to_owned(), SpotPrices { micro_dollars: spot, read: 100 })].into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_that_is_not_found_again_stays() {
        let mut prices = of_europe();
        prices.note_spot("m5.xlarge", BTreeMap::new(), 200);
        prices.note_on_demand("m5.xlarge", None, 200);
        prices.note_on_demand("m7i.xlarge", Some(MicroDollars(1)), 200);
        assert_eq!(prices.spot("m5.xlarge", Some("a")), Some(MicroDollars(60_000)));
        assert_eq!(prices.on_demand("m5.xlarge"), Some(MicroDollars(230_000)));
        assert_eq!(prices.on_demand("m7i.xlarge"), Some(MicroDollars(1)));
        assert_eq!(prices.spot["m5.xlarge"].read, 200);
    }

    #[test]
    fn prices_are_read_again_once_they_are_old() {
        let mut prices = of_europe();
        let wanted = ["m5.xlarge".to_owned(), "m7i.xlarge".to_owned()];
        let on_demand = |prices: &AwsPrices, now| {
            wanted.iter().filter(|name| prices.is_on_demand_due(name, now)).count()
        };
        assert_eq!(on_demand(&prices, 100 + LISTED_SECONDS - 1), 0);
        assert_eq!(on_demand(&prices, 100 + LISTED_SECONDS), 2);
        // The clock was set back.
        assert_eq!(on_demand(&prices, 99), 2);
        assert!(!prices.is_spot_due("m5.xlarge", 101) && prices.is_spot_due("m7i.xlarge", 101));
        let none = BTreeSet::new();
        prices.forget_old(&none, 100 + KEPT_SECONDS - 1);
        assert_eq!(prices.on_demand.len(), 2);
        prices.forget_old(&wanted.clone().into(), 100 + KEPT_SECONDS);
        assert_eq!(prices.on_demand.len(), 2);
        prices.forget_old(&none, 100 + KEPT_SECONDS);
        assert_eq!(prices, AwsPrices::of_region("eu-central-1"));
    }
}
