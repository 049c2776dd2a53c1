//! The custom resource `OverprovisioningPolicy`, which a platform team writes, and `PlannedDemand`,
//! which those write who submit jobs (`planned.rs`).
//!
//! The doc comments become the descriptions of the CRD, which `kubectl explain` prints. The
//! conversion into the settings of the stages is in `cluster/settings.rs`.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a type of its own")]

use std::collections::BTreeMap;

use base::tier::Tier;
use demand::forecast::Method;
use kube::CustomResource;
use placeholders::WINDOW_SECONDS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod bounds;
mod definition;
mod planned;
mod status;

pub use definition::{definition, definitions};
pub use planned::{PlannedDemand, PlannedDemandSpec, PlannedDemandStatus};
pub use status::{
    BucketStatus, ExpectedStatus, GroupStatus, NodesStatus, OverprovisioningPolicyStatus,
    PlanStatus, RolloutPhase, RolloutStatus, StatusCondition, StepStatus, TierStatus,
    UnplacedStatus, WarmPoolStatus,
};

/// Holds low-priority placeholder pods for the nodes that batch workloads are about to need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "prophet.dev",
    version = "v1alpha1",
    kind = "OverprovisioningPolicy",
    plural = "overprovisioningpolicies",
    shortname = "opp",
    category = "prophet",
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
    printcolumn(
        name = "Rollout",
        type_ = "string",
        json_path = ".status.rollout.phase",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Degraded')].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct OverprovisioningPolicySpec {
    /// `Observe` watches, forecasts and reports in the status. `Act` also holds placeholders.
    /// `Observe` when absent.
    #[serde(default)]
    pub mode: Mode,
    /// Which pods are batch demand, for which Prophet forecasts and holds nodes.
    #[serde(default)]
    pub workloads: WorkloadsSpec,
    /// Which buckets get placeholders. A bucket is an instance type with a capacity type. All when
    /// absent.
    #[serde(default)]
    pub buckets: BucketsSpec,
    /// How the waiting of pods is weighed against idle instances.
    #[serde(default)]
    pub objective: ObjectiveSpec,
    /// How often demand is recorded and the forecaster learns from it, such as `1m`. From `10s` to
    /// `1h`; `1m` when absent.
    #[serde(default = "one_minute")]
    #[schemars(length(min = 2, max = 8), regex(pattern = r"^[0-9]+[smh]$"), extend("x-kubernetes-validations" = [
        {"rule": "duration(self) >= duration('10s') && duration(self) <= duration('1h')", "message": "tick must be 10s to 1h"}
    ]))]
    pub tick: String,
    /// How future demand is forecast.
    #[serde(default)]
    pub forecast: ForecastSpec,
    /// Limits on the number and the cost of placeholders.
    #[serde(default)]
    pub limits: LimitsSpec,
    /// How fast the number of placeholders changes, with the fields of a HorizontalPodAutoscaler's
    /// `behavior`.
    #[serde(default)]
    pub behavior: BehaviorSpec,
    /// How a policy in the mode `Act` begins: at first, only a part of the placeholders stands. All
    /// of them stand when absent.
    #[serde(default)]
    pub rollout: Option<RolloutSpec>,
    /// The kind of placeholders, their priority and image, and what they load onto a node.
    #[serde(default)]
    pub placeholders: PlaceholdersSpec,
    /// Warm pools of the policy's Auto Scaling groups: prepared instances that are stopped, and
    /// start in about a minute. Prophet sizes them in the mode `Act`, and leaves the pools of
    /// groups alone when absent.
    #[serde(default)]
    pub warm_pool: Option<WarmPoolSpec>,
    /// The fields that cannot be represented, with the reason.
    #[serde(skip)]
    pub unreadable: Vec<String>,
}

fn one_minute() -> String {
    "1m".into()
}

/// Whether a policy holds placeholders or only reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// Watch, forecast and report in the status.
    #[default]
    Observe,
    /// Also hold placeholders.
    Act,
}

/// Which pods are batch demand, and which gated pods and suspended jobs will be released soon. Pods
/// must meet `namespaces`, `selector` and `priority`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.priority) || !has(self.priority.min) || !has(self.priority.max) || self.priority.min <= self.priority.max", "message": "priority.min is above priority.max"}
]))]
pub struct WorkloadsSpec {
    /// The namespaces of the pods. All except `kube-system` when empty.
    #[schemars(length(max = 64))]
    pub namespaces: Vec<String>,
    /// The label selector of the pods. All pods when empty.
    pub selector: Selector,
    /// The range of the pods' priorities. 0 and above when absent, because pods of these priorities
    /// preempt placeholders, whose priorities are negative by default.
    pub priority: PriorityRange,
    /// Bands of priority whose pods share the nodes, each with its own cost of waiting. A pod
    /// belongs to the tier with the highest `priorityMin` that it reaches; pods below the lowest
    /// tier have the weight 1. The method `ensemble` holds as many placeholders as are worth their
    /// cost at these weights. Other methods ignore the weights.
    #[schemars(length(max = 8), extend("x-kubernetes-validations" = [
        {"rule": "self.all(one, self.exists_one(other, other.name == one.name))", "message": "two tiers have one name"},
        {"rule": "self.all(one, self.exists_one(other, other.priorityMin == one.priorityMin))", "message": "two tiers have one priorityMin"}
    ]))]
    pub tiers: Vec<TierSpec>,
    /// Names of scheduling gates that are lifted within the launch latency of a node. A gated pod
    /// counts as announced demand, for which placeholders are held, if all its gates are listed
    /// here.
    #[schemars(length(max = 16))]
    pub released_gates: Vec<String>,
    /// The label selector of suspended Jobs and JobSets that are released within the launch latency
    /// of a node. Their pods count as announced demand, for which placeholders are held. No
    /// suspended job counts when absent.
    pub released_jobs: Option<Selector>,
    /// The label selector of Jobs with `completionMode: Indexed` whose pods start together. The
    /// pods of such a Job are a gang, in the forecast and while the Job, or the next Job of such a
    /// CronJob, is announced. The placeholders for a gang are in one placement group. No Job is a
    /// gang when absent.
    pub gang_jobs: Option<Selector>,
    /// The largest share of `limits`, and of the limits of the operator, that is held for what one
    /// namespace submitted or announced, above 0 and at most 1, while other namespaces have batch
    /// pods, too. A namespace that submits no more is forgotten an hour after its usual gap. The
    /// methods `ladder`, `expression` and `scheduled` do not learn from namespaces. 0.5 when
    /// absent.
    #[schemars(range(min = 0.01, max = 1.0))]
    pub namespace_share: Option<f64>,
    /// Whether nodes are held for all pods of a PlannedDemand with `certain: true`, however many of
    /// those that its author planned before came. Otherwise all PlannedDemands are weighed.
    pub certain_plans: bool,
    /// Whether the pods can use their PersistentVolumeClaims in every zone of the buckets, as with
    /// EFS, or with buckets in one zone. Otherwise pods with such claims do not count, because a
    /// volume may forbid the node of a placeholder.
    pub volumes_in_any_zone: bool,
}

/// A band of priorities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TierSpec {
    /// The name, such as `production`. It is unique among the tiers.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// The lowest priority of the tier's pods.
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub priority_min: i32,
    /// The cost of a waiting pod of the tier, as a multiple of the cost in `objective`. With the
    /// weight 0, no placeholder is held for the tier alone. Of a `serviceLevel`, a pod counts once,
    /// or not at all if the weight is 0.
    #[schemars(range(min = 0.0, max = Tier::WEIGHT_MAX))]
    pub weight: f64,
}

/// A range of priorities, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PriorityRange {
    /// The lowest priority. 0 when absent.
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub min: Option<i32>,
    /// The highest priority. No limit when absent.
    #[schemars(range(min = i32::MIN, max = i32::MAX))]
    pub max: Option<i32>,
}

/// A label selector. An object must meet all its requirements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Labels that must have these values.
    pub match_labels: BTreeMap<String, String>,
    /// Requirements on labels, all of which must hold.
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)", "message": "In and NotIn require values, Exists and DoesNotExist allow none"}
]))]
pub struct SelectorRequirement {
    /// The key of the label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// How the label is compared with `values`: `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: SelectorOperator,
    /// The values for `In` and `NotIn`. Must be empty for `Exists` and `DoesNotExist`.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub values: Vec<String>,
}

/// How a label is compared with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the operators of a label selector")]
pub enum SelectorOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

/// Which groups of nodes get placeholders: those that meet all fields. Groups that pods can use
/// alike are one bucket: an instance type with a capacity type, and with the taints and labels in
/// which groups differ, such as `m5.xlarge/team=a`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BucketsSpec {
    /// Instance types, such as `m5.xlarge`. All when empty.
    #[schemars(length(max = 100))]
    pub instance_types: Vec<String>,
    /// Capacity types: `on-demand`, `spot`. Both when empty.
    #[schemars(length(max = 2))]
    pub capacity_types: Vec<Capacity>,
    /// Names of groups, in which `*` stands for any characters, such as `batch-*`. All when empty.
    #[schemars(length(max = 100))]
    pub groups: Vec<String>,
    /// Requirements on the labels of a group's nodes. Selects all groups when empty.
    pub selector: Selector,
    /// The pods that tolerate interruption. They get spot buckets and on-demand buckets, the
    /// cheaper first; all other pods get on-demand buckets only. When absent, these are the pods
    /// whose node selector or required node affinity selects spot nodes by the label
    /// `karpenter.sh/capacity-type` or `eks.amazonaws.com/capacityType`.
    pub spot_for: Option<SpotForSpec>,
}

/// The pods that tolerate interruption: those that meet at least one of the fields. No pod when all
/// fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotForSpec {
    /// Keys of taints, such as `example.com/spot`. Pods with a toleration of one of these keys
    /// tolerate interruption. A toleration without a key does not count.
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)))]
    pub tolerations: Vec<String>,
    /// Labels of nodes. Pods whose node selector or required node affinity selects one of these
    /// labels tolerate interruption.
    pub node_selector: BTreeMap<String, String>,
    /// The label selector of pods that tolerate interruption. All pods when it is empty (`{}`), and
    /// none by it when absent.
    pub selector: Option<Selector>,
}

/// The capacity type of instances: how they are bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the capacity types of AWS")]
pub enum Capacity {
    OnDemand,
    Spot,
}

/// How the waiting of pods is weighed against idle instances: set one of `serviceLevel`, `waitCost`
/// and `waitRatio`. When all are absent, `waitRatio` is 9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "[has(self.serviceLevel), has(self.waitCost), has(self.waitRatio)].filter(set, set).size() <= 1", "message": "set only one of serviceLevel, waitCost and waitRatio"}
]))]
pub struct ObjectiveSpec {
    /// The percentage of pods that wait no longer than one scan of the autoscaler (10 s), above 0
    /// and below 100. The number of placeholders is adjusted by the pods that started in the
    /// cluster. For placeholders of kind `CapacityBuffer`, whose nodes are not observed, it follows
    /// from past demand alone.
    #[schemars(range(min = bounds::LEVEL_MIN, max = bounds::LEVEL_MAX))]
    pub service_level: Option<f64>,
    /// The cost of one waiting pod, in dollars per hour. An idle instance costs its price. Where no
    /// price is known, it costs the mean of the other instance types, or 1 dollar per hour.
    #[schemars(range(min = bounds::PRICE_MIN, max = bounds::PRICE_MAX))]
    pub wait_cost: Option<f64>,
    /// The cost of one waiting pod as a ratio: in idle instances at the mean price of the policy's
    /// instance types.
    #[schemars(range(min = bounds::PRICE_MIN, max = bounds::PRICE_MAX))]
    pub wait_ratio: Option<f64>,
}

/// How future demand is forecast.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.method) || self.method != 'expression' || has(self.expression)", "message": "the method expression needs the field expression"},
    {"rule": "!has(self.expression) || (has(self.method) && self.method == 'expression')", "message": "the field expression needs the method expression"}
]))]
pub struct ForecastSpec {
    /// The forecasting method.
    pub method: Method,
    /// The steps of the method `ladder`. When absent, each bucket has 1 placeholder, 2 from 10
    /// nodes in demand on, 3 from 40, 4 from 100 and 8 from 400. The method `ensemble` starts with
    /// the steps if they are set: they hold in each bucket until 120 ticks of its demand are known,
    /// and then the forecast decides. So does `forecast` in an `expression`. The method `ladder`
    /// never changes to another one. Other methods ignore the steps.
    pub ladder: Option<LadderSpec>,
    /// The expression of the method `expression`, in the syntax of CEL: the number of placeholders
    /// of a bucket, such as `now.getHours() >= 8 ? max(forecast, 2) : forecast`. `forecast` is the
    /// number that the method `ensemble` would hold.
    #[schemars(length(min = 1, max = bounds::EXPRESSION_MAX))]
    pub expression: Option<String>,
}

/// The step functions of each bucket for the method `ladder`, as in
/// cluster-proportional-autoscaler. Each pair is a lower bound of the demand and the number of
/// placeholders from there on. The larger result of the two functions is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LadderSpec {
    /// Pairs of the CPU cores of the nodes in demand, and the number of placeholders.
    #[schemars(schema_with = "bounds::steps")]
    pub cores_to_replicas: Vec<[u32; 2]>,
    /// Pairs of the number of nodes in demand, and the number of placeholders.
    #[schemars(schema_with = "bounds::steps")]
    pub nodes_to_replicas: Vec<[u32; 2]>,
}

/// Limits on the number and the cost of placeholders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitsSpec {
    /// The most placeholders over all buckets. No limit when absent.
    #[schemars(range(min = 0, max = bounds::PLACEHOLDERS_MAX))]
    pub placeholders: Option<u32>,
    /// The most placeholders of single buckets, by the bucket's name, such as `m5.xlarge`,
    /// `m5.xlarge/spot` or `m5.xlarge/team=a`. No limit for buckets that are absent.
    #[schemars(schema_with = "bounds::by_bucket")]
    pub buckets: BTreeMap<String, u32>,
    /// The most that all placeholders together may cost, in dollars per hour. No limit when absent.
    #[schemars(range(min = 0.0, max = bounds::DOLLARS_MAX))]
    pub dollars_per_hour: Option<f64>,
}

/// How fast the number of placeholders changes. By default it follows its target at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BehaviorSpec {
    /// Rules for increasing the number of placeholders.
    pub scale_up: RulesSpec,
    /// Rules for decreasing the number of placeholders.
    pub scale_down: RulesSpec,
}

/// Rules for changing the number of placeholders in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RulesSpec {
    /// The length of the stabilization window in seconds. `scaleUp` uses the lowest target in the
    /// window, and `scaleDown` the highest.
    #[schemars(range(min = 0, max = WINDOW_SECONDS_MAX))]
    pub stabilization_window_seconds: u32,
    /// The largest change of the target that is ignored, as a fraction of the present target.
    #[schemars(range(min = 0.0, max = bounds::TOLERANCE_MAX))]
    pub tolerance: f64,
    /// Limits on the change within a period. If there are several, the strictest applies.
    #[schemars(length(max = 8))]
    pub policies: Vec<RateSpec>,
}

/// The most placeholders that are added, or removed, within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateSpec {
    /// The number of placeholders.
    #[schemars(range(min = 1, max = bounds::PLACEHOLDERS_MAX))]
    pub value: u32,
    /// The period in seconds.
    #[schemars(range(min = 1, max = WINDOW_SECONDS_MAX))]
    pub period_seconds: u32,
}

/// How a policy in the mode `Act` begins. At the end of each step, the policy goes on to the next
/// one, unless the placeholders cost too much, or pods waited more than before. Then it goes back
/// one step, and stays there until the policy changes. A step goes on until 20 pods have started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutSpec {
    /// The percentages of the target that stand in each bucket, one step after the other. Each is
    /// higher than the one before. Numbers of placeholders are rounded up. 25, 50 and 100 when
    /// absent.
    #[schemars(length(min = 1, max = 10), inner(range(min = 1, max = 100)), extend("x-kubernetes-validations" = [
        {"rule": "self.isSorted() && self.all(one, self.exists_one(other, other == one))", "message": "each step must be higher than the one before"}
    ]))]
    pub steps: Vec<u8>,
    /// How long each step lasts at least, such as `24h`: from one tick to 10,080 ticks. `24h` when
    /// absent.
    #[schemars(length(min = 2, max = 8), regex(pattern = r"^[0-9]+[smhd]$"), extend("x-kubernetes-validations" = [
        {"rule": "self.endsWith('d') ? !self.matches('^0+d$') : duration(self) >= duration('10s')", "message": "stepDuration must be at least one tick"}
    ]))]
    pub step_duration: String,
    /// The most that the placeholders on nodes may cost on average over a step, in dollars per
    /// hour. No limit when absent.
    #[schemars(range(min = 0.0, max = bounds::DOLLARS_MAX))]
    pub dollars_per_hour: Option<f64>,
    /// Whether no placeholder stands on one of every two days (UTC), drawn at random, until the
    /// rollout is complete. The pods of the other days are then compared with those of these days,
    /// and not with those before the step. Steps then last at least four days.
    pub control_days: bool,
}

impl Default for RolloutSpec {
    fn default() -> Self {
        Self {
            steps: vec![25, 50, 100],
            step_duration: "24h".into(),
            dollars_per_hour: None,
            control_days: false,
        }
    }
}

/// The kind of placeholders, their priority and image, and what they load onto a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.kind) || self.kind != 'CapacityBuffer' || (!has(self.warmImages) || size(self.warmImages) == 0) && (!has(self.warmData) || size(self.warmData) == 0)", "message": "a CapacityBuffer has no pods that load images or data"}
]))]
pub struct PlaceholdersSpec {
    /// The objects that reserve nodes: pods of ReplicaSets, or CapacityBuffers, whose pods are
    /// virtual.
    pub kind: PlaceholderKind,
    /// One PriorityClass for all placeholders. When absent, placeholders rank by the price of their
    /// bucket, from `prophet-placeholder-10` for the cheapest to `prophet-placeholder-1`, because
    /// the scheduler preempts the lowest priority first.
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// The image of the placeholder's container, which does nothing.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Images that placeholders pull onto a node before its first job. Not with the kind
    /// CapacityBuffer, whose pods are virtual.
    #[schemars(length(max = 32))]
    pub warm_images: Vec<WarmImage>,
    /// Commands that placeholders run to load data onto a node before its first job. Not with the
    /// kind CapacityBuffer.
    #[schemars(length(max = 16))]
    pub warm_data: Vec<WarmData>,
}

/// The default image of placeholders: Kubernetes' pause image, which does nothing. It is on the
/// registry list of every EKS node, and other registries mirror it.
pub(crate) const PAUSE_IMAGE: &str = "registry.k8s.io/pause:3.10@sha256:\
                           ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a";

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

/// Warm pools of Auto Scaling groups with on-demand instances. They have as many instances as pay
/// off for the arrivals within the time in which an instance is prepared. Pools of EKS managed node
/// groups are left alone, because they are settings of EKS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmPoolSpec {
    /// The most instances in all pools of the policy together.
    #[schemars(range(min = 0, max = bounds::PLACEHOLDERS_MAX))]
    pub max: u32,
    /// The state of the prepared instances. `Stopped` when absent.
    #[serde(default)]
    pub state: WarmPoolState,
}

/// The state of the prepared instances of a warm pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WarmPoolState {
    /// An instance costs its disk.
    #[default]
    Stopped,
    /// Memory is kept on the disk, too. AWS supports it for some instance types and images only.
    Hibernated,
}

impl WarmPoolState {
    /// The spelling of AWS.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::Hibernated => "Hibernated",
        }
    }
}

/// The kind of object that reserves a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlaceholderKind {
    /// Pods of ReplicaSets of Prophet.
    #[default]
    ReplicaSet,
    /// CapacityBuffers (`autoscaling.x-k8s.io`).
    CapacityBuffer,
}

/// An image that placeholders pull onto a node before its first job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmImage {
    /// The image to pull.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// A command of the image that exits at once. `["true"]` when absent. For an image without such
    /// a program set `volume`.
    pub command: Option<Vec<String>>,
    /// Whether the image is mounted as an image volume (Kubernetes 1.35) and no command is run, for
    /// images without programs.
    #[serde(default)]
    pub volume: bool,
}

/// A command that loads data onto a node before its first job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.hostPath.startsWith('/') && !self.hostPath.contains('..')", "message": "hostPath must be absolute, without .."}
]))]
pub struct WarmData {
    /// The name of the init container that runs the command.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The image of the init container, which contains the command. It needs `/bin/sh`.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// The command. It must be idempotent, because it can be killed at any moment and run again.
    #[schemars(length(min = 1, max = 64))]
    pub command: Vec<String>,
    /// The folder on the node, which is mounted into the init container at the same path. It must
    /// be directly in the folder that the operator of Prophet allows.
    #[schemars(length(min = 2, max = 512))]
    pub host_path: String,
    /// The name of a file in `hostPath` that marks complete data. It is created after the command
    /// succeeded, and the command is skipped if it exists.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^/]+$"))]
    pub marker: String,
}
