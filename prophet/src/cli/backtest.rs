//! `prophet backtest`: scores forecasts on a job log, and the cost of decisions based on them.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::log::{
    LoadedLog, LogArgs, make_folder, progress_bar, set, stop_on_interrupt, write_into,
};
use super::output;
use super::output::OutputFormat;
use crate::backtest::{
    Backtest, NamedModel, default_forecasters, forecast_errors, paper_catalog, policies,
    write_report, write_table,
};
use crate::simulate::{NamedPolicy, Progress, SimulationSettings, compare};
use crate::span::Span;
use crate::trace::Trace;

const EXAMPLES: &str = "\
Examples:
  prophet backtest                                        a synthetic log, all forecasters
  prophet backtest --trace jobs.csv.gz --from 14d         14 days warm up the forecasters, the rest is scored
  prophet backtest --trace log.swf --from 126d --until 140d --forecasters ensemble,state,onnx --seeds 5
  prophet backtest --trace log.swf --from 14d --no-decisions --tick 5m
  prophet backtest --trace philly.csv.gz --paper          the paper's table 4, in the paper's protocol; with its models:
    --named-model transformer=models/paper/transformer.onnx --named-model lstm=models/paper/lstm.onnx
  prophet backtest --trace jobs.csv.gz --from 14d --named-model one=1.onnx --named-model two=2.onnx
                                                          two trained models, side by side
  prophet backtest --trace jobs.csv.gz --from 14d --out report/ --output json

Scoring:
  Forecasters learn online at every tick, from the first job on. Errors are divided by the largest demand before
  --from, so some days of the log must precede it. At every tick from --from to --until, each forecaster forecasts
  demand 1, 2, 3 and 6 ticks ahead, and D: the new nodes needed until a node ordered now is ready. Demand is offered
  demand: each job counts from its submission, for as long as it runs. Every table has zero, last-value, static-max,
  moving-window and the oracle as references. constant:4 and ladder forecast only D.
  For D, the forecast of ensemble is the number of nodes that it holds. For demand ahead, it is the weighted average
  of its methods' forecasts; the weights depend on their squared errors.
  The decisions are those of `prophet simulate`, replayed --seeds times.

Forecasters: ensemble, scenario, scenario+arrivals, state, seasonal, increments, autopilot-ml, and the other
forecasters that `prophet simulate --help` lists. onnx is the shipped model or --model: its forecasts of demand ahead
are averaged with the last value, weighted by the accuracy of past forecasts. The forecasts of a model that --named-model
names are scored without this average. To score several seeds of a training, train a model with each and name each file.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The forecasters to score [default: those of the settings file, else all except onnx]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = forecaster)]
    forecasters: Vec<NamedPolicy>,
    /// Also score the forecasts of this model alone, under this name; may be repeated
    #[arg(long = "named-model", value_name = "NAME=FILE")]
    named_models: Vec<NamedModel>,
    /// The number of replays of the decisions with shifted submissions, for standard errors; models
    /// are not retrained [default: 1]
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Score only the forecasts, without decisions
    #[arg(long)]
    no_decisions: bool,
    /// Use the paper's protocol: 5-minute ticks, demand in units (GPUs, processors), the last week
    /// held out, no decisions
    #[arg(long, conflicts_with_all = ["instance_type", "catalog", "tick"])]
    paper: bool,
    /// Also write backtest.html and figures.json here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, default_value = "table")]
    output: OutputFormat,
}

fn forecaster(text: &str) -> Result<NamedPolicy, String> {
    let known = text.parse::<NamedPolicy>().ok();
    known
        .filter(|named_policy| matches!(named_policy, NamedPolicy::Forecast(_, None)))
        .ok_or_else(|| {
            format!("unknown forecaster {text:?}: expected a forecaster that `prophet simulate --help` lists, such as ensemble, state or onnx")
        })
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let stop = stop_on_interrupt()?;
    let mut forecasters = args.forecasters.clone();
    let settings = args.log.settings(|settings| {
        set(&mut settings.replays, args.seeds);
        if forecasters.is_empty() {
            forecasters = named(&settings.policies);
        }
        settings.policies = policies(&forecasters);
        if args.paper {
            settings.catalog = Some(paper_catalog());
            settings.tick = Span::seconds(300);
        }
    })?;
    for (at, NamedModel { name, file }) in args.named_models.iter().enumerate() {
        ensure!(
            args.named_models[..at].iter().all(|other| other.name != *name),
            "--named-model: the name {name} is given twice"
        );
        args.log.check_network(file).with_context(|| format!("--named-model {name}"))?;
    }
    let replay = args.log.replay(settings, |settings, trace| {
        if args.paper && settings.from.is_none() {
            settings.from = last_week(trace);
        }
    })?;
    make_folder(args.out.as_deref())?;
    let first = replay.trace.jobs.first().map_or(i64::MAX, |job| job.submit);
    ensure!(
        first < replay.window.0,
        "no job precedes --from, but errors are divided by the largest demand before it"
    );
    let backtest = score(&replay, &forecasters, args, &stop)?;
    let LoadedLog { settings, trace, catalog, .. } = &replay;
    if let Some(folder) = &args.out {
        write_report(&backtest, settings, trace, catalog, |name, write| {
            write_into(folder, name, write)
        })?;
        eprintln!("wrote {}", folder.join("backtest.html").display());
    }
    match args.output {
        OutputFormat::Table => output::print(&write_table(&backtest, settings, trace)),
        OutputFormat::Json => output::print_json(&backtest.document(settings, trace)),
    }
}

/// The forecasters among the policies of the settings; the default forecasters if the settings have
/// the default policies.
fn named(policies: &[NamedPolicy]) -> Vec<NamedPolicy> {
    if policies != SimulationSettings::default().policies {
        let forecasts = |c: &NamedPolicy| matches!(c, NamedPolicy::Forecast(..));
        return policies.iter().copied().filter(forecasts).collect();
    }
    default_forecasters()
}

/// The start of the last week of a log; the first submission if the log is shorter.
fn last_week(trace: &Trace) -> Option<crate::simulate::TimePoint> {
    let (first, last) = (trace.jobs.first()?.submit, trace.jobs.last()?.submit);
    format!("{}s", (last - first - 7 * 86_400).max(0)).parse().ok()
}

fn score(
    replay: &LoadedLog,
    forecasters: &[NamedPolicy],
    args: &Args,
    stop: &std::sync::atomic::AtomicBool,
) -> anyhow::Result<Backtest> {
    let LoadedLog { settings, catalog, workload, window, .. } = replay;
    let bar = progress_bar();
    let progress = Progress {
        planned: &|runs| bar.inc_length(runs as u64),
        done: &|name| {
            bar.set_message(name.to_string());
            bar.inc(1);
        },
        stop,
    };
    let interrupted = "interrupted; nothing was written";
    let named_forecasters = (forecasters, args.named_models.as_slice());
    let errors =
        forecast_errors(workload, catalog, settings, *window, named_forecasters, &progress);
    let errors = errors.context(interrupted)?;
    ensure!(
        errors.ticks > 0,
        "no tick is scored: no tick between --from and --until is followed by six ticks and a launch latency"
    );
    let decide = !args.no_decisions && !args.paper;
    let decisions = decide
        .then(|| compare(workload, catalog, settings, *window, args.out.is_some(), &progress))
        .transpose();
    bar.finish_and_clear();
    let networks = args.named_models.clone();
    Ok(Backtest { errors, decisions: decisions.context(interrupted)?, paper: args.paper, networks })
}
