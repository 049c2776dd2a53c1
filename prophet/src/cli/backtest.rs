//! `prophet backtest`: how far off are forecasts, and what would decisions by them have cost?

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::output::{self, Format};
use super::replay::{LogArgs, Replay, make_folder, progress_bar, set, stop_on_interrupt, write_into};
use crate::backtest::{
    Backtest, NamedNetwork, default_forecasters, forecast_errors, paper_catalog, policies, write_report,
    write_table,
};
use crate::simulate::{Contender, Progress, Settings, compare};
use crate::span::Span;
use crate::trace::Trace;

const EXAMPLES: &str = "\
Examples:
  prophet backtest                                        a synthetic log, all methods
  prophet backtest --trace jobs.csv.gz --from 14d         fourteen days warm up, the rest is judged
  prophet backtest --trace log.swf --from 126d --until 140d --forecasters ensemble,state,onnx --seeds 5
  prophet backtest --trace log.swf --from 14d --no-decisions --tick 5m
  prophet backtest --trace philly.csv.gz --paper          the paper's table 4 in its own protocol; its networks:
    --network transformer=models/paper/transformer.onnx --network lstm=models/paper/lstm.onnx
  prophet backtest --trace jobs.csv.gz --from 14d --network one=1.onnx --network two=2.onnx
                                                          two trainings, side by side
  prophet backtest --trace jobs.csv.gz --from 14d --out report/ --output json

What is judged:
  Forecasters learn online from the first job on, at every tick; --from must leave some days before it, for errors are
  measured by the largest demand until then. From --from to --until each is asked for demand 1, 2,
  3 and 6 ticks ahead, and for D, the new nodes needed until a node ordered now is ready. Demand is as offered: each job
  from its submission, for as long as it runs. zero, last-value, static-max, moving-window and the oracle stand in every
  table; constant:4 and ladder say nothing of demand, only of D.
  ensemble: for D, what it holds; for demand ahead, a mean of the methods' by weights that follow their squared errors.
  Decisions are those of `prophet simulate`, replayed --seeds times.

Forecasters: ensemble, scenario, scenario+arrivals, state, seasonal, increments, autopilot-ml and what else
`prophet simulate --help` lists of them; onnx is the network that is shipped, or --model; its word on demand ahead is
mixed with the last value, as far as past ones came true. One that is named by --network is judged by its own word: to judge
seeds of a training, train it with each and name each file.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The methods to judge [default: those of the settings, else all but onnx]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = forecaster)]
    forecasters: Vec<Contender>,
    /// Judge a network by itself, too, under a name of its own: forecasts alone; may be repeated
    #[arg(long = "network", value_name = "NAME=FILE")]
    networks: Vec<NamedNetwork>,
    /// Replays of the decisions with moved submissions, for standard errors; no network is trained anew [default: 1]
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// Judge forecasts alone
    #[arg(long)]
    no_decisions: bool,
    /// The paper's protocol: 5-minute ticks, demand in units (GPUs, processors), the last week held out, no decisions
    #[arg(long, conflicts_with_all = ["instance_type", "catalog", "tick"])]
    paper: bool,
    /// Also write backtest.html and figures.json here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, default_value = "table")]
    output: Format,
}

fn forecaster(text: &str) -> Result<Contender, String> {
    let known = text.parse::<Contender>().ok();
    known
        .filter(|contender| matches!(contender, Contender::Forecast(_, None)))
        .ok_or_else(|| {
            format!("unknown forecaster {text:?}: expected a method that `prophet simulate` knows, such as ensemble, state or onnx")
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
    for (at, NamedNetwork { name, file }) in args.networks.iter().enumerate() {
        ensure!(
            args.networks[..at].iter().all(|other| other.name != *name),
            "--network: two are named {name}"
        );
        args.log.check_network(name, file)?;
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
        "no job precedes --from: errors are measured by the largest demand before it"
    );
    let backtest = judge(&replay, &forecasters, args, &stop)?;
    let Replay { settings, trace, catalog, .. } = &replay;
    if let Some(folder) = &args.out {
        write_report(&backtest, settings, trace, catalog, |name, write| write_into(folder, name, write))?;
        eprintln!("wrote {}", folder.join("backtest.html").display());
    }
    match args.output {
        Format::Table => output::print(&write_table(&backtest, settings, trace)),
        Format::Json => output::print_json(&backtest.document(settings, trace)),
    }
}

/// The forecasters of settings that name others than the default policies; else all.
fn named(policies: &[Contender]) -> Vec<Contender> {
    if policies != Settings::default().policies {
        let forecasts = |c: &Contender| matches!(c, Contender::Forecast(..));
        return policies.iter().copied().filter(forecasts).collect();
    }
    default_forecasters()
}

/// When the last week of a log begins.
fn last_week(trace: &Trace) -> Option<crate::simulate::Moment> {
    let (first, last) = (trace.jobs.first()?.submit, trace.jobs.last()?.submit);
    format!("{}s", (last - first - 7 * 86_400).max(0)).parse().ok()
}

fn judge(
    replay: &Replay,
    forecasters: &[Contender],
    args: &Args,
    stop: &std::sync::atomic::AtomicBool,
) -> anyhow::Result<Backtest> {
    let Replay { settings, catalog, workload, window, .. } = replay;
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
    let entrants = (forecasters, args.networks.as_slice());
    let errors = forecast_errors(workload, catalog, settings, *window, entrants, &progress);
    let errors = errors.context(interrupted)?;
    ensure!(
        errors.ticks > 0,
        "no tick is judged: between --from and --until there is none that is followed by six ticks and a launch"
    );
    let decide = !args.no_decisions && !args.paper;
    let decisions = decide
        .then(|| compare(workload, catalog, settings, *window, args.out.is_some(), &progress))
        .transpose();
    bar.finish_and_clear();
    let networks = args.networks.clone();
    Ok(Backtest { errors, decisions: decisions.context(interrupted)?, paper: args.paper, networks })
}
