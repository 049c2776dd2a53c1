//! The instance types of a log that comes without any.

use embedder::Resources;
use instances::{CatalogFile, instance_type};

use crate::Job;

/// The candidates for the default type of jobs without GPUs, ascending. The smallest that fits the
/// log's largest pod is used.
const CPU_DEFAULTS: [&str; 6] =
    ["m5.2xlarge", "m5.4xlarge", "m5.8xlarge", "m5.12xlarge", "m5.16xlarge", "m5.24xlarge"];

/// The default type of jobs that request GPUs. It has eight GPUs, as in most GPU clusters.
const GPU_DEFAULT: &str = "g5.48xlarge";

/// The default instance types for a log: one with GPUs if jobs request them, and one without if
/// some jobs do not.
pub fn default_types(jobs: &[Job]) -> CatalogFile {
    let (mut gpu, mut cpu) = (false, None::<Resources>);
    for job in jobs {
        if job.work.unit.accelerators > 0 {
            gpu = true;
        } else {
            cpu = Some(cpu.unwrap_or_default().roof(job.work.unit));
        }
    }
    let takes = |name: &&&str, largest: Resources| {
        instance_type(name).is_some_and(|known| {
            let has = known.allocatable();
            has.cpu_millis >= largest.cpu_millis && has.memory_bytes >= largest.memory_bytes
        })
    };
    let smallest =
        |largest| CPU_DEFAULTS.iter().find(|name| takes(name, largest)).unwrap_or(&"m5.24xlarge");
    let names = cpu.map(|largest| *smallest(largest)).into_iter().chain(gpu.then_some(GPU_DEFAULT));
    CatalogFile::of_types(names)
}
