//! A forecast of a model that is asked for at a tick, and computed when it is read.
//!
//! Until then, the model may be asked at more ticks. One run for several ticks takes less time than
//! a run for each.

use std::sync::{Arc, OnceLock};

use embedder::BucketId;

use super::spec::Spec;
use super::tensors::{ModelInput, ModelOutput};
use crate::forecast::distribution::Distribution;
use crate::forecast::model_fault::ModelFault;

/// A forecast that was asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    /// What the model is run for. `None` if it cannot be run.
    pub(super) question: Option<Question>,
    /// The forecast, once it is computed.
    pub(super) answer: OnceLock<Expected>,
}

/// What the model is run for at a tick.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) spec: Arc<Spec>,
    /// The buckets in the order of the inputs, at least one.
    pub(super) buckets: Vec<BucketId>,
    /// The demand of the tick in nodes, in the same order.
    pub(super) present: Vec<u64>,
    /// The inputs, of batch 1.
    pub(super) inputs: ModelInput,
    /// The faults of a newer file that was rejected.
    pub(super) rejected: Vec<ModelFault>,
}

/// The forecast of a model.
#[derive(Clone, Default)]
pub(super) struct Expected {
    /// The new nodes by bucket; empty if the model has no forecast.
    pub(super) new_nodes: Vec<(BucketId, Distribution)>,
    /// The output from which demand ahead is read.
    pub(super) output: Option<ModelOutput>,
    pub(super) faults: Vec<ModelFault>,
}

impl Asked {
    /// A forecast that needs no run.
    pub(super) fn without_run(faults: Vec<ModelFault>) -> Self {
        let expected = Expected { faults, ..Expected::default() };
        Self { question: None, answer: OnceLock::from(expected) }
    }

    /// Returns the output of the run and what it was run for. `None` if there is no output.
    pub(super) fn output(&self) -> Option<(&Question, &ModelOutput)> {
        self.question.as_ref().zip(self.answer.get()?.output.as_ref())
    }

    /// Returns how long the forecast is used while nothing changes, in seconds: one tick of the
    /// model, and 0 if there is no output.
    pub(super) fn lasts(&self) -> i64 {
        let answered = self.answer.get().is_some();
        let question = self.question.as_ref().filter(|_| !answered || self.output().is_some());
        question.map_or(0, |question| question.spec.tick_seconds)
    }
}

impl Question {
    /// Whether one run can answer both questions.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        Spec::is_same(&self.spec, &other.spec) && self.buckets == other.buckets
    }
}
