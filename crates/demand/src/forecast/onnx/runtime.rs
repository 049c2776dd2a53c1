//! ONNX Runtime, loaded from the path of its library.

use std::borrow::Cow;
use std::path::Path;

use ort::environment::Environment;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::Tensor;

use super::tensors::{ModelOutput, NamedTensor, Values, Wanted};

/// Loads the library.
///
/// # Errors
/// There is no such library, or it is too old.
pub(super) fn environment(library: &Path) -> Result<Environment, String> {
    let builder = ort::init_from(library).map_err(|error| error.to_string())?;
    builder.with_telemetry(false).build().map_err(|error| error.to_string())
}

/// The graph of a model.
pub(super) struct RuntimeGraph(Session);

impl RuntimeGraph {
    /// Loads the graph of a file.
    ///
    /// # Errors
    /// ONNX Runtime does not support the graph.
    pub(super) fn load(environment: &Environment, bytes: &[u8]) -> Result<Self, String> {
        let built = || -> ort::Result<Session> {
            Session::builder(environment)?
                .with_optimization_level(GraphOptimizationLevel::Level3)?
                .with_intra_threads(1)?
                .commit_from_memory(bytes)
        };
        built().map(Self).map_err(|error| error.to_string())
    }

    /// Computes all outputs, and returns those that are wanted.
    ///
    /// # Errors
    /// ONNX Runtime fails.
    pub(super) fn run(
        &mut self,
        inputs: &[NamedTensor<'_>],
        wanted: Wanted,
    ) -> Result<ModelOutput, String> {
        let mut done = || -> ort::Result<ModelOutput> {
            let inputs = inputs.iter().map(fed).collect::<ort::Result<Vec<_>>>()?;
            let outputs = self.0.run(inputs)?;
            let values = |name: &str| match outputs.get(name).filter(|_| wanted.has(name)) {
                None => Ok(Vec::new()),
                Some(output) => {
                    output.try_extract_tensor::<f32>().map(|(_, values)| values.to_vec())
                }
            };
            Ok(ModelOutput { quantiles: values("quantiles")?, headroom: values("headroom")? })
        };
        done().map_err(|error| error.to_string())
    }
}

fn fed(input: &NamedTensor<'_>) -> ort::Result<(Cow<'static, str>, SessionInputValue<'static>)> {
    let shape = input.shape.clone();
    let value: SessionInputValue = match input.values {
        Values::F32(values) => Tensor::from_array((shape, values.to_vec()))?.into(),
        Values::I64(values) => Tensor::from_array((shape, values.to_vec()))?.into(),
    };
    Ok((input.name.into(), value))
}
