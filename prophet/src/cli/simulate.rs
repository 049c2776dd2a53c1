//! `prophet simulate`: replays a job log under several policies and compares them.

use std::path::PathBuf;

use base::span::Span;
use base::tier::Tier;
use clap::value_parser;
use demand::forecast::Expression;
use simulator::replay::SchedulerKind;
use simulator::{
    AnnouncedBy, FALSE_SHARE_MAX, GangHeadroom, GangMode, Interruptions, NamedPolicy, REPLAYS_MAX,
    SpotFor, compare, write_report, write_table,
};

use super::log::{LoadedLog, LogArgs, set, warm_up, warn_untrained};
use super::output::{OutputFormat, Overwrite};
use super::{input, output, progress, wrong_usage};

const EXAMPLES: &str = "\
Examples:
  prophet simulate                                        an example log, all policies
  prophet simulate --trace jobs.csv.gz --from 8d          8 days warm up the policies, the rest is evaluated
  prophet simulate --trace log.swf --instance-type m5.4xlarge --policies reactive,constant:4,increments:0.98
  prophet simulate --trace log.swf --wait-cost 50 --launch-latency lognormal:4m:9m
  prophet simulate --trace log.swf --replays 10 --jitter 30s --out report/
  prophet simulate --data /var/lib/prophet --from 7d      your own cluster, from the history that prophet run recorded
  prophet simulate --trace log.swf --from 2017-11-06 --until 2017-11-20 --wide
  prophet simulate --trace log.swf --catalog types.yaml --spot-for 0.5 --interruptions-per-hour 0.05
  prophet simulate --trace log.swf --policies warm-pool:8,ensemble,ensemble+warm-pool --warm-start 90s
                                                          stopped instances beside placeholders
  prophet simulate --trace log.swf --announced-share 50% --announced-ahead 5m --announced-false 20%
                                                          jobs that are announced, see prophet announce
  prophet simulate --trace jobs.csv.gz --policy-file policy.yaml
                                                          a policy of a cluster, as it is written
  prophet simulate --trace jobs.csv.gz --from 8d --expression 'max(forecast, newNodes(\"10m\") / 2)'
                                                          a rule of your own, beside the other policies
  prophet simulate --trace borg.json.gz --tier production=200:4 --tier batch=100:1 --tier free=0:0

Policies, and the information that each one uses:
  reactive        none: the autoscaler without placeholders
  static-max      the past: holds the largest demand before --from, from then on
  warm-pool:N     none: the autoscaler without placeholders, over Auto Scaling groups whose warm pools have N stopped
                  instances of each instance type
  ensemble+warm-pool[:N]
                  the past: ensemble for the time until a stopped instance has started, and warm pools of N, or of as many
                  as pay off, for the time until a new one is prepared
  constant:N      none: holds N placeholders of each instance type at all times
  constants:N/N   none: a number for each instance type, in the order of accelerators, CPU and memory
  by-hour:N       the past: N placeholders of each instance type on average, more in hours of the day with more new nodes
  burst:T[:N]     the past T, such as burst:10m:4: half of the nodes that were newly needed, at most N
  best-constant   hindsight: the smallest constant with which jobs wait no longer than with ensemble
  ladder          present demand: a step function of nodes or cores
  expression      what its expression reads: the present, the last day, and the forecast of ensemble
  paper[(F)]      the past; the paper's autoscaler: the counts of Algorithm 2 that F forecasts until a node is ready, minus
                  the present counts; F is transformer (the default), lstm, holt-winters, or last-value, with which the
                  policy equals reactive; the ladder until a day was recorded, and with instance types that the
                  network was not trained for: the shipped ones are for models/paper/unit.yaml
  ensemble[:S]    the past; Prophet's default: weights experts, each a method at a quantile or a rule, by the cost that
                  each would have had; with S, holds as little as it takes until the fraction S of pods waits at most one scan
  scenario[:Q]    the past: the quantile Q of the new nodes that past windows of arrivals would need now;
                  scenario+arrivals[:Q] prefers windows that followed similar arrivals
  state[:Q]       the past: the quantile Q of the new nodes needed at similar free room, arrivals and time
  seasonal[:Q]    the past: the quantile Q of the new nodes needed at this time of day
  increments[:Q]  the past: the quantile Q of the new nodes that past windows needed
  holt-winters[:Q], arima[:Q]
                  the past: the quantile Q of the rise of demand, from the past errors of exponential smoothing,
                  ARIMA(7,1,7), or a decomposition into seasons and trend
  moving-window   the past: Autopilot's percentile of demand plus a margin, minus present demand
  autopilot-ml    the past: the limit of the model of demand that would have cost least
  onnx[:Q]        the past: the quantile Q that a trained model forecasts; the shipped model or --model
  rates:Q         the future: the quantile Q of the nodes that the arrivals around each time would need, except those
                  within the lead time; a reference for the information in arrival rates
  jobs:active     the future: the jobs of the lead time of users who submitted a job within the last ten minutes, and
                  when each job ends; jobs:others those of all other users
  ends            the past, and which of the running jobs end within the lead time; otherwise like ensemble
  oracle          the future: the jobs of the lead time, and when each job ends
A quantile Q of a method is calibrated on the past: the fraction of past times at which the held nodes sufficed is Q.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The policies to compare [default:
    /// reactive,static-max,constant:4,best-constant,burst:10m:4,ladder,ensemble,oracle]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    policies: Vec<NamedPolicy>,
    /// The expression of the policy `expression`, in CEL: the number of placeholders of an instance
    /// type, such as `now.getHours() >= 8 ? max(forecast, 2) : forecast`, where forecast is the
    /// number of ensemble; the policy joins those of --policies; needs a build with --features full
    #[arg(long, value_name = "CEL", allow_hyphen_values = true)]
    expression: Option<Expression>,
    /// A policy of a cluster, an `OverprovisioningPolicy` as YAML: its objective, limits, behavior,
    /// tick, method and instance types replace those of the defaults and of --settings; compares it
    /// with the autoscaler alone unless --policies has others
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "FILE")]
    policy_file: Option<PathBuf>,
    /// The fraction of launches that fail [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = failure_share)]
    launch_failure_share: Option<f64>,
    /// The time from the start of a stopped instance of a warm pool until its node is ready, for
    /// the policies with a warm pool [default: 75s]
    #[arg(long, value_name = "TIME")]
    warm_start: Option<Span>,
    /// The price of a stopped instance of a warm pool, which is that of its disk, as a share of the
    /// price of a running one, such as 2% or 0.02 [default: 2%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    warm_share: Option<f64>,
    /// The most instances in the warm pools of ensemble+warm-pool, all together [default: no limit]
    #[arg(long, value_name = "N")]
    warm_max: Option<u64>,
    /// The share of jobs that are announced before they are submitted, such as 50% [default: 0%]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    announced_share: Option<f64>,
    /// How long before its submission a job is announced [default: 5m]
    #[arg(long, value_name = "TIME")]
    announced_ahead: Option<Span>,
    /// The share of announcements for which no job is submitted, up to 95% [default: 0%]
    #[arg(long, value_name = "SHARE", value_parser = false_share)]
    announced_false: Option<f64>,
    /// Which jobs are announced: any, all jobs of some users, or the largest ones [default: jobs]
    #[arg(long, value_name = "JOBS")]
    announced_by: Option<AnnouncedBy>,
    /// Whether policies know the next jobs of workflows, where the log has what jobs wait for
    #[arg(long)]
    announced_successors: bool,
    /// The jobs that tolerate interruption, so that spot instance types admit them: all, none or a
    /// share of the jobs; jobs of which the log has it are added [default: none]
    #[arg(long, value_name = "JOBS")]
    spot_for: Option<SpotFor>,
    /// A band of priorities with a cost of waiting of its own, as NAME=PRIORITY:WEIGHT: from this
    /// priority up to that of the next tier, a waiting pod costs WEIGHT times the price of waiting.
    /// Repeat it for each tier, such as --tier production=200:4 --tier free=0:0
    #[arg(long = "tier", value_name = "TIER")]
    tiers: Vec<Tier>,
    /// How often a spot instance is interrupted, per hour; its pods are lost two minutes after the
    /// notice and start again [default: 0]
    #[arg(long, value_name = "RATE", value_parser = interruption_rate)]
    interruptions_per_hour: Option<f64>,
    /// How the scheduler chooses nodes [default: pack]
    #[arg(long)]
    scheduler: Option<SchedulerKind>,
    /// How the pods of one job are placed [default: whole]
    #[arg(long)]
    gang: Option<GangMode>,
    /// How the headroom for gangs larger than an instance is dealt to groups [default: one-group]
    #[arg(long)]
    gang_headroom: Option<GangHeadroom>,
    /// The time after a scale-up during which no node is removed [default: 10m]
    #[arg(long, value_name = "TIME")]
    scale_down_delay_after_add: Option<Span>,
    /// The time after which the autoscaler removes an unneeded node [default: 10m]
    #[arg(long, value_name = "TIME")]
    scale_down_unneeded_time: Option<Span>,
    /// The number of runs with shifted submissions, from a day before --from on; more than one
    /// prints means and standard errors [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=REPLAYS_MAX.into()))]
    replays: Option<u32>,
    /// The largest shift of a submission; needs --replays above 1 [default: 30s]
    #[arg(long, value_name = "TIME")]
    jitter: Option<Span>,
    /// Also write jobs.csv, nodes.csv, warm.csv, ticks.csv, settings.json, figures.json,
    /// frontier.svg and report.html here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
    /// Print all columns of the table, not only those that fit 100 characters
    #[arg(long)]
    wide: bool,
}

fn failure_share(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    parsed
        .filter(|share| (0.0..1.0).contains(share))
        .ok_or_else(|| "expected a number from 0 to below 1".into())
}

fn share(text: &str) -> Result<f64, String> {
    input::share(text)
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a share from 0% to 100%, such as 2% or 0.02".into())
}

fn false_share(text: &str) -> Result<f64, String> {
    let most = FALSE_SHARE_MAX;
    let expected = format!("expected a share from 0% to {}%, such as 20% or 0.2", 100.0 * most);
    share(text).ok().filter(|share| *share <= most).ok_or(expected)
}

fn interruption_rate(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    let most = Interruptions::PER_HOUR_MAX;
    parsed
        .filter(|rate| (0.0..=most).contains(rate))
        .ok_or_else(|| format!("expected a rate from 0 to {most} per hour, such as 0.05"))
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    #[cfg(feature = "kubernetes")]
    let args = Args { log: args.log.with_policy_file(args.policy_file.clone()), ..args };
    let settings = args.log.settings(|settings| {
        if !args.policies.is_empty() {
            settings.policies = args.policies;
        }
        if args.expression.is_some() {
            settings.expression = args.expression;
            if !settings.policies.contains(&NamedPolicy::EXPRESSION) {
                settings.policies.push(NamedPolicy::EXPRESSION);
            }
        }
        set(&mut settings.launch_failure_share, args.launch_failure_share);
        set(&mut settings.warm_start, args.warm_start);
        set(&mut settings.warm_share, args.warm_share);
        settings.warm_max = args.warm_max.or(settings.warm_max);
        set(&mut settings.announced.share, args.announced_share);
        set(&mut settings.announced.ahead, args.announced_ahead);
        set(&mut settings.announced.false_share, args.announced_false);
        set(&mut settings.announced.by, args.announced_by);
        settings.announced.successors |= args.announced_successors;
        set(&mut settings.spot_for, args.spot_for);
        set(&mut settings.interruptions.per_hour, args.interruptions_per_hour);
        if !args.tiers.is_empty() {
            settings.tiers = args.tiers.into();
        }
        set(&mut settings.scheduler, args.scheduler);
        set(&mut settings.gang, args.gang);
        set(&mut settings.gang_headroom, args.gang_headroom);
        set(&mut settings.scale_down_delay_after_add, args.scale_down_delay_after_add);
        set(&mut settings.scale_down_unneeded_time, args.scale_down_unneeded_time);
        set(&mut settings.replays, args.replays);
        set(&mut settings.jitter, args.jitter);
    })?;
    if args.jitter.is_some() && settings.replays == 1 {
        return Err(wrong_usage::conflict(
            "--jitter shifts the submissions of several replays: also give --replays, such as --replays 5",
        ));
    }
    let staged = output::stage(args.out.as_deref(), "report.html", &args.overwrite)?;
    let loaded = args.log.replay(settings, warm_up)?;
    warn_untrained(&loaded);
    let LoadedLog { settings, trace, catalog, workload, window } = loaded;
    let keep = staged.is_some();
    let comparison = progress::of_runs(|progress| {
        compare(&workload, &catalog, &settings, window, keep, progress)
    });
    if let Some(staged) = staged {
        write_report(&comparison, &settings, &trace, &catalog, |name, write| {
            staged.write(name, |to| write(to))
        })?;
        eprintln!("wrote {}", staged.finish()?.join("report.html").display());
    }
    match args.output {
        OutputFormat::Table => {
            output::print(&write_table(&comparison, &settings, &trace, &catalog, args.wide))
        }
        OutputFormat::Json | OutputFormat::Yaml => {
            output::print_document(args.output, &comparison.document(&settings, &trace, &catalog))
        }
    }
}
