//! Tests how often D stays within the headroom h. For the quantile q, every week must satisfy
//!
//! ```text
//! P(D < h) - 2 points <= q <= P(D <= h) + 2 points
//! ```

use std::path::Path;

use chrono::DateTime;
use demand::forecast::{Baseline, ForecasterConfig, Method, Present, last_needs, sample};
use demand::record::{History, Tick};
use placeholders::Objective;
use simulator::replay::{Workload, ticks};
use simulator::{NamedPolicy, SimulationSettings};
use traces::{Job, Recipe, generate};

const QUANTILES: [f64; 3] = [0.9, 0.95, 0.98];

/// One week, in one-minute ticks.
const WEEK: usize = 7 * 1_440;

/// The headroom at a tick and the D that followed, in nodes.
type Outcome = (u64, u64);

/// Returns the outcomes of the ticks on the days `judged`, per bucket.
fn outcomes(
    named: NamedPolicy,
    calibrated: bool,
    quantile: f64,
    jobs: &[Job],
    settings: &SimulationSettings,
    judged: std::ops::Range<i64>,
) -> Vec<Vec<Outcome>> {
    let catalog = settings.catalog.as_ref().unwrap().catalog().unwrap();
    let (lead, objective) = (settings.lead(), Objective::Quantile(quantile));
    let leads = vec![lead; catalog.len()];
    let config = |method| ForecasterConfig {
        catalog: catalog.clone(),
        leads,
        ..sample::config(method, objective)
    };
    let from = DateTime::UNIX_EPOCH;
    let mut forecaster = match (named, calibrated) {
        (NamedPolicy::Forecast(method, _), true) => config(method).demand_forecaster(from),
        (NamedPolicy::Forecast(method, _), false) => config(method).uncalibrated(lead, from),
        (NamedPolicy::Baseline(baseline, _), true) => {
            config(Method::default()).baseline_forecaster(baseline, from)
        }
        (NamedPolicy::Baseline(baseline, _), false) => {
            config(Method::default()).uncalibrated_baseline(baseline, lead)
        }
        _ => panic!("{named} has no quantiles"),
    };
    let first = jobs.iter().map(|job| job.submit).min().unwrap();
    let mut history = History::new(&catalog);
    let (mut held, mut outcomes) =
        (std::collections::VecDeque::new(), vec![Vec::new(); catalog.len()]);
    let mut each = |tick: &Tick, _: &_| {
        let day = (tick.time.timestamp() - first) / 86_400;
        if day >= judged.end {
            return;
        }
        history.record(tick.clone());
        if held.len() == lead.ticks() {
            let then: Vec<u64> = held.pop_front().unwrap();
            let needs = last_needs(&history, lead.ticks(), catalog.len());
            let pairs = then.into_iter().zip(&*needs).map(|(held, need)| (held, *need));
            outcomes.iter_mut().zip(pairs).for_each(|(outcomes, pair)| outcomes.push(pair));
        }
        forecaster.learn(&history);
        if day >= judged.start {
            let demand = history.shapes().demand(tick);
            let outlook = forecaster.forecast(&history, &Present::at_tick(tick.time, &demand));
            held.push_back(
                outlook.buckets.iter().map(|bucket| bucket.headroom(quantile)).collect(),
            );
        }
    };
    let workload = Workload::new(jobs, &catalog);
    ticks(&workload, &catalog, settings.scheduler, lead.tick_seconds, &mut each);
    outcomes
}

/// The largest distance of any week from the quantile, in percentage points. It is at most 0 where
/// every week is within the quantile.
fn worst_week(outcomes: &[Outcome], quantile: f64) -> f64 {
    let week = |outcomes: &[Outcome]| {
        let share = |holds: fn(&Outcome) -> bool| {
            outcomes.iter().filter(|outcome| holds(outcome)).count() as f64 / outcomes.len() as f64
        };
        (share(|(held, need)| need < held) - quantile)
            .max(quantile - share(|(held, need)| need <= held))
    };
    let weeks = outcomes.windows(WEEK.min(outcomes.len())).step_by(60);
    100.0 * weeks.map(week).fold(f64::NEG_INFINITY, f64::max)
}

fn reference() -> SimulationSettings {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../evaluation/reference.yaml");
    SimulationSettings::parse(&std::fs::read_to_string(path).unwrap(), "reference").unwrap()
}

#[track_caller]
fn check(named: &str, quantile: f64) {
    let named: NamedPolicy = named.parse().unwrap();
    let jobs = generate(&Recipe { days: 21, ..Recipe::default() });
    let outcomes = outcomes(named, true, quantile, &jobs, &reference(), 3..21);
    let worst = worst_week(&outcomes[0], quantile);
    assert!(worst <= 2.0, "{named}:{quantile}: {worst} points");
}

#[test]
fn every_week_stays_within_two_points_of_the_quantile() {
    for quantile in QUANTILES {
        check("increments", quantile);
        check("arima", quantile);
    }
    for named in ["scenario", "scenario+arrivals", "state", "seasonal", "holt-winters"] {
        check(named, 0.95);
    }
}

/// Run it with:
///
/// ```text
/// PROPHET_TRACE=FILE [PROPHET_DAYS=14..62] cargo test -p backtest --lib --release -- \
///     --ignored --nocapture coverage
/// ```
#[test]
#[ignore = "a measurement that needs a job log"]
fn the_worst_week_of_a_job_log_is_printed() {
    let path = std::env::var("PROPHET_TRACE").expect("PROPHET_TRACE must name a job log");
    let days = std::env::var("PROPHET_DAYS").unwrap_or_else(|_| "14..10000".into());
    let (from, until) = days.split_once("..").expect("PROPHET_DAYS must be FROM..UNTIL");
    let judged = from.parse().unwrap()..until.parse().unwrap();
    let jobs = traces::read(Path::new(&path), None, true).unwrap().jobs;
    let methods = Method::QUANTILES.into_iter().filter(|method| *method != Method::Ensemble);
    let baselines = Baseline::ALL.into_iter().filter(|baseline| baseline.has_quantiles());
    let methods = methods.map(|method| NamedPolicy::Forecast(method, None));
    for method in methods.chain(baselines.map(|baseline| NamedPolicy::Baseline(baseline, None))) {
        for quantile in QUANTILES {
            let worst = |calibrated| {
                let outcomes =
                    outcomes(method, calibrated, quantile, &jobs, &reference(), judged.clone());
                let held = outcomes[0].iter().map(|(held, _)| *held as f64).sum::<f64>();
                (worst_week(&outcomes[0], quantile), held / outcomes[0].len() as f64)
            };
            let ((raw, held_raw), (calibrated, held)) = (worst(false), worst(true));
            println!(
                "{method:18} {quantile}: {raw:5.1} points at {held_raw:.2} nodes, calibrated {calibrated:5.1} at {held:.2}"
            );
        }
    }
}
