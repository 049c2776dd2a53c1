//! One forecast: of one bucket, at one tick, for one horizon.

use demand::forecast::{Ahead, Distribution};

/// The quantile levels at which pinball losses are computed: the tenths, and three higher levels.
pub(super) const LEVELS: [f64; 12] =
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99];

/// A forecast that is scored. All values are in nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JudgedForecast {
    /// The mean, which the squared error is computed from.
    pub(super) mean: f64,
    /// The quantiles at [`LEVELS`].
    pub(super) quantiles: [f64; LEVELS.len()],
    /// The quantile that the objective requires. For the new nodes D, the headroom that would be
    /// held.
    pub(super) held: f64,
}

impl JudgedForecast {
    /// Returns the forecast of exactly this number of nodes.
    pub(super) fn certain(nodes: u64) -> Self {
        let nodes = nodes as f64;
        Self { mean: nodes, quantiles: [nodes; LEVELS.len()], held: nodes }
    }

    /// Returns the forecast of the new nodes D, with `held` nodes of headroom.
    pub(super) fn of_new_nodes(new_nodes: &Distribution, held: u64) -> Self {
        let quantiles = LEVELS.map(|level| new_nodes.quantile(level) as f64);
        Self { mean: new_nodes.mean(), quantiles, held: held as f64 }
    }

    /// Returns the forecast of demand ahead. `q` is the level of the held quantile, in (0, 1).
    pub(super) fn of_demand(ahead: &Ahead, q: f64) -> Self {
        let Ahead { mean, demand } = ahead;
        let quantiles = LEVELS.map(|level| demand.quantile(level) as f64);
        Self { mean: *mean, quantiles, held: demand.quantile(q) as f64 }
    }

    /// Returns the weighted average of forecasts: of their means, and of their quantiles level by
    /// level.
    ///
    /// The quantiles are rounded to whole nodes. The weights must sum to 1.
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
        // Demand is a whole number of nodes.
        mixed.quantiles = mixed.quantiles.map(f64::round);
        mixed.held = mixed.held.round();
        mixed
    }
}
