//! The inputs and outputs of a model, as flat vectors in row-major order.

/// The inputs of a model, of batch 1, flat, in row-major order; NaN is a missing value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInput {
    /// The number of buckets.
    pub buckets: usize,
    /// `[window, buckets]`: the maximum of demand in each tick of the model, in nodes.
    pub target: Vec<f32>,
    /// `[window]`, in Unix seconds.
    pub time: Vec<i64>,
    /// `[buckets, features]`.
    pub state: Vec<f32>,
    /// `[horizon, buckets, covariates]`.
    pub future: Vec<f32>,
}

/// The outputs of a model, in nodes, flat, in row-major order. Never NaN; non-decreasing along
/// levels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelOutput {
    /// `[buckets, horizon, levels]`: quantiles of demand.
    pub quantiles: Vec<f32>,
    /// `[buckets, levels]`: quantiles of the new nodes needed within the lead time; empty if the
    /// model does not have this output.
    pub headroom: Vec<f32>,
}
