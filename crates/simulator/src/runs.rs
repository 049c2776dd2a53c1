//! Single runs of several policies, each under options of its own, on the same submissions.

use std::ops::Range;

use embedder::Catalog;
use placeholders::Prices;

use super::compare::{Progress, parallel};
use super::figures::{DayFigures, Figures, Pricing, by_day};
use super::input::{SimulationInput, replayed};
use super::named_policy::NamedPolicy;
use super::settings::SimulationSettings;
use super::warm_up::{WarmUp, run};
use crate::replay::Workload;

/// A policy with the options under which it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// What the progress of its runs is named.
    pub name: String,
    /// The policy.
    pub policy: NamedPolicy,
    /// Its options.
    pub settings: SimulationSettings,
}

/// The figures of one run.
#[derive(Clone, Debug)]
pub struct RunFigures {
    /// Those of the whole window, without what compares them with `reactive`.
    pub figures: Figures,
    /// Those of each day of the window.
    pub days: Vec<DayFigures>,
}

/// Runs each candidate in these replays: one list for each candidate, in the order of the replays.
/// The waiting and the nodes of all of them have the prices of `common`.
///
/// The candidates must have the same number of replays, jitter and seed as `common`, so that they
/// replay the same submissions. Then a run is equal to that of [`compare`](super::compare) with the
/// same number, whatever the range is.
pub fn runs(
    candidates: &[Candidate],
    workload: &Workload,
    catalog: &Catalog,
    common: &SimulationSettings,
    window: (i64, i64),
    replays: Range<u32>,
    progress: &Progress<'_>,
) -> Vec<Vec<RunFigures>> {
    let replays: Vec<u32> = replays.collect();
    (progress.planned)(candidates.len() * replays.len());
    let submitted =
        parallel(&replays, |_| 0, |replay| (*replay, replayed(workload, common, window, *replay)));
    let prices = Prices::new(common.policy.objective, catalog);
    let (tiers, warm_share) = (&common.tiers, common.warm_share);
    let pricing = Pricing { prices: &prices, tiers, warm_share };
    let scan = common.scan.as_seconds();
    parallel(
        candidates,
        |candidate| candidate.policy.effort(),
        |Candidate { name, policy, settings }| {
            let world = |(replay, workload)| SimulationInput {
                workload,
                catalog,
                settings,
                window,
                replay,
                keep_ticks: false,
            };
            let worlds: Vec<SimulationInput<'_>> =
                submitted.iter().map(|(replay, workload)| world((*replay, workload))).collect();
            // The part before the first decision is equal in all replays.
            let warm_up = worlds.first().filter(|_| worlds.len() > 1).and_then(|world| {
                (progress.advanced)(&format!("{name} (warm-up)"), 0.0);
                WarmUp::of(*world, *policy, &|_| ())
            });
            let each = worlds.into_iter().map(|world| {
                let name = match replays.len() {
                    1 => name.clone(),
                    _ => format!("{name} (replay {})", world.replay + 1),
                };
                (progress.advanced)(&name, 0.0);
                let advanced = |share| (progress.advanced)(&name, share);
                let log = run(world, *policy, warm_up.as_ref(), &advanced);
                (progress.advanced)(&name, 1.0);
                let figures = Figures::of(&log, pricing, scan);
                RunFigures { figures, days: by_day(&log, pricing) }
            });
            each.collect()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare;

    const DAY: i64 = 86_400;

    /// Every two hours a job of several pods, for four days, of which two count.
    fn workload(catalog: &Catalog) -> Workload {
        let jobs = (0..48_i64).map(|at| {
            let cpus = testkit::cpus(1_000 + 500 * (at.unsigned_abs() % 4));
            let job = testkit::job("j", at * 7_200 + at % 5 * 60, 3_000, cpus);
            traces::Job {
                work: traces::Work { units: 1 + at.unsigned_abs() % 7, ..job.work },
                ..job
            }
        });
        Workload::new(&jobs.collect::<Vec<_>>(), catalog)
    }

    /// Runs of a range of replays, each under the options of its candidate, are those of the whole
    /// comparison, and the days of each add up to its figures.
    #[test]
    fn parts_of_a_comparison_are_equal_to_the_whole() {
        let catalog = testkit::catalog([("eight", 8_000, 1.0)]);
        let workload = workload(&catalog);
        let policies = [NamedPolicy::Reactive, NamedPolicy::Constant(1), NamedPolicy::DEFAULT];
        let settings = SimulationSettings {
            policies: policies.to_vec(),
            replays: 4,
            ..SimulationSettings::default()
        };
        let window = (2 * DAY, 4 * DAY - 3_600);
        let progress = Progress { planned: &|_| (), advanced: &|_, _| () };
        let whole = compare(&workload, &catalog, &settings, window, false, &progress);
        let candidate = |policy: NamedPolicy| Candidate {
            name: policy.to_string(),
            policy,
            settings: settings.clone(),
        };
        let candidates = policies.map(candidate);
        let parts = [0..1, 1..4].map(|replays| {
            runs(&candidates, &workload, &catalog, &settings, window, replays, &progress)
        });
        for (at, result) in whole.policies.iter().enumerate() {
            let of = |at: usize| parts.iter().flat_map(move |part| part[at].iter());
            assert_eq!(of(at).count(), 4);
            let beyond =
                |(run, alone): (&RunFigures, &RunFigures)| run.figures.beyond(&alone.figures);
            let (mean, error) =
                Figures::summary(&of(at).zip(of(0)).map(beyond).collect::<Vec<Figures>>());
            let text = |figures: &Figures| serde_json::to_string(figures).unwrap();
            assert_eq!(text(&mean), text(&result.figures), "{}", result.named_policy);
            assert_eq!(error.as_ref().map(text), result.stderr.as_ref().map(text));
            for run in of(at) {
                let sum = |get: fn(&DayFigures) -> f64| run.days.iter().map(get).sum::<f64>();
                let close =
                    |one: f64, other: f64| (one - other).abs() < 1e-9 * other.abs().max(1.0);
                assert!(close(sum(|day| day.bill.nodes()), run.figures.dollars));
                assert!(close(sum(|day| day.bill.cost()), run.figures.bill.cost()));
                assert!(close(sum(|day| day.pending_pod_hours), run.figures.pending_pod_hours));
                assert!(close(sum(|day| day.pods as f64), run.figures.pods));
            }
        }
    }
}
