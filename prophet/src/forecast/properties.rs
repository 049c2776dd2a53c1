//! What holds of every method: what is to come changes no answer, and quantiles rise.

use chrono::{DateTime, TimeDelta};
use embedder::{AcceleratorKind, Demand, Resources, Shape};
use placeholders::Objective;
use proptest::prelude::*;

use super::{Ahead, Forecaster, Learners, Method, Outlook, Present, sample};
use crate::record::{BucketTick, ShapeId, Tick};

const METHODS: [Method; 14] = [
    Method::Ensemble,
    Method::Scenario,
    Method::ScenarioArrivals,
    Method::State,
    Method::Seasonal,
    Method::Increments,
    Method::HoltWinters,
    Method::Arima,
    Method::Mstl,
    Method::Onnx,
    Method::MovingWindow,
    Method::AutopilotMl,
    Method::Ladder,
    Method::Scheduled,
];

/// A minute: demand, by how much it was exceeded, free room, pods that came.
type Minute = (u64, u64, u64, u64);

fn minutes() -> impl Strategy<Value = Vec<Minute>> {
    let busy = (0..6_u64, 0..4_u64, 0..5_u64, 0..4_u64);
    prop::collection::vec(busy, 1..40).prop_map(|some| some.into_iter().cycle().take(400).collect())
}

fn forecaster(method: Method, objective: Objective) -> Box<dyn Forecaster> {
    sample::basis(method, objective).forecaster()
}

/// All methods where costs are weighed, and one of each kind where a quantile is calibrated.
fn methods() -> impl Iterator<Item = (Method, Objective)> {
    let calibrated = [Method::Increments, Method::State, Method::HoltWinters];
    let quantile = calibrated.map(|method| (method, Objective::Quantile(0.8)));
    METHODS.map(|method| (method, Objective::default())).into_iter().chain(quantile)
}

/// What is expected 20 s after each of the minutes, with more pods since, and of demand three minutes later.
fn outlooks((method, objective): (Method, Objective), minutes: &[Minute]) -> Vec<(Outlook, Vec<Ahead>)> {
    let half = Resources { cpu_millis: 4_000, ..Resources::default() };
    let shape = Shape::new(half, AcceleratorKind::default());
    let mut learners = Learners::new(forecaster(method, objective));
    let answer = |(minute, &(demand, above, room, pods)): (i64, &Minute)| {
        let time = DateTime::from_timestamp(60 * minute, 0).unwrap();
        let first_seen = if minute == 0 { vec![(0, shape.clone())] } else { vec![] };
        let buckets = vec![BucketTick { demand, demand_max: demand + above, ..BucketTick::default() }];
        learners.learn(Tick { time, buckets, room: vec![(0, room)], first_seen, arrivals: vec![(0, pods)] });
        let demand = Demand { present: vec![demand], announced: vec![0], ..Demand::default() };
        let now = time + TimeDelta::seconds(20);
        let arriving = [(0, above)];
        let now = Present { arriving: &arriving, ..Present::at_tick(now, &demand) };
        (learners.forecast(&now), learners.demand_ahead(3))
    };
    (0..).zip(minutes).map(answer).collect()
}

proptest! {
    // Each case runs a network thousands of times.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_is_to_come_changes_no_answer(past in minutes(), one in minutes(), other in minutes()) {
        for method in methods() {
            let [one, other] = [&one, &other].map(|future| {
                let all: Vec<Minute> = past.iter().chain(future).copied().collect();
                outlooks(method, &all)[past.len() - 1].clone()
            });
            prop_assert_eq!(one, other, "{:?}", method);
        }
    }

    #[test]
    fn quantiles_rise(past in minutes()) {
        for method in methods() {
            for (outlook, ahead) in outlooks(method, &past).iter().step_by(37) {
                for distribution in [&outlook.buckets[0].new_nodes, &ahead[0].demand] {
                    let quantile = |q: u32| distribution.quantile(f64::from(q) / 100.0);
                    prop_assert!((0..100).all(|q| quantile(q) <= quantile(q + 1)), "{:?}", method);
                }
                prop_assert!(ahead[0].mean >= 0.0, "{:?}", method);
            }
        }
    }
}

/// For two days two pods come every ten minutes, and demand rises for the minute after. Says what is expected half a minute after a tick at
/// which nothing had come, with these pods since.
fn after(method: Method, arriving: &[(ShapeId, u64)]) -> Outlook {
    let half = Resources { cpu_millis: 4_000, ..Resources::default() };
    let shape = Shape::new(half, AcceleratorKind::default());
    let mut learners = Learners::new(forecaster(method, Objective::default()));
    for minute in 0..2_880 {
        let demand_max = if minute % 10 == 6 { 4 } else { 3 };
        let mut tick =
            sample::tick(minute, vec![BucketTick { demand: 3, demand_max, ..BucketTick::default() }]);
        tick.first_seen = if minute == 0 { vec![(0, shape.clone())] } else { vec![] };
        tick.arrivals = if minute % 10 == 5 { vec![(0, 2)] } else { vec![] };
        learners.learn(tick);
    }
    let demand = Demand { present: vec![3], announced: vec![0], ..Demand::default() };
    let time = DateTime::from_timestamp(2_879 * 60 + 30, 0).unwrap();
    let now = Present { arriving, ..Present::at_tick(time, &demand) };
    let quiet = learners.forecast(&Present { arriving: &[], ..now });
    let outlook = learners.forecast(&now);
    assert_eq!(learners.forecast(&Present { arriving: &[], ..now }), quiet, "{method:?}");
    outlook
}

/// Pods that just came are followed by none, says `scenario+arrivals`, and by a rise, says `state`; a quiet minute makes others count e^-2.9 of
/// that.
#[test]
fn a_burst_tells_of_itself_before_its_tick() {
    let chance = |method, arriving: &[_]| after(method, arriving).buckets[0].new_nodes.chance_of(1);
    assert!(chance(Method::ScenarioArrivals, &[]) > 0.25);
    assert!(chance(Method::ScenarioArrivals, &[(0, 2)]) < 0.2);
    assert!(chance(Method::State, &[]) < 0.4);
    assert!(chance(Method::State, &[(0, 2)]) > 0.6);
    assert_eq!(after(Method::Scenario, &[(0, 2)]), after(Method::Scenario, &[]));
}
