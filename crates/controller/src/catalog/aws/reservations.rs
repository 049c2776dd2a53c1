//! Reads the capacity reservations of AWS and the instances that use them. Both actions are
//! optional: only rules of the operator's prices that name reservations need them.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::types::{
    CapacityReservation as AwsReservation, CapacityReservationInstancePlatform as Platform,
    CapacityReservationState, CapacityReservationTenancy as Tenancy, CapacityReservationType,
};
use chrono::{DateTime, TimeDelta, Utc};
use instances::{CapacityReservation, PriceRules};

use super::calls::AwsError;
use super::prices::PriceReader;

/// How long before the end of a Capacity Block its instances are held no more: 40 minutes, or 70
/// where AWS needs longer. AWS begins to terminate them 30 minutes before the end, 60 minutes with
/// `UltraServers`, and Karpenter drains their nodes ten minutes earlier.
const BLOCK_ENDS: TimeDelta = TimeDelta::minutes(40);
const BLOCK_OF_ULTRA_SERVERS_ENDS: TimeDelta = TimeDelta::minutes(70);

/// What the names of instance types of `UltraServers` begin with.
const ULTRA_SERVERS: [&str; 2] = ["p6e-", "trn2u."];

impl PriceReader {
    /// Reads the capacity reservations of the region for Linux instances that one of the rules
    /// names. One that has not begun has no instances.
    ///
    /// # Errors
    /// A call failed, after its retries.
    pub async fn reservations(
        &self,
        rules: &PriceRules,
    ) -> Result<Vec<CapacityReservation>, AwsError> {
        let found = self.clients.reservations().await?;
        let found = found.iter().filter_map(reservation_of);
        let is_named =
            |of: &CapacityReservation| rules.reservations().any(|(_, one)| one.selects(of));
        let mut named: BTreeMap<String, CapacityReservation> =
            found.filter(is_named).map(|of| (of.id.clone(), of)).collect();
        let ids: Vec<String> = named.keys().cloned().collect();
        for (instance, id) in self.clients.instances_in(&ids).await? {
            if let Some(reservation) = named.get_mut(&id) {
                reservation.instances.insert(instance);
            }
        }
        Ok(named.into_values().collect())
    }
}

/// A reservation that instances of a cluster can use: of Linux, and on shared hardware. `None` for
/// others, and for an incomplete answer.
fn reservation_of(of: &AwsReservation) -> Option<CapacityReservation> {
    let is_linux = of.instance_platform().is_none_or(|of| *of == Platform::LinuxUnix);
    if !is_linux || of.tenancy().is_some_and(|of| *of != Tenancy::Default) {
        return None;
    }
    let count = |number: Option<i32>| u64::try_from(number.unwrap_or(0)).unwrap_or(0);
    let is_active = of.state() == Some(&CapacityReservationState::Active);
    let instance_type = of.instance_type()?.to_owned();
    let end = of.end_date().and_then(|end| DateTime::<Utc>::from_timestamp(end.secs(), 0));
    let until = if of.reservation_type() == Some(&CapacityReservationType::CapacityBlock) {
        let is_ultra = ULTRA_SERVERS.iter().any(|of| instance_type.starts_with(of));
        let before = if is_ultra { BLOCK_OF_ULTRA_SERVERS_ENDS } else { BLOCK_ENDS };
        end.and_then(|end| end.checked_sub_signed(before))
    } else {
        end
    };
    let tags = of.tags().iter().filter_map(|tag| Some((tag.key.clone()?, tag.value.clone()?)));
    Some(CapacityReservation {
        id: of.capacity_reservation_id()?.to_owned(),
        tags: tags.collect(),
        instance_type,
        zone: of.availability_zone()?.to_owned(),
        total: if is_active { count(of.total_instance_count) } else { 0 },
        available: if is_active { count(of.available_instance_count) } else { 0 },
        instances: BTreeSet::new(),
        until,
    })
}
