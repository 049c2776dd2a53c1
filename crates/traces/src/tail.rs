//! The distribution of what jobs consume, as in "Borg: the Next Generation".

use serde::Serialize;

use super::job::Job;

/// The distribution of one resource over jobs. A figure that cannot be computed is NaN, which is
/// `null` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Consumption {
    /// The resource: `accelerator-hours`, `core-hours` or `GiB-hours`, of requests.
    pub resource: String,
    /// The number of jobs that request it.
    pub jobs: usize,
    /// The hours of a job: percentiles, by the nearest rank.
    pub percentiles: Percentiles,
    /// The mean of the hours.
    pub mean: f64,
    /// The variance of the hours.
    pub variance: f64,
    /// The tail of the hours.
    pub tail: Tail,
    /// The points (hours, share of jobs above them) of the complementary distribution.
    #[serde(skip)]
    pub ccdf: Vec<(f64, f64)>,
}

/// Percentiles of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The maximum.
    pub max: f64,
}

/// The tail of the distribution of resource-hours over jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// C²: the variance divided by the squared mean.
    pub squared_coefficient_of_variation: f64,
    /// The share of all resource-hours that the largest 1 % of jobs take, in [0, 1].
    pub top_1_percent_share: f64,
    /// The share of all resource-hours that the largest 0.1 % of jobs take, in [0, 1].
    pub top_0_1_percent_share: f64,
    /// The mean queueing delay of a queue with one server, half of whose time is busy, in mean
    /// sizes of jobs, by the formula of Pollaczek and Khinchine. It is 1 for an exponential
    /// distribution.
    pub delay_at_half_load: f64,
    /// The same at each of the [`LOADS`].
    pub delays: [Delay; LOADS.len()],
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

/// The mean queueing delay of a queue with one server at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delay {
    /// The share of time in which the server is busy, in (0, 1).
    pub load: f64,
    /// The delay in mean sizes of jobs. It is load / (1 - load) for an exponential distribution.
    pub delay: f64,
}

/// The loads at which the delay is computed.
const LOADS: [f64; 6] = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95];

/// The resources of jobs: the name of their hours, and the amount that a unit requests.
type Amount = fn(&Job) -> f64;
pub(super) const RESOURCES: [(&str, Amount); 3] = [
    ("accelerator-hours", |job| job.work.unit.accelerators as f64),
    ("core-hours", |job| job.work.unit.cpu_millis as f64 / 1_000.0),
    ("GiB-hours", |job| job.work.unit.memory_bytes as f64 / 1_073_741_824.0),
];

/// Returns the hours of a resource that a job requests.
fn hours(job: &Job, amount: Amount) -> f64 {
    job.work.units as f64 * amount(job) * job.runtime as f64 / 3_600.0
}

/// Describes the hours of each resource that jobs request.
pub(super) fn consumption(jobs: &[Job]) -> Vec<Consumption> {
    let of_resource = |(name, amount): (&str, Amount)| {
        let all = jobs.iter().map(|job| hours(job, amount)).filter(|hours| *hours > 0.0);
        let all: Vec<f64> = all.collect();
        (!all.is_empty()).then(|| Consumption::of(name, all))
    };
    RESOURCES.into_iter().filter_map(of_resource).collect()
}

/// Returns Pearson's correlation coefficient of core-hours and GiB-hours over the jobs that request
/// both, in [-1, 1]. NaN if there are too few.
pub(super) fn correlation(jobs: &[Job]) -> f64 {
    let [_, (_, cores), (_, memory)] = RESOURCES;
    let pairs = jobs.iter().map(|job| (hours(job, cores), hours(job, memory)));
    let pairs: Vec<(f64, f64)> = pairs.filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
    let (slope, r2) = fit(&pairs);
    r2.sqrt().copysign(slope)
}

/// The mean queueing delay of a queue with one server, in mean sizes of jobs, by the formula of
/// Pollaczek and Khinchine: ρ/(1-ρ) × (C²+1)/2.
fn queueing_delay(load: f64, squared_coefficient_of_variation: f64) -> f64 {
    load / (1.0 - load) * f64::midpoint(squared_coefficient_of_variation, 1.0)
}

impl Percentiles {
    /// Of values in ascending order.
    pub(super) fn of(sorted: &[f64]) -> Self {
        let at = |thousandths: usize| {
            let rank = (sorted.len() * thousandths).div_ceil(1_000).max(1);
            sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
        };
        Self { p50: at(500), p90: at(900), p99: at(990), p99_9: at(999), max: at(1_000) }
    }
}

impl Consumption {
    pub(super) fn of(resource: &str, mut hours: Vec<f64>) -> Self {
        hours.sort_by(f64::total_cmp);
        let n = hours.len() as f64;
        let mean = hours.iter().sum::<f64>() / n;
        let variance = hours.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        Self {
            resource: resource.into(),
            jobs: hours.len(),
            percentiles: Percentiles::of(&hours),
            mean,
            variance,
            tail: Tail::of(&hours),
            ccdf: ccdf(&hours),
        }
    }
}

/// The most points of a plotted distribution.
const POINTS_MAX: usize = 400;

/// Returns points (value, share of values above it) of values in ascending order, for a plot with
/// logarithmic axes. They are dense in the tail.
pub(super) fn ccdf(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let share =
        |step: usize| 10_f64.powf(-(step as f64) * (n.max(2) as f64).log10() / POINTS_MAX as f64);
    let mut points: Vec<(f64, f64)> = Vec::new();
    for above in (1..POINTS_MAX).map(share) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of n")]
        let rank = ((1.0 - above) * n as f64) as usize;
        let Some(&value) = sorted.get(rank).filter(|value| **value > 0.0) else { continue };
        if points.last().is_none_or(|last| last.0 < value) {
            points.push((value, above));
        }
    }
    points
}

impl Tail {
    /// Of hours in ascending order.
    fn of(hours: &[f64]) -> Self {
        let n = hours.len() as f64;
        let sum: f64 = hours.iter().sum();
        let mean = sum / n;
        let variance = hours.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let top =
            |parts: usize| hours.iter().rev().take(hours.len().div_ceil(parts)).sum::<f64>() / sum;
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
        let squared_coefficient_of_variation = variance / mean.powi(2);
        Self {
            squared_coefficient_of_variation,
            top_1_percent_share: top(100),
            top_0_1_percent_share: top(1_000),
            delay_at_half_load: queueing_delay(0.5, squared_coefficient_of_variation),
            delays: LOADS.map(|load| {
                let delay = queueing_delay(load, squared_coefficient_of_variation);
                Delay { load, delay }
            }),
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
    use embedder::{AcceleratorKind, Resources};

    use super::*;
    use crate::{Admits, Work};

    fn near(got: f64, expected: f64, distance: f64) {
        assert!((got - expected).abs() <= distance, "{got} is not {expected}");
    }

    /// The sample consists of the quantiles of a Pareto distribution of index 1.5.
    #[test]
    fn the_fit_recovers_the_index_of_a_pareto_distribution() {
        let n = 200_000;
        let hours =
            (0..n).map(|i| (1.0 - (f64::from(i) + 0.5) / f64::from(n)).powf(-1.0 / 1.5)).collect();
        let Consumption { tail, ccdf, .. } = Consumption::of("x", hours);
        near(tail.pareto_index, 1.5, 0.02);
        assert!(tail.pareto_r2 > 0.999 && tail.top_1_percent_share > 0.2);
        // The plotted points are on the same line, up to the ranks of the largest 0.1 %.
        for (x, above) in ccdf.into_iter().filter(|point| point.1 > 0.001) {
            near(above.ln(), -1.5 * x.ln(), 0.02);
        }
    }

    #[test]
    fn equal_jobs_have_no_tail() {
        let Consumption { tail, percentiles, mean, variance, .. } =
            Consumption::of("x", vec![2.0; 1_000]);
        near(tail.squared_coefficient_of_variation, 0.0, 1e-12);
        near(tail.top_1_percent_share, 0.01, 1e-12);
        near(tail.top_0_1_percent_share, 0.001, 1e-12);
        // A deterministic size halves the delay of an exponential one.
        near(tail.delay_at_half_load, 0.5, 1e-12);
        assert_eq!((percentiles.p50, percentiles.max, mean, variance), (2.0, 2.0, 2.0, 0.0));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let values: Vec<f64> = (1..=1_000).map(f64::from).collect();
        let expected = Percentiles { p50: 500.0, p90: 900.0, p99: 990.0, p99_9: 999.0, max: 1e3 };
        assert_eq!(Percentiles::of(&values), expected);
        near(Percentiles::of(&values[..1]).p50, 1.0, 0.0);
        assert!(Percentiles::of(&[]).p50.is_nan());
    }

    #[test]
    fn the_delay_of_exponential_sizes_is_the_load_over_the_idle_share() {
        near(queueing_delay(0.5, 1.0), 1.0, 1e-12);
        near(queueing_delay(0.9, 1.0), 9.0, 1e-12);
        near(queueing_delay(0.5, 23_312.0), 11_656.5, 1e-9);
    }

    #[test]
    fn hours_that_are_proportional_correlate() {
        let job = |cores: u64, gib: u64| Job {
            name: "j".into(),
            user: "u".into(),
            submit: 0,
            runtime: 3_600,
            priority: 0,
            after: Box::default(),
            work: Work {
                units: 2,
                unit: Resources {
                    cpu_millis: 1_000 * cores,
                    memory_bytes: gib << 30,
                    ..Resources::default()
                },
                accelerator_kind: AcceleratorKind::default(),
                split: None,
                admits: Admits::All,
            },
        };
        let jobs = |pairs: &[(u64, u64)]| -> Vec<Job> {
            pairs.iter().map(|&(cores, gib)| job(cores, gib)).collect()
        };
        near(correlation(&jobs(&[(1, 4), (2, 8), (5, 20), (3, 0)])), 1.0, 1e-12);
        near(correlation(&jobs(&[(1, 9), (2, 8), (3, 7)])), -1.0, 1e-12);
        assert!(correlation(&jobs(&[(1, 1)])).is_nan());
        let found = consumption(&jobs(&[(1, 4), (3, 0)]));
        let names: Vec<_> = found.iter().map(|it| (it.resource.as_str(), it.jobs)).collect();
        assert_eq!(names, [("core-hours", 2), ("GiB-hours", 1)]);
        near(found[0].percentiles.max, 6.0, 0.0);
    }
}
