//! The waiting of each tier in a run.

use base::tier::Tiers;
use serde::Serialize;

use super::log::{JobRecord, RunLog};

/// The figures of the jobs of one tier that count, or their means over several runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierFigures {
    /// The name of the tier; `None` for jobs below the lowest tier.
    pub tier: Option<String>,
    /// The number of jobs.
    pub jobs: f64,
    /// The time from submission to start in minutes, summed over jobs.
    pub pending_minutes: f64,
    /// The number of pods.
    pub pods: f64,
    /// The number of pods that waited no longer than one scan of the autoscaler.
    pub pods_hidden: f64,
    /// The time from submission to start in hours, each job weighted by its number of pods.
    pub pending_pod_hours: f64,
}

impl TierFigures {
    /// The figures of each tier, in the order of the settings, and last those of the jobs below the
    /// lowest tier, if there are any. Empty if there are no tiers.
    pub fn of(log: &RunLog, tiers: &Tiers) -> Vec<Self> {
        let names = tiers.iter().map(|tier| Some(tier.name.as_str())).chain([None]);
        let of_name = |name: Option<&str>| {
            let belongs =
                |job: &&JobRecord| tiers.of(job.priority).map(|tier| tier.name.as_str()) == name;
            let jobs = || log.jobs.iter().filter(belongs);
            let seconds = |job: &JobRecord| job.wait_seconds(log.window.1) as f64;
            // The sum of no numbers would be -0.0.
            let total = |of: &dyn Fn(&JobRecord) -> f64| jobs().fold(0.0, |sum, job| sum + of(job));
            Self {
                tier: name.map(str::to_owned),
                jobs: jobs().count() as f64,
                pending_minutes: total(&|job| seconds(job) / 60.0),
                pods: total(&|job| job.pods as f64),
                pods_hidden: total(&|job| job.pods_hidden as f64),
                pending_pod_hours: total(&|job| seconds(job) / 3_600.0 * job.pods as f64),
            }
        };
        let figures = names.map(of_name).filter(|of| of.tier.is_some() || of.jobs > 0.0);
        if tiers.is_empty() { Vec::new() } else { figures.collect() }
    }

    /// The means over runs of the same jobs.
    pub fn means(runs: &[Vec<Self>]) -> Vec<Self> {
        let Some(first) = runs.first() else { return Vec::new() };
        let mean = |at: usize, of: fn(&Self) -> f64| {
            runs.iter().filter_map(|run| run.get(at)).map(of).sum::<f64>() / runs.len() as f64
        };
        let tier = |(at, tier): (usize, &Self)| Self {
            tier: tier.tier.clone(),
            jobs: mean(at, |of| of.jobs),
            pending_minutes: mean(at, |of| of.pending_minutes),
            pods: mean(at, |of| of.pods),
            pods_hidden: mean(at, |of| of.pods_hidden),
            pending_pod_hours: mean(at, |of| of.pending_pod_hours),
        };
        first.iter().enumerate().map(tier).collect()
    }
}
