//! The limits of a policy and of the operator: placeholders per bucket, placeholders in total, and
//! dollars per hour.

use std::cmp::Ordering;

use embedder::{Catalog, MicroDollars};

use crate::policy::{Limits, OuterLimits, Policy};
use crate::reason::Reason;
use crate::spend::{Candidate, spend, worth};
use crate::standing::Standing;
use crate::want::{Step, Want};

/// Lowers the targets to the limits. Each limit that lowers a target adds its step.
pub(crate) fn limit(
    targets: &mut [u64],
    wants: &[Want],
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
    why: &mut [Vec<Step>],
) {
    let Limits { total, buckets, outer: OuterLimits { operator, yielding, unpriced } } =
        &policy.limits;
    let spend_cap = policy.spend_cap.and_then(MicroDollars::from_dollars);
    let priced = spend_cap.is_some() || operator.hourly.is_some();
    for (want, target) in wants.iter().zip(targets.iter_mut()) {
        let mut cap = |most: Option<u64>, reason: Reason| {
            if let Some(most) = most.filter(|most| most < target) {
                *target = most;
                why[want.bucket].push(Step { reason, target: most });
            }
        };
        // No bucket may have more than all buckets together. So an absurd target costs no time in
        // the steps that weigh placeholders one by one.
        cap(operator.placeholders, Reason::OperatorLimit);
        let unknown = priced && unpriced.contains(&want.bucket);
        cap(unknown.then_some(0), Reason::PriceUnknown);
        // Standing placeholders of one bucket are not exchanged for new ones of another.
        let stands = standing.placeholders(want.bucket);
        cap(yielding.and(Some(stands)), Reason::YieldsToRealPods);
    }
    let by_worth = |a: &Candidate, b: &Candidate| {
        worth(b).total_cmp(&worth(a)).then_with(|| a.bucket.cmp(&b.bucket))
    };
    // The most expensive placeholders are removed first.
    let by_price = |a: &Candidate, b: &Candidate| {
        a.hourly.cmp(&b.hourly).then_with(|| b.chance.total_cmp(&a.chance))
    };
    for (name, &most) in buckets {
        // A bucket has another name once the groups of its instance type differ. The limit then
        // applies to all of its parts together.
        let named = catalog.named(name);
        let sum = named.iter().fold(0, |sum: u64, &id| sum.saturating_add(targets[id]));
        if sum > most {
            let mut offers = offers(targets, wants, catalog);
            offers.retain(|offer| named.contains(&offer.bucket));
            offers.sort_by(by_worth);
            let mut kept = targets.to_vec();
            let first = first(most, &offers, targets.len());
            for id in named {
                kept[id] = first[id];
            }
            settle(targets, &kept, Reason::BucketLimit, why);
        }
    }
    let mut at_most = |targets: &mut [u64], most: Option<u64>, reason, order: &Order| {
        if let Some(most) = most.filter(|&most| sum(targets) > most) {
            let mut offers = offers(targets, wants, catalog);
            offers.sort_by(order);
            settle(targets, &first(most, &offers, targets.len()), reason, why);
        }
    };
    at_most(targets, *total, Reason::TotalLimit, &by_worth);
    at_most(targets, operator.placeholders, Reason::OperatorLimit, &by_worth);
    at_most(targets, *yielding, Reason::YieldsToRealPods, &by_price);
    for (cap, reason) in [(spend_cap, Reason::SpendCap), (operator.hourly, Reason::OperatorLimit)] {
        if let Some(cap) = cap {
            let kept = spend(offers(targets, wants, catalog), cap, targets.len());
            settle(targets, &kept, reason, why);
        }
    }
}

/// An order in which candidates are kept.
type Order = dyn Fn(&Candidate, &Candidate) -> Ordering;

fn sum(targets: &[u64]) -> u64 {
    targets.iter().fold(0, |sum, &target| sum.saturating_add(target))
}

/// The number of placeholders of each bucket among the first `most`.
fn first(most: u64, offers: &[Candidate], buckets: usize) -> Vec<u64> {
    let mut kept = vec![0; buckets];
    for offer in offers.iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
        kept[offer.bucket] += 1;
    }
    kept
}

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

fn offers(targets: &[u64], wants: &[Want], catalog: &Catalog) -> Vec<Candidate> {
    let mut offers = Vec::new();
    for (want, &target) in wants.iter().zip(targets) {
        let hourly = catalog.buckets()[want.bucket].hourly;
        offers.extend((1..=target.min(OFFERS_MAX)).map(|n| Candidate {
            bucket: want.bucket,
            chance: want.chance(n),
            hourly,
        }));
    }
    offers
}
