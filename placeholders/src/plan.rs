//! Turns the expected needs of each bucket into placeholders per group, with the reasons of each
//! number.

use std::borrow::Cow;
use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog};

use crate::balance::{rooms, split_nodes};
use crate::deal::deal;
use crate::limits::{limit, limit_dollars};
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
/// that fit into no group are not part of it. A rollout lets a part of it stand. The stabilisers
/// limit how far it moves, and the groups how much of it there is room for. Instances that are paid
/// anyway are held in addition, as far as no pod and no other placeholder needs them. Then the
/// limits and the spend cap lower the sum, and the groups receive it. The result is the plan and
/// the state of the stabilisers for the next call.
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
    // What stands of the prepaid instances is decided apart, so that no rate or window keeps it.
    let stood = standing.prepaid(&standing.by_group());
    let mut targets: Vec<u64> = wants
        .iter()
        .zip(&mut why)
        .map(|(want, why)| {
            let wanted = want.headroom.max(want.announced);
            let part = rolled_out(wanted, policy);
            if part < wanted {
                why.push(Step { reason: Reason::Rollout, target: part });
            }
            let stands = standing.placeholders(want.bucket) - stood[want.bucket];
            steady.settle(want.bucket, part, stands, &policy.behavior, now, why)
        })
        .collect();
    // What no group has room for must not use up the limits, which other buckets need.
    let dealt = deal(&targets, wants, standing, catalog);
    for ((target, (dealt, held)), why) in targets.iter_mut().zip(&dealt).zip(&mut why) {
        let room = sum(dealt);
        if held.is_some_and(|reason| reason == Reason::GroupsFull) {
            *target = room;
            why.push(Step { reason: Reason::GroupsFull, target: room });
        }
    }
    let dealt = dealt.into_iter().map(|(groups, _)| groups).collect();
    let (groups, extra) = beside_prepaid(dealt, &vec![u64::MAX; wants.len()], standing, catalog);
    let free = standing.prepaid(&groups);
    let mut all = targets.clone();
    for ((all, extra), why) in all.iter_mut().zip(extra).zip(&mut why) {
        let extra = rolled_out(extra, policy);
        if extra > 0 {
            *all = all.saturating_add(extra);
            why.push(Step { reason: Reason::Prepaid, target: *all });
        }
    }
    limit(&mut all, (&targets, &free), wants, standing, catalog, policy, &mut why);
    // A limit on the number leaves out first what is held only because it is paid.
    let extra: Vec<u64> =
        all.iter().zip(&targets).map(|(all, want)| all.saturating_sub(*want)).collect();
    let wanted = |all: &[u64]| -> Vec<u64> {
        all.iter().zip(&extra).map(|(all, extra)| all.saturating_sub(*extra)).collect()
    };
    // Fewer placeholders are dealt otherwise, of which fewer may be prepaid.
    let mut rounds = 0..ROUNDS_MAX;
    let (groups, held, more) = loop {
        let (dealt, held): (Vec<_>, Vec<_>) =
            deal(&wanted(&all), wants, standing, catalog).into_iter().unzip();
        let (groups, more) = beside_prepaid(dealt, &extra, standing, catalog);
        let free = if rounds.next().is_some() { standing.prepaid(&groups) } else { more.clone() };
        let before = all.clone();
        limit_dollars(&mut all, wants, (standing, &free), catalog, policy, &mut why);
        if all == before {
            break (groups, held, more);
        }
    };
    let dealt = groups.into_iter().zip(held);
    let mut buckets = Vec::with_capacity(wants.len());
    for ((want, (dealt, held)), mut why) in wants.iter().zip(dealt).zip(why) {
        let have = &standing.buckets[want.bucket];
        let target = sum(&dealt);
        let other = why.last().filter(|step| step.target != target).map(|step| step.reason);
        why.extend(held.or(other).map(|reason| Step { reason, target }));
        steady.remember(want.bucket, target - more[want.bucket], now);
        let pairs = have.iter().zip(dealt);
        let groups =
            pairs.map(|(have, want)| GroupPlan { have: have.placeholders, want }).collect();
        buckets.push(BucketPlan { bucket: want.bucket, target, why, groups });
    }
    (Plan { buckets }, steady)
}

/// The most rounds in which limits in dollars count all prepaid placeholders: eight, because two
/// suffice unless gangs are dealt otherwise. After them, only those count that are held because
/// they are paid, so that the next round ends.
const ROUNDS_MAX: usize = 8;

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

/// Adds placeholders whose instances are paid anyway to what each group received, as far as they
/// are left and the groups have room: in each bucket no more than `most`. Returns the groups, and
/// by bucket what was added.
fn beside_prepaid(
    mut groups: Vec<Vec<u64>>,
    most: &[u64],
    standing: &Standing,
    catalog: &Catalog,
) -> (Vec<Vec<u64>>, Vec<u64>) {
    let mut added = vec![0; groups.len()];
    for Prepaid { left, groups: paid } in &standing.prepaid {
        let dealt = paid.iter().map(|&(bucket, at)| groups[bucket][at]);
        let used = dealt.fold(0, u64::saturating_add);
        let mut left = left.saturating_sub(used);
        // At first those that stand, which stay.
        let places =
            [true, false].into_iter().flat_map(|stands| paid.iter().map(move |at| (at, stands)));
        for (&(bucket, at), stands) in places {
            let rooms = rooms(&catalog.buckets()[bucket].groups, &standing.buckets[bucket]);
            let most_here =
                if stands { standing.buckets[bucket][at].placeholders } else { u64::MAX };
            let room = rooms[at].min(most_here).saturating_sub(groups[bucket][at]);
            let shared = standing.shared.iter().map(|limit| limit.spare((bucket, at), &groups));
            let room = shared.fold(room, u64::min);
            let more = left.min(room).min(most[bucket] - added[bucket]);
            groups[bucket][at] += more;
            added[bucket] += more;
            left -= more;
        }
    }
    (groups, added)
}

/// The part of a target that a rollout lets stand, rounded up, because most targets are so small
/// that a part of them would be rounded to none.
fn rolled_out(target: u64, policy: &Policy) -> u64 {
    let percent = policy.limits.outer.rollout_percent.map_or(100, u64::from);
    let part = (target / 100)
        .saturating_mul(percent)
        .saturating_add((target % 100 * percent).div_ceil(100));
    part.min(target)
}

fn first_step(want: &Want) -> Step {
    if want.announced > want.headroom {
        Step { reason: Reason::Announced, target: want.announced }
    } else {
        Step { reason: want.reason, target: want.headroom }
    }
}
