//! `prophet advise`: chooses the setting that pays off, on one part of a log, and checks it on the
//! rest.

use std::fmt::Write as _;
use std::path::PathBuf;

use advice::{Advice, Goal, Setting, Totals, Varied, Verdict};
use base::span::Span;
use clap::value_parser;
use placeholders::{Objective, Prices};
use serde_json::json;
use simulator::{Candidate, NamedPolicy, REPLAYS_MAX, SimulationSettings, runs};

use super::log::{LoadedLog, LogArgs, check_span, set, tick, warm_up, warn_untrained};
use super::output::{OutputFormat, Overwrite};
use super::{input, output, progress, wrong_usage};

const EXAMPLES: &str = "\
Examples:
  prophet advise                                              an example log
  prophet advise --trace jobs.csv.gz --from 14d --out advice/ also writes the policy and a page
  prophet advise --data /var/lib/prophet                      your own cluster, from the history that prophet run recorded
  prophet advise --data /var/lib/prophet --bill-at-most 105%  the least waiting for at most 5 % more dollars
  prophet advise --trace log.swf --wait-cost 2.50 --waiting-at-most 50%

The setting is chosen by the first two thirds of the evaluated days, and checked on the last third. It is the one with the least
cost: the price of waiting, and of nodes while they idle and launch. With --bill-at-most it is the one with the least waiting,
and with --waiting-at-most the one with the least bill. Prophet is left off where the check fails.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    compared: Compared,
    #[command(flatten)]
    goal: GoalArgs,
    /// The number of runs with shifted submissions, of which the means count [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=REPLAYS_MAX.into()))]
    replays: Option<u32>,
    /// Also write advice.json, report.html and the recommended policy as policy.yaml here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

/// What is compared with the autoscaler alone.
#[derive(clap::Args)]
pub(super) struct Compared {
    /// The policies that are compared with the autoscaler alone; those that no cluster can have are
    /// references [default:
    /// ensemble,ensemble:0.9,ensemble:0.95,constant:1,constant:2,constant:4,constant:8,burst:10m:4]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    policies: Vec<NamedPolicy>,
    /// Prices of waiting by which ensemble decides, as ratios as in --wait-ratio; the cost of all
    /// settings has the price of the run [default: a third and three times the price of the run]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = ratio)]
    wait_ratios: Vec<f64>,
    /// Times after which the autoscaler removes an unneeded node, for the autoscaler alone and for
    /// ensemble [default: half and twice the time of the run, which is 10m]
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    scale_down_unneeded_times: Vec<Span>,
    /// Lengths of the tick, from 10s to 1h, for ensemble [default: that of the run, 1m]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = tick_of_policy)]
    ticks: Vec<Span>,
}

/// What the chosen setting must be best at.
#[derive(clap::Args)]
pub(super) struct GoalArgs {
    /// Choose the least waiting for a bill of at most this share of the autoscaler's, such as 105%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    bill_at_most: Option<f64>,
    /// Choose the least bill with at most this share of the autoscaler's waiting, such as 50%
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "bill_at_most")]
    waiting_at_most: Option<f64>,
}

/// The lengths of a tick that a policy of a cluster can have, in seconds.
const TICK_SECONDS: std::ops::RangeInclusive<i64> = 10..=3_600;

/// Parses the length of a tick that a policy of a cluster can have.
fn tick_of_policy(text: &str) -> Result<Span, String> {
    let span = tick(text)?;
    if TICK_SECONDS.contains(&span.as_seconds()) {
        Ok(span)
    } else {
        Err("expected 10s to 1h".into())
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    parsed
        .filter(|ratio| *ratio > 0.0 && ratio.is_finite())
        .ok_or_else(|| "expected a ratio above 0".into())
}

fn share(text: &str) -> Result<f64, String> {
    input::share(text)
        .filter(|share| *share > 0.0)
        .ok_or_else(|| "expected a share above 0%, such as 105% or 1.05".into())
}

impl GoalArgs {
    /// The goal.
    pub(super) fn goal(&self) -> Goal {
        let bill = self.bill_at_most.map(Goal::BillAtMost);
        bill.or(self.waiting_at_most.map(Goal::WaitingAtMost)).unwrap_or_default()
    }
}

/// The policies that are compared by default.
const POLICIES: [&str; 8] = [
    "ensemble",
    "ensemble:0.9",
    "ensemble:0.95",
    "constant:1",
    "constant:2",
    "constant:4",
    "constant:8",
    "burst:10m:4",
];

impl Compared {
    /// The settings, the autoscaler alone first.
    ///
    /// # Errors
    /// A setting cannot run, or has a tick that no policy of a cluster can have.
    pub(super) fn settings(&self, run: &SimulationSettings) -> anyhow::Result<Vec<Setting>> {
        let policies = match &self.policies[..] {
            [] => {
                let parsed = POLICIES.iter().map(|name| name.parse());
                parsed.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?
            }
            given => given.to_vec(),
        };
        let objectives = match (&self.wait_ratios[..], run.policy.objective) {
            ([], Objective::WaitRatio(ratio)) => {
                [ratio / 3.0, 3.0 * ratio].map(Objective::WaitRatio).to_vec()
            }
            ([], Objective::WaitCost(price)) => {
                [price / 3.0, 3.0 * price].map(Objective::WaitCost).to_vec()
            }
            (ratios, _) => ratios.iter().copied().map(Objective::WaitRatio).collect(),
        };
        let unneeded = run.scale_down_unneeded_time.as_seconds();
        let span = |seconds: i64| Span::seconds(u32::try_from(seconds.max(1)).unwrap_or(u32::MAX));
        let times = match &self.scale_down_unneeded_times[..] {
            [] => vec![span(unneeded / 2), span(unneeded.saturating_mul(2))],
            given => given.to_vec(),
        };
        let varied =
            Varied { objectives, scale_down_unneeded_times: times, ticks: self.ticks.clone() };
        let all = Setting::all(&policies, &varied);
        if !TICK_SECONDS.contains(&run.tick.as_seconds()) {
            return Err(wrong_usage::conflict(format!(
                "the tick is {}, and a policy of a cluster has 10s to 1h",
                run.tick
            )));
        }
        for setting in &all {
            let checked = setting.check(run);
            checked.map_err(|fault| wrong_usage::conflict(format!("{setting}: {fault}")))?;
        }
        Ok(all)
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let run = args.log.settings(|settings| set(&mut settings.replays, args.replays))?;
    let compared = args.compared.settings(&run)?;
    let staged = output::stage(args.out.as_deref(), "report.html", &args.overwrite)?;
    let loaded = args.log.replay(run, warm_up)?;
    warn_untrained(&loaded);
    let LoadedLog { settings: run, trace, catalog, workload, window } = loaded;
    let days = base::days::days(window);
    anyhow::ensure!(
        days >= Advice::DAYS_MIN,
        "the evaluated time has {days} days, and advice needs {}: two to choose a setting, and one to check it. Give a longer log, or an earlier --from",
        Advice::DAYS_MIN
    );
    for length in compared.iter().filter_map(|setting| setting.tick) {
        check_span(&trace, Some(window), length)?;
    }
    let candidates: Vec<Candidate> =
        compared.iter().map(|setting| setting.candidate(&run)).collect();
    let replays = 0..run.replays;
    let ran = progress::of_runs(|progress| {
        runs(&candidates, &workload, &catalog, &run, window, replays, progress)
    });
    let of_settings: Vec<(Setting, Vec<Totals>)> =
        compared.into_iter().zip(ran.iter().map(|runs| Totals::means(runs))).collect();
    let price = Prices::new(run.policy.objective, &catalog).wait();
    let Some(advice) = Advice::new(&of_settings, &run, price, args.goal.goal()) else {
        anyhow::bail!("there are no days to compare");
    };
    let policy = advice.policy_file();
    let document = report::versioned(json!({
        "trace": trace.source,
        "window": {"from": window.0, "until": window.1},
        "advice": advice,
        "settings": run,
    }));
    if let Some(staged) = staged {
        staged.write("advice.json", |to| Ok(serde_json::to_writer_pretty(to, &document)?))?;
        let page = advice::page(&advice, policy.as_deref(), &run, &trace.source);
        staged.write("report.html", |to| to.write_all(page.as_bytes()))?;
        if let Some(policy) = &policy {
            staged.write("policy.yaml", |to| to.write_all(policy.as_bytes()))?;
        }
        eprintln!("wrote {}", staged.finish()?.join("report.html").display());
    }
    if args.output != OutputFormat::Table {
        return output::print_document(args.output, &document);
    }
    let mut text = advice.text();
    if let Some(policy) = policy {
        text += "\nThe policy, which only observes until its mode is Act:\n\n";
        text += &policy;
    }
    if advice.verdict == Verdict::ChangeAutoscaler
        && let Some(option) = advice.chosen().setting.autoscaler_options()
    {
        let _ = writeln!(text, "\nThe option of cluster-autoscaler: {option}");
    }
    output::print(&text)
}
