//! Buckets, groups and catalogs.

use embedder::{
    AcceleratorKind, Bucket, CapacityType, Catalog, Devices, Group, MicroDollars, Resources,
    UNLIMITED,
};

/// A catalog of instance types: the name, the CPU in thousandths of a core, and the price in
/// dollars per hour, as in [`bucket`].
///
/// # Panics
/// On types of the same name, without a type, and on a price that is out of range.
pub fn catalog<const N: usize>(types: [(&str, u64, f64); N]) -> Catalog {
    catalog_of(types.map(|(name, cpu_millis, dollars)| bucket(name, cpu_millis, dollars)))
}

/// A catalog of these buckets.
///
/// # Panics
/// On buckets or groups of the same name, and without a bucket.
pub fn catalog_of(buckets: impl IntoIterator<Item = Bucket>) -> Catalog {
    Catalog::new(buckets.into_iter().collect()).expect("a valid catalog")
}

/// A bucket without accelerators, with this CPU in thousandths of a core and with a price in
/// dollars per hour. Its other resources have no limit. It has one [`group`] of its own name,
/// without a maximum. It is a spot bucket if its name has `/spot` after the instance type.
///
/// # Panics
/// On a price that is out of range.
pub fn bucket(name: &str, cpu_millis: u64, dollars_per_hour: f64) -> Bucket {
    let is_spot = name.split('/').nth(1) == Some("spot");
    Bucket {
        name: name.into(),
        capacity_type: if is_spot { CapacityType::Spot } else { CapacityType::OnDemand },
        accelerator_kind: AcceleratorKind::default(),
        allocatable: Resources {
            accelerators: 0,
            devices: Devices::NONE,
            cpu_millis,
            ..Resources::UNLIMITED
        },
        hourly: MicroDollars::from_dollars(dollars_per_hour).expect("a price that is in range"),
        groups: vec![group(name, UNLIMITED)],
    }
}

/// A group of at most `max` instances, in no placement group.
pub fn group(name: &str, max: u64) -> Group {
    Group { name: name.into(), placement_group: None, min: 0, max, weight: 0 }
}
