//! Requests that suggest another unit than the log's.

use crate::{Format, Job};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// A sentence for each resource whose requests are all so small, or all so large, that the log
/// probably has them in another unit. It names the column, the likely unit and the option.
pub fn odd_units(jobs: &[Job], format: Format) -> Vec<String> {
    let columns = match format {
        Format::Table => ["cpu_millis", "memory_bytes", "accelerators"],
        _ => ["COLUMN"; 3],
    };
    let [cpu, memory, accelerators] = columns;
    let requests = |of: fn(&Job) -> u64| jobs.iter().map(of).filter(|amount| *amount > 0);
    let range = |of: fn(&Job) -> u64| Some((requests(of).min()?, requests(of).max()?));
    let mut odd = Vec::new();
    match range(|job| job.work.unit.cpu_millis) {
        Some((_, most)) if most < 50 => odd.push(format!(
            "no pod requests more than {most} thousandths of a core: if the log has cores, say so with --columns and cpu={cpu}:cores"
        )),
        Some((least, _)) if least > 10_000_000 => odd.push(format!(
            "each pod requests at least {} cores: if the log has thousandths of a core, say so with --columns and cpu={cpu}:millicores",
            least / 1_000
        )),
        _ => {}
    }
    match range(|job| job.work.unit.memory_bytes) {
        Some((_, most)) if most < MIB => odd.push(format!(
            "no pod requests more than {most} bytes of memory: if the log has GiB, say so with --columns and memory={memory}:GiB"
        )),
        Some((least, _)) if least > 100 * TIB => odd.push(format!(
            "each pod requests at least {} TiB of memory: if the log has bytes, say so with --columns and memory={memory}:B",
            least / TIB
        )),
        _ => {}
    }
    let gpus = || requests(|job| job.work.unit.accelerators);
    if gpus().next().is_some() && gpus().all(|count| count % 1_000 == 0) {
        odd.push(format!(
            "each pod that requests accelerators requests a multiple of 1,000: if the log has thousandths of a device, say so with --columns and gpus={accelerators}:thousandths"
        ));
    }
    odd
}

#[cfg(test)]
mod tests {
    use embedder::Resources;

    use super::*;
    use crate::{Admits, Work};

    /// Checks the first words of the sentences about a log with one job for each of these requests
    /// of CPU, memory and accelerators.
    #[track_caller]
    fn check(requests: &[(u64, u64, u64)], expected: &[&str]) {
        let job = |&(cpu_millis, memory_bytes, accelerators): &(u64, u64, u64)| {
            let unit = Resources { cpu_millis, memory_bytes, accelerators, ..Resources::default() };
            let accelerator_kind = embedder::AcceleratorKind::default();
            let work = Work { units: 1, unit, accelerator_kind, split: None, admits: Admits::All };
            Job::new("a", "", 0, 1, work)
        };
        let jobs: Vec<Job> = requests.iter().map(job).collect();
        let found = odd_units(&jobs, Format::Table);
        let begins = found.iter().zip(expected).all(|(found, begin)| found.starts_with(begin));
        assert!(found.len() == expected.len() && begins, "{requests:?}: {found:?}");
    }

    #[test]
    fn requests_in_other_units_are_noticed() {
        check(&[], &[]);
        check(&[(0, 0, 0)], &[]);
        check(&[(4_000, 16 << 30, 1), (10, 1, 8)], &[]);
        check(&[(50, MIB, 1)], &[]);
        check(
            &[(4, 16, 0), (49, MIB - 1, 0)],
            &[
                "no pod requests more than 49 thousandths",
                "no pod requests more than 1048575 bytes",
            ],
        );
        check(
            &[(10_000_001, 101 << 40, 0)],
            &["each pod requests at least 10000 cores", "each pod requests at least 101 TiB"],
        );
        check(&[(1_000, 1 << 30, 1_000), (1_000, 1 << 30, 4_000)], &["each pod that requests"]);
        check(&[(1_000, 1 << 30, 1_000), (1_000, 1 << 30, 1_500)], &[]);
    }
}
