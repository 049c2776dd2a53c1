//! A fault of an ONNX model.

use serde::Serialize;

/// A fault of an ONNX model, and the field at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{field}: {what}")]
pub struct ModelFault {
    /// The field at fault, for example `inputs.target` or `prophet.spec.levels`.
    pub field: String,
    /// A description of the fault.
    pub what: String,
}

impl ModelFault {
    pub(crate) fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into() }
    }
}
