//! The embedded engine: rten, in pure Rust. It needs no library.
//!
//! rten computes in the threads of a pool, and moves each run to one of them unless the caller is
//! in it already. Graphs are small, so that several threads would only wait for each other.
//! Therefore a pool has one thread here, and threads that run many models are in a pool of their
//! own.

use std::cell::OnceCell;
use std::sync::{Arc, OnceLock, Weak};

use rten::{Model, NodeId, RunOptions, ThreadPool, Value, ValueOrView, ValueView};

use super::tensors::{ModelOutput, NamedTensor, Values, Wanted};

/// Seconds of 28 years. From 1901 to 2099, each date has the same day of the week 28 years later.
const CALENDAR_SECONDS: i64 = 10_227 * 86_400;

thread_local! {
    /// The pool whose thread this is. A thread that owned its pool would never end.
    static HERE: OnceCell<Weak<ThreadPool>> = const { OnceCell::new() };
}

/// Calls `act` in the thread of a new pool.
pub(super) fn in_thread<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    let pool = Arc::new(ThreadPool::with_num_threads(1));
    pool.run(|| {
        HERE.with(|here| drop(here.set(Arc::downgrade(&pool))));
        act()
    })
}

/// Returns the pool of this thread, or a pool for all threads that have none.
fn pool() -> Arc<ThreadPool> {
    static ELSEWHERE: OnceLock<Arc<ThreadPool>> = OnceLock::new();
    let elsewhere = || ELSEWHERE.get_or_init(|| Arc::new(ThreadPool::with_num_threads(1))).clone();
    HERE.with(|here| here.get().and_then(Weak::upgrade)).unwrap_or_else(elsewhere)
}

/// The graph of a model.
pub(super) struct EmbeddedGraph {
    model: Model,
    /// The outputs by name.
    outputs: Vec<(String, NodeId)>,
}

impl EmbeddedGraph {
    /// Loads the graph of a file.
    ///
    /// # Errors
    /// The engine does not support the graph.
    pub(super) fn load(bytes: &[u8]) -> Result<Self, String> {
        let model = Model::load(bytes.to_vec()).map_err(|error| error.to_string())?;
        let name = |id: NodeId| model.node_info(id)?.name().map(str::to_owned);
        let outputs = model.output_ids().iter().filter_map(|id| Some((name(*id)?, *id))).collect();
        Ok(Self { model, outputs })
    }

    /// Computes the outputs that are wanted.
    ///
    /// # Errors
    /// The engine fails.
    pub(super) fn run(
        &self,
        inputs: &[NamedTensor<'_>],
        wanted: Wanted,
    ) -> Result<ModelOutput, String> {
        let inputs = inputs.iter().map(|input| self.fed(input)).collect::<Result<_, _>>()?;
        let computed = || self.outputs.iter().filter(|(name, _)| wanted.has(name));
        let ids: Vec<NodeId> = computed().map(|(_, id)| *id).collect();
        let options = RunOptions::default().with_thread_pool(Some(pool()));
        let outputs = self.model.run(inputs, &ids, Some(options));
        let outputs = outputs.map_err(|error| error.to_string())?;
        let mut output = ModelOutput::default();
        for ((name, _), value) in computed().zip(outputs) {
            let values = value.into_tensor::<f32>().ok_or("an output has elements of another type");
            let values = values?.into_data();
            match name.as_str() {
                "quantiles" => output.quantiles = values,
                "headroom" => output.headroom = values,
                _ => {}
            }
        }
        Ok(output)
    }

    fn fed<'a>(&self, input: &NamedTensor<'a>) -> Result<(NodeId, ValueOrView<'a>), String> {
        let id = self.model.node_id(input.name).map_err(|error| error.to_string())?;
        let value = match input.values {
            Values::F32(values) => ValueView::from_shape(&input.shape, values)
                .map(ValueOrView::from)
                .map_err(|error| error.to_string()),
            Values::I64(values) => Value::from_shape(&input.shape, narrowed(values))
                .map(ValueOrView::from)
                .map_err(|error| error.to_string()),
        };
        Ok((id, value?))
    }
}

/// Returns times in Unix seconds as the 32 bits that the engine computes with.
///
/// A time after 2038 becomes one at the same time of the week, at the same date before 2100.
fn narrowed(times: &[i64]) -> Vec<i32> {
    let latest = times.iter().copied().max().unwrap_or(0);
    let over = latest.saturating_sub(i32::MAX.into()).max(0);
    let cycles = over.saturating_add(CALENDAR_SECONDS - 1) / CALENDAR_SECONDS;
    let shifted = |time: &i64| i32::try_from(time.saturating_sub(cycles * CALENDAR_SECONDS));
    times.iter().map(|time| shifted(time).unwrap_or(i32::MIN)).collect()
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::forecast::onnx::contract::CHAIN_MAX;
    use crate::forecast::onnx::file::{Graph, GraphNode, ModelFile, Port};

    #[test]
    fn a_time_after_2038_keeps_its_place_in_the_week() {
        let last = i64::from(i32::MAX);
        assert_eq!(narrowed(&[last - 300, last]), [i32::MAX - 300, i32::MAX]);
        for later in [last + 1, last + CALENDAR_SECONDS, 253_402_300_799] {
            let [before, at] = narrowed(&[later - 300, later])[..] else { panic!("two times") };
            assert_eq!((at - before, (later - i64::from(at)) % 604_800), (300, 0));
        }
        assert_eq!(narrowed(&[last + 1, 0])[1], i32::try_from(-CALENDAR_SECONDS).unwrap());
        assert_eq!(narrowed(&[i64::MIN, i64::MAX])[0], i32::MIN);
    }

    #[test]
    fn a_pool_ends_with_its_thread() {
        let weak = in_thread(|| {
            let here = HERE.with(|here| here.get().cloned()).unwrap();
            assert!(Arc::ptr_eq(&pool(), &here.upgrade().unwrap()));
            here
        });
        assert!(weak.upgrade().is_none());
    }

    /// The engine visits a chain of operators by recursion. The longest chain that the contract
    /// allows fits in half of the stack of a thread.
    #[test]
    fn the_longest_chain_runs() {
        let name = |at: usize| if at == CHAIN_MAX { "quantiles".into() } else { at.to_string() };
        let relu = |at: usize| GraphNode {
            inputs: vec![if at == 0 { "target".into() } else { name(at) }],
            outputs: vec![name(at + 1)],
            operator: "Relu".into(),
            ..GraphNode::default()
        };
        let port = |name: &str| Port { name: name.into(), ..Port::default() };
        let graph = Graph {
            nodes: (0..CHAIN_MAX).map(relu).collect(),
            inputs: vec![port("target")],
            outputs: vec![port("quantiles")],
            ..Graph::default()
        };
        let model = ModelFile { graph: Some(graph), ..ModelFile::default() };
        // The engine recognises a file by its field `ir_version`.
        let bytes = [vec![8, 8], model.encode_to_vec()].concat();
        let run = move || {
            let graph = EmbeddedGraph::load(&bytes).unwrap();
            let values = Values::F32(&[-1.0, 2.0]);
            let input = NamedTensor { name: "target", shape: vec![1, 2], values };
            graph.run(&[input], Wanted::All).unwrap().quantiles
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
        assert_eq!(thread.join().unwrap(), [0.0, 2.0]);
    }
}
