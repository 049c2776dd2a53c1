//! `prophet backtest`: scores forecasts on a job log, and the cost of decisions based on them.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use backtest::{
    Backtest, Lineup, NamedModel, Protocol, default_forecasters, forecast_errors, paper_catalog,
    paper_forecasters, policies, write_report, write_table,
};
use base::span::Span;
use clap::value_parser;
use simulator::{NamedPolicy, REPLAYS_MAX, SimulationSettings, compare};
use traces::Trace;

use super::log::{LoadedLog, LogArgs, covered, set, warm_up};
use super::output::{OutputFormat, Overwrite};
use super::{output, progress, wrong_usage};

const EXAMPLES: &str = "\
Examples:
  prophet backtest                                        an example log, all forecasters
  prophet backtest --trace jobs.csv.gz --from 14d         14 days warm up the forecasters, the rest is scored
  prophet backtest --trace log.swf --from 126d --until 140d --forecasters ensemble,state,onnx --seeds 5
  prophet backtest --trace log.swf --from 14d --no-decisions --tick 5m
  prophet backtest --trace philly.csv.gz --paper          the paper's table 4, in the paper's protocol
  prophet backtest --trace batch_task.csv.gz --paper --instance-type m5.24xlarge --from 12h
                                                          the same on a day of Fuxi, whose last hours are held out
  prophet backtest --trace jobs.csv.gz --from 14d --named-model one=1.onnx --named-model two=2.onnx
                                                          two trained models, side by side
  prophet backtest --trace jobs.csv.gz --from 14d --out report/ --output json

Scoring:
  Forecasters learn online at every tick, from the first job on. Errors are divided by the largest demand before
  --from, so some days of the log must precede it. At every tick from --from to --until, each forecaster forecasts
  demand 1, 2, 3 and 6 ticks ahead, and D: the new nodes needed until a node ordered now is ready. Demand is offered
  demand: each job counts from its submission, for as long as it runs. Every table has the references zero,
  last-value, static-max, moving-window and oracle; the table of D also has constant:4 and ladder.
  For D, the forecast of ensemble is the number of nodes that it holds. For demand ahead, the row is named blend: the
  weighted average of methods' forecasts, with weights by their squared errors. No decision uses it.
  The decisions are those of `prophet simulate`, replayed --seeds times, under these policies: reactive, static-max,
  constant:4, best-constant, ladder, moving-window, the forecasters, and oracle.

Forecasters; all of them are scored unless --forecasters or the policies of --settings select some:
  ensemble, scenario, scenario+arrivals, state, seasonal, increments, holt-winters, arima, onnx, autopilot-ml
`prophet simulate --help` describes them. onnx is the shipped model or --model: its forecasts of demand ahead are
averaged with the last value, weighted by the accuracy of past forecasts. The forecasts of a model that --named-model
names are scored without this average. To score several seeds of a training, train a model with each and name each file.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The forecasters to score [default: those among the policies of the settings file, else all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = forecaster)]
    forecasters: Vec<NamedPolicy>,
    /// Also score the forecasts of this model alone, under this name; may be repeated
    #[arg(long = "named-model", value_name = "NAME=FILE")]
    named_models: Vec<NamedModel>,
    /// The number of replays of the decisions with shifted submissions, for standard errors; models
    /// are not retrained [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=REPLAYS_MAX.into()))]
    seeds: Option<u32>,
    /// Score only the forecasts, without decisions
    #[arg(long)]
    no_decisions: bool,
    /// Use the paper's protocol: 5-minute ticks, demand by Algorithm 2 in units (GPUs, processors)
    /// unless instance types are given, the paper's networks and SES, the last week held out, no
    /// decisions
    #[arg(long, conflicts_with = "tick")]
    paper: bool,
    /// Also write backtest.html and figures.json here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
    /// Print all columns of the tables, not only those that fit 100 characters
    #[arg(long)]
    wide: bool,
}

fn forecaster(text: &str) -> Result<NamedPolicy, String> {
    let known = text.parse::<NamedPolicy>().ok();
    let is_method = |of: &NamedPolicy| {
        matches!(of, NamedPolicy::Forecast(_, None) | NamedPolicy::Baseline(_, None))
    };
    known
        .filter(is_method)
        .ok_or_else(|| {
            format!("unknown forecaster {text:?}: expected a forecaster that `prophet simulate --help` lists, such as ensemble, state or onnx")
        })
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut forecasters = args.forecasters.clone();
    let settings = args.log.settings(|settings| {
        set(&mut settings.replays, args.seeds);
        if forecasters.is_empty() {
            forecasters = if args.paper { paper_forecasters() } else { named(&settings.policies) };
        }
        settings.policies = policies(&forecasters);
        if args.paper {
            settings.tick = Span::seconds(300);
        }
    })?;
    for (at, NamedModel { name, file }) in args.named_models.iter().enumerate() {
        if args.named_models[..at].iter().any(|other| other.name == *name) {
            return Err(wrong_usage::conflict(format!(
                "--named-model: the name {name} is given twice"
            )));
        }
        args.log.check_network(file).with_context(|| format!("--named-model {name}"))?;
    }
    let staged = output::stage(args.out.as_deref(), "backtest.html", &args.overwrite)?;
    let replay = args.log.replay(settings, |settings, trace| {
        if args.paper {
            settings.catalog.get_or_insert_with(paper_catalog);
            if settings.from.is_none() {
                settings.from = last_week(trace);
            }
        }
        warm_up(settings, trace);
    })?;
    let first = replay.trace.jobs.first().map_or(i64::MAX, |job| job.submit);
    ensure!(
        first < replay.window.0,
        "no job precedes --from, but errors are divided by the largest demand before it: give a later --from, such as --from 14d; {}",
        covered(&replay.trace)
    );
    let backtest = score(&replay, &forecasters, args)?;
    let LoadedLog { settings, trace, catalog, .. } = &replay;
    if let Some(staged) = staged {
        write_report(&backtest, settings, trace, catalog, |name, write| {
            staged.write(name, |to| write(to))
        })?;
        eprintln!("wrote {}", staged.finish()?.join("backtest.html").display());
    }
    match args.output {
        OutputFormat::Table => {
            output::print(&write_table(&backtest, settings, trace, catalog, args.wide))
        }
        OutputFormat::Json | OutputFormat::Yaml => {
            output::print_document(args.output, &backtest.document(settings, trace, catalog))
        }
    }
}

/// The forecasters among the policies of the settings; the default forecasters if the settings have
/// the default policies.
fn named(policies: &[NamedPolicy]) -> Vec<NamedPolicy> {
    if policies != SimulationSettings::default().policies {
        let forecasts =
            |of: &NamedPolicy| matches!(of, NamedPolicy::Forecast(..) | NamedPolicy::Baseline(..));
        return policies.iter().copied().filter(forecasts).collect();
    }
    default_forecasters()
}

/// The start of the last week of a log; the first submission if the log is shorter.
fn last_week(trace: &Trace) -> Option<simulator::TimePoint> {
    let (first, last) = (trace.jobs.first()?.submit, trace.jobs.last()?.submit);
    format!("{}s", (last - first - 7 * 86_400).max(0)).parse().ok()
}

fn score(replay: &LoadedLog, forecasters: &[NamedPolicy], args: &Args) -> anyhow::Result<Backtest> {
    let LoadedLog { settings, trace, catalog, workload, window } = replay;
    let protocol = args.paper.then(|| Protocol::of(trace));
    let lineup = Lineup { forecasters, networks: &args.named_models, paper: protocol };
    let errors = progress::of_runs(|progress| {
        forecast_errors(workload, catalog, settings, *window, lineup, progress)
    });
    ensure!(
        errors.ticks > 0,
        "no tick is scored: no tick between --from and --until is followed by six ticks and a launch latency; {}",
        covered(trace)
    );
    let (decide, keep) = (!args.no_decisions && !args.paper, args.out.is_some());
    let decisions = decide.then(|| {
        progress::of_runs(|progress| compare(workload, catalog, settings, *window, keep, progress))
    });
    let networks = args.named_models.clone();
    Ok(Backtest { errors, decisions, paper: protocol, networks })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paragraph of `--help` that lists what a run without `--forecasters` scores.
    #[test]
    fn the_help_lists_the_default_forecasters() {
        let (_, listed) = EXAMPLES.split_once("select some:\n").unwrap();
        let names: Vec<String> = default_forecasters().iter().map(ToString::to_string).collect();
        assert_eq!(listed.lines().next().unwrap().trim(), names.join(", "));
    }

    #[test]
    fn the_help_lists_the_policies_of_the_decisions() {
        let (_, listed) = EXAMPLES.split_once("under these policies: ").unwrap();
        let (listed, _) = listed.split_once(".\n\n").unwrap();
        let words: Vec<&str> = listed.split([',', ' ', '\n']).filter(|w| !w.is_empty()).collect();
        let names: Vec<String> = policies(&[]).iter().map(ToString::to_string).collect();
        for name in names {
            assert!(words.contains(&name.as_str()), "{name}: {words:?}");
        }
    }
}
