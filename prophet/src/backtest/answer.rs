//! What a forecaster said of one bucket, at one moment, for one horizon.

use crate::forecast::{Ahead, Distribution};

/// The levels of pinball losses.
pub(super) const LEVELS: [f64; 12] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99];

/// In nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JudgedForecast {
    /// What is judged by its square.
    pub(super) mean: f64,
    /// At [`LEVELS`].
    pub(super) quantiles: [f64; LEVELS.len()],
    /// The quantile that the objective asks for; of new nodes, what would be held.
    pub(super) held: f64,
}

impl JudgedForecast {
    /// So many for sure.
    pub(super) fn certain(nodes: u64) -> Self {
        let nodes = nodes as f64;
        Self { mean: nodes, quantiles: [nodes; LEVELS.len()], held: nodes }
    }

    /// Of new nodes, of which so many would be held.
    pub(super) fn of_new_nodes(new_nodes: &Distribution, held: u64) -> Self {
        let quantiles = LEVELS.map(|level| new_nodes.quantile(level) as f64);
        Self { mean: new_nodes.mean(), quantiles, held: held as f64 }
    }

    /// Of demand ahead, of which this quantile is asked for.
    pub(super) fn of_demand(ahead: &Ahead, q: f64) -> Self {
        let Ahead { mean, demand } = ahead;
        let quantiles = LEVELS.map(|level| demand.quantile(level) as f64);
        Self { mean: *mean, quantiles, held: demand.quantile(q) as f64 }
    }

    /// The mean of answers by weights: of their means, and of their quantiles level by level, in whole nodes.
    pub(super) fn mixed<'a>(answers: impl Iterator<Item = (&'a Self, f64)>) -> Self {
        let mut mixed = Self { mean: 0.0, quantiles: [0.0; LEVELS.len()], held: 0.0 };
        for (answer, weight) in answers {
            mixed.mean += weight * answer.mean;
            mixed
                .quantiles
                .iter_mut()
                .zip(answer.quantiles)
                .for_each(|(sum, q)| *sum += weight * q);
            mixed.held += weight * answer.held;
        }
        // Demand is counted.
        mixed.quantiles = mixed.quantiles.map(f64::round);
        mixed.held = mixed.held.round();
        mixed
    }
}
