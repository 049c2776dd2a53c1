//! What a run comes to.

use embedder::Catalog;
use serde::{Serialize, Serializer};

use super::log::{DAY_SECONDS, RunLog, add_by_day, days, within};

/// The figures of one run, or the means of several; what cannot be computed is NaN, `null` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Jobs that count.
    #[serde(serialize_with = "plain")]
    pub jobs: f64,
    /// From submission to start.
    pub pending_minutes: PendingMinutes,
    /// The same in hours, each job as often as it has pods: what waiting costs.
    #[serde(serialize_with = "plain")]
    pub pending_pod_hours: f64,
    /// The share of jobs that waited no longer than one scan.
    #[serde(serialize_with = "plain")]
    pub jobs_hidden_share: f64,
    /// Nodes requested.
    #[serde(serialize_with = "plain")]
    pub launches: f64,
    /// The share of them that no real pod waited for.
    #[serde(serialize_with = "plain")]
    pub launches_hidden_share: f64,
    /// Hours of nodes from ready to gone.
    #[serde(serialize_with = "plain")]
    pub instance_hours: f64,
    /// Hours of nodes from request to ready.
    #[serde(serialize_with = "plain")]
    pub launching_instance_hours: f64,
    /// Hours of ready nodes on which no pod runs.
    #[serde(serialize_with = "plain")]
    pub idle_instance_hours: f64,
    /// Idle hours beyond those of `reactive`, as a share of its instance-hours.
    #[serde(serialize_with = "plain")]
    pub extra_idle: f64,
    /// What waiting and extra idling cost at the policy's prices beyond what `reactive`'s waiting costs, as a share of
    /// that: -0.4 is 40 % less.
    #[serde(serialize_with = "plain")]
    pub extra_cost: f64,
    /// Dollars for nodes from request to gone.
    #[serde(serialize_with = "plain")]
    pub dollars: f64,
    /// How often a number of placeholders was written.
    #[serde(serialize_with = "plain")]
    pub placeholder_writes: f64,
    /// Jobs that count and never started, for no group had room.
    #[serde(serialize_with = "plain")]
    pub jobs_never_started: f64,
}

/// Waits in minutes, over jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PendingMinutes {
    /// Their sum.
    #[serde(serialize_with = "plain")]
    pub sum: f64,
    /// Their mean.
    #[serde(serialize_with = "plain")]
    pub mean: f64,
    /// The median.
    #[serde(serialize_with = "plain")]
    pub p50: f64,
    /// One in twenty waits longer.
    #[serde(serialize_with = "plain")]
    pub p95: f64,
    /// One in a hundred waits longer.
    #[serde(serialize_with = "plain")]
    pub p99: f64,
}

/// Whole numbers without a fraction, others to nine significant digits: more would be noise.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn plain<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        return serializer.serialize_i64(*value as i64);
    }
    serializer.serialize_f64(format!("{value:.8e}").parse().unwrap_or(*value))
}

impl Figures {
    /// Computes all but `extra_idle` and `extra_cost`, which need another run.
    pub fn of(log: &RunLog, catalog: &Catalog, scan_seconds: i64) -> Self {
        let mut waits: Vec<i64> = log.jobs.iter().map(|job| job.start - job.submit).collect();
        waits.sort_unstable();
        let pending: u64 =
            log.jobs.iter().map(|job| (job.start - job.submit).unsigned_abs().saturating_mul(job.pods)).sum();
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

    /// With `extra_idle` and `extra_cost` beyond `reactive`, which ran the same jobs; `wait_to_idle` is what a pending
    /// pod-hour costs in idle instance-hours.
    #[must_use]
    pub fn beyond(self, reactive: &Self, wait_to_idle: f64) -> Self {
        let extra = self.idle_instance_hours - reactive.idle_instance_hours;
        let waiting = self.pending_pod_hours - reactive.pending_pod_hours;
        let extra_cost = (waiting + extra / wait_to_idle) / reactive.pending_pod_hours;
        Self { extra_idle: extra / reactive.instance_hours, extra_cost, ..self }
    }

    /// Means over runs, and their standard errors where there is more than one.
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

    /// Figures whose every field is what `of` makes of that field.
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

/// What waiting and idling cost in a run, in pending pod-hours, by day of the window; waiting counts on the day of submission.
pub(super) fn costs_by_day(log: &RunLog, wait_to_idle: f64) -> Vec<f64> {
    let (from, until) = log.window;
    let mut alive = vec![0; log.busy_by_day.len()];
    for node in log.nodes.iter().filter(|node| node.ready.is_some()) {
        add_by_day(&mut alive, log.window, node.ready.unwrap_or(until), node.gone.unwrap_or(until));
    }
    let idle = alive.iter().zip(&log.busy_by_day).map(|(alive, busy)| hours(alive - busy) / wait_to_idle);
    let mut costs: Vec<f64> = idle.collect();
    for job in &log.jobs {
        let day = usize::try_from((job.submit - from) / DAY_SECONDS).ok();
        if let Some(cost) = day.and_then(|day| costs.get_mut(day)) {
            *cost += hours(job.start - job.submit) * job.pods as f64;
        }
    }
    costs
}

/// How many nodes were requested, and how many of them no pod waited for, by day of the window.
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

/// Of both, over days.
fn sum(launches: &[[u64; 2]]) -> [u64; 2] {
    launches.iter().fold([0, 0], |sum, day| [sum[0] + day[0], sum[1] + day[1]])
}

/// The smallest and the largest share of launches hidden over any [`LEVEL_DAYS`] days; `None` where there are not more days
/// than these. Days without a launch say nothing.
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

/// A service level is promised over so many days.
pub(crate) const LEVEL_DAYS: usize = 14;

/// See [`hidden_over_days`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HiddenOverDays {
    /// Over those days in which the smallest share was hidden.
    pub least: f64,
    /// Over those in which the largest was.
    pub most: f64,
}

impl PendingMinutes {
    fn of(sorted_waits: &[i64]) -> Self {
        let minutes = |seconds: i64| seconds as f64 / 60.0;
        let sum = minutes(sorted_waits.iter().sum());
        // The nearest rank: the smallest wait that a share of jobs does not exceed.
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

    /// A window of a day and a half from noon on. A node that is ready from before its begin until the end, and ran something for its first
    /// four and its last two hours; another that is ready for three idle hours around the turn of the day. Two pods wait for two hours on the
    /// first day, one for an hour on the second.
    #[test]
    fn costs_are_those_of_the_day() {
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

    /// Of a window of 16 days, the nodes of the first are all hidden, and of each other day one of two.
    #[test]
    fn a_level_is_that_of_any_two_weeks() {
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
        let nodes = [node(-1, true), node(0, false), node(0, false)].into_iter().chain(halves).collect();
        let log = RunLog { window: (0, 16 * 24 * HOUR), nodes, ..RunLog::default() };
        let launches = launches_by_day(&log);
        assert_eq!((launches[0], launches[15], launches.len()), ([2, 2], [2, 1], 16));
        let over = hidden_over_days(&launches).unwrap();
        assert_eq!(over, HiddenOverDays { least: 0.5, most: 15.0 / 28.0 });
        assert_eq!(hidden_over_days(&launches[..14]), None);
        assert_eq!(hidden_over_days(&[[0, 0]; 20]), None);
    }
}
