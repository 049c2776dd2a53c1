//! Capacity reservations of AWS, whose instances are paid whether they run or not.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// A capacity reservation that is active: an On-Demand Capacity Reservation, or a Capacity Block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityReservation {
    /// The ID, such as `cr-56fac701cc1951b03`.
    pub id: String,
    /// The tags.
    pub tags: BTreeMap<String, String>,
    /// The instance type.
    pub instance_type: String,
    /// The zone.
    pub zone: String,
    /// The number of its instances.
    pub total: u64,
    /// How many of them no instance uses.
    pub available: u64,
    /// The IDs of the instances of the account that use it, of this cluster and of others.
    pub instances: BTreeSet<String>,
    /// When no more of its instances are held. `None` if it has no end.
    pub until: Option<DateTime<Utc>>,
}

/// The capacity reservations that a rule counts: those that meet all of its conditions, of which
/// there is at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReservationSelector {
    /// The ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Tags that the reservation has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl ReservationSelector {
    /// Whether a reservation meets all conditions.
    pub fn selects(&self, reservation: &CapacityReservation) -> bool {
        let Self { id, tags } = self;
        id.as_ref().is_none_or(|id| *id == reservation.id)
            && tags.iter().all(|(key, value)| reservation.tags.get(key) == Some(value))
    }

    /// Whether there is a condition.
    pub(crate) fn is_valid(&self) -> bool {
        let Self { id, tags } = self;
        let is_named = id.as_ref().is_none_or(|id| id.starts_with("cr-"));
        is_named && (id.is_some() || !tags.is_empty())
    }
}

impl std::fmt::Display for ReservationSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tags = self.tags.iter().map(|(key, value)| format!("the tag {key}={value}"));
        let all: Vec<String> = self.id.iter().cloned().chain(tags).collect();
        f.write_str(&all.join(" and "))
    }
}
