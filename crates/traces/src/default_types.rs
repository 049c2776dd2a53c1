//! The instance types of a log that comes without any.

use embedder::Resources;
use instances::{CatalogFile, instance_type};

use crate::Job;

/// The candidates for the default type of jobs without GPUs, ascending.
const CPU_DEFAULTS: [&str; 6] =
    ["m5.2xlarge", "m5.4xlarge", "m5.8xlarge", "m5.12xlarge", "m5.16xlarge", LARGEST];

/// The candidate for jobs that fit none of them.
const LARGEST: &str = "m5.24xlarge";

/// The default type of jobs that request GPUs. It has eight GPUs, as in most GPU clusters.
const GPU_DEFAULT: &str = "g5.48xlarge";

/// The share of the demand that may fit no node of the default type, as one in this many: 1,000. A
/// few large jobs do not choose the type for all others.
const LEFT_OUT: u128 = 1_000;

/// The default instance types for a log: one with GPUs if jobs request them, and one without if
/// some jobs do not.
///
/// The type without GPUs is the smallest on which all but a thousandth of the demand of jobs
/// without GPUs fits, by core-seconds. Jobs that fit no candidate do not count.
pub fn default_types(jobs: &[Job]) -> CatalogFile {
    let gpu = jobs.iter().any(|job| job.work.unit.accelerators > 0);
    let cpu = || jobs.iter().filter(|job| job.work.unit.accelerators == 0);
    let names = cpu().next().map(|_| smallest(cpu)).into_iter().chain(gpu.then_some(GPU_DEFAULT));
    CatalogFile::of_types(names)
}

/// The smallest candidate for these jobs.
fn smallest<'a, J: Iterator<Item = &'a Job>>(jobs: impl Fn() -> J) -> &'static str {
    let sizes = CPU_DEFAULTS.iter().filter_map(|name| Some((*name, instance_type(name)?)));
    let sizes: Vec<(&str, Resources)> =
        sizes.map(|(name, known)| (name, known.allocatable())).collect();
    let fits = |job: &Job, has: Resources| {
        let Resources { cpu_millis, memory_bytes, .. } = job.work.unit;
        cpu_millis <= has.cpu_millis && memory_bytes <= has.memory_bytes
    };
    let largest = sizes.last().map(|(_, has)| *has).unwrap_or_default();
    // The demand on each candidate that does not fit, and in total, without the jobs that fit none.
    let (mut total, mut unfit) = (0_u128, vec![0_u128; sizes.len()]);
    for job in jobs().filter(|job| fits(job, largest)) {
        let cores = u128::from(job.work.unit.cpu_millis.max(1)) * u128::from(job.work.units);
        let demand = cores * u128::from(job.runtime.unsigned_abs());
        total = total.saturating_add(demand);
        for ((_, has), unfit) in sizes.iter().zip(&mut unfit) {
            if !fits(job, *has) {
                *unfit = unfit.saturating_add(demand);
            }
        }
    }
    let mut candidates = sizes.iter().zip(unfit);
    let chosen = candidates.find(|(_, unfit)| total > 0 && *unfit <= total / LEFT_OUT);
    chosen.map_or(LARGEST, |((name, _), _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admits, Work};

    /// Checks the default types of a log with so many jobs of so many cores, GiB and GPUs.
    #[track_caller]
    fn check(jobs: &[(usize, u64, u64, u64)], expected: &[&str]) {
        let job = |cores: u64, gib: u64, accelerators| {
            let unit = Resources {
                accelerators,
                cpu_millis: cores * 1_000,
                memory_bytes: gib << 30,
                ..Resources::default()
            };
            let accelerator_kind = embedder::AcceleratorKind::default();
            let work = Work { units: 1, unit, accelerator_kind, split: None, admits: Admits::All };
            Job::new("a", "", 0, 60, work)
        };
        let all =
            jobs.iter().flat_map(|&(count, cores, gib, gpus)| vec![job(cores, gib, gpus); count]);
        let file = default_types(&all.collect::<Vec<_>>());
        let names: Vec<&str> =
            file.instance_types.iter().map(|known| known.name.as_str()).collect();
        assert_eq!(names, expected, "{jobs:?}");
    }

    #[test]
    fn the_type_suits_the_jobs_and_not_the_largest_of_them() {
        check(&[], &[]);
        check(&[(1, 1, 1, 1)], &["g5.48xlarge"]);
        check(&[(1, 4, 16, 0), (1, 4, 4, 1)], &["m5.2xlarge", "g5.48xlarge"]);
        check(&[(1, 8, 16, 0)], &["m5.4xlarge"]);
        check(&[(1, 4, 100, 0)], &["m5.8xlarge"]);
        // A job that fits no node, and one of a thousandth of the demand.
        check(&[(480, 4, 16, 0), (1, 999, 16, 0)], &["m5.2xlarge"]);
        check(&[(5_000, 4, 16, 0), (1, 20, 16, 0)], &["m5.2xlarge"]);
        check(&[(480, 4, 16, 0), (1, 20, 16, 0)], &["m5.8xlarge"]);
        check(&[(3, 999, 16, 0)], &["m5.24xlarge"]);
    }
}
