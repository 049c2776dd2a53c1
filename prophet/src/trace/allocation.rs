//! The shares of the machines of a cluster that jobs request and use, by tier (Tirmazi et al.,
//! "Borg: the Next Generation", section 4).

use serde::Serialize;

use super::job::Job;
use super::machines::{Capacity, Machines};
use super::read::Trace;
use super::tiers::by_tier;

/// What the jobs of one priority used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// The priority.
    pub priority: i32,
    /// CPU, in core-seconds.
    pub core_seconds: f64,
    /// Memory, in GiB-seconds.
    pub gib_seconds: f64,
}

/// The shares of the machines, from the first submission to the last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Allocation {
    /// The mean capacity of the machines.
    pub machines: Capacity,
    /// The shares of each tier, the one with the most jobs first, and then of all tiers.
    pub tiers: Vec<TierAllocation>,
}

/// The shares of the machines that the jobs of one tier request and use. A share above 1 is
/// possible, because Borg allocates more than its machines have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierAllocation {
    /// The name of the tier, or `all`.
    pub tier: String,
    /// The share of CPU that is requested.
    pub cpu_requested: f64,
    /// The share of memory that is requested.
    pub memory_requested: f64,
    /// The share of CPU that is used. NaN, which is `null` in JSON, if usage is not known.
    pub cpu_used: f64,
    /// The share of memory that is used, likewise.
    pub memory_used: f64,
}

/// What the jobs of a tier request and use, in core-seconds and GiB-seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requested: [f64; 2],
    used: [f64; 2],
}

/// A job, or what jobs used.
enum Part<'a> {
    Job(&'a Job),
    Used(&'a Used),
}

impl Allocation {
    /// The shares that the jobs of a log request, and those that they use if `used` is not empty. A
    /// job runs from its submission.
    pub fn of(trace: &Trace, machines: &Machines, used: &[Used]) -> Self {
        let jobs = &trace.jobs;
        let from = jobs.first().map_or(0, |job| job.submit);
        let until = jobs.last().map_or(0, |job| job.submit);
        let machines = machines.mean(from, until);
        let length = until.saturating_sub(from) as f64;
        let of_machines = |tier: String, sums: Sums| {
            let share = |[cores, gib]: [f64; 2]| {
                [cores / (machines.cores * length), gib / (machines.gib * length)]
            };
            let [cpu_requested, memory_requested] = share(sums.requested);
            let unknown = [f64::NAN; 2];
            let [cpu_used, memory_used] = if used.is_empty() { unknown } else { share(sums.used) };
            TierAllocation { tier, cpu_requested, memory_requested, cpu_used, memory_used }
        };
        let jobs = jobs.iter().map(|job| (job.priority, Part::Job(job)));
        let parts = jobs.chain(used.iter().map(|used| (used.priority, Part::Used(used))));
        let mut all = Sums::default();
        let mut tiers = Vec::new();
        for (tier, parts) in by_tier(trace.format, parts) {
            let sums = parts.iter().fold(Sums::default(), |sums, part| sums.plus(part, until));
            for at in 0..2 {
                all.requested[at] += sums.requested[at];
                all.used[at] += sums.used[at];
            }
            tiers.push(of_machines(tier, sums));
        }
        tiers.push(of_machines("all".into(), all));
        Self { machines, tiers }
    }
}

impl Sums {
    /// The sums with one more part. A job counts until a second of the log.
    fn plus(mut self, part: &Part<'_>, until: i64) -> Self {
        match part {
            Part::Job(job) => {
                let end = job.submit.saturating_add(job.runtime).min(until);
                let seconds = end.saturating_sub(job.submit).max(0) as f64 * job.work.units as f64;
                let unit = job.work.unit;
                self.requested[0] += seconds * unit.cpu_millis as f64 / 1_000.0;
                self.requested[1] += seconds * unit.memory_bytes as f64 / 1_073_741_824.0;
            }
            Part::Used(used) => {
                self.used[0] += used.core_seconds;
                self.used[1] += used.gib_seconds;
            }
        }
        self
    }
}
