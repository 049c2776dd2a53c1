//! Properties of every method: the future does not change a forecast, and quantiles do not
//! decrease.

use chrono::{DateTime, TimeDelta};
use embedder::{Demand, Resources, Room};
use placeholders::Objective;
use proptest::prelude::*;

use super::demand_ahead::Ahead;
use super::learners::Learners;
use super::method::{Baseline, Method};
use super::question::{DemandForecaster, Outlook, Present};
use super::sample;
use crate::record::{BucketTick, ShapeId, Tick};

/// A method of a policy, or a baseline.
#[derive(Clone, Copy, Debug)]
enum Tested {
    Method(Method),
    Baseline(Baseline),
}

impl From<Method> for Tested {
    fn from(method: Method) -> Self {
        Self::Method(method)
    }
}

const METHODS: [Method; 9] = [
    Method::Ensemble,
    Method::Scenario,
    Method::ScenarioArrivals,
    Method::State,
    Method::Increments,
    Method::Onnx,
    Method::Ladder,
    Method::Expression,
    Method::Scheduled,
];

/// One minute: demand, the excess of its maximum over it, free room and arrived pods.
type Minute = (u64, u64, u64, u64);

fn minutes() -> impl Strategy<Value = Vec<Minute>> {
    let busy = (0..6_u64, 0..4_u64, 0..5_u64, 0..4_u64);
    prop::collection::vec(busy, 1..40).prop_map(|some| some.into_iter().cycle().take(400).collect())
}

/// The forecaster of a method. The expression reads the past, but not the forecast of the ensemble,
/// whose properties are those of another method.
fn forecaster(tested: Tested, objective: Objective) -> Box<dyn DemandForecaster> {
    match tested {
        Tested::Method(method) => {
            forecaster_of(method, objective, "demand.percentile(90, \"10m\") + newNodes(\"5m\")")
        }
        Tested::Baseline(baseline) => sample::config(Method::default(), objective)
            .baseline_forecaster(baseline, DateTime::UNIX_EPOCH),
    }
}

fn forecaster_of(
    method: Method,
    objective: Objective,
    expression: &str,
) -> Box<dyn DemandForecaster> {
    let mut config = sample::config(method, objective);
    config.expression = expression.parse().ok();
    config.demand_forecaster(DateTime::UNIX_EPOCH)
}

/// All methods with costs as the objective, and one method of each kind with a calibrated quantile.
fn methods() -> impl Iterator<Item = (Tested, Objective)> {
    let calibrated: [Tested; 3] =
        [Method::Increments.into(), Method::State.into(), Tested::Baseline(Baseline::HoltWinters)];
    let quantile = calibrated.map(|tested| (tested, Objective::Quantile(0.8)));
    let all = METHODS.map(Tested::from).into_iter().chain(Baseline::ALL.map(Tested::Baseline));
    all.map(|tested| (tested, Objective::default())).chain(quantile)
}

/// Returns the outlook 20 s after each minute from `from` on, with pods that arrived since, and the
/// demand three ticks ahead.
fn outlooks(
    (method, objective): (Tested, Objective),
    minutes: &[Minute],
    from: usize,
) -> Vec<(Outlook, Vec<Ahead>)> {
    outlooks_of(forecaster(method, objective), minutes, from)
}

fn outlooks_of(
    forecaster: Box<dyn DemandForecaster>,
    minutes: &[Minute],
    from: usize,
) -> Vec<(Outlook, Vec<Ahead>)> {
    let shape = testkit::shape(testkit::cpus(4_000));
    let mut learners = Learners::new(forecaster, &sample::catalog());
    let forecasts = |(minute, &(demand, above, room, pods)): (usize, &Minute)| {
        let time = DateTime::from_timestamp(60 * i64::try_from(minute).unwrap(), 0).unwrap();
        let first_seen = if minute == 0 { vec![(0, shape.clone())] } else { vec![] };
        let buckets =
            vec![BucketTick { demand, demand_max: demand + above, ..BucketTick::default() }];
        learners.learn(Tick {
            time,
            buckets,
            room: vec![(0, room)],
            first_seen,
            arrivals: vec![(0, pods)],
            gangs: vec![],
            tiers: vec![],
            namespaces: vec![],
            kept: Vec::new(),
            runs: Vec::new(),
            rollout_percent: None,
        });
        let free = Resources { cpu_millis: 5_000, ..Resources::UNLIMITED };
        let rooms = vec![Room { bucket: 0, free, nodes: room }];
        let demand =
            Demand { present: vec![demand], announced: vec![0], rooms, ..Demand::default() };
        let now = time + TimeDelta::seconds(20);
        let arriving = [(0, above)];
        let now = Present { arriving: &arriving, ..Present::at_tick(now, &demand) };
        (minute >= from).then(|| (learners.forecast(&now), learners.demand_ahead(3)))
    };
    minutes.iter().enumerate().filter_map(forecasts).collect()
}

proptest! {
    // The number of cases is small because each case runs a model thousands of times.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_future_changes_no_forecast(past in minutes(), one in minutes(), other in minutes()) {
        for method in methods() {
            let [one, other] = [&one, &other].map(|future| {
                let all: Vec<Minute> = past.iter().chain(future).copied().collect();
                outlooks(method, &all, past.len() - 1)[0].clone()
            });
            prop_assert_eq!(one, other, "{:?}", method);
        }
    }

    /// Methods reuse draws, packings and forecasts while nothing that they depend on changes. A
    /// method that forecasts for the first time has nothing to reuse.
    #[test]
    fn earlier_forecasts_change_no_forecast(past in minutes()) {
        let reusing = [Method::Scenario, Method::ScenarioArrivals, Method::State].map(Tested::from);
        let reusing = reusing.into_iter().chain([Tested::Baseline(Baseline::Seasonal)]);
        for method in reusing.map(|method| (method, Objective::default())) {
            for minutes in (300..=past.len()).step_by(19).map(|len| &past[..len]) {
                let first = outlooks(method, minutes, minutes.len() - 1);
                prop_assert_eq!(&outlooks(method, minutes, 0)[minutes.len() - 1], &first[0], "{:?}", method);
            }
        }
    }

    /// An expression that is the forecast holds what the ensemble holds.
    #[cfg(feature = "kubernetes")]
    #[test]
    fn the_forecast_in_an_expression_is_that_of_the_ensemble(past in minutes(), prices in any::<bool>()) {
        let objective = if prices { Objective::default() } else { Objective::Quantile(0.8) };
        let outlooks = |method| -> Vec<Outlook> {
            let all = outlooks_of(forecaster_of(method, objective, "forecast"), &past, 0);
            all.into_iter().map(|(outlook, _)| outlook).collect()
        };
        prop_assert_eq!(outlooks(Method::Expression), outlooks(Method::Ensemble));
    }

    #[test]
    fn quantiles_do_not_decrease_with_the_level(past in minutes()) {
        for method in methods() {
            for (outlook, ahead) in outlooks(method, &past, 0).iter().step_by(37) {
                for distribution in [&outlook.buckets[0].new_nodes, &ahead[0].demand] {
                    let quantile = |q: u32| distribution.quantile(f64::from(q) / 100.0);
                    prop_assert!((0..100).all(|q| quantile(q) <= quantile(q + 1)), "{:?}", method);
                }
                prop_assert!(ahead[0].mean >= 0.0, "{:?}", method);
            }
        }
    }
}

/// Returns the outlook half a minute after a tick without arrivals, with the pods `arriving` since.
/// In the two days before, two pods arrived every ten minutes, and demand rose in the minute after.
fn after(method: Method, arriving: &[(ShapeId, u64)]) -> Outlook {
    let shape = testkit::shape(testkit::cpus(4_000));
    let mut learners =
        Learners::new(forecaster(method.into(), Objective::default()), &sample::catalog());
    for minute in 0..2_880 {
        let demand_max = if minute % 10 == 6 { 4 } else { 3 };
        let mut tick = sample::tick(
            minute,
            vec![BucketTick { demand: 3, demand_max, ..BucketTick::default() }],
        );
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

/// Pods that just arrived are followed by no further arrivals, which `scenario+arrivals` forecasts.
/// They are followed by a rise of demand, which `state` forecasts. Past windows after a quiet
/// minute then weigh only e^-2.9 as much.
#[test]
fn a_burst_changes_the_forecast_before_its_tick() {
    let chance = |method, arriving: &[_]| after(method, arriving).buckets[0].new_nodes.chance_of(1);
    assert!(chance(Method::ScenarioArrivals, &[]) > 0.25);
    assert!(chance(Method::ScenarioArrivals, &[(0, 2)]) < 0.2);
    assert!(chance(Method::State, &[]) < 0.4);
    assert!(chance(Method::State, &[(0, 2)]) > 0.6);
    assert_eq!(after(Method::Scenario, &[(0, 2)]), after(Method::Scenario, &[]));
}
