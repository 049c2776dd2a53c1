//! The figures of recommendations over the age of workloads (section 4.5).

use serde::Serialize;

use super::figures::{LimitFigures, LimitSums, Limits};
use super::sample::{SAMPLE_SECONDS, UsageSample};

/// The samples of an hour.
const HOUR: i64 = 3_600 / SAMPLE_SECONDS;

/// The ages from which figures are separate, each with its name, in samples since the first one of
/// a container. The request is the limit in the first hour.
const AGES: [(&str, i64); 5] = [
    ("1st hour", 0),
    ("to 6 hours", HOUR),
    ("to a day", 6 * HOUR),
    ("to a week", 24 * HOUR),
    ("later", 7 * 24 * HOUR),
];

/// Figures of the recommendations while workloads have an age. NaN, which is `null` in JSON, if no
/// container was measured at this age.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AgeFigures {
    /// The name of the age.
    pub age: &'static str,
    /// The share of the limits of CPU that is not used.
    pub slack_cpu: f64,
    /// The same of memory.
    pub slack_memory: f64,
    /// The kills per pod and day.
    pub ooms_per_pod_day: f64,
}

/// The sums of one container, or of several, by age.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgeSums {
    /// The number of the first sample of a container.
    first: Option<i64>,
    sums: [LimitSums; AGES.len()],
}

impl AgeSums {
    /// Adds a sample that ran under these limits.
    pub(super) fn add(&mut self, sample: &UsageSample, limits: Limits) {
        let age = sample.number.saturating_sub(*self.first.get_or_insert(sample.number));
        let at = AGES.iter().rposition(|(_, from)| age >= *from).unwrap_or(0);
        self.sums[at].add(sample, limits);
    }

    /// Adds the sums of another container.
    pub(super) fn add_sums(&mut self, other: &Self) {
        for (sums, other) in self.sums.iter_mut().zip(&other.sums) {
            sums.add_sums(other);
        }
    }

    /// The figures, the youngest age first.
    pub(super) fn figures(&self) -> Vec<AgeFigures> {
        let one = |((age, _), sums): (&(&'static str, i64), &LimitSums)| {
            let LimitFigures { slack_cpu, slack_memory, ooms_per_pod_day, .. } = sums.figures(1);
            AgeFigures { age, slack_cpu, slack_memory, ooms_per_pod_day }
        };
        AGES.iter().zip(&self.sums).map(one).collect()
    }
}
