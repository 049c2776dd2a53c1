//! `prophet fleet run`: runs shards, each to a result of its own.

use std::time::Duration;

use advice::Totals;
use anyhow::{Context as _, ensure};
use base::clock::Stopwatch;
use base::days::DAY_SECONDS;
use fleet::{Cluster, Plan, Row, Shard, ShardResult};
use history::Place;
use simulator::{Candidate, runs};

use super::place::PlaceArgs;
use crate::cli::log::{LoadedLog, LogArgs};
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
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (runtime, place) = (runtime::of_this_thread()?, Place::existing(&args.place.results)?);
    let plan = runtime.block_on(args.place.plan(&place))?;
    let all = plan.shards.len();
    for number in &args.shard {
        ensure!(*number < all, "shard {number}: the plan has {all} shards, numbered from 0");
    }
    let numbers = if args.shard.is_empty() { (0..all).collect() } else { args.shard.clone() };
    for number in numbers {
        let found = runtime.block_on(args.place.result(&place, &plan, number))?;
        if found.is_some() {
            eprintln!("shard {number}: complete, and not run again");
            continue;
        }
        let shard = &plan.shards[number];
        let result = run_one(&plan, shard).with_context(|| format!("shard {number}"))?;
        let settings = &plan.cluster(shard)?.settings;
        let name = |at: usize| settings.get(at).map(ToString::to_string).unwrap_or_default();
        let file = result.write(&plan.part(shard)?, name)?;
        runtime.block_on(place.put_file(&Shard::file_name(number), file))?;
        eprintln!("shard {number}: done in {:.0} s", result.seconds);
    }
    Ok(())
}

/// Runs a shard.
fn run_one(plan: &Plan, shard: &Shard) -> anyhow::Result<ShardResult> {
    let started = Stopwatch::now();
    let Cluster { run, first, warm_up_seconds, settings, .. } = plan.cluster(shard)?;
    let mut run = run.clone();
    let at = |time: i64| {
        let offset = format!("{}s", time.saturating_sub(*first));
        offset.parse().map(Some).map_err(anyhow::Error::msg)
    };
    (run.from, run.until) = (at(shard.from)?, at(shard.until)?);
    let log = LogArgs::of(&run).warmed_up_for(*warm_up_seconds);
    let LoadedLog { settings: run, catalog, workload, window, .. } = log.replay(run, |_, _| ())?;
    let of_shard = shard.settings.iter().filter_map(|at| settings.get(*at));
    let candidates: Vec<Candidate> = of_shard.map(|setting| setting.candidate(&run)).collect();
    let replays = shard.replays.first..shard.replays.first.saturating_add(shard.replays.count);
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
    Ok(ShardResult { rows, seconds })
}
