//! Statistics of a log: demand, arrivals, autocorrelation, tiers, scheduling delays and
//! consumption.
//!
//! They are those of "Borg: the Next Generation", as far as a log of jobs has them.

use serde::Serialize;

use super::allocation::Allocation;
use super::detect::Format;
use super::job::Job;
use super::read::Trace;
use super::tail::{Consumption, Percentiles, ccdf, consumption, correlation};
use super::tiers::by_tier;

/// The statistics of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The path of the log, or the name of the example.
    pub trace: String,
    /// The name of the format.
    pub format: String,
    /// The number of jobs that ran.
    pub jobs: usize,
    /// The first submission, in the log's seconds.
    pub first_submit: i64,
    /// Days from the first submission to the last.
    pub days: f64,
    /// The counts of rows that the reader omitted or changed.
    pub notes: String,
    /// Pods that request a share of an accelerator, which counts as a whole accelerator.
    pub accelerators_rounded_up: u64,
    /// Offered demand per bucket, in instances.
    pub demand: Vec<BucketDemand>,
    /// The number of jobs submitted in each hour of the day, from midnight of the log's clock.
    pub arrivals_by_hour: [u64; 24],
    /// The autocorrelation of offered demand in accelerators, or in cores if the log has none.
    pub autocorrelation: Autocorrelation,
    /// The resource-hours that jobs request, by resource.
    pub consumption: Vec<Consumption>,
    /// Pearson's correlation of the core-hours and the GiB-hours of jobs, in [-1, 1]. NaN if the
    /// log lacks one of them.
    pub cpu_memory_correlation: f64,
    /// The times between two submissions.
    pub inter_arrival: InterArrival,
    /// Submissions by tier, the largest first. Empty for a log longer than ten years.
    pub tiers: Vec<LogTier>,
    /// The scheduling delays of pods by tier, the largest first. Empty for logs of other systems,
    /// whose delays depend on their machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scheduling_delays: Vec<TierDelays>,
    /// The shares of the machines that jobs request and use, if the machines are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<Allocation>,
}

/// The times between two submissions, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InterArrival {
    /// The mean over all pairs of consecutive jobs.
    pub mean: f64,
    /// Percentiles, by the nearest rank.
    pub percentiles: Percentiles,
    /// The points (seconds, share of times above them) of the complementary distribution.
    #[serde(skip)]
    pub ccdf: Vec<(f64, f64)>,
}

/// The jobs of one tier: of a priority, or of a range of priorities of Borg.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogTier {
    /// The name of the tier.
    pub tier: String,
    /// The number of jobs.
    pub jobs: usize,
    /// The share of the resource-hours of all jobs, in accelerators, or in cores if the log has no
    /// accelerators.
    pub share: f64,
    /// The mean number of jobs submitted in an hour.
    pub mean_per_hour: f64,
    /// The number of jobs submitted in an hour: percentiles over the hours of the log.
    pub per_hour: Percentiles,
    /// The points (jobs per hour, share of hours above them) of the complementary distribution.
    #[serde(skip)]
    pub ccdf: Vec<(f64, f64)>,
    /// The resource in use at ticks, as (second, amount), if jobs run from their submission.
    #[serde(skip)]
    pub usage: Vec<(f64, f64)>,
}

/// The time from the creation of pods to their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingDelay {
    /// The priority of the pods.
    pub priority: i32,
    /// The number of pods.
    pub pods: u64,
    /// The time, in seconds, at least 0.
    pub seconds: i64,
}

/// The scheduling delays of the pods of one tier, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierDelays {
    /// The name of the tier.
    pub tier: String,
    /// The number of pods.
    pub pods: usize,
    /// Percentiles, by the nearest rank.
    pub percentiles: Percentiles,
    /// The points (seconds, share of pods above them) of the complementary distribution.
    #[serde(skip)]
    pub ccdf: Vec<(f64, f64)>,
}

/// Offered demand of one bucket at ticks, in instances.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BucketDemand {
    /// The name of the bucket.
    pub bucket: String,
    /// The mean over ticks.
    pub mean: f64,
    /// The 95th percentile over ticks.
    pub p95: u64,
    /// The maximum over ticks.
    pub peak: u64,
}

/// The autocorrelation of demand, in [-1, 1]. It is NaN if the log is too short or the lag is
/// shorter than a tick.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Autocorrelation {
    /// At a lag of one tick.
    pub tick: f64,
    /// At a lag of one hour.
    pub hour: f64,
    /// At a lag of one day.
    pub day: f64,
}

/// Computes the statistics of a log.
///
/// `offered` is the offered demand per bucket (name, steps of (second, instances)). `delays` are
/// those of the pods, if they are known, and `allocation` has the shares of the machines, likewise.
/// `tick_seconds` is the distance of the ticks at which
/// demand is sampled, above 0.
pub fn describe(
    trace: &Trace,
    offered: &[(String, Vec<(i64, u64)>)],
    delays: &[SchedulingDelay],
    allocation: Option<Allocation>,
    tick_seconds: i64,
) -> Description {
    let jobs = &trace.jobs;
    let (first, last) =
        (jobs.first().map_or(0, |job| job.submit), jobs.last().map_or(0, |job| job.submit));
    let mut arrivals_by_hour = [0; 24];
    for job in jobs {
        let hour = usize::try_from(job.submit.rem_euclid(86_400) / 3_600).unwrap_or(0);
        arrivals_by_hour[hour] += 1;
    }
    let ticks = |steps: &[(i64, u64)]| sample(steps, first, last, tick_seconds);
    let demand = offered.iter().map(|(name, steps)| BucketDemand::of(name, ticks(steps))).collect();
    let accelerators = jobs.iter().any(|job| job.work.unit.accelerators > 0);
    let size = |job: &Job| {
        let unit = job.work.unit;
        job.work.units as f64
            * if accelerators { unit.accelerators as f64 } else { unit.cpu_millis as f64 / 1_000.0 }
    };
    let usage = usage(jobs.iter(), size, first, last, tick_seconds);
    // The autocorrelation at a lag shorter than a tick is unknown.
    let lag = |seconds: i64| match usize::try_from(seconds / tick_seconds) {
        Ok(ticks) if ticks > 0 => autocorrelation(&usage, ticks),
        _ => f64::NAN,
    };
    Description {
        trace: trace.source.clone(),
        format: trace.format.label().into(),
        jobs: jobs.len(),
        first_submit: first,
        days: (last - first) as f64 / 86_400.0,
        notes: trace.notes.to_string(),
        accelerators_rounded_up: trace.notes.rounded_up,
        demand,
        arrivals_by_hour,
        autocorrelation: Autocorrelation {
            tick: lag(tick_seconds),
            hour: lag(3_600),
            day: lag(86_400),
        },
        consumption: consumption(jobs),
        cpu_memory_correlation: correlation(jobs),
        inter_arrival: InterArrival::of(jobs),
        tiers: tiers(trace, size, (first, last)),
        scheduling_delays: scheduling_delays(trace.format, delays),
        allocation,
    }
}

impl BucketDemand {
    fn of(name: &str, mut ticks: Vec<u64>) -> Self {
        ticks.sort_unstable();
        let mean = ticks.iter().sum::<u64>() as f64 / ticks.len().max(1) as f64;
        let p95 = ticks.get((ticks.len() * 95).div_ceil(100).max(1) - 1).copied().unwrap_or(0);
        Self { bucket: name.into(), mean, p95, peak: ticks.last().copied().unwrap_or(0) }
    }
}

fn ticks(first: i64, last: i64, tick: i64) -> impl Iterator<Item = i64> {
    (0..=(last - first) / tick).map(move |i| first + i * tick)
}

/// The value of a step function at each tick.
fn sample(steps: &[(i64, u64)], first: i64, last: i64, tick: i64) -> Vec<u64> {
    let (mut at, mut now) = (0, 0);
    let value = |time| {
        while let Some(&(_, value)) = steps.get(at).filter(|(step, _)| *step <= time) {
            now = value;
            at += 1;
        }
        now
    };
    ticks(first, last, tick).map(value).collect()
}

/// The resource in use at each tick, if each job runs from its submission to submission + runtime.
fn usage<'a>(
    jobs: impl Iterator<Item = &'a Job>,
    size: impl Fn(&Job) -> f64,
    first: i64,
    last: i64,
    tick: i64,
) -> Vec<f64> {
    let mut steps: Vec<(i64, f64)> = Vec::new();
    for job in jobs {
        steps.push((job.submit, size(job)));
        steps.push((job.submit.saturating_add(job.runtime), -size(job)));
    }
    steps.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let (mut at, mut now) = (0, 0.0);
    let value = |time| {
        while let Some(&(_, change)) = steps.get(at).filter(|(step, _)| *step <= time) {
            now += change;
            at += 1;
        }
        now
    };
    ticks(first, last, tick).map(value).collect()
}

fn autocorrelation(series: &[f64], lag: usize) -> f64 {
    if series.len() <= lag + 1 {
        return f64::NAN;
    }
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let variance: f64 = series.iter().map(|x| (x - mean).powi(2)).sum();
    let together: f64 =
        series.iter().zip(&series[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum();
    together / variance
}

impl InterArrival {
    /// Returns the times between the submissions of `jobs`, which are in the order of submission.
    fn of(jobs: &[Job]) -> Self {
        let times = jobs.windows(2).map(|pair| (pair[1].submit - pair[0].submit) as f64);
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        Self { mean, percentiles: Percentiles::of(&times), ccdf: ccdf(&times) }
    }
}

/// The longest log whose hours are counted: ten years.
const HOURS_MAX: usize = 10 * 366 * 24;

/// The most points of a line of usage.
const USAGE_POINTS: i64 = 300;

fn scheduling_delays(format: Format, delays: &[SchedulingDelay]) -> Vec<TierDelays> {
    let of_pods = |delay: &SchedulingDelay| {
        let pods = usize::try_from(delay.pods).unwrap_or(usize::MAX);
        std::iter::repeat_n((delay.priority, delay.seconds as f64), pods)
    };
    let each = |(tier, mut seconds): (String, Vec<f64>)| {
        seconds.sort_by(f64::total_cmp);
        let (pods, percentiles) = (seconds.len(), Percentiles::of(&seconds));
        TierDelays { tier, pods, percentiles, ccdf: ccdf(&seconds) }
    };
    by_tier(format, delays.iter().flat_map(of_pods)).into_iter().map(each).collect()
}

fn tiers(trace: &Trace, size: impl Fn(&Job) -> f64, (first, last): (i64, i64)) -> Vec<LogTier> {
    let hours = usize::try_from((last - first) / 3_600).unwrap_or(usize::MAX).saturating_add(1);
    if hours > HOURS_MAX {
        return Vec::new();
    }
    let all = by_tier(trace.format, trace.jobs.iter().map(|job| (job.priority, job)));
    let amount = |job: &Job| size(job) * job.runtime as f64;
    let total: f64 = trace.jobs.iter().map(amount).sum();
    let step = ((last - first) / USAGE_POINTS).max(3_600);
    let each = |(tier, mut jobs): (String, Vec<&Job>)| {
        jobs.sort_by_key(|job| job.submit);
        let mut counts = vec![0.0; hours];
        for job in &jobs {
            let hour = usize::try_from((job.submit - first) / 3_600).unwrap_or(0);
            counts[hour.min(hours - 1)] += 1.0;
        }
        counts.sort_by(f64::total_cmp);
        let used = usage(jobs.iter().copied(), &size, first, last, step);
        let times = ticks(first, last, step).map(|time| time as f64);
        LogTier {
            tier,
            jobs: jobs.len(),
            share: jobs.iter().copied().map(amount).sum::<f64>() / total,
            mean_per_hour: jobs.len() as f64 / hours as f64,
            per_hour: Percentiles::of(&counts),
            ccdf: ccdf(&counts),
            usage: times.zip(used).collect(),
        }
    };
    all.into_iter().map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daily_wave_has_a_high_autocorrelation_after_a_day_and_a_low_one_after_half_a_day() {
        let wave: Vec<f64> = (0..24 * 60)
            .map(|hour| (f64::from(hour) / 24.0 * std::f64::consts::TAU).sin())
            .collect();
        assert!(autocorrelation(&wave, 24) > 0.95);
        assert!(autocorrelation(&wave, 12) < -0.95);
        assert!(autocorrelation(&wave[..24], 24).is_nan());
    }

    #[test]
    fn scheduling_delays_are_of_pods_by_tier() {
        let delay = |priority, pods, seconds| SchedulingDelay { priority, pods, seconds };
        let delays = [delay(0, 8, 0), delay(0, 1, 60), delay(0, 1, 90), delay(100, 2, 5)];
        let by_tier = scheduling_delays(Format::History, &delays);
        let tiers: Vec<(&str, usize)> =
            by_tier.iter().map(|one| (one.tier.as_str(), one.pods)).collect();
        assert_eq!(tiers, [("priority 0", 10), ("priority 100", 2)]);
        let Percentiles { p50, p90, max, .. } = by_tier[0].percentiles;
        assert_eq!([p50, p90, max].map(f64::to_bits), [0.0, 60.0, 90.0].map(f64::to_bits));
        assert_eq!(scheduling_delays(Format::History, &[]), []);
    }
}
