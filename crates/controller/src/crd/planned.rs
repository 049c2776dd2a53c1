//! The custom resource `PlannedDemand`, by which people say which pods will come, and when.

#![allow(clippy::duplicated_attributes, reason = "each printer column has a type of its own")]

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Pods that will come at a known time. Prophet holds nodes for them from one launch before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[kube(
    group = "prophet.dev",
    version = "v1alpha1",
    kind = "PlannedDemand",
    plural = "planneddemands",
    shortname = "pld",
    category = "prophet",
    namespaced,
    status = "PlannedDemandStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Pods", type_ = "integer", json_path = ".spec.pods"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.next"),
    printcolumn(name = "Held", type_ = "integer", json_path = ".status.held"),
    printcolumn(name = "Came", type_ = "integer", json_path = ".status.came"),
    printcolumn(name = "Kept", type_ = "string", json_path = ".status.kept"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.at) != has(self.schedule)", "message": "give either at or schedule"},
    {"rule": "has(self.schedule) || !has(self.timeZone) && (!has(self.except) || size(self.except) == 0)", "message": "timeZone and except need schedule"}
]))]
pub struct PlannedDemandSpec {
    /// The number of pods that will come.
    #[schemars(range(min = 1, max = 100_000))]
    pub pods: u32,
    /// The template of the pods. Pods of the same namespace with the same requests and the same
    /// constraints on nodes are the pods that were planned.
    #[schemars(schema_with = "any_object")]
    pub template: serde_json::Value,
    /// Whether all pods start together, so that their nodes are in one placement group.
    #[serde(default)]
    pub gang: bool,
    /// The time at which the pods come, in RFC 3339, such as `2026-12-03T09:00:00+01:00`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub at: Option<String>,
    /// The times at which the pods come again and again, as the schedule of a CronJob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub schedule: Option<String>,
    /// The time zone of `schedule` and `except`, such as `Europe/Berlin`. UTC when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// The days without pods, such as `2026-12-25`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 400),
        inner(length(min = 10, max = 10), regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))
    )]
    pub except: Vec<String>,
    /// How long nodes for the pods are held, such as `2h`: as many as are needed beyond those of
    /// the planned pods that wait or run. When absent, nodes are held until all pods came once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 8), regex(pattern = r"^[0-9]+[smhd]$"))]
    pub duration: Option<String>,
    /// How long after the time nodes are held for pods that did not come yet. `10m` when absent. A
    /// longer `duration` takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 8), regex(pattern = r"^[0-9]+[smhd]$"))]
    pub tolerance: Option<String>,
    /// How long after the end of `at`, up to which nodes are held, the object is deleted, in
    /// seconds. It is not deleted when absent, with a `schedule`, or if no policy covers its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ttl_seconds_after_end: Option<u32>,
    /// Whether nodes are held for all pods, however many of those that the author planned before
    /// came. It applies where the policy has `workloads.certainPlans`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub certain: bool,
}

/// What is held for the planned pods, and how many came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlannedDemandStatus {
    /// The time at which the pods come, or came last, in RFC 3339. Absent if the policy that holds
    /// their nodes knows no such time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The number of pods for which nodes are held now.
    #[schemars(range(min = 0))]
    pub held: u64,
    /// The number of planned pods that came at that time.
    #[schemars(range(min = 0))]
    pub came: u64,
    /// The mean share of the pods that the author planned before and that came, such as `80%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// The policy that holds the nodes, as NAMESPACE/NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What is held and why, as a sentence.
    pub message: String,
}

/// An object with any fields: the API server knows the fields of pod templates, and this definition
/// does not repeat them.
fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
