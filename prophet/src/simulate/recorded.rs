//! A cluster of one's own, as its history has it: the pods that ended, the buckets on offer, and
//! the latencies of launches.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use embedder::{Catalog, CatalogError};
use placeholders::Objective;

use super::settings::LaunchLatency;
use crate::record::store::{
    EndedLaunch, FinishedPods, HistoryError, HistoryReplay, LaunchEnd, Offered, Place,
    ReplayReport, ShapeKeyError, parse_shape_key,
};
use crate::span::Span;
use crate::trace::{JOBS_MAX, Job, Work};

/// What a history has of a cluster.
#[derive(Debug)]
pub struct Recorded {
    /// One job for each pod, by submission. Pods of one job are separate, because a scheduler
    /// places them one by one.
    pub jobs: Vec<Job>,
    /// The buckets on offer, as the last line that has them lists them.
    pub catalog: Catalog,
    /// The policy's objective in the same line.
    pub objective: Objective,
    /// The latency of the launches that ended with a ready node; `None` if there are too few.
    pub launch_latency: Option<LaunchLatency>,
    /// How long the pods really waited.
    pub waiting: RecordedWaiting,
    /// The lines that could not be read.
    pub report: ReplayReport,
}

/// How long recorded pods waited for nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedWaiting {
    /// The pods.
    pub pods: u64,
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
    /// There are more pods than a log may have jobs.
    #[error("the history has more than {JOBS_MAX} pods: give a later --from")]
    TooManyPods,
}

/// The fewest launches from which a distribution of latencies is derived. With fewer, the median is
/// used for all launches.
const LAUNCHES_MIN: usize = 20;

/// Reads the history of a policy.
///
/// # Errors
/// The history cannot be read, or it lacks what a replay needs.
pub async fn recorded(place: &Place, policy: &str) -> Result<Recorded, RecordedError> {
    let mut replay = HistoryReplay::open(place, policy, None).await?;
    let mut finished: Vec<(DateTime<Utc>, FinishedPods)> = Vec::new();
    let (mut offered, mut latencies): (Option<Offered>, Vec<i64>) = (None, Vec::new());
    while let Some(line) = replay.next().await? {
        offered = line.offered.or(offered);
        latencies.extend(line.launches.iter().filter_map(latency_seconds));
        finished.extend(line.finished.into_iter().map(|pods| (line.time, pods)));
        if finished.len() > JOBS_MAX {
            return Err(RecordedError::TooManyPods);
        }
    }
    let offered = offered.ok_or(RecordedError::NoBuckets)?;
    let catalog = offered.catalog()?;
    let (mut jobs, mut waiting) = (Vec::new(), RecordedWaiting::default());
    for (time, pods) in &finished {
        let work = work(&pods.shape, &catalog);
        let work = work.map_err(|source| RecordedError::Shape { time: *time, source })?;
        waiting.add(pods);
        let count = usize::try_from(pods.pods).unwrap_or(usize::MAX);
        if jobs.len().saturating_add(count) > JOBS_MAX {
            return Err(RecordedError::TooManyPods);
        }
        jobs.extend(std::iter::repeat_n(job(pods, work), count));
    }
    if jobs.is_empty() {
        return Err(RecordedError::NoPods);
    }
    jobs.sort_by_key(|job| job.submit);
    Ok(Recorded {
        jobs,
        catalog,
        objective: offered.objective,
        launch_latency: launch_latency(latencies),
        waiting,
        report: replay.report().clone(),
    })
}

fn job(pods: &FinishedPods, work: Work) -> Job {
    let user = pods.name.as_deref().and_then(|name| name.split_once('/')).map(|(space, _)| space);
    Job {
        name: pods.name.clone().unwrap_or_else(|| pods.job.clone()).into(),
        user: user.unwrap_or_default().into(),
        submit: pods.submitted.timestamp(),
        runtime: (pods.ended - pods.started).num_seconds().max(1),
        priority: pods.priority,
        work,
    }
}

/// The requests of a pod of a shape, and the buckets that admit it.
fn work(key: &str, catalog: &Catalog) -> Result<Work, ShapeKeyError> {
    let shape = parse_shape_key(key, catalog)?;
    let buckets = catalog.buckets().iter().enumerate();
    let admitting = buckets.filter(|(id, _)| shape.admits.contains(*id));
    let admits: Arc<[Box<str>]> =
        admitting.map(|(_, bucket)| bucket.name.as_str().into()).collect();
    Ok(Work {
        units: 1,
        unit: shape.requests,
        accelerator_kind: shape.accelerator_kind,
        split: None,
        admits: Some(admits),
    })
}

/// The time from the request of a node to its readiness. `None` if the launch failed.
fn latency_seconds(launch: &EndedLaunch) -> Option<i64> {
    let (LaunchEnd::Ready(end) | LaunchEnd::WaitedFor(end)) = launch.end else { return None };
    Some((end - launch.requested).num_seconds().max(0))
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

impl RecordedWaiting {
    fn add(&mut self, pods: &FinishedPods) {
        let seconds = (pods.started - pods.submitted).num_seconds().max(0).unsigned_abs();
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
