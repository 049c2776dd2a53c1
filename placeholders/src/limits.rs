//! The limits of a policy and of the operator: placeholders per bucket, placeholders in total, and
//! dollars per hour.

use std::cmp::Ordering;

use embedder::{BucketId, Catalog, MicroDollars};

use crate::policy::{Limits, OuterLimits, Policy, Yielding};
use crate::reason::Reason;
use crate::spend::{Candidate, spend, worth};
use crate::standing::Standing;
use crate::want::{Step, Want};

/// Lowers the targets to the limits on their number. Each limit that lowers a target adds its step.
///
/// `wanted` are the targets without what is held only because it is paid, which goes first. Of each
/// bucket, so many placeholders as in `free` cost nothing.
pub(crate) fn limit(
    targets: &mut [u64],
    (wanted, free): (&[u64], &[u64]),
    wants: &[Want],
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
    why: &mut [Vec<Step>],
) {
    let Limits { total, buckets, outer, .. } = &policy.limits;
    let OuterLimits { operator, yielding, unpriced, rollout_percent, adds_none } = outer;
    for (want, target) in wants.iter().zip(targets.iter_mut()) {
        let mut cap = |most: Option<u64>, reason: Reason| {
            if let Some(most) = most.filter(|most| most < target) {
                *target = most;
                why[want.bucket].push(Step { reason, target: most });
            }
        };
        // A rollout that lets nothing stand does so at once, and not at the rate of the behavior.
        cap(rollout_percent.filter(|percent| *percent == 0).map(u64::from), Reason::Rollout);
        // No bucket may have more than all buckets together. So an absurd target costs no time in
        // the steps that weigh placeholders one by one.
        cap(operator.placeholders, Reason::OperatorLimit);
        // What no price admits must not use up the limits, which other buckets need.
        let unknown = is_priced(policy) && unpriced.contains(&want.bucket);
        cap(unknown.then_some(free[want.bucket]), Reason::PriceUnknown);
        // Standing placeholders of one bucket are not exchanged for new ones of another.
        let stands = standing.placeholders(want.bucket);
        let yields = yielding.iter().any(|yielding| yielding.buckets.contains(&want.bucket));
        cap(yields.then_some(stands), Reason::YieldsToRealPods);
        cap(adds_none.then_some(stands), Reason::NodesNotReady);
    }
    let by_worth = |a: &Candidate, b: &Candidate| {
        worth(b).total_cmp(&worth(a)).then_with(|| a.bucket.cmp(&b.bucket))
    };
    // The most expensive placeholders are removed first.
    let by_price = |a: &Candidate, b: &Candidate| {
        a.hourly.cmp(&b.hourly).then_with(|| b.chance.total_cmp(&a.chance))
    };
    // A bucket has another name once the groups of its instance type differ. Its limit then applies
    // to all of its parts together.
    let of_names = buckets
        .iter()
        .map(|(name, &most)| (catalog.named(name), most, Reason::BucketLimit, &by_worth as &Order));
    let all: Vec<BucketId> = (0..targets.len()).collect();
    let of_all: [(Option<u64>, Reason, &Order); 2] = [
        (*total, Reason::TotalLimit, &by_worth),
        (operator.placeholders, Reason::OperatorLimit, &by_worth),
    ];
    let of_all =
        of_all.into_iter().filter_map(|(most, reason, by)| Some((all.clone(), most?, reason, by)));
    let of_yielding = yielding.iter().map(|Yielding { most, buckets }| {
        (buckets.clone(), *most, Reason::YieldsToRealPods, &by_price as &Order)
    });
    let of_limits = of_names.chain(of_all).map(|(among, most, reason, order)| {
        let left = most.saturating_sub(standing.stranded(&among));
        (among, left, reason, order)
    });
    for (among, most, reason, order) in of_limits.chain(of_yielding) {
        let sum = among.iter().fold(0, |sum: u64, &id| sum.saturating_add(targets[id]));
        if sum <= most {
            continue;
        }
        let mut offers = offers(targets, wants, catalog, &[]);
        let mut nth = vec![0; targets.len()];
        for offer in &mut offers {
            nth[offer.bucket] += 1;
            if nth[offer.bucket] > wanted[offer.bucket] {
                offer.chance = 0.0;
            }
        }
        offers.retain(|offer| among.binary_search(&offer.bucket).is_ok());
        offers.sort_by(order);
        offers.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        let mut kept = targets.to_vec();
        for &id in &among {
            kept[id] = 0;
        }
        for offer in &offers {
            kept[offer.bucket] += 1;
        }
        settle(targets, &kept, reason, why);
    }
}

/// Lowers the targets to the limits in dollars, as [`limit`] does. Of each bucket, so many
/// placeholders as in `free` cost nothing.
pub(crate) fn limit_dollars(
    targets: &mut [u64],
    wants: &[Want],
    (standing, free): (&Standing, &[u64]),
    catalog: &Catalog,
    policy: &Policy,
    why: &mut [Vec<Step>],
) {
    let OuterLimits { operator, unpriced, .. } = &policy.limits.outer;
    let spend_cap = policy.limits.dollars_per_hour.and_then(MicroDollars::from_dollars);
    if is_priced(policy) {
        let mut kept = targets.to_vec();
        for &id in unpriced {
            if let Some(kept) = kept.get_mut(id) {
                *kept = free[id].min(*kept);
            }
        }
        settle(targets, &kept, Reason::PriceUnknown, why);
    }
    for (cap, reason) in [(spend_cap, Reason::SpendCap), (operator.hourly, Reason::OperatorLimit)] {
        if let Some(cap) = cap {
            let cap = MicroDollars(cap.0.saturating_sub(standing.stranded_hourly(catalog).0));
            let kept = spend(offers(targets, wants, catalog, free), cap, targets.len());
            settle(targets, &kept, reason, why);
        }
    }
}

/// Whether there is a limit in dollars.
fn is_priced(policy: &Policy) -> bool {
    policy.limits.dollars_per_hour.and_then(MicroDollars::from_dollars).is_some()
        || policy.limits.outer.operator.hourly.is_some()
}

/// An order in which candidates are kept.
type Order = dyn Fn(&Candidate, &Candidate) -> Ordering;

fn settle(targets: &mut [u64], kept: &[u64], reason: Reason, why: &mut [Vec<Step>]) {
    for ((target, &kept), why) in targets.iter_mut().zip(kept).zip(why) {
        if kept < *target {
            *target = kept;
            why.push(Step { reason, target: kept });
        }
    }
}

/// The maximum number of placeholders of one bucket that are weighed one by one: 100,000. It
/// exceeds the number of nodes of any cluster.
const OFFERS_MAX: u64 = 100_000;

/// The placeholders of all buckets. Of each bucket, so many as in `free` cost nothing.
fn offers(targets: &[u64], wants: &[Want], catalog: &Catalog, free: &[u64]) -> Vec<Candidate> {
    let mut offers = Vec::new();
    for (want, &target) in wants.iter().zip(targets) {
        let hourly = catalog.buckets()[want.bucket].hourly;
        let free = free.get(want.bucket).copied().unwrap_or(0);
        offers.extend((1..=target.min(OFFERS_MAX)).map(|n| Candidate {
            bucket: want.bucket,
            chance: want.chance(n),
            hourly: if n <= free { MicroDollars(0) } else { hourly },
        }));
    }
    offers
}
