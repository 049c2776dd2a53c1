//! Reads the capacity reservations of AWS. The action is optional: only rules of the operator's
//! prices that name reservations need it.

use aws_sdk_ec2::types::{
    CapacityReservation as AwsReservation, CapacityReservationInstancePlatform as Platform,
    CapacityReservationTenancy as Tenancy, CapacityReservationType,
};
use chrono::{DateTime, TimeDelta, Utc};
use instances::CapacityReservation;

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
    /// Reads the capacity reservations of the region for Linux instances that are active.
    ///
    /// # Errors
    /// The call failed, after its retries.
    pub async fn reservations(&self) -> Result<Vec<CapacityReservation>, AwsError> {
        let found = self.clients.reservations().await?;
        Ok(found.iter().filter_map(reservation_of).collect())
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
        total: count(of.total_instance_count),
        available: count(of.available_instance_count),
        until,
    })
}
