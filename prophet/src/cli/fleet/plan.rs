//! `prophet fleet plan`: reads job logs and histories, and writes the shards of their replays.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use base::days::DAY_SECONDS;
use base::span::Span;
use clap::value_parser;
use fleet::{Cluster, Plan, Shares};
use history::Place;
use simulator::{REPLAYS_MAX, SimulationSettings};

use super::place::{PLAN, PlaceArgs};
use crate::cli::advise::Compared;
use crate::cli::log::{LoadedLog, LogArgs, set, warm_up};
use crate::cli::{runtime, wrong_usage};

const EXAMPLES: &str = "\
Examples:
  prophet fleet plan berlin.csv.gz tokyo=jobs.swf --results results/
  prophet fleet plan s3://logs/prophet --results s3://logs/fleet   the histories of all clusters in it
  prophet fleet plan a.csv b.csv --windows 7d --replays 10 --replays-per-shard 5 --results results/
  prophet fleet plan a.csv --policies ensemble,constant:2,burst:10m:4 --results results/

A source is a job log, or the place of histories that prophet run recorded: a folder, or s3://BUCKET/PREFIX, with policy=NAME
folders in it, or with cluster=NAME folders that have them. A shard has some settings and replays of one window of a cluster.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// The job logs and places of histories, each as SOURCE or as NAME=SOURCE
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    compared: Compared,
    /// The length of the windows into which the evaluated time is cut, in whole days, such as 7d
    /// [default: one window]
    #[arg(long, value_name = "TIME", value_parser = whole_days)]
    windows: Option<Span>,
    /// How long before a window the log is replayed, so that the forecasts learn
    #[arg(long, value_name = "TIME", default_value = "60d")]
    warm_up: Span,
    /// The number of runs with shifted submissions, of which the means count [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=REPLAYS_MAX.into()))]
    replays: Option<u32>,
    /// The most settings of a shard [default: all]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    settings_per_shard: Option<u32>,
    /// The most replays of a shard [default: all]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    replays_per_shard: Option<u32>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Replace another plan in the place; its results must be removed first
    #[arg(long)]
    force: bool,
}

fn whole_days(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    let seconds = span.as_seconds();
    if seconds > 0 && seconds % DAY_SECONDS == 0 {
        Ok(span)
    } else {
        Err("expected whole days, such as 7d, because days are compared".into())
    }
}

/// A log or a history.
struct Source {
    name: String,
    run: SimulationSettings,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.log.trace().is_some() || args.log.data.is_some() {
        return Err(wrong_usage::conflict(
            "logs and histories are sources: leave out --trace and --data; the columns of logs are an option of --settings",
        ));
    }
    let common = args.log.settings(|settings| set(&mut settings.replays, args.replays))?;
    let mut sources = Vec::new();
    for source in &args.sources {
        sources.extend(read(source, &common).with_context(|| source.clone())?);
    }
    let (mut clusters, mut windows) = (Vec::new(), Vec::new());
    for Source { name, run } in sources {
        eprintln!("{name}:");
        let log = args.log.of_source(&run);
        let run = if run.data.is_some() { log.settings_over(run)? } else { run };
        let LoadedLog { settings: run, window, .. } =
            log.replay(run, warm_up).with_context(|| name.clone())?;
        clusters.push(Cluster {
            name,
            settings: args.compared.settings(&run)?,
            warm_up_seconds: args.warm_up.as_seconds(),
            run,
        });
        windows.push(window);
    }
    let most = |given: Option<u32>| given.unwrap_or(u32::MAX);
    let shares = Shares {
        window: args.windows.map(Span::as_seconds),
        settings: usize::try_from(most(args.settings_per_shard)).unwrap_or(usize::MAX),
        replays: most(args.replays_per_shard),
    };
    let plan = Plan::new(clusters, &windows, shares)?;
    write(args, &plan)?;
    eprintln!(
        "wrote {}: {} shards of {} clusters, numbered from 0",
        args.place.file(PLAN),
        plan.shards.len(),
        plan.clusters.len()
    );
    Ok(())
}

/// Writes the plan, unless the place has another one.
fn write(args: &Args, plan: &Plan) -> anyhow::Result<()> {
    let (runtime, place) = (runtime::of_this_thread()?, Place::open(&args.place.results)?);
    let known = if args.force { None } else { runtime.block_on(args.place.plan_in(&place))? };
    ensure!(
        known.is_none_or(|known| known == *plan),
        "{}: there is another plan: name another place, or replace it with --force",
        args.place.file(PLAN)
    );
    let text = serde_json::to_string_pretty(plan)? + "\n";
    runtime.block_on(place.put_file(PLAN, text.into()))?;
    Ok(())
}

/// The logs and histories of a source: `SOURCE` or `NAME=SOURCE`.
fn read(text: &str, common: &SimulationSettings) -> anyhow::Result<Vec<Source>> {
    let is_name = |name: &str| !name.is_empty() && !name.contains('/') && !Path::new(text).exists();
    let named = text.split_once('=').filter(|(name, _)| is_name(name));
    let (name, source) = named.map_or((None, text), |(name, source)| (Some(name), source));
    if !source.contains("://") && !Path::new(source).is_dir() {
        let stem = || {
            let file = Path::new(source).file_name().and_then(|name| name.to_str());
            file.and_then(|name| name.split('.').next()).unwrap_or(source).to_owned()
        };
        let run = SimulationSettings {
            trace: Some(source.into()),
            data: None,
            data_policy: None,
            ..common.clone()
        };
        return Ok(vec![Source { name: name.map_or_else(stem, str::to_owned), run }]);
    }
    let history = |place: &str, cluster: Option<&str>| {
        let policies = policies(place)?;
        let (many, named) = (policies.len() > 1, name.or(cluster).is_some());
        let of = |policy: String| {
            let last = Some(&*policy).filter(|_| many || !named);
            let parts: Vec<&str> = [name, cluster, last].into_iter().flatten().collect();
            let name = parts.join("/");
            let run = SimulationSettings {
                trace: None,
                data: Some(place.into()),
                data_policy: Some(policy),
                ..common.clone()
            };
            Source { name, run }
        };
        anyhow::Ok(policies.into_iter().map(of).collect::<Vec<Source>>())
    };
    let clusters = clusters(source)?;
    if clusters.is_empty() {
        let found = history(source, None)?;
        if found.is_empty() {
            bail!("there is no history: no folder policy=NAME or cluster=NAME");
        }
        return Ok(found);
    }
    let mut found = Vec::new();
    for cluster in clusters {
        let place = format!("{}/cluster={cluster}", source.trim_end_matches('/'));
        found.extend(history(&place, Some(&cluster))?);
    }
    Ok(found)
}

fn policies(place: &str) -> anyhow::Result<Vec<String>> {
    Ok(runtime::of_this_thread()?.block_on(Place::existing(place)?.policies())?)
}

fn clusters(place: &str) -> anyhow::Result<Vec<String>> {
    Ok(runtime::of_this_thread()?.block_on(Place::existing(place)?.clusters())?)
}
