//! Generates a seeded synthetic log.
//!
//! The log has a daily and a weekly season, batch arrivals, heavy-tailed runtimes, gangs, and CPU
//! and GPU shapes. Jobs arrive in sessions: a session submits a batch of jobs of one kind within
//! minutes of each other, like a user or a workflow does. The starts of sessions follow the working
//! hours of weekdays.

use std::collections::HashMap;

use embedder::{AcceleratorKind, Resources, Split};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal, Pareto};
use rand_pcg::Pcg64Mcg;

use super::job::{Admits, Job, Work};

/// The parameters of a synthetic log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// The length of the log, in days.
    pub days: u32,
    /// The approximate mean number of jobs per day.
    pub jobs_per_day: f64,
    /// The share of sessions that submit GPU jobs, in [0, 1].
    pub gpu_share: f64,
    /// The share of sessions that are workflows, in [0, 1]: a job that reads, then one of many
    /// pods, then one that joins, each after the end of the one before.
    pub workflow_share: f64,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Default for Recipe {
    fn default() -> Self {
        Self { days: 21, jobs_per_day: 1_500.0, gpu_share: 0.3, workflow_share: 0.0, seed: 1 }
    }
}

/// The first second of the log: Monday, 2024-01-01, midnight UTC, because [`season`] begins on a
/// Monday.
const START: i64 = 1_704_067_200;

/// The index of the Pareto distribution of the jobs in a session, which begins at 2.
const BATCH_SHAPE: f64 = 1.3;
/// The most jobs in a session. The distribution is cut here.
const BATCH_MAX: f64 = 200.0;
/// The mean number of jobs in a session of this distribution.
const BATCH_MEAN: f64 = 6.6;

/// The longest runtime, in seconds: a week.
const RUNTIME_MAX: f64 = 7.0 * 86_400.0;

/// The relative rate of session starts, `seconds` after Monday at midnight. Its mean over a week is
/// 1.
fn season(seconds: f64) -> f64 {
    let hours = seconds / 3_600.0;
    let day = (hours / 24.0) % 7.0;
    let weekday = if day < 5.0 { 1.25 } else { 0.375 };
    // Busiest at 14:00, quietest at 02:00.
    weekday * (1.0 - 0.75 * ((hours - 2.0) / 24.0 * std::f64::consts::TAU).cos())
}

/// The maximum of [`season`]: a weekday at 14:00.
const SEASON_MAX: f64 = 1.25 * 1.75;

/// Generates jobs in the order of submission. The same recipe gives the same jobs.
pub fn generate(recipe: &Recipe) -> Vec<Job> {
    let Recipe { days, jobs_per_day, gpu_share, workflow_share, seed } = *recipe;
    let workflows = workflows(workflow_share, seed);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let end = f64::from(days) * 86_400.0;
    let rate = jobs_per_day / 86_400.0 / BATCH_MEAN;
    let Ok(gaps) = Exp::new(rate * SEASON_MAX) else { return Vec::new() };
    let mut jobs = Vec::new();
    let mut now = 0.0;
    loop {
        now += gaps.sample(&mut random);
        if now >= end {
            break;
        }
        // Thinning: sessions are drawn at the maximal rate, and each is kept with the probability
        // that the rate at its time has relative to the maximum.
        if random.random::<f64>() * SEASON_MAX <= season(now) {
            let is_workflow = workflow_share > 0.0 && random.random::<f64>() < workflow_share;
            if is_workflow && let Some(workflow) = pick_of(&workflows, &mut random) {
                run(workflow, now, &mut random, &mut jobs);
                continue;
            }
            let gpu = random.random_bool(gpu_share.clamp(0.0, 1.0));
            session(now, end, gpu, &mut random, &mut jobs);
        }
    }
    jobs.sort_by_key(|job| job.submit);
    let mut names: HashMap<Box<str>, Box<str>> = HashMap::new();
    for (number, job) in jobs.iter_mut().enumerate() {
        let name: Box<str> = (number + 1).to_string().into();
        let before = std::mem::replace(&mut job.name, name.clone());
        for after in job.after.iter_mut().filter_map(|after| Some((names.get(after)?, after))) {
            after.1.clone_from(after.0);
        }
        if !before.is_empty() {
            names.insert(before, name);
        }
    }
    jobs
}

/// The number of workflows that run again and again.
const WORKFLOWS: usize = 20;

/// The steps of a workflow that runs again and again.
struct GeneratedWorkflow {
    user: Box<str>,
    /// The typical runtimes in seconds, and the pods.
    steps: [(f64, Work); 3],
}

fn workflows(share: f64, seed: u64) -> Vec<GeneratedWorkflow> {
    let mut random = Pcg64Mcg::seed_from_u64(!seed);
    let Ok(spread) = LogNormal::new(0.0, 0.8) else { return Vec::new() };
    let one = |number: usize| {
        let mut step = |seconds: f64, cores: u64, units: u64| {
            let requests = Resources {
                cpu_millis: cores * 1_000,
                memory_bytes: (2 * cores) << 30,
                ..Resources::default()
            };
            let work = Work { units, ..Work::of_pod(requests, AcceleratorKind::default()) };
            (seconds * spread.sample(&mut random), work)
        };
        let steps = [step(400.0, 2, 1), step(900.0, 4, 10 + 2 * number as u64), step(200.0, 8, 1)];
        GeneratedWorkflow { user: format!("workflow {number}").into(), steps }
    };
    if share > 0.0 { (0..WORKFLOWS).map(one).collect() } else { Vec::new() }
}

fn pick_of<'a, T>(all: &'a [T], random: &mut Pcg64Mcg) -> Option<&'a T> {
    (!all.is_empty()).then(|| &all[random.random_range(0..all.len())])
}

/// Adds the jobs of one run of a workflow, whose runtimes differ by 20 % from run to run.
fn run(workflow: &GeneratedWorkflow, start: f64, random: &mut Pcg64Mcg, jobs: &mut Vec<Job>) {
    let Ok(spread) = LogNormal::new(0.0, 0.2) else { return };
    let mut now = start;
    let mut before: Option<Box<str>> = None;
    for (typical, work) in &workflow.steps {
        let runtime: f64 = (typical * spread.sample(random)).clamp(10.0, RUNTIME_MAX);
        let name: Box<str> = format!("step {}", jobs.len()).into();
        #[expect(clippy::cast_possible_truncation, reason = "clamped")]
        let (submit, runtime) = (START + now as i64, runtime as i64);
        jobs.push(Job {
            name: name.clone(),
            user: workflow.user.clone(),
            submit,
            runtime,
            priority: 0,
            work: work.clone(),
            after: before.replace(name).into_iter().collect(),
        });
        now += runtime as f64;
    }
}

fn session(start: f64, end: f64, gpu: bool, random: &mut Pcg64Mcg, jobs: &mut Vec<Job>) {
    let law = |mean: f64, sigma: f64| LogNormal::new(mean.ln(), sigma);
    let (Ok(batch), Ok(gap), Ok(typical), Ok(spread)) = (
        Pareto::new(2.0, BATCH_SHAPE),
        Exp::new(1.0 / 20.0),
        law(if gpu { 2_400.0 } else { 600.0 }, 1.4),
        law(1.0, 0.4),
    ) else {
        return;
    };
    let work = if gpu { gpu_work(random) } else { cpu_work(random) };
    let typical: f64 = typical.sample(random);
    let mut now = start;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "cut at the maximum"
    )]
    let size = batch.sample(random).min(BATCH_MAX) as u32;
    for _ in 0..size {
        if now >= end {
            return;
        }
        let runtime: f64 = (typical * spread.sample(random)).clamp(10.0, RUNTIME_MAX);
        #[expect(clippy::cast_possible_truncation, reason = "clamped")]
        let (submit, runtime) = (START + now as i64, runtime as i64);
        jobs.push(Job {
            name: Box::default(),
            user: Box::default(),
            submit,
            runtime,
            priority: 0,
            work: work.clone(),
            after: Box::default(),
        });
        now += gap.sample(random);
    }
}

fn pick(choices: &[u64], random: &mut Pcg64Mcg) -> u64 {
    choices[random.random_range(0..choices.len())]
}

/// A training job: mostly one GPU, some with eight, and few that span several nodes.
fn gpu_work(random: &mut Pcg64Mcg) -> Work {
    let units = pick(&[1, 1, 1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32], random);
    let unit = Resources {
        accelerators: 1,
        cpu_millis: 8_000,
        memory_bytes: 48 << 30,
        ..Resources::default()
    };
    Work {
        units,
        unit,
        accelerator_kind: AcceleratorKind::default(),
        split: Some(Split::Full),
        admits: Admits::Assumed,
    }
}

/// A batch job: one or many pods of a few cores each.
fn cpu_work(random: &mut Pcg64Mcg) -> Work {
    let cores = pick(&[1, 1, 1, 2, 2, 4, 8], random);
    let units = pick(&[1, 1, 1, 1, 2, 4, 10], random);
    let gib = cores * pick(&[2, 2, 3], random);
    let unit =
        Resources { cpu_millis: cores * 1_000, memory_bytes: gib << 30, ..Resources::default() };
    Work {
        units,
        unit,
        accelerator_kind: AcceleratorKind::default(),
        split: None,
        admits: Admits::Assumed,
    }
}
