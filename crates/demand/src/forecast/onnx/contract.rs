//! The checks of a model file: names, types, shapes, operators and spec.
//!
//! They run before any engine reads the file.

use std::collections::{HashMap, HashSet};
use std::fmt;

use prost::Message as _;

use super::file::{BYTES_MAX, Graph, GraphNode, ModelFile, Port};
use super::spec::{FIELD, Spec};
use crate::forecast::model_fault::ModelFault;

/// The version of the ONNX operator set, because all engines support it.
const OPSET: i64 = 18;

/// Largest size of the spec in bytes: 16 MiB. The golden input makes up most of a spec, and a day
/// of some buckets is 100 KB.
const SPEC_BYTES_MAX: usize = 16 << 20;

/// The longest chain of operators, each of which reads the output of the one before. The embedded
/// engine visits it by recursion, and a stack that is too small ends the process. A Transformer of
/// six layers that forecasts six ticks has 1,500.
pub(super) const CHAIN_MAX: usize = 2_000;

/// A file that keeps the contract.
#[derive(Debug)]
pub(super) struct Contract {
    pub(super) spec: Spec,
    /// Whether a run may take several rows. Otherwise the file fixes the batch at 1.
    pub(super) takes_rows: bool,
}

/// Reads the spec of a file, and makes all checks that need no engine.
///
/// # Errors
/// All faults that were found, at least one.
pub(super) fn read(bytes: &[u8]) -> Result<Contract, Vec<ModelFault>> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(vec![ModelFault::new("file", format!("more than {BYTES_MAX} bytes"))]);
    }
    if bytes.is_empty() {
        return Err(vec![ModelFault::new("file", "the file is empty")]);
    }
    let model = ModelFile::decode(bytes).map_err(|error| {
        let what = format!("not an ONNX file, or an incomplete one ({error})");
        vec![ModelFault::new("file", what)]
    })?;
    let Some(graph) = &model.graph else {
        return Err(vec![ModelFault::new("file", "not an ONNX file: it has no graph")]);
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
                return Ok(Contract { spec, takes_rows: takes_rows(graph) });
            }
        }
    }
    Err(faults)
}

fn spec(model: &ModelFile) -> Result<Spec, ModelFault> {
    let property = model.metadata_props.iter().find(|property| property.key == FIELD);
    let property = property
        .ok_or_else(|| ModelFault::new(FIELD, "missing in the metadata (metadata_props)"))?;
    if property.value.len() > SPEC_BYTES_MAX {
        return Err(ModelFault::new(FIELD, format!("more than {SPEC_BYTES_MAX} bytes")));
    }
    Spec::parse(&property.value)
}

fn operator_faults(model: &ModelFile, graph: &Graph) -> Vec<ModelFault> {
    let standard = |domain: &str| domain.is_empty() || domain == "ai.onnx";
    let opset =
        model.opset_import.iter().find(|set| standard(&set.domain)).map_or(0, |set| set.version);
    let mut faults = Vec::new();
    if opset != OPSET {
        faults
            .push(ModelFault::new("opset_import", format!("expected opset {OPSET}, got {opset}")));
    }
    let of_node = |what: String| ModelFault::new("graph.node", what);
    let mut nodes = graphs(graph).into_iter().flat_map(|graph| &graph.nodes);
    if let Some(node) = nodes.find(|node| !standard(&node.domain)) {
        let what = format!("operator {} of {} is a custom operator", node.operator, node.domain);
        faults.push(of_node(what));
    }
    match longest_chain(graph, &HashSet::new(), &mut HashMap::new()) {
        Err(what) => faults.push(of_node(what)),
        Ok(length) if length > CHAIN_MAX => {
            faults.push(of_node(format!("a chain of more than {CHAIN_MAX} operators")));
        }
        Ok(_) => {}
    }
    faults
}

/// Returns a graph and all graphs inside its operators.
fn graphs(graph: &Graph) -> Vec<&Graph> {
    let inner = graph.nodes.iter().flat_map(GraphNode::graphs);
    std::iter::once(graph).chain(inner.flat_map(graphs)).collect()
}

/// Returns the length of the longest chain of operators in a graph and the graphs inside its
/// operators, which can read the values of the outer graphs. `outer` has the names of these, and
/// `lengths` the chains that compute them, as far as their operators come before.
///
/// # Errors
/// The operators are not in the order of their dependencies, or two of them compute the same value.
fn longest_chain<'a>(
    graph: &'a Graph,
    outer: &HashSet<&'a str>,
    lengths: &mut HashMap<&'a str, usize>,
) -> Result<usize, String> {
    let names = |names: &'a [String]| names.iter().map(String::as_str).filter(|n| !n.is_empty());
    let own: HashSet<&str> = graph.nodes.iter().flat_map(|node| names(&node.outputs)).collect();
    let computed = outer | &own;
    let mut longest = 0;
    for node in &graph.nodes {
        let mut length = 0;
        for name in names(&node.inputs) {
            match lengths.get(name) {
                Some(before) => length = length.max(*before),
                None if computed.contains(name) => {
                    return Err(format!("{name} is read before the operator that computes it"));
                }
                None => {}
            }
        }
        for inner in node.graphs() {
            length = length.max(longest_chain(inner, &computed, lengths)?);
        }
        length += 1;
        for name in names(&node.outputs) {
            if lengths.insert(name, length).is_some() {
                return Err(format!("two operators compute {name}"));
            }
        }
        longest = longest.max(length);
    }
    // Nothing outside the graph reads its values by these names.
    for name in own {
        lengths.remove(name);
    }
    Ok(longest)
}

fn weight_faults(graph: &Graph) -> Option<ModelFault> {
    let mut weights = graphs(graph).into_iter().flat_map(|graph| &graph.weights);
    let outside = weights.find(|weight| weight.location == 1)?;
    let what = format!("{} is in another file: all weights must be in this file", outside.name);
    Some(ModelFault::new("graph.initializer", what))
}

/// Whether no input and no output fixes the batch, which is its first dimension.
fn takes_rows(graph: &Graph) -> bool {
    let mut ports = fed(graph).chain(&graph.outputs);
    ports.all(|port| port.dimensions().first().is_some_and(Option::is_none))
}

/// Returns the inputs of a graph. Files of old versions of ONNX list the weights as inputs too.
fn fed(graph: &Graph) -> impl Iterator<Item = &Port> {
    let weight = |port: &&Port| graph.weights.iter().any(|weight| weight.name == port.name);
    graph.inputs.iter().filter(move |port| !weight(port))
}

/// The type of the elements of an input or output, by the number of ONNX's `TensorProto.DataType`.
#[derive(Clone, Copy, PartialEq)]
enum Element {
    F32 = 1,
    I64 = 7,
}

/// A dimension of an input or output: its name, and its size if the spec fixes it.
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
        inputs.push((
            "state",
            Element::F32,
            vec![batch, buckets, sized("features", spec.state.len())],
        ));
    }
    if !spec.covariates.is_empty() {
        let covariates = sized("covariates", spec.covariates.len());
        inputs.push(("future", Element::F32, vec![batch, horizon, buckets, covariates]));
    }
    let mut outputs = vec![("quantiles", Element::F32, vec![batch, buckets, horizon, levels])];
    if graph.outputs.iter().any(|port| port.name == "headroom") {
        outputs.push(("headroom", Element::F32, vec![batch, buckets, levels]));
    }
    let fed: Vec<&Port> = fed(graph).collect();
    let given: Vec<&Port> = graph.outputs.iter().collect();
    let mut faults = side_faults("inputs", &fed, &inputs);
    faults.extend(side_faults("outputs", &given, &outputs));
    faults
}

fn side_faults(
    side: &str,
    ports: &[&Port],
    wanted: &[(&str, Element, Vec<Wanted>)],
) -> Vec<ModelFault> {
    let expected = |port: &&&Port| wanted.iter().any(|(name, ..)| *name == port.name);
    let unknown = ports.iter().filter(|port| !expected(port));
    let unknown =
        unknown.map(|port| ModelFault::new(format!("{side}.{}", port.name), "not in the contract"));
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
        return Some(format!(
            "expected elements of type {element}, got ONNX type {}",
            port.element()
        ));
    }
    let have = port.dimensions();
    // A dimension of any size accepts every input. The batch may be fixed at 1, and each row is
    // then a run of its own.
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
