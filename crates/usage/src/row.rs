//! A measurement of a container.

use std::fmt;

use embedder::Resources;
use serde::Serialize;

/// The container of a workload, in all of its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ContainerKey {
    /// The workload: what controls the pods, such as a Job.
    pub owner: Box<str>,
    /// The name of the container; empty if pods have a single one.
    pub container: Box<str>,
}

impl fmt::Display for ContainerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.owner)?;
        if self.container.is_empty() { Ok(()) } else { write!(f, "/{}", self.container) }
    }
}

/// What a container requests. `None` is unknown, and 0 is no request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRequest {
    /// CPU in thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
}

impl ContainerRequest {
    /// What a pod requests.
    pub fn of(unit: Resources) -> Self {
        let Resources { cpu_millis, memory_bytes, .. } = unit;
        Self { cpu_millis: Some(cpu_millis), memory_bytes: Some(memory_bytes) }
    }
}

/// What the request of a container is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestOf {
    /// Of the container, which may be one of several.
    #[default]
    Container,
    /// Of the whole pod, which has no other container.
    Pod,
    /// Of the whole pod. Pods of the owner with another request are another container.
    PodsWithThisRequest,
}

/// A class of workloads, which decides how the CPU of a container is recommended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadClass {
    /// Jobs that tolerate throttling.
    #[default]
    Batch,
    /// Services.
    Service,
    /// Services whose latency is sensitive to load.
    SensitiveService,
}

impl WorkloadClass {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Batch, Self::Service, Self::SensitiveService];

    /// The name in files and reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Service => "service",
            Self::SensitiveService => "sensitive-service",
        }
    }
}

/// How a workload tolerates kills for lack of memory (OOM), which decides how its memory is
/// recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OomTolerance {
    /// No kill. The paper's default for small jobs.
    Minimal,
    /// Rare kills. The paper's default for large jobs.
    Low,
    /// Kills at short peaks.
    Intermediate,
}

impl OomTolerance {
    /// All tolerances.
    pub const ALL: [Self; 3] = [Self::Minimal, Self::Low, Self::Intermediate];

    /// The name in files and reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Intermediate => "intermediate",
        }
    }
}

/// One measurement of a container in one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRow {
    /// The start of the measured time, in seconds of the log.
    pub time: i64,
    /// The container.
    pub key: ContainerKey,
    /// The pod; empty if the workload has a single one.
    pub pod: Box<str>,
    /// The CPU in thousandths of a core, each value with its weight; empty if it was not measured.
    pub cpu: Vec<(u64, f64)>,
    /// The peak of memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The requests of the container, if the measurement has them.
    pub request: ContainerRequest,
    /// What the request is of.
    pub request_of: RequestOf,
    /// The class, if the measurement has it.
    pub class: Option<WorkloadClass>,
    /// The tolerance, if the measurement has it.
    pub oom_tolerance: Option<OomTolerance>,
}
