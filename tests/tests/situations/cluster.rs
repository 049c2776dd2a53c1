//! A cluster without an autoscaler, whose nodes a test adds by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tests::control_plane::ControlPlane;
use tests::installed::{self, NAMESPACE, policy};
use tests::wait;

use super::table::{Change, LAUNCHES_FOR, NodeOf};

/// How long a status may take to become the expected one, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// The namespaces of the workloads.
const NAMESPACES: [&str; 2] = ["jobs", "agents"];

/// What a situation creates, as group, version and kind.
const KINDS: [(&str, &str, &str); 8] = [
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("", "v1", "LimitRange"),
    ("", "v1", "Pod"),
    ("karpenter.sh", "v1", "NodePool"),
    ("karpenter.sh", "v1", "NodeClaim"),
    ("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding"),
];

pub(crate) struct Cluster<'a> {
    plane: &'a ControlPlane,
    client: Client,
}

impl<'a> Cluster<'a> {
    pub(crate) async fn new(plane: &'a ControlPlane) -> Self {
        for namespace in NAMESPACES {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            plane.apply_yaml(&namespace.to_string()).await.unwrap();
        }
        Self { plane, client: plane.client() }
    }

    fn all(&self, (group, version, kind): (&str, &str, &str)) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::all_with(self.client.clone(), &resource)
    }

    fn within(
        &self,
        (group, version, kind): (&str, &str, &str),
        namespace: &str,
    ) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    /// Adds a ready node.
    pub(crate) async fn add_node(&self, node: &NodeOf) {
        let NodeOf { name, instance_type, resources, labels, taints } = *node;
        let mut all: BTreeMap<String, String> = [
            ("node.kubernetes.io/instance-type", instance_type),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", name),
            ("topology.kubernetes.io/zone", "us-east-1a"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        all.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        let taints: Vec<Value> =
            taints.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
        let mut has: BTreeMap<&str, &str> = [("pods", "110")].into();
        has.extend(resources.iter().copied());
        // With its resources, as a kubelet registers it, because kwok gives large ones to a node
        // that has none.
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": all}, "spec": {"taints": taints},
            "status": {"capacity": has, "allocatable": has},
        });
        let nodes: Api<Node> = Api::all(self.client.clone());
        let object = serde_json::from_value(object).unwrap();
        nodes.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn apply(&self, objects: &str) {
        if !objects.is_empty() {
            self.plane.apply_yaml(objects).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }

    /// Waits until an admission policy adds a container to pods of the namespace of placeholders.
    pub(crate) async fn wait_for_mutation(&self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let pod = json!({
            "metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "x"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let changed = wait::until_true("the admission policy", DEADLINE, async || {
            let made = pods.create(&dry, &pod).await?;
            Ok(made.spec.unwrap_or_default().init_containers.is_some())
        });
        changed.await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    pub(crate) async fn apply_policy(&self, spec: &str) {
        self.apply(&policy("batch", spec)).await;
    }

    /// Makes a change once its object exists. The status of a pod is changed once the pod runs,
    /// because kwok would write another one.
    pub(crate) async fn change(&self, change: &Change) {
        let Change { kind, namespace, name, subresource, patch } = *change;
        let api = self.within(kind, namespace);
        let patch: Value = serde_saphyr::from_str(patch).unwrap();
        let patch = Patch::Merge(patch);
        if kind.2 == "Pod" && subresource == "status" {
            let runs = wait::until_true(name, DEADLINE, async || {
                Ok(api.get(name).await?.data["status"]["phase"] == "Running")
            });
            runs.await.unwrap_or_else(|error| panic!("{name}: {error:#}"));
        }
        let changed = wait::until_true(name, DEADLINE, async || {
            let params = PatchParams::default();
            Ok(match subresource {
                "" => api.patch(name, &params, &patch).await.is_ok(),
                _ => api.patch_status(name, &params, &patch).await.is_ok(),
            })
        });
        changed.await.unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }

    async fn placeholders(&self) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let ours = ListParams::default().labels("app.kubernetes.io/name=prophet-placeholder");
        let mut pods = pods.list(&ours).await.unwrap().items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods
    }

    /// Waits until the state of the policy is the expected one, while an autoscaler reports why it
    /// launches no nodes. Returns the last state.
    pub(crate) async fn wait_for(&self, expected: &str, no_scale_up: &str) -> String {
        let mut last = String::new();
        // The last state is compared by the caller, which names the situation.
        let _ = wait::until_true("the status", DEADLINE, async || {
            last = self.state().await;
            if !no_scale_up.is_empty() {
                self.report(no_scale_up).await;
            }
            Ok(last == expected)
        })
        .await;
        last
    }

    /// Reports, as cluster-autoscaler does, that no node is launched for the placeholders of the
    /// first size.
    async fn report(&self, no_scale_up: &str) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        for pod in self.placeholders().await {
            if cpu_of(&pod) <= amount_of(LAUNCHES_FOR) {
                continue;
            }
            // Each scan reports anew, because reports before the gate was lifted do not count.
            let scan = k8s_openapi::jiff::Timestamp::now().as_second();
            let name = format!("{}.{scan}", pod.name_any());
            let event = json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": NAMESPACE},
                "involvedObject": {"kind": "Pod", "namespace": NAMESPACE, "name": pod.name_any()},
                "reason": "NotTriggerScaleUp", "type": "Normal",
                "message": format!("pod didn't trigger scale-up: {no_scale_up}"),
                "firstTimestamp": now(), "lastTimestamp": now(), "count": 1,
                "source": {"component": "cluster-autoscaler"},
            });
            let event = serde_json::from_value(event).unwrap();
            // Two scans in one second have the same name.
            let _ = events.create(&PostParams::default(), &event).await;
        }
    }

    /// The state of the policy, as text.
    pub(crate) async fn state(&self) -> String {
        let status = installed::status(self.plane, "batch").await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut lines = Vec::new();
        for bucket in status["buckets"].as_array().into_iter().flatten() {
            let [demand, announced, target] =
                ["demand", "announced", "target"].map(|field| bucket[field].as_u64().unwrap_or(0));
            let name = text(&bucket["name"]);
            lines.push(format!("{name}: demand {demand}, announced {announced}, target {target}"));
        }
        for (reason, pods) in status["heldBack"].as_object().into_iter().flatten() {
            lines.push(format!("held back: {pods} {reason}"));
        }
        for unplaced in status["unplaced"].as_array().into_iter().flatten() {
            let (pods, shape) = (&unplaced["pods"], text(&unplaced["shape"]));
            lines.push(format!("unplaced: {pods} of {shape}, {}", text(&unplaced["reason"])));
        }
        for condition in status["conditions"].as_array().into_iter().flatten() {
            if condition["type"] == "Degraded" && condition["status"] == "True" {
                lines.push(format!(
                    "{}: {}",
                    text(&condition["reason"]),
                    text(&condition["message"])
                ));
            }
        }
        let pods = self.placeholders().await;
        let bound = pods.iter().filter(|pod| pod.spec.as_ref().unwrap().node_name.is_some());
        if let Some(pod) = pods.first() {
            let container = &pod.spec.as_ref().unwrap().containers[0];
            let requests =
                container.resources.as_ref().unwrap().requests.clone().unwrap_or_default();
            let shown = |name: &str| name == "cpu" || name.contains('/');
            let requests = requests.iter().filter(|(name, _)| shown(name));
            let requests: Vec<String> =
                requests.map(|(name, amount)| format!("{name}={}", amount.0)).collect();
            lines.push(format!(
                "{} placeholders, {} on nodes: {}",
                pods.len(),
                bound.count(),
                requests.join(" ")
            ));
        }
        lines.join("\n")
    }

    /// Removes everything that a situation created.
    pub(crate) async fn clean(&self) {
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        let policies = ("prophet.dev", "v1alpha1", "OverprovisioningPolicy");
        let policies = self.within(policies, NAMESPACE);
        policies.delete("batch", &DeleteParams::default()).await.unwrap();
        for kind in KINDS {
            for object in self.all(kind).list(&ListParams::default()).await.unwrap().items {
                let namespace = object.namespace().unwrap_or_default();
                if object.namespace().is_some() && namespace.starts_with("kube-") {
                    continue;
                }
                let api = self.within(kind, &namespace);
                let no_finalizers = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                let _ =
                    api.patch(&object.name_any(), &PatchParams::default(), &no_finalizers).await;
                let _ = api.delete(&object.name_any(), &at_once).await;
            }
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        for node in nodes.list(&ListParams::default()).await.unwrap().items {
            nodes.delete(&node.name_any(), &at_once).await.unwrap();
        }
        let gone = wait::until_true("no placeholders", DEADLINE, async || {
            for pod in self.placeholders().await {
                let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
                let _ = pods.delete(&pod.name_any(), &at_once).await;
            }
            Ok(self.placeholders().await.is_empty()
                && nodes.list(&ListParams::default()).await?.items.is_empty())
        });
        gone.await.unwrap_or_else(|error| panic!("{error:#}"));
    }
}

/// The requested CPU of a pod with one container, in thousandths of a core.
fn cpu_of(pod: &Pod) -> u64 {
    let resources = pod.spec.as_ref().unwrap().containers[0].resources.as_ref().unwrap();
    amount_of(&resources.requests.as_ref().unwrap()["cpu"].0)
}

/// An amount of CPU, which the API server writes with the suffix m or none.
fn amount_of(cpu: &str) -> u64 {
    let whole = || cpu.parse::<u64>().unwrap() * 1_000;
    cpu.strip_suffix('m').map_or_else(whole, |millis| millis.parse().unwrap())
}

fn now() -> String {
    k8s_openapi::jiff::Timestamp::now().to_string()
}
