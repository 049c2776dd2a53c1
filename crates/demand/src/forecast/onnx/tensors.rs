//! The inputs and outputs of a model, as flat vectors in row-major order.

use super::spec::Spec;

/// The inputs of a model, flat, in row-major order; NaN is a missing value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInput {
    /// The number of rows. A row has the inputs at one tick.
    pub batch: usize,
    /// The number of buckets.
    pub buckets: usize,
    /// `[batch, window, buckets]`: the maximum of demand in each tick of the model, in nodes.
    pub target: Vec<f32>,
    /// `[batch, window]`, in Unix seconds.
    pub time: Vec<i64>,
    /// `[batch, buckets, features]`.
    pub state: Vec<f32>,
    /// `[batch, horizon, buckets, covariates]`.
    pub future: Vec<f32>,
}

/// The outputs that a run computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All outputs.
    All,
    /// `headroom` only, which takes less time.
    Headroom,
}

impl Wanted {
    /// Whether an output is one of them.
    pub(super) fn has(self, output: &str) -> bool {
        match self {
            Self::All => true,
            Self::Headroom => output == "headroom",
        }
    }
}

/// The outputs of a model, in nodes, flat, in row-major order. Never NaN; non-decreasing along
/// levels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelOutput {
    /// `[batch, buckets, horizon, levels]`: quantiles of demand.
    pub quantiles: Vec<f32>,
    /// `[batch, buckets, levels]`: quantiles of the new nodes needed within the lead time; empty if
    /// the model does not have this output.
    pub headroom: Vec<f32>,
}

/// An input of a graph.
pub(super) struct NamedTensor<'a> {
    pub(super) name: &'static str,
    pub(super) shape: Vec<usize>,
    pub(super) values: Values<'a>,
}

/// The values of an input, flat, in row-major order.
#[derive(Clone, Copy)]
pub(super) enum Values<'a> {
    F32(&'a [f32]),
    I64(&'a [i64]),
}

impl ModelInput {
    /// Returns several inputs for the same buckets as the rows of one.
    pub(super) fn stacked<'a>(inputs: impl Iterator<Item = &'a Self>) -> Self {
        let mut stacked = Self::default();
        for input in inputs {
            stacked.batch += input.batch;
            stacked.buckets = input.buckets;
            stacked.target.extend_from_slice(&input.target);
            stacked.time.extend_from_slice(&input.time);
            stacked.state.extend_from_slice(&input.state);
            stacked.future.extend_from_slice(&input.future);
        }
        stacked
    }

    /// Returns the inputs that the graph of a model with this spec has.
    pub(super) fn tensors(&self, spec: &Spec) -> Vec<NamedTensor<'_>> {
        let Self { batch, buckets, target, time, state, future } = self;
        let (features, covariates) = (spec.state.len(), spec.covariates.len());
        let tensor = |name, shape, values| NamedTensor { name, shape, values };
        let mut tensors = vec![
            tensor("target", vec![*batch, spec.window, *buckets], Values::F32(target)),
            tensor("time", vec![*batch, spec.window], Values::I64(time)),
        ];
        if features > 0 {
            tensors.push(tensor("state", vec![*batch, *buckets, features], Values::F32(state)));
        }
        if covariates > 0 {
            let shape = vec![*batch, spec.horizon, *buckets, covariates];
            tensors.push(tensor("future", shape, Values::F32(future)));
        }
        tensors
    }
}

impl ModelOutput {
    /// Returns the output of each of `batch` rows.
    pub(super) fn rows(&self, batch: usize) -> impl Iterator<Item = Self> {
        let row = move |values: &[f32], at: usize| {
            let len = values.len() / batch.max(1);
            values[at * len..(at + 1) * len].to_vec()
        };
        (0..batch).map(move |at| Self {
            quantiles: row(&self.quantiles, at),
            headroom: row(&self.headroom, at),
        })
    }
}
