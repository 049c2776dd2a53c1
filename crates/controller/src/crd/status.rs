//! The status of a policy: demand, forecasts and placeholders, each number with its reason.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::planned::PlannedDemandStatus;

/// The demand, forecasts, placeholders and problems of a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OverprovisioningPolicyStatus {
    /// The generation of the policy that this status describes.
    pub observed_generation: i64,
    /// `Ready`: whether the policy is applied. `Degraded`: whether there are problems, with the
    /// worst as its reason. `PricesKnown`: whether each bucket has the price of its instance type
    /// in the region of the cluster.
    pub conditions: Vec<StatusCondition>,
    /// Present demand over all buckets: the nodes that batch pods occupy or wait for.
    pub demand: u64,
    /// The target number of placeholders over all buckets.
    pub target: u64,
    /// The present number of placeholders over all buckets, on nodes or waiting for a node.
    pub placeholders: u64,
    /// Demand, forecasts and placeholders of each bucket.
    pub buckets: Vec<BucketStatus>,
    /// The pods of each tier, in the order of their names. Absent if the policy has no tiers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierStatus>,
    /// The PlannedDemands whose pods are expected now, or next: the twenty earliest ones. Absent if
    /// the policy covers none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub planned: Vec<PlanStatus>,
    /// The steps of workflows that may start within the time of a launch: the twenty most probable
    /// ones. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<ExpectedStatus>,
    /// The rollout. Absent in the mode `Observe`, and if the policy has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// The number of waiting and announced pods that are not counted as demand, by reason.
    pub held_back: BTreeMap<String, u64>,
    /// Pods that fit in no bucket, by their requests and the reason. The twenty entries with the
    /// most pods.
    pub unplaced: Vec<UnplacedStatus>,
    /// What is known of the nodes of each group, also while the group has none.
    pub nodes: Vec<NodesStatus>,
}

/// The present step of a rollout. The controller reads it after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// The percentage of the target that stands in each bucket, except on control days. 0 after the
    /// first step went back.
    #[schemars(range(min = 0, max = 100))]
    pub percent: u8,
    /// Whether the rollout goes on, went back, or is complete.
    pub phase: RolloutPhase,
    /// The beginning of the step, in RFC 3339.
    pub since: String,
    /// Why the step began.
    pub message: String,
    /// What was measured since then: the service level, that of the compared pods, and the cost.
    pub measured: String,
}

/// The phase of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutPhase {
    /// The next step follows, unless this one costs too much or lowers the service level.
    #[default]
    Progressing,
    /// The step before cost too much or lowered the service level. No step follows until the policy
    /// changes.
    WentBack,
    /// The last step lasted long enough. No step follows.
    Complete,
}

/// The pods of a tier that the policy selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TierStatus {
    /// The name of the tier.
    pub name: String,
    /// The number of its pods without a node.
    pub waiting: u64,
    /// The number of its pods on nodes.
    pub running: u64,
}

/// A PlannedDemand that the policy covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStatus {
    /// The PlannedDemand, as NAMESPACE/NAME.
    pub name: String,
    /// What its own status has.
    #[serde(flatten)]
    pub status: PlannedDemandStatus,
}

/// A step of a workflow that may start within the time of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedStatus {
    /// The kind, the namespace and the name of the workflow, and the name of the step.
    pub name: String,
    /// The chance that it starts within the time of a launch, rounded to tens of a percent.
    pub chance: String,
    /// The number of its pods.
    pub pods: u64,
    /// Of these, the pods that count as demand now. The others find room on the nodes of the steps
    /// before, or are too improbable.
    pub held: u64,
}

/// A condition, with the fields of `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCondition {
    /// The type of the condition: `Ready`, `Degraded` or `PricesKnown`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status of the condition: `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason of the status in one word.
    pub reason: String,
    /// A message for people.
    pub message: String,
    /// The time at which the status last changed, in RFC 3339.
    pub last_transition_time: String,
    /// The generation of the policy that the condition describes.
    #[serde(default)]
    pub observed_generation: i64,
}

/// Demand, forecasts and placeholders of one bucket, in nodes. A bucket is an instance type with a
/// capacity type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BucketStatus {
    /// The name of the bucket, such as `m5.xlarge` or `m5.xlarge/spot`.
    pub name: String,
    /// The price of an instance in dollars per hour, such as `0.192`. Absent before the first
    /// decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<String>,
    /// Where the price comes from: `operator`, `catalog_file`, `node_overlay`, `spot_history`,
    /// `price_list`, `table`, `other_region` or `estimate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_source: Option<String>,
    /// Present demand: the nodes that batch pods occupy or wait for.
    pub demand: u64,
    /// Announced demand: further nodes for gated pods and suspended jobs that will be released
    /// within the launch latency.
    pub announced: u64,
    /// The forecast of the new nodes that arrivals need within the lead time: the quantiles `p50`,
    /// `p90` and `p99`, and `held`, the number that the objective selects before limits. All of
    /// them are the value of an expression that differs from the forecast.
    pub outlook: BTreeMap<String, u64>,
    /// The lead time of the forecast in seconds: the launch latency of the bucket's slowest group,
    /// one tick, and one scan of the autoscaler, in whole ticks.
    pub lead_seconds: u64,
    /// The time, in RFC 3339, since which a forecast decides. Absent while there is too little
    /// history, so that a rule of thumb or `forecast.ladder` of the policy decides, and until an
    /// expression has the value of the forecast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast_since: Option<String>,
    /// The ensemble's carrier: the expert whose forecast is held, with its weight and its cost in
    /// dollars per day. Empty for methods other than the ensemble, and where an expression changes
    /// its number.
    pub expert: String,
    /// The target number of placeholders of the bucket.
    pub target: u64,
    /// The present number of placeholders of the bucket, on nodes or waiting for a node.
    pub placeholders: u64,
    /// The number of placeholders of the bucket on nodes.
    pub ready: u64,
    /// The reason of the target: that of the last of `steps`.
    pub reason: String,
    /// The steps that led to the target, in order.
    pub steps: Vec<StepStatus>,
    /// The placeholders of each group of the bucket.
    pub groups: Vec<GroupStatus>,
    /// The warm pools of the bucket's groups. Absent if the policy has none, or if the groups
    /// cannot have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_pool: Option<WarmPoolStatus>,
}

/// The warm pools of the groups of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WarmPoolStatus {
    /// How many instances the pools shall have together. In the mode `Observe`, how many they would
    /// have.
    pub target: u64,
    /// The instances that are prepared.
    pub prepared: u64,
    /// The instances that are being prepared.
    pub preparing: u64,
}

/// One step of the calculation of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepStatus {
    /// The reason of the step, such as a limit.
    pub reason: String,
    /// The target after the step.
    pub target: u64,
}

/// The placeholders of one group of a bucket, such as one Auto Scaling group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupStatus {
    /// The name of the group.
    pub name: String,
    /// The target number of placeholders of the group.
    pub target: u64,
    /// The present number of placeholders of the group: those on nodes and, unless the group is in
    /// backoff, those waiting for a node.
    pub placeholders: u64,
    /// The number of placeholders of the group on nodes.
    pub ready: u64,
    /// Whether the group is in backoff because launches failed recently.
    pub backoff: bool,
    /// When the group is tried again, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<String>,
    /// The assumed launch latency in seconds: the 90 % quantile of recent launches, or the
    /// controller's setting before the first launch.
    pub launch_seconds: u64,
}

/// What is known of the nodes of one group from those that it has or had. The controller reads it
/// after a restart, because other values would replace all placeholders of the group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodesStatus {
    /// The name of the group.
    pub group: String,
    /// The instance type of the nodes.
    pub instance_type: String,
    /// The allocatable resources of a node before DaemonSets, such as `cpu_millis` and
    /// `memory_bytes`. Resources without a limit are absent.
    pub size: BTreeMap<String, u64>,
    /// The names of the other resources of the nodes.
    pub devices: Vec<String>,
    /// The labels of the nodes by which pods select them and that the source of the group does not
    /// have.
    pub labels: BTreeMap<String, String>,
    /// The taints of the nodes, such as `team=a:NoSchedule`. Absent if the source of the group
    /// describes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<String>>,
    /// The DaemonSets, as NAMESPACE/NAME, that run on the nodes because of labels that the source
    /// of the group does not have.
    pub daemon_sets: Vec<String>,
}

/// Pods with equal requests that fit in no bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnplacedStatus {
    /// The requests of each pod, such as `accelerators=8, cpu_millis=4000`.
    pub shape: String,
    /// The number of pods.
    pub pods: u64,
    /// Why the pods fit in no bucket.
    pub reason: String,
}
