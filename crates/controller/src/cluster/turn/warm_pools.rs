//! The warm pools that a policy wants: the sizes that its control decided, within the limits, dealt
//! to the groups.

use std::collections::BTreeMap;

use control::{WARM_SHARE, cut_to_fit};
use embedder::{BucketId, MicroDollars};
use placeholders::Ceiling;

use crate::catalog::{Offers, WantedPool};
use crate::cluster::settings::PolicySettings;
use crate::cluster::sources::Groups;
use crate::cluster::turn_input::TurnInput;
use crate::crd::{Mode, WarmPoolStatus};
use crate::outcome::{Cause, Decision, Faults, MESSAGES_MAX, WarmPoolsOutcome};

/// The warm pools that a policy wants. `left` is what the limits of the operator leave beside the
/// policy's placeholders.
pub(super) fn warm_pools(
    input: &TurnInput<'_>,
    settings: &PolicySettings,
    offers: &Offers,
    decision: Option<&Decision>,
    left: Ceiling,
) -> (WarmPoolsOutcome, Faults) {
    let (groups, uid) = (input.context.groups, &input.owner.uid);
    let Some(spec) = settings.warm_pool else {
        return (
            WarmPoolsOutcome { wanted: Some(BTreeMap::new()), ..<_>::default() },
            <_>::default(),
        );
    };
    let rooms: Vec<Vec<(&String, u64)>> = offers
        .groups
        .iter()
        .map(|groups_of| {
            let members = groups_of.iter().flat_map(|offer| &offer.members);
            members.filter_map(|name| Some((name, groups.warm_pool_room(name)?))).collect()
        })
        .collect();
    let faults = faults(&rooms, groups);
    let sizes = decision.and_then(|decision| decision.turn.warm_pools.as_deref());
    let percent = settings.policy.limits.outer.rollout_percent;
    let sizes = sizes.map(|sizes| {
        let asked = sizes.iter().zip(&rooms).map(|(size, rooms)| {
            let room = rooms.iter().fold(0, |sum: u64, (_, room)| sum.saturating_add(*room));
            part(*size, percent).min(room)
        });
        within(asked.collect(), spec.max.into(), left, &prices(offers))
    });
    let wanted = sizes.as_ref().map(|sizes| {
        let pools = sizes.iter().zip(&rooms).flat_map(|(size, rooms)| deal(*size, rooms));
        let pool = |(name, size): (String, u64)| {
            let (namespace, policy) = (input.key.namespace.clone(), uid.clone());
            (name, WantedPool { namespace, policy, size, state: spec.state })
        };
        pools.map(pool).collect::<BTreeMap<_, _>>()
    });
    let standing = &groups.warm_pools().pools;
    let status = |(bucket, rooms): (BucketId, &Vec<(&String, u64)>)| {
        let pools = rooms.iter().filter_map(|(name, _)| standing.get(*name));
        let pools = pools.filter(|pool| pool.policy == *uid);
        let (prepared, preparing) = pools.fold((0_u64, 0_u64), |(prepared, preparing), pool| {
            (prepared.saturating_add(pool.prepared), preparing.saturating_add(pool.preparing))
        });
        let target =
            sizes.as_ref().map_or(prepared.saturating_add(preparing), |sizes| sizes[bucket]);
        (!rooms.is_empty()).then_some(WarmPoolStatus { target, prepared, preparing })
    };
    let buckets: Vec<Option<WarmPoolStatus>> = rooms.iter().enumerate().map(status).collect();
    let acts = settings.mode == Mode::Act;
    let (mut held, mut hourly) = (0_u64, 0_u64);
    for (status, price) in buckets.iter().zip(prices(offers)) {
        let Some(WarmPoolStatus { target, prepared, preparing }) = *status else { continue };
        let stands = prepared.saturating_add(preparing);
        let most = if acts { target.max(stands) } else { stands };
        held = held.saturating_add(most);
        hourly = hourly.saturating_add(price.times(most).0);
    }
    // Without placeholders because of a rollout, there are no pools either.
    let acts = acts && percent != Some(0);
    let wanted = if acts { wanted } else { Some(BTreeMap::new()) };
    (WarmPoolsOutcome { wanted, buckets, held, hourly: MicroDollars(hourly) }, faults)
}

/// Why pools are not as they are wanted.
fn faults(rooms: &[Vec<(&String, u64)>], groups: &Groups) -> Faults {
    let mut faults = Faults::default();
    if rooms.iter().all(Vec::is_empty) {
        let message = "no group of the policy can have a warm pool of Prophet: it needs an Auto Scaling group of on-demand instances that is no managed node group of EKS";
        faults.add(Cause::WarmPools, message);
    }
    let failed = rooms.iter().flatten().filter_map(|(name, _)| {
        let fault = groups.warm_pools().faults.get(*name)?;
        Some(format!("the warm pool of Auto Scaling group {name} is not as it is wanted: {fault}"))
    });
    faults.add_all(Cause::WarmPools, failed.take(MESSAGES_MAX));
    faults
}

/// The part of a size that a rollout permits, rounded up.
fn part(size: u64, percent: Option<u8>) -> u64 {
    percent.map_or(size, |percent| size.saturating_mul(percent.into()).div_ceil(100))
}

/// By bucket, the price of a stopped instance per hour.
fn prices(offers: &Offers) -> Vec<MicroDollars> {
    let price = |hourly: MicroDollars| {
        // Prices are far below 2^53 millionths of a dollar.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates"
        )]
        let stopped = (hourly.0 as f64 * WARM_SHARE).ceil() as u64;
        MicroDollars(stopped)
    };
    offers.catalog.buckets().iter().map(|bucket| price(bucket.hourly)).collect()
}

/// The sizes within the limits.
fn within(sizes: Vec<u64>, most: u64, left: Ceiling, prices: &[MicroDollars]) -> Vec<u64> {
    let most = left.placeholders.map_or(most, |placeholders| placeholders.min(most));
    let fits = |sizes: &[u64]| {
        let number = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
        let cost = sizes
            .iter()
            .zip(prices)
            .fold(0, |sum: u64, (size, price)| sum.saturating_add(price.times(*size).0));
        number <= most && left.hourly.is_none_or(|hourly| cost <= hourly.0)
    };
    cut_to_fit(sizes, fits)
}

/// Deals a number of instances to groups one by one, in the order of the groups, up to their rooms.
/// The order is fixed, so that a node that comes or goes moves no instances between groups.
fn deal(size: u64, rooms: &[(&String, u64)]) -> Vec<(String, u64)> {
    let (mut left, mut sizes) = (size, vec![0; rooms.len()]);
    let mut before = u64::MAX;
    while left > 0 && left < before {
        before = left;
        for ((_, room), size) in rooms.iter().zip(&mut sizes) {
            if left > 0 && *size < *room {
                *size += 1;
                left -= 1;
            }
        }
    }
    rooms.iter().zip(sizes).map(|((name, _), size)| ((*name).clone(), size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_cut_to_one_level_within_number_and_price() {
        let prices = [MicroDollars(1), MicroDollars(10), MicroDollars(100)];
        let check = |most, dollars: Option<u64>, placeholders, expected: [u64; 3]| {
            let left = Ceiling { placeholders, hourly: dollars.map(MicroDollars) };
            assert_eq!(within(vec![9, 2, 4], most, left, &prices), expected);
        };
        check(15, None, None, [9, 2, 4]);
        check(10, None, None, [4, 2, 4]);
        check(9, None, None, [4, 2, 3]);
        check(2, None, None, [1, 1, 0]);
        check(0, None, None, [0, 0, 0]);
        check(100, None, Some(9), [4, 2, 3]);
        check(100, Some(429), None, [9, 2, 4]);
        check(100, Some(222), None, [2, 2, 2]);
        check(100, Some(223), None, [3, 2, 2]);
        check(100, Some(0), None, [0, 0, 0]);
    }

    #[test]
    fn a_size_is_dealt_evenly_within_the_rooms_of_the_groups() {
        let names = ["a", "b", "c"].map(String::from);
        let check = |size, rooms: [u64; 3], expected: [u64; 3]| {
            let rooms: Vec<(&String, u64)> = names.iter().zip(rooms).collect();
            let dealt: Vec<u64> = deal(size, &rooms).into_iter().map(|(_, size)| size).collect();
            assert_eq!(dealt, expected);
        };
        check(7, [9, 9, 9], [3, 2, 2]);
        check(7, [9, 1, 9], [3, 1, 3]);
        check(7, [0, 1, 9], [0, 1, 6]);
        check(7, [1, 1, 1], [1, 1, 1]);
        check(0, [9, 9, 9], [0, 0, 0]);
    }

    #[test]
    fn a_rollout_has_a_part_of_each_size() {
        let parts = [None, Some(25), Some(50), Some(0)].map(|percent| part(5, percent));
        assert_eq!(parts, [5, 2, 3, 0]);
    }
}
