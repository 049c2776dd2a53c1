//! `prophet rightsize`: what jobs request against what they use.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

#[cfg(feature = "kubernetes")]
use base::span::Span;
use serde_json::json;
#[cfg(feature = "kubernetes")]
use usage::MeasuredRun;
use usage::{
    BookSettings, LimitFigures, ModelWeights, OomTolerance, RecordedUsage, USAGE_WEIGHTS,
    UsageBook, UsageFault, UsageRow, WorkloadClass,
};

#[cfg(feature = "kubernetes")]
use super::cluster::http_get::{Access, Address, token};
#[cfg(feature = "kubernetes")]
use super::cluster::prometheus;
use super::log::{LoadedLog, LogArgs, warn_untrained};
use super::output::OutputFormat;
use super::{input, output, progress, wrong_usage};
#[cfg(feature = "kubernetes")]
use rightsize::usage_rows;
use rightsize::{JobsByOwner, right_size};
use simulator::NamedPolicy;
use traces::{Job, TraceFault, UsageNotes, read_usage};

const EXAMPLES: &str = "\
Examples:
  prophet rightsize --usage usage.csv.gz --trace jobs.csv.gz
  prophet rightsize --data /var/lib/prophet                     your own cluster, if prophet run recorded usage
  prophet rightsize --prometheus http://127.0.0.1:9090 --data /var/lib/prophet --lookback 14d
  prophet rightsize --prometheus https://prometheus.example --prometheus-token-file token --trace jobs.csv.gz
  prophet rightsize --usage instance_usage.json.gz --trace instance_events.json.gz --instance-type m5.8xlarge
  prophet rightsize --usage usage.csv --trace jobs.csv --class service --oom-tolerance low --output json
  prophet rightsize --usage usage.csv --trace jobs.csv --sweep  compare weights of the recommender by models

usage.csv has a header and these columns:
  time, owner, cpu_millis or memory_bytes and, optionally, container, pod, cpu_request_millis, memory_request_bytes, class
  and oom_tolerance; docs/rightsizing.md describes them

The owner of a row is the name of a job, or that name without its last part after - or /. Each recommendation follows from
the usage before it. The nodes and dollars are those of the whole log with the last recommendations as requests. Nothing
is written to jobs.";

/// The sources of usage and of jobs. The usage that clap generates has `--usage` only, because the
/// others are alternatives to a required option.
const USAGE: &str = if cfg!(feature = "kubernetes") {
    "prophet rightsize [OPTIONS] --data <PLACE> [--usage <FILE>|--prometheus <ADDRESS>]\n       prophet rightsize [OPTIONS] --trace <FILE> <--usage <FILE>|--prometheus <ADDRESS>>"
} else {
    "prophet rightsize [OPTIONS] --usage <FILE> --trace <FILE>"
};

/// The help of `--trace`, which has no default here.
const TRACE_HELP: &str = "\
The jobs that the usage belongs to, as a log: Philly CSV, SWF, openb, Alibaba batch tasks, Borg 2019 or Prophet's own table, \
gzipped or plain; `-` is standard input; required without --data";

#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = USAGE,
    mut_arg("trace", |trace| trace.help(TRACE_HELP))
)]
pub(super) struct Args {
    /// What containers used: a usage table, or Borg 2019 instance usage, gzipped or plain; `-` is
    /// standard input [default with --data: what `prophet run --record-usage` recorded]
    #[arg(long, value_name = "FILE", value_parser = input::file())]
    #[cfg_attr(
        feature = "kubernetes",
        arg(required_unless_present_any = ["prometheus", "data"])
    )]
    #[cfg_attr(not(feature = "kubernetes"), arg(required = true))]
    usage: Option<PathBuf>,
    /// A Prometheus that scrapes the kubelets and, for owners and requests, kube-state-metrics:
    /// http://HOST:PORT, or `https://HOST`. The certificates of the system verify its certificate;
    /// the variable `SSL_CERT_FILE` names others, and `HTTPS_PROXY` a proxy
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "usage")]
    prometheus: Option<Address>,
    /// A file with the bearer token that this Prometheus needs. It is sent over HTTPS, and over
    /// HTTP to this machine only
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "FILE", requires = "prometheus", conflicts_with = "usage")]
    prometheus_token_file: Option<PathBuf>,
    /// How much of its past is read
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = lookback,
          requires = "prometheus", conflicts_with = "usage")]
    lookback: Span,
    #[command(flatten)]
    log: LogArgs,
    /// The class of workloads whose rows have none: CPU by the average, the 90th or the 95th
    /// percentile of load
    #[arg(long, default_value = "batch")]
    class: ClassArg,
    /// How workloads whose rows do not have it tolerate kills for lack of memory [default: minimal
    /// up to 10 pods, low above]
    #[arg(long, value_name = "TOLERANCE")]
    oom_tolerance: Option<ToleranceArg>,
    /// What recommends the limits
    #[arg(long, default_value = "window")]
    recommender: RecommenderArg,
    /// Print the figures of the recommender by models under many weights, without the cluster
    #[arg(long)]
    sweep: bool,
    /// The most containers in the table
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

/// Parses the time that is read of a Prometheus. It is at least a minute, because a query has one
/// value for each minute.
#[cfg(feature = "kubernetes")]
fn lookback(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span.as_seconds() < 60 { Err("expected a time of at least 1m".into()) } else { Ok(span) }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClassArg {
    /// Jobs that tolerate throttling.
    Batch,
    /// Services.
    Service,
    /// Services whose latency is sensitive to load.
    SensitiveService,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ToleranceArg {
    /// No kill: the peak of memory.
    Minimal,
    /// Rare kills: the 98th percentile of load.
    Low,
    /// Kills at short peaks: the 60th percentile, and at least half of the peak.
    Intermediate,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum RecommenderArg {
    /// Statistics of a moving window, by class and tolerance.
    Window,
    /// Models, each of which minimises the cost of overruns, slack and changes.
    Models,
}

pub(super) fn run(mut args: Args) -> anyhow::Result<()> {
    let named = args.source()?;
    if args.sweep && named.as_ref().is_some_and(|source| !source.can_be_read_again()) {
        return Err(wrong_usage::conflict(
            "--sweep reads the usage several times: give a file or a history",
        ));
    }
    if [args.usage.as_deref(), args.log.trace()].into_iter().all(is_standard_input) {
        return Err(wrong_usage::conflict("--usage and --trace cannot both be standard input"));
    }
    args.log.with_usage = named.is_none();
    let args = &args;
    let settings = args.log.settings(|settings| settings.policies = vec![NamedPolicy::DEFAULT])?;
    if settings.trace.is_none() && settings.data.is_none() {
        return Err(wrong_usage::conflict(
            "give the jobs that the usage belongs to: --trace FILE, or --data PLACE",
        ));
    }
    let loaded = args.log.replay(settings, |_, _| ())?;
    let LoadedLog { settings, trace, window, catalog, .. } = &loaded;
    let source = args.source()?.map_or_else(|| args.history(*window), Ok)?;
    let owners = source.owners(&trace.jobs, settings.data.is_some());
    let lenient = settings.lenient;
    if args.sweep {
        return sweep(args, &source, &owners, lenient);
    }
    let models = (args.recommender == RecommenderArg::Models).then_some(USAGE_WEIGHTS);
    let (recorded, notes) = read(args, &source, &owners, models, lenient)?;
    if notes != (UsageNotes { rows: notes.rows, ..UsageNotes::default() }) {
        eprintln!("note: {source}: {notes}");
    }
    check_owners(&recorded, &trace.jobs, &owners, &source)?;
    warn_few_samples(&recorded);
    warn_untrained(&loaded);
    let advice = progress::of_runs(|progress| {
        right_size(&trace.jobs, &owners, &recorded, catalog, settings, *window, progress)
    });
    for unplaceable in &advice.unplaceable {
        eprintln!("note: right-sized: {}", unplaceable.sentence(catalog));
    }
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => output::print_document(
            args.output,
            &json!({
                "trace": trace.source,
                "window": {"from": window.0, "until": window.1},
                "usage": {
                    "source": source.to_string(),
                    "rows": notes.rows,
                    "from": recorded.times.map(|times| times.0),
                    "until": recorded.times.map(|times| times.1),
                },
                "advice": advice,
            }),
        ),
        OutputFormat::Table => output::print(&advice.table(args.top)),
    }
}

/// Reads the usage of the jobs of a log.
fn read(
    args: &Args,
    source: &Source<'_>,
    owners: &JobsByOwner<'_>,
    models: Option<ModelWeights>,
    lenient: bool,
) -> anyhow::Result<(RecordedUsage, UsageNotes)> {
    let settings = BookSettings {
        class: match args.class {
            ClassArg::Batch => WorkloadClass::Batch,
            ClassArg::Service => WorkloadClass::Service,
            ClassArg::SensitiveService => WorkloadClass::SensitiveService,
        },
        oom_tolerance: args.oom_tolerance.map(|tolerance| match tolerance {
            ToleranceArg::Minimal => OomTolerance::Minimal,
            ToleranceArg::Low => OomTolerance::Low,
            ToleranceArg::Intermediate => OomTolerance::Intermediate,
        }),
        models,
    };
    let mut book = UsageBook::new(settings, |owner| owners.request(owner));
    let mut take = |row: UsageRow| book.add(&row).map_err(|fault| in_row(&fault, &row));
    let reading = || source.read(lenient, &mut take);
    let notes = progress::during(&format!("reading {source}"), reading)?;
    Ok((book.finish(), notes))
}

/// Whether a file is standard input, which can be read once.
fn is_standard_input(file: Option<&Path>) -> bool {
    file == Some(Path::new("/dev/stdin"))
}

/// Where usage is read from.
enum Source<'a> {
    File(&'a Path),
    /// A server, how it is reached, and the times from which and until which it is read, in Unix
    /// seconds.
    #[cfg(feature = "kubernetes")]
    Prometheus(&'a Address, Access, i64, i64),
    /// The measured pods of the history that has the jobs, and its place.
    #[cfg(feature = "kubernetes")]
    History(Vec<&'a MeasuredRun>, &'a str),
}

impl Args {
    /// The source that is named. `None` for the history that has the jobs.
    #[cfg(feature = "kubernetes")]
    fn source(&self) -> anyhow::Result<Option<Source<'_>>> {
        if let Some(server) = &self.prometheus {
            let token = self.prometheus_token_file.as_deref().map(token).transpose()?;
            let (access, now) = (Access::Verified { token }, base::clock::now().timestamp());
            let since = now - self.lookback.as_seconds();
            return Ok(Some(Source::Prometheus(server, access, since, now)));
        }
        Ok(self.usage.as_deref().map(Source::File))
    }

    /// The source that is named.
    #[cfg(not(feature = "kubernetes"))]
    #[expect(clippy::unnecessary_wraps, reason = "other builds check the source")]
    fn source(&self) -> anyhow::Result<Option<Source<'_>>> {
        Ok(self.usage.as_deref().map(Source::File))
    }

    /// The usage of the history, of pods that were created in the window `[from, until)`.
    #[cfg(feature = "kubernetes")]
    fn history(&self, (from, until): (i64, i64)) -> anyhow::Result<Source<'_>> {
        let place = self.log.data.as_deref().unwrap_or_default();
        let all = self.log.recorded.usage();
        anyhow::ensure!(
            !all.is_empty(),
            "{place}: no pod has usage: give --usage or --prometheus, or let prophet run record it, with --record-names and --record-usage"
        );
        let within = |run: &&MeasuredRun| (from..until).contains(&run.submitted);
        Ok(Source::History(all.iter().filter(within).collect(), place))
    }

    #[cfg(not(feature = "kubernetes"))]
    #[expect(clippy::unused_self, reason = "the other builds use it")]
    fn history(&self, _: (i64, i64)) -> anyhow::Result<Source<'_>> {
        Err(wrong_usage::conflict("give --usage FILE"))
    }
}

impl Source<'_> {
    /// The jobs by the owners that this usage has. Those of a table have the names that its author
    /// gave them.
    fn owners<'a>(&self, jobs: &'a [Job], of_history: bool) -> JobsByOwner<'a> {
        let of_table = matches!(self, Self::File(_));
        if of_history && !of_table { JobsByOwner::of_history(jobs) } else { JobsByOwner::new(jobs) }
    }

    /// Whether a second read gives the same rows.
    fn can_be_read_again(&self) -> bool {
        match self {
            Self::File(path) => !is_standard_input(Some(path)),
            #[cfg(feature = "kubernetes")]
            Self::Prometheus(..) => false,
            #[cfg(feature = "kubernetes")]
            Self::History(..) => true,
        }
    }

    fn read(
        &self,
        lenient: bool,
        take: &mut dyn FnMut(UsageRow) -> Result<(), TraceFault>,
    ) -> anyhow::Result<UsageNotes> {
        match self {
            Self::File(path) => Ok(read_usage(path, lenient, take)?),
            #[cfg(feature = "kubernetes")]
            Self::Prometheus(server, access, from, until) => {
                let server_with = (*server, access.clone());
                let rows = prometheus::read(server_with, *from, *until, &mut |row| Ok(take(row)?))?;
                anyhow::ensure!(rows > 0, "{server}: no container has usage in this time");
                Ok(UsageNotes { rows, ..UsageNotes::default() })
            }
            #[cfg(feature = "kubernetes")]
            Self::History(runs, place) => {
                let notes = usage_rows(runs, take)?;
                anyhow::ensure!(
                    notes.rows > 0,
                    "{place}: no pod that was created in this time has usage ({notes})"
                );
                Ok(notes)
            }
        }
    }
}

impl fmt::Display for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "kubernetes")]
            Self::Prometheus(server, ..) => server.fmt(f),
            #[cfg(feature = "kubernetes")]
            Self::History(_, place) => f.write_str(place),
        }
    }
}

/// The column of a row that a fault is about, and its value.
fn in_row(fault: &UsageFault, row: &UsageRow) -> TraceFault {
    let (column, value) = match fault {
        UsageFault::Order => ("time", row.time.to_string()),
        UsageFault::TooManyContainers(_) => ("owner", row.key.to_string()),
        UsageFault::TooManyPods => ("pod", row.pod.to_string()),
        UsageFault::NoRequests => ("container", row.key.to_string()),
    };
    TraceFault { column: column.into(), problem: fault.to_string().into(), value }
}

/// Fails if no job has usage, and prints a note about owners without a job.
fn check_owners(
    recorded: &RecordedUsage,
    jobs: &[Job],
    owners: &JobsByOwner<'_>,
    source: &Source<'_>,
) -> anyhow::Result<()> {
    let lost = |owner: &str| owners.of(owner).next().is_none();
    let containers = recorded.containers.iter();
    let names: Vec<&str> = containers.map(|container| &*container.key.owner).collect();
    let without: Vec<&str> = names.iter().copied().filter(|owner| lost(owner)).collect();
    let first = jobs.first().map_or("-", |job| &job.name);
    match without.first() {
        Some(owner) if without.len() == names.len() => anyhow::bail!(
            "{source}: no job of the log has usage: an owner is {owner}, and a job {first}"
        ),
        Some(owner) => eprintln!(
            "note: {} containers have no job in the log (the first is of {owner}), so they change neither nodes nor dollars",
            without.len()
        ),
        None => {}
    }
    Ok(())
}

/// Prints a note about containers without a recommendation.
fn warn_few_samples(recorded: &RecordedUsage) {
    let all = recorded.containers.len();
    let few = recorded.containers.iter().filter(|container| container.has_few_samples()).count();
    if few > 0 {
        eprintln!(
            "note: {few} of {all} containers have less than an hour of usage, so they keep their requests"
        );
    }
}

/// The weights that the sweep varies: of an overrun, of a change of the limit and of the model, and
/// the decay of a model's cost with half-lives of 2, 12 and 48 hours.
const OVERRUNS: [f64; 3] = [10.0, 30.0, 100.0];
const LIMIT_CHANGES: [f64; 3] = [0.0, 0.1, 0.5];
const MODEL_CHANGES: [f64; 2] = [0.0, 0.05];
const COST_DECAYS: [f64; 3] = [0.0285, 0.0048, 0.0012];

/// Prints the figures of limits under the request, under the moving window, and under models with
/// each combination of weights.
fn sweep(
    args: &Args,
    source: &Source<'_>,
    owners: &JobsByOwner<'_>,
    lenient: bool,
) -> anyhow::Result<()> {
    let (window, _) = read(args, source, owners, None, lenient)?;
    let [requested, of_window] = window.figures();
    let mut rows = vec![(None, "requested", requested), (None, "window", of_window)];
    for overrun in OVERRUNS {
        for limit_change in LIMIT_CHANGES {
            for model_change in MODEL_CHANGES {
                for cost_decay in COST_DECAYS {
                    let weights = ModelWeights {
                        overrun,
                        underrun: 1.0,
                        limit_change,
                        model_change,
                        cost_decay,
                    };
                    let (recorded, _) = read(args, source, owners, Some(weights), lenient)?;
                    rows.push((Some(weights), "models", recorded.figures()[1]));
                }
            }
        }
    }
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => {
            let row = |(weights, name, figures): &(Option<ModelWeights>, &str, LimitFigures)| json!({"recommender": name, "weights": weights, "figures": figures});
            output::print_document(
                args.output,
                &json!({"sweep": rows.iter().map(row).collect::<Vec<_>>()}),
            )
        }
        OutputFormat::Table => output::print(&sweep_table(&rows)),
    }
}

fn sweep_table(rows: &[(Option<ModelWeights>, &str, LimitFigures)]) -> String {
    let mut text = format!(
        "{:10} {:>7} {:>7} {:>7} {:>7}  {:>8} {:>9} {:>9} {:>8} {:>8}\n",
        "",
        "overrun",
        "limit",
        "model",
        "decay",
        "slack of",
        "slack of",
        "time above",
        "OOM",
        "changes"
    );
    let _ = writeln!(
        text,
        "{:10} {:>7} {:>7} {:>7} {:>7}  {:>8} {:>9} {:>10} {:>8} {:>8}",
        "",
        "weight",
        "change",
        "change",
        "of cost",
        "CPU %",
        "memory %",
        "CPU %",
        "days %",
        "a day"
    );
    for (weights, name, figures) in rows {
        let weights = weights.map_or_else(
            || format!("{:>7} {:>7} {:>7} {:>7}", "-", "-", "-", "-"),
            |weights| {
                let ModelWeights { overrun, limit_change, model_change, cost_decay, .. } = weights;
                format!("{overrun:>7} {limit_change:>7} {model_change:>7} {cost_decay:>7}")
            },
        );
        let _ = writeln!(
            text,
            "{name:10} {weights}  {:>8.1} {:>9.1} {:>10.1} {:>8.1} {:>8.1}",
            100.0 * figures.slack_cpu,
            100.0 * figures.slack_memory,
            100.0 * figures.cpu_above_limit_share,
            100.0 * figures.oom_day_share,
            figures.changes_per_day
        );
    }
    text
}
