//! The shares of the machines of a cluster that jobs request and use, by tier (Tirmazi et al.,
//! "Borg: the Next Generation", section 4).

use std::collections::BTreeMap;

use serde::Serialize;

use super::job::Job;
use super::machines::{Capacity, GIB, Machines};
use super::read::Trace;
use super::tiers::by_tier;
use super::used::Used;

/// The shares of the machines, from the first submission to the last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Allocation {
    /// The mean capacity of the machines.
    pub machines: Capacity,
    /// The shares of each tier, the one with the most jobs first, then those of jobs that have
    /// usage and are not in the log, and then those of all jobs.
    pub tiers: Vec<TierAllocation>,
}

/// The shares of the machines that the jobs of one tier request and use. A share above 1 is
/// possible, because Borg allocates more than its machines have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierAllocation {
    /// The name of the tier, `not in the log` or `all`.
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

/// What the jobs of a tier request and use: core-seconds and GiB-seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requested: [f64; 2],
    used: [f64; 2],
}

impl Allocation {
    /// The seconds `[from, until)` to which the shares belong.
    pub fn window(trace: &Trace) -> (i64, i64) {
        let submit = |job: Option<&Job>| job.map_or(0, |job| job.submit);
        (submit(trace.jobs.first()), submit(trace.jobs.last()))
    }

    /// The shares that the jobs of a log request, and those that they use by priority, if `used` is
    /// not empty. A job runs from its submission. What has no priority is not in the log.
    pub fn of(trace: &Trace, machines: &Machines, used: &BTreeMap<Option<i32>, Used>) -> Self {
        let (from, until) = Self::window(trace);
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
        let (mut tiers, mut all) = (Vec::new(), Sums::default());
        let jobs = trace.jobs.iter().map(|job| (job.priority, job));
        for (tier, jobs) in by_tier(trace.format, jobs) {
            let mut sums = Sums::default();
            let mut priorities: Vec<i32> = jobs.iter().map(|job| job.priority).collect();
            priorities.sort_unstable();
            priorities.dedup();
            for job in &jobs {
                sums.add_job(job, until);
            }
            for used in priorities.iter().filter_map(|priority| used.get(&Some(*priority))) {
                sums.add_used(used);
            }
            all.add(&sums);
            tiers.push(of_machines(tier, sums));
        }
        if let Some(used) = used.get(&None) {
            let mut sums = Sums::default();
            sums.add_used(used);
            all.add(&sums);
            tiers.push(of_machines("not in the log".into(), sums));
        }
        tiers.push(of_machines("all".into(), all));
        Self { machines, tiers }
    }
}

impl Sums {
    /// Adds what a job requests until a second of the log.
    fn add_job(&mut self, job: &Job, until: i64) {
        let end = job.submit.saturating_add(job.runtime).min(until);
        let seconds = end.saturating_sub(job.submit).max(0) as f64 * job.work.units as f64;
        let unit = job.work.unit;
        self.requested[0] += seconds * unit.cpu_millis as f64 / 1_000.0;
        self.requested[1] += seconds * unit.memory_bytes as f64 / GIB;
    }

    fn add_used(&mut self, used: &Used) {
        self.used[0] += used.core_seconds;
        self.used[1] += used.gib_seconds;
    }

    fn add(&mut self, other: &Self) {
        for at in 0..2 {
            self.requested[at] += other.requested[at];
            self.used[at] += other.used[at];
        }
    }
}
