//! A cluster of one's own, as its history has it: the pods that ended, the buckets on offer, and
//! the latencies of launches.
//!
//! ```text
//! lib.rs       reads it from the history
//! if_acted.rs  what would have happened to its pods under a policy
//! ```

pub mod if_acted;

use std::collections::HashMap;

use base::GIVE_UP;
use base::span::Span;
use chrono::{DateTime, Utc};
use embedder::{BucketSet, Catalog, CatalogError, Resources};
use history::{
    EndedLaunch, FinishedPods, HistoryError, HistoryReplay, LaunchEnd, Offered, Place,
    ReplayReport, ShapeKeyError, parse_shape_key,
};
use instances::CatalogFile;
use placeholders::Objective;
use simulator::{GangMode, LaunchLatency, SimulationSettings};
use traces::{Admits, JOBS_MAX, Job, SchedulingDelay, Work};
use usage::MeasuredRun;

/// What a history has of a cluster.
#[derive(Debug)]
pub struct Recorded {
    /// One job for each pod that was created while the history was recorded, by submission. Pods
    /// of one job are separate, because a scheduler places them one by one.
    pub jobs: Vec<Job>,
    /// The buckets on offer, as the last line that has them lists them.
    pub catalog: Catalog,
    /// The policy's objective in the same line.
    pub objective: Objective,
    /// The latency of the launches that ended with a ready node; `None` if there are too few.
    pub launch_latency: Option<LaunchLatency>,
    /// How long the pods really waited.
    pub waiting: RecordedWaiting,
    /// The same time of each group of alike pods.
    pub delays: Vec<SchedulingDelay>,
    /// What the pods used, of those that were measured. Empty unless the caller needs it.
    pub usage: Vec<MeasuredRun>,
    /// The lines that could not be read.
    pub report: ReplayReport,
}

/// How long recorded pods waited for nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedWaiting {
    /// The pods, without earlier ones.
    pub pods: u64,
    /// Pods that were created before the first line, which are not replayed.
    pub earlier: u64,
    /// Those that waited no longer than one scan of the autoscaler.
    pub hidden: u64,
    /// The sum of the times that all pods waited, in seconds.
    pub seconds: u64,
}

/// Why a history cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The history cannot be read.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// No line has the buckets on offer.
    #[error("the history has no buckets on offer: an earlier build of Prophet recorded it")]
    NoBuckets,
    /// The buckets on offer are no catalog.
    #[error("the buckets on offer are invalid")]
    Buckets(#[from] CatalogError),
    /// The shape of a pod is malformed.
    #[error("the shape of a finished pod at {time} is malformed")]
    Shape {
        /// The time of the line.
        time: DateTime<Utc>,
        /// The cause.
        source: ShapeKeyError,
    },
    /// No pod ended while the history was recorded.
    #[error("no batch pod ended while the history was recorded")]
    NoPods,
    /// There are more pods than the caller admits.
    #[error("the history has more than {0} pods: keep fewer days of it")]
    TooManyPods(usize),
    /// The caller needs the history no longer.
    #[error("the read of the history was cancelled")]
    Cancelled,
}

/// The fewest launches from which a distribution of latencies is derived. With fewer, the median is
/// used for all launches.
const LAUNCHES_MIN: usize = 20;

/// The longest launch latency, in seconds. A longer one counts as this, as in the controller.
const LAUNCH_SECONDS_MAX: i64 = GIVE_UP.num_seconds();

/// Reads the whole history of a policy.
///
/// # Errors
/// As [`recorded_since`], with at most [`JOBS_MAX`] pods.
pub async fn recorded(
    place: &Place,
    policy: &str,
    with_usage: bool,
) -> Result<Recorded, RecordedError> {
    read(place, policy, None, JOBS_MAX, with_usage, &|| false).await
}

/// Reads the history of a policy from a time on, or all of it, without the usage of pods.
///
/// # Errors
/// The history cannot be read, it lacks what a replay needs, more than `pods_max` pods ended, or
/// `is_cancelled` holds.
pub async fn recorded_since(
    place: &Place,
    policy: &str,
    since: Option<DateTime<Utc>>,
    pods_max: usize,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Recorded, RecordedError> {
    read(place, policy, since, pods_max, false, is_cancelled).await
}

async fn read(
    place: &Place,
    policy: &str,
    since: Option<DateTime<Utc>>,
    pods_max: usize,
    with_usage: bool,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Recorded, RecordedError> {
    let mut replay = HistoryReplay::open(place, policy, since).await?;
    let (mut ran, mut shapes) = (Vec::new(), Shapes::default());
    let (mut delays, mut usage) = (Vec::new(), Vec::new());
    let (mut offered, mut latencies): (Option<Offered>, Latencies) = Default::default();
    let (mut first, mut waiting) = (None, RecordedWaiting::default());
    while let Some(line) = replay.next().await? {
        if is_cancelled() {
            return Err(RecordedError::Cancelled);
        }
        offered = line.offered.or(offered);
        latencies.add(&line.launches);
        let first = *first.get_or_insert(line.time);
        for pods in &line.finished {
            // The history does not have the pods that were created at the same time and ended
            // before it began.
            if pods.submitted < first {
                waiting.earlier = waiting.earlier.saturating_add(pods.pods);
                continue;
            }
            let delay = scheduling_delay(pods);
            waiting.add(pods, &delay);
            delays.push(delay);
            if waiting.pods > pods_max as u64 {
                return Err(RecordedError::TooManyPods(pods_max));
            }
            let shape = shapes.number(&pods.shape, line.time);
            usage.extend(measured_run(pods).filter(|_| with_usage).map(|run| (shape, run)));
            ran.push(Ran::new(pods, shape));
        }
    }
    let offered = offered.ok_or(RecordedError::NoBuckets)?;
    let catalog = offered.catalog()?;
    let works = shapes.works(&catalog)?;
    let mut jobs: Vec<Job> = Vec::new();
    for ran in &ran {
        let copies = usize::try_from(ran.pods).unwrap_or(usize::MAX);
        jobs.extend(std::iter::repeat_n(ran.job(&works), copies));
    }
    if jobs.is_empty() {
        return Err(RecordedError::NoPods);
    }
    jobs.sort_by_key(|job| job.submit);
    Ok(Recorded {
        jobs,
        catalog,
        objective: offered.objective,
        launch_latency: latencies.distribution(),
        waiting,
        delays,
        usage: usage
            .into_iter()
            .map(|(shape, run)| MeasuredRun { unit: works[shape].unit, ..run })
            .collect(),
        report: replay.report().clone(),
    })
}

impl Recorded {
    /// Sets the options that the history has: buckets, launch latency, objective, and pods that are
    /// placed one by one.
    pub fn set(&self, settings: &mut SimulationSettings) {
        settings.catalog = Some(CatalogFile::of(&self.catalog));
        settings.policy.objective = self.objective;
        settings.launch_latency = self.launch_latency.unwrap_or(settings.launch_latency);
        settings.gang = GangMode::PodByPod;
    }
}

/// The run of pods that were measured. Their requests are set once all shapes are known.
fn measured_run(pods: &FinishedPods) -> Option<MeasuredRun> {
    Some(MeasuredRun {
        name: pods.name.as_deref().unwrap_or(&pods.job).into(),
        pods: pods.pods,
        unit: Resources::default(),
        submitted: pods.submitted.timestamp(),
        started: pods.started.timestamp(),
        ended: pods.ended.timestamp(),
        usage: pods.usage.clone()?,
    })
}

/// What a replay needs of finished pods.
struct Ran {
    name: Box<str>,
    user: Box<str>,
    submit: i64,
    runtime: i64,
    priority: i32,
    pods: u64,
    /// The index of the shape in [`Shapes`].
    shape: usize,
}

impl Ran {
    fn new(pods: &FinishedPods, shape: usize) -> Self {
        let namespace = pods.name.as_deref().and_then(|name| name.split_once('/'));
        Self {
            name: pods.name.as_deref().unwrap_or(&pods.job).into(),
            user: namespace.map_or("", |(namespace, _)| namespace).into(),
            submit: pods.submitted.timestamp(),
            runtime: (pods.ended - pods.started).num_seconds().max(1),
            priority: pods.priority,
            pods: pods.pods,
            shape,
        }
    }

    fn job(&self, works: &[Work]) -> Job {
        let Self { submit, runtime, priority, .. } = *self;
        let (name, user, work) = (self.name.clone(), self.user.clone(), works[self.shape].clone());
        Job { priority, ..Job::new(name, user, submit, runtime, work) }
    }
}

/// The keys of shapes, each once, with the time of the first line that has it.
#[derive(Default)]
struct Shapes {
    numbers: HashMap<String, usize>,
    keys: Vec<(String, DateTime<Utc>)>,
}

impl Shapes {
    fn number(&mut self, key: &str, time: DateTime<Utc>) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.keys.len();
        self.numbers.insert(key.into(), number);
        self.keys.push((key.into(), time));
        number
    }

    fn works(&self, catalog: &Catalog) -> Result<Vec<Work>, RecordedError> {
        let read = |(key, time): &(String, DateTime<Utc>)| {
            work(key, catalog).map_err(|source| RecordedError::Shape { time: *time, source })
        };
        self.keys.iter().map(read).collect()
    }
}

/// The requests of a pod of a shape, and the buckets that admit it.
fn work(key: &str, catalog: &Catalog) -> Result<Work, ShapeKeyError> {
    let shape = parse_shape_key(key, catalog)?;
    let admits = if shape.admits == BucketSet::all() {
        Admits::All
    } else {
        let buckets = catalog.buckets().iter().enumerate();
        let admitting = buckets.filter(|(id, _)| shape.admits.contains(*id));
        Admits::Only(admitting.map(|(_, bucket)| bucket.name.as_str().into()).collect())
    };
    let (unit, accelerator_kind) = (shape.requests, shape.accelerator_kind);
    Ok(Work { units: 1, unit, accelerator_kind, split: None, admits })
}

/// The latencies of launches, in seconds.
#[derive(Default)]
struct Latencies {
    /// Of launches for placeholders.
    ready: Vec<i64>,
    /// Of launches for which pods waited. They count only if there are no others, because a pod may
    /// have waited for another reason before the node was requested.
    waited: Vec<i64>,
}

impl Latencies {
    fn add(&mut self, launches: &[EndedLaunch]) {
        // A warm pool starts its instances faster than a launch without it.
        for launch in launches.iter().filter(|launch| !launch.from_warm_pool) {
            let (latencies, end) = match launch.end {
                LaunchEnd::Ready(end) => (&mut self.ready, end),
                LaunchEnd::WaitedFor(end) => (&mut self.waited, end),
                LaunchEnd::Failed(_) => continue,
            };
            latencies.push((end - launch.requested).num_seconds().clamp(0, LAUNCH_SECONDS_MAX));
        }
    }

    fn distribution(self) -> Option<LaunchLatency> {
        launch_latency(if self.ready.is_empty() { self.waited } else { self.ready })
    }
}

/// The distribution of launch latencies, of which the median and the 95th percentile are kept.
fn launch_latency(mut seconds: Vec<i64>) -> Option<LaunchLatency> {
    seconds.sort_unstable();
    let at = |share: usize| seconds.get(seconds.len().saturating_sub(1) * share / 100).copied();
    let span = |seconds: i64| Span::seconds(u32::try_from(seconds).unwrap_or(u32::MAX));
    let [median, p95] = [at(50)?, at(95)?].map(span);
    let enough = seconds.len() >= LAUNCHES_MIN && median.as_seconds() > 0;
    Some(if enough {
        LaunchLatency::LogNormal { median, p95 }
    } else {
        LaunchLatency::Constant(median)
    })
}

fn scheduling_delay(pods: &FinishedPods) -> SchedulingDelay {
    let seconds = (pods.started - pods.submitted).num_seconds().max(0);
    SchedulingDelay { priority: pods.priority, pods: pods.pods, seconds }
}

impl RecordedWaiting {
    fn add(&mut self, pods: &FinishedPods, delay: &SchedulingDelay) {
        let seconds = delay.seconds.unsigned_abs();
        self.pods = self.pods.saturating_add(pods.pods);
        self.hidden = self.hidden.saturating_add(if pods.waited { 0 } else { pods.pods });
        self.seconds = self.seconds.saturating_add(seconds.saturating_mul(pods.pods));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_launches_give_a_constant_latency_and_many_a_distribution() {
        let span = Span::seconds;
        assert_eq!(launch_latency(vec![]), None);
        assert_eq!(launch_latency(vec![90, 30, 60]), Some(LaunchLatency::Constant(span(60))));
        let many = (1..=100).rev().collect();
        let expected = LaunchLatency::LogNormal { median: span(50), p95: span(95) };
        assert_eq!(launch_latency(many), Some(expected));
        assert_eq!(launch_latency(vec![0; 30]), Some(LaunchLatency::Constant(span(0))));
    }
}
