//! From what each bucket is expected to need to placeholders per group, with the reasons of each number.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};

use crate::balance::balance;
use crate::limits::limit;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::standing::Standing;
use crate::steady::Steady;
use crate::want::{Step, Want};

/// What ought to stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One for each bucket of the catalog.
    pub buckets: Vec<BucketPlan>,
}

/// What ought to stand of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlan {
    /// The bucket.
    pub bucket: BucketId,
    /// Placeholders over all its groups.
    pub target: u64,
    /// How the target came to be, in order; the last one that is not a mere [`Reason::Forecast`] held it.
    pub why: Vec<Step>,
    /// Per group of the bucket.
    pub groups: Vec<GroupPlan>,
}

/// What ought to stand in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// Placeholders that stand.
    pub have: u64,
    /// Placeholders that ought to.
    pub want: u64,
}

impl Plan {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().flat_map(|bucket| &bucket.groups).all(|group| group.have == group.want)
    }

    /// As text that a person can read.
    pub fn describe(&self, catalog: &Catalog) -> String {
        let mut text = String::new();
        for BucketPlan { bucket, target, why, groups } in &self.buckets {
            let bucket = &catalog.buckets()[*bucket];
            let have: u64 = groups.iter().map(|group| group.have).sum();
            let _ = writeln!(text, "{}: {have} -> {target}", bucket.name);
            for Step { reason, target } in why {
                let _ = writeln!(text, "  {} {target}", reason.label());
            }
            for (GroupPlan { have, want }, group) in groups.iter().zip(&bucket.groups) {
                let _ = writeln!(text, "  group {}: {have} -> {want}", group.name);
            }
        }
        text
    }
}

/// Plans placeholders for `wants`, one for each bucket of the catalog, in its order.
///
/// Each target is the larger of what is announced and the forecast's quantile; the stabilisers let it move; the limits
/// and the spend cap hold it back; the groups take it.
pub fn plan(
    wants: &[Want],
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
    steady: &Steady,
    now: DateTime<Utc>,
) -> (Plan, Steady) {
    let mut steady = steady.clone();
    let mut why: Vec<Vec<Step>> = wants.iter().map(|want| vec![first_step(want)]).collect();
    let mut targets: Vec<u64> = wants
        .iter()
        .zip(&mut why)
        .map(|(want, why)| {
            let (asked, stands) = (why[0].target, standing.placeholders(want.bucket));
            steady.settle(want.bucket, asked, stands, &policy.behavior, now, why)
        })
        .collect();
    limit(&mut targets, wants, catalog, policy, &mut why);
    let mut buckets = Vec::with_capacity(wants.len());
    for ((want, target), mut why) in wants.iter().zip(targets).zip(why) {
        let groups = &catalog.buckets()[want.bucket].groups;
        let have = &standing.buckets[want.bucket];
        let (dealt, held) = balance(target, &want.gangs, groups, have);
        let target = dealt.iter().fold(0_u64, |sum, &n| sum.saturating_add(n));
        why.extend(held.map(|reason| Step { reason, target }));
        steady.remember(want.bucket, target, now);
        let pairs = have.iter().zip(dealt);
        let groups =
            pairs.map(|(have, want)| GroupPlan { have: have.placeholders, want }).collect();
        buckets.push(BucketPlan { bucket: want.bucket, target, why, groups });
    }
    (Plan { buckets }, steady)
}

fn first_step(want: &Want) -> Step {
    if want.announced > want.headroom {
        Step { reason: Reason::Announced, target: want.announced }
    } else {
        Step { reason: want.reason, target: want.headroom }
    }
}
