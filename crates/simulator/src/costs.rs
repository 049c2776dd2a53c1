//! The cost of one policy by day, under several settings.

use embedder::Catalog;
use placeholders::Prices;

use super::compare::{Progress, parallel};
use super::figures::{Pricing, costs_by_day};
use super::input::{SimulationInput, replayed};
use super::named_policy::NamedPolicy;
use super::settings::SimulationSettings;
use super::world::simulate;
use crate::replay::Workload;

/// Returns the cost of waiting, idling, launching and warm pools under a policy in pending
/// pod-hours, by day of the window: one list for each of the named `settings`, means over its
/// replays.
///
/// All settings must have the same replays, jitter and seed, so that they replay the same
/// submissions.
pub fn costs_of(
    named_policy: NamedPolicy,
    workload: &Workload,
    catalog: &Catalog,
    settings: &[(&str, SimulationSettings)],
    window: (i64, i64),
    progress: &Progress<'_>,
) -> Vec<Vec<f64>> {
    let replays = |settings: &SimulationSettings| settings.replays.max(1);
    let tasks: Vec<(usize, u32)> = settings
        .iter()
        .enumerate()
        .flat_map(|(at, (_, settings))| (0..replays(settings)).map(move |replay| (at, replay)))
        .collect();
    (progress.planned)(tasks.len());
    let runs = parallel(
        &tasks,
        |_| 0,
        |&(at, replay)| {
            let (name, settings) = &settings[at];
            let workload = &replayed(workload, settings, window, replay);
            let world =
                SimulationInput { workload, catalog, settings, window, replay, keep_ticks: false };
            let name = format!("{name} {replay}");
            let first = workload.jobs.first().map_or(0, |job| job.submit);
            let length = (window.1 - first).max(1) as f64;
            let log = simulate(world, named_policy, &|time| {
                (progress.advanced)(&name, ((time - first) as f64 / length).clamp(0.0, 1.0));
            });
            (progress.advanced)(&name, 1.0);
            let prices = Prices::new(settings.policy.objective, catalog);
            let (tiers, warm_share) = (&settings.tiers, settings.warm_share);
            costs_by_day(&log, Pricing { prices: &prices, tiers, warm_share })
        },
    );
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); settings.len()];
    for (&(at, _), run) in tasks.iter().zip(runs) {
        let share = 1.0 / f64::from(replays(&settings[at].1));
        let of = &mut costs[at];
        of.resize(run.len().max(of.len()), 0.0);
        of.iter_mut().zip(run).for_each(|(sum, cost)| *sum += share * cost);
    }
    costs
}
