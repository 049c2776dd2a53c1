//! The steps of a random world.

use std::fmt;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use tests::workloads::Generator;

/// The name of the policy.
pub(super) const POLICY: &str = "batch";

/// The specifications of the policy that are valid, and whether the policy may hold placeholders.
const VALID: [&str; 7] = [
    "{mode: Observe, tick: 10s}",
    "{mode: Act, tick: 10s, limits: {placeholders: 5}}",
    "{mode: Act, tick: 10s, limits: {placeholders: 5}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2]]}}}",
    "{mode: Act, tick: 10s, limits: {placeholders: 1}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 3]]}}}",
    "{mode: Act, tick: 10s, limits: {dollarsPerHour: 0.5}, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 3]]}}}",
    "{mode: Act, tick: 10s, limits: {placeholders: 4}, forecast: {method: scheduled}, workloads: {releasedJobs: {}}}",
    "{mode: Act, tick: 10s, limits: {placeholders: 3}, forecast: {method: expression, expression: 'demand + 1'}, buckets: {instanceTypes: [m5.xlarge]}}",
];

/// Specifications that the API server accepts and the controller does not.
const INVALID: [&str; 2] = [
    "{mode: Act, tick: 10s, limits: {placeholders: 5}, forecast: {method: expression, expression: 'nodes +'}}",
    "{mode: Act, tick: 10s, limits: {placeholders: 5}, forecast: {method: expression, expression: 'unknown * 2'}}",
];

/// What the network between the controller and the API server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    Works,
    /// Connections are dropped and refused.
    Closed,
    /// Connections stay, and nothing comes.
    Silent,
}

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfNode {
    Cordon,
    Taint,
    NotReady,
    Heal,
}

/// A step of a world.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Creates an object, or changes it. The API server may refuse it.
    Object(Value),
    /// Changes the policy. The flag is whether the specification is valid.
    Policy(Value, bool),
    PolicyGone,
    /// All objects of the people who submit jobs are deleted.
    JobsGone,
    /// The pods on nodes complete.
    PodsEnd,
    /// Something is done to one of the nodes, by its place modulo their number.
    Node(usize, OfNode),
    Network(Network),
    /// The wall clock of the controller differs by this many seconds.
    Clock(i64),
    /// The tag of a group by which AWS finds it is removed, or is there again.
    Group(&'static str, bool),
    /// The off switch is set or removed.
    Off(bool),
    /// Seconds pass, in addition to the one after each step.
    Wait(u64),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => write!(f, "object {object}"),
            Self::Policy(spec, _) => write!(f, "policy {spec}"),
            Self::PolicyGone => f.write_str("policy gone"),
            Self::JobsGone => f.write_str("jobs gone"),
            Self::PodsEnd => f.write_str("pods end"),
            Self::Node(at, what) => write!(f, "node {at} {what:?}"),
            Self::Network(what) => write!(f, "network {what:?}"),
            Self::Clock(seconds) => write!(f, "clock {seconds} s"),
            Self::Group(name, is_there) => write!(f, "group {name} tagged: {is_there}"),
            Self::Off(true) => f.write_str("off"),
            Self::Off(false) => f.write_str("on"),
            Self::Wait(seconds) => write!(f, "wait {seconds}s"),
        }
    }
}

/// Draws steps, the same for the same seed.
pub(super) struct Steps {
    random: Pcg64Mcg,
    workloads: Generator,
    made: u64,
}

impl Steps {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Pcg64Mcg::seed_from_u64(seed), workloads: Generator::new(seed), made: 0 }
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.random_range(0..of.len())].clone()
    }

    /// A policy that holds placeholders, with which each world begins.
    pub(super) fn first(&mut self) -> Step {
        let spec = self.one(&VALID[1..]);
        Step::Policy(serde_saphyr::from_str(spec).unwrap(), true)
    }

    /// The next step.
    pub(super) fn next(&mut self) -> Step {
        match self.random.random_range(0..100) {
            0..12 => self.policy(),
            12 => Step::PolicyGone,
            13..28 => self.plain_job(),
            28..40 => self.workload(),
            40..46 => self.other(),
            46..52 => Step::PodsEnd,
            52..56 => Step::JobsGone,
            56..66 => {
                let what =
                    [OfNode::Cordon, OfNode::Taint, OfNode::NotReady, OfNode::Heal, OfNode::Heal];
                Step::Node(self.random.random_range(0..5), self.one(&what))
            }
            66..74 => {
                let works = Network::Works;
                Step::Network(self.one(&[works, works, works, Network::Closed, Network::Silent]))
            }
            74..76 => Step::Clock(self.one(&[0, 3_600, -3_600, 15_724_800])),
            76..80 => {
                Step::Group(self.one(&["small", "large"]), self.random.random_range(0..3) > 0)
            }
            80..83 => Step::Off(self.random.random_range(0..3) == 0),
            _ => Step::Wait(self.random.random_range(1..12)),
        }
    }

    fn policy(&mut self) -> Step {
        let is_valid = self.random.random_range(0..4) > 0;
        let spec = if is_valid { self.one(&VALID) } else { self.one(&INVALID) };
        Step::Policy(serde_saphyr::from_str(spec).unwrap(), is_valid)
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("x{}", self.made)
    }

    /// A Job of pods that fit a node, which runs, is suspended, or is held by a gate.
    fn plain_job(&mut self) -> Step {
        let pods = self.random.random_range(1..5);
        let cpu = self.one(&["500m", "3", "12", "500"]);
        let mut spec = json!({"restartPolicy": "Never", "containers": [{
            "name": "work", "image": "busybox", "resources": {"requests": {"cpu": cpu}},
        }]});
        if self.random.random_range(0..6) == 0 {
            spec["schedulingGates"] = json!([{"name": "example.com/data"}]);
        }
        if self.random.random_range(0..8) == 0 {
            spec["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": "none"}}]);
        }
        let suspend = self.random.random_range(0..3) == 0;
        Step::Object(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": self.name(), "namespace": "plain"},
            "spec": {"suspend": suspend, "parallelism": pods, "completions": pods,
                "template": {"spec": spec}},
        }))
    }

    /// A Job whose template has any of the fields that decide where a pod runs.
    fn workload(&mut self) -> Step {
        let mut job = self.workloads.workload().job();
        job["spec"]["suspend"] = json!(self.random.random_range(0..3) == 0);
        Step::Object(job)
    }

    fn other(&mut self) -> Step {
        let name = self.name();
        let pod = |cpu: &str| {
            json!({"restartPolicy": "Never", "containers": [{
                "name": "work", "image": "busybox", "resources": {"requests": {"cpu": cpu}},
            }]})
        };
        let metadata = json!({"name": name, "namespace": "plain"});
        Step::Object(match self.random.random_range(0..5) {
            0 => {
                json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": {
                    "schedule": "* * * * *",
                    "jobTemplate": {"spec": {"parallelism": 3, "template": {"spec": pod("3")}}},
                }})
            }
            1 => {
                let cpu = self.one(&["100m", "2", "64"]);
                let mut spec = pod(cpu);
                spec["restartPolicy"] = json!("Always");
                let labels = json!({"daemon": name});
                json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec},
                }})
            }
            2 => json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata,
                "spec": {"hard": {"pods": self.one(&["0", "3"])}}}),
            3 => json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {
                "limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}}),
            _ => json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        })
    }
}
