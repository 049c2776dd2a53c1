//! Tests of plans: plans as text for a person, and properties of every plan.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{Bucket, Catalog, Group, MicroDollars};
use placeholders::{
    Behavior, Ceiling, GroupStanding, Limits, OuterLimits, Plan, Policy, Prepaid, Reason,
    ScalingPolicy, ScalingRules, SharedLimit, Standing, Steady, Want, Yielding, plan, shrink,
};
use proptest::prelude::*;
use testkit::catalog_of;

fn group(name: &str, max: u64) -> Group {
    Group { placement_group: Some(name.into()), ..testkit::group(name, max) }
}

fn bucket(name: &str, cpu_millis: u64, dollars: f64, groups: Vec<Group>) -> Bucket {
    Bucket { groups, ..testkit::bucket(name, cpu_millis, dollars) }
}

/// Two buckets: `small` for one dollar an hour in groups a and b of at most 6, `large` for four
/// dollars an hour in one group.
fn catalog() -> Catalog {
    let small = bucket("small", 4_000, 1.0, vec![group("a", 6), group("b", 6)]);
    catalog_of([bucket("large", 16_000, 4.0, vec![group("c", 100)]), small])
}

fn want(bucket: usize, headroom: u64) -> Want {
    let chances = (1..=headroom).map(|n| 0.5_f64.powi(i32::try_from(n).unwrap())).collect();
    let (gangs, forecast_gangs) = (vec![], vec![]);
    Want {
        bucket,
        announced: 0,
        gangs,
        forecast_gangs,
        headroom,
        reason: Reason::Forecast,
        chances,
    }
}

fn wants(small: u64, large: u64) -> Vec<Want> {
    vec![want(0, small), want(1, large)]
}

fn standing(a: u64, b: u64, c: u64) -> Standing {
    let group = |placeholders| GroupStanding { placeholders, ..GroupStanding::default() };
    Standing { buckets: vec![vec![group(a), group(b)], vec![group(c)]], ..Standing::default() }
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

#[track_caller]
fn check(wants: &[Want], standing: &Standing, policy: &Policy, expected: &str) {
    let (plan, _) = plan(wants, standing, &catalog(), policy, &Steady::default(), at(0));
    let got = plan.describe(&catalog());
    let lines =
        |text: &str| text.trim().lines().map(|line| line.trim().to_string()).collect::<Vec<_>>();
    assert_eq!(lines(&got), lines(expected), "\n{got}");
}

#[test]
fn new_placeholders_are_dealt_round_robin() {
    check(
        &wants(5, 1),
        &standing(0, 0, 0),
        &Policy::default(),
        "small: 0 -> 5
           forecast 5
           group a: 0 -> 3
           group b: 0 -> 2
         large: 0 -> 1
           forecast 1
           group c: 0 -> 1",
    );
}

#[test]
fn standing_placeholders_are_not_moved_for_balance() {
    check(
        &wants(5, 0),
        &standing(4, 0, 0),
        &Policy::default(),
        "small: 4 -> 5
           forecast 5
           group a: 4 -> 4
           group b: 0 -> 1
         large: 0 -> 0
           forecast 0
           group c: 0 -> 0",
    );
}

#[test]
fn the_fullest_group_loses_placeholders_first() {
    check(
        &wants(3, 0),
        &standing(4, 2, 0),
        &Policy::default(),
        "small: 6 -> 3
           forecast 3
           group a: 4 -> 2
           group b: 2 -> 1
         large: 0 -> 0
           forecast 0
           group c: 0 -> 0",
    );
}

/// Checks the placeholders of groups a and b, which have room for six each, if `b` has the larger
/// weight and both share a limit of `left` nodes.
#[track_caller]
fn check_weighted(want: Want, standing: Standing, left: u64, expected: [u64; 2]) {
    let heavy = Group { weight: 1, ..group("b", 6) };
    let catalog = catalog_of([bucket("small", 4_000, 1.0, vec![group("a", 6), heavy])]);
    let groups = [((0, 0), vec![1]), ((0, 1), vec![1])];
    let shared = vec![SharedLimit { left: vec![left], groups: groups.into() }];
    let standing = Standing { shared, ..standing };
    let policy = Policy::default();
    let (plan, _) = plan(&[want], &standing, &catalog, &policy, &Steady::default(), at(0));
    let groups: Vec<u64> = plan.buckets[0].groups.iter().map(|group| group.want).collect();
    assert_eq!(groups, expected);
}

#[test]
fn the_group_with_the_largest_weight_is_filled_first() {
    check_weighted(want(0, 4), standing(0, 0, 0), 100, [0, 4]);
    check_weighted(want(0, 9), standing(0, 0, 0), 100, [3, 6]);
    // Standing placeholders stay, and the light group loses its own first.
    check_weighted(want(0, 5), standing(2, 0, 0), 100, [2, 3]);
    check_weighted(want(0, 2), standing(2, 1, 0), 100, [1, 1]);
    // Of a shared limit, too, the heavy group takes its part first.
    check_weighted(want(0, 9), standing(0, 0, 0), 4, [0, 4]);
    check_weighted(want(0, 9), standing(0, 0, 0), 8, [2, 6]);
    // A limit that fell keeps the heavy group.
    check_weighted(want(0, 2), standing(2, 2, 0), 2, [0, 2]);
    let gang = |size| Want { announced: size, gangs: vec![size], ..want(0, 0) };
    check_weighted(gang(5), standing(0, 0, 0), 100, [0, 5]);
}

#[test]
fn a_virtual_instance_is_dealt_to_one_group_whole() {
    let mut wants = wants(2, 0);
    wants[0].announced = 6;
    wants[0].gangs = vec![2, 4];
    check(
        &wants,
        &standing(0, 3, 0),
        &Policy::default(),
        "small: 3 -> 6
           announced 6
           group a: 0 -> 2
           group b: 3 -> 4
         large: 0 -> 0
           forecast 0
           group c: 0 -> 0",
    );
}

/// Checks the placeholders that stand after `headroom` nodes are dealt to groups a and b, which
/// hold at most six each, with gangs of these sizes among the announced and the forecast nodes.
#[track_caller]
fn check_forecast_gangs(
    (announced, forecast): (&[u64], &[u64]),
    headroom: u64,
    stands: [u64; 2],
    expected: [u64; 2],
) {
    let mut wants = wants(headroom, 0);
    wants[0].announced = announced.iter().sum();
    (wants[0].gangs, wants[0].forecast_gangs) = (announced.to_vec(), forecast.to_vec());
    let (standing, steady) = (standing(stands[0], stands[1], 0), Steady::default());
    let (plan, _) = plan(&wants, &standing, &catalog(), &Policy::default(), &steady, at(0));
    let dealt: Vec<u64> = plan.buckets[0].groups.iter().map(|group| group.want).collect();
    assert_eq!(dealt, expected);
}

#[test]
fn the_headroom_for_a_forecast_gang_is_in_one_group() {
    check_forecast_gangs((&[], &[]), 4, [0, 0], [2, 2]);
    check_forecast_gangs((&[], &[4]), 4, [0, 0], [4, 0]);
    check_forecast_gangs((&[], &[4]), 7, [0, 0], [4, 3]);
    check_forecast_gangs((&[], &[4, 3]), 8, [0, 0], [4, 4]);
    // Where more of it stands, the virtual instance is completed.
    check_forecast_gangs((&[], &[4]), 4, [1, 3], [0, 4]);
    // Nodes of a gang that is larger than the headroom or than a group serve other pods.
    check_forecast_gangs((&[], &[5]), 4, [0, 0], [2, 2]);
    check_forecast_gangs((&[], &[7]), 8, [0, 0], [4, 4]);
    // An announced gang covers a forecast gang that is no larger.
    check_forecast_gangs((&[4], &[4]), 6, [0, 0], [4, 2]);
    check_forecast_gangs((&[2], &[4]), 6, [0, 0], [2, 4]);
}

/// Checks the placeholders for gangs of these sizes in groups a and b, which have room for 2 and 3
/// nodes, beside a forecast of `headroom` and `single` announced nodes.
#[track_caller]
fn check_gangs(gangs: &[u64], headroom: u64, single: u64, expected: [u64; 2], why: &[&str]) {
    let mut groups = standing(0, 0, 0);
    (groups.buckets[0][0].occupied, groups.buckets[0][1].occupied) = (4, 3);
    let mut wants = wants(headroom, 0);
    wants[0].announced = single + gangs.iter().sum::<u64>();
    wants[0].gangs = gangs.to_vec();
    let steady = Steady::default();
    let (plan, _) = plan(&wants, &groups, &catalog(), &Policy::default(), &steady, at(0));
    let dealt: Vec<u64> = plan.buckets[0].groups.iter().map(|group| group.want).collect();
    let reasons: Vec<&str> = plan.buckets[0].why.iter().map(|step| step.reason.label()).collect();
    assert_eq!((dealt.as_slice(), reasons.as_slice()), (expected.as_slice(), why));
}

#[test]
fn a_gang_that_fits_into_no_group_is_held_back() {
    check_gangs(&[3], 0, 0, [0, 3], &["announced"]);
    check_gangs(&[4], 0, 0, [0, 0], &["announced", "gang_fits_no_group"]);
    check_gangs(&[4], 0, 1, [1, 0], &["announced", "gang_fits_no_group"]);
    check_gangs(&[4, 2], 0, 0, [2, 0], &["announced", "gang_fits_no_group"]);
    // The forecast needs three nodes in any case, in any group.
    check_gangs(&[4], 3, 0, [2, 1], &["announced", "gang_fits_no_group"]);
    check_gangs(&[4], 5, 0, [2, 3], &["forecast"]);
}

#[test]
fn nodes_of_other_workloads_count_towards_the_maximum_of_a_group() {
    let mut shared = standing(0, 0, 0);
    shared.buckets[0][0] = GroupStanding { occupied: 1, unusable: 4, ..GroupStanding::default() };
    shared.buckets[0][1].unusable = 5;
    check(
        &wants(9, 0),
        &shared,
        &Policy::default(),
        "small: 0 -> 2
           forecast 9
           groups_full 2
           group a: 0 -> 1
           group b: 0 -> 1
         large: 0 -> 0
           forecast 0
           group c: 0 -> 0",
    );
}

#[test]
fn a_group_at_its_maximum_and_one_that_backs_off_are_skipped() {
    let mut full = standing(0, 0, 0);
    full.buckets[0][0].occupied = 5;
    check(
        &wants(9, 0),
        &full,
        &Policy::default(),
        "small: 0 -> 7
           forecast 9
           groups_full 7
           group a: 0 -> 1
           group b: 0 -> 6
         large: 0 -> 0
           forecast 0
           group c: 0 -> 0",
    );
    full.buckets[0][1].backoff = true;
    check(
        &wants(9, 0),
        &full,
        &Policy::default(),
        "small: 0 -> 1
           forecast 9
           group_backoff 1
           group a: 0 -> 1
           group b: 0 -> 0
         large: 0 -> 0
           forecast 0
           group c: 0 -> 0",
    );
}

/// A policy whose placeholders may cost this much, in dollars per hour.
fn capped_at(dollars_per_hour: Option<f64>) -> Policy {
    Policy { limits: Limits { dollars_per_hour, ..Limits::default() }, ..Policy::default() }
}

#[test]
fn the_spend_cap_keeps_the_placeholders_worth_most_per_dollar() {
    let policy = capped_at(Some(7.0));
    // Probabilities halve from one placeholder to the next. The small ones are worth .5, .25 and
    // .125 per dollar, the large ones .125 and .0625.
    check(
        &wants(3, 2),
        &standing(0, 0, 0),
        &policy,
        "small: 0 -> 3
           forecast 3
           group a: 0 -> 2
           group b: 0 -> 1
         large: 0 -> 1
           forecast 2
           spend_cap 1
           group c: 0 -> 1",
    );
}

/// Checks the targets of the small and the large bucket, of which instances are paid anyway.
#[track_caller]
fn check_prepaid(
    wanted: (u64, u64),
    standing: Standing,
    prepaid: &[(u64, &[(usize, usize)])],
    policy: &Policy,
    expected: [u64; 2],
) {
    let prepaid =
        prepaid.iter().map(|&(left, of)| Prepaid { left, groups: of.iter().copied().collect() });
    let standing = Standing { prepaid: prepaid.collect(), ..standing };
    let wants = wants(wanted.0, wanted.1);
    let (plan, _) = plan(&wants, &standing, &catalog(), policy, &Steady::default(), at(0));
    let targets: Vec<u64> = plan.buckets.iter().map(|bucket| bucket.target).collect();
    assert_eq!(targets, expected);
}

#[test]
fn instances_that_are_paid_anyway_are_held_and_cost_nothing() {
    let policy = Policy::default();
    check_prepaid((0, 0), standing(0, 0, 0), &[(3, &SMALL)], &policy, [3, 0]);
    check_prepaid((5, 0), standing(0, 0, 0), &[(3, &SMALL)], &policy, [5, 0]);
    check_prepaid((0, 1), standing(0, 0, 0), &[(3, &BOTH)], &policy, [2, 1]);
    check_prepaid((0, 1), standing(0, 0, 3), &[(3, &BOTH)], &policy, [0, 3]);
    // The groups of the small bucket have room for twelve.
    check_prepaid((0, 0), standing(0, 0, 0), &[(14, &BOTH)], &policy, [12, 2]);
    // Under a cap in dollars, only the others count: four dollars for one large instance.
    check_prepaid((2, 2), standing(0, 0, 0), &[(1, &LARGE)], &capped_at(Some(6.0)), [2, 2]);
    check_prepaid((2, 2), standing(0, 0, 0), &[], &capped_at(Some(6.0)), [2, 1]);
    check_prepaid((0, 0), standing(0, 0, 0), &[(9, &LARGE)], &capped_at(Some(0.0)), [0, 9]);
    // A limit in placeholders keeps what is needed, whatever it costs.
    let limits = Limits { total: Some(2), ..Limits::default() };
    let limited = Policy { limits, ..Policy::default() };
    check_prepaid((2, 0), standing(0, 0, 0), &[(5, &LARGE)], &limited, [2, 0]);
    check_prepaid((0, 0), standing(0, 0, 0), &[(5, &LARGE)], &limited, [0, 2]);
    let rollout = outer(OuterLimits { rollout_percent: Some(50), ..OuterLimits::default() });
    check_prepaid((0, 0), standing(0, 0, 0), &[(4, &SMALL)], &rollout, [2, 0]);
    // Without a price, only those are held that are paid anyway.
    let unpriced = OuterLimits { unpriced: [0].into(), ..OuterLimits::default() };
    let limits = Limits { outer: unpriced, ..capped_at(Some(9.0)).limits };
    let unpriced = Policy { limits, ..Policy::default() };
    check_prepaid((4, 0), standing(0, 0, 0), &[(3, &SMALL)], &unpriced, [3, 0]);
}

/// The groups of the small bucket, of the large one, and of both.
const SMALL: [(usize, usize); 2] = [(0, 0), (0, 1)];
const LARGE: [(usize, usize); 1] = [(1, 0)];
const BOTH: [(usize, usize); 3] = [(0, 0), (0, 1), (1, 0)];

/// Checks the placeholders of groups a and b, if three instances of b are paid anyway.
#[track_caller]
fn check_prepaid_group(headroom: u64, standing: Standing, policy: &Policy, expected: [u64; 2]) {
    let prepaid = vec![Prepaid { left: 3, groups: [(0, 1)].into() }];
    let standing = Standing { prepaid, ..standing };
    let (plan, _) =
        plan(&wants(headroom, 0), &standing, &catalog(), policy, &Steady::default(), at(0));
    let groups: Vec<u64> = plan.buckets[0].groups.iter().map(|group| group.want).collect();
    assert_eq!(groups, expected);
}

#[test]
fn neither_unknown_prices_nor_prepaid_instances_use_up_the_limits_of_other_buckets() {
    // A bucket without a price gets nothing under a cap in dollars, and leaves the total to others.
    let unpriced = OuterLimits { unpriced: [0].into(), ..OuterLimits::default() };
    let limits = Limits { total: Some(3), outer: unpriced, ..capped_at(Some(99.0)).limits };
    let policy = Policy { limits, ..Policy::default() };
    check_prepaid((3, 3), standing(0, 0, 0), &[], &policy, [0, 3]);
    // What is held only because it is paid comes after what is wanted elsewhere.
    let limits = Limits { total: Some(4), ..Limits::default() };
    let policy = Policy { limits, ..Policy::default() };
    let prepaid = vec![Prepaid { left: 4, groups: SMALL.into() }];
    let standing_ = Standing { prepaid, ..standing(0, 0, 0) };
    let small = Want { chances: vec![0.5; 9], ..want(0, 1) };
    let wants = [small, want(1, 3)];
    let (plan, _) = plan(&wants, &standing_, &catalog(), &policy, &Steady::default(), at(0));
    assert_eq!([plan.buckets[0].target, plan.buckets[1].target], [1, 3]);
}

#[test]
fn a_cap_in_dollars_leaves_out_what_is_paid_for_at_first() {
    let heavy = Group { weight: 1, ..group("a", 5) };
    let catalog = catalog_of([bucket("small", 4_000, 1.0, vec![heavy, group("b", 5)])]);
    let prepaid = vec![Prepaid { left: 5, groups: [(0, 1)].into() }];
    let group = GroupStanding::default();
    let standing = Standing { buckets: vec![vec![group; 2]], prepaid, ..Standing::default() };
    let policy = capped_at(Some(4.0));
    let (plan, _) = plan(&[want(0, 10)], &standing, &catalog, &policy, &Steady::default(), at(0));
    let groups: Vec<u64> = plan.buckets[0].groups.iter().map(|group| group.want).collect();
    assert_eq!(groups, [4, 5]);
    assert_eq!(plan.buckets[0].why.len(), 2, "{:?}", plan.buckets[0].why);
}

#[test]
fn only_the_groups_whose_instances_are_paid_hold_them() {
    let policy = Policy::default();
    check_prepaid_group(0, standing(0, 0, 0), &policy, [0, 3]);
    check_prepaid_group(2, standing(0, 0, 0), &policy, [0, 3]);
    check_prepaid_group(2, standing(2, 0, 0), &policy, [2, 3]);
    // Placeholders that stand elsewhere are no prepaid ones.
    check_prepaid_group(0, standing(2, 0, 0), &policy, [0, 3]);
    check_prepaid_group(2, standing(2, 0, 0), &capped_at(Some(0.0)), [0, 3]);
    check_prepaid_group(2, standing(2, 0, 0), &capped_at(Some(1.0)), [1, 3]);
    // While the group backs off, no other group is filled in its place.
    let mut closed = standing(0, 1, 0);
    closed.buckets[0][1].backoff = true;
    check_prepaid_group(0, closed, &policy, [0, 1]);
    // A shared limit that leaves no node leaves no prepaid one.
    let shared = vec![SharedLimit { left: vec![1], groups: [((0, 1), vec![1])].into() }];
    check_prepaid_group(0, Standing { shared, ..standing(0, 0, 0) }, &policy, [0, 1]);
    // No window keeps what a pod has taken.
    let behavior = Behavior { scale_down: rules(600, 0.5, Some((1, 60))), ..Behavior::default() };
    let slowly = Policy { behavior, ..Policy::default() };
    check_prepaid_group(0, standing(0, 3, 0), &slowly, [0, 3]);
    let prepaid = vec![Prepaid { left: 3, groups: [(0, 1)].into() }];
    let before = Standing { prepaid, ..standing(0, 0, 0) };
    let of = |standing: &Standing, steady: &Steady, seconds| {
        plan(&wants(0, 0), standing, &catalog(), &slowly, steady, at(seconds))
    };
    let (first, steady) = of(&before, &Steady::default(), 0);
    let mut after = applied(&first, &before);
    after.prepaid[0].left = 1;
    assert_eq!(of(&after, &steady, 10).0.buckets[0].target, 1);
}

#[test]
fn limits_apply_to_buckets_and_to_the_total() {
    let buckets = [("small".to_string(), 2)].into();
    let limits = Limits { total: Some(3), buckets, ..Limits::default() };
    let policy = Policy { limits, ..Policy::default() };
    check(
        &wants(5, 4),
        &standing(0, 0, 0),
        &policy,
        "small: 0 -> 2
           forecast 5
           bucket_limit 2
           group a: 0 -> 1
           group b: 0 -> 1
         large: 0 -> 1
           forecast 4
           total_limit 1
           group c: 0 -> 1",
    );
}

fn outer(outer: OuterLimits) -> Policy {
    Policy { limits: Limits { outer, ..Limits::default() }, ..Policy::default() }
}

#[test]
fn the_operator_limits_all_buckets_together() {
    let dollars = MicroDollars::from_dollars(7.0);
    let operator = |placeholders, hourly| {
        let operator = Ceiling { placeholders, hourly };
        outer(OuterLimits { operator, ..OuterLimits::default() })
    };
    check(
        &wants(5, 4),
        &standing(0, 0, 0),
        &operator(Some(3), None),
        "small: 0 -> 3
           forecast 5
           operator_limit 3
           group a: 0 -> 2
           group b: 0 -> 1
         large: 0 -> 0
           forecast 4
           operator_limit 3
           operator_limit 0
           group c: 0 -> 0",
    );
    check(
        &wants(3, 2),
        &standing(0, 0, 0),
        &operator(None, dollars),
        "small: 0 -> 3
           forecast 3
           group a: 0 -> 2
           group b: 0 -> 1
         large: 0 -> 1
           forecast 2
           operator_limit 1
           group c: 0 -> 1",
    );
}

#[test]
fn a_bucket_without_a_price_gets_nothing_under_a_limit_in_dollars() {
    let outer = OuterLimits { unpriced: [0].into(), ..OuterLimits::default() };
    let limits = Limits { outer, ..Limits::default() };
    let targets = |dollars_per_hour| {
        let policy =
            Policy { limits: Limits { dollars_per_hour, ..limits.clone() }, ..Policy::default() };
        let wants = wants(1, 1);
        let (plan, _) =
            plan(&wants, &standing(0, 0, 0), &catalog(), &policy, &Steady::default(), at(0));
        [plan.buckets[0].target, plan.buckets[1].target]
    };
    assert_eq!(targets(None), [1, 1]);
    assert_eq!(targets(Some(1_000.0)), [0, 1]);
}

#[test]
fn a_rollout_lets_a_part_of_each_target_stand() {
    let rollout =
        |percent| outer(OuterLimits { rollout_percent: Some(percent), ..OuterLimits::default() });
    let targets = |small, large, percent| {
        let (wants, none) = (wants(small, large), standing(0, 0, 0));
        let (plan, _) =
            plan(&wants, &none, &catalog(), &rollout(percent), &Steady::default(), at(0));
        [plan.buckets[0].target, plan.buckets[1].target]
    };
    assert_eq!(targets(6, 1, 0), [0, 0]);
    assert_eq!(targets(6, 1, 25), [2, 1]);
    assert_eq!(targets(6, 0, 50), [3, 0]);
    assert_eq!(targets(6, 1, 100), [6, 1]);
    check(
        &wants(5, 1),
        &standing(0, 0, 0),
        &rollout(50),
        "small: 0 -> 3
           forecast 5
           rollout 3
           group a: 0 -> 2
           group b: 0 -> 1
         large: 0 -> 1
           forecast 1
           group c: 0 -> 1",
    );
}

#[test]
fn what_stands_of_a_rollout_stays_while_the_cluster_is_out_of_date() {
    let half = outer(OuterLimits { rollout_percent: Some(50), ..OuterLimits::default() });
    let plan = shrink(&wants(3, 1), &standing(2, 1, 1), &catalog(), &half, at(0));
    assert_eq!([plan.buckets[0].target, plan.buckets[1].target], [3, 1]);
}

/// Stabilisers work on the part that a rollout lets stand: a rate lets it grow, and a window holds
/// it.
#[test]
fn a_rollout_does_not_shrink_what_stabilisers_hold() {
    let behavior = Behavior {
        scale_up: ScalingRules {
            policies: vec![ScalingPolicy { value: 1, period_seconds: 60 }],
            ..ScalingRules::default()
        },
        scale_down: ScalingRules { stabilization_window_seconds: 3_600, ..ScalingRules::default() },
    };
    let half = outer(OuterLimits { rollout_percent: Some(50), ..OuterLimits::default() });
    let policy = Policy { behavior, ..half };
    let (mut steady, mut stands, mut targets) = (Steady::default(), 0, Vec::new());
    for (minute, wanted) in [(0, 8), (2, 8), (4, 8), (6, 8), (8, 8), (10, 0), (12, 0)] {
        let (wants, standing) = (wants(wanted, 0), standing(stands, 0, 0));
        let (plan, after) = plan(&wants, &standing, &catalog(), &policy, &steady, at(60 * minute));
        (steady, stands) = (after, plan.buckets[0].target);
        targets.push(stands);
    }
    assert_eq!(targets, [1, 2, 3, 4, 4, 4, 4]);
}

#[test]
fn an_absurd_target_costs_no_time() {
    let group = |name| group(name, u64::MAX);
    let small = bucket("small", 4_000, 1.0, vec![group("a"), group("b")]);
    let large = bucket("large", 16_000, 4.0, vec![group("c")]);
    let catalog = catalog_of([small, large]);
    let absurd = |bucket| Want { headroom: u64::from(u32::MAX), ..want(bucket, 0) };
    let capped = capped_at(Some(1e9));
    for policy in [Policy::default(), capped] {
        let (wants, standing) = ([absurd(0), absurd(1)], standing(1, 0, 0));
        let (plan, _) = plan(&wants, &standing, &catalog, &policy, &Steady::default(), at(0));
        let groups = &plan.buckets[0].groups;
        assert!(groups[0].want > 10_000 && groups[0].want.abs_diff(groups[1].want) <= 1);
    }
}

#[test]
fn the_dearest_placeholders_yield_first_to_pods_that_wait() {
    let policy = outer(OuterLimits {
        yielding: Some(Yielding { most: 4, buckets: vec![0, 1] }),
        ..OuterLimits::default()
    });
    check(
        &wants(5, 4),
        &standing(2, 1, 4),
        &policy,
        "small: 3 -> 3
           forecast 5
           yields_to_real_pods 3
           group a: 2 -> 2
           group b: 1 -> 1
         large: 4 -> 1
           forecast 4
           yields_to_real_pods 1
           group c: 4 -> 1",
    );
}

#[test]
fn the_limit_of_a_bucket_that_was_divided_applies_to_its_parts_together() {
    let part = |name: &str, cpu_millis| {
        let group = Group { name: name.into(), placement_group: None, min: 0, max: 9, weight: 0 };
        bucket(name, cpu_millis, 1.0, vec![group])
    };
    let catalog = catalog_of([part("m5/team=a", 4_000), part("m5/team=b", 4_001)]);
    let limits = Limits { buckets: [("m5".to_string(), 3)].into(), ..Limits::default() };
    let policy = Policy { limits, ..Policy::default() };
    let standing =
        Standing { buckets: vec![vec![GroupStanding::default()]; 2], ..Standing::default() };
    let (plan, _) = plan(&wants(2, 2), &standing, &catalog, &policy, &Steady::default(), at(0));
    let targets: Vec<u64> = plan.buckets.iter().map(|bucket| bucket.target).collect();
    assert_eq!(targets.iter().sum::<u64>(), 3, "{targets:?}");
}

#[test]
fn too_little_history_is_the_reason_of_the_step() {
    let mut cold = wants(1, 0);
    cold[0].reason = Reason::TooLittleHistory;
    let (plan, _) =
        plan(&cold, &standing(0, 0, 0), &catalog(), &Policy::default(), &Steady::default(), at(0));
    assert_eq!(plan.buckets[0].why[0].reason, Reason::TooLittleHistory);
}

/// Checks the targets of the small bucket for pairs of (seconds, headroom before the stabilisers),
/// and the last reason of each.
#[track_caller]
fn check_steady(behavior: Behavior, headrooms: &[(i64, u64)], expected: &[(u64, Reason)]) {
    let policy = Policy { behavior, ..Policy::default() };
    let (mut steady, mut standing) = (Steady::default(), standing(0, 0, 0));
    let mut got = Vec::new();
    for &(seconds, headroom) in headrooms {
        let (next, after) =
            plan(&wants(headroom, 0), &standing, &catalog(), &policy, &steady, at(seconds));
        (steady, standing) = (after, applied(&next, &standing));
        got.push((next.buckets[0].target, next.buckets[0].why.last().unwrap().reason));
    }
    assert_eq!(got, expected);
}

fn applied(plan: &Plan, before: &Standing) -> Standing {
    let mut after = before.clone();
    for bucket in &plan.buckets {
        for (group, standing) in bucket.groups.iter().zip(&mut after.buckets[bucket.bucket]) {
            standing.placeholders = group.want;
        }
    }
    after
}

fn rules(window: u32, tolerance: f64, rate: Option<(u64, u32)>) -> ScalingRules {
    let policies = rate.map(|(value, period_seconds)| ScalingPolicy { value, period_seconds });
    ScalingRules {
        stabilization_window_seconds: window,
        tolerance,
        policies: policies.into_iter().collect(),
    }
}

#[test]
fn downscaling_is_deferred() {
    let behavior = Behavior { scale_down: rules(300, 0.0, None), ..Behavior::default() };
    let expected = [
        (6, Reason::Forecast),
        (6, Reason::ScaleDownWindow),
        (6, Reason::ScaleDownWindow),
        (2, Reason::ScaleDownWindow),
        (1, Reason::Forecast),
    ];
    check_steady(behavior, &[(0, 6), (60, 2), (299, 1), (300, 1), (600, 1)], &expected);
}

#[test]
fn decay_is_slow() {
    let behavior = Behavior { scale_down: rules(0, 0.0, Some((2, 60))), ..Behavior::default() };
    let expected = [
        (8, Reason::Forecast),
        (6, Reason::ScaleDownRate),
        (6, Reason::ScaleDownRate),
        (4, Reason::ScaleDownRate),
    ];
    check_steady(behavior, &[(0, 8), (10, 0), (30, 0), (70, 0)], &expected);
}

#[test]
fn growth_is_limited() {
    let behavior = Behavior { scale_up: rules(0, 0.0, Some((3, 60))), ..Behavior::default() };
    let expected = [
        (3, Reason::ScaleUpRate),
        (3, Reason::ScaleUpRate),
        (6, Reason::ScaleUpRate),
        (0, Reason::Forecast),
    ];
    check_steady(behavior, &[(0, 8), (30, 8), (60, 8), (70, 0)], &expected);
}

#[test]
fn small_changes_are_ignored() {
    let tolerant = || rules(0, 0.2, None);
    let behavior = Behavior { scale_up: tolerant(), scale_down: tolerant() };
    let expected = [
        (5, Reason::Forecast),
        (5, Reason::SmallChange),
        (5, Reason::SmallChange),
        (7, Reason::Forecast),
    ];
    check_steady(behavior, &[(0, 5), (10, 6), (20, 4), (30, 7)], &expected);
}

/// A placeholder that a limit kept from being created does not count towards a rate.
#[test]
fn rates_count_only_placeholders_that_stood() {
    let mut policy = Policy::default();
    policy.limits.total = Some(5);
    policy.behavior.scale_down = rules(0, 0.0, Some((4, 60)));
    let (first, steady) =
        plan(&wants(12, 0), &standing(0, 0, 0), &catalog(), &policy, &Steady::default(), at(0));
    let (second, _) = plan(
        &wants(0, 0),
        &applied(&first, &standing(0, 0, 0)),
        &catalog(),
        &policy,
        &steady,
        at(60),
    );
    assert_eq!((first.buckets[0].target, second.buckets[0].target), (5, 1));
}

fn grows_slowly() -> Policy {
    let behavior = Behavior { scale_up: rules(0, 0.0, Some((3, 60))), ..Behavior::default() };
    Policy { behavior, ..Policy::default() }
}

/// Returns the target of `large` at a time, and the stabilisers after it.
fn large(
    headroom: u64,
    stands: u64,
    policy: &Policy,
    steady: &Steady,
    seconds: i64,
) -> (u64, Steady) {
    let (wants, standing) = (wants(0, headroom), standing(0, 0, stands));
    let (plan, steady) = plan(&wants, &standing, &catalog(), policy, steady, at(seconds));
    (plan.buckets[1].target, steady)
}

/// 20 placeholders stand, and the rate allows 3 new ones per minute. A controller that has just
/// started has no memory of its targets, but it keeps the standing placeholders.
#[test]
fn standing_placeholders_are_kept_after_a_restart() {
    let (target, steady) = large(20, 20, &grows_slowly(), &Steady::default(), 0);
    assert_eq!(target, 20);
    assert_eq!(large(25, 20, &grows_slowly(), &steady, 10).0, 23);
}

/// Rules that are added to a policy later start from the target that was held without them.
#[test]
fn rules_that_are_added_later_start_from_the_target() {
    let (target, steady) = large(20, 0, &Policy::default(), &Steady::default(), 0);
    assert_eq!((target, large(25, 20, &grows_slowly(), &steady, 70).0), (20, 23));
}

/// The targets of the history are 20, and 22 half a minute ago. So the rate allows only one more
/// placeholder now.
#[test]
fn the_history_restores_rates_and_windows() {
    let mut steady = Steady::default();
    steady.recall(&[0, 20], at(0));
    steady.recall(&[0, 22], at(60));
    assert_eq!(large(30, 22, &grows_slowly(), &steady, 90).0, 23);
    assert_eq!(large(30, 22, &grows_slowly(), &steady, 120).0, 25);
    let behavior = Behavior { scale_down: rules(300, 0.0, None), ..Behavior::default() };
    let holds = Policy { behavior, ..Policy::default() };
    assert_eq!(large(1, 22, &holds, &steady, 90).0, 22);
    assert_eq!(large(1, 22, &holds, &steady, 361).0, 1);
}

/// The standing placeholders count, not the target of the history, because placeholders may have
/// been removed in between.
#[test]
fn standing_placeholders_override_a_target_of_the_history() {
    let mut steady = Steady::default();
    steady.recall(&[0, 20], at(0));
    assert_eq!(large(20, 4, &grows_slowly(), &steady, 3_600).0, 7);
}

/// The clock goes back by an hour: targets of the time after it hold nothing up.
#[test]
fn a_clock_that_goes_back_holds_no_target() {
    let (_, steady) = large(20, 0, &Policy::default(), &Steady::default(), 7_200);
    assert_eq!(large(1, 20, &Policy::default(), &steady, 3_600).0, 1);
}

#[test]
fn a_new_catalog_keeps_memories_by_the_names_of_buckets() {
    let (_, steady) = large(20, 20, &grows_slowly(), &Steady::default(), 0);
    let only_large = bucket("large", 16_000, 4.0, vec![group("c", 100)]);
    let other = catalog_of([only_large]);
    let there = steady.renumbered(&catalog(), &other);
    assert_ne!(there, Steady::default());
    assert_eq!(there.renumbered(&other, &catalog()).renumbered(&catalog(), &other), there);
}

#[test]
fn faults_of_a_policy_name_their_fields() {
    let mut policy = capped_at(Some(-1.0));
    policy.behavior.scale_down = rules(90_000, 1.0, Some((1, 0)));
    let faults = policy.faults();
    for field in [
        "limits.dollarsPerHour",
        "behavior.scaleDown.stabilizationWindowSeconds",
        "behavior.scaleDown.tolerance",
        "behavior.scaleDown.policies[0].periodSeconds",
    ] {
        assert!(
            faults.iter().any(|fault| fault.to_string().starts_with(&format!("{field}:"))),
            "{field}: {faults:?}"
        );
    }
    assert!(Policy::default().faults().is_empty());
}

#[test]
fn a_shrinking_plan_keeps_announced_demand_and_ignores_rates() {
    let mut wants = wants(1, 0);
    wants[1].announced = 2;
    let slowly = Behavior { scale_down: rules(0, 0.0, Some((1, 60))), ..Behavior::default() };
    let policy = Policy { behavior: slowly, ..Policy::default() };
    let plan = shrink(&wants, &standing(3, 1, 4), &catalog(), &policy, at(0));
    let groups: Vec<(u64, u64)> =
        plan.buckets.iter().flat_map(|bucket| &bucket.groups).map(|g| (g.have, g.want)).collect();
    assert_eq!(groups, [(3, 1), (1, 0), (4, 2)]);
}

fn any_standing() -> impl Strategy<Value = Standing> {
    let group = || {
        (0..8_u64, 0..8_u64, 0..3_u64, 0..3_u64, any::<bool>()).prop_map(
            |(placeholders, occupied, unusable, stranded, backoff)| GroupStanding {
                fixed: false,
                stranded,
                placeholders,
                occupied,
                unusable,
                backoff,
            },
        )
    };
    // Each group is in at most one of two sets of prepaid instances.
    let owner = || 0..3_usize;
    let prepaid =
        (owner(), owner(), owner(), 0..8_u64, 0..8_u64).prop_map(|(a, b, c, one, two)| {
            let of = |owner: usize| {
                let owners = [((0, 0), a), ((0, 1), b), ((1, 0), c)];
                owners.into_iter().filter(|(_, by)| *by == owner).map(|(group, _)| group).collect()
            };
            vec![Prepaid { left: one, groups: of(1) }, Prepaid { left: two, groups: of(2) }]
        });
    (group(), group(), group(), prepaid).prop_map(|(a, b, c, prepaid)| Standing {
        buckets: vec![vec![a, b], vec![c]],
        prepaid,
        ..Standing::default()
    })
}

fn any_wants() -> impl Strategy<Value = Vec<Want>> {
    let one = |bucket| {
        (0..9_u64, 0..20_u64, prop::collection::vec(1..4_u64, 0..3)).prop_map(
            move |(announced, headroom, gangs)| Want { announced, gangs, ..want(bucket, headroom) },
        )
    };
    (one(0), one(1)).prop_map(|(small, large)| vec![small, large])
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let rules = || {
        (0..400_u32, prop::option::of((0..4_u64, 1..200_u32)))
            .prop_map(|(w, rate)| rules(w, 0.1, rate))
    };
    (prop::option::of(0..12_u64), prop::option::of(0.0..30.0), rules(), rules()).prop_map(
        |(total, dollars_per_hour, scale_up, scale_down)| Policy {
            limits: Limits { total, dollars_per_hour, ..Limits::default() },
            behavior: Behavior { scale_up, scale_down },
            ..Policy::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Rates and caps are tested apart. A cap lowers a target at once, but a rate raises it only
    /// over time, so with both the second plan may give to one bucket the placeholders that the
    /// first plan took from another.
    #[test]
    fn a_plan_applied_to_its_own_outcome_is_empty(
        wants in any_wants(), standing in any_standing(), policy in any_policy(), has_rates in any::<bool>(),
    ) {
        let mut policy = policy;
        if has_rates {
            (policy.limits.total, policy.limits.dollars_per_hour) = (None, None);
        } else {
            policy.behavior.scale_up.policies.clear();
            policy.behavior.scale_down.policies.clear();
        }
        let (first, steady) = plan(&wants, &standing, &catalog(), &policy, &Steady::default(), at(0));
        let standing = applied(&first, &standing);
        let (second, steady) = plan(&wants, &standing, &catalog(), &policy, &steady, at(0));
        if standing.prepaid.iter().all(|prepaid| prepaid.left == 0) {
            prop_assert!(second.is_empty(), "{}", second.describe(&catalog()));
        }
        // Others are removed once the prepaid ones stand.
        let (third, _) =
            plan(&wants, &applied(&second, &standing), &catalog(), &policy, &steady, at(0));
        prop_assert!(third.is_empty(), "{}", third.describe(&catalog()));
    }

    #[test]
    fn caps_hold_and_every_number_adds_up(
        wants in any_wants(), standing in any_standing(), policy in any_policy(),
    ) {
        let catalog = catalog();
        let (plan, _) = plan(&wants, &standing, &catalog, &policy, &Steady::default(), at(0));
        let total: u64 = plan.buckets.iter().map(|bucket| bucket.target).sum();
        let groups: Vec<Vec<u64>> = plan.buckets.iter().map(|bucket| bucket.groups.iter().map(|group| group.want).collect()).collect();
        let paid = plan.buckets.iter().zip(standing.prepaid(&groups)).map(|(bucket, free)| bucket.target - free);
        let dollars: f64 =
            catalog.buckets().iter().zip(paid).map(|(bucket, paid)| bucket.hourly.times(paid).dollars()).sum();
        prop_assert!(policy.limits.total.is_none_or(|most| total <= most));
        prop_assert!(policy.limits.dollars_per_hour.is_none_or(|cap| dollars <= cap + 1e-6));
        for bucket in &plan.buckets {
            prop_assert_eq!(bucket.groups.iter().map(|group| group.want).sum::<u64>(), bucket.target);
            prop_assert_eq!(bucket.why.last().map(|step| step.target), Some(bucket.target));
            let groups = catalog.buckets()[bucket.bucket].groups.iter().zip(&standing.buckets[bucket.bucket]);
            for (change, (group, standing)) in bucket.groups.iter().zip(groups) {
                prop_assert!(change.want + standing.occupied <= group.max || change.want == 0);
                prop_assert!(!standing.backoff || change.want <= standing.placeholders);
            }
        }
    }

    #[test]
    fn a_shrinking_plan_adds_no_placeholder_to_any_group(
        wants in any_wants(), standing in any_standing(), policy in any_policy(),
    ) {
        let plan = shrink(&wants, &standing, &catalog(), &policy, at(0));
        for (bucket, want) in plan.buckets.iter().zip(&wants) {
            prop_assert!(bucket.groups.iter().all(|group| group.want <= group.have));
            let prepaid = standing.prepaid.iter().map(|of| of.left).sum::<u64>();
            prop_assert!(bucket.target <= want.headroom.max(want.announced) + prepaid);
            prop_assert_eq!(bucket.groups.iter().map(|group| group.want).sum::<u64>(), bucket.target);
        }
    }

    #[test]
    fn standing_placeholders_are_kept_while_more_are_planned(a in 0..6_u64, b in 0..6_u64, more in 0..5_u64) {
        let standing = standing(a, b, 0);
        let (plan, _) = plan(&wants(a + b + more, 0), &standing, &catalog(), &Policy::default(), &Steady::default(), at(0));
        prop_assert!(plan.buckets[0].groups.iter().all(|group| group.want >= group.have));
    }

    /// Every target is reached eventually: no rule limits a target for ever.
    #[test]
    fn every_target_is_reached_eventually(policy in any_policy(), first in 0..6_u64, then in 0..6_u64) {
        let mut policy = policy;
        policy.limits.total = None;
        policy.limits.dollars_per_hour = None;
        for rules in [&mut policy.behavior.scale_up, &mut policy.behavior.scale_down] {
            rules.tolerance = 0.0;
            rules.policies.retain(|policy| policy.value > 0);
        }
        let (mut steady, mut now) = (Steady::default(), at(0));
        let mut target = 0;
        for headroom in std::iter::once(first).chain(std::iter::repeat_n(then, 40)) {
            let (plan, after) = plan(&wants(headroom, 0), &standing(0, 0, 0), &catalog(), &policy, &steady, now);
            (steady, target) = (after, plan.buckets[0].target);
            now += TimeDelta::seconds(200);
        }
        prop_assert_eq!(target, then);
    }
}

/// Checks the targets of both buckets and the placeholders of each group, given what a limit leaves
/// to groups a and c, of which a node takes 4 and 16.
#[track_caller]
fn check_shared(
    (small, large): (u64, u64),
    standing: Standing,
    left: u64,
    policy: &Policy,
    expected: ([u64; 2], u64),
) {
    let groups = [((0, 0), vec![4]), ((1, 0), vec![16])];
    let shared = vec![SharedLimit { left: vec![left], groups: groups.into() }];
    let standing = Standing { shared, ..standing };
    let wants = wants(small, large);
    let (plan, _) = plan(&wants, &standing, &catalog(), policy, &Steady::default(), at(0));
    let small: Vec<u64> = plan.buckets[0].groups.iter().map(|group| group.want).collect();
    assert_eq!(([small[0], small[1]], plan.buckets[1].groups[0].want), expected);
}

#[test]
fn groups_of_several_buckets_share_a_limit() {
    let policy = Policy::default();
    check_shared((4, 4), standing(0, 0, 0), 1_000, &policy, ([2, 2], 4));
    // Group b is outside the limit.
    check_shared((4, 4), standing(0, 0, 0), 4, &policy, ([1, 3], 0));
    check_shared((4, 4), standing(0, 0, 0), 25, &policy, ([2, 2], 1));
    check_shared((4, 4), standing(0, 0, 0), 3, &policy, ([0, 4], 0));
    // Standing placeholders keep their part, also those of a later bucket.
    check_shared((4, 4), standing(0, 0, 1), 20, &policy, ([1, 3], 1));
    check_shared((12, 0), standing(0, 0, 0), 8, &policy, ([2, 6], 0));
    // What the first bucket receives is no longer left to the second one.
    check_shared((2, 4), standing(0, 0, 0), 36, &policy, ([1, 1], 2));
    check_shared((0, 4), standing(0, 0, 0), 36, &policy, ([0, 0], 2));
    // The target of the first bucket keeps one of its two standing placeholders in the limit.
    check_shared((1, 4), standing(2, 0, 0), 20, &policy, ([1, 0], 1));
    check_shared((2, 4), standing(2, 0, 0), 16, &policy, ([2, 0], 0));
}

#[test]
fn what_a_shared_limit_keeps_from_a_bucket_is_left_to_the_others() {
    let limits = Limits { total: Some(3), ..Limits::default() };
    let policy = Policy { limits, ..Policy::default() };
    // The large bucket could have one only, so the total leaves two to the small one.
    check_shared((0, 3), standing(0, 0, 0), 16, &policy, ([0, 0], 1));
    check_shared((2, 3), standing(0, 0, 0), 24, &policy, ([1, 1], 1));
}

#[test]
fn a_shared_limit_and_an_absurd_target_cost_no_time() {
    let groups = [((0, 0), vec![1]), ((0, 1), vec![1]), ((1, 0), vec![0])];
    let shared = vec![SharedLimit { left: vec![u64::MAX], groups: groups.into() }];
    let standing = Standing { shared, ..standing(0, 0, 0) };
    let absurd = |bucket| Want { headroom: u64::MAX, ..want(bucket, 0) };
    let (wants, policy) = ([absurd(0), absurd(1)], Policy::default());
    let (plan, _) = plan(&wants, &standing, &catalog(), &policy, &Steady::default(), at(0));
    assert_eq!((plan.buckets[0].target, plan.buckets[1].target), (12, 100));
}
