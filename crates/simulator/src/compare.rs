//! Runs all policies in all replays, on the same submissions, and searches the best constant.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use demand::forecast::Method;
use demand::forecast::onnx::in_engine_thread;
use embedder::Catalog;
use placeholders::Prices;

use super::bootstrap::Ratio;
use super::figures::{
    Figures, HiddenOverDays, PodCounts, Pricing, costs_by_day, hidden_over_days, pods_by_day,
};
use super::input::{SimulationInput, first_decision, replayed};
use super::log::RunLog;
use super::named_policy::NamedPolicy;
use super::settings::SimulationSettings;
use super::spot::Interruptions;
use super::tiers::TierFigures;
use super::warm_up::{WarmUp, run, share_between};
use crate::replay::Workload;

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The window `[from, until)` in which jobs count, in seconds of the log.
    pub window: (i64, i64),
    /// The policies in the order of the settings, `reactive` first.
    pub policies: Vec<PolicyResult>,
    /// The method `SWEPT` at the quantiles of `FRONTIER`, ascending; empty unless `keep` was set.
    pub frontier: Vec<(f64, Figures)>,
    /// The policies `constant:N` for the N of `CONSTANTS`, ascending; empty unless `keep` was set.
    pub constants: Vec<(u64, Figures)>,
    /// The number of placeholders that `best-constant` holds; `None` when the search found none.
    pub best_constant: Option<u64>,
    /// The same jobs without spot instances, and with spot instances that are never interrupted.
    /// Empty if no job uses spot instances.
    pub spot: Vec<SpotCase>,
}

/// A policy in a comparison of spot instances and instances on demand.
#[derive(Clone, Debug)]
pub struct SpotCase {
    /// The policy that decided in the simulated runs.
    pub named_policy: NamedPolicy,
    /// Whether spot instances were used, and whether they were interrupted.
    pub instances: SpotInstances,
    /// The means of the figures over replays, without those beyond `reactive`.
    pub figures: Figures,
}

/// The spot instances of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpotInstances {
    /// All jobs run on demand.
    None,
    /// Spot instances are never interrupted.
    Uninterrupted,
    /// Spot instances are interrupted as the settings have it.
    AsSet,
}

/// A policy in a comparison.
#[derive(Clone, Debug)]
pub struct PolicyResult {
    /// The policy that decided in the simulated runs.
    pub named_policy: NamedPolicy,
    /// The means of the figures over replays.
    pub figures: Figures,
    /// The standard errors of the means; `None` for a single replay.
    pub stderr: Option<Figures>,
    /// The means of the figures of each tier. Empty if the settings have no tiers.
    pub tiers: Vec<TierFigures>,
    /// The cost of waiting, idling and launching, divided by that cost under
    /// [`NamedPolicy::DEFAULT`], with an interval by resampling days. `None` for the default
    /// itself, and when it is not compared.
    pub cost_ratio: Option<Ratio>,
    /// The range of the share of hidden pods over any two weeks, from the pods of all replays.
    /// `None` when the window is not longer than two weeks.
    pub hidden_over_14_days: Option<HiddenOverDays>,
    /// One log for each replay; empty unless `keep` was set.
    pub logs: Vec<RunLog>,
}

/// The progress callbacks of a comparison.
pub struct Progress<'a> {
    /// Called with the number of runs that were added to the plan.
    pub planned: &'a (dyn Fn(usize) + Sync),
    /// Called with the name of a run and the share of it that is done, from 0 at its start to 1 at
    /// its end. Runs at the same time have different names.
    pub advanced: &'a (dyn Fn(&str, f64) + Sync),
}

/// The quantiles at which the frontier is computed, ascending.
const FRONTIER: [f64; 9] = [0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995];
/// The method of the frontier. It is not the ensemble, because the ensemble takes no quantile.
pub(crate) const SWEPT: Method = Method::ScenarioArrivals;
/// The numbers of placeholders of the constants on the frontier plot.
const CONSTANTS: [u64; 5] = [1, 2, 4, 8, 16];

/// The results of one policy in all replays.
#[derive(Clone, Default)]
struct Runs {
    figures: Vec<Figures>,
    tiers: Vec<Vec<TierFigures>>,
    /// The cost of waiting, idling and launching in pending pod-hours, by day: means over replays.
    costs: Vec<f64>,
    /// The pods, by day: sums over replays.
    pods: Vec<PodCounts>,
    /// Empty unless logs are kept.
    logs: Vec<RunLog>,
}

struct Arena<'a> {
    settings: &'a SimulationSettings,
    catalog: &'a Catalog,
    prices: Prices,
    window: (i64, i64),
    /// The jobs of each replay.
    replays: Vec<Workload>,
    progress: &'a Progress<'a>,
}

/// Runs all policies of the settings.
///
/// With `keep`, the result includes the logs and the frontier, which a report needs.
pub fn compare(
    workload: &Workload,
    catalog: &Catalog,
    settings: &SimulationSettings,
    window: (i64, i64),
    keep: bool,
    progress: &Progress<'_>,
) -> Comparison {
    let replays: Vec<u32> = (0..settings.replays).collect();
    let replays = parallel(&replays, |_| 0, |replay| replayed(workload, settings, window, *replay));
    let prices = Prices::new(settings.policy.objective, catalog);
    let arena = Arena { settings, catalog, prices, window, replays, progress };
    let mut named_policies = vec![NamedPolicy::Reactive];
    for named_policy in &settings.policies {
        if !named_policies.contains(named_policy) {
            named_policies.push(*named_policy);
        }
    }
    let searched = named_policies.contains(&NamedPolicy::BestConstant);
    let mut run: Vec<NamedPolicy> =
        named_policies.iter().copied().filter(|c| *c != NamedPolicy::BestConstant).collect();
    if searched {
        // The logs of constants that are not shown would take memory.
        let idle = arena.replays.len() == 1 && !keep && cores() > 1;
        let constants = FIRST_CONSTANTS.map(NamedPolicy::Constant).into_iter().filter(|_| idle);
        for policy in std::iter::once(NamedPolicy::DEFAULT).chain(constants) {
            if !run.contains(&policy) {
                run.push(policy);
            }
        }
    }
    let mut policies = arena.run(&run, keep);
    let reactive: Vec<Figures> =
        policies.first().map(|runs| runs.figures.clone()).unwrap_or_default();
    let default = run.iter().position(|c| *c == NamedPolicy::DEFAULT);
    let costs = default.filter(|_| named_policies.contains(&NamedPolicy::DEFAULT));
    let costs = costs.map(|default| policies[default].costs.clone());
    let mut best = None;
    if let Some(default) = default.filter(|_| searched) {
        let constant = |(policy, runs): (&NamedPolicy, &Runs)| match policy {
            NamedPolicy::Reactive => Some((0, pending(&runs.figures))),
            NamedPolicy::Constant(n) => Some((*n, pending(&runs.figures))),
            _ => None,
        };
        // `reactive` comes last, so that its figures are those of 0.
        let known = run.iter().zip(&policies).rev().filter_map(constant).collect();
        let found = arena.best_constant(pending(&policies[default].figures), known);
        if let Some((n, runs)) = found {
            best = Some(n);
            let at = run.iter().position(|policy| *policy == NamedPolicy::Constant(n));
            let runs = runs.or_else(|| Some(policies[at?].clone()));
            match runs.filter(|_| !keep) {
                Some(runs) => policies.push(runs),
                // A report needs the log.
                None => policies.extend(arena.run(&[NamedPolicy::Constant(n)], keep)),
            }
            run.push(NamedPolicy::BestConstant);
        }
    }
    let result = |named_policy: &NamedPolicy| {
        let at = run.iter().position(|c| c == named_policy)?;
        // The logs are moved, not copied, because they take most of the memory of a long run.
        let Runs { figures, tiers, costs: ours, pods, logs } = std::mem::take(&mut policies[at]);
        let (figures, stderr) = summary(&figures, &reactive);
        let costs = costs.as_ref().filter(|_| *named_policy != NamedPolicy::DEFAULT);
        let cost_ratio = costs.and_then(|costs| Ratio::of(&ours, costs, settings.seed));
        let hidden_over_14_days = hidden_over_days(&pods);
        Some(PolicyResult {
            named_policy: *named_policy,
            figures,
            stderr,
            tiers: TierFigures::means(&tiers),
            cost_ratio,
            hidden_over_14_days,
            logs,
        })
    };
    let results: Vec<PolicyResult> = named_policies.iter().filter_map(result).collect();
    let spot = arena.spot(&results);
    let mut comparison = Comparison {
        window,
        policies: results,
        frontier: vec![],
        constants: vec![],
        best_constant: best,
        spot,
    };
    if keep {
        let sweep: Vec<NamedPolicy> =
            FRONTIER.iter().map(|&q| NamedPolicy::Forecast(SWEPT, Some(q))).collect();
        let swept = arena.run(&sweep, false);
        comparison.frontier = FRONTIER
            .into_iter()
            .zip(swept.iter().map(|runs| summary(&runs.figures, &reactive).0))
            .collect();
        let constants: Vec<NamedPolicy> =
            CONSTANTS.iter().map(|&n| NamedPolicy::Constant(n)).collect();
        let held = arena.run(&constants, false);
        comparison.constants = CONSTANTS
            .into_iter()
            .zip(held.iter().map(|runs| summary(&runs.figures, &reactive).0))
            .collect();
    }
    comparison
}

impl Comparison {
    /// Returns the name of a policy; for `best-constant`, with the constant that was found.
    pub(crate) fn name(&self, named_policy: NamedPolicy) -> String {
        match (named_policy, self.best_constant) {
            (NamedPolicy::BestConstant, Some(n)) => format!("best-constant (= constant:{n})"),
            _ => named_policy.to_string(),
        }
    }
}

fn summary(runs: &[Figures], reactive: &[Figures]) -> (Figures, Option<Figures>) {
    let paired: Vec<Figures> =
        runs.iter().zip(reactive).map(|(run, reactive)| run.beyond(reactive)).collect();
    Figures::summary(&paired)
}

fn pending(runs: &[Figures]) -> f64 {
    runs.iter().map(|figures| figures.pending_minutes.sum).sum::<f64>() / runs.len() as f64
}

impl Arena<'_> {
    /// Runs each policy in each replay, on all cores.
    fn run(&self, named_policies: &[NamedPolicy], keep: bool) -> Vec<Runs> {
        let warm_ups = self.warm_ups(named_policies, keep);
        let tasks: Vec<(usize, usize)> = (0..named_policies.len())
            .flat_map(|policy| (0..self.replays.len()).map(move |replay| (policy, replay)))
            .collect();
        (self.progress.planned)(tasks.len());
        let scan = self.settings.scan.as_seconds();
        let effort = |&(policy, _): &(usize, usize)| named_policies[policy].effort();
        let runs = parallel(&tasks, effort, |&(policy, replay)| {
            let named_policy = named_policies[policy];
            let world = self.world(replay, keep);
            let name = self.run_name(named_policy, replay);
            (self.progress.advanced)(&name, 0.0);
            let warm_up = warm_ups.get(policy).and_then(Option::as_ref);
            let log = run(world, named_policy, warm_up, &|share| {
                (self.progress.advanced)(&name, share);
            });
            (self.progress.advanced)(&name, 1.0);
            let tiers = &self.settings.tiers;
            let warm_share = self.settings.warm_share;
            let pricing = Pricing { prices: &self.prices, tiers, warm_share };
            let costs = costs_by_day(&log, pricing);
            let figures = Figures::of(&log, pricing, scan);
            let of_tiers = TierFigures::of(&log, tiers);
            (figures, of_tiers, costs, pods_by_day(&log), keep.then_some(log))
        });
        let mut runs = runs.into_iter();
        let share = 1.0 / self.replays.len() as f64;
        let policies = named_policies.iter().map(|_| {
            let mut of_policy = Runs::default();
            for (figures, tiers, costs, pods, log) in runs.by_ref().take(self.replays.len()) {
                of_policy.figures.push(figures);
                of_policy.tiers.push(tiers);
                of_policy.costs.resize(costs.len(), 0.0);
                of_policy.costs.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += share * cost);
                of_policy.pods.resize(pods.len(), PodCounts::default());
                let days = of_policy.pods.iter_mut().zip(pods);
                days.for_each(|(sum, day)| *sum = sum.plus(day));
                of_policy.logs.extend(log);
            }
            of_policy
        });
        policies.collect()
    }

    /// Runs each policy that can be copied until its first decision, if there are several replays.
    fn warm_ups(&self, named_policies: &[NamedPolicy], keep: bool) -> Vec<Option<WarmUp<'_>>> {
        if self.replays.len() < 2 {
            return Vec::new();
        }
        (self.progress.planned)(named_policies.len());
        parallel(
            named_policies,
            |named_policy| named_policy.effort(),
            |named_policy| {
                let name = format!("{named_policy} (warm-up)");
                (self.progress.advanced)(&name, 0.0);
                let from_to = (self.first_submission(), first_decision(self.window));
                let advanced = |now| self.advanced(&name, from_to, now);
                let warm_up = WarmUp::of(self.world(0, keep), *named_policy, &advanced);
                (self.progress.advanced)(&name, 1.0);
                warm_up
            },
        )
    }

    fn world(&self, replay: usize, keep_ticks: bool) -> SimulationInput<'_> {
        SimulationInput {
            workload: &self.replays[replay],
            catalog: self.catalog,
            settings: self.settings,
            window: self.window,
            replay: u32::try_from(replay).unwrap_or(0),
            keep_ticks,
        }
    }

    /// Reports that a run over a span, in seconds, has reached `now`.
    fn advanced(&self, name: &str, (first, last): (i64, i64), now: i64) {
        (self.progress.advanced)(name, share_between(first, last, now));
    }

    fn first_submission(&self) -> i64 {
        self.replays[0].jobs.first().map_or(0, |job| job.submit)
    }

    /// Runs `reactive` and the default policy (or else the last one) without spot instances, and,
    /// where spot instances are interrupted, with spot instances that are not. Returns no case if
    /// no job uses spot instances.
    fn spot(&self, results: &[PolicyResult]) -> Vec<SpotCase> {
        if !self.replays.iter().any(|workload| workload.uses_spot(self.catalog)) {
            return Vec::new();
        }
        // The constant of `best-constant` depends on the instances.
        let others = || results.iter().skip(1);
        let default = others().find(|result| result.named_policy == NamedPolicy::DEFAULT);
        let last = others().rfind(|result| result.named_policy != NamedPolicy::BestConstant);
        let compared: Vec<&PolicyResult> = results.iter().take(1).chain(default.or(last)).collect();
        let run: Vec<NamedPolicy> = compared.iter().map(|result| result.named_policy).collect();
        let settings =
            SimulationSettings { interruptions: Interruptions::default(), ..self.settings.clone() };
        let on_demand = self.replays.iter().map(|workload| workload.on_demand(self.catalog));
        let other = |replays: Vec<Workload>| {
            let arena =
                Arena { settings: &settings, replays, prices: self.prices.clone(), ..*self };
            arena.run(&run, false)
        };
        let mut runs = vec![(SpotInstances::None, other(on_demand.collect()))];
        if !self.settings.interruptions.are_none() {
            runs.push((SpotInstances::Uninterrupted, other(self.replays.clone())));
        }
        let mut cases = Vec::new();
        for (at, result) in compared.into_iter().enumerate() {
            let named_policy = result.named_policy;
            for (instances, runs) in &runs {
                let (figures, _) = Figures::summary(&runs[at].figures);
                cases.push(SpotCase { named_policy, instances: *instances, figures });
            }
            let (instances, figures) = (SpotInstances::AsSet, result.figures);
            cases.push(SpotCase { named_policy, instances, figures });
        }
        cases
    }

    /// Returns the name of a run for its progress.
    fn run_name(&self, named_policy: NamedPolicy, replay: usize) -> String {
        match self.replays.len() {
            1 => named_policy.to_string(),
            count => format!("{named_policy} ({} of {count})", replay + 1),
        }
    }

    /// Finds the smallest constant whose mean pending minutes are at most `target`. `ran` maps the
    /// constants that already ran to their mean pending minutes. Returns the runs of the constant,
    /// too, if it is not one of these.
    ///
    /// Returns `None` when no constant up to [`NamedPolicy::CONSTANT_MAX`] suffices.
    fn best_constant(
        &self,
        target: f64,
        mut ran: BTreeMap<u64, f64>,
    ) -> Option<(u64, Option<Runs>)> {
        let mut found = BTreeMap::new();
        let best = search(target, |constants| {
            let new: Vec<u64> =
                constants.iter().copied().filter(|n| !ran.contains_key(n)).collect();
            let policies: Vec<NamedPolicy> =
                new.iter().map(|n| NamedPolicy::Constant(*n)).collect();
            for (n, runs) in new.into_iter().zip(self.run(&policies, false)) {
                ran.insert(n, pending(&runs.figures));
                found.insert(n, runs);
            }
            constants.iter().map(|n| ran[n]).collect()
        });
        best.map(|n| (n, found.remove(&n)))
    }
}

/// Constants that the search is likely to need. They run beside the other policies if there is one
/// replay, because the default policy takes longer than all others together, and keeps only one
/// core busy.
const FIRST_CONSTANTS: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 16, 32];

/// The number of constants that a step of the search runs, at the same time. It is fixed, so that
/// the result does not depend on the number of cores.
const STEP: u64 = 2;

/// Finds the smallest constant whose pending minutes are at most `target`, where more placeholders
/// never cause more waiting. `run` returns the pending minutes of some constants.
///
/// The search doubles the constant until it suffices, and then divides the range.
fn search(target: f64, mut run: impl FnMut(&[u64]) -> Vec<f64>) -> Option<u64> {
    let (mut next, mut high) = (0, None);
    loop {
        let constants = step(next, high);
        if constants.is_empty() {
            return high;
        }
        let pending = run(&constants);
        let enough = constants.iter().zip(pending).find(|(_, pending)| *pending <= target);
        high = enough.map(|(n, _)| *n).or(high);
        let below = constants.iter().rfind(|n| high.is_none_or(|high| **n < high));
        next = below.map_or(next, |n| n + 1);
    }
}

/// Returns the constants that the next step of the search runs. `high` suffices, and no constant
/// below `next` does. Returns none if nothing is left to search.
fn step(next: u64, high: Option<u64>) -> Vec<u64> {
    let most = NamedPolicy::CONSTANT_MAX;
    match high {
        // The constants divide the range into parts of about equal size.
        Some(high) => {
            let left = high - next;
            let count = STEP.min(left);
            (1..=count).map(|part| next + part * (left + 1) / (count + 1) - 1).collect()
        }
        None if next > most => Vec::new(),
        None if next == 0 => vec![0],
        None => {
            let mut doubled =
                vec![(2 * (next - 1)).clamp(1, most), (4 * (next - 1)).clamp(2, most)];
            doubled.dedup();
            doubled
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs tasks on all cores, and returns the results in the order of the tasks. The threads are
/// those of the engine, so that models run in them.
///
/// Tasks with more `effort` start first. Otherwise a long task might start last and keep one core
/// busy while the others have nothing to do.
pub fn parallel<T: Sync, R: Send>(
    tasks: &[T],
    effort: impl Fn(&T) -> u8,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let workers = cores().min(tasks.len());
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|at| Reverse(effort(&tasks[*at])));
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(tasks.len()));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let work = || {
                while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(&tasks[at]);
                    results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((at, result));
                }
            };
            scope.spawn(move || in_engine_thread(work));
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_finds_the_smallest_constant() {
        let most = NamedPolicy::CONSTANT_MAX;
        for (best, steps) in [
            (Some(0), &[&[0][..]][..]),
            (Some(1), &[&[0], &[1, 2]]),
            (Some(2), &[&[0], &[1, 2]]),
            (Some(3), &[&[0], &[1, 2], &[4, 8], &[3]]),
            (Some(7), &[&[0], &[1, 2], &[4, 8], &[5, 6], &[7]]),
            (Some(12), &[&[0], &[1, 2], &[4, 8], &[16, 32], &[10, 13], &[11, 12]]),
        ] {
            let mut ran: Vec<Vec<u64>> = Vec::new();
            let found = search(2.0, |constants| {
                ran.push(constants.into());
                constants.iter().map(|n| if Some(*n) >= best { 1.0 } else { 3.0 }).collect()
            });
            assert_eq!((found, ran.iter().map(Vec::as_slice).collect()), (best, steps.to_vec()));
        }
        let found = |enough: &dyn Fn(u64) -> bool| {
            search(2.0, |constants| {
                assert!(constants.iter().all(|n| *n <= most));
                constants.iter().map(|n| if enough(*n) { 1.0 } else { 3.0 }).collect()
            })
        };
        assert_eq!((found(&|n| n == most), found(&|_| false)), (Some(most), None));
        for best in [100, 4_095, 4_096, 4_097, most - 1] {
            assert_eq!(found(&|n| n >= best), Some(best));
        }
    }
}
