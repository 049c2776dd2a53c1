//! Prices that were read from AWS for one region: the price list, and the spot prices of a day.

use std::collections::BTreeMap;

use embedder::MicroDollars;
use serde::{Deserialize, Serialize};

/// How long a price of the price list counts as current, in seconds: a day.
const LISTED_SECONDS: i64 = 86_400;

/// How long a spot price counts as current, in seconds: 15 minutes.
const SPOT_SECONDS: i64 = 900;

/// The least change of a spot price that counts, in percent: 10. A policy learns its history again
/// when the price of a bucket changes, and the mean of a day moves a little at each read.
const SPOT_CHANGE: u128 = 10;

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
    /// The price of an hour in millionths of a dollar, by zone: the mean of the last day, or one of
    /// before from which that differs by less than 10 %.
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

    /// The instance types among `wanted` whose on-demand price is to be read at `now`.
    pub fn on_demand_due<'a>(
        &'a self,
        wanted: impl Iterator<Item = &'a String> + 'a,
        now: i64,
    ) -> impl Iterator<Item = &'a String> + 'a {
        wanted.filter(move |name| {
            let read = self.on_demand.get(*name).map(|price| price.read);
            !is_current(read, now, LISTED_SECONDS)
        })
    }

    /// The instance types among `wanted` whose spot prices are to be read at `now`.
    pub fn spot_due<'a>(
        &'a self,
        wanted: impl Iterator<Item = &'a String> + 'a,
        now: i64,
    ) -> impl Iterator<Item = &'a String> + 'a {
        wanted.filter(move |name| {
            !is_current(self.spot.get(*name).map(|prices| prices.read), now, SPOT_SECONDS)
        })
    }

    /// Notes the mean spot prices of an instance type, in millionths of a dollar by zone, which
    /// were read at `now`.
    pub fn note_spot(&mut self, name: &str, mut means: BTreeMap<String, u64>, now: i64) {
        let known = self.spot.entry(name.to_owned()).or_default();
        for (zone, mean) in &mut means {
            let Some(before) = known.micro_dollars.get(zone) else { continue };
            if u128::from(mean.abs_diff(*before)) * 100 < u128::from(*before) * SPOT_CHANGE {
                *mean = *before;
            }
        }
        *known = SpotPrices { micro_dollars: means, read: now };
    }

    /// Forgets the prices that were not read for a week, so that their number stays bounded.
    pub fn forget_old(&mut self, now: i64) {
        self.on_demand.retain(|_, price| is_current(Some(price.read), now, KEPT_SECONDS));
        self.spot.retain(|_, prices| is_current(Some(prices.read), now, KEPT_SECONDS));
    }

    /// The on-demand price that AWS gave for an instance type. `None` if it was not read, or the
    /// region does not sell the type.
    pub fn on_demand(&self, instance_type: &str) -> Option<MicroDollars> {
        self.on_demand.get(instance_type)?.micro_dollars.map(MicroDollars)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> AwsPrices {
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

    #[test]
    fn a_spot_price_changes_by_a_tenth_or_not_at_all() {
        let mut prices = prices();
        let means = [("a", 65_999), ("b", 72_000), ("c", 1)];
        prices.note_spot(
            "m5.xlarge",
            means.map(|(zone, mean)| (zone.to_owned(), mean)).into(),
            200,
        );
        let expected = [("a", 60_000), ("b", 72_000), ("c", 1)];
        let SpotPrices { micro_dollars, read } = &prices.spot["m5.xlarge"];
        assert_eq!(*micro_dollars, expected.map(|(zone, of)| (zone.to_owned(), of)).into());
        assert_eq!(*read, 200);
    }

    #[test]
    fn prices_are_read_again_once_they_are_old() {
        let mut prices = prices();
        let wanted = ["m5.xlarge".to_owned(), "m7i.xlarge".to_owned()];
        let on_demand = |prices: &AwsPrices, now| prices.on_demand_due(wanted.iter(), now).count();
        assert_eq!(on_demand(&prices, 100 + LISTED_SECONDS - 1), 0);
        assert_eq!(on_demand(&prices, 100 + LISTED_SECONDS), 2);
        // The clock was set back.
        assert_eq!(on_demand(&prices, 99), 2);
        assert_eq!(prices.spot_due(wanted.iter(), 101).count(), 1);
        prices.forget_old(100 + KEPT_SECONDS - 1);
        assert_eq!(prices.on_demand.len(), 2);
        prices.forget_old(100 + KEPT_SECONDS);
        assert_eq!(prices, AwsPrices::of_region("eu-central-1"));
    }
}
