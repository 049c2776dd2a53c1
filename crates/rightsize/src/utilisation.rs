//! The shares of occupied nodes that jobs request and use (Tirmazi et al., "Borg: the Next
//! Generation", section 4).

use embedder::{Catalog, Resources, UNLIMITED};
use serde::Serialize;
use simulator::advice::TypeCount;
use simulator::replay::Workload;
use usage::LimitFigures;

/// The mean amounts of CPU, in cores, and of memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amounts {
    cores: f64,
    bytes: f64,
}

/// Shares of the allocatable resources of occupied nodes. NaN, which is `null` in JSON, if no node
/// is occupied, a type has no limit of the resource, or its usage is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Utilisation {
    /// The share of CPU that pods request.
    pub cpu_requested: f64,
    /// The share of CPU that pods use.
    pub cpu_used: f64,
    /// The share of memory that pods request.
    pub memory_requested: f64,
    /// The share of memory that pods use, by the peak of each five minutes.
    pub memory_used: f64,
}

impl Amounts {
    /// What the jobs that fit request in `[from, until)`, on average. A job runs from its
    /// submission, as on nodes that are occupied without launch latency.
    pub(super) fn requested(workload: &Workload, (from, until): (i64, i64)) -> Self {
        let (mut cores, mut bytes) = (0.0, 0.0);
        for job in &workload.jobs {
            let end = job.submit.saturating_add(job.runtime).min(until);
            let seconds = end.saturating_sub(job.submit.max(from)).max(0) as f64;
            for (shape, pods) in &workload.classes[job.class].pods {
                let Resources { cpu_millis, memory_bytes, .. } =
                    workload.shapes[*shape as usize].requests;
                let pod_seconds = seconds * *pods as f64;
                cores += pod_seconds * cpu_millis as f64 / 1_000.0;
                bytes += pod_seconds * memory_bytes as f64;
            }
        }
        let length = until.saturating_sub(from).max(1) as f64;
        Self { cores: cores / length, bytes: bytes / length }
    }

    /// What pods use, if the pods without a measurement use the same share of their requests as the
    /// others.
    pub(super) fn used(self, requested: &LimitFigures) -> Self {
        Self {
            cores: self.cores * (1.0 - requested.slack_cpu),
            bytes: self.bytes * (1.0 - requested.slack_memory),
        }
    }

    /// What the nodes have. The counts are in the order of the catalog.
    fn allocatable(catalog: &Catalog, nodes: &[TypeCount]) -> Self {
        let (mut cores, mut bytes) = (0.0, 0.0);
        for (bucket, count) in catalog.buckets().iter().zip(nodes) {
            if count.peak > 0 {
                let Resources { cpu_millis, memory_bytes, .. } = bucket.allocatable;
                let limited =
                    |amount: u64| if amount == UNLIMITED { f64::NAN } else { amount as f64 };
                cores += count.mean * limited(cpu_millis) / 1_000.0;
                bytes += count.mean * limited(memory_bytes);
            }
        }
        Self { cores, bytes }
    }
}

impl Utilisation {
    /// The shares of these nodes that are requested and used.
    pub(super) fn of(
        catalog: &Catalog,
        nodes: &[TypeCount],
        requested: Amounts,
        used: Amounts,
    ) -> Self {
        let nodes = Amounts::allocatable(catalog, nodes);
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { f64::NAN };
        Self {
            cpu_requested: share(requested.cores, nodes.cores),
            cpu_used: share(used.cores, nodes.cores),
            memory_requested: share(requested.bytes, nodes.bytes),
            memory_used: share(used.bytes, nodes.bytes),
        }
    }
}
