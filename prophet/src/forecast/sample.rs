//! Histories for tests.

use chrono::DateTime;
use embedder::Catalog;
use placeholders::Objective;

use super::onnx::Source;
use super::{Basis, Ladder, Lead, Method};
use crate::catalog::{CatalogFile, InstanceTypeEntry};
use crate::record::{BucketTick, Tick};

/// Three ticks.
pub(super) const LEAD: Lead = Lead { seconds: 180, tick_seconds: 60 };

/// One type of eight processors.
pub(super) fn catalog() -> Catalog {
    let entry =
        InstanceTypeEntry { name: "one".into(), cpu_millis: Some(8_000), ..InstanceTypeEntry::default() };
    CatalogFile { instance_types: vec![entry] }.catalog().unwrap()
}

/// A tick without arrivals.
pub(super) fn tick(minute: i64, buckets: Vec<BucketTick>) -> Tick {
    let time = DateTime::from_timestamp(60 * minute, 0).unwrap();
    Tick { time, buckets, room: vec![], first_seen: vec![], arrivals: vec![] }
}

/// A method over that catalog, with the network that is shipped.
pub(crate) fn basis(method: Method, objective: Objective) -> Basis {
    Basis {
        catalog: catalog(),
        method,
        ladder: Ladder::default(),
        lead: LEAD,
        objective,
        network: Source::Pretrained,
    }
}
