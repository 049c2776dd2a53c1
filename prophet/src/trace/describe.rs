//! Statistics of a log: demand, arrivals, autocorrelation, and the tail.
//!
//! The tail is measured as in "Borg: the Next Generation".

use serde::Serialize;

use super::job::Job;
use super::read::Trace;

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
    /// The tail of the hours of the same resource over jobs.
    pub tail: Tail,
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

/// The tail of the distribution of resource-hours over jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// The variance divided by the squared mean.
    pub squared_coefficient_of_variation: f64,
    /// The share of all resource-hours that the largest 1 % of jobs take, in [0, 1].
    pub top_1_percent_share: f64,
    /// The index of the best-fitting Pareto distribution: the negative slope of log P(X > x) over
    /// log x.
    pub pareto_index: f64,
    /// The lower end of the fitted range, in resource-hours: 1, as in the Borg paper.
    pub pareto_from: f64,
    /// The upper end of the fitted range, in resource-hours: the 99.99th percentile, as in the Borg
    /// paper.
    pub pareto_to: f64,
    /// The coefficient of determination of the fit: the share of variance explained, in [0, 1].
    pub pareto_r2: f64,
}

/// Computes the statistics of a log.
///
/// `offered` is the offered demand per bucket (name, steps of (second, instances)). `tick_seconds`
/// is the distance of the ticks at which demand is sampled, above 0.
pub fn describe(
    trace: &Trace,
    offered: &[(String, Vec<(i64, u64)>)],
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
    let usage = usage(jobs, size, first, last, tick_seconds);
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
        tail: Tail::of(
            jobs.iter()
                .map(|job| size(job) * job.runtime as f64 / 3_600.0)
                .filter(|x| *x > 0.0)
                .collect(),
        ),
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
fn usage(jobs: &[Job], size: impl Fn(&Job) -> f64, first: i64, last: i64, tick: i64) -> Vec<f64> {
    let mut steps: Vec<(i64, f64)> = Vec::with_capacity(2 * jobs.len());
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

impl Tail {
    fn of(mut hours: Vec<f64>) -> Self {
        hours.sort_by(f64::total_cmp);
        let n = hours.len() as f64;
        let sum: f64 = hours.iter().sum();
        let mean = sum / n;
        let variance = hours.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let top: f64 = hours.iter().rev().take(hours.len().div_ceil(100)).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a length"
        )]
        let last = ((n * 0.999_9) as usize).min(hours.len().saturating_sub(1));
        let (from, to) = (1.0, hours.get(last).copied().unwrap_or(f64::NAN));
        let points: Vec<(f64, f64)> = hours
            .iter()
            .enumerate()
            .take(last)
            .filter(|(_, x)| **x >= from)
            .map(|(i, x)| (x.ln(), (1.0 - (i as f64 + 1.0) / n).ln()))
            .collect();
        let (slope, r2) = fit(&points);
        Self {
            squared_coefficient_of_variation: variance / mean.powi(2),
            top_1_percent_share: top / sum,
            pareto_index: -slope,
            pareto_from: from,
            pareto_to: to,
            pareto_r2: r2,
        }
    }
}

/// Fits a line by least squares, and returns its slope and the share of variance explained.
fn fit(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (sx, sy) = points.iter().fold((0.0, 0.0), |(sx, sy), (x, y)| (sx + x, sy + y));
    let (mx, my) = (sx / n, sy / n);
    let (xx, xy, yy) = points.iter().fold((0.0, 0.0, 0.0), |(xx, xy, yy), (x, y)| {
        (xx + (x - mx).powi(2), xy + (x - mx) * (y - my), yy + (y - my).powi(2))
    });
    (xy / xx, xy * xy / (xx * yy))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sample consists of the quantiles of a Pareto distribution of index 1.5.
    #[test]
    fn the_fit_recovers_the_index_of_a_pareto_distribution() {
        let n = 200_000;
        let hours =
            (0..n).map(|i| (1.0 - (f64::from(i) + 0.5) / f64::from(n)).powf(-1.0 / 1.5)).collect();
        let tail = Tail::of(hours);
        assert!((tail.pareto_index - 1.5).abs() < 0.02, "{tail:?}");
        assert!(tail.pareto_r2 > 0.999 && tail.top_1_percent_share > 0.2);
    }

    #[test]
    fn equal_jobs_have_no_tail() {
        let tail = Tail::of(vec![2.0; 1_000]);
        assert!(tail.squared_coefficient_of_variation.abs() < 1e-12);
        assert!((tail.top_1_percent_share - 0.01).abs() < 1e-12);
    }

    #[test]
    fn a_daily_wave_has_a_high_autocorrelation_after_a_day_and_a_low_one_after_half_a_day() {
        let wave: Vec<f64> = (0..24 * 60)
            .map(|hour| (f64::from(hour) / 24.0 * std::f64::consts::TAU).sin())
            .collect();
        assert!(autocorrelation(&wave, 24) > 0.95);
        assert!(autocorrelation(&wave, 12) < -0.95);
        assert!(autocorrelation(&wave[..24], 24).is_nan());
    }
}
