//! The parts of an ONNX file that the contract checks.
//!
//! They are read from the protobuf, not through an engine, so that a file can be checked without
//! starting an engine, and before an engine reads it. The values of weights are skipped.

use prost::Message;

/// The largest size of a model file in bytes: 256 MiB. A model has a few megabytes, so a larger
/// file is not a model for this purpose.
pub const BYTES_MAX: u64 = 256 << 20;

/// `ModelProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ModelFile {
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "14")]
    pub(super) metadata_props: Vec<Property>,
}

/// `OperatorSetIdProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub(super) domain: String,
    #[prost(int64, tag = "2")]
    pub(super) version: i64,
}

/// `StringStringEntryProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Property {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

/// `GraphProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(super) nodes: Vec<GraphNode>,
    #[prost(message, repeated, tag = "5")]
    pub(super) weights: Vec<Weight>,
    #[prost(message, repeated, tag = "11")]
    pub(super) inputs: Vec<Port>,
    #[prost(message, repeated, tag = "12")]
    pub(super) outputs: Vec<Port>,
}

/// `NodeProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphNode {
    #[prost(string, repeated, tag = "1")]
    pub(super) inputs: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) outputs: Vec<String>,
    #[prost(string, tag = "4")]
    pub(super) operator: String,
    #[prost(message, repeated, tag = "5")]
    pub(super) attributes: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub(super) domain: String,
}

/// `AttributeProto`. Its graphs are the branches of an operator such as `If`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(message, optional, boxed, tag = "6")]
    pub(super) graph: Option<Box<Graph>>,
    #[prost(message, repeated, tag = "11")]
    pub(super) graphs: Vec<Graph>,
}

impl GraphNode {
    /// The graphs inside the operator.
    pub(super) fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.attributes.iter().flat_map(|of| of.graph.as_deref().into_iter().chain(&of.graphs))
    }
}

/// `TensorProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Weight {
    #[prost(string, tag = "8")]
    pub(super) name: String,
    /// `TensorProto.DataLocation`; 1 is external, that is, the values are in another file.
    #[prost(int32, tag = "14")]
    pub(super) location: i32,
}

/// `ValueInfoProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Port {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) kind: Option<Kind>,
}

/// `TypeProto`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Kind {
    #[prost(message, optional, tag = "1")]
    tensor: Option<Tensor>,
}

/// `TypeProto.Tensor`.
#[derive(Clone, PartialEq, Message)]
struct Tensor {
    /// `TensorProto.DataType`.
    #[prost(int32, tag = "1")]
    element: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
}

/// `TensorShapeProto`.
#[derive(Clone, PartialEq, Message)]
struct Shape {
    #[prost(message, repeated, tag = "1")]
    dimensions: Vec<Dimension>,
}

/// `TensorShapeProto.Dimension`.
#[derive(Clone, PartialEq, Message)]
struct Dimension {
    #[prost(int64, optional, tag = "1")]
    value: Option<i64>,
}

impl Port {
    /// The type of its elements, by the number of `TensorProto.DataType`; 0 if it is not a tensor.
    pub(super) fn element(&self) -> i32 {
        self.tensor().map_or(0, |tensor| tensor.element)
    }

    /// Its dimensions; `None` for a dimension of any size.
    pub(super) fn dimensions(&self) -> Vec<Option<i64>> {
        let shape = self.tensor().and_then(|tensor| tensor.shape.as_ref());
        shape.map_or(Vec::new(), |shape| {
            shape.dimensions.iter().map(|dimension| dimension.value).collect()
        })
    }

    fn tensor(&self) -> Option<&Tensor> {
        self.kind.as_ref()?.tensor.as_ref()
    }
}
