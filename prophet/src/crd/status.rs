//! The status of a policy: what is in demand, expected and held, each number with its reason.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a policy fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverprovisioningPolicyStatus {
    /// The generation that this tells of.
    pub observed_generation: i64,
    /// `Ready`, and `Degraded` with its cause.
    pub conditions: Vec<StatusCondition>,
    /// Instances in demand, over all buckets.
    pub demand: u64,
    /// Placeholders that ought to stand.
    pub target: u64,
    /// Placeholders that stand or are on their way.
    pub placeholders: u64,
    /// Per bucket.
    pub buckets: Vec<BucketStatus>,
    /// Pods that are announced but not counted, by reason.
    pub held_back: BTreeMap<String, u64>,
    /// Pods that no bucket takes, by shape and reason; the largest twenty.
    pub unplaced: Vec<UnplacedStatus>,
}

/// A condition, with the fields of `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCondition {
    /// `Ready` or `Degraded`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: String,
    /// For a person.
    pub message: String,
    /// When the status last changed, RFC 3339.
    pub last_transition_time: String,
    /// The generation that it tells of.
    #[serde(default)]
    pub observed_generation: i64,
}

/// One bucket of a policy's status, in instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BucketStatus {
    /// The bucket.
    pub name: String,
    /// Present demand.
    pub demand: u64,
    /// Announced demand.
    pub announced: u64,
    /// Quantiles of the new nodes needed within the launch latency: `p50`, `p90`, `p99`, and `held`.
    pub outlook: BTreeMap<String, u64>,
    /// Of the ensemble, the expert that is followed, and why.
    pub expert: String,
    /// Placeholders that ought to stand.
    pub target: u64,
    /// Placeholders that stand or are on their way.
    pub placeholders: u64,
    /// Placeholders on nodes.
    pub ready: u64,
    /// What set the target last.
    pub reason: String,
    /// How the target came to be, in order.
    pub steps: Vec<StepStatus>,
    /// Per group.
    pub groups: Vec<GroupStatus>,
}

/// One step on the way to a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepStatus {
    /// What set the target here.
    pub reason: String,
    /// To how many.
    pub target: u64,
}

/// One group of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// The group.
    pub name: String,
    /// Placeholders that ought to stand.
    pub target: u64,
    /// Placeholders that stand or are on their way.
    pub placeholders: u64,
    /// Placeholders on nodes.
    pub ready: u64,
    /// Whether launches failed lately.
    pub backoff: bool,
    /// The launch latency that is reckoned with, in seconds.
    pub launch_seconds: u64,
}

/// Pods that no bucket takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnplacedStatus {
    /// What each asks for.
    pub shape: String,
    /// How many there are.
    pub pods: u64,
    /// Why.
    pub reason: String,
}
