//! The covariates of the input `future` of a model, by name: what is known in advance about the
//! ticks of its horizon.

use std::f64::consts::TAU;

use super::feature::DAY_SECONDS;

/// A value of a bucket that is known in advance, by tick of the horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covariate {
    /// The sine of the time within a period of this many seconds, at the end of the tick, in UTC. A
    /// week begins on Thursday at 00:00, because Unix time does.
    Sine(i64),
    /// The cosine of the time within a period of this many seconds, as for `Sine`.
    Cosine(i64),
    /// Announced demand in nodes, the same for all ticks: the pods of suspended jobs, queued
    /// workloads and `CronJobs` that will be released within the launch latency.
    Announced,
}

impl Covariate {
    /// The names of all covariates.
    pub(super) const NAMES: [&str; 5] = ["day_sin", "day_cos", "week_sin", "week_cos", "announced"];

    /// The covariates in the order of [`Self::NAMES`].
    const ALL: [Self; 5] = [
        Self::Sine(DAY_SECONDS),
        Self::Cosine(DAY_SECONDS),
        Self::Sine(7 * DAY_SECONDS),
        Self::Cosine(7 * DAY_SECONDS),
        Self::Announced,
    ];

    /// Returns the covariate with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|at| Self::ALL[at])
    }

    /// Returns the value for a tick that ends at `end`, in Unix seconds, and a bucket with
    /// `announced` nodes of announced demand.
    pub(super) fn value(self, end: i64, announced: u64) -> f64 {
        let phase = |period: i64| TAU * end.rem_euclid(period) as f64 / period as f64;
        match self {
            Self::Sine(period) => phase(period).sin(),
            Self::Cosine(period) => phase(period).cos(),
            Self::Announced => announced as f64,
        }
    }
}
