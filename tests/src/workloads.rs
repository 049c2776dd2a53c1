//! Random workloads: templates of pods with every field that decides where a pod runs, and what the
//! cluster adds to them.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Map, Value, json};

/// The objects that add to pods: priorities, runtime classes, and one namespace for each kind of
/// addition.
pub const CLUSTER: &str = "
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: modest}, value: 7, preemptionPolicy: Never}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: usual}, value: 3, globalDefault: true}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: heavy}, handler: h, overhead: {podFixed: {cpu: 250m, memory: 128Mi}}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: placed}, handler: h,
 scheduling: {nodeSelector: {runtime: placed}, tolerations: [{key: runtime, operator: Exists, effect: NoSchedule}]}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: plain}, handler: h}
---
{apiVersion: v1, kind: Namespace, metadata: {name: plain}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: defaults}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: defaults}, spec: {limits: [
   {type: Container, default: {cpu: '2', memory: 2Gi}, defaultRequest: {cpu: 300m, memory: 700Mi}}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: limits}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: a, namespace: limits}, spec: {limits: [
   {type: Container, default: {cpu: '4'}}, {type: Pod, max: {memory: 900Gi}}]}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: b, namespace: limits}, spec: {limits: [
   {type: Container, defaultRequest: {memory: 1Gi, ephemeral-storage: 3Gi}}]}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: selecting, annotations: {
   scheduler.alpha.kubernetes.io/node-selector: 'team=a, disk=fast',
   scheduler.alpha.kubernetes.io/defaultTolerations: '[{\"key\": \"team\", \"operator\": \"Exists\"}]'}}}
";

/// The namespaces of [`CLUSTER`].
pub const NAMESPACES: [&str; 4] = ["plain", "defaults", "limits", "selecting"];

/// A random workload: a Job of pods of one template.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The name of the Job.
    pub name: String,
    /// The namespace of the Job.
    pub namespace: String,
    /// The number of pods.
    pub pods: u64,
    /// The template of the pods.
    pub template: Value,
}

impl Workload {
    /// The Job, suspended.
    pub fn job(&self) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "suspend": true, "parallelism": self.pods, "completions": self.pods,
                "template": self.template,
            },
        })
    }

    /// A pod of the template.
    pub fn pod(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.name, "namespace": self.namespace,
                "labels": self.template["metadata"]["labels"],
            },
            "spec": self.template["spec"],
        })
    }
}

/// Makes random workloads, the same for the same seed.
pub struct Generator {
    random: Pcg64Mcg,
    made: u64,
}

impl Generator {
    /// A generator that begins with a seed.
    pub fn new(seed: u64) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), made: 0 }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.random_range(0..of.len())]
    }

    /// The next workload.
    pub fn workload(&mut self) -> Workload {
        self.made += 1;
        let name = format!("w{}", self.made);
        let namespace = (*self.one(&NAMESPACES)).to_owned();
        let pods = self.random.random_range(1..5);
        let mut spec = json!({"restartPolicy": "Never"});
        let containers: Vec<Value> = (0..self.random.random_range(1..4))
            .map(|at| self.container(&format!("c{at}")))
            .collect();
        spec["containers"] = json!(containers);
        let init: Vec<Value> = (0..self.random.random_range(0..3))
            .map(|at| {
                let mut container = self.container(&format!("i{at}"));
                if self.chance(50) {
                    container["restartPolicy"] = json!("Always");
                }
                container
            })
            .collect();
        if !init.is_empty() {
            spec["initContainers"] = json!(init);
        }
        if self.chance(25) {
            spec["resources"] = self.of_pod();
        }
        self.placement(&mut spec);
        let labels = json!({"workload": name, "app": self.one(&["a", "b"])});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        Workload { name, namespace, pods, template }
    }

    /// Resources of a container: requests, limits, both or none of each resource.
    fn container(&mut self, name: &str) -> Value {
        let (mut requests, mut limits) = (Map::new(), Map::new());
        let amounts = [
            ("cpu", ["100m", "1", "1500m"], "2"),
            ("memory", ["64Mi", "1Gi", "1.5Gi"], "2Gi"),
            ("ephemeral-storage", ["1Gi", "2G", "100Mi"], "4Gi"),
        ];
        for (resource, some, most) in amounts {
            let often = if resource == "ephemeral-storage" { 15 } else { 50 };
            if self.chance(often) {
                requests.insert(resource.into(), json!(self.one(&some)));
            }
            if self.chance(often) {
                limits.insert(resource.into(), json!(most));
            }
        }
        let devices =
            ["nvidia.com/gpu", "nvidia.com/mig-3g.20gb", "vpc.amazonaws.com/efa", "amd.com/gpu"];
        if self.chance(20) {
            let device = *self.one(&devices);
            let amount = json!(self.random.random_range(1..4).to_string());
            if self.chance(50) {
                requests.insert(device.into(), amount.clone());
            }
            limits.insert(device.into(), amount);
        }
        if self.chance(5) {
            // Huge pages need CPU or memory beside them.
            requests.entry("memory").or_insert_with(|| json!("64Mi"));
            limits.insert("hugepages-2Mi".into(), json!("4Mi"));
        }
        json!({"name": name, "image": "registry.example/work", "resources": {"requests": requests, "limits": limits}})
    }

    /// Resources of the pod as a whole, which are large enough for its containers most of the time.
    fn of_pod(&mut self) -> Value {
        let (mut requests, mut limits) = (Map::new(), Map::new());
        if self.chance(40) {
            requests.insert("cpu".into(), json!("14"));
        }
        if self.chance(40) {
            requests.insert("memory".into(), json!("16Gi"));
        }
        if self.chance(60) {
            limits.insert("cpu".into(), json!("15"));
        }
        if self.chance(60) {
            limits.insert("memory".into(), json!("18Gi"));
        }
        json!({"requests": requests, "limits": limits})
    }

    /// Everything else that decides the node of a pod.
    fn placement(&mut self, spec: &mut Value) {
        if self.chance(25) {
            spec["runtimeClassName"] = json!(self.one(&["heavy", "placed", "plain"]));
        }
        if self.chance(40) {
            spec["priorityClassName"] = json!(self.one(&["high", "modest"]));
        }
        if self.chance(25) {
            spec["nodeSelector"] =
                json!({"disk": "fast", "kubernetes.io/arch": self.one(&["amd64", "arm64"])});
        }
        if self.chance(25) {
            let operator = *self.one(&["In", "NotIn", "Exists", "DoesNotExist", "Gt"]);
            let values = match operator {
                "Exists" | "DoesNotExist" => json!([]),
                "Gt" => json!(["4"]),
                _ => json!(["a", "b"]),
            };
            let term = json!({"matchExpressions": [{"key": "cores", "operator": operator, "values": values}]});
            spec["affinity"]["nodeAffinity"] = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
        }
        if self.chance(15) {
            let key = *self.one(&["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
            let kind = *self.one(&["podAffinity", "podAntiAffinity"]);
            let term = json!({"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": key});
            spec["affinity"][kind] =
                json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        }
        if self.chance(15) {
            let key = *self.one(&["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
            spec["topologySpreadConstraints"] = json!([{
                "maxSkew": 1, "topologyKey": key,
                "whenUnsatisfiable": self.one(&["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": "a"}},
            }]);
        }
        if self.chance(30) {
            spec["tolerations"] = json!([{
                "key": self.one(&["spot", "nvidia.com/gpu"]), "operator": "Exists",
                "effect": self.one(&["NoSchedule", "NoExecute"]),
            }]);
        }
        if self.chance(10) {
            spec["schedulerName"] = json!("volcano");
        }
        if self.chance(10) {
            spec["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        }
        if self.chance(10) {
            spec["schedulingGates"] = json!([{"name": "example.com/data"}]);
        }
    }
}
