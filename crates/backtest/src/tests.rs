//! Tests over all forecasters together.

use base::span::Span;
use chrono::DateTime;
use embedder::{Bucket, Catalog, Resources};
use simulator::replay::{Workload, ticks};
use simulator::{NamedPolicy, Progress, SimulationSettings};
use traces::{Job, Recipe, generate};

use super::blended::Blended;
use super::errors::forecast_errors;
use super::horizon::Horizon;
use super::moments::Moments;
use super::named_forecaster::{BLENDED, Lineup, NamedForecaster, default_forecasters, lineup};
use super::pass::{Pass, TickForecasts};
use super::score::Score;

const DAY: i64 = 86_400;

fn catalog() -> Catalog {
    let eight = testkit::bucket("eight", 64_000, 0.0);
    let allocatable = Resources { accelerators: 8, ..eight.allocatable };
    testkit::catalog_of([Bucket { allocatable, ..eight }])
}

fn settings() -> SimulationSettings {
    SimulationSettings { tick: Span::seconds(300), ..SimulationSettings::default() }
}

fn jobs() -> Vec<Job> {
    generate(&Recipe { days: 5, jobs_per_day: 400.0, ..Recipe::default() })
}

fn moments(jobs: &[Job], window: (i64, i64)) -> Moments {
    let catalog = catalog();
    Moments::new(&Workload::new(jobs, &catalog), &catalog, &settings(), window)
}

/// Returns the forecasts of all forecasters except the oracle at a tick. The demand forecasts of
/// the ensemble are those of the weighted average.
fn said_at(moments: &Moments, at: usize) -> Vec<TickForecasts> {
    let from = DateTime::from_timestamp(moments.tick_time(moments.judged.start), 0).unwrap();
    let named_forecasters =
        lineup(Lineup { forecasters: &default_forecasters(), networks: &[], paper: None })
            .into_iter()
            .filter(|e| *e != NamedForecaster::Policy(NamedPolicy::Oracle));
    let named_forecasters: Vec<NamedForecaster> = named_forecasters.collect();
    let mut blended = Blended::new(BLENDED.len(), moments.used.len(), 300);
    let mut passes: Vec<Pass> = named_forecasters
        .iter()
        .map(|e| Pass::new(e.clone(), &settings(), &catalog(), from, moments.judged.start))
        .collect();
    for pass in &mut passes {
        pass.go_on(moments, 0..moments.judged.start);
    }
    let mut last = Vec::new();
    for tick in moments.judged.start..=at {
        last = passes.iter_mut().flat_map(|pass| pass.go_on(moments, tick..tick + 1)).collect();
        let inputs: Vec<&TickForecasts> = named_forecasters
            .iter()
            .zip(&last)
            .filter(|(e, _)| BLENDED.contains(e))
            .map(|(_, forecasts)| forecasts)
            .collect();
        let blend = blended.say(moments, &inputs);
        let own =
            named_forecasters.iter().position(|e| *e == super::named_forecaster::ENSEMBLE).unwrap();
        let own: &mut TickForecasts = &mut last[own];
        own.answers.iter_mut().zip(blend).for_each(|(own, answers)| *own = answers);
    }
    last
}

/// Two logs differ only after a certain tick. The forecasts at that tick must be equal.
#[test]
fn forecasts_depend_only_on_the_past() {
    let jobs = jobs();
    let first = jobs[0].submit;
    let window = (first + 3 * DAY, first + 4 * DAY);
    let one = moments(&jobs, window);
    let at = one.judged.start + 100;
    let after = one.tick_time(at);
    let busy = |job: &Job| {
        let submit = after + 1 + (job.submit - after) / 3;
        Job { submit, runtime: 5 * job.runtime, ..job.clone() }
    };
    let busier = jobs.iter().map(|job| if job.submit > after { busy(job) } else { job.clone() });
    let busier: Vec<Job> = busier.chain(jobs.last().cloned()).collect();
    let other = moments(&busier, window);
    assert_ne!(
        one.actual(at, Horizon::Ticks(6), 0),
        other.actual(at, Horizon::Ticks(6), 0),
        "the futures differ"
    );
    for (one, other) in said_at(&one, at).iter().zip(said_at(&other, at)) {
        assert_eq!(one.answers, other.answers);
    }
}

fn scores() -> Vec<Score> {
    let (jobs, catalog) = (jobs(), catalog());
    let (workload, first) = (Workload::new(&jobs, &catalog), jobs[0].submit);
    let progress = Progress { planned: &|_| (), advanced: &|_, _| () };
    let window = (first + 3 * DAY, first + 4 * DAY);
    let errors = forecast_errors(
        &workload,
        &catalog,
        &settings(),
        window,
        Lineup { forecasters: &default_forecasters(), networks: &[], paper: None },
        &progress,
    );
    assert_eq!((errors.ticks, errors.days), (288, 1));
    errors.scores
}

#[test]
fn the_references_have_their_known_scores() {
    let scores = scores();
    let of = |name: &str| scores.iter().filter(|score| score.name == name).collect::<Vec<_>>();
    assert!(
        of("oracle").len() == 5 && of("oracle").iter().all(|s| s.mse == 0.0 && s.pinball == 0.0)
    );
    assert!(of("zero").len() == 5 && of("zero").iter().all(|s| s.pmse == 0.0 && s.mse > 0.0));
    assert!(
        of("last-value").iter().all(|s| s.mse_ratio.is_some_and(|r| (r.ratio - 1.0).abs() < 1e-12))
    );
    assert!(of("static-max").iter().all(|s| s.coverage > 0.9));
    assert_eq!((of("blend").len(), of("ensemble").len()), (4, 1));
    assert_eq!(of("ladder").iter().map(|s| s.horizon).collect::<Vec<_>>(), [Horizon::Lead]);
}

/// The expected squared error is computed here from the ticks alone.
#[test]
fn the_error_of_the_last_value_is_the_change_of_demand() {
    let (jobs, catalog) = (jobs(), catalog());
    let mut demand = Vec::new();
    let workload = Workload::new(&jobs, &catalog);
    ticks(&workload, &catalog, settings().scheduler, 300, &mut |tick, _| {
        demand.push((tick.time.timestamp(), tick.buckets[0].demand as f64));
    });
    let from = jobs[0].submit + 3 * DAY;
    let most =
        demand.iter().filter(|(time, _)| *time < from).map(|(_, nodes)| *nodes).fold(0.0, f64::max);
    let start = demand.iter().position(|(time, _)| *time >= from).unwrap();
    let scores = scores();
    for ticks in [1, 2, 3, 6] {
        let square = |at: usize| ((demand[at].1 - demand[at + ticks].1) / most).powi(2);
        let mse = (start..start + 288).map(square).sum::<f64>() / 288.0;
        let score = scores
            .iter()
            .find(|score| score.name == "last-value" && score.horizon == Horizon::Ticks(ticks))
            .unwrap();
        assert!((score.mse - mse).abs() < 1e-12, "{ticks}: {}, expected {mse}", score.mse);
    }
}
