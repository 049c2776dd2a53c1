//! A small trace: its jobs, and the settings of the cluster that it runs on.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tests::node_group::NodeGroup;

/// What each pod of a job requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// The room of a node of m5.xlarge, except for a small pod.
    Node,
    /// An eighth of such a node.
    Small,
    /// The GPU of a node of g5.xlarge.
    Gpu,
}

/// A job whose pods start one by one. It ends `runtime` seconds after the last of them started, as
/// a job whose processes wait for each other.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: &'static str,
    /// Seconds of the trace.
    pub(super) submit: i64,
    pub(super) runtime: i64,
    pub(super) pods: usize,
    pub(super) size: Size,
}

/// A trace and its cluster. Times are in seconds.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) jobs: &'static [Job],
    /// The most nodes with a GPU.
    pub(super) gpus: i32,
    /// The tick of the policy. A policy may have 10 s or more.
    pub(super) tick: u64,
    pub(super) launch: u64,
    pub(super) scan: u64,
    /// `--scale-down-unneeded-time`.
    pub(super) unneeded: u64,
    /// `--scale-down-delay-after-add`.
    pub(super) delay_after_add: u64,
    /// Events that are closer in the simulator have no order if one is the removal of a node.
    pub(super) removal_apart: f64,
    /// Steps of the ladder: placeholders by nodes in demand.
    pub(super) ladder: &'static [(u64, u64)],
    /// The end of what is compared.
    pub(super) end: i64,
}

pub(super) const GPU: &str = "nvidia.com/gpu";

impl Size {
    /// The request in thousandths of a CPU, MiB and GPUs.
    fn request(self) -> (u64, u64, u64) {
        match self {
            Self::Node => (3_000, 8 << 10, 0),
            Self::Small => (500, 1 << 10, 0),
            Self::Gpu => (3_000, 8 << 10, 1),
        }
    }
}

impl Job {
    /// The manifest of the job. Nothing ends its pods by itself.
    pub(super) fn manifest(&self) -> String {
        let (cpu_millis, memory_mib, gpus) = self.size.request();
        let mut resources =
            json!({"cpu": format!("{cpu_millis}m"), "memory": format!("{memory_mib}Mi")});
        let mut spec = json!({"restartPolicy": "Never"});
        if gpus > 0 {
            resources[GPU] = json!(gpus.to_string());
            spec["tolerations"] = json!([{"key": GPU, "operator": "Exists"}]);
        }
        let all = json!({"requests": resources, "limits": resources});
        spec["containers"] = json!([{"name": "work", "image": "busybox", "resources": all}]);
        let template = json!({"metadata": {"labels": {"job": self.name}}, "spec": spec});
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {"parallelism": self.pods, "completions": self.pods, "template": template},
        })
        .to_string()
    }
}

impl Trace {
    /// The Auto Scaling groups. Nodes with GPUs have a taint, as the simulator assumes.
    pub(super) fn groups(&self) -> Vec<NodeGroup> {
        let gpu = NodeGroup::new("gpu", "g5.xlarge").sizes(0, self.gpus);
        let gpu = (self.gpus > 0).then(|| gpu.taint(GPU, "present", "NoSchedule"));
        [NodeGroup::new("small", "m5.xlarge")].into_iter().chain(gpu).collect()
    }

    /// The spec of the policy.
    pub(super) fn policy(&self) -> String {
        let ladder = json!({"nodesToReplicas": self.ladder});
        let forecast = json!({"method": "ladder", "ladder": ladder});
        json!({"mode": "Act", "tick": format!("{}s", self.tick), "forecast": forecast}).to_string()
    }

    /// The job table for `prophet simulate`. Its last job ends the evaluated time.
    pub(super) fn table(&self) -> String {
        let mut table = "job,submit,runtime,pods,cpu_millis,memory_bytes,accelerators\n".to_owned();
        let mut add = |name: &str, submit: i64, runtime: i64, pods: usize, size: Size| {
            let (cpu, memory, gpus) = size.request();
            let memory = memory << 20;
            let line = writeln!(table, "{name},{submit},{runtime},{pods},{cpu},{memory},{gpus}");
            line.expect("text is written to memory");
        };
        for job in self.jobs {
            add(job.name, job.submit, job.runtime, job.pods, job.size);
        }
        add(LAST, self.end, 1, 1, Size::Small);
        table
    }

    /// The settings file for `prophet simulate`.
    pub(super) fn settings(&self) -> String {
        let of = |name: &str, group: &str, max: i32, price: f64, gpus: u64| {
            json!({"name": name, "cpuMillis": 4_000, "memoryBytes": 16_u64 << 30, "pods": 110,
                "accelerators": gpus, "reserved": {"cpuMillis": 80, "memoryBytes": 850_u64 << 20},
                "pricePerHour": price, "groups": [{"name": group, "min": 0, "max": max}]})
        };
        let gpu = (self.gpus > 0).then(|| of("g5.xlarge", "gpu", self.gpus, 1.006, 1));
        let types = [of("m5.xlarge", "small", 10, 0.192, 0)].into_iter().chain(gpu);
        let types: Value = types.collect();
        json!({
            "from": "0s",
            "tick": format!("{}s", self.tick),
            "scan": format!("{}s", self.scan),
            "launchLatency": format!("{}s", self.launch),
            "scaleDownUnneededTime": format!("{}s", self.unneeded),
            "scaleDownDelayAfterAdd": format!("{}s", self.delay_after_add),
            // The default scheduler prefers the node with the smallest share in use.
            "scheduler": "spread",
            "gang": "pod-by-pod",
            "ladder": {"nodesToReplicas": self.ladder, "coresToReplicas": []},
            "policies": ["reactive", "ladder"],
            "catalog": {"instanceTypes": types},
        })
        .to_string()
    }
}

/// The name of the job that ends the evaluated time.
pub(super) const LAST: &str = "last";
