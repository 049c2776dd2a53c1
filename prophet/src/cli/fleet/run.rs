//! `prophet fleet run`: runs shards, each to a result of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use advice::Totals;
use anyhow::{Context as _, ensure};
use base::clock::Stopwatch;
use base::days::DAY_SECONDS;
use chrono::DateTime;
use fleet::{Cluster, Plan, Row, Shard, ShardResult};
use history::Place;
use simulator::{Candidate, TimePoint, runs};
use traces::Job;

use super::place::PlaceArgs;
use crate::cli::log::{LoadedLog, LogArgs, PartOfLog};
use crate::cli::{progress, runtime};

const EXAMPLES: &str = "\
Examples:
  prophet fleet run --results results/                       all shards, on this machine
  prophet fleet run --results s3://logs/fleet --shard 7
  JOB_COMPLETION_INDEX=7 prophet fleet run --results s3://logs/fleet

A shard whose result is there is not run again. A result appears when it is complete, so a run can be stopped at any time.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    place: PlaceArgs,
    /// The numbers of the shards, from 0; an Indexed Job of Kubernetes sets the variable [default:
    /// all]
    #[arg(long, value_name = "N,M", value_delimiter = ',', env = "JOB_COMPLETION_INDEX")]
    shard: Vec<usize>,
    /// The ONNX Runtime library that runs a model [default: the embedded engine]
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (runtime, place) = (runtime::of_this_thread()?, Place::existing(&args.place.results)?);
    let plan = runtime.block_on(args.place.plan(&place))?;
    let all = plan.shards.len();
    for number in &args.shard {
        ensure!(*number < all, "shard {number}: the plan has {all} shards, numbered from 0");
    }
    let numbers = if args.shard.is_empty() { (0..all).collect() } else { args.shard.clone() };
    let mut failed = Vec::new();
    for number in numbers {
        let found = runtime.block_on(args.place.result(&place, &plan, number))?;
        if found.is_some() {
            eprintln!("shard {number}: complete, and not run again");
            continue;
        }
        let shard = &plan.shards[number];
        let result = match run_one(&plan, shard, args.onnx_runtime.as_deref()) {
            Ok(result) => result,
            Err(error) => {
                eprintln!("prophet: shard {number}: {error:#}");
                failed.push(number.to_string());
                continue;
            }
        };
        let settings = &plan.cluster(shard)?.settings;
        let name = |at: usize| settings.get(at).map(ToString::to_string).unwrap_or_default();
        let file = result.write(&plan.part(shard)?, name)?;
        runtime.block_on(place.put_file(&Shard::file_name(number), file))?;
        eprintln!("shard {number}: done in {:.0} s", result.seconds);
    }
    ensure!(failed.is_empty(), "shards that failed: {}", failed.join(", "));
    Ok(())
}

/// Runs a shard.
fn run_one(plan: &Plan, shard: &Shard, onnx_runtime: Option<&Path>) -> anyhow::Result<ShardResult> {
    let started = Stopwatch::now();
    let Cluster { run, warm_up_seconds, settings, .. } = plan.cluster(shard)?;
    let mut run = run.clone();
    (run.from, run.until) = (Some(at(shard.from)?), Some(at(shard.until)?));
    let part = PartOfLog { window: (shard.from, shard.until), warm_up: *warm_up_seconds };
    let log = LogArgs::of(&run).with_part(part, onnx_runtime.map(Path::to_path_buf));
    let LoadedLog { settings: run, trace, catalog, workload, window } =
        log.replay(run, |_, _| ())?;
    let of_shard = shard.settings.iter().filter_map(|at| settings.get(*at));
    let candidates: Vec<Candidate> = of_shard.map(|setting| setting.candidate(&run)).collect();
    let replays = shard.replays.range();
    let ran = progress::of_runs(|progress| {
        runs(&candidates, &workload, &catalog, &run, window, replays.clone(), progress)
    });
    let mut rows = Vec::new();
    for (setting, of_setting) in shard.settings.iter().zip(ran) {
        for (replay, one) in replays.clone().zip(of_setting) {
            for (day, figures) in (0_i64..).zip(&one.days) {
                let day = window.0.saturating_add(day.saturating_mul(DAY_SECONDS));
                let totals = Totals::of_day(figures);
                rows.push(Row { setting: *setting, replay, day, totals });
            }
        }
    }
    let seconds = Duration::as_secs_f64(&started.elapsed());
    Ok(ShardResult { rows, seconds, jobs: fingerprint(&trace.jobs) })
}

/// A time of a log as a point of time.
fn at(seconds: i64) -> anyhow::Result<TimePoint> {
    let time = DateTime::from_timestamp(seconds, 0).context("the window is out of range")?;
    time.format("%Y-%m-%dT%H:%M:%S").to_string().parse().map_err(anyhow::Error::msg)
}

/// The number of some jobs, and sums over them. They differ if a log changed.
fn fingerprint(jobs: &[Job]) -> String {
    let sum = |of: fn(&Job) -> i128| jobs.iter().map(of).fold(0_i128, i128::wrapping_add);
    format!(
        "{} jobs, submissions {}, run times {}, pods {}",
        jobs.len(),
        sum(|job| job.submit.into()),
        sum(|job| job.runtime.into()),
        sum(|job| job.work.units.into())
    )
}
