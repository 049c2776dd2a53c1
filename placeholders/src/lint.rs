//! Checks what holds for every plan, whatever led to it. Debug builds check each plan of a control,
//! and so every test, simulation and scenario does.

use std::collections::BTreeMap;

use embedder::{BucketId, Catalog, MicroDollars};

use crate::plan::{BucketPlan, Plan};
use crate::policy::Policy;
use crate::standing::{SharedLimit, Standing};

/// What is wrong with a plan, one message each: a limit that it exceeds, a placeholder in a group
/// that is closed or full, an announced gang that it divides, or a number without its reason.
///
/// `gangs` has the sizes of the announced virtual instances, by bucket.
pub fn lint(
    plan: &Plan,
    gangs: &BTreeMap<BucketId, Vec<u64>>,
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for bucket in &plan.buckets {
        let name = &catalog.buckets()[bucket.bucket].name;
        let none = Vec::new();
        let gangs = gangs.get(&bucket.bucket).unwrap_or(&none);
        let of_bucket = reasons(bucket)
            .into_iter()
            .chain(groups(bucket, standing, catalog))
            .chain(divided(bucket, gangs, standing, catalog));
        wrong.extend(of_bucket.map(|what| format!("{name}: {what}")));
    }
    wrong.extend(exceeded(plan, standing, catalog, policy));
    let shared = standing.shared.iter().filter(|limit| exceeds(plan, limit, standing));
    wrong.extend(shared.map(|limit| format!("a shared limit is exceeded: {limit:?}")));
    wrong
}

fn reasons(BucketPlan { target, why, groups, .. }: &BucketPlan) -> Vec<String> {
    let mut wrong = Vec::new();
    if why.last().is_none_or(|step| step.target != *target) {
        wrong.push(format!("the last step does not lead to {target}: {why:?}"));
    }
    let dealt = groups.iter().fold(0, |sum: u64, group| sum.saturating_add(group.want));
    if dealt != *target {
        wrong.push(format!("the groups receive {dealt} of {target}"));
    }
    wrong
}

fn groups(plan: &BucketPlan, standing: &Standing, catalog: &Catalog) -> Vec<String> {
    let groups = &catalog.buckets()[plan.bucket].groups;
    let rows = plan.groups.iter().zip(groups).zip(&standing.buckets[plan.bucket]);
    let check = |((planned, group), stands): (
        (&crate::GroupPlan, &embedder::Group),
        &crate::GroupStanding,
    )| {
        let used = stands.occupied.saturating_add(stands.unusable).saturating_add(planned.want);
        if stands.backoff && planned.want > stands.placeholders {
            Some(format!("group {} backs off and receives more placeholders", group.name))
        } else if planned.want > 0 && used > group.max {
            Some(format!("group {} exceeds its maximum of {}", group.name, group.max))
        } else {
            None
        }
    };
    rows.filter_map(check).collect()
}

/// Whether the largest announced gang for which a group has room is not received whole by one.
/// Where a limit or a group that backs off leaves less than the gangs need, they are not all dealt.
fn divided(
    plan: &BucketPlan,
    gangs: &[u64],
    standing: &Standing,
    catalog: &Catalog,
) -> Option<String> {
    let groups = catalog.buckets()[plan.bucket].groups.iter();
    let rooms = groups.zip(&standing.buckets[plan.bucket]).map(|(group, stands)| {
        group.max.saturating_sub(stands.occupied.saturating_add(stands.unusable))
    });
    let room = rooms.max().unwrap_or(0);
    let fitting = || gangs.iter().copied().filter(|size| *size <= room);
    let all = fitting().fold(0, u64::saturating_add);
    let largest = fitting().max().unwrap_or(0);
    let closed = standing.buckets[plan.bucket].iter().any(|group| group.backoff);
    let is_held = plan.why.iter().any(|step| step.reason == crate::Reason::GangFitsNoGroup);
    let fits = plan.groups.iter().any(|group| group.want >= largest);
    let is_divided =
        !closed && !is_held && standing.shared.is_empty() && plan.target >= all && !fits;
    is_divided.then(|| format!("a gang of {largest} nodes is divided"))
}

/// The limits on placeholders and on dollars that the targets of a plan exceed, one message each.
pub fn exceeded(
    plan: &Plan,
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
) -> Vec<String> {
    let target = |id: BucketId| plan.buckets.get(id).map_or(0, |bucket| bucket.target);
    let sum =
        |among: &[BucketId]| among.iter().fold(0, |sum: u64, id| sum.saturating_add(target(*id)));
    // Stranded placeholders alone may exceed a limit that was lowered.
    let with_stranded = |among: &[BucketId]| match sum(among) {
        0 => 0,
        sum => sum.saturating_add(standing.stranded(among)),
    };
    let all: Vec<BucketId> = (0..plan.buckets.len()).collect();
    let of_groups = |bucket: &BucketPlan| bucket.groups.iter().map(|group| group.want).collect();
    let free = standing.prepaid(&plan.buckets.iter().map(of_groups).collect::<Vec<_>>());
    let hourly = all.iter().fold(MicroDollars(0), |sum, &id| {
        let paid = target(id).saturating_sub(free[id]);
        MicroDollars(sum.0.saturating_add(catalog.buckets()[id].hourly.times(paid).0))
    });
    let hourly = match hourly.0 {
        0 => hourly,
        sum => MicroDollars(sum.saturating_add(standing.stranded_hourly(catalog).0)),
    };
    let limits = &policy.limits;
    let outer = &limits.outer;
    let mut wrong = Vec::new();
    let mut check = |name: &str, have: u64, most: Option<u64>| {
        if let Some(most) = most.filter(|most| have > *most) {
            wrong.push(format!("{name}: {have} exceed {most}"));
        }
    };
    for (name, &most) in &limits.buckets {
        check(name, with_stranded(&catalog.named(name)), Some(most));
    }
    check("the limit of the policy", with_stranded(&all), limits.total);
    check("the limit of the operator", with_stranded(&all), outer.operator.placeholders);
    let spend_cap = policy.limits.dollars_per_hour.and_then(MicroDollars::from_dollars);
    check("the spend cap in millionths of a dollar", hourly.0, spend_cap.map(|cap| cap.0));
    let operator = outer.operator.hourly.map(|cap| cap.0);
    check("the operator's limit in millionths of a dollar", hourly.0, operator);
    if let Some(yielding) = &outer.yielding {
        check("the placeholders that yield", sum(&yielding.buckets), Some(yielding.most));
        for &id in &yielding.buckets {
            check("a bucket that yields", target(id), Some(standing.placeholders(id)));
        }
    }
    wrong
}

/// Whether the plan needs more of a shared limit than is left and than the standing placeholders
/// already have.
fn exceeds(plan: &Plan, limit: &SharedLimit, standing: &Standing) -> bool {
    let needs = |of: usize, amount: &dyn Fn(BucketId, usize) -> u64| {
        limit.groups.iter().fold(0, |sum: u64, (&(bucket, at), each)| {
            sum.saturating_add(each[of].saturating_mul(amount(bucket, at)))
        })
    };
    let want = |bucket: BucketId, at: usize| plan.buckets[bucket].groups[at].want;
    let have = |bucket: BucketId, at: usize| standing.buckets[bucket][at].placeholders;
    limit.left.iter().enumerate().any(|(of, left)| needs(of, &want) > needs(of, &have).max(*left))
}

#[cfg(test)]
mod tests {
    use embedder::Bucket;

    use super::*;
    use crate::{GroupPlan, GroupStanding, Limits, Reason, Step};

    fn catalog() -> Catalog {
        let groups = vec![testkit::group("a", 4), testkit::group("b", 4)];
        testkit::catalog_of([Bucket { groups, ..testkit::bucket("m5.xlarge", 4_000, 1.0) }])
    }

    /// The messages about a plan with these placeholders in both groups, which led to `target`.
    fn found(wants: [u64; 2], target: u64, backoff: bool, limits: Limits) -> Vec<String> {
        let why = vec![Step { reason: Reason::Forecast, target }];
        let groups = wants.map(|want| GroupPlan { have: 0, want }).into();
        let plan = Plan { buckets: vec![BucketPlan { bucket: 0, target, why, groups }] };
        let stands = GroupStanding { backoff, ..GroupStanding::default() };
        let standing = Standing { buckets: vec![vec![stands; 2]], ..Standing::default() };
        let policy = Policy { limits, ..Policy::default() };
        lint(&plan, &[(0, vec![3])].into(), &standing, &catalog(), &policy)
    }

    #[test]
    fn each_rule_has_its_message() {
        let check = |found: Vec<String>, expected: &[&str]| {
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{found}");
            }
        };
        let none = Limits::default;
        check(found([3, 1], 4, false, none()), &[]);
        check(found([3, 1], 5, false, none()), &["the groups receive 4 of 5"]);
        check(found([5, 0], 5, false, none()), &["group a exceeds its maximum of 4"]);
        check(found([2, 2], 4, false, none()), &["a gang of 3 nodes is divided"]);
        check(found([1, 0], 1, true, none()), &["group a backs off"]);
        let limits = Limits { total: Some(3), ..Limits::default() };
        check(found([3, 1], 4, false, limits), &["the limit of the policy: 4 exceed 3"]);
        let limits = Limits { buckets: [("m5.xlarge".into(), 2)].into(), ..Limits::default() };
        check(found([3, 1], 4, false, limits), &["m5.xlarge: 4 exceed 2"]);
    }
}
