//! A model that keeps the contract, ready to run.

use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::contract;
use super::engine::Graph;
use super::spec::{Golden, Spec};
use super::tensors::{ModelInput, ModelOutput, Wanted};
use crate::forecast::model_fault::ModelFault;

/// The largest deviation of an engine from the golden output: relative for values of at least one
/// node, and absolute, in nodes, below. Engines differ by rounding in single precision.
const TOLERANCE: f32 = 1e-4;

/// A model that keeps the contract, loaded into the engine of this process.
pub struct Model {
    spec: Arc<Spec>,
    graph: Graph,
    /// Whether a run takes several rows, each of which has the output of a run of its own.
    takes_rows: bool,
}

impl Model {
    /// Loads a file from `bytes` and checks it.
    ///
    /// The file must keep the contract, and this engine must compute the golden output from the
    /// golden input.
    ///
    /// # Errors
    /// All faults of the file, at least one.
    pub fn load(bytes: &[u8]) -> Result<Self, Vec<ModelFault>> {
        let contract::Contract { spec, takes_rows } = contract::read(bytes)?;
        let one = |fault: ModelFault| vec![fault];
        let graph = guarded("graph", || Graph::load(bytes)).map_err(one)?;
        let mut model = Self { spec: spec.into(), graph, takes_rows };
        model.check_golden().map_err(one)?;
        Ok(model)
    }

    /// The spec in the metadata of its file.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Runs the model on `inputs`.
    ///
    /// # Errors
    /// The engine fails, or the output is invalid: it has the wrong size, contains NaN or an
    /// infinite value, or decreases along levels.
    pub fn run(&mut self, inputs: &ModelInput) -> Result<ModelOutput, ModelFault> {
        self.run_for(inputs, Wanted::All)
    }

    /// Like [`Model::run`], but computes and checks only the outputs that are wanted.
    pub(super) fn run_for(
        &mut self,
        inputs: &ModelInput,
        wanted: Wanted,
    ) -> Result<ModelOutput, ModelFault> {
        let Self { spec, graph, .. } = self;
        let output = guarded("graph", || graph.run(&inputs.tensors(spec), wanted))?;
        let levels = spec.levels.len();
        let buckets = inputs.batch * inputs.buckets;
        let rows = if wanted.has("quantiles") { buckets * spec.horizon } else { 0 };
        check_quantiles("outputs.quantiles", &output.quantiles, rows, levels)?;
        let absent = wanted == Wanted::All && output.headroom.is_empty();
        let rows = if absent { 0 } else { buckets };
        check_quantiles("outputs.headroom", &output.headroom, rows, levels)?;
        Ok(output)
    }

    /// Runs the model on inputs of batch 1, in one run if possible. If that run fails, each input
    /// has a run of its own, because only some of them may be the reason.
    pub(super) fn run_rows<I: Borrow<ModelInput>>(
        &mut self,
        inputs: &[I],
        wanted: Wanted,
    ) -> Vec<Result<ModelOutput, ModelFault>> {
        if inputs.len() > 1 && self.takes_rows {
            let rows = ModelInput::stacked(inputs.iter().map(Borrow::borrow));
            if let Ok(output) = self.run_for(&rows, wanted) {
                return output.rows(inputs.len()).map(Ok).collect();
            }
        }
        inputs.iter().map(|input| self.run_for(input.borrow(), wanted)).collect()
    }

    /// Checks the golden output, and whether a row beside another one has the same output.
    fn check_golden(&mut self) -> Result<(), ModelFault> {
        let Golden { buckets, target, time, state, future, quantiles, headroom } =
            self.spec.golden.clone();
        let missing = |values: Vec<Option<f32>>| {
            values.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect()
        };
        let (target, state) = (missing(target), missing(state));
        let inputs = ModelInput { batch: 1, buckets, target, time, state, future };
        let output = self.run(&inputs)?;
        let check = |output: &ModelOutput| {
            check_near("golden.quantiles", &output.quantiles, &quantiles)?;
            check_near("golden.headroom", &output.headroom, &headroom)
        };
        check(&output)?;
        if self.takes_rows {
            let target = inputs.target.iter().map(|demand| demand + 1.0).collect();
            let other = ModelInput { target, ..inputs.clone() };
            let beside = self.run(&ModelInput::stacked([&inputs, &other].into_iter()));
            let row = beside.ok().and_then(|output| output.rows(2).next());
            self.takes_rows = row.is_some_and(|row| check(&row).is_ok());
        }
        Ok(())
    }
}

/// Turns a panic of the engine into a fault. An engine may panic on a graph that it does not
/// support, and a faulty model must not stop the controller.
fn guarded<T>(field: &str, act: impl FnOnce() -> Result<T, String>) -> Result<T, ModelFault> {
    let done =
        catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err("the engine panicked".into()));
    done.map_err(|what| ModelFault::new(field, what))
}

fn check_quantiles(
    field: &str,
    values: &[f32],
    rows: usize,
    levels: usize,
) -> Result<(), ModelFault> {
    if values.len() != rows * levels {
        let what = format!("expected {} numbers, got {}", rows * levels, values.len());
        return Err(ModelFault::new(field, what));
    }
    if values.iter().any(|value| !value.is_finite()) {
        return Err(ModelFault::new(field, "NaN or infinite"));
    }
    if values
        .chunks(levels)
        .any(|row| !row.is_sorted_by(|low, high| *low <= high + tolerance(*low)))
    {
        return Err(ModelFault::new(field, "the quantiles decrease along levels"));
    }
    Ok(())
}

fn check_near(field: &str, have: &[f32], want: &[f32]) -> Result<(), ModelFault> {
    let off = have.iter().zip(want).find(|(have, want)| (*have - *want).abs() > tolerance(**want));
    match off {
        None => Ok(()),
        Some((have, want)) => Err(ModelFault::new(
            format!("{}.{field}", super::spec::FIELD),
            format!("expected {want}, but this engine computes {have} from the golden input"),
        )),
    }
}

/// The largest deviation from `value` that counts as rounding.
fn tolerance(value: f32) -> f32 {
    TOLERANCE * value.abs().max(1.0)
}
