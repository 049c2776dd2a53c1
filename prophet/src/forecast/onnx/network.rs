//! A network that keeps the contract, ready to be run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::Tensor;

use super::contract::{self, ModelFault};
use super::engine::environment;
use super::spec::{Golden, Spec};

/// How far an engine may be off the golden output, relative to it; and absolutely, below one node.
const TOLERANCE: f32 = 1e-4;

/// A network that keeps the contract.
pub struct Network {
    spec: Arc<Spec>,
    session: Session,
}

/// What a network is fed, of batch 1, flat, the last dimension running fastest; NaN is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// How many.
    pub buckets: usize,
    /// [window, buckets] nodes.
    pub target: Vec<f32>,
    /// [window] Unix seconds.
    pub time: Vec<i64>,
    /// [buckets, features].
    pub state: Vec<f32>,
}

/// What a network answers, in nodes, flat, the last dimension running fastest. Never NaN; rising along levels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// [buckets, horizon, levels]: demand.
    pub quantiles: Vec<f32>,
    /// [buckets, levels]: the new nodes needed; empty where the network does not say.
    pub headroom: Vec<f32>,
}

impl Network {
    /// Loads a file, checks that it keeps the contract, and that this engine makes of the golden input what it ought to.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn load(bytes: &[u8]) -> Result<Self, Vec<ModelFault>> {
        let spec = Arc::new(contract::read(bytes)?);
        let one = |fault: ModelFault| vec![fault];
        let session = guarded("graph", || session(bytes)).map_err(one)?;
        let mut network = Self { spec, session };
        network.check_golden().map_err(one)?;
        Ok(network)
    }

    /// What its file says of it.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// Runs it.
    ///
    /// # Errors
    /// The engine fails, or the answer is none: of the wrong size, NaN, or falling along levels.
    pub fn run(&mut self, inputs: &Inputs) -> Result<Answer, ModelFault> {
        let Self { spec, session } = self;
        let answer = guarded("graph", || run(session, spec, inputs))?;
        let levels = spec.levels.len();
        check_quantiles("outputs.quantiles", &answer.quantiles, inputs.buckets * spec.horizon, levels)?;
        let rows = if answer.headroom.is_empty() { 0 } else { inputs.buckets };
        check_quantiles("outputs.headroom", &answer.headroom, rows, levels)?;
        Ok(answer)
    }

    fn check_golden(&mut self) -> Result<(), ModelFault> {
        let Golden { buckets, target, time, state, quantiles, headroom } = self.spec.golden.clone();
        let missing =
            |values: Vec<Option<f32>>| values.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect();
        let inputs = Inputs { buckets, target: missing(target), time, state: missing(state) };
        let answer = self.run(&inputs)?;
        check_near("golden.quantiles", &answer.quantiles, &quantiles)?;
        check_near("golden.headroom", &answer.headroom, &headroom)
    }
}

/// An engine may panic on a graph that it does not know; that must cost no more than the network's vote.
fn guarded<T>(field: &str, act: impl FnOnce() -> Result<T, String>) -> Result<T, ModelFault> {
    let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err("the engine panicked".into()));
    done.map_err(|what| ModelFault::new(field, what))
}

fn session(bytes: &[u8]) -> Result<Session, String> {
    let environment = environment().map_err(|error| error.to_string())?;
    let built = || -> ort::Result<Session> {
        Session::builder(environment)?
            .with_optimization_level(GraphOptimizationLevel::Level3)?
            .with_intra_threads(1)?
            .commit_from_memory(bytes)
    };
    built().map_err(|error| error.to_string())
}

fn run(session: &mut Session, spec: &Spec, inputs: &Inputs) -> Result<Answer, String> {
    let Inputs { buckets, target, time, state } = inputs;
    let mut done = || -> ort::Result<Answer> {
        let shape = [1, spec.window, *buckets];
        let mut fed = ort::inputs![
            "target" => Tensor::from_array((shape, target.clone()))?,
            "time" => Tensor::from_array(([1, spec.window], time.clone()))?,
        ];
        if !spec.state.is_empty() {
            let shape = [1, *buckets, spec.state.len()];
            fed.extend(ort::inputs!["state" => Tensor::from_array((shape, state.clone()))?]);
        }
        let outputs = session.run(fed)?;
        let values = |name: &str| match outputs.get(name) {
            None => Ok(Vec::new()),
            Some(output) => output.try_extract_tensor::<f32>().map(|(_, values)| values.to_vec()),
        };
        Ok(Answer { quantiles: values("quantiles")?, headroom: values("headroom")? })
    };
    done().map_err(|error| error.to_string())
}

fn check_quantiles(field: &str, values: &[f32], rows: usize, levels: usize) -> Result<(), ModelFault> {
    if values.len() != rows * levels {
        let what = format!("expected {} numbers, got {}", rows * levels, values.len());
        return Err(ModelFault::new(field, what));
    }
    if values.iter().any(|value| !value.is_finite()) {
        return Err(ModelFault::new(field, "NaN or infinite"));
    }
    if values.chunks(levels).any(|row| !row.is_sorted_by(|low, high| *low <= high + tolerance(*low))) {
        return Err(ModelFault::new(field, "falls along levels"));
    }
    Ok(())
}

fn check_near(field: &str, have: &[f32], want: &[f32]) -> Result<(), ModelFault> {
    let off = have.iter().zip(want).find(|(have, want)| (*have - *want).abs() > tolerance(**want));
    match off {
        None => Ok(()),
        Some((have, want)) => Err(ModelFault::new(
            format!("{}.{field}", super::spec::FIELD),
            format!("expected {want}, and this engine makes {have} of the golden input"),
        )),
    }
}

fn tolerance(value: f32) -> f32 {
    TOLERANCE * value.abs().max(1.0)
}
