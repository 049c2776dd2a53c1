//! A small table of AWS instance types.
//!
//! vCPUs, memory and GPUs are from AWS's instance type pages. Prices are on-demand prices for Linux
//! in us-east-1, in dollars per hour, from AWS's price list of June 2024. Prices change and differ
//! by region, so give a catalog file where exact prices matter.

use embedder::Resources;

use super::file::InstanceTypeEntry;
use crate::Job;

const GIB: u64 = 1 << 30;

/// Name, vCPUs, memory in GiB, GPUs, and dollars per hour; by family, ascending.
const TYPES: [(&str, u64, u64, u64, f64); 33] = [
    ("m5.large", 2, 8, 0, 0.096),
    ("m5.xlarge", 4, 16, 0, 0.192),
    ("m5.2xlarge", 8, 32, 0, 0.384),
    ("m5.4xlarge", 16, 64, 0, 0.768),
    ("m5.8xlarge", 32, 128, 0, 1.536),
    ("m5.12xlarge", 48, 192, 0, 2.304),
    ("m5.16xlarge", 64, 256, 0, 3.072),
    ("m5.24xlarge", 96, 384, 0, 4.608),
    ("c5.2xlarge", 8, 16, 0, 0.34),
    ("c5.4xlarge", 16, 32, 0, 0.68),
    ("c5.9xlarge", 36, 72, 0, 1.53),
    ("c5.18xlarge", 72, 144, 0, 3.06),
    ("r5.2xlarge", 8, 64, 0, 0.504),
    ("r5.4xlarge", 16, 128, 0, 1.008),
    ("r5.8xlarge", 32, 256, 0, 2.016),
    ("r5.24xlarge", 96, 768, 0, 6.048),
    ("g4dn.xlarge", 4, 16, 1, 0.526),
    ("g4dn.2xlarge", 8, 32, 1, 0.752),
    ("g4dn.4xlarge", 16, 64, 1, 1.204),
    ("g4dn.8xlarge", 32, 128, 1, 2.176),
    ("g4dn.16xlarge", 64, 256, 1, 4.352),
    ("g4dn.12xlarge", 48, 192, 4, 3.912),
    ("g4dn.metal", 96, 384, 8, 7.824),
    ("g5.xlarge", 4, 16, 1, 1.006),
    ("g5.2xlarge", 8, 32, 1, 1.212),
    ("g5.4xlarge", 16, 64, 1, 1.624),
    ("g5.8xlarge", 32, 128, 1, 2.448),
    ("g5.12xlarge", 48, 192, 4, 5.672),
    ("g5.24xlarge", 96, 384, 4, 8.144),
    ("g5.48xlarge", 192, 768, 8, 16.288),
    ("p3.2xlarge", 8, 61, 1, 3.06),
    ("p3.8xlarge", 32, 244, 4, 12.24),
    ("p3.16xlarge", 64, 488, 8, 24.48),
];

/// The most pods on a node: Kubernetes' default.
const PODS_MAX: u64 = 110;

/// The names of the table's instance types.
pub fn instance_types() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|(name, ..)| *name)
}

/// The families of the table's instance types, such as `g4dn`, in the table's order.
pub fn families() -> Vec<&'static str> {
    let mut families: Vec<&str> = instance_types()
        .filter_map(|name| name.split_once('.'))
        .map(|(family, _)| family)
        .collect();
    families.dedup();
    families
}

/// The instance types of a family.
pub fn family(name: &str) -> Vec<InstanceTypeEntry> {
    let of_family = |full: &&str| full.split_once('.').is_some_and(|(family, _)| family == name);
    instance_types().filter(of_family).filter_map(instance_type).collect()
}

/// An instance type of the table, with nothing reserved for the kubelet. `None` if it is not there.
pub fn instance_type(name: &str) -> Option<InstanceTypeEntry> {
    let &(name, cpus, gib, gpus, price) = TYPES.iter().find(|(known, ..)| *known == name)?;
    Some(InstanceTypeEntry {
        name: name.into(),
        accelerators: (gpus > 0).then_some(gpus),
        cpu_millis: Some(cpus * 1_000),
        memory_bytes: Some(gib * GIB),
        pods: Some(PODS_MAX),
        price_per_hour: price,
        ..InstanceTypeEntry::default()
    })
}

/// The candidates for the default type of jobs without GPUs, ascending. The smallest that fits the
/// log's largest pod is used.
const CPU_DEFAULTS: [&str; 6] =
    ["m5.2xlarge", "m5.4xlarge", "m5.8xlarge", "m5.12xlarge", "m5.16xlarge", "m5.24xlarge"];

/// The default type of jobs that request GPUs. It has eight GPUs, as in most GPU clusters.
const GPU_DEFAULT: &str = "g5.48xlarge";

/// The default instance types for a log: one with GPUs if jobs request them, and one without if
/// some jobs do not.
pub fn default_types(jobs: &[Job]) -> Vec<InstanceTypeEntry> {
    let (mut gpu, mut cpu) = (false, None::<Resources>);
    for job in jobs {
        if job.work.unit.accelerators > 0 {
            gpu = true;
        } else {
            cpu = Some(cpu.unwrap_or_default().roof(job.work.unit));
        }
    }
    let takes = |name: &&&str, largest: Resources| {
        instance_type(name).is_some_and(|entry| {
            entry.cpu_millis.unwrap_or(0) >= largest.cpu_millis
                && entry.memory_bytes.unwrap_or(0) >= largest.memory_bytes
        })
    };
    let smallest =
        |largest| CPU_DEFAULTS.iter().find(|name| takes(name, largest)).unwrap_or(&"m5.24xlarge");
    let names = cpu.map(|largest| *smallest(largest)).into_iter().chain(gpu.then_some(GPU_DEFAULT));
    names.filter_map(instance_type).collect()
}
