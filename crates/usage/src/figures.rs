//! The paper's figures of limits over time: footprint, slack, kills and changes (section 4).

use serde::Serialize;

use super::ladder::MEMORY_UNIT_BYTES;
use super::sample::{SAMPLE_SECONDS, UsageSample};

/// The number of samples of a container in a day: 288, one every five minutes.
pub(super) const DAY_SAMPLES: i64 = 86_400 / SAMPLE_SECONDS;

/// The figures of the limits of containers over their job-days. A job-day is a day on which a
/// container was measured.
///
/// A figure that cannot be computed is NaN, which is `null` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LimitFigures {
    /// The mean over days of the sum of all pods' limits, in cores.
    pub footprint_cores: f64,
    /// The same of memory, in bytes.
    pub footprint_memory_bytes: f64,
    /// The share of the limits of CPU that is not used.
    pub slack_cpu: f64,
    /// The same of memory.
    pub slack_memory: f64,
    /// The share of the samples of pods whose CPU was above its limit on average.
    pub cpu_above_limit_share: f64,
    /// The share of job-days on which a pod's memory was above its limit, so that it would have
    /// been killed.
    pub oom_day_share: f64,
    /// The kills per pod and day.
    pub ooms_per_pod_day: f64,
    /// The changes of limits per job-day.
    pub changes_per_day: f64,
}

/// Limits of a container, in thousandths of a core and in bytes. `None` and 0 are no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) cpu_millis: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
}

/// Sums over samples, from which figures are computed. Sums of several containers add up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitSums {
    cpu: ResourceSums,
    memory: ResourceSums,
    /// Pods times samples.
    pods: u64,
    /// Those whose CPU was above the limit.
    cpu_above: u64,
    ooms: u64,
    job_days: u64,
    oom_days: u64,
    changes: u64,
    /// The limits before.
    before: Limits,
    /// The present day, and whether it had a kill.
    day: Option<(i64, bool)>,
}

/// Sums over pods and samples that had a limit.
#[derive(Clone, Copy, Debug, Default)]
struct ResourceSums {
    limit: f64,
    used: f64,
}

impl ResourceSums {
    fn add(&mut self, limit: u64, used: f64, pods: u64) {
        self.limit += limit as f64 * pods as f64;
        self.used += used;
    }

    fn slack(self) -> f64 {
        1.0 - self.used / self.limit
    }
}

impl LimitSums {
    /// Adds a sample that ran under these limits.
    pub(super) fn add(&mut self, sample: &UsageSample, limits: Limits) {
        let day = sample.number.div_euclid(DAY_SAMPLES);
        if self.day.is_none_or(|(before, _)| before != day) {
            self.job_days += 1;
            self.day = Some((day, false));
        }
        self.pods += sample.pods;
        if let Some(limit) = limits.cpu_millis.filter(|limit| *limit > 0)
            && !sample.cpu.is_empty()
        {
            self.cpu.add(limit, sample.cpu_mean * sample.pods as f64, sample.pods);
            self.cpu_above += if sample.cpu_mean > limit as f64 { sample.pods } else { 0 };
        }
        if let Some(limit) = limits.memory_bytes.filter(|limit| *limit > 0) {
            let peaks = &sample.memory_peaks;
            let used: f64 = peaks.iter().map(|peak| *peak as f64).sum();
            self.memory.add(limit, used, peaks.len() as u64);
            let ooms = peaks.iter().filter(|peak| **peak > limit).count() as u64;
            self.ooms += ooms;
            if ooms > 0 && self.day == Some((day, false)) {
                self.oom_days += 1;
                self.day = Some((day, true));
            }
        }
        let known = |limits: Limits| [limits.cpu_millis, limits.memory_bytes];
        let pairs = known(self.before).into_iter().zip(known(limits));
        self.changes +=
            pairs.filter(|(before, now)| before.is_some() && before != now).count() as u64;
        self.before = limits;
    }

    /// Adds the sums of another container.
    pub(super) fn add_sums(&mut self, other: &Self) {
        self.cpu.limit += other.cpu.limit;
        self.cpu.used += other.cpu.used;
        self.memory.limit += other.memory.limit;
        self.memory.used += other.memory.used;
        self.pods += other.pods;
        self.cpu_above += other.cpu_above;
        self.ooms += other.ooms;
        self.job_days += other.job_days;
        self.oom_days += other.oom_days;
        self.changes += other.changes;
    }

    /// The figures, over so many days.
    pub(super) fn figures(&self, days: u64) -> LimitFigures {
        let per_day = (days as f64) * DAY_SAMPLES as f64;
        let job_days = self.job_days as f64;
        LimitFigures {
            footprint_cores: self.cpu.limit / 1_000.0 / per_day,
            footprint_memory_bytes: self.memory.limit / per_day,
            slack_cpu: self.cpu.slack(),
            slack_memory: self.memory.slack(),
            cpu_above_limit_share: self.cpu_above as f64 / self.pods as f64,
            oom_day_share: self.oom_days as f64 / job_days,
            ooms_per_pod_day: self.ooms as f64 * DAY_SAMPLES as f64 / self.pods as f64,
            changes_per_day: self.changes as f64 / job_days,
        }
    }

    /// The job-days of one container.
    pub(super) fn job_days(&self) -> u64 {
        self.job_days
    }

    /// The job-days with a kill.
    pub(super) fn oom_days(&self) -> u64 {
        self.oom_days
    }
}

/// Memory in bytes of a limit in units of the ladder.
pub(super) fn memory_bytes(units: u64) -> u64 {
    units.saturating_mul(MEMORY_UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Spread;

    const GIB: u64 = 1 << 30;

    fn sample(number: i64, cpu: u64, peaks: &[u64]) -> UsageSample {
        let mut spread = Spread::default();
        spread.add(cpu, 1.0);
        UsageSample {
            number,
            pods: peaks.len() as u64,
            cpu: spread,
            cpu_mean: cpu as f64,
            memory: Spread::default(),
            memory_peaks: peaks.to_vec(),
        }
    }

    /// Two pods in one sample of the first day, and one in two samples of the next. Their limits
    /// are one core and 4 GiB, then half of it.
    #[test]
    fn figures_are_those_of_section_4() {
        let limits = |cpu_millis: u64, gib: u64| Limits {
            cpu_millis: Some(cpu_millis),
            memory_bytes: Some(gib * GIB),
        };
        let mut sums = LimitSums::default();
        sums.add(&sample(0, 500, &[GIB, 3 * GIB]), limits(1_000, 4));
        sums.add(&sample(DAY_SAMPLES, 500, &[3 * GIB]), limits(500, 2));
        sums.add(&sample(DAY_SAMPLES + 1, 600, &[2 * GIB]), limits(500, 2));
        let figures = sums.figures(2);
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got} {wanted}");
        // 1 + 1 + 0.5 + 0.5 cores of a sample each, and 4 + 4 + 2 + 2 GiB.
        near(figures.footprint_cores, 3.0 / (2.0 * 288.0));
        near(figures.footprint_memory_bytes, 12.0 * GIB as f64 / (2.0 * 288.0));
        near(figures.slack_cpu, 1.0 - 2.1 / 3.0);
        near(figures.slack_memory, 1.0 - 9.0 / 12.0);
        near(figures.cpu_above_limit_share, 0.25);
        // The pod of the second day is killed once, so one of two days has a kill. A peak at the
        // limit is no kill.
        near(figures.oom_day_share, 0.5);
        near(figures.ooms_per_pod_day, 288.0 / 4.0);
        // Both limits change once.
        near(figures.changes_per_day, 1.0);
    }

    #[test]
    fn a_resource_without_a_limit_has_no_slack_and_no_kill() {
        let mut sums = LimitSums::default();
        sums.add(&sample(0, 500, &[GIB]), Limits { cpu_millis: Some(0), memory_bytes: None });
        let figures = sums.figures(1);
        assert!(figures.slack_cpu.is_nan() && figures.slack_memory.is_nan());
        assert_eq!((figures.oom_day_share, figures.changes_per_day), (0.0, 0.0));
    }
}
