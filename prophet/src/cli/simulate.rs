//! `prophet simulate`: a job log through the decision, to a verdict.

use std::path::PathBuf;

use anyhow::Context as _;

use super::output::{self, Format};
use super::replay::{LogArgs, Replay, make_folder, progress_bar, set, stop_on_interrupt, write_into};
use crate::simulate::{Contender, GangMode, Progress, SchedulerKind, compare, write_report, write_table};
use crate::span::Span;

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
                  with S, the leanest that hides the share S of launches
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
  rates:Q         the future: the quantile Q of what the arrivals around each moment would need, but for those within
                  the lead; what rates can tell, as a reference
  oracle          the future: the largest demand until a node ordered now is ready; a reference, not a bound
Of methods, a quantile Q that is given is calibrated on the past: what is held is too little as often as Q says.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The policies to compare [default: reactive,static-max,constant:4,best-constant,ladder,paper,ensemble,oracle]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    policies: Vec<Contender>,
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
    /// Also write jobs.csv, nodes.csv, ticks.csv, settings.json, figures.json, frontier.svg and report.html here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, default_value = "table")]
    output: Format,
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let stop = stop_on_interrupt()?;
    let settings = args.log.settings(|settings| {
        if !args.policies.is_empty() {
            settings.policies = args.policies;
        }
        set(&mut settings.launch_failure_share, args.launch_failure_share);
        set(&mut settings.scheduler, args.scheduler);
        set(&mut settings.gang, args.gang);
        set(&mut settings.scale_down_delay_after_add, args.scale_down_delay_after_add);
        set(&mut settings.replays, args.replays);
        set(&mut settings.jitter, args.jitter);
    })?;
    let Replay { settings, trace, catalog, workload, window } = args.log.replay(settings, |_, _| ())?;
    make_folder(args.out.as_deref())?;
    let bar = progress_bar();
    let progress = Progress {
        planned: &|runs| bar.inc_length(runs as u64),
        done: &|name| {
            bar.set_message(name.to_string());
            bar.inc(1);
        },
        stop: &stop,
    };
    let comparison = compare(&workload, &catalog, &settings, window, args.out.is_some(), &progress);
    bar.finish_and_clear();
    let comparison = comparison.context("interrupted; nothing was written")?;
    if let Some(folder) = args.out {
        write_report(&comparison, &settings, &trace, &catalog, |name, write| {
            write_into(&folder, name, write)
        })?;
        eprintln!("wrote {}", folder.join("report.html").display());
    }
    match args.output {
        Format::Table => output::print(&write_table(&comparison, &settings, &trace)),
        Format::Json => output::print_json(&comparison.document(&settings, &trace)),
    }
}
