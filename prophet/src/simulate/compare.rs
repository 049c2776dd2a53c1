//! All policies and replays, side by side on the same submissions, and the best constant in hindsight.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use embedder::Catalog;

use super::bootstrap::Ratio;
use super::contender::Contender;
use super::figures::{Figures, HiddenOverDays, costs_by_day, hidden_over_days, launches_by_day};
use super::log::RunLog;
use super::offered::{Series, offered};
use super::settings::Settings;
use super::workload::Workload;
use super::world::{World, simulate};
use crate::forecast::Method;

/// What a comparison came to.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// In the order of the settings, `reactive` first.
    pub policies: Vec<PolicyResult>,
    /// [`SWEPT`] at quantiles from low to high, where it was asked for.
    pub frontier: Vec<(f64, Figures)>,
    /// Constants, where the frontier was asked for.
    pub constants: Vec<(u64, Figures)>,
    /// The constant that `best-constant` stands for, where one was found.
    pub best_constant: Option<u64>,
}

/// A policy in a comparison.
#[derive(Clone, Debug)]
pub struct PolicyResult {
    /// Which.
    pub contender: Contender,
    /// Means over replays.
    pub figures: Figures,
    /// Their standard errors, where there is more than one replay.
    pub stderr: Option<Figures>,
    /// What waiting and idling cost, over what they cost with [`Contender::DEFAULT`], where that is among them; resampled by day.
    pub cost_ratio: Option<Ratio>,
    /// Between which shares of launches are hidden over any two weeks of all replays, where more are counted.
    pub hidden_over_14_days: Option<HiddenOverDays>,
    /// What happened, a log for each replay, where it was kept.
    pub logs: Vec<RunLog>,
}

/// A comparison was stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before its end")]
pub struct Stopped;

/// Whom to tell how far a comparison has come, and who may stop it.
pub struct Progress<'a> {
    /// Called with the runs that were added to the plan.
    pub planned: &'a (dyn Fn(usize) + Sync),
    /// Called with the name of each run that is over.
    pub done: &'a (dyn Fn(&str) + Sync),
    /// Ends the comparison when set.
    pub stop: &'a AtomicBool,
}

/// The quantiles of the frontier.
const FRONTIER: [f64; 9] = [0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995];
/// The method of the frontier: of the ensemble no quantile can be asked.
pub(crate) const SWEPT: Method = Method::ScenarioArrivals;
/// The constants beside it.
const CONSTANTS: [u64; 5] = [1, 2, 4, 8, 16];

/// A policy's replays.
#[derive(Default)]
struct Runs {
    figures: Vec<Figures>,
    /// What waiting and idling cost, by day: means over replays.
    costs: Vec<f64>,
    /// Launches, and those hidden, by day: sums over replays.
    launches: Vec<[u64; 2]>,
    /// Where they are kept.
    logs: Vec<RunLog>,
}

struct Arena<'a> {
    settings: &'a Settings,
    catalog: &'a Catalog,
    window: (i64, i64),
    /// For each replay, the jobs and the demand that they offer.
    replays: Vec<(Workload, Series)>,
    progress: &'a Progress<'a>,
}

/// Runs all policies of the settings. With `keep`, logs and a frontier are kept for a report.
///
/// # Errors
/// It was stopped.
pub fn compare(
    workload: &Workload,
    catalog: &Catalog,
    settings: &Settings,
    window: (i64, i64),
    keep: bool,
    progress: &Progress<'_>,
) -> Result<Comparison, Stopped> {
    let jitter = if settings.replays > 1 { settings.jitter.as_seconds() } else { 0 };
    let replays = parallel(&(0..settings.replays).collect::<Vec<_>>(), |replay| {
        let jittered = workload.jittered(jitter, settings.seed.wrapping_add(u64::from(*replay) << 32));
        let series = offered(&jittered, catalog, settings.scheduler);
        (jittered, series)
    });
    let arena = Arena { settings, catalog, window, replays, progress };
    let mut contenders = vec![Contender::Reactive];
    for contender in &settings.policies {
        if !contenders.contains(contender) {
            contenders.push(*contender);
        }
    }
    let searched = contenders.contains(&Contender::BestConstant);
    let mut run: Vec<Contender> =
        contenders.iter().copied().filter(|c| *c != Contender::BestConstant).collect();
    if searched && !run.contains(&Contender::DEFAULT) {
        run.push(Contender::DEFAULT);
    }
    let mut policies = arena.run(&run, keep)?;
    let wait_to_idle = settings.policy.objective.wait_to_idle();
    let reactive: Vec<Figures> = policies.first().map(|runs| runs.figures.clone()).unwrap_or_default();
    let default = run.iter().position(|c| *c == Contender::DEFAULT);
    let costs = default.filter(|_| contenders.contains(&Contender::DEFAULT));
    let costs = costs.map(|default| policies[default].costs.clone());
    let mut best = None;
    if let Some(default) = default.filter(|_| searched) {
        best = arena.best_constant(pending(&policies[default].figures), pending(&reactive))?;
        if let Some(n) = best {
            policies.extend(arena.run(&[Contender::Constant(n)], keep)?);
            run.push(Contender::BestConstant);
        }
    }
    let result = |contender: &Contender| {
        let at = run.iter().position(|c| c == contender)?;
        // Logs are moved: of a long run they are what fills memory.
        let Runs { figures, costs: ours, launches, logs } = std::mem::take(&mut policies[at]);
        let (figures, stderr) = summary(&figures, &reactive, wait_to_idle);
        let costs = costs.as_ref().filter(|_| *contender != Contender::DEFAULT);
        let cost_ratio = costs.and_then(|costs| Ratio::of(&ours, costs, settings.seed));
        let hidden_over_14_days = hidden_over_days(&launches);
        Some(PolicyResult { contender: *contender, figures, stderr, cost_ratio, hidden_over_14_days, logs })
    };
    let results = contenders.iter().filter_map(result).collect();
    let mut comparison =
        Comparison { policies: results, frontier: vec![], constants: vec![], best_constant: best };
    if keep {
        let sweep: Vec<Contender> = FRONTIER.iter().map(|&q| Contender::Forecast(SWEPT, Some(q))).collect();
        let swept = arena.run(&sweep, false)?;
        comparison.frontier = FRONTIER
            .into_iter()
            .zip(swept.iter().map(|runs| summary(&runs.figures, &reactive, wait_to_idle).0))
            .collect();
        let constants: Vec<Contender> = CONSTANTS.iter().map(|&n| Contender::Constant(n)).collect();
        let held = arena.run(&constants, false)?;
        comparison.constants = CONSTANTS
            .into_iter()
            .zip(held.iter().map(|runs| summary(&runs.figures, &reactive, wait_to_idle).0))
            .collect();
    }
    Ok(comparison)
}

fn summary(runs: &[Figures], reactive: &[Figures], wait_to_idle: f64) -> (Figures, Option<Figures>) {
    let paired: Vec<Figures> =
        runs.iter().zip(reactive).map(|(run, reactive)| run.beyond(reactive, wait_to_idle)).collect();
    Figures::summary(&paired)
}

fn pending(runs: &[Figures]) -> f64 {
    runs.iter().map(|figures| figures.pending_minutes.sum).sum::<f64>() / runs.len() as f64
}

impl Arena<'_> {
    /// Runs each policy in each replay, on all cores.
    fn run(&self, contenders: &[Contender], keep: bool) -> Result<Vec<Runs>, Stopped> {
        let tasks: Vec<(Contender, usize)> = contenders
            .iter()
            .flat_map(|&contender| (0..self.replays.len()).map(move |replay| (contender, replay)))
            .collect();
        (self.progress.planned)(tasks.len());
        let scan = self.settings.scan.as_seconds();
        let wait_to_idle = self.settings.policy.objective.wait_to_idle();
        let runs = parallel(&tasks, |&(contender, replay)| {
            let (workload, series) = &self.replays[replay];
            let world = World {
                workload,
                catalog: self.catalog,
                settings: self.settings,
                window: self.window,
                replay: u32::try_from(replay).unwrap_or(0),
                keep_ticks: keep,
            };
            let log = simulate(world, contender, series, &|| self.progress.stop.load(Ordering::Relaxed));
            (self.progress.done)(&contender.to_string());
            let costs = costs_by_day(&log, wait_to_idle);
            (Figures::of(&log, self.catalog, scan), costs, launches_by_day(&log), keep.then_some(log))
        });
        if self.progress.stop.load(Ordering::Relaxed) {
            return Err(Stopped);
        }
        let mut runs = runs.into_iter();
        let share = 1.0 / self.replays.len() as f64;
        let policies = contenders.iter().map(|_| {
            let mut of_policy = Runs::default();
            for (figures, costs, launches, log) in runs.by_ref().take(self.replays.len()) {
                of_policy.figures.push(figures);
                of_policy.costs.resize(costs.len(), 0.0);
                of_policy.costs.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += share * cost);
                of_policy.launches.resize(launches.len(), [0, 0]);
                let days = of_policy.launches.iter_mut().zip(launches);
                days.for_each(|(sum, day)| *sum = [sum[0] + day[0], sum[1] + day[1]]);
                of_policy.logs.extend(log);
            }
            of_policy
        });
        Ok(policies.collect())
    }

    /// The smallest constant whose mean pending minutes are at most `target`: doubled until it is enough, then halved
    /// towards. `None` where no constant is enough.
    fn best_constant(&self, target: f64, reactive: f64) -> Result<Option<u64>, Stopped> {
        let enough = |n: u64| {
            let runs = self.run(&[Contender::Constant(n)], false)?;
            Ok(runs.first().is_some_and(|runs| pending(&runs.figures) <= target))
        };
        if reactive <= target {
            return Ok(Some(0));
        }
        let (mut low, mut high) = (0, 1);
        while !enough(high)? {
            if high >= Contender::CONSTANT_MAX {
                return Ok(None);
            }
            (low, high) = (high, 2 * high);
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if enough(middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(Some(high))
    }
}

/// Runs tasks on all cores; results in the order of the tasks.
pub(crate) fn parallel<T: Sync, R: Send>(tasks: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(tasks.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(tasks.len()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, task)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, tasks.get(at)?)))
                {
                    let result = run(task);
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
