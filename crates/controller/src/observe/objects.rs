//! The fields that Prophet reads of Kubernetes objects, and no others.
//!
//! Other fields are dropped because of their size: a complete pod takes 58 KB of memory, one of
//! these types a tenth of that. Every field may be absent, because objects from the API server are
//! not trusted to be complete.

#![allow(missing_docs, reason = "the fields of the Kubernetes API, by their names there")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kube::Resource;
use placeholders::{LIFTED_AT, LIFTED_FOR};
use serde::{Deserialize, Deserializer};

/// Annotations that are kept. The first one marks the end of the initial list of a watch.
const ANNOTATIONS: [&str; 7] = [
    "k8s.io/initial-events-end",
    MIRROR,
    VOLCANO_GROUP,
    LIFTED_AT,
    LIFTED_FOR,
    NAMESPACE_SELECTOR,
    NAMESPACE_TOLERATIONS,
];

/// The annotation of a namespace with the node selector of its pods, for the admission plugin
/// `PodNodeSelector`.
pub(super) const NAMESPACE_SELECTOR: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// The annotation of a namespace with the tolerations of its pods, for the admission plugin
/// `PodTolerationRestriction`.
pub(super) const NAMESPACE_TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";

/// The annotation of a mirror pod, which is the object of a static pod in the API server.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The label of a pod with the name of its PodGroup of the scheduler plugins.
pub(super) const PLUGINS_GROUP: &str = "scheduling.x-k8s.io/pod-group";

/// The annotation of a pod with the name of its Volcano PodGroup.
pub(super) const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

/// Deserializes an object's metadata without the parts that are never read: managed fields, and
/// annotations other than [`ANNOTATIONS`].
fn meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let Meta {
        name,
        namespace,
        uid,
        resource_version,
        generation,
        creation_timestamp,
        deletion_timestamp,
        labels,
        annotations,
        owner_references,
    } = Meta::deserialize(deserializer)?;
    let annotations = annotations.map(|mut all| {
        all.retain(|key, _| ANNOTATIONS.contains(&key.as_str()));
        all
    });
    Ok(ObjectMeta {
        name,
        namespace,
        uid,
        resource_version,
        generation,
        creation_timestamp,
        deletion_timestamp,
        labels,
        annotations: annotations.filter(|all| !all.is_empty()),
        owner_references,
        ..ObjectMeta::default()
    })
}

/// Deserializes an object's metadata, reduced to its name and namespace.
fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        name: Option<String>,
        namespace: Option<String>,
    }
    let Named { name, namespace } = Named::deserialize(deserializer)?;
    Ok(ObjectMeta { name, namespace, ..ObjectMeta::default() })
}

/// Deserializes quantities by resource name. In custom resources, a quantity may be a bare number.
pub(super) fn quantities<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Quantity {
        Text(String),
        Number(serde_json::Number),
    }
    let all: BTreeMap<String, Quantity> = Deserialize::deserialize(deserializer)?;
    let text = |quantity| match quantity {
        Quantity::Text(text) => text,
        Quantity::Number(number) => number.to_string(),
    };
    Ok(all.into_iter().map(|(name, quantity)| (name, text(quantity))).collect())
}

/// Implements [`Resource`] for one of the reduced types.
macro_rules! resource {
    ($type:ident, $kind:literal, $group:literal, $version:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::DynamicResourceScope;
            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }
            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// A namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for objects without a namespace.
    pub namespace: String,
    /// The object's name, unique in its namespace among objects of the same kind.
    pub name: String,
}

impl Key {
    /// Returns the key of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// The desired state: requests and constraints.
    #[serde(default)]
    pub spec: PodSpec,
    /// The observed state.
    #[serde(default)]
    pub status: PodStatus,
}
resource!(Pod, "Pod", "", "v1", "pods");

/// The requests of a pod, and the constraints on its nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub priority: Option<i32>,
    pub priority_class_name: Option<String>,
    pub preemption_policy: Option<String>,
    pub scheduler_name: Option<String>,
    pub runtime_class_name: Option<String>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Affinity,
    pub tolerations: Vec<Toleration>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "quantities")]
    pub overhead: BTreeMap<String, String>,
    pub resources: ContainerResources,
    pub scheduling_gates: Vec<Gate>,
    pub resource_claims: Vec<ClaimOfPod>,
    pub scheduling_group: SchedulingGroup,
    pub host_network: bool,
    pub topology_spread_constraints: Vec<SpreadConstraint>,
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpreadConstraint {
    pub topology_key: String,
    pub when_unsatisfiable: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    pub persistent_volume_claim: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGroup {
    pub pod_group_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Gate {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ClaimOfPod {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    pub restart_policy: Option<String>,
    pub resources: ContainerResources,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ContainerResources {
    #[serde(deserialize_with = "quantities")]
    pub requests: BTreeMap<String, String>,
    #[serde(deserialize_with = "quantities")]
    pub limits: BTreeMap<String, String>,
}

#[expect(clippy::struct_field_names, reason = "the fields of the Kubernetes API")]
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    pub node_affinity: NodeAffinity,
    pub pod_affinity: PodAffinity,
    pub pod_anti_affinity: PodAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Vec<PodAffinityTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    pub topology_key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    pub match_expressions: Vec<Requirement>,
    pub match_fields: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub struct Toleration {
    pub key: Option<String>,
    pub operator: Option<String>,
    pub value: Option<String>,
    pub effect: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    pub phase: Option<String>,
    pub nominated_node_name: Option<String>,
    pub conditions: Vec<Condition>,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
    /// The resources that the kubelet has granted.
    #[serde(deserialize_with = "quantities")]
    pub allocated_resources: BTreeMap<String, String>,
    /// The resources that are in force.
    pub resources: Option<ContainerResources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub finished_at: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Option<Time>,
}

/// Whether the condition of this type is true.
pub(crate) fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Whether the condition of this type is true for this reason.
pub(super) fn is_condition(conditions: &[Condition], type_: &str, reason: &str) -> bool {
    conditions.iter().any(|condition| {
        condition.type_ == type_ && condition.status == "True" && condition.reason == reason
    })
}

/// Returns the time since which the condition of this type is true, or `None` if it is not true.
pub(crate) fn since(conditions: &[Condition], type_: &str) -> Option<DateTime<Utc>> {
    let mut conditions = conditions.iter();
    let found =
        conditions.find(|condition| condition.type_ == type_ && condition.status == "True")?;
    found.last_transition_time.as_ref().and_then(time)
}

/// A node, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Node {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// The desired state.
    #[serde(default)]
    pub spec: NodeSpec,
    /// The observed state.
    #[serde(default)]
    pub status: NodeStatus,
}
resource!(Node, "Node", "", "v1", "nodes");

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    pub unschedulable: bool,
    pub taints: Vec<NodeTaint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeTaint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    pub capacity: BTreeMap<String, String>,
    pub allocatable: BTreeMap<String, String>,
    pub conditions: Vec<Condition>,
}

/// The template of the pods that a workload creates.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    pub metadata: TemplateMeta,
    pub spec: PodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TemplateMeta {
    pub labels: BTreeMap<String, String>,
}

/// A DaemonSet.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct DaemonSet {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// The desired state, with the template of the pods.
    #[serde(default)]
    pub spec: TemplateSpec,
}
resource!(DaemonSet, "DaemonSet", "apps", "v1", "daemonsets");

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    pub template: PodTemplate,
}

/// A LimitRange.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct LimitRange {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// The limits, with the defaults of containers.
    #[serde(default)]
    pub spec: LimitRangeSpec,
}
resource!(LimitRange, "LimitRange", "", "v1", "limitranges");

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LimitRangeSpec {
    pub limits: Vec<LimitRangeItem>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LimitRangeItem {
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(deserialize_with = "quantities")]
    pub default: BTreeMap<String, String>,
    #[serde(deserialize_with = "quantities")]
    pub default_request: BTreeMap<String, String>,
}

/// A RuntimeClass.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RuntimeClass {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// What admission adds to the pods of the class.
    #[serde(flatten)]
    pub adds: RuntimeClassAdds,
}
resource!(RuntimeClass, "RuntimeClass", "node.k8s.io", "v1", "runtimeclasses");

/// What admission adds to the pods of a RuntimeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RuntimeClassAdds {
    pub overhead: Overhead,
    pub scheduling: RuntimeScheduling,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Overhead {
    #[serde(deserialize_with = "quantities")]
    pub pod_fixed: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeScheduling {
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
}

/// An Event, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Event {
    pub metadata: ObjectMeta,
    pub involved_object: InvolvedObject,
    pub message: String,
    pub last_timestamp: Option<Time>,
    #[serde(rename = "eventTime")]
    pub first_time: Option<MicroTime>,
    pub series: Option<EventSeries>,
}
resource!(Event, "Event", "", "v1", "events");

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InvolvedObject {
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EventSeries {
    pub last_observed_time: Option<MicroTime>,
}

/// A namespace, reduced to its metadata.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Namespace {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
}
resource!(Namespace, "Namespace", "", "v1", "namespaces");

/// A Job of the API group `batch`, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct BatchJob {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// The desired state, with the template and the number of the pods.
    #[serde(default)]
    pub spec: JobSpec,
    /// The observed state.
    #[serde(default)]
    pub status: JobStatus,
}
resource!(BatchJob, "Job", "batch", "v1", "jobs");

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub completion_mode: Option<String>,
    pub parallelism: Option<u32>,
    pub completions: Option<u32>,
    pub suspend: bool,
    pub template: PodTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    pub conditions: Vec<Condition>,
    /// The pods that exist and have not ended.
    pub active: u32,
    pub failed: u32,
    pub succeeded: u32,
    /// The indexes that failed, such as `1,3-5`.
    pub failed_indexes: String,
}

/// A CronJob.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct CronJob {
    /// The metadata, reduced to the fields that are read.
    #[serde(default, deserialize_with = "meta")]
    pub metadata: ObjectMeta,
    /// The desired state, with the schedule and the template of the jobs.
    #[serde(default)]
    pub spec: CronJobSpec,
    /// The observed state, with the running jobs.
    #[serde(default)]
    pub status: CronJobStatus,
}
resource!(CronJob, "CronJob", "batch", "v1", "cronjobs");

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    pub schedule: String,
    pub time_zone: Option<String>,
    pub suspend: bool,
    pub concurrency_policy: String,
    pub job_template: JobTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    pub active: Vec<serde::de::IgnoredAny>,
    pub last_schedule_time: Option<Time>,
}

/// A JobSet.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobSet {
    /// The desired state, with the jobs.
    #[serde(default)]
    pub spec: JobSetSpec,
    /// The observed state.
    #[serde(default)]
    pub status: JobSetStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSetStatus {
    pub conditions: Vec<Condition>,
    pub replicated_jobs_status: Vec<ReplicatedJobStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReplicatedJobStatus {
    pub name: String,
    /// The number of jobs all of whose pods are ready or ended.
    pub ready: u32,
    /// The number of jobs that have pods which did not end.
    pub active: u32,
    /// The number of jobs that are complete.
    pub succeeded: u32,
    pub failed: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSetSpec {
    pub suspend: bool,
    pub replicated_jobs: Vec<ReplicatedJob>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicatedJob {
    pub name: String,
    pub replicas: Option<u32>,
    pub template: JobTemplate,
    pub depends_on: Vec<DependsOn>,
}

/// A job that another one waits for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DependsOn {
    pub name: String,
    /// `Ready` or `Complete`.
    pub status: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobTemplate {
    pub metadata: TemplateMeta,
    pub spec: JobSpec,
}

/// A Workload of Kueue: pods that wait until a queue admits them, reduced to the fields that are
/// read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct KueueWorkload {
    /// The desired state, with the sets of pods.
    #[serde(default)]
    pub spec: WorkloadSpec,
    /// The observed state, with the conditions of admission.
    #[serde(default)]
    pub status: WorkloadStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    pub pod_sets: Vec<PodSet>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSet {
    pub name: String,
    pub count: u32,
    pub template: PodTemplate,
    pub topology_request: Option<TopologyRequest>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TopologyRequest {
    pub required: Option<String>,
    pub preferred: Option<String>,
    pub unconstrained: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadStatus {
    pub conditions: Vec<Condition>,
    pub admission: Option<Admission>,
    pub admission_checks: Vec<AdmissionCheck>,
    /// The pods of each set that are no longer needed, because they have ended.
    pub reclaimable_pods: Vec<ReclaimablePods>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReclaimablePods {
    pub name: String,
    pub count: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Admission {
    pub pod_set_assignments: Vec<PodSetAssignment>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSetAssignment {
    pub name: String,
    /// The names of the flavors that give the quota, by resource.
    pub flavors: BTreeMap<String, String>,
    /// The number of pods that have quota: fewer than the set has if a part of it is admitted.
    pub count: Option<u32>,
    /// The nodes that topology-aware scheduling assigns.
    pub topology_assignment: Option<serde::de::IgnoredAny>,
    /// The state of an assignment that follows after the admission checks.
    pub delayed_topology_request: Option<String>,
}

/// A `ResourceFlavor` of Kueue.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ResourceFlavor {
    #[serde(default)]
    pub spec: FlavorSpec,
}

/// The usage of a pod at one moment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodMetrics {
    #[serde(deserialize_with = "named")]
    pub metadata: ObjectMeta,
    /// The time of the measurement.
    pub timestamp: Option<Time>,
    pub containers: Vec<ContainerMetrics>,
}
resource!(PodMetrics, "PodMetrics", "metrics.k8s.io", "v1beta1", "pods");

/// The usage of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerMetrics {
    /// The quantities, by the name of the resource.
    pub usage: BTreeMap<String, String>,
}

/// What Kueue adds to the pods of a flavor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlavorSpec {
    /// The labels of the flavor's nodes. Kueue adds them to the node selector of the pods.
    pub node_labels: BTreeMap<String, String>,
    /// The tolerations that Kueue adds to the pods.
    pub tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AdmissionCheck {
    /// `Pending`, `Ready`, `Retry` or `Rejected`.
    pub state: String,
}

/// Converts a time of the API server, or returns `None` if it is out of range.
pub(crate) fn time(
    time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time,
) -> Option<DateTime<Utc>> {
    let at = time.0;
    DateTime::from_timestamp(at.as_second(), u32::try_from(at.subsec_nanosecond()).unwrap_or(0))
}

/// A node's taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The taint's key.
    pub key: String,
    /// The taint's value, or empty if it has none.
    pub value: String,
    /// The taint's effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl fmt::Display for Taint {
    /// Writes the taint as kubectl does: `KEY=VALUE:EFFECT`, or `KEY:EFFECT` without a value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        if value.is_empty() {
            write!(f, "{key}:{effect}")
        } else {
            write!(f, "{key}={value}:{effect}")
        }
    }
}
