//! Turns the expected needs of each bucket into placeholders per group, with the reasons of each
//! number.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};

use crate::balance::{rooms, split_nodes};
use crate::deal::deal;
use crate::limits::limit;
use crate::policy::Policy;
use crate::reason::Reason;
use crate::standing::{Prepaid, Standing};
use crate::steady::Steady;
use crate::want::{Step, Want};

/// The planned placeholders of all buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The plan of each bucket of the catalog.
    pub buckets: Vec<BucketPlan>,
}

/// The planned placeholders of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlan {
    /// The index of the bucket in the catalog.
    pub bucket: BucketId,
    /// The number of planned placeholders over all groups of the bucket.
    pub target: u64,
    /// The steps that led to the target, in order. The last step that is not a mere
    /// [`Reason::Forecast`] determined the target.
    pub why: Vec<Step>,
    /// The planned placeholders of each group of the bucket.
    pub groups: Vec<GroupPlan>,
}

/// The planned placeholders of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// The number of standing placeholders.
    pub have: u64,
    /// The number of planned placeholders.
    pub want: u64,
}

impl Plan {
    /// Whether the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.buckets.iter().flat_map(|bucket| &bucket.groups).all(|group| group.have == group.want)
    }

    /// Describes the plan as text for a person.
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

/// Plans placeholders for `wants`, which has one element per bucket of the catalog, in its order.
///
/// Each target starts as the larger of the announced demand and the quantile of the forecast. Gangs
/// that fit into no group are not part of it. Instances that are paid anyway are held in addition,
/// as far as no pod and no other placeholder needs them. A rollout lets a part of it stand. The stabilisers
/// limit how far it moves, and the groups how much of it there is room for. Then the limits and the
/// spend cap lower it, and the groups receive it. The result is the plan and the state of the
/// stabilisers for the next call.
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
    let wants = &*placeable(wants, standing, catalog, &mut why);
    let held = beside_prepaid(wants, standing, catalog, &mut why);
    let mut targets: Vec<u64> = wants
        .iter()
        .zip(held)
        .zip(&mut why)
        .map(|((want, held), why)| {
            let wanted = rolled_out(held, policy, why);
            let stands = standing.placeholders(want.bucket);
            steady.settle(want.bucket, wanted, stands, &policy.behavior, now, why)
        })
        .collect();
    // What no group has room for must not use up the limits, which other buckets need.
    let dealt = deal(&targets, wants, standing, catalog);
    for ((target, (dealt, held)), why) in targets.iter_mut().zip(dealt).zip(&mut why) {
        let room = sum(&dealt);
        if let Some(reason) = held.filter(|reason| *reason == Reason::GroupsFull) {
            *target = room;
            why.push(Step { reason, target: room });
        }
    }
    limit(&mut targets, wants, standing, catalog, policy, &mut why);
    let dealt = deal(&targets, wants, standing, catalog);
    let mut buckets = Vec::with_capacity(wants.len());
    for ((want, (dealt, held)), mut why) in wants.iter().zip(dealt).zip(why) {
        let have = &standing.buckets[want.bucket];
        let target = sum(&dealt);
        why.extend(held.map(|reason| Step { reason, target }));
        steady.remember(want.bucket, target, now);
        let pairs = have.iter().zip(dealt);
        let groups =
            pairs.map(|(have, want)| GroupPlan { have: have.placeholders, want }).collect();
        buckets.push(BucketPlan { bucket: want.bucket, target, why, groups });
    }
    (Plan { buckets }, steady)
}

fn sum(dealt: &[u64]) -> u64 {
    dealt.iter().fold(0, |sum, &n| sum.saturating_add(n))
}

/// The wants without the nodes of gangs that fit into no group, because a gang cannot start on
/// nodes of several groups. Adds a step where that lowers the target.
fn placeable<'a>(
    wants: &'a [Want],
    standing: &Standing,
    catalog: &Catalog,
    why: &mut [Vec<Step>],
) -> Cow<'a, [Want]> {
    let mut placeable = Cow::Borrowed(wants);
    for (at, want) in wants.iter().enumerate() {
        let groups = &catalog.buckets()[want.bucket].groups;
        let split = split_nodes(&want.gangs, groups, &standing.buckets[want.bucket]);
        if split == 0 {
            continue;
        }
        let announced = want.announced.saturating_sub(split);
        placeable.to_mut()[at].announced = announced;
        let target = want.headroom.max(announced);
        if target < want.headroom.max(want.announced) {
            why[at].push(Step { reason: Reason::GangFitsNoGroup, target });
        }
    }
    placeable
}

/// The wanted placeholders, with those whose instances are paid anyway and left. These go to the
/// buckets that hold the most of them, as far as the groups have room. Adds a step where that raises
/// the target.
fn beside_prepaid(
    wants: &[Want],
    standing: &Standing,
    catalog: &Catalog,
    why: &mut [Vec<Step>],
) -> Vec<u64> {
    let mut held: Vec<u64> = wants.iter().map(|want| want.headroom.max(want.announced)).collect();
    for Prepaid { left, buckets } in &standing.prepaid {
        let used = buckets.iter().fold(0, |sum: u64, &id| sum.saturating_add(held[id]));
        let mut left = left.saturating_sub(used);
        let mut order = buckets.clone();
        order.sort_by_key(|&id| Reverse(standing.placeholders(id).saturating_sub(held[id])));
        for id in order {
            let room = sum(&rooms(&catalog.buckets()[id].groups, &standing.buckets[id]));
            let more = left.min(room.saturating_sub(held[id]));
            if more > 0 {
                held[id] += more;
                left -= more;
                why[id].push(Step { reason: Reason::Prepaid, target: held[id] });
            }
        }
    }
    held
}

/// The part of a target that a rollout lets stand, rounded up, because most targets are so small
/// that a part of them would be rounded to none. Adds a step where that lowers the target.
fn rolled_out(target: u64, policy: &Policy, why: &mut Vec<Step>) -> u64 {
    let percent = policy.limits.outer.rollout_percent.map_or(100, u64::from);
    let part = (target / 100)
        .saturating_mul(percent)
        .saturating_add((target % 100 * percent).div_ceil(100));
    if part < target {
        why.push(Step { reason: Reason::Rollout, target: part });
    }
    part.min(target)
}

fn first_step(want: &Want) -> Step {
    if want.announced > want.headroom {
        Step { reason: Reason::Announced, target: want.announced }
    } else {
        Step { reason: want.reason, target: want.headroom }
    }
}
