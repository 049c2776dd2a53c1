//! The cost of one policy by day, under several settings.

use embedder::Catalog;
use placeholders::Prices;

use super::compare::Progress;
use super::named_policy::NamedPolicy;
use super::runs::{Candidate, RunFigures, runs};
use super::settings::SimulationSettings;
use crate::replay::Workload;

/// Returns the cost of waiting, idling, launching and warm pools under a policy in pending
/// pod-hours, by day of the window: one list for each of the named `settings`, means over its
/// replays.
///
/// All settings must have the same replays, jitter, seed and objective, so that they replay the
/// same submissions at the same prices.
pub fn costs_of(
    policy: NamedPolicy,
    workload: &Workload,
    catalog: &Catalog,
    settings: &[(&str, SimulationSettings)],
    window: (i64, i64),
    progress: &Progress<'_>,
) -> Vec<Vec<f64>> {
    let Some((_, common)) = settings.first() else { return Vec::new() };
    let candidate = |(name, settings): &(&str, SimulationSettings)| Candidate {
        name: (*name).to_owned(),
        policy,
        settings: settings.clone(),
    };
    let candidates: Vec<Candidate> = settings.iter().map(candidate).collect();
    let replays = common.replays.max(1);
    let ran = runs(&candidates, workload, catalog, common, window, 0..replays, progress);
    let wait = Prices::new(common.policy.objective, catalog).wait();
    let share = 1.0 / f64::from(replays);
    let mean = |of_candidate: Vec<RunFigures>| {
        let mut costs: Vec<f64> = Vec::new();
        for run in of_candidate {
            costs.resize(run.days.len().max(costs.len()), 0.0);
            let by_day = costs.iter_mut().zip(&run.days);
            by_day.for_each(|(sum, day)| *sum += share * day.bill.cost() / wait);
        }
        costs
    };
    ran.into_iter().map(mean).collect()
}
