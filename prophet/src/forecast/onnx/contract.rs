//! What a network's file must be: names, types, shapes, operators and spec, checked before any engine sees it.

use std::fmt;

use prost::Message as _;
use serde::Serialize;

use super::file::{BYTES_MAX, Graph, Model, Port};
use super::spec::{FIELD, Spec};

/// What is wrong with a network, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{field}: {what}")]
pub struct ModelFault {
    /// The field at fault: `inputs.target`, `prophet.spec.levels`.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
}

impl ModelFault {
    pub(super) fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into() }
    }
}

/// The operators that all engines know.
const OPSET: i64 = 18;

/// A spec holds one golden input: a day of some buckets is 100 KB.
const SPEC_BYTES_MAX: usize = 16 << 20;

/// Reads the spec of a file, and checks all that can be checked without running it.
///
/// # Errors
/// All that is wrong.
pub(super) fn read(bytes: &[u8]) -> Result<Spec, Vec<ModelFault>> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(vec![ModelFault::new("file", format!("more than {BYTES_MAX} bytes"))]);
    }
    let model = Model::decode(bytes)
        .map_err(|error| vec![ModelFault::new("file", format!("no ONNX file: {error}"))])?;
    let Some(graph) = &model.graph else {
        return Err(vec![ModelFault::new("graph", "missing: this is no ONNX file")]);
    };
    let mut faults = operator_faults(&model, graph);
    faults.extend(weight_faults(graph));
    match spec(&model) {
        Err(fault) => faults.push(fault),
        Ok(spec) => {
            let gives_headroom = graph.outputs.iter().any(|port| port.name == "headroom");
            faults.extend(spec.faults(gives_headroom));
            faults.extend(port_faults(graph, &spec));
            if faults.is_empty() {
                return Ok(spec);
            }
        }
    }
    Err(faults)
}

fn spec(model: &Model) -> Result<Spec, ModelFault> {
    let property = model.metadata_props.iter().find(|property| property.key == FIELD);
    let property =
        property.ok_or_else(|| ModelFault::new(FIELD, "missing in the metadata (metadata_props)"))?;
    if property.value.len() > SPEC_BYTES_MAX {
        return Err(ModelFault::new(FIELD, format!("more than {SPEC_BYTES_MAX} bytes")));
    }
    Spec::parse(&property.value)
}

fn operator_faults(model: &Model, graph: &Graph) -> Vec<ModelFault> {
    let standard = |domain: &str| domain.is_empty() || domain == "ai.onnx";
    let opset = model.opset_import.iter().find(|set| standard(&set.domain)).map_or(0, |set| set.version);
    let mut faults = Vec::new();
    if opset != OPSET {
        faults.push(ModelFault::new("opset_import", format!("expected opset {OPSET}, got {opset}")));
    }
    if let Some(node) = graph.nodes.iter().find(|node| !standard(&node.domain)) {
        let what = format!("operator {} of {} is a custom one", node.operator, node.domain);
        faults.push(ModelFault::new("graph.node", what));
    }
    faults
}

fn weight_faults(graph: &Graph) -> Option<ModelFault> {
    let outside = graph.weights.iter().find(|weight| weight.location == 1)?;
    let what = format!("{} lies in another file: weights must be inside", outside.name);
    Some(ModelFault::new("graph.initializer", what))
}

/// The type of a port's elements, as ONNX numbers them.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    F32 = 1,
    I64 = 7,
}

/// A dimension of a port: its name, and its size where that is given.
type Wanted = (&'static str, Option<usize>);

fn port_faults(graph: &Graph, spec: &Spec) -> Vec<ModelFault> {
    let batch = ("batch", None);
    let buckets = ("buckets", spec.buckets.as_ref().map(Vec::len));
    let sized = |name, size| (name, Some(size));
    let (window, horizon) = (sized("window", spec.window), sized("horizon", spec.horizon));
    let levels = sized("levels", spec.levels.len());
    let mut inputs = vec![
        ("target", Element::F32, vec![batch, window, buckets]),
        ("time", Element::I64, vec![batch, window]),
    ];
    if !spec.state.is_empty() {
        inputs.push(("state", Element::F32, vec![batch, buckets, sized("features", spec.state.len())]));
    }
    let mut outputs = vec![("quantiles", Element::F32, vec![batch, buckets, horizon, levels])];
    if graph.outputs.iter().any(|port| port.name == "headroom") {
        outputs.push(("headroom", Element::F32, vec![batch, buckets, levels]));
    }
    // Old files list weights among the inputs.
    let weight = |port: &&Port| graph.weights.iter().any(|weight| weight.name == port.name);
    let fed: Vec<&Port> = graph.inputs.iter().filter(|port| !weight(port)).collect();
    let given: Vec<&Port> = graph.outputs.iter().collect();
    let mut faults = side_faults("inputs", &fed, &inputs);
    faults.extend(side_faults("outputs", &given, &outputs));
    faults
}

fn side_faults(side: &str, ports: &[&Port], wanted: &[(&str, Element, Vec<Wanted>)]) -> Vec<ModelFault> {
    let known = |port: &&&Port| wanted.iter().any(|(name, ..)| *name == port.name);
    let unknown = ports.iter().filter(|port| !known(port));
    let unknown = unknown.map(|port| ModelFault::new(format!("{side}.{}", port.name), "not in the contract"));
    let wrong = wanted.iter().filter_map(|(name, element, dimensions)| {
        let found = ports.iter().find(|port| port.name == *name);
        let what = match found {
            None => Some("missing".to_owned()),
            Some(port) => port_fault(port, *element, dimensions),
        };
        what.map(|what| ModelFault::new(format!("{side}.{name}"), what))
    });
    unknown.chain(wrong).collect()
}

fn port_fault(port: &Port, element: Element, wanted: &[Wanted]) -> Option<String> {
    if port.element() != element as i32 {
        return Some(format!("expected elements of {element}, got type {} of ONNX", port.element()));
    }
    let have = port.dimensions();
    // What may be anything takes what we feed; what we feed one of may be fixed at one.
    let fits = |(have, (name, want)): (&Option<i64>, &Wanted)| match (have, want) {
        (None, _) => true,
        (Some(have), None) => *name == "batch" && *have == 1,
        (Some(have), Some(want)) => usize::try_from(*have) == Ok(*want),
    };
    if have.len() == wanted.len() && have.iter().zip(wanted).all(fits) {
        return None;
    }
    let shape = |size: &Option<i64>| size.map_or("any".to_owned(), |size| size.to_string());
    let have: Vec<String> = have.iter().map(shape).collect();
    let wanted: Vec<String> = wanted
        .iter()
        .map(|(name, size)| size.map_or((*name).to_owned(), |size| format!("{name} {size}")))
        .collect();
    Some(format!("expected the shape [{}], got [{}]", wanted.join(", "), have.join(", ")))
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I64 => "i64",
        })
    }
}
