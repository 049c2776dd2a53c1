//! Histories for tests.

use chrono::DateTime;
use embedder::Catalog;
use placeholders::Objective;

use super::config::ForecasterConfig;
use super::lead::Lead;
use super::method::Method;
use super::methods::Ladder;
use super::onnx::ModelSource;
use crate::catalog::{CatalogFile, InstanceTypeEntry};
use crate::record::{BucketTick, Tick};
use crate::tier::Tiers;

/// A lead time of three one-minute ticks.
pub(crate) const LEAD: Lead = Lead { seconds: 180, tick_seconds: 60 };

/// A catalog of one instance type with eight processors.
pub(crate) fn catalog() -> Catalog {
    catalog_of([("one", 0.0)])
}

/// A catalog of instance types with these names and prices in dollars per hour, and eight
/// processors each.
pub(crate) fn catalog_of<const N: usize>(types: [(&str, f64); N]) -> Catalog {
    let entry = |(name, price): (&str, f64)| InstanceTypeEntry {
        name: name.into(),
        cpu_millis: Some(8_000),
        price_per_hour: price,
        ..InstanceTypeEntry::default()
    };
    CatalogFile { instance_types: types.map(entry).into() }.catalog().unwrap()
}

/// A tick without arrivals.
pub(crate) fn tick(minute: i64, buckets: Vec<BucketTick>) -> Tick {
    let time = DateTime::from_timestamp(60 * minute, 0).unwrap();
    Tick {
        time,
        buckets,
        room: vec![],
        first_seen: vec![],
        arrivals: vec![],
        gangs: vec![],
        tiers: vec![],
        rollout_percent: None,
    }
}

/// The configuration of a method over [`catalog`], with the shipped model.
pub(crate) fn config(method: Method, objective: Objective) -> ForecasterConfig {
    ForecasterConfig {
        catalog: catalog(),
        method,
        ladder: Ladder::default(),
        ladder_first: false,
        expression: None,
        leads: vec![LEAD; catalog().len()],
        objective,
        tiers: Tiers::default(),
        model: ModelSource::Pretrained,
        patient: true,
    }
}
