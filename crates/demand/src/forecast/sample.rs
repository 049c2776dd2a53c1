//! Catalogs, ticks and configurations for tests, also for those of other crates.

use base::tier::Tiers;
use chrono::DateTime;
use embedder::{
    AcceleratorKind, Bucket, CapacityType, Catalog, Group, MicroDollars, Resources, UNLIMITED,
};
use placeholders::Objective;

use super::config::ForecasterConfig;
use super::lead::Lead;
use super::method::Method;
use super::methods::Ladder;
use super::onnx::ModelSource;
use crate::record::{BucketTick, Tick};

/// A lead time of three one-minute ticks.
pub const LEAD: Lead = Lead { seconds: 180, tick_seconds: 60 };

/// A catalog of one instance type with eight processors.
#[expect(clippy::missing_panics_doc, reason = "one bucket is a valid catalog")]
pub fn catalog() -> Catalog {
    let bucket = Bucket {
        name: "one".into(),
        capacity_type: CapacityType::OnDemand,
        accelerator_kind: AcceleratorKind::default(),
        allocatable: Resources { accelerators: 0, cpu_millis: 8_000, ..Resources::UNLIMITED },
        hourly: MicroDollars(0),
        groups: vec![Group {
            name: "one".into(),
            placement_group: None,
            min: 0,
            max: UNLIMITED,
            weight: 0,
        }],
    };
    Catalog::new(vec![bucket]).expect("a valid catalog")
}

/// A tick without arrivals, at a minute of 1970.
///
/// # Panics
/// On a minute beyond the calendar.
pub fn tick(minute: i64, buckets: Vec<BucketTick>) -> Tick {
    let time = DateTime::from_timestamp(60 * minute, 0).expect("a minute that is in range");
    Tick {
        time,
        buckets,
        room: vec![],
        first_seen: vec![],
        arrivals: vec![],
        gangs: vec![],
        tiers: vec![],
        namespaces: vec![],
        kept: Vec::new(),
        runs: Vec::new(),
        rollout_percent: None,
    }
}

/// The configuration of a method over [`catalog`], with the shipped model.
pub fn config(method: Method, objective: Objective) -> ForecasterConfig {
    ForecasterConfig {
        catalog: catalog(),
        method,
        ladder: Ladder::default(),
        ladder_first: false,
        expression: None,
        leads: vec![LEAD; catalog().len()],
        unneeded_seconds: vec![600; catalog().len()],
        objective,
        tiers: Tiers::default(),
        model: ModelSource::Pretrained,
        patient: true,
    }
}
