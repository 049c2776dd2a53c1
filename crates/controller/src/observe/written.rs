//! How the pods of placeholders differ from their template.
//!
//! Webhooks of the cluster may change a pod after Prophet wrote it: they add containers, resources,
//! tolerations, or another scheduler. Such a placeholder may fit on no node.

use std::collections::BTreeMap;

use embedder::{Resource, Resources};

use super::constraints::Constraints;
use super::objects::PodSpec;
use super::requests::{PodRequests, requests};

/// What decides where a placeholder may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    requests: PodRequests,
    constraints: Constraints,
    scheduler: Option<String>,
    priority_class: Option<String>,
}

/// What the API server adds to each pod, in addition to what a template has.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

impl Written {
    /// Reads a pod, or the template of one.
    pub fn of(spec: &PodSpec) -> Self {
        Self {
            requests: requests(spec),
            constraints: Constraints::of(spec),
            scheduler: spec.scheduler_name.clone().filter(|name| name != DEFAULT_SCHEDULER),
            priority_class: spec.priority_class_name.clone(),
        }
    }

    /// Whether it requests devices other than whole accelerators.
    pub fn has_devices(&self) -> bool {
        !self.requests.devices.is_empty()
    }

    /// The resources and devices that a pod requests beyond those of its template.
    pub fn added(&self, pod: &Self) -> (Resources, BTreeMap<String, u64>) {
        let of_template = |name: &str| self.requests.devices.get(name).copied().unwrap_or(0);
        let devices = pod.requests.devices.iter().filter_map(|(name, amount)| {
            let more = amount.saturating_sub(of_template(name));
            (more > 0).then(|| (name.clone(), more))
        });
        let resources = pod.requests.resources.less(self.requests.resources);
        (Resources { pods: 0, ..resources }, devices.collect())
    }

    /// The differences of a pod from its template, one text each.
    ///
    /// Tolerations that Kubernetes itself adds do not count: those of nodes that are not ready or
    /// not reachable, and those of extended resources.
    pub fn differences(&self, pod: &Self) -> Vec<String> {
        let (resources, devices) = self.added(pod);
        let amounts = Resource::ALL.into_iter().zip(resources.components());
        let more = amounts.filter(|(_, amount)| *amount > 0);
        let more = more.map(|(resource, amount)| format!("{amount} {} more", resource.label()));
        let devices = devices.into_iter().map(|(name, amount)| format!("{amount} {name} more"));
        let mut all: Vec<String> = more.chain(devices).collect();
        let own = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".into());
        if self.scheduler != pod.scheduler {
            let scheduler = pod.scheduler.as_deref().unwrap_or(DEFAULT_SCHEDULER);
            all.push(format!("schedulerName {scheduler}"));
        }
        if self.priority_class != pod.priority_class {
            all.push(format!("priorityClassName {}", own(&pod.priority_class)));
        }
        all.extend(self.constraints.differences(&pod.constraints));
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(more: &Value) -> Written {
        let mut spec = json!({
            "nodeSelector": {"node.kubernetes.io/instance-type": "m5.xlarge"},
            "priorityClassName": "prophet-placeholder-10",
            "containers": [{"resources": {"requests": {"cpu": "3900m", "memory": "14Gi"}}}],
        });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        Written::of(&serde_json::from_value(spec).unwrap())
    }

    #[track_caller]
    fn check(pod: &Value, expected: &[&str]) {
        assert_eq!(written(&json!({})).differences(&written(pod)), expected);
    }

    #[test]
    fn what_a_webhook_changed_is_named() {
        check(&json!({}), &[]);
        check(&json!({"schedulerName": "default-scheduler"}), &[]);
        let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {
            "cpu": "100m", "memory": "1Ki", "smarter-devices/fuse": 1,
        }}});
        check(
            &json!({"initContainers": [sidecar]}),
            &["100 cpu_millis more", "1024 memory_bytes more", "1 smarter-devices/fuse more"],
        );
        check(&json!({"schedulerName": "volcano"}), &["schedulerName volcano"]);
        check(&json!({"priorityClassName": null}), &["priorityClassName none"]);
        let zone = json!({"node.kubernetes.io/instance-type": "m5.xlarge", "zone": "a"});
        check(&json!({"nodeSelector": zone}), &["nodeSelector zone=a"]);
        check(
            &json!({"tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "spot", "operator": "Equal", "value": "yes"},
            ]}),
            &["toleration of spot"],
        );
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}],
        }}});
        check(&json!({"affinity": affinity}), &["required node affinity"]);
    }
}
