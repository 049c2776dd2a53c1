//! The expected needs of a bucket, and the steps from there to its target.

use embedder::BucketId;

use crate::reason::Reason;

/// The expected needs of one bucket beyond its present demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    /// The index of the bucket in the catalog.
    pub bucket: BucketId,
    /// The number of instances that announced pods need.
    pub announced: u64,
    /// The sizes of the virtual instances among the announced instances, in instances.
    pub gangs: Vec<u64>,
    /// The sizes of the virtual instances among the headroom, in instances, the largest first.
    pub forecast_gangs: Vec<u64>,
    /// The quantile of the new nodes needed within the launch latency, or the value of an
    /// expression.
    pub headroom: u64,
    /// The source of the headroom: [`Reason::Forecast`], [`Reason::Expression`],
    /// [`Reason::TooLittleHistory`], [`Reason::Outdated`], or, while spot buckets back off,
    /// [`Reason::GroupBackoff`] and [`Reason::SpotBackoff`].
    pub reason: Reason,
    /// The probability that at least n new nodes are needed, for n = 1, 2, and so on. A number of
    /// nodes that is not listed has probability 0.
    pub chances: Vec<f64>,
}

impl Want {
    /// Returns the probability that an n-th placeholder is needed.
    pub(crate) fn chance(&self, n: u64) -> f64 {
        if n <= self.announced {
            return 1.0;
        }
        let at = usize::try_from(n - 1).unwrap_or(usize::MAX);
        self.chances.get(at).copied().unwrap_or(0.0)
    }
}

/// One step in the computation of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The reason that set the target in this step.
    pub reason: Reason,
    /// The target after this step, in placeholders.
    pub target: u64,
}
