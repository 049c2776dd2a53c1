//! The figures of a run, computed from its log.

use base::days::{DAY_SECONDS, add_by_day, days, within};
use base::tier::Tiers;
use placeholders::Prices;
use serde::{Serialize, Serializer};

use super::log::{JobRecord, NodeRecord, RunLog, WarmRecord};

/// The figures of one run, or their means over several runs.
///
/// A figure that cannot be computed is NaN, which is `null` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The number of jobs that count: those submitted within the window.
    #[serde(serialize_with = "plain")]
    pub jobs: f64,
    /// The time from submission to start, in minutes. A job that never started waits until the end
    /// of the window.
    pub pending_minutes: PendingMinutes,
    /// The time from submission to start in hours, each job weighted by its number of pods.
    #[serde(serialize_with = "plain")]
    pub pending_pod_hours: f64,
    /// The same, where each pod is also weighted by its tier: the hours that the price of waiting
    /// applies to.
    #[serde(serialize_with = "plain")]
    pub weighted_pod_hours: f64,
    /// The share of jobs that waited no longer than one scan of the autoscaler.
    #[serde(serialize_with = "plain")]
    pub jobs_hidden_share: f64,
    /// The number of pods of the jobs that count.
    #[serde(serialize_with = "plain")]
    pub pods: f64,
    /// The service level: the share of pods that waited no longer than one scan of the autoscaler.
    #[serde(serialize_with = "plain")]
    pub pods_hidden_share: f64,
    /// The number of requested nodes.
    #[serde(serialize_with = "plain")]
    pub launches: f64,
    /// The number of requested nodes on which a real pod ran.
    #[serde(serialize_with = "plain")]
    pub used_launches: f64,
    /// The share of used launches that no real pod waited for.
    #[serde(serialize_with = "plain")]
    pub used_launches_hidden_share: f64,
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
    /// The cost beyond `reactive` ([`Bill::cost`]), as a share of the cost of `reactive`'s waiting.
    /// The value -0.4 means that the policy saves 40 % of the latter.
    #[serde(serialize_with = "plain")]
    pub extra_cost: f64,
    /// The packing of the bill, as a share of the cost of `reactive`'s waiting. `extra_cost`
    /// contains it where its interval over the runs excludes 0 ([`Figures::summary`]).
    #[serde(serialize_with = "plain")]
    pub extra_packing: f64,
    /// The dollars of nodes beyond those of `reactive`, per weighted pending pod-hour less than
    /// with `reactive`: the policy pays off where an hour of a waiting pod costs more. It is NaN
    /// where no waiting is removed.
    #[serde(serialize_with = "plain")]
    pub break_even_dollars: f64,
    /// The price of all nodes from request to gone, and of warm pools, in dollars.
    #[serde(serialize_with = "plain")]
    pub dollars: f64,
    /// What is paid beyond `reactive`.
    pub bill: Bill,
    /// The requested nodes, as a multiple of `reactive`'s.
    #[serde(serialize_with = "plain")]
    pub launches_ratio: f64,
    /// How many times a number of placeholders was written.
    #[serde(serialize_with = "plain")]
    pub placeholder_writes: f64,
    /// The number of jobs that count and never started, because no group had room. They are not
    /// hidden.
    #[serde(serialize_with = "plain")]
    pub jobs_never_started: f64,
    /// The number of spot nodes that were taken away within the window.
    #[serde(serialize_with = "plain")]
    pub interruptions: f64,
    /// The number of pods of the jobs that count that were lost with a spot node. They were
    /// submitted again; a pod that was lost twice counts twice.
    #[serde(serialize_with = "plain")]
    pub interrupted_pods: f64,
    /// The hours that these pods had run in vain.
    #[serde(serialize_with = "plain")]
    pub lost_pod_hours: f64,
}

/// The prices of a run.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'a> {
    /// The prices of waiting and of instances.
    pub prices: &'a Prices,
    /// The weights of the jobs' waiting.
    pub tiers: &'a Tiers,
    /// The price of a stopped instance of a warm pool, as a share of the price of a running one.
    pub warm_share: f64,
}

impl Pricing<'_> {
    /// The price of an instance of a warm pool within a window, in dollars.
    fn of_warm(&self, instance: &WarmRecord, window: (i64, i64)) -> f64 {
        let (preparing, stopped) = instance.seconds(window);
        let hours = hours(preparing) + self.warm_share * hours(stopped);
        hours * self.prices.idle(instance.bucket)
    }
}

/// What a run costs beyond `reactive`, in dollars. The parts other than `waiting` add up to the
/// difference of the prices of all nodes and warm pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bill {
    /// The weighted pending pod-hours, at the price of waiting.
    #[serde(serialize_with = "plain")]
    pub waiting: f64,
    /// The hours of ready nodes on which no pod runs, at the prices of their instance types.
    #[serde(serialize_with = "plain")]
    pub idling: f64,
    /// The hours from the request of nodes until they are ready, at the same prices. EC2 bills
    /// them.
    #[serde(serialize_with = "plain")]
    pub launching: f64,
    /// The instances of warm pools: while they are prepared, at the same prices, and while they are
    /// stopped, at a share of them.
    #[serde(serialize_with = "plain")]
    pub warm_pool: f64,
    /// The hours of nodes on which pods run, at the same prices: pods that start at other times
    /// share nodes with other pods.
    #[serde(serialize_with = "plain")]
    pub packing: f64,
}

/// What [`Figures::extra_cost`] is, in words for notes below tables.
pub const COST_NOTE: &str = "what a policy adds to the price of waiting, and to the price of nodes while they idle and launch and of warm pools, as a share of the price of reactive's waiting; with ten replays or more also packing, where its 95 % interval over the replays excludes 0";

impl Bill {
    /// The cost by which policies are compared: waiting, idling, launching and warm pools. Packing
    /// is left out, because a few jobs that share their nodes with others by chance change it by
    /// more than the policies differ.
    pub fn cost(self) -> f64 {
        self.waiting + self.idling + self.launching + self.warm_pool
    }

    /// The price of the nodes and the warm pools.
    pub fn nodes(self) -> f64 {
        self.idling + self.launching + self.warm_pool + self.packing
    }

    fn less(self, other: Self) -> Self {
        Self {
            waiting: self.waiting - other.waiting,
            idling: self.idling - other.idling,
            launching: self.launching - other.launching,
            warm_pool: self.warm_pool - other.warm_pool,
            packing: self.packing - other.packing,
        }
    }
}

/// The distribution of waits over jobs, in minutes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PendingMinutes {
    /// The sum of the waits of all jobs.
    #[serde(serialize_with = "plain")]
    pub sum: f64,
    /// The sum divided by the number of jobs.
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
    /// Computes all figures except those that need the run of `reactive`: `extra_idle`,
    /// `extra_cost`, `extra_packing`, `break_even_dollars` and `launches_ratio`. Nothing is
    /// subtracted from `bill`.
    pub fn of(log: &RunLog, pricing: Pricing<'_>, scan_seconds: i64) -> Self {
        let Pricing { prices, tiers, .. } = pricing;
        let (_, until) = log.window;
        let mut waits: Vec<i64> = log.jobs.iter().map(|job| job.wait_seconds(until)).collect();
        waits.sort_unstable();
        let pod_seconds =
            |job: &JobRecord| job.wait_seconds(until).unsigned_abs().saturating_mul(job.pods);
        let pending: u64 = log.jobs.iter().map(pod_seconds).sum();
        let weighted: f64 = log.jobs.iter().map(|job| weighted_hours(job, until, tiers)).sum();
        let is_quick =
            |job: &&JobRecord| job.ran.is_some() && job.wait_seconds(until) <= scan_seconds;
        let quick = log.jobs.iter().filter(is_quick).count();
        let unstarted = log.jobs.iter().filter(|job| job.ran.is_none()).count();
        let within = |start: i64, end: i64| within(log.window, start, end);
        let requested: Vec<&NodeRecord> = launches(log).collect();
        let used = || requested.iter().filter(|node| node.used);
        let used_hidden = used().filter(|node| !node.waited_for).count();
        let PodCounts { pods, hidden: pods_hidden } = PodCounts::sum(&pods_by_day(log));
        let interrupted = |node: &&NodeRecord| {
            node.interrupted && node.gone.is_some_and(|gone| (log.window.0..until).contains(&gone))
        };
        let lost = |of: fn(&JobRecord) -> f64| log.jobs.iter().map(of).sum::<f64>();
        let (mut alive, mut launching, mut busy) = (0_i64, 0_i64, 0_i64);
        let mut dollars = 0.0;
        let mut bill = Bill { waiting: weighted * prices.wait(), ..Bill::default() };
        for node in &log.nodes {
            let gone = node.gone.unwrap_or(until);
            let ready = node.ready.unwrap_or(gone);
            alive += within(ready, gone);
            launching += within(node.requested, ready);
            busy += node.busy_seconds;
            let hourly = prices.idle(node.bucket);
            dollars += hours(within(node.requested, gone)) * hourly;
            bill.launching += hours(within(node.requested, ready)) * hourly;
            bill.idling += hours(within(ready, gone) - node.busy_seconds) * hourly;
            bill.packing += hours(node.busy_seconds) * hourly;
        }
        bill.warm_pool =
            log.warm.iter().map(|instance| pricing.of_warm(instance, log.window)).sum();
        dollars += bill.warm_pool;
        Self {
            jobs: waits.len() as f64,
            pending_minutes: PendingMinutes::of(&waits),
            pending_pod_hours: pending as f64 / 3_600.0,
            weighted_pod_hours: weighted,
            jobs_hidden_share: quick as f64 / waits.len() as f64,
            pods: pods as f64,
            pods_hidden_share: pods_hidden as f64 / pods as f64,
            launches: requested.len() as f64,
            used_launches: used().count() as f64,
            used_launches_hidden_share: used_hidden as f64 / used().count() as f64,
            instance_hours: hours(alive),
            launching_instance_hours: hours(launching),
            idle_instance_hours: hours(alive - busy),
            extra_idle: f64::NAN,
            extra_cost: f64::NAN,
            extra_packing: f64::NAN,
            break_even_dollars: f64::NAN,
            dollars,
            bill,
            launches_ratio: f64::NAN,
            placeholder_writes: log.placeholder_writes as f64,
            jobs_never_started: unstarted as f64,
            interruptions: log.nodes.iter().filter(interrupted).count() as f64,
            interrupted_pods: lost(|job| job.interrupted.pods as f64),
            lost_pod_hours: lost(|job| job.interrupted.lost_pod_seconds as f64) / 3_600.0,
        }
    }

    /// Returns the figures with those that compare the run with `reactive`, a run of the same jobs.
    #[must_use]
    pub fn beyond(self, reactive: &Self) -> Self {
        let idle_hours = self.idle_instance_hours - reactive.idle_instance_hours;
        let waiting = self.weighted_pod_hours - reactive.weighted_pod_hours;
        let bill = self.bill.less(reactive.bill);
        let break_even = bill.nodes() / -waiting;
        Self {
            extra_idle: idle_hours / reactive.instance_hours,
            extra_cost: bill.cost() / reactive.bill.waiting,
            extra_packing: bill.packing / reactive.bill.waiting,
            break_even_dollars: if waiting < 0.0 { break_even } else { f64::NAN },
            bill,
            launches_ratio: self.launches / reactive.launches,
            ..self
        }
    }

    /// Returns the means over runs that are compared with `reactive`, and their standard errors
    /// when there is more than one run.
    ///
    /// The extra cost contains the packing where there are at least [`PACKING_RUNS_MIN`] runs and
    /// the 95 % interval of the packing excludes 0.
    pub fn summary(runs: &[Self]) -> (Self, Option<Self>) {
        let summary = Self::means(runs);
        let (mean, Some(error)) = summary else { return summary };
        let is_noise = mean.extra_packing.abs() <= STANDARD_ERRORS * error.extra_packing;
        if runs.len() < PACKING_RUNS_MIN || is_noise {
            return summary;
        }
        let with = |run: &Self| Self { extra_cost: run.extra_cost + run.extra_packing, ..*run };
        Self::means(&runs.iter().map(with).collect::<Vec<Self>>())
    }

    fn means(runs: &[Self]) -> (Self, Option<Self>) {
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
            weighted_pod_hours: of(|f| f.weighted_pod_hours),
            jobs_hidden_share: of(|f| f.jobs_hidden_share),
            pods: of(|f| f.pods),
            pods_hidden_share: of(|f| f.pods_hidden_share),
            launches: of(|f| f.launches),
            used_launches: of(|f| f.used_launches),
            used_launches_hidden_share: of(|f| f.used_launches_hidden_share),
            instance_hours: of(|f| f.instance_hours),
            launching_instance_hours: of(|f| f.launching_instance_hours),
            idle_instance_hours: of(|f| f.idle_instance_hours),
            extra_idle: of(|f| f.extra_idle),
            extra_cost: of(|f| f.extra_cost),
            extra_packing: of(|f| f.extra_packing),
            break_even_dollars: of(|f| f.break_even_dollars),
            dollars: of(|f| f.dollars),
            bill: Bill {
                waiting: of(|f| f.bill.waiting),
                idling: of(|f| f.bill.idling),
                launching: of(|f| f.bill.launching),
                warm_pool: of(|f| f.bill.warm_pool),
                packing: of(|f| f.bill.packing),
            },
            launches_ratio: of(|f| f.launches_ratio),
            placeholder_writes: of(|f| f.placeholder_writes),
            jobs_never_started: of(|f| f.jobs_never_started),
            interruptions: of(|f| f.interruptions),
            interrupted_pods: of(|f| f.interrupted_pods),
            lost_pod_hours: of(|f| f.lost_pod_hours),
        }
    }
}

/// The fewest runs whose packing has an interval that is narrow enough to count.
pub(super) const PACKING_RUNS_MIN: usize = 10;

/// The standard errors in half of a 95 % interval of a mean of ten runs: the quantile 0.975 of
/// Student's t distribution with nine degrees of freedom. With more runs, the interval is wider
/// than necessary.
const STANDARD_ERRORS: f64 = 2.262;

/// Reads one figure.
type Get = fn(&Figures) -> f64;

/// What happened on a day of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DayFigures {
    /// The pods that were submitted.
    pub pods: u64,
    /// Those of them that waited no longer than one scan of the autoscaler.
    pub pods_hidden: u64,
    /// The time that these pods waited, in hours.
    pub pending_pod_hours: f64,
    /// The same, where each pod is weighted by its tier.
    pub weighted_pod_hours: f64,
    /// The nodes that were requested.
    pub launches: u64,
    /// The price of the waiting, and of the nodes and warm pools.
    pub bill: Bill,
}

/// Returns the figures of a run by day of the window. The first day begins with the window.
///
/// A job's wait counts on the day of its submission.
pub(crate) fn by_day(log: &RunLog, pricing: Pricing<'_>) -> Vec<DayFigures> {
    let Pricing { prices, tiers, .. } = pricing;
    let (from, until) = log.window;
    let mut all = vec![DayFigures::default(); days(log.window)];
    for (bucket, busy) in log.busy_by_day.iter().enumerate() {
        let (mut launching, mut ready) = (vec![0; all.len()], vec![0; all.len()]);
        for node in log.nodes.iter().filter(|node| node.bucket == bucket) {
            let gone = node.gone.unwrap_or(until);
            let began = node.ready.unwrap_or(gone);
            add_by_day(&mut launching, log.window, node.requested, began);
            add_by_day(&mut ready, log.window, began, gone);
        }
        let price = |seconds: i64| hours(seconds) * prices.idle(bucket);
        let busy = busy.iter().copied().chain(std::iter::repeat(0));
        for (((day, launching), ready), busy) in all.iter_mut().zip(launching).zip(ready).zip(busy)
        {
            day.bill.launching += price(launching);
            day.bill.idling += price(ready - busy);
            day.bill.packing += price(busy);
        }
    }
    let mut begin = from;
    for day in &mut all {
        let end = begin.saturating_add(DAY_SECONDS).min(until);
        day.bill.warm_pool =
            log.warm.iter().map(|instance| pricing.of_warm(instance, (begin, end))).sum();
        begin = end;
    }
    for (day, PodCounts { pods, hidden }) in all.iter_mut().zip(pods_by_day(log)) {
        (day.pods, day.pods_hidden) = (pods, hidden);
    }
    let day_of = |time: i64| usize::try_from((time - from) / DAY_SECONDS).ok();
    for node in log.nodes.iter().filter(|node| (from..until).contains(&node.requested)) {
        if let Some(day) = day_of(node.requested).and_then(|day| all.get_mut(day)) {
            day.launches += 1;
        }
    }
    for job in &log.jobs {
        let Some(day) = day_of(job.submit).and_then(|day| all.get_mut(day)) else { continue };
        let weighted = weighted_hours(job, until, tiers);
        day.pending_pod_hours += hours(job.wait_seconds(until)) * job.pods as f64;
        day.weighted_pod_hours += weighted;
        day.bill.waiting += weighted * prices.wait();
    }
    all
}

/// Returns the cost of a run by day of the window, in pending pod-hours: waiting, idling, launching
/// and warm pools, as in [`Bill::cost`].
pub fn costs_by_day(log: &RunLog, pricing: Pricing<'_>) -> Vec<f64> {
    by_day(log, pricing).iter().map(|day| day.bill.cost() / pricing.prices.wait()).collect()
}

/// The time that a job waited in hours, weighted by its number of pods and by its tier.
fn weighted_hours(job: &JobRecord, until: i64, tiers: &Tiers) -> f64 {
    hours(job.wait_seconds(until)) * job.pods as f64 * tiers.weight_at(job.priority)
}

/// Returns the nodes that were requested for the jobs that count: within the window, or after it
/// while such a job waited.
fn launches(log: &RunLog) -> impl Iterator<Item = &NodeRecord> {
    let (from, until) = log.window;
    let last = log.jobs.iter().filter_map(|job| job.ran).map(|(start, _)| start).max();
    let end = last.unwrap_or(until).max(until);
    log.nodes.iter().filter(move |node| (from..end).contains(&node.requested))
}

/// Pods of jobs that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    /// The number of pods, hidden or not.
    pods: u64,
    /// The pods that waited no longer than one scan of the autoscaler.
    hidden: u64,
}

impl PodCounts {
    #[must_use]
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            pods: self.pods.saturating_add(other.pods),
            hidden: self.hidden.saturating_add(other.hidden),
        }
    }

    fn sum(counts: &[Self]) -> Self {
        counts.iter().fold(Self::default(), |sum, day| sum.plus(*day))
    }
}

/// Returns the pods of the jobs that count, by the day of the window on which they were submitted.
pub(super) fn pods_by_day(log: &RunLog) -> Vec<PodCounts> {
    let (from, _) = log.window;
    let mut all = vec![PodCounts::default(); days(log.window)];
    for job in &log.jobs {
        let day = usize::try_from((job.submit - from) / DAY_SECONDS).ok();
        if let Some(counts) = day.and_then(|day| all.get_mut(day)) {
            *counts = counts.plus(PodCounts { pods: job.pods, hidden: job.pods_hidden });
        }
    }
    all
}

/// Returns the smallest and the largest share of pods hidden over any [`LEVEL_DAYS`] consecutive
/// days.
///
/// Periods without a pod are skipped. Returns `None` when there are at most [`LEVEL_DAYS`] days, or
/// no pods.
pub(super) fn hidden_over_days(pods: &[PodCounts]) -> Option<HiddenOverDays> {
    if pods.len() <= LEVEL_DAYS {
        return None;
    }
    let share = |days| {
        let PodCounts { pods, hidden } = PodCounts::sum(days);
        (pods > 0).then(|| hidden as f64 / pods as f64)
    };
    let shares: Vec<f64> = pods.windows(LEVEL_DAYS).filter_map(share).collect();
    let least = shares.iter().copied().reduce(f64::min)?;
    let most = shares.iter().copied().reduce(f64::max)?;
    Some(HiddenOverDays { least, most })
}

/// The length in days of the periods over which a service level must hold. A service level is
/// promised over any two weeks.
pub(crate) const LEVEL_DAYS: usize = 14;

/// The range of the share of hidden pods over periods of `LEVEL_DAYS` days, in [0, 1].
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
    use placeholders::Objective;

    use super::*;
    use crate::spot::Interrupted;

    const HOUR: i64 = 3_600;

    fn node(requested: i64, ready: Option<i64>, gone: Option<i64>) -> NodeRecord {
        NodeRecord {
            id: 0,
            bucket: 0,
            group: 0,
            requested,
            ready,
            gone,
            busy_seconds: 0,
            used: false,
            waited_for: false,
            interrupted: false,
        }
    }

    /// A job with `pods` pods that waits for `hours`.
    fn job(submit: i64, hours: i64, pods: u64) -> JobRecord {
        let start = submit + hours * HOUR;
        let pods_hidden = if hours == 0 { pods } else { 0 };
        JobRecord {
            index: 0,
            submit,
            ran: Some((start, start)),
            pods,
            pods_hidden,
            priority: 0,
            instances: 1,
            interrupted: Interrupted::default(),
        }
    }

    /// The prices of one bucket: a pending pod-hour costs $36, an idle instance-hour $9.
    fn prices() -> Prices {
        let catalog = testkit::catalog([("eight", 8_000, 9.0)]);
        Prices::new(Objective::WaitRatio(4.0), &catalog)
    }

    fn pricing<'a>(prices: &'a Prices, tiers: &'a Tiers) -> Pricing<'a> {
        Pricing { prices, tiers, warm_share: 0.02 }
    }

    /// An instance of a warm pool is prepared for an hour, for $9, and stopped for 50 hours, for as
    /// much: the last hour of the first day, and the second day, are in the window.
    #[test]
    fn a_warm_pool_costs_its_preparation_and_a_share_while_it_is_stopped() {
        let day = 24 * HOUR;
        let instance =
            WarmRecord { bucket: 0, group: 0, requested: 0, stopped: Some(HOUR), gone: None };
        let log = |window| RunLog {
            window,
            warm: vec![instance],
            busy_by_day: vec![vec![0]],
            ..RunLog::default()
        };
        let (prices, tiers) = (prices(), Tiers::default());
        let pool = |window| Figures::of(&log(window), pricing(&prices, &tiers), 10).bill.warm_pool;
        assert_eq!((pool((0, 51 * HOUR)), pool((2 * HOUR, 52 * HOUR))), (18.0, 9.0));
        let by_day = costs_by_day(&log((0, 2 * day)), pricing(&prices, &tiers));
        let expected = [9.0 + 23.0 * 0.18, 24.0 * 0.18].map(|dollars| dollars / 36.0);
        assert_eq!(by_day, expected);
        let figures = Figures::of(&log((0, 2 * day)), pricing(&prices, &tiers), 10);
        assert_eq!(
            (figures.dollars, figures.bill.nodes()),
            (figures.bill.warm_pool, figures.dollars)
        );
    }

    /// The window is 36 hours and starts at noon. The first node is ready for the whole window, and
    /// runs pods for four hours on the first day and for two hours on the second. The second node
    /// launches for two hours and is idle for three: one of these on the first day and two on the
    /// second. On the first day, a job with two pods waits for two hours. On the second day, a job
    /// with one pod waits for one hour.
    #[test]
    fn costs_are_assigned_to_the_day_on_which_they_arise() {
        let noon = 12 * HOUR;
        let log = RunLog {
            window: (noon, noon + 36 * HOUR),
            nodes: vec![
                node(0, Some(noon), None),
                node(noon + 21 * HOUR, Some(noon + 23 * HOUR), Some(noon + 26 * HOUR)),
            ],
            jobs: vec![job(noon, 2, 2), job(noon + 25 * HOUR, 1, 1)],
            busy_by_day: vec![vec![4 * HOUR, 2 * HOUR]],
            ..RunLog::default()
        };
        assert_eq!(
            costs_by_day(&log, pricing(&prices(), &Tiers::default())),
            [23.0 / 4.0 + 4.0, 12.0 / 4.0 + 1.0]
        );
    }

    /// Three of four pods are hidden. Of the used nodes one of two is. A further node that no pod
    /// uses changes neither share.
    #[test]
    fn an_unused_launch_raises_no_share() {
        let prices = prices();
        let used = |waited_for| NodeRecord { used: true, waited_for, ..node(HOUR, None, None) };
        let unused = || node(HOUR, Some(2 * HOUR), None);
        let shares = |unused: Vec<NodeRecord>| {
            let log = RunLog {
                window: (0, 48 * HOUR),
                nodes: [used(true), used(false)].into_iter().chain(unused).collect(),
                jobs: vec![job(0, 0, 3), job(HOUR, 1, 1)],
                busy_by_day: vec![vec![0, 0]],
                ..RunLog::default()
            };
            let figures = Figures::of(&log, pricing(&prices, &Tiers::default()), 10);
            let used = (figures.used_launches, figures.used_launches_hidden_share);
            (figures.launches, used, figures.pods_hidden_share)
        };
        assert_eq!(shares(vec![]), (2.0, (2.0, 0.5), 0.75));
        assert_eq!(shares(vec![unused(), unused()]), (4.0, (2.0, 0.5), 0.75));
    }

    /// The window ends at the submission of the second job, whose node is requested afterwards. The
    /// third job never starts.
    #[test]
    fn jobs_that_never_start_and_late_launches_count() {
        let prices = prices();
        let never = JobRecord { ran: None, ..job(0, 0, 0) };
        let log = RunLog {
            window: (0, HOUR),
            nodes: vec![
                node(0, None, None),
                node(HOUR + 10, None, None),
                node(9 * HOUR, None, None),
            ],
            jobs: vec![job(0, 0, 1), job(HOUR - 1, 1, 1), JobRecord { pods: 2, ..never }],
            busy_by_day: vec![vec![0]],
            ..RunLog::default()
        };
        let figures = Figures::of(&log, pricing(&prices, &Tiers::default()), 10);
        assert_eq!((figures.jobs, figures.jobs_never_started, figures.launches), (3.0, 1.0, 2.0));
        assert_eq!((figures.pods_hidden_share, figures.jobs_hidden_share), (0.25, 1.0 / 3.0));
        assert_eq!((figures.pending_minutes.sum, figures.pending_pod_hours), (120.0, 3.0));
    }

    /// An idle hour of the dear bucket costs ten times as much as one of the cheap bucket, and the
    /// policy pays off where an hour of waiting costs more than $5.
    #[test]
    fn idling_and_nodes_cost_the_price_of_their_bucket() {
        let catalog = testkit::catalog([("cheap", 8_000, 1.0), ("dear", 8_000, 10.0)]);
        let prices = Prices::new(Objective::WaitCost(20.0), &catalog);
        let figures = |bucket: usize, hours: i64| {
            let log = RunLog {
                window: (0, 24 * HOUR),
                nodes: vec![NodeRecord { bucket, ..node(0, Some(0), Some(HOUR)) }],
                jobs: vec![job(0, hours, 1)],
                busy_by_day: vec![vec![0]; 2],
                ..RunLog::default()
            };
            Figures::of(&log, pricing(&prices, &Tiers::default()), 10)
        };
        let (reactive, policy) = (figures(0, 2), figures(1, 0));
        assert_eq!((reactive.bill.idling, policy.bill.idling), (1.0, 10.0));
        let policy = policy.beyond(&reactive);
        assert_eq!((policy.extra_cost, policy.break_even_dollars), ((9.0 / 20.0 - 2.0) / 2.0, 4.5));
        assert!(reactive.beyond(&reactive).break_even_dollars.is_nan());
    }

    /// In runs of a pod that waits for an hour instead of two, for $36 each, the node is busy for
    /// some hours longer, for $9 each.
    #[test]
    fn packing_counts_where_ten_runs_agree_on_its_sign() {
        let prices = prices();
        let figures = |waits: i64, busy: i64| {
            let log = RunLog {
                window: (0, 24 * HOUR),
                nodes: vec![NodeRecord { busy_seconds: busy * HOUR, ..node(0, Some(0), None) }],
                jobs: vec![job(0, waits, 1)],
                busy_by_day: vec![vec![busy * HOUR]],
                ..RunLog::default()
            };
            Figures::of(&log, pricing(&prices, &Tiers::default()), 10)
        };
        let reactive = figures(2, 4);
        let cost = |longer: &[i64]| {
            let run = |hours: &i64| figures(1, 4 + hours).beyond(&reactive);
            let runs: Vec<Figures> = longer.iter().map(run).collect();
            let (mean, _) = Figures::summary(&runs);
            (mean.extra_packing, mean.extra_cost)
        };
        // An hour that a node is busy for longer is an hour in which it does not idle.
        assert_eq!(cost(&[2; 9]), (18.0 / 72.0, (-36.0 - 18.0) / 72.0));
        assert_eq!(cost(&[2; 10]), (18.0 / 72.0, -36.0 / 72.0));
        let noisy: Vec<i64> = (0..10).map(|run| 5 - 8 * (run % 2)).collect();
        let (packing, of_noisy) = cost(&noisy);
        assert!((of_noisy - (-36.0 / 72.0 - packing)).abs() < 1e-12, "{packing} {of_noisy}");
    }

    /// The window has 16 days. On the first day both pods are hidden, on each other day one of two.
    #[test]
    fn the_hidden_share_is_measured_over_every_period_of_two_weeks() {
        let day = |day: i64, hours| job(24 * HOUR * day + HOUR, hours, 1);
        let halves = (1..16).flat_map(|at| [day(at, 1), day(at, 0)]);
        let jobs = [day(0, 0), day(0, 0)].into_iter().chain(halves).collect();
        let log = RunLog { window: (0, 16 * 24 * HOUR), jobs, ..RunLog::default() };
        let pods = pods_by_day(&log);
        let counts = |pods, hidden| PodCounts { pods, hidden };
        assert_eq!((pods[0], pods[15], pods.len()), (counts(2, 2), counts(2, 1), 16));
        let over = hidden_over_days(&pods).unwrap();
        assert_eq!(over, HiddenOverDays { least: 0.5, most: 15.0 / 28.0 });
        assert_eq!(hidden_over_days(&pods[..14]), None);
        assert_eq!(hidden_over_days(&[PodCounts::default(); 20]), None);
    }
}
