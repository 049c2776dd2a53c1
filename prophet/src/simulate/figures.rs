//! The figures of a run, computed from its log.

use embedder::Catalog;
use serde::{Serialize, Serializer};

use super::log::RunLog;
use crate::replay::{DAY_SECONDS, add_by_day, days, within};

/// The figures of one run, or their means over several runs.
///
/// A figure that cannot be computed is NaN, which is `null` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The number of jobs that count: those submitted within the window.
    #[serde(serialize_with = "plain")]
    pub jobs: f64,
    /// The time from submission to start, in minutes.
    pub pending_minutes: PendingMinutes,
    /// The time from submission to start in hours, each job weighted by its number of pods. This is
    /// the cost of waiting.
    #[serde(serialize_with = "plain")]
    pub pending_pod_hours: f64,
    /// The share of jobs that waited no longer than one scan of the autoscaler.
    #[serde(serialize_with = "plain")]
    pub jobs_hidden_share: f64,
    /// The number of requested nodes.
    #[serde(serialize_with = "plain")]
    pub launches: f64,
    /// The share of launches that no real pod waited for.
    #[serde(serialize_with = "plain")]
    pub launches_hidden_share: f64,
    /// The hours of all nodes from ready to gone.
    #[serde(serialize_with = "plain")]
    pub instance_hours: f64,
    /// The hours of all nodes from request to ready.
    #[serde(serialize_with = "plain")]
    pub launching_instance_hours: f64,
    /// The hours of ready nodes on which no pod runs.
    #[serde(serialize_with = "plain")]
    pub idle_instance_hours: f64,
    /// The idle hours beyond those of `reactive`, as a share of `reactive`'s instance-hours.
    #[serde(serialize_with = "plain")]
    pub extra_idle: f64,
    /// The cost of waiting and extra idling at the policy's prices, less the cost of `reactive`'s
    /// waiting, as a share of the latter. The value -0.4 means that the cost is 40 % lower.
    #[serde(serialize_with = "plain")]
    pub extra_cost: f64,
    /// The price of all nodes from request to gone, in dollars.
    #[serde(serialize_with = "plain")]
    pub dollars: f64,
    /// How many times a number of placeholders was written.
    #[serde(serialize_with = "plain")]
    pub placeholder_writes: f64,
    /// The number of jobs that count and never started, because no group had room.
    #[serde(serialize_with = "plain")]
    pub jobs_never_started: f64,
}

/// The distribution of waits over jobs, in minutes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PendingMinutes {
    /// The sum.
    #[serde(serialize_with = "plain")]
    pub sum: f64,
    /// The mean.
    #[serde(serialize_with = "plain")]
    pub mean: f64,
    /// The median.
    #[serde(serialize_with = "plain")]
    pub p50: f64,
    /// The 95th percentile.
    #[serde(serialize_with = "plain")]
    pub p95: f64,
    /// The 99th percentile.
    #[serde(serialize_with = "plain")]
    pub p99: f64,
}

/// Serializes whole numbers without a fraction, and other numbers to nine significant digits,
/// because further digits are noise.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn plain<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        return serializer.serialize_i64(*value as i64);
    }
    serializer.serialize_f64(format!("{value:.8e}").parse().unwrap_or(*value))
}

impl Figures {
    /// Computes all figures except `extra_idle` and `extra_cost`, which need the run of `reactive`.
    pub fn of(log: &RunLog, catalog: &Catalog, scan_seconds: i64) -> Self {
        let mut waits: Vec<i64> = log.jobs.iter().map(|job| job.start - job.submit).collect();
        waits.sort_unstable();
        let pending: u64 = log
            .jobs
            .iter()
            .map(|job| (job.start - job.submit).unsigned_abs().saturating_mul(job.pods))
            .sum();
        let (_, until) = log.window;
        let within = |start: i64, end: i64| within(log.window, start, end);
        let [launches, hidden] = sum(&launches_by_day(log));
        let (mut alive, mut launching, mut busy, mut dollars) = (0_i64, 0_i64, 0_i64, 0.0);
        for node in &log.nodes {
            let gone = node.gone.unwrap_or(until);
            let ready = node.ready.unwrap_or(gone);
            alive += within(ready, gone);
            launching += within(node.requested, ready);
            busy += node.busy_seconds;
            let hourly = catalog.buckets()[node.bucket].hourly.dollars();
            dollars += within(node.requested, gone) as f64 / 3_600.0 * hourly;
        }
        let quick = waits.iter().take_while(|wait| **wait <= scan_seconds).count();
        Self {
            jobs: waits.len() as f64,
            pending_minutes: PendingMinutes::of(&waits),
            pending_pod_hours: pending as f64 / 3_600.0,
            jobs_hidden_share: quick as f64 / waits.len() as f64,
            launches: launches as f64,
            launches_hidden_share: hidden as f64 / launches as f64,
            instance_hours: hours(alive),
            launching_instance_hours: hours(launching),
            idle_instance_hours: hours(alive - busy),
            extra_idle: f64::NAN,
            extra_cost: f64::NAN,
            dollars,
            placeholder_writes: log.placeholder_writes as f64,
            jobs_never_started: log.unfinished as f64,
        }
    }

    /// Returns the figures with `extra_idle` and `extra_cost` relative to `reactive`, a run of the
    /// same jobs.
    ///
    /// `wait_to_idle` is the price of one pending pod-hour in idle instance-hours.
    #[must_use]
    pub fn beyond(self, reactive: &Self, wait_to_idle: f64) -> Self {
        let extra = self.idle_instance_hours - reactive.idle_instance_hours;
        let waiting = self.pending_pod_hours - reactive.pending_pod_hours;
        let extra_cost = (waiting + extra / wait_to_idle) / reactive.pending_pod_hours;
        Self { extra_idle: extra / reactive.instance_hours, extra_cost, ..self }
    }

    /// Returns the means over runs, and their standard errors when there is more than one run.
    pub fn summary(runs: &[Self]) -> (Self, Option<Self>) {
        let n = runs.len() as f64;
        let mean = |get: Get| runs.iter().map(get).sum::<f64>() / n;
        let error = |get: Get| {
            let mean = mean(get);
            let squares: f64 = runs.iter().map(|run| (get(run) - mean).powi(2)).sum();
            (squares / (n - 1.0) / n).sqrt()
        };
        (Self::each(mean), (runs.len() > 1).then(|| Self::each(error)))
    }

    /// Returns figures in which each field is the result of `of` for that field.
    fn each(of: impl Fn(Get) -> f64) -> Self {
        Self {
            jobs: of(|f| f.jobs),
            pending_minutes: PendingMinutes {
                sum: of(|f| f.pending_minutes.sum),
                mean: of(|f| f.pending_minutes.mean),
                p50: of(|f| f.pending_minutes.p50),
                p95: of(|f| f.pending_minutes.p95),
                p99: of(|f| f.pending_minutes.p99),
            },
            pending_pod_hours: of(|f| f.pending_pod_hours),
            jobs_hidden_share: of(|f| f.jobs_hidden_share),
            launches: of(|f| f.launches),
            launches_hidden_share: of(|f| f.launches_hidden_share),
            instance_hours: of(|f| f.instance_hours),
            launching_instance_hours: of(|f| f.launching_instance_hours),
            idle_instance_hours: of(|f| f.idle_instance_hours),
            extra_idle: of(|f| f.extra_idle),
            extra_cost: of(|f| f.extra_cost),
            dollars: of(|f| f.dollars),
            placeholder_writes: of(|f| f.placeholder_writes),
            jobs_never_started: of(|f| f.jobs_never_started),
        }
    }
}

/// Reads one figure.
type Get = fn(&Figures) -> f64;

/// Returns the cost of waiting and idling in a run, in pending pod-hours, by day of the window.
///
/// A job's wait counts on the day of its submission.
pub(super) fn costs_by_day(log: &RunLog, wait_to_idle: f64) -> Vec<f64> {
    let (from, until) = log.window;
    let mut alive = vec![0; log.busy_by_day.len()];
    for node in log.nodes.iter().filter(|node| node.ready.is_some()) {
        add_by_day(&mut alive, log.window, node.ready.unwrap_or(until), node.gone.unwrap_or(until));
    }
    let idle =
        alive.iter().zip(&log.busy_by_day).map(|(alive, busy)| hours(alive - busy) / wait_to_idle);
    let mut costs: Vec<f64> = idle.collect();
    for job in &log.jobs {
        let day = usize::try_from((job.submit - from) / DAY_SECONDS).ok();
        if let Some(cost) = day.and_then(|day| costs.get_mut(day)) {
            *cost += hours(job.start - job.submit) * job.pods as f64;
        }
    }
    costs
}

/// Returns the number of requested nodes, and the number of those that no pod waited for, by day of
/// the window.
pub(super) fn launches_by_day(log: &RunLog) -> Vec<[u64; 2]> {
    let (from, until) = log.window;
    let mut launches = vec![[0, 0]; days(log.window)];
    for node in log.nodes.iter().filter(|node| (from..until).contains(&node.requested)) {
        let day = usize::try_from((node.requested - from) / DAY_SECONDS).ok();
        if let Some([requested, hidden]) = day.and_then(|day| launches.get_mut(day)) {
            *requested += 1;
            *hidden += u64::from(!node.waited_for);
        }
    }
    launches
}

/// Sums launches and hidden launches over days.
fn sum(launches: &[[u64; 2]]) -> [u64; 2] {
    launches.iter().fold([0, 0], |sum, day| [sum[0] + day[0], sum[1] + day[1]])
}

/// Returns the smallest and the largest share of launches hidden over any [`LEVEL_DAYS`]
/// consecutive days.
///
/// Periods without a launch are skipped. Returns `None` when there are at most [`LEVEL_DAYS`] days,
/// or no launches.
pub(super) fn hidden_over_days(launches: &[[u64; 2]]) -> Option<HiddenOverDays> {
    if launches.len() <= LEVEL_DAYS {
        return None;
    }
    let share = |days| {
        let [requested, hidden] = sum(days);
        (requested > 0).then(|| hidden as f64 / requested as f64)
    };
    let shares: Vec<f64> = launches.windows(LEVEL_DAYS).filter_map(share).collect();
    let least = shares.iter().copied().reduce(f64::min)?;
    let most = shares.iter().copied().reduce(f64::max)?;
    Some(HiddenOverDays { least, most })
}

/// The length in days of the periods over which a service level must hold. A service level is
/// promised over any two weeks.
pub(crate) const LEVEL_DAYS: usize = 14;

/// The range of the share of hidden launches over periods of `LEVEL_DAYS` days, in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HiddenOverDays {
    /// The share in the period with the smallest share.
    pub least: f64,
    /// The share in the period with the largest share.
    pub most: f64,
}

impl PendingMinutes {
    fn of(sorted_waits: &[i64]) -> Self {
        let minutes = |seconds: i64| seconds as f64 / 60.0;
        let sum = minutes(sorted_waits.iter().sum());
        // The nearest rank: the smallest wait that at least this percentage of jobs does not
        // exceed.
        let rank = |percent: usize| (sorted_waits.len() * percent).div_ceil(100).max(1) - 1;
        let at = |percent| sorted_waits.get(rank(percent)).map_or(f64::NAN, |&wait| minutes(wait));
        Self { sum, mean: sum / sorted_waits.len() as f64, p50: at(50), p95: at(95), p99: at(99) }
    }
}

fn hours(seconds: i64) -> f64 {
    seconds as f64 / 3_600.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::log::{JobRecord, NodeRecord};

    const HOUR: i64 = 3_600;

    /// The window is 36 hours and starts at noon. The first node is ready for the whole window, and
    /// runs pods for four hours on the first day and for two hours on the second. The second node
    /// is ready and idle for three hours: one on the first day and two on the second. On the first
    /// day, a job with two pods waits for two hours. On the second day, a job with one pod waits
    /// for one hour.
    #[test]
    fn costs_are_assigned_to_the_day_on_which_they_arise() {
        let noon = 12 * HOUR;
        let node = |ready, gone| NodeRecord {
            id: 0,
            bucket: 0,
            group: 0,
            requested: 0,
            ready: Some(ready),
            gone,
            busy_seconds: 0,
            waited_for: false,
        };
        let job = |submit: i64, hours: i64, pods| {
            let start = submit + hours * HOUR;
            JobRecord { index: 0, submit, start, end: start, pods, instances: 1 }
        };
        let log = RunLog {
            window: (noon, noon + 36 * HOUR),
            nodes: vec![node(0, None), node(noon + 23 * HOUR, Some(noon + 26 * HOUR))],
            jobs: vec![job(noon, 2, 2), job(noon + 25 * HOUR, 1, 1)],
            busy_by_day: vec![4 * HOUR, 2 * HOUR],
            ..RunLog::default()
        };
        assert_eq!(costs_by_day(&log, 4.0), [21.0 / 4.0 + 4.0, 12.0 / 4.0 + 1.0]);
    }

    /// The window has 16 days. On the first day both launches are hidden, on each other day one of
    /// two.
    #[test]
    fn the_hidden_share_is_measured_over_every_period_of_two_weeks() {
        let node = |day: i64, waited_for| NodeRecord {
            id: 0,
            bucket: 0,
            group: 0,
            requested: 24 * HOUR * day + HOUR,
            ready: None,
            gone: None,
            busy_seconds: 0,
            waited_for,
        };
        let halves = (1..16).flat_map(|day| [node(day, true), node(day, false)]);
        let nodes =
            [node(-1, true), node(0, false), node(0, false)].into_iter().chain(halves).collect();
        let log = RunLog { window: (0, 16 * 24 * HOUR), nodes, ..RunLog::default() };
        let launches = launches_by_day(&log);
        assert_eq!((launches[0], launches[15], launches.len()), ([2, 2], [2, 1], 16));
        let over = hidden_over_days(&launches).unwrap();
        assert_eq!(over, HiddenOverDays { least: 0.5, most: 15.0 / 28.0 });
        assert_eq!(hidden_over_days(&launches[..14]), None);
        assert_eq!(hidden_over_days(&[[0, 0]; 20]), None);
    }
}
