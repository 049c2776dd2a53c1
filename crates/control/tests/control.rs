//! The control of one policy, turn by turn.

use chrono::{DateTime, TimeDelta, Utc};
use control::{Control, Observed};
use demand::forecast::{Ladder, Method, sample};
use demand::record::{PodStarts, Tick};
use embedder::{Catalog, Cluster, Shape, VirtualInstance};
use placeholders::{
    Behavior, GroupStanding, Limits, Objective, OuterLimits, Policy, Reason, ScalingRules, Standing,
};

fn catalog() -> Catalog {
    sample::catalog()
}

fn shape() -> Shape {
    testkit::shape(testkit::cpus(1_000))
}

/// A time of the test, in seconds.
fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

fn control(method: Method) -> Control {
    let config = sample::config(method, Objective::default());
    Control::new(config.forecaster(at(0)), &catalog(), 60)
}

/// One that holds a number of placeholders at any demand.
fn holding(placeholders: u64) -> Control {
    let ladder = Ladder { cores_to_replicas: vec![], nodes_to_replicas: vec![(0, placeholders)] };
    let config = sample::config(Method::Ladder, Objective::default());
    let forecaster = demand::forecast::ForecasterConfig { ladder, ..config }.forecaster(at(0));
    Control::new(forecaster, &catalog(), 60)
}

fn standing(placeholders: u64) -> Standing {
    let group = GroupStanding { placeholders, ..GroupStanding::default() };
    Standing { buckets: vec![vec![group]; catalog().len()], ..Standing::default() }
}

fn observed(seconds: i64, pods: u64) -> Observed {
    let pending = if pods > 0 { vec![testkit::pods(pods, shape().requests)] } else { vec![] };
    Observed {
        time: at(seconds),
        cluster: Cluster { pending, occupied: vec![0; catalog().len()], ..Cluster::default() },
        standing: standing(0),
        ready: vec![0; catalog().len()],
        arrivals: if pods > 0 { vec![(shape(), pods)] } else { vec![] },
        ..Observed::default()
    }
}

fn target(control: &mut Control, seconds: i64, policy: &Policy) -> u64 {
    control.turn(&observed(seconds, 0), policy).plan.buckets[0].target
}

#[test]
fn a_tick_has_what_was_observed_since_the_last_one() {
    let mut control = control(Method::Scheduled);
    let policy = Policy {
        limits: Limits {
            outer: OuterLimits { rollout_percent: Some(50), ..OuterLimits::default() },
            ..Limits::default()
        },
        ..Policy::default()
    };
    assert!(control.turn(&observed(0, 0), &policy).tick.is_some());
    let gang = VirtualInstance { bucket: 0, instances: 3 };
    let between = Observed {
        gangs: vec![gang],
        starts: vec![(0, PodStarts { hidden: 4, waited: 5 })],
        tiers: vec![("high".into(), shape(), 1)],
        namespaces: vec![("jobs".into(), shape(), 2)],
        ..observed(30, 2)
    };
    assert_eq!(control.turn(&between, &policy).tick, None);
    control.arrived(&shape(), 3);
    let tick = control.turn(&observed(60, 0), &policy).tick.unwrap();
    assert_eq!(tick.arrivals.iter().map(|(_, pods)| *pods).collect::<Vec<_>>(), [5]);
    assert_eq!(tick.gangs, [(gang, 1)]);
    assert_eq!((tick.buckets[0].pods_hidden, tick.buckets[0].pods_waited), (4, 5));
    assert_eq!(tick.tiers.iter().map(|tier| tier.pods).collect::<Vec<_>>(), [1]);
    assert_eq!(tick.namespaces.len(), 1);
    assert_eq!(tick.buckets[0].demand_max, 1);
    assert_eq!(tick.rollout_percent, Some(50));
    assert_eq!(control.history().len(), 2);
    let known: Vec<&Shape> = (0..1).filter_map(|id| control.shapes().get(id)).collect();
    assert_eq!(known, [&shape()]);
}

#[test]
fn a_tick_without_a_decision_is_learnt() {
    let mut control = control(Method::Scheduled);
    let tick: Option<Tick> = control.watch(&observed(0, 2));
    assert_eq!(tick.map(|tick| tick.arrivals.len()), Some(1));
    assert_eq!(control.watch(&observed(30, 0)), None);
    assert_eq!(control.history().len(), 1);
}

#[test]
fn a_tick_of_the_history_is_learnt_and_not_due_again() {
    let mut first = control(Method::Scheduled);
    let tick = first.turn(&observed(0, 2), &Policy::default()).tick.unwrap();
    let mut second = control(Method::Scheduled);
    second.shapes_mut().intern(&shape());
    second.recall(tick, &[0]);
    assert_eq!(second.history().len(), 1);
    assert_eq!(second.turn(&observed(30, 0), &Policy::default()).tick, None);
}

#[test]
fn a_copy_decides_alike_and_learns_on_its_own() {
    let mut first = holding(3);
    let mut copy = first.copy().unwrap();
    assert_eq!(target(&mut copy, 0, &Policy::default()), 3);
    assert_eq!(first.history().len(), 0);
    assert_eq!(target(&mut first, 0, &Policy::default()), 3);
}

/// The window in which the lowest target counts is that of the predecessor.
#[test]
fn a_successor_has_the_stabilisers() {
    let scale_up = ScalingRules { stabilization_window_seconds: 600, ..ScalingRules::default() };
    let behavior = Behavior { scale_up, ..Behavior::default() };
    let policy = Policy { behavior, ..Policy::default() };
    let mut none = holding(0);
    assert_eq!(target(&mut none, 0, &policy), 0);
    let mut after = holding(3);
    after.succeed(&none);
    assert_eq!(target(&mut after, 60, &policy), 0);
    assert_eq!(target(&mut holding(3), 60, &policy), 3);
}

#[test]
fn placeholders_stay_while_the_observation_is_out_of_date() {
    let control = holding(0);
    let observed = Observed { standing: standing(4), ..observed(0, 0) };
    let turn = control.outdated_turn(&observed, &Policy::default(), &[3]);
    assert_eq!((turn.tick, turn.plan.buckets[0].target), (None, 3));
    assert_eq!(turn.plan.buckets[0].why[0].reason, Reason::Outdated);
    // More than stand are not added.
    let turn = control.outdated_turn(&observed, &Policy::default(), &[9]);
    assert_eq!(turn.plan.buckets[0].target, 4);
}

/// A namespace submits 200 pods every half hour of a day, and no more afterwards.
#[test]
fn headroom_for_a_namespace_that_submits_no_more_ends() {
    let after_it_ended = |namespace_share| -> Vec<u64> {
        let policy = Policy { namespace_share, ..Policy::default() };
        let mut control = control(Method::Ensemble);
        let mut targets = Vec::new();
        for minute in 0..1_440 + 240 {
            let pods = if minute < 1_440 && minute % 30 == 0 { 200 } else { 0 };
            let arrived = observed(60 * minute, pods);
            let namespaces =
                arrived.arrivals.iter().map(|(of, n)| ("jobs".to_owned(), of.clone(), *n));
            let arrived = Observed { namespaces: namespaces.collect(), ..arrived };
            let target = control.turn(&arrived, &policy).plan.buckets[0].target;
            if minute >= 1_440 && minute % 30 == 29 {
                targets.push(target);
            }
        }
        targets
    };
    let (without, with) = (after_it_ended(None), after_it_ended(Some(0.5)));
    assert!(without[3..].iter().all(|target| *target > 0), "{without:?}");
    assert_eq!(with[..2], without[..2], "{with:?}");
    assert!(with[2..].iter().all(|target| *target == 0), "{with:?}");
}

#[test]
fn an_ensemble_names_its_experts() {
    let mut ensemble = control(Method::Ensemble);
    for minute in 0..3_000 {
        ensemble.turn(&observed(60 * minute, u64::from(minute % 10 == 0)), &Policy::default());
    }
    let weights = ensemble.weights(0);
    assert!(weights.len() > 1 && weights.iter().all(|(name, _)| !name.is_empty()), "{weights:?}");
    assert!((weights.iter().map(|(_, weight)| weight).sum::<f64>() - 1.0).abs() < 1e-6);
    assert_eq!(ensemble.faults(), []);
    assert_eq!(control(Method::Scheduled).weights(0), []);
}
