//! From what each bucket is expected to need to placeholders per group, with the reasons of each number.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};

use crate::balance::balance;
use crate::limits::limit;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::steady::Steady;

/// What one bucket is expected to need beyond its present demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    /// The bucket.
    pub bucket: BucketId,
    /// Instances that announced pods need.
    pub announced: u64,
    /// Sizes of virtual instances among them.
    pub gangs: Vec<u64>,
    /// The quantile of the new nodes needed within the launch latency.
    pub headroom: u64,
    /// What the quantile rests on: [`Reason::Forecast`] or [`Reason::TooLittleHistory`].
    pub basis: Reason,
    /// The chance that at least n new nodes are needed, for n = 1 and on; 0 for what is not listed.
    pub chances: Vec<f64>,
}

impl Want {
    /// The chance that an n-th placeholder is needed.
    pub(crate) fn chance(&self, n: u64) -> f64 {
        if n <= self.announced {
            return 1.0;
        }
        let at = usize::try_from(n - 1).unwrap_or(usize::MAX);
        self.chances.get(at).copied().unwrap_or(0.0)
    }
}

/// The placeholders that stand or are on their way, per bucket of the catalog and group of the bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// By bucket, then by group.
    pub buckets: Vec<Vec<GroupStanding>>,
}

/// What is in one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStanding {
    /// Placeholders, on nodes or ungated and pending.
    pub placeholders: u64,
    /// Nodes that pods other than placeholders occupy.
    pub occupied: u64,
    /// Whether launches failed lately.
    pub backoff: bool,
}

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

/// One step on the way to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What set the target here.
    pub reason: Reason,
    /// To how many.
    pub target: u64,
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
        .map(|(want, why)| steady.settle(want.bucket, why[0].target, &policy.behavior, now, why))
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
        let groups = pairs.map(|(have, want)| GroupPlan { have: have.placeholders, want }).collect();
        buckets.push(BucketPlan { bucket: want.bucket, target, why, groups });
    }
    (Plan { buckets }, steady)
}

fn first_step(want: &Want) -> Step {
    if want.announced > want.headroom {
        Step { reason: Reason::Announced, target: want.announced }
    } else {
        Step { reason: want.basis, target: want.headroom }
    }
}
