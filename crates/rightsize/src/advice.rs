//! The advice: containers with their requests and recommendations, and the cluster before and
//! after.

use std::collections::BTreeSet;

use embedder::Catalog;
use serde::Serialize;
use simulator::advice::{PolicyFigures, Scale, TypeCount};
use simulator::replay::{Unplaceable, Workload};
use simulator::{NamedPolicy, Progress, SimulationSettings, compare};
use traces::Job;
use usage::{
    AgeFigures, ContainerUsage, LimitFigures, OomTolerance, RecordedUsage, Statistic, WorkloadClass,
};

use super::owners::JobsByOwner;
use super::requests::right_sized;
use super::utilisation::{Amounts, Utilisation};

/// What right-sized requests would change.
#[derive(Clone, Debug, Serialize)]
pub struct RightSizing {
    /// The containers, by the size of their requests, largest first.
    pub containers: Vec<ContainerAdvice>,
    /// The number of days with a measurement.
    pub usage_days: u64,
    /// The figures of all containers under their requests. Each sample ran under these.
    pub requested: LimitFigures,
    /// The figures under the recommendations. Each sample ran under the one before it.
    pub recommended: LimitFigures,
    /// The figures under the recommendations, by the age of the workloads.
    pub recommended_by_age: Vec<AgeFigures>,
    /// The number of jobs of the log.
    pub jobs: usize,
    /// The number of those whose requests change.
    pub jobs_right_sized: usize,
    /// The number of jobs that fit an instance type only as requested, or only right-sized. The
    /// dollars of both clusters can be compared if there is none.
    pub jobs_that_fit_once: usize,
    /// The cluster with the requests of the log.
    pub cluster_requested: SizedCluster,
    /// The cluster with the last recommendations as requests of all jobs.
    pub cluster_right_sized: SizedCluster,
    /// Right-sized jobs that fit on no instance type.
    #[serde(skip)]
    pub unplaceable: Vec<Unplaceable>,
}

/// The request of a container, and the recommended one.
#[derive(Clone, Debug, Serialize)]
pub struct ContainerAdvice {
    /// The workload.
    pub owner: Box<str>,
    /// The container; empty if it is the only one.
    pub container: Box<str>,
    /// The number of jobs of the log that the workload has.
    pub jobs: usize,
    /// The most pods at the same time.
    pub pods_max: u64,
    /// The number of samples of five minutes.
    pub samples: u64,
    /// The class of the workload, which decides how CPU is recommended.
    pub class: WorkloadClass,
    /// The tolerance of kills for lack of memory.
    pub oom_tolerance: OomTolerance,
    /// The advice for CPU, in thousandths of a core.
    pub cpu_millis: ResourceAdvice,
    /// The advice for memory, in bytes.
    pub memory_bytes: ResourceAdvice,
    /// The days with a sample.
    pub days: u64,
    /// Those with a kill under the request.
    pub oom_days_requested: u64,
    /// Those with a kill under the recommendations.
    pub oom_days_recommended: u64,
    /// The figures under the request.
    pub requested: LimitFigures,
    /// The figures under the recommendations.
    pub recommended: LimitFigures,
}

/// One resource of a container.
#[derive(Clone, Debug, Serialize)]
pub struct ResourceAdvice {
    /// The statistic; `None` if models choose the limit.
    pub statistic: Option<Statistic>,
    /// The request; `None` if it is unknown.
    pub request: Option<u64>,
    /// The recommendation; `None` if there are too few samples.
    pub recommended: Option<u64>,
    /// The largest usage: of CPU in five minutes on average, of memory at any time.
    pub used_max: u64,
}

/// What jobs take with some requests.
#[derive(Clone, Debug, Serialize)]
pub struct SizedCluster {
    /// The nodes of each instance type that jobs occupy without launch latency.
    pub nodes: Vec<TypeCount>,
    /// Their mean, of all types.
    pub nodes_mean: f64,
    /// The shares of these nodes that jobs request and use.
    pub utilisation: Utilisation,
    /// The price of these nodes, in dollars.
    pub scale_dollars: f64,
    /// The number of jobs in the window that fit no type on offer.
    pub jobs_left_out: usize,
    /// What the simulator adds: the autoscaler alone, and Prophet's default.
    pub policies: Vec<PolicyFigures>,
}

/// Replaces the requests of the jobs by the recommendations, and packs and simulates both over the
/// window `[from, until)`.
pub fn right_size(
    jobs: &[Job],
    owners: &JobsByOwner<'_>,
    usage: &RecordedUsage,
    catalog: &Catalog,
    settings: &SimulationSettings,
    window: (i64, i64),
    progress: &Progress<'_>,
) -> RightSizing {
    let (sized, jobs_right_sized) = right_sized(jobs, owners, &usage.containers);
    let [requested, recommended] = usage.figures();
    let (before, after) = (Workload::new(jobs, catalog), Workload::new(&sized, catalog));
    let used = Amounts::requested(&before, window).used(&requested);
    let cluster = |jobs: &[Job], workload: &Workload, name: &str| {
        let named = |policy: &str, share: f64| {
            (progress.advanced)(&format!("{policy} {name}"), share);
        };
        let progress = Progress { advanced: &named, ..*progress };
        SizedCluster::new(jobs, workload, catalog, settings, window, used, &progress)
    };
    let cluster_requested = cluster(jobs, &before, "as requested");
    let cluster_right_sized = cluster(&sized, &after, "right-sized");
    let [fit_before, fit_after] = [&before, &after].map(|workload| jobs_within(workload, window));
    let mut containers: Vec<ContainerAdvice> =
        usage.containers.iter().map(|container| ContainerAdvice::new(container, owners)).collect();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let size = |advice: &ContainerAdvice| {
        let LimitFigures { footprint_cores, footprint_memory_bytes, .. } = advice.requested;
        let days = advice.days as f64;
        share(footprint_cores * days, requested.footprint_cores)
            + share(footprint_memory_bytes * days, requested.footprint_memory_bytes)
    };
    containers.sort_by(|one, other| {
        let names = || (&one.owner, &one.container).cmp(&(&other.owner, &other.container));
        size(other).total_cmp(&size(one)).then_with(names)
    });
    RightSizing {
        containers,
        usage_days: usage.days,
        requested,
        recommended,
        recommended_by_age: usage.figures_by_age(),
        jobs: jobs.len(),
        jobs_right_sized,
        jobs_that_fit_once: fit_before.symmetric_difference(&fit_after).count(),
        cluster_requested,
        cluster_right_sized,
        unplaceable: after.unplaceable,
    }
}

/// The indices of the jobs that are submitted in a window and fit an instance type.
fn jobs_within(workload: &Workload, (from, until): (i64, i64)) -> BTreeSet<usize> {
    let within = workload.jobs.iter().filter(|job| (from..until).contains(&job.submit));
    within.map(|job| job.index).collect()
}

impl ContainerAdvice {
    fn new(usage: &ContainerUsage, owners: &JobsByOwner<'_>) -> Self {
        let [requested, recommended] = usage.figures();
        let (days, [oom_days_requested, oom_days_recommended]) = usage.days();
        let limit = usage.recommended();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "usage >= 0")]
        let cpu_max = usage.cpu_millis_max.ceil() as u64;
        let [cpu, memory] = usage.statistics();
        Self {
            owner: usage.key.owner.clone(),
            container: usage.key.container.clone(),
            jobs: owners.of_container(usage).count(),
            pods_max: usage.pods_max,
            samples: usage.samples,
            class: usage.class,
            oom_tolerance: usage.oom_tolerance(),
            cpu_millis: ResourceAdvice {
                statistic: cpu,
                request: usage.request.cpu_millis,
                recommended: limit.cpu_millis,
                used_max: cpu_max,
            },
            memory_bytes: ResourceAdvice {
                statistic: memory,
                request: usage.request.memory_bytes,
                recommended: limit.memory_bytes,
                used_max: usage.memory_bytes_max,
            },
            days,
            oom_days_requested,
            oom_days_recommended,
            requested,
            recommended,
        }
    }
}

impl SizedCluster {
    fn new(
        jobs: &[Job],
        workload: &Workload,
        catalog: &Catalog,
        settings: &SimulationSettings,
        window: (i64, i64),
        used: Amounts,
        progress: &Progress<'_>,
    ) -> Self {
        let settings =
            SimulationSettings { policies: vec![NamedPolicy::DEFAULT], ..settings.clone() };
        let compared = || compare(workload, catalog, &settings, window, false, progress).policies;
        // Without a job, each policy would be simulated until the end of the window.
        let runs = if workload.jobs_within(window) == 0 { Vec::new() } else { compared() };
        let policies = runs.into_iter().map(|result| PolicyFigures {
            policy: result.named_policy.to_string(),
            figures: result.figures,
        });
        let submitted =
            jobs.iter().filter(|job| (window.0..window.1).contains(&job.submit)).count();
        let Scale { counts, dollars, .. } = Scale::new(workload, catalog, &settings, window);
        Self {
            nodes_mean: counts.iter().map(|count| count.mean).sum(),
            utilisation: Utilisation::of(
                catalog,
                &counts,
                Amounts::requested(workload, window),
                used,
            ),
            nodes: counts,
            scale_dollars: dollars,
            jobs_left_out: submitted - workload.jobs_within(window),
            policies: policies.collect(),
        }
    }

    /// The dollars of the last policy, Prophet's default.
    pub fn dollars(&self) -> f64 {
        self.policies.last().map_or(f64::NAN, |policy| policy.figures.dollars)
    }
}
