//! Whether a trained model may replace the model in use: the forecasts and the decisions of both
//! over the same days, and those of the ensemble without a model.
//!
//! The models forecast D, the new nodes needed within the lead time, because decisions are based on
//! it. A tick at which a model has no forecast is scored as a forecast of zero nodes.

use std::fmt;
use std::sync::Mutex;

use base::days::DAY_SECONDS;
use chrono::DateTime;
use demand::forecast::DemandForecaster;
use demand::forecast::onnx::{ModelSource, Onnx};
use embedder::Catalog;
use serde::Serialize;
use simulator::replay::Workload;
use simulator::{
    NamedPolicy, Progress, Ratio, SimulationSettings, causal_forecaster, costs_of, parallel,
};

use super::answer::JudgedForecast;
use super::horizon::Horizon;
use super::moments::Moments;
use super::named_forecaster::{ENSEMBLE, NamedForecaster, NamedModel};
use super::pass::{Pass, TickForecasts};
use super::tally::Tally;

/// The models that are compared.
#[derive(Clone, Debug)]
pub struct Models {
    /// The path of the model that may replace the model in use.
    pub candidate: String,
    /// The path of the model in use; `None` for the shipped model.
    pub current: Option<String>,
}

/// The comparison of a candidate with the model in use, and with no model.
#[derive(Clone, Debug, Serialize)]
pub struct Acceptance {
    /// The number of scored ticks.
    pub ticks: usize,
    /// The number of days that the scored ticks lie on.
    pub days: usize,
    /// The comparisons. The candidate is accepted if none of them finds it worse.
    pub checks: Vec<Check>,
    /// Why the candidate had no forecast at any tick; `None` if it had one.
    pub fault: Option<String>,
}

/// A comparison of the candidate with a reference by one measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What is measured.
    pub measure: Measure,
    /// What the candidate is compared with.
    pub reference: Reference,
    /// The measure with the candidate.
    pub candidate_loss: f64,
    /// The measure with the reference.
    pub reference_loss: f64,
    /// The loss with the candidate, divided by that with the reference. `None` if it is not finite.
    pub ratio: Option<Ratio>,
    /// The largest ratio at which the candidate is not worse.
    pub limit: f64,
    /// Whether the candidate is worse than the reference.
    pub worse: bool,
}

/// What is measured. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The mean pinball loss of the model's own forecasts of D, in nodes.
    ModelPinball,
    /// The mean pinball loss of the ensemble's forecasts of D, in nodes.
    EnsemblePinball,
    /// The cost of waiting, idling and launching with the ensemble in the simulator, in pending
    /// pod-hours.
    EnsembleCost,
}

/// What a candidate is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// The model in use.
    Current,
    /// The ensemble without a model.
    NoModel,
}

impl Measure {
    /// The largest ratio to a reference at which a candidate is not worse. Forecasts and costs of
    /// equally good models differ by a few percent between trainings. The cost alone does not show
    /// a bad model, because the ensemble follows other experts then.
    const fn limit(self) -> f64 {
        match self {
            Self::ModelPinball | Self::EnsemblePinball => 1.10,
            Self::EnsembleCost => 1.05,
        }
    }
}

/// The largest ratio that counts as equal, however narrow its interval is. A model that was trained
/// for a few more steps differs by less, in either direction.
const EQUAL: f64 = 1.01;

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ModelPinball => "pinball loss of the model, nodes",
            Self::EnsemblePinball => "pinball loss of the ensemble, nodes",
            Self::EnsembleCost => "cost with the ensemble, pod-hours",
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "the model in use",
            Self::NoModel => "no model",
        })
    }
}

impl Check {
    /// Compares losses by day. `points` is the number of losses in each sum, for means.
    fn of(
        (measure, reference): (Measure, Reference),
        candidate: &[f64],
        of_reference: &[f64],
        points: f64,
        seed: u64,
    ) -> Self {
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / points.max(1.0);
        let (candidate_loss, reference_loss) = (mean(candidate), mean(of_reference));
        let ratio = Ratio::of(candidate, of_reference, seed);
        let limit = measure.limit();
        let worse = match ratio {
            // Both are zero, or only the reference is.
            None => candidate_loss > reference_loss,
            Some(Ratio { ratio, interval, .. }) => {
                ratio > limit || interval.is_some_and(|(low, _)| low > EQUAL)
            }
        };
        Self { measure, reference, candidate_loss, reference_loss, ratio, limit, worse }
    }
}

impl Acceptance {
    /// Whether the candidate may replace the model in use.
    pub fn accepted(&self) -> bool {
        self.fault.is_none() && self.checks.iter().all(|check| !check.worse)
    }
}

/// Compares a candidate with the model in use and with the ensemble without a model, on the jobs
/// within the window.
pub fn accept(
    workload: &Workload,
    catalog: &Catalog,
    settings: &SimulationSettings,
    window: (i64, i64),
    models: &Models,
    progress: &Progress<'_>,
) -> Acceptance {
    let with = |model: Option<&String>, model_in_use| SimulationSettings {
        model: model.cloned(),
        model_in_use,
        ..settings.clone()
    };
    let variants = [
        ("candidate", with(Some(&models.candidate), None)),
        ("current", with(models.current.as_ref(), None)),
        ("no model", with(None, Some(ModelSource::None))),
    ];
    let forecasts = score(workload, catalog, &variants, window, progress);
    let costs = costs_of(NamedPolicy::DEFAULT, workload, catalog, &variants, window, progress);
    let [candidate, current, no_model] =
        [0, 1, 2].map(|at| costs.get(at).map_or(&[] as &[f64], Vec::as_slice));
    let Forecasts { models: [own, own_current], ensembles, points, ticks, days, fault } = forecasts;
    let [with_candidate, with_current, without] = &ensembles;
    let compared = [
        (Measure::ModelPinball, Reference::Current, own.as_slice(), own_current.as_slice(), points),
        (Measure::EnsemblePinball, Reference::Current, with_candidate, with_current, points),
        (Measure::EnsemblePinball, Reference::NoModel, with_candidate, without, points),
        (Measure::EnsembleCost, Reference::Current, candidate, current, 1.0),
        (Measure::EnsembleCost, Reference::NoModel, candidate, no_model, 1.0),
    ];
    let checks = compared.map(|(measure, reference, ours, theirs, points)| {
        Check::of((measure, reference), ours, theirs, points, settings.seed)
    });
    let mut checks = Vec::from(checks);
    excuse(&mut checks);
    Acceptance { ticks, days, checks, fault }
}

/// Ignores a larger pinball loss of the ensemble where its cost is lower than that of the same
/// reference, by its interval. The ensemble chooses experts by their cost: a better model may move
/// it to an expert that holds more nodes, whose quantiles have a larger loss.
fn excuse(checks: &mut [Check]) {
    let is_lower = |check: &Check| {
        let interval = check.ratio.and_then(|ratio| ratio.interval);
        check.measure == Measure::EnsembleCost && interval.is_some_and(|(_, high)| high < 1.0)
    };
    let cheaper: Vec<Reference> =
        checks.iter().filter(|check| is_lower(check)).map(|check| check.reference).collect();
    for check in checks {
        if check.measure == Measure::EnsemblePinball && cheaper.contains(&check.reference) {
            check.worse = false;
        }
    }
}

/// The pinball losses of the forecasts of D, by day.
struct Forecasts {
    /// Of the candidate and of the model in use.
    models: [Vec<f64>; 2],
    /// Of the ensemble with the candidate, with the model in use, and without a model.
    ensembles: [Vec<f64>; 3],
    /// The number of scored forecasts.
    points: f64,
    ticks: usize,
    days: usize,
    fault: Option<String>,
}

fn score(
    workload: &Workload,
    catalog: &Catalog,
    variants: &[(&str, SimulationSettings); 3],
    window: (i64, i64),
    progress: &Progress<'_>,
) -> Forecasts {
    (progress.planned)(1);
    let settings = &variants[0].1;
    let moments = Moments::new(workload, catalog, settings, window);
    let start = moments.judged.start;
    let from = DateTime::from_timestamp(moments.tick_time(start), 0).unwrap_or_default();
    let ensemble = |(_, settings): &(&str, SimulationSettings)| {
        let policy = NamedPolicy::DEFAULT;
        let forecaster = causal_forecaster(policy, settings, catalog, from);
        Pass::with(ENSEMBLE, forecaster, settings, catalog, start)
    };
    let model = |(name, settings): &(&str, SimulationSettings)| {
        let source = settings.model_source();
        let model = Onnx::patient(source, catalog, settings.lead()).verbatim();
        let named = NamedModel { name: (*name).into(), file: String::new() };
        let forecaster: Box<dyn DemandForecaster> = Box::new(model);
        Pass::with(NamedForecaster::Network(named), Some(forecaster), settings, catalog, start)
    };
    let models = variants.iter().take(2).map(model);
    let passes: Vec<Mutex<Pass>> =
        models.chain(variants.iter().map(ensemble)).map(Mutex::new).collect();
    let mut tallies: [Tally; 5] = <[Tally; 5]>::default();
    let mut has_forecast = false;
    let a_day = usize::try_from(DAY_SECONDS / settings.tick.as_seconds()).unwrap_or(1).max(1);
    let end = moments.judged.end;
    for first in (0..end).step_by(a_day) {
        (progress.advanced)("forecasts", first as f64 / end as f64);
        let ticks = first..end.min(first + a_day);
        let of_day: Vec<Vec<TickForecasts>> = parallel(
            &passes,
            |pass| lock(pass).effort(),
            |pass| lock(pass).go_on(&moments, ticks.clone()),
        );
        has_forecast |= of_day[0].iter().any(|forecasts| !of_lead(forecasts).is_empty());
        for (tally, of_day) in tallies.iter_mut().zip(&of_day) {
            for forecasts in of_day {
                add(tally, &moments, forecasts);
            }
        }
    }
    (progress.advanced)("forecasts", 1.0);
    let fault = (!has_forecast).then(|| {
        lock(&passes[0]).fault().unwrap_or_else(|| "it has no forecast of any bucket".into())
    });
    let points = tallies[0].total().points;
    let [own, current, with_candidate, with_current, without] =
        tallies.map(|tally| tally.days.iter().map(|day| day.pinball).collect());
    Forecasts {
        models: [own, current],
        ensembles: [with_candidate, with_current, without],
        points,
        ticks: moments.judged.len(),
        days: moments.days(),
        fault,
    }
}

/// The forecasts of D, by bucket in use; empty without a forecast.
fn of_lead(forecasts: &TickForecasts) -> &[JudgedForecast] {
    let place = Horizon::ALL.iter().position(|horizon| *horizon == Horizon::Lead);
    place.map_or(&[], |place| forecasts.answers[place].as_slice())
}

/// Adds the losses of the forecasts of D at a tick.
fn add(tally: &mut Tally, moments: &Moments, forecasts: &TickForecasts) {
    let (at, answers) = (forecasts.at, of_lead(forecasts));
    let nothing = JudgedForecast::certain(0);
    for (place, &bucket) in moments.used.iter().enumerate() {
        let answer = answers.get(place).unwrap_or(&nothing);
        let actual = moments.actual(at, Horizon::Lead, bucket);
        tally.add(moments.day(at), answer, actual, moments.scale(bucket));
    }
}

fn lock(pass: &Mutex<Pass>) -> std::sync::MutexGuard<'_, Pass> {
    pass.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(measure: Measure, candidate: &[f64], reference: &[f64], worse: bool) {
        let check = Check::of((measure, Reference::Current), candidate, reference, 1.0, 1);
        assert_eq!(check.worse, worse, "{check:?}");
    }

    /// Losses of twelve days, of which every other one is `factor` times as large.
    fn days(factor: f64) -> Vec<f64> {
        (0..12).map(|day| if day % 2 == 0 { factor } else { 1.0 }).collect()
    }

    #[test]
    fn a_candidate_is_worse_above_the_limit_and_where_the_interval_lies_above_one() {
        let even = vec![1.0; 12];
        check(Measure::ModelPinball, &even, &even, false);
        check(Measure::ModelPinball, &[0.5; 12], &even, false);
        // 4 % more on every day is no chance.
        check(Measure::EnsembleCost, &[1.04; 12], &even, true);
        // On average 5 % more, but less on half of the days.
        let mixed: Vec<f64> = (0..12).map(|day| if day % 2 == 0 { 1.5 } else { 0.6 }).collect();
        check(Measure::ModelPinball, &mixed, &even, false);
        check(Measure::ModelPinball, &days(1.3), &even, true);
    }

    #[test]
    fn a_lower_cost_excuses_the_pinball_loss_of_the_ensemble_only() {
        let even = vec![1.0; 12];
        let of = |measure, reference, loss: f64| {
            Check::of((measure, reference), &[loss; 12], &even, 1.0, 1)
        };
        let worse = |cost: f64| {
            let mut checks = [
                of(Measure::ModelPinball, Reference::Current, 1.2),
                of(Measure::EnsemblePinball, Reference::Current, 1.2),
                of(Measure::EnsemblePinball, Reference::NoModel, 1.2),
                of(Measure::EnsembleCost, Reference::Current, cost),
                of(Measure::EnsembleCost, Reference::NoModel, 1.0),
            ];
            excuse(&mut checks);
            checks.map(|check| check.worse)
        };
        assert_eq!(worse(1.0), [true, true, true, false, false]);
        assert_eq!(worse(0.9), [true, false, true, false, false]);
    }

    #[test]
    fn a_reference_without_loss_is_met_only_without_loss() {
        check(Measure::EnsembleCost, &[0.0; 12], &[0.0; 12], false);
        check(Measure::EnsembleCost, &[0.1; 12], &[0.0; 12], true);
    }
}
