//! Runs all forecasters over all ticks, one day at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::days::DAY_SECONDS;
use chrono::DateTime;
use embedder::Catalog;
use placeholders::Prices;
use simulator::replay::Workload;
use simulator::{Progress, SimulationSettings, parallel};

use super::blended::Blended;
use super::curves::Curves;
use super::horizon::Horizon;
use super::moments::Moments;
use super::named_forecaster::{BLENDED, ENSEMBLE, Lineup, NamedForecaster, lineup};
use super::pass::{Pass, TickForecasts};
use super::plotted_days::PlottedDays;
use super::score::Score;
use super::tally::Tally;

/// The errors of all forecasters.
#[derive(Clone, Debug)]
pub struct Errors {
    /// The scores, by forecaster, then by horizon.
    pub scores: Vec<Score>,
    /// The quantile that the objective requires, by bucket in use.
    pub quantiles: Vec<f64>,
    /// The number of scored ticks.
    pub ticks: usize,
    /// The number of days that the scored ticks lie on.
    pub days: usize,
    /// By scored day, how many times each method was the carrier of the ensemble.
    pub(super) carriers: Vec<BTreeMap<&'static str, f64>>,
    /// The start of the first scored day, in Unix seconds.
    pub(super) since: i64,
    pub(super) plotted_days: PlottedDays,
    /// The faults of ONNX models, one message each.
    pub(super) faults: Vec<String>,
    /// Counts and forecasts over time, in the paper's protocol.
    pub(super) curves: Option<Curves>,
    /// The milliseconds of each forecaster at a tick, by its name. They differ from run to run.
    milliseconds: BTreeMap<String, f64>,
}

impl Errors {
    /// Returns the milliseconds in which a forecaster learned from a tick and forecast, on average.
    pub(super) fn milliseconds(&self, name: &str) -> Option<f64> {
        self.milliseconds.get(name).copied()
    }
}

/// How long the weighted average learns before the first scored tick, in seconds: 7 days.
const BLEND_SECONDS: i64 = 7 * DAY_SECONDS;

/// Runs the references and the forecasters on offered demand, and scores their forecasts within the
/// window.
pub fn forecast_errors(
    workload: &Workload,
    catalog: &Catalog,
    settings: &SimulationSettings,
    window: (i64, i64),
    all: Lineup<'_>,
    progress: &Progress<'_>,
) -> Errors {
    (progress.planned)(1);
    let moments = if all.paper.is_some() { Moments::of_paper } else { Moments::new };
    let moments = moments(workload, catalog, settings, window);
    let mut run = ErrorPass::new(&moments, catalog, settings, all);
    let a_day = usize::try_from(DAY_SECONDS / settings.tick.as_seconds()).unwrap_or(1).max(1);
    let end = moments.judged.end;
    for start in (0..end).step_by(a_day) {
        (progress.advanced)("forecasts", start as f64 / end as f64);
        run.go_on(start..end.min(start + a_day));
    }
    run.finish(settings.seed)
}

struct ErrorPass<'a> {
    moments: &'a Moments,
    prices: Prices,
    /// The scored forecasters first, then those that only the weighted average uses.
    passes: Vec<Mutex<Pass>>,
    lineup: Vec<NamedForecaster>,
    /// The weighted average, and the indices of its methods in `passes`; `None` unless the ensemble
    /// is scored.
    blended: Option<(Blended, Vec<usize>)>,
    /// By forecaster of the lineup, then by horizon.
    tallies: Vec<[Tally; Horizon::ALL.len()]>,
    carriers: Vec<BTreeMap<&'static str, f64>>,
    plotted_days: PlottedDays,
    curves: Option<Curves>,
    /// The index of the forecaster that plots show.
    shown: usize,
}

impl<'a> ErrorPass<'a> {
    fn new(
        moments: &'a Moments,
        catalog: &Catalog,
        settings: &SimulationSettings,
        all: Lineup<'_>,
    ) -> Self {
        let lineup = lineup(all);
        let ensemble = lineup.contains(&ENSEMBLE);
        let mut named_forecasters = lineup.clone();
        if ensemble {
            named_forecasters.extend(
                BLENDED.into_iter().filter(|named_forecaster| !lineup.contains(named_forecaster)),
            );
        }
        let from = DateTime::from_timestamp(moments.tick_time(moments.judged.start), 0)
            .unwrap_or_default();
        let blend_ticks = usize::try_from(BLEND_SECONDS / settings.tick.as_seconds()).unwrap_or(0);
        let pass = |named_forecaster: &NamedForecaster| {
            let early =
                if ensemble && BLENDED.contains(named_forecaster) { blend_ticks } else { 0 };
            let forecasts_from = moments.judged.start.saturating_sub(early);
            Mutex::new(Pass::new(named_forecaster.clone(), settings, catalog, from, forecasts_from))
        };
        let places = named_forecasters
            .iter()
            .enumerate()
            .filter(|(_, named_forecaster)| BLENDED.contains(named_forecaster));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        let blended = Blended::new(places.len(), moments.used.len(), settings.tick.as_seconds());
        let last =
            all.forecasters.last().map(|named_policy| NamedForecaster::Policy(*named_policy));
        let shown = if ensemble { ENSEMBLE } else { last.unwrap_or(NamedForecaster::LastValue) };
        Self {
            passes: named_forecasters.iter().map(pass).collect(),
            blended: ensemble.then_some((blended, places)),
            tallies: vec![<[Tally; Horizon::ALL.len()]>::default(); lineup.len()],
            carriers: vec![BTreeMap::new(); moments.days()],
            plotted_days: PlottedDays::choose(moments, shown.clone(), settings.tick.as_seconds()),
            shown: lineup
                .iter()
                .position(|named_forecaster| *named_forecaster == shown)
                .unwrap_or(0),
            curves: all.paper.map(|_| Curves::new(moments)),
            lineup,
            moments,
            prices: Prices::new(settings.policy.objective, catalog),
        }
    }

    fn go_on(&mut self, ticks: Range<usize>) {
        let mut forecasts: Vec<Vec<TickForecasts>> = parallel(
            &self.passes,
            |pass| lock(pass).effort(),
            |pass| lock(pass).go_on(self.moments, ticks.clone()),
        );
        self.blend(&mut forecasts);
        for (place, forecasts) in forecasts.iter().take(self.lineup.len()).enumerate() {
            for forecasts in
                forecasts.iter().filter(|forecasts| self.moments.judged.contains(&forecasts.at))
            {
                self.judge(place, forecasts);
            }
        }
    }

    /// Sets the demand forecasts of the ensemble to the weighted averages of the methods.
    fn blend(&mut self, forecasts: &mut [Vec<TickForecasts>]) {
        let Some((blended, places)) = &mut self.blended else { return };
        let Some(ensemble) =
            self.lineup.iter().position(|named_forecaster| *named_forecaster == ENSEMBLE)
        else {
            return;
        };
        let ticks = places.first().map_or(0, |place| forecasts[*place].len());
        for nth in 0..ticks {
            let inputs: Vec<&TickForecasts> =
                places.iter().map(|place| &forecasts[*place][nth]).collect();
            let at = inputs[0].at;
            let answers = blended.say(self.moments, &inputs);
            let own = forecasts[ensemble].iter_mut().find(|own| own.at == at);
            if let Some(own) = own {
                own.answers.iter_mut().zip(answers).for_each(|(own, answers)| *own = answers);
            }
        }
    }

    fn judge(&mut self, place: usize, forecasts: &TickForecasts) {
        let TickForecasts { at, answers, carriers } = forecasts;
        let (moments, day) = (self.moments, self.moments.day(*at));
        for ((horizon, answers), tally) in
            Horizon::ALL.iter().zip(answers).zip(&mut self.tallies[place])
        {
            for (answer, &bucket) in answers.iter().zip(&moments.used) {
                tally.add(
                    day,
                    answer,
                    moments.actual(*at, *horizon, bucket),
                    moments.scale(bucket),
                );
            }
        }
        for carrier in carriers {
            *self.carriers[day].entry(carrier).or_default() += 1.0;
        }
        if let Some(curves) = &mut self.curves {
            curves.note(moments, &self.lineup[place].to_string(), *at, answers);
        }
        if place == self.shown {
            self.plotted_days.note(moments, *at, answers);
        }
    }

    fn finish(self, seed: u64) -> Errors {
        let Self {
            moments, prices, passes, lineup, tallies, carriers, plotted_days, curves, ..
        } = self;
        let last_value = lineup
            .iter()
            .position(|named_forecaster| *named_forecaster == NamedForecaster::LastValue)
            .unwrap_or(0);
        let mut scores = Vec::new();
        for (named_forecaster, tallies_of) in lineup.iter().zip(&tallies) {
            let judged = tallies_of.iter().zip(&tallies[last_value]).zip(Horizon::ALL);
            for ((tally, reference), horizon) in
                judged.filter(|((tally, _), _)| !tally.days.is_empty())
            {
                scores.push(Score::of(
                    score_name(named_forecaster, horizon),
                    horizon,
                    tally,
                    reference,
                    seed,
                ));
            }
        }
        Errors {
            scores,
            quantiles: moments.used.iter().map(|id| prices.quantile(*id)).collect(),
            ticks: moments.judged.len(),
            days: moments.days(),
            carriers,
            since: moments.tick_time(moments.judged.start),
            plotted_days,
            curves,
            faults: passes.iter().filter_map(|pass| lock(pass).fault()).collect(),
            milliseconds: passes.iter().map(|pass| named_time(&lock(pass))).collect(),
        }
    }
}

fn named_time(pass: &Pass) -> (String, f64) {
    (pass.named_forecaster.to_string(), pass.milliseconds())
}

/// Returns the name of a row. With the ensemble, demand ahead is a blend of methods, which no
/// decision uses.
fn score_name(named_forecaster: &NamedForecaster, horizon: Horizon) -> String {
    if *named_forecaster == ENSEMBLE && horizon != Horizon::Lead {
        return "blend".into();
    }
    named_forecaster.to_string()
}

fn lock(pass: &Mutex<Pass>) -> MutexGuard<'_, Pass> {
    pass.lock().unwrap_or_else(PoisonError::into_inner)
}
