//! `prophet simulate`: a job log through the decision, to a verdict.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use placeholders::Objective;

use super::output::{self, Format};
use crate::catalog::{CatalogFile, default_types, instance_type, instance_types};
use crate::forecast::onnx;
use crate::simulate::{
    Contender, GangMode, LaunchLatency, Moment, Progress, SchedulerKind, Settings, Workload, compare,
    write_report, write_table,
};
use crate::span::Span;
use crate::trace::{self, Recipe, Trace};

const EXAMPLES: &str = "\
Examples:
  prophet simulate                                        a synthetic log, all policies
  prophet simulate --trace jobs.csv.gz --from 8d          eight days warm up, the rest counts
  prophet simulate --trace log.swf --instance-type m5.4xlarge --policies reactive,constant:4,increments:0.98
  prophet simulate --trace log.swf --wait-cost 50 --idle-cost 1 --launch-latency lognormal:4m:9m
  prophet simulate --trace log.swf --replays 10 --jitter 30s --out report/

What each policy knows:
  reactive        nothing: the autoscaler alone
  static-max      the largest demand before --from, held from then on
  constant:N      nothing: N placeholders of each instance type at all times
  best-constant   hindsight: the smallest constant that lets jobs wait no longer than ensemble does
  ladder          present demand: a step function of nodes or cores
  paper           present demand: the paper's rule with the last value as forecast, which equals reactive
  ensemble[:S]    Prophet's default. The past: methods and quantiles are followed by what each would have cost;
                  with S, the cheapest that would have hidden the share S of launches
  scenario[:Q]    the past: the quantile Q of the new nodes that past windows of arrivals would need now;
                  scenario+arrivals[:Q] prefers windows before which as much arrived as just now
  state[:Q]       the past: the quantile Q of what was needed where free room, arrivals and time were alike
  seasonal[:Q]    the past: the quantile Q of what was needed at this time of day
  increments[:Q]  the past: the quantile Q of the new nodes that past windows needed
  holt-winters[:Q], arima[:Q], mstl[:Q]
                  the past: the quantile Q of the rise of demand that exponential smoothing, ARIMA(7,1,7), or
                  season and trend taken apart expect, with their past errors
  moving-window   the past: Autopilot's percentile of demand, with a margin, less present demand
  autopilot-ml    the past: the limit of the model of demand that would have cost least
  onnx[:Q]        the past: the quantile Q that a trained network expects, the one that is shipped or --model
  oracle          the future: the largest demand until a node ordered now is ready; a reference, not a bound
A quantile Q that is given is calibrated on the past: what is held is too little as often as Q says.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The job log: Philly CSV, SWF, openb, Borg 2019 or our own table, .gz or not; a synthetic one when absent
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Pass over bad lines of the log, and say how many there were
    #[arg(long)]
    lenient: bool,
    /// Jobs count from here on: a date, a date-time, or an offset from the first job (8d); what precedes warms up [default: the first job]
    #[arg(long, value_name = "T")]
    from: Option<Moment>,
    /// Jobs count until here [default: the last job]
    #[arg(long, value_name = "T")]
    until: Option<Moment>,
    /// An AWS instance type from the built-in table; chosen to suit the log when absent
    #[arg(long, value_name = "TYPE", value_delimiter = ',', conflicts_with = "catalog",
          value_parser = PossibleValuesParser::new(instance_types()), hide_possible_values = true)]
    instance_type: Vec<String>,
    /// The instance types on offer, as YAML
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// The policies to compare [default: reactive,static-max,constant:4,best-constant,ladder,paper,ensemble,oracle]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    policies: Vec<Contender>,
    /// The quantile of the new nodes needed to hold, of ensemble the share of launches to hide; instead of costs
    #[arg(long, value_name = "Q", value_parser = quantile)]
    quantile: Option<f64>,
    /// Dollars per pending pod-hour [default: 9]
    #[arg(long, value_name = "D", value_parser = price, requires = "idle_cost", conflicts_with = "quantile")]
    wait_cost: Option<f64>,
    /// Dollars per idle instance-hour [default: 1]
    #[arg(long, value_name = "D", value_parser = price, requires = "wait_cost")]
    idle_cost: Option<f64>,
    /// The network of the policy onnx [default: the one that is shipped]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The library of ONNX Runtime to run it with [default: the embedded engine]
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
    /// Time between decisions where demand does not change [default: 1m]
    #[arg(long, value_name = "TIME")]
    tick: Option<Span>,
    /// From the request of a node to its readiness: 5m, or lognormal:MEDIAN:P95 [default: 5m]
    #[arg(long, value_name = "TIME")]
    launch_latency: Option<LaunchLatency>,
    /// The share of launches that fail [default: 0]
    #[arg(long, value_name = "SHARE")]
    launch_failure_share: Option<f64>,
    /// How the scheduler chooses nodes [default: pack]
    #[arg(long)]
    scheduler: Option<SchedulerKind>,
    /// How pods of one job are placed [default: whole]
    #[arg(long)]
    gang: Option<GangMode>,
    /// How long after a scale-up no node is removed [default: 10m]
    #[arg(long, value_name = "TIME")]
    scale_down_delay_after_add: Option<Span>,
    /// Repeat the run with moved submissions; prints means and standard errors [default: 1]
    #[arg(long, value_name = "N")]
    replays: Option<u32>,
    /// How far submissions are moved where there is more than one replay [default: 30s]
    #[arg(long, value_name = "TIME")]
    jitter: Option<Span>,
    /// All options, as YAML or JSON: what `--output json` prints as `settings` repeats a run
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// What all randomness derives from [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Also write jobs.csv, nodes.csv, ticks.csv, settings.json, figures.json and report.html here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, default_value = "table")]
    output: Format,
}

fn quantile(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    parsed.filter(|q| *q > 0.0 && *q < 1.0).ok_or_else(|| "expected a number between 0 and 1".into())
}

fn price(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    parsed.filter(|d| *d > 0.0 && d.is_finite()).ok_or_else(|| "expected a price above 0".into())
}

/// The days of the synthetic log that warm up, of the three weeks that it has.
const SYNTHETIC_FROM: &str = "14d";

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let stop = stop_on_interrupt()?;
    let (out, format) = (args.out.clone(), args.output);
    let library = args.onnx_runtime.clone();
    let mut settings = effective(args)?;
    check_network(&settings, library.as_deref())?;
    let trace = load(&mut settings)?;
    let catalog = {
        let entries = || CatalogFile { instance_types: default_types(&trace.jobs) };
        settings.catalog.get_or_insert_with(entries).catalog().context("the catalog makes no sense")?
    };
    settings.check_names(&catalog).context("the settings make no sense")?;
    let workload = Workload::new(&trace.jobs, &catalog);
    for unplaceable in &workload.unplaceable {
        let crate::simulate::Unplaceable { first, jobs, reason } = unplaceable;
        eprintln!(
            "note: {jobs} jobs fit on no instance type and are left out ({reason}; the first is job {first})"
        );
    }
    let window = window(&settings, &trace)?;
    if workload.jobs_within(window) == 0 {
        bail!("no job counts: none that fits an instance type is submitted between --from and --until");
    }
    if let Some(folder) = &out {
        let failed = || format!("failed to write into {}", folder.display());
        std::fs::create_dir_all(folder).with_context(failed)?;
        // Better now than after the runs.
        tempfile::tempfile_in(folder).with_context(failed)?;
    }
    let bar = progress_bar();
    let progress = Progress {
        planned: &|runs| bar.inc_length(runs as u64),
        done: &|name| {
            bar.set_message(name.to_string());
            bar.inc(1);
        },
        stop: &stop,
    };
    let comparison = compare(&workload, &catalog, &settings, window, out.is_some(), &progress);
    bar.finish_and_clear();
    let comparison = comparison.context("interrupted; nothing was written")?;
    if let Some(folder) = out {
        let write = |name: &str, write: &mut dyn FnMut(&mut dyn std::io::Write) -> std::io::Result<()>| {
            let path = folder.join(name);
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            output::write_whole(&path, |to| write(to))
        };
        write_report(&comparison, &settings, &trace, &catalog, write)?;
        eprintln!("wrote {}", folder.join("report.html").display());
    }
    match format {
        Format::Table => output::print(&write_table(&comparison, &settings, &trace)),
        Format::Json => output::print_json(&comparison.document(&settings, &trace)),
    }
}

/// The options of the settings file, overridden by what was typed.
fn effective(args: Args) -> anyhow::Result<Settings> {
    let mut settings = match &args.settings {
        None => Settings::default(),
        Some(path) => {
            Settings::parse(&output::read_text(path)?).with_context(|| path.display().to_string())?
        }
    };
    if let Some(trace) = args.trace {
        settings.trace = Some(trace.display().to_string());
    }
    if let Some(path) = &args.catalog {
        let file =
            CatalogFile::parse(&output::read_text(path)?).with_context(|| path.display().to_string())?;
        file.catalog().with_context(|| path.display().to_string())?;
        settings.catalog = Some(file);
    } else if !args.instance_type.is_empty() {
        let types = args.instance_type.iter().filter_map(|name| instance_type(name)).collect();
        settings.catalog = Some(CatalogFile { instance_types: types });
    }
    if let (Some(wait), Some(idle)) = (args.wait_cost, args.idle_cost) {
        settings.policy.objective = Objective::Costs { wait, idle };
    }
    if let Some(q) = args.quantile {
        settings.policy.objective = Objective::Quantile(q);
    }
    if !args.policies.is_empty() {
        settings.policies = args.policies;
    }
    if let Some(path) = args.model {
        settings.model = Some(path.display().to_string());
    }
    settings.lenient |= args.lenient;
    settings.from = args.from.or(settings.from);
    settings.until = args.until.or(settings.until);
    set(&mut settings.tick, args.tick);
    set(&mut settings.launch_latency, args.launch_latency);
    set(&mut settings.launch_failure_share, args.launch_failure_share);
    set(&mut settings.scheduler, args.scheduler);
    set(&mut settings.gang, args.gang);
    set(&mut settings.scale_down_delay_after_add, args.scale_down_delay_after_add);
    set(&mut settings.replays, args.replays);
    set(&mut settings.jitter, args.jitter);
    set(&mut settings.seed, args.seed);
    let named = args
        .settings
        .as_deref()
        .map_or("the options make no sense".into(), |path| path.display().to_string());
    settings.check().context(named)?;
    Ok(settings)
}

/// Starts the engine and loads the network, where a policy asks for one: better now than in the middle of the runs.
fn check_network(settings: &Settings, library: Option<&Path>) -> anyhow::Result<()> {
    if !settings.policies.iter().any(|policy| matches!(policy, Contender::Onnx(_))) {
        return Ok(());
    }
    let engine = onnx::start(library)?;
    let source =
        settings.model.as_ref().map_or(onnx::Source::Pretrained, |path| onnx::Source::File(path.into()));
    if let Err(faults) = source.load() {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        bail!("the network of the policy onnx cannot be run by {engine}: {}", faults.join("; "));
    }
    Ok(())
}

fn set<T>(field: &mut T, typed: Option<T>) {
    if let Some(value) = typed {
        *field = value;
    }
}

fn load(settings: &mut Settings) -> anyhow::Result<Trace> {
    let Some(path) = &settings.trace else {
        let recipe = Recipe { seed: settings.seed, ..Recipe::default() };
        settings.from.get_or_insert(SYNTHETIC_FROM.parse().map_err(anyhow::Error::msg)?);
        eprintln!("note: no --trace was given: this is a synthetic log of {} days", recipe.days);
        return Ok(recipe.trace());
    };
    let trace = trace::read(Path::new(path), settings.lenient)?;
    if trace.notes != trace::Notes::default() {
        eprintln!("note: {path}: {}", trace.notes);
    }
    Ok(trace)
}

/// The seconds in which jobs and hours count.
fn window(settings: &Settings, trace: &Trace) -> anyhow::Result<(i64, i64)> {
    let (first, last) = match (trace.jobs.first(), trace.jobs.last()) {
        (Some(first), Some(last)) => (first.submit, last.submit),
        _ => bail!("{}: no job in it", trace.source),
    };
    let from = settings.from.as_ref().map_or(first, |from| from.seconds(first));
    let until = settings.until.as_ref().map_or(last + 1, |until| until.seconds(first));
    if from > last {
        let after = Span::try_from(format!("{}s", from - last)).unwrap_or_default();
        bail!("no job counts: --from is {after} after the last job");
    }
    if until <= from {
        bail!("no job counts: --until is not after --from");
    }
    super::check_ticks(&trace.source, (first.min(from), until.max(last)), settings.tick)?;
    if from <= first {
        eprintln!(
            "note: no job precedes those that count: policies that learn start with nothing learnt, static-max holds nothing"
        );
    }
    Ok((from, until))
}

/// The first Ctrl-C ends the runs, the second the program.
fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let stop_or_exit = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(1);
        }
    };
    ctrlc::set_handler(stop_or_exit).context("failed to watch for Ctrl-C")?;
    Ok(stop)
}

/// A bar on a terminal, nothing in a pipe.
fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed} {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
