//! `OverprovisioningPolicy`, what a platform team writes; and its one conversion into what the stages take.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a type of its own")]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forecast::Method;

mod status;

pub use status::{
    BucketStatus, GroupStatus, OverprovisioningPolicyStatus, StatusCondition, StepStatus,
    UnplacedStatus,
};

/// Placeholders for the nodes that batch workloads are about to need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "prophet.dev",
    version = "v1alpha1",
    kind = "OverprovisioningPolicy",
    plural = "overprovisioningpolicies",
    shortname = "opp",
    namespaced,
    status = "OverprovisioningPolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Degraded')].reason"
    ),
    printcolumn(name = "Demand", type_ = "integer", json_path = ".status.demand"),
    printcolumn(name = "Target", type_ = "integer", json_path = ".status.target"),
    printcolumn(name = "Placeholders", type_ = "integer", json_path = ".status.placeholders"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct OverprovisioningPolicySpec {
    /// `Observe` watches, forecasts and reports; `Act` also holds placeholders.
    #[serde(default)]
    pub mode: Mode,
    /// Which pods are batch demand.
    #[serde(default)]
    pub workloads: WorkloadsSpec,
    /// Which buckets get placeholders; all when absent.
    #[serde(default)]
    pub buckets: BucketsSpec,
    /// How waiting and idling are weighed.
    #[serde(default)]
    pub objective: ObjectiveSpec,
    /// How often demand is recorded and learnt from, such as `1m`; from `10s` to `1h`.
    #[serde(default = "one_minute")]
    #[schemars(length(min = 2, max = 8), regex(pattern = r"^[0-9]+[smh]$"))]
    pub tick: String,
    /// How the future is forecast.
    #[serde(default)]
    pub forecast: ForecastSpec,
    /// The most placeholders.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// How fast the number of placeholders moves, as a HorizontalPodAutoscaler spells it.
    #[serde(default)]
    pub behavior: BehaviorSpec,
    /// What placeholders are made of.
    #[serde(default)]
    pub placeholders: PlaceholdersSpec,
}

fn one_minute() -> String {
    "1m".into()
}

/// Whether a policy acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Watch, forecast and report.
    #[default]
    Observe,
    /// Hold placeholders as well.
    Act,
}

/// Which pods are batch demand, and which pods to be are about to come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.priority) || !has(self.priority.min) || !has(self.priority.max) || self.priority.min <= self.priority.max", "message": "priority.min is above priority.max"}
]))]
pub struct WorkloadsSpec {
    /// Namespaces; all but `kube-system` when empty.
    #[schemars(length(max = 64))]
    pub namespaces: Vec<String>,
    /// What the labels of pods must meet.
    pub selector: Selector,
    /// The range of their priorities; -9 and above when absent.
    pub priority: PriorityRange,
    /// Scheduling gates that will be lifted within the launch latency: pods behind them count as announced.
    #[schemars(length(max = 16))]
    pub released_gates: Vec<String>,
    /// Suspended Jobs and JobSets whose labels meet this will be released within the launch latency.
    pub released_jobs: Option<Selector>,
}

/// A range of priorities, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PriorityRange {
    /// The lowest.
    pub min: Option<i32>,
    /// The highest.
    pub max: Option<i32>,
}

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Labels that must have these values.
    pub match_labels: BTreeMap<String, String>,
    /// Requirements, all of which must hold.
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.operator in ['In', 'NotIn'] ? size(self.values) > 0 : size(self.values) == 0", "message": "In and NotIn need values, Exists and DoesNotExist take none"}
]))]
pub struct SelectorRequirement {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// How it is compared.
    pub operator: SelectorOperator,
    /// With what.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the operators of a label selector")]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Which buckets get placeholders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BucketsSpec {
    /// Instance types; all when empty.
    #[schemars(length(max = 100))]
    pub instance_types: Vec<String>,
    /// Capacity types; both when empty.
    #[schemars(length(max = 2))]
    pub capacity_types: Vec<Capacity>,
}

/// How instances are bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the capacity types of AWS")]
pub enum Capacity {
    OnDemand,
    Spot,
}

/// How waiting and idling are weighed: a service level, or the costs of both; waiting costs 9 times idling when neither is
/// given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.waitCost) == has(self.idleCost)", "message": "waitCost and idleCost go together"},
    {"rule": "!has(self.serviceLevel) || !has(self.waitCost)", "message": "give serviceLevel, or waitCost and idleCost, not both"}
]))]
pub struct ObjectiveSpec {
    /// The share of node launches to hide from jobs, in per cent, above 0 and below 100. What is held follows how many of the launches
    /// so far were hidden; with placeholders of kind CapacityBuffer nobody tells, and it follows what past demand would have come to.
    #[schemars(range(min = 0.1, max = 99.99))]
    pub service_level: Option<f64>,
    /// What a pod's waiting costs, in dollars an hour.
    #[schemars(range(min = 0.000_001, max = 1_000_000.0))]
    pub wait_cost: Option<f64>,
    /// What an idle instance costs, in dollars an hour.
    #[schemars(range(min = 0.000_001, max = 1_000_000.0))]
    pub idle_cost: Option<f64>,
}

/// How the future is forecast.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ForecastSpec {
    /// The method.
    pub method: Method,
    /// The steps of the method `ladder`.
    pub ladder: Option<LadderSpec>,
}

/// A step function as cluster-proportional-autoscaler has it: pairs of "from so many" and "so many placeholders" for each
/// bucket; the larger of the two counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LadderSpec {
    /// By cores of the nodes in demand.
    #[schemars(length(max = 64))]
    pub cores_to_replicas: Vec<[u32; 2]>,
    /// By nodes in demand.
    #[schemars(length(max = 64))]
    pub nodes_to_replicas: Vec<[u32; 2]>,
}

/// The most placeholders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitsSpec {
    /// Over all buckets.
    #[schemars(range(min = 0, max = 100_000))]
    pub placeholders: Option<u32>,
    /// Of one bucket, by its name.
    pub buckets: BTreeMap<String, u32>,
    /// The most that placeholders may cost, in dollars an hour.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub dollars_per_hour: Option<f64>,
}

/// How fast the number of placeholders moves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BehaviorSpec {
    /// How it grows.
    pub scale_up: RulesSpec,
    /// How it shrinks.
    pub scale_down: RulesSpec,
}

/// One direction of a behaviour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RulesSpec {
    /// The extreme of so many seconds counts.
    #[schemars(range(min = 0, max = 86_400))]
    pub stabilization_window_seconds: u32,
    /// Changes of no more than this share are left alone.
    #[schemars(range(min = 0.0, max = 0.99))]
    pub tolerance: f64,
    /// No more than so many in a period; of several, the strictest counts.
    #[schemars(length(max = 8))]
    pub policies: Vec<RateSpec>,
}

/// At most so many placeholders in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateSpec {
    /// How many.
    #[schemars(range(min = 1, max = 100_000))]
    pub value: u32,
    /// In how many seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub period_seconds: u32,
}

/// What placeholders are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlaceholdersSpec {
    /// What stands in for a node: pods of ReplicaSets, or the virtual pods of CapacityBuffers.
    pub kind: PlaceholderKind,
    /// One priority class for all placeholders; by default they rank by price, `prophet-placeholder-10` to `-1`.
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// The image of the container that does nothing.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Images to have on the node before its first job.
    #[schemars(length(max = 32))]
    pub warm_images: Vec<WarmImage>,
    /// Commands that put data onto the node before its first job.
    #[schemars(length(max = 16))]
    pub warm_data: Vec<WarmData>,
}

/// An image that does nothing and is on every EKS node's registry list; other registries mirror it.
const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10";

impl Default for PlaceholdersSpec {
    fn default() -> Self {
        Self {
            kind: PlaceholderKind::ReplicaSet,
            priority_class_name: None,
            image: PAUSE_IMAGE.into(),
            warm_images: Vec::new(),
            warm_data: Vec::new(),
        }
    }
}

/// What stands in for a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlaceholderKind {
    /// Pods of ReplicaSets.
    #[default]
    ReplicaSet,
    /// CapacityBuffers.
    CapacityBuffer,
}

/// An image to have on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmImage {
    /// The image.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// A command of the image that ends at once; `["true"]` when absent. An image without any such program is warmed
    /// by an image volume (Kubernetes 1.35), see `volume`.
    pub command: Option<Vec<String>>,
    /// Mount the image as a volume instead of running it: for images without a shell.
    #[serde(default)]
    pub volume: bool,
}

/// A command that puts data onto the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.hostPath.startsWith('/') && !self.hostPath.contains('..')", "message": "hostPath must be absolute, without .."}
]))]
pub struct WarmData {
    /// A name, for the init container.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The image that has the command.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// The command: idempotent, and may be killed at any moment.
    #[schemars(length(min = 1, max = 64))]
    pub command: Vec<String>,
    /// The folder on the node, mounted at the same path; below the prefix that the operator allows.
    #[schemars(length(min = 2, max = 512))]
    pub host_path: String,
    /// The file below `hostPath` that says that all is there: the command is skipped when it exists.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^/]+$"))]
    pub marker: String,
}
