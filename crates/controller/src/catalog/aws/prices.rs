//! Reads the prices of instance types: on demand from the Price List service, and spot prices from
//! their history. Both actions are optional: without them, the built-in table serves.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::SpotPrice;
use chrono::{DateTime, TimeDelta, Utc};
use embedder::MicroDollars;
use instances::AwsPrices;
use serde::Deserialize;

use super::calls::{Clients, TYPES_MAX};
use crate::causes::chain;

/// The most instance types whose prices are read. The table has about as many.
const WANTED_MAX: usize = 1_500;

/// Instance types in one call of the Price List service. A product is about 5 KB of JSON, and a
/// page has at most 100 of them.
const LISTED_AT_ONCE: usize = 50;

/// How far back spot prices are averaged.
const SPOT_DAYS: TimeDelta = TimeDelta::days(1);

/// Reads prices for the region of its clients.
#[derive(Clone, Debug)]
pub struct PriceReader {
    pub(super) clients: Clients,
    region: String,
}

impl PriceReader {
    /// Creates a reader. `None` if the clients have no region.
    pub fn new(clients: Clients) -> Option<Self> {
        let region = clients.region()?.to_owned();
        Some(Self { clients, region })
    }

    /// No prices of the region yet.
    pub fn none(&self) -> AwsPrices {
        AwsPrices::of_region(&self.region)
    }

    /// Reads those prices of the instance types `wanted` again that are missing or old: prices of
    /// the price list after a day, spot prices after 15 minutes. Returns what failed, one message
    /// for each action. What was read before stays then.
    pub async fn refresh(
        &self,
        prices: &mut AwsPrices,
        wanted: &BTreeSet<String>,
        now: DateTime<Utc>,
    ) -> Vec<String> {
        let all = wanted;
        let wanted = || all.iter().take(WANTED_MAX);
        let seconds = now.timestamp();
        let mut failures = Vec::new();
        let due = wanted().filter(|name| prices.is_on_demand_due(name, seconds));
        let due: Vec<String> = due.cloned().collect();
        if let Some(of) = price_list_region(&self.region) {
            for names in due.chunks(LISTED_AT_ONCE) {
                match self.clients.products(of, &self.region, names).await {
                    Ok(products) => {
                        let listed = cheapest(&products);
                        for name in names {
                            prices.note_on_demand(name, listed.get(name).copied(), seconds);
                        }
                    }
                    Err(error) => {
                        failures.push(chain(&error));
                        break;
                    }
                }
            }
        }
        let due = wanted().filter(|name| prices.is_spot_due(name, seconds));
        let due: Vec<String> = due.filter(|_| is_in_dollars(&self.region)).cloned().collect();
        for names in due.chunks(TYPES_MAX) {
            match self.clients.spot_prices(names, now - SPOT_DAYS).await {
                Ok(history) => {
                    let mut means = means(&history, now);
                    for name in names {
                        let of_type = means.remove(name.as_str()).unwrap_or_default();
                        prices.note_spot(name, of_type, seconds);
                    }
                }
                Err(error) => {
                    failures.push(chain(&error));
                    break;
                }
            }
        }
        prices.forget_old(all, seconds);
        failures
    }
}

/// The region whose endpoint of the Price List service serves a region: one of three, or none for
/// `GovCloud`, whose prices the table has, for China, whose prices are in yuan, and for isolated
/// regions.
fn price_list_region(region: &str) -> Option<&'static str> {
    let (area, rest) = region.split_once('-')?;
    match area {
        "eu" | "me" | "af" | "il" => Some("eu-central-1"),
        "ap" => Some("ap-south-1"),
        "us" if rest.starts_with("gov") || rest.starts_with("iso") => None,
        "us" | "ca" | "sa" | "mx" => Some("us-east-1"),
        _ => None,
    }
}

/// Whether the prices of a region are in dollars. Those of China are in yuan, and those of the
/// European Sovereign Cloud in euros.
fn is_in_dollars(region: &str) -> bool {
    !["cn-", "eusc-"].iter().any(|area| region.starts_with(area))
}

/// A product of the price list, in the form `aws_v1`.
#[derive(Deserialize)]
struct Product {
    product: Attributed,
    #[serde(default)]
    terms: Terms,
}

#[derive(Deserialize)]
struct Attributed {
    attributes: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct Terms {
    #[serde(rename = "OnDemand", default)]
    on_demand: BTreeMap<String, Term>,
}

#[derive(Deserialize)]
struct Term {
    #[serde(rename = "priceDimensions", default)]
    dimensions: BTreeMap<String, Dimension>,
}

#[derive(Deserialize)]
struct Dimension {
    unit: String,
    #[serde(rename = "pricePerUnit", default)]
    price: BTreeMap<String, String>,
}

/// The lowest price of an hour for each instance type among products in JSON. Products without one
/// are passed over.
fn cheapest(products: &[String]) -> BTreeMap<String, MicroDollars> {
    let mut found: BTreeMap<String, MicroDollars> = BTreeMap::new();
    for product in products.iter().filter_map(|text| serde_json::from_str::<Product>(text).ok()) {
        let Some(name) = product.product.attributes.get("instanceType") else { continue };
        let dimensions = product.terms.on_demand.values().flat_map(|term| term.dimensions.values());
        let hourly = dimensions.filter(|of| of.unit == "Hrs").filter_map(|of| dollars(&of.price));
        // A product without a charge, such as a reservation, is no instance that is bought.
        if let Some(price) = hourly.filter(|price| price.0 > 0).min() {
            let known = found.entry(name.clone()).or_insert(price);
            *known = price.min(*known);
        }
    }
    found
}

fn dollars(price: &BTreeMap<String, String>) -> Option<MicroDollars> {
    MicroDollars::from_dollars(price.get("USD")?.parse().ok()?)
}

/// The mean price of each instance type in each zone until `now`, in millionths of a dollar,
/// weighted by time. The first price of a zone is the one that held when the period began.
fn means(history: &[SpotPrice], now: DateTime<Utc>) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut changes: BTreeMap<(&str, &str), Vec<(i64, u64)>> = BTreeMap::new();
    for one in history {
        let place = one.instance_type().zip(one.availability_zone());
        let price =
            one.spot_price().and_then(|text| MicroDollars::from_dollars(text.parse().ok()?));
        if let (Some((name, zone)), Some(price), Some(at)) = (place, price, one.timestamp()) {
            changes.entry((name.as_str(), zone)).or_default().push((at.secs(), price.0));
        }
    }
    let (from, until) = ((now - SPOT_DAYS).timestamp(), now.timestamp());
    let mut means: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for ((name, zone), mut changes) in changes {
        changes.sort_unstable();
        let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([until]);
        let (mut sum, mut seconds) = (0_u128, 0_u128);
        for ((at, price), end) in changes.iter().zip(ends) {
            let held = end.min(until).saturating_sub((*at).max(from)).max(0);
            let held = u128::from(held.unsigned_abs());
            (sum, seconds) = (sum + u128::from(*price) * held, seconds + held);
        }
        // A price that changed just now has held for no second.
        let mean = sum.checked_div(seconds).or_else(|| Some(changes.last()?.1.into()));
        if let Some(mean) = mean.and_then(|mean| u64::try_from(mean).ok()) {
            means.entry(name.to_owned()).or_default().insert(zone.to_owned(), mean);
        }
    }
    means
}

#[cfg(test)]
mod tests {
    use aws_sdk_ec2::primitives::DateTime as AwsTime;
    use aws_sdk_ec2::types::InstanceType;

    use super::*;

    #[test]
    fn each_region_has_its_price_list() {
        let table = [
            ("us-east-1", Some("us-east-1")),
            ("sa-east-1", Some("us-east-1")),
            ("eu-west-3", Some("eu-central-1")),
            ("il-central-1", Some("eu-central-1")),
            ("ap-northeast-2", Some("ap-south-1")),
            ("us-gov-west-1", None),
            ("us-iso-east-1", None),
            ("cn-north-1", None),
            ("region", None),
        ];
        for (region, expected) in table {
            assert_eq!(price_list_region(region), expected, "{region}");
        }
    }

    /// The form is that of the documentation of `GetProducts`.
    #[test]
    fn the_price_of_a_product_is_that_of_an_hour() {
        let product = |name: &str, unit: &str, usd: &str| {
            serde_json::json!({
                "product": {
                    "productFamily": "Compute Instance",
                    "attributes": {"instanceType": name, "operatingSystem": "Linux", "memory": "16 GiB"},
                    "sku": "AAAA",
                },
                "serviceCode": "AmazonEC2",
                "terms": {"OnDemand": {"AAAA.JRTCKXETXF": {
                    "priceDimensions": {"AAAA.JRTCKXETXF.6YS6EN2CT7": {
                        "unit": unit, "endRange": "Inf", "beginRange": "0", "appliesTo": [],
                        "description": "an instance for an hour", "pricePerUnit": {"USD": usd},
                    }},
                    "sku": "AAAA", "effectiveDate": "2026-11-01T00:00:00Z", "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }}},
                "version": "20261101000000", "publicationDate": "2026-11-01T00:00:00Z",
            })
            .to_string()
        };
        let products = [
            product("m5.xlarge", "Hrs", "0.2300000000"),
            product("m5.xlarge", "Hrs", "0.0000000000"),
            product("m7i.xlarge", "Quantity", "1.0000000000"),
            product("c5.xlarge", "Hrs", "many"),
            "{}".to_owned(),
        ];
        let expected = [("m5.xlarge".to_owned(), MicroDollars(230_000))].into();
        assert_eq!(cheapest(&products), expected);
    }

    #[test]
    fn a_spot_price_is_the_mean_of_a_day() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let spot = |zone: &str, hours_ago: i64, price: &str| {
            SpotPrice::builder()
                .instance_type(InstanceType::M5Xlarge)
                .availability_zone(zone)
                .timestamp(AwsTime::from_secs(1_000_000 - hours_ago * 3_600))
                .spot_price(price)
                .build()
        };
        // In zone a, $0.08 held for 18 of the 24 hours, and $0.04 for 6.
        let history = [
            spot("a", 6, "0.0400"),
            spot("a", 48, "0.0800"),
            spot("b", 0, "0.0500"),
            spot("c", 1, "none"),
        ];
        let expected = [("a".to_owned(), 70_000), ("b".to_owned(), 50_000)].into();
        assert_eq!(means(&history, now), [("m5.xlarge".to_owned(), expected)].into());
    }
}
