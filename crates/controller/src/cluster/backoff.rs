//! Whether a group launches no nodes at present, because launches failed.

use chrono::{DateTime, Utc};

use super::launch_latencies::LaunchLatencies;
use super::sources::Groups;
use crate::catalog::Offer;
use crate::observe::{Launches, World};
use crate::outcome::Backoff;

/// The backoff of the group with this name, if it is in one: because launches for placeholders
/// failed, because the status of cluster-autoscaler lists it, or because Karpenter or AWS reports
/// that there is no capacity. After such a report, placeholders that wait stay until their launch
/// takes longer than usual and counts as failed.
pub(super) fn backoff<'a>(
    (name, offer): (&str, &Offer),
    (world, groups): (&World, &Groups),
    launches: impl IntoIterator<Item = &'a LaunchLatencies>,
    now: DateTime<Utc>,
) -> Option<Backoff> {
    let Offer { instance_types, labels, choices, members, .. } = offer;
    let failed = launches.into_iter().filter_map(|those| those.backoff_until(name, now)).max();
    let no_capacity = Launches { instance_types, labels, choices };
    let no_capacity = world.shortages.closed_until(&no_capacity, now);
    // Another member may still launch a node.
    let of_aws = members.iter().map(|member| groups.closed_until(member, now)).min().flatten();
    let until = [failed, no_capacity, of_aws].into_iter().flatten().max();
    let of_autoscaler = members.iter().all(|member| world.backoff.contains(member));
    let is_closed = |member: &String| {
        world.backoff.contains(member) || groups.closed_until(member, now).is_some()
    };
    let may_still_launch = failed.is_none() && !of_autoscaler;
    let is_in_one = until.is_some() || members.iter().all(is_closed);
    is_in_one.then_some(Backoff { may_still_launch, until })
}
