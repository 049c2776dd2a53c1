//! The input of a simulation in which a policy in the mode `Observe` acts. The program runs it for
//! the controller.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::tier::Tiers;
use chrono::{DateTime, Utc};
use demand::forecast::onnx::ModelSource;
use demand::forecast::{Expression, Ladder, Method};
use futures::future::LocalBoxFuture;
use history::Place;
use placeholders::Policy;

/// The policy that is simulated, with the settings of the controller that concern it.
#[derive(Clone, Debug, PartialEq)]
pub struct ActingPolicy {
    /// The forecasting method.
    pub method: Method,
    /// The objective, the limits and the scaling behavior.
    pub policy: Policy,
    /// The steps of the method `ladder`.
    pub ladder: Ladder,
    /// Whether the policy sets the steps.
    pub ladder_first: bool,
    /// The expression of the method `expression`.
    pub expression: Option<Expression>,
    /// The tiers of the workloads.
    pub tiers: Tiers,
    /// The most instances in the policy's warm pools. `None` if it has none.
    pub warm_pool_max: Option<u64>,
    /// The source of the ONNX model.
    pub model: ModelSource,
    /// Seconds between ticks.
    pub tick_seconds: i64,
    /// The launch latency that is assumed while the history has no launches, in seconds.
    pub launch_seconds: i64,
    /// How long a node must be unneeded before the autoscaler removes it, in seconds.
    pub unneeded_seconds: i64,
}

/// The recorded pods that are simulated.
#[derive(Clone, Debug)]
pub struct RecordedPods {
    /// The place of the history.
    pub place: Place,
    /// The name of the policy in the history.
    pub name: String,
    /// The first time whose pods count.
    pub since: DateTime<Utc>,
}

/// Simulates recorded pods with the autoscaler alone and under a policy, until the flag is set, and
/// returns the result as a text. The controller does not contain the simulator, so the program
/// passes this function to it.
pub type SimulateIfActed = Arc<
    dyn Fn(
            RecordedPods,
            ActingPolicy,
            Arc<AtomicBool>,
        ) -> LocalBoxFuture<'static, anyhow::Result<String>>
        + Send
        + Sync,
>;
