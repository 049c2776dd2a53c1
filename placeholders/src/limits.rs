//! The limits of a policy: placeholders per bucket, placeholders in total, and dollars per hour.

use embedder::{Catalog, MicroDollars};

use crate::policy::{Limits, Policy};
use crate::reason::Reason;
use crate::spend::{Candidate, spend, worth};
use crate::want::{Step, Want};

/// Lowers the targets to the limits. Each limit that lowers a target adds its step.
pub(crate) fn limit(
    targets: &mut [u64],
    wants: &[Want],
    catalog: &Catalog,
    policy: &Policy,
    why: &mut [Vec<Step>],
) {
    let Limits { total, buckets, yielding } = &policy.limits;
    for (want, target) in wants.iter().zip(targets.iter_mut()) {
        let bucket = &catalog.buckets()[want.bucket];
        if let Some(&most) = buckets.get(&bucket.name).filter(|&&most| most < *target) {
            *target = most;
            why[want.bucket].push(Step { reason: Reason::BucketLimit, target: most });
        }
    }
    if let Some(most) = total.filter(|&most| sum(targets) > most) {
        let mut offers = offers(targets, wants, catalog);
        offers.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then_with(|| a.bucket.cmp(&b.bucket)));
        settle(targets, &first(most, &offers, targets.len()), Reason::TotalLimit, why);
    }
    if let Some(cap) = policy.spend_cap.and_then(MicroDollars::from_dollars) {
        let kept = spend(offers(targets, wants, catalog), cap, targets.len());
        settle(targets, &kept, Reason::SpendCap, why);
    }
    if let Some(most) = yielding.filter(|&most| sum(targets) > most) {
        // The dearest placeholders go first, because they occupy the most of a quota.
        let mut offers = offers(targets, wants, catalog);
        offers.sort_by(|a, b| a.hourly.cmp(&b.hourly).then_with(|| b.chance.total_cmp(&a.chance)));
        settle(targets, &first(most, &offers, targets.len()), Reason::YieldsToRealPods, why);
    }
}

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
