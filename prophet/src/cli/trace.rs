//! `prophet trace`: describes a job log, converts it into recorded ticks, or generates a synthetic
//! one.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base::span::Span;
use demand::forecast::onnx::{RoomNodes, arrivals, room};
use demand::record::{BucketTick, History};
use embedder::Catalog;
use simulator::replay::{SchedulerKind, Workload, offered, snapshots, ticks};
use traces::default_types;
use traces::{
    Allocation, Capacity, Consumption, Delay, Description, InterArrival, JOBS_MAX, Job, LogTier,
    Machines, Mapping, Notes, Percentiles, Recipe, TierDelays, Trace, describe, read_used,
};

#[cfg(feature = "kubernetes")]
use super::cluster::{
    http_get::{Access, Address, token},
    prometheus_jobs,
};
use super::embed::Mode;
use super::log::{check_span, check_units, recorded_log, tick};
use super::output::{OutputFormat, Overwrite};
use super::{input, output, progress, wrong_usage};
use crate::description_page::{description_page, number};

#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Print the jobs, span, demand, arrivals, autocorrelation and tail of a log
    Describe(Box<DescribeArgs>),
    /// Print the ticks that a controller would have recorded, as CSV, to train models with
    Ticks(Box<TicksArgs>),
    /// Read the pods that ended from a Prometheus, as a job table
    #[cfg(feature = "kubernetes")]
    Fetch(FetchArgs),
    /// Generate a synthetic log from a seed, in Prophet's own table format
    Generate(GenerateArgs),
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  prophet trace describe jobs.swf.gz --tick 5m
  prophet trace describe jobs.csv.gz --out description/
  kubectl get pods --all-namespaces --output json | prophet trace describe -
  prophet trace describe jobs.csv --columns submit=Queued,runtime=Hours:h,cpu=Cores,memory=MB:MB
  prophet trace describe --data /var/lib/prophet
  prophet trace describe instance_events.json.gz --machines machine_events.json.gz --usage instance_usage.json.gz
  zcat part-*.csv.gz | prophet trace describe - --output json")]
pub(super) struct DescribeArgs {
    /// The job log, gzipped (.gz) or plain; `-` is standard input
    #[arg(value_name = "FILE", value_parser = input::file(), required_unless_present = "data")]
    trace: Option<PathBuf>,
    /// The location of a history that `prophet run --data` recorded: the pods that ended
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["trace", "lenient", "catalog"])]
    data: Option<String>,
    /// The policy of this history, as NAMESPACE.NAME [default: the only one]
    #[arg(long, value_name = "POLICY", requires = "data", conflicts_with = "trace")]
    data_policy: Option<String>,
    /// The columns of a delimited log, as PART=COLUMN[:UNIT]; docs/logs.md describes them [default:
    /// the content of the log determines its format]
    #[arg(long, value_name = "MAPPING", conflicts_with = "data")]
    columns: Option<Mapping>,
    /// The machines of the cluster, as Borg 2019 machine events: prints the shares of them that
    /// jobs request
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    machines: Option<PathBuf>,
    /// What jobs used, as Borg 2019 instance usage: prints the shares of the machines that jobs use
    /// on average
    #[arg(long, value_name = "FILE", requires = "machines", conflicts_with = "data")]
    usage: Option<PathBuf>,
    /// Skip bad lines of the log, and report their number
    #[arg(long)]
    lenient: bool,
    /// Fail if the requests of the log are probably in another unit, instead of a warning
    #[arg(long, conflicts_with = "data")]
    strict: bool,
    /// The instance types on offer, as YAML [default: types that suit the log]
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// The time between two samples of demand
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = tick)]
    tick: Span,
    /// Also write description.json, and description.html with plots, here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

#[derive(clap::Args)]
#[command(after_help = "The output has a row for each tick and bucket, with these columns:
  time                  Unix seconds
  bucket                the bucket's name
  demand, demand_max    nodes, as in the history
  arrivals              pods that arrived since the previous tick, in nodes' worth of pods
  room_mean, room_most  the free room on occupied nodes for the shapes that arrive most, in nodes' worth of pods
Demand is offered demand: each job counts from its submission, without launch latency.

Example:
  prophet trace ticks jobs.swf.gz --out ticks.csv")]
pub(super) struct TicksArgs {
    /// The job log, gzipped (.gz) or plain; `-` is standard input
    #[arg(value_name = "FILE", value_parser = input::file())]
    trace: PathBuf,
    /// The columns of a delimited log, as PART=COLUMN[:UNIT]; docs/logs.md describes them [default:
    /// the content of the log determines its format]
    #[arg(long, value_name = "MAPPING")]
    columns: Option<Mapping>,
    /// Skip bad lines, and report their number
    #[arg(long)]
    lenient: bool,
    /// The instance types on offer, as YAML [default: types that suit the log]
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// The time between two ticks
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = tick)]
    tick: Span,
    /// How demand is counted; with share, rows are snapshots at the ticks, without arrivals and
    /// room
    #[arg(long, default_value = "bins")]
    mode: Mode,
    /// The file to write [default: standard output, also `-`]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[cfg(feature = "kubernetes")]
#[derive(clap::Args)]
#[command(after_help = "Examples:
  prophet trace fetch --prometheus http://127.0.0.1:9090 --out jobs.csv
  prophet trace fetch --prometheus https://prometheus.example --prometheus-token-file token --days 28 --out jobs.csv
  prophet simulate --trace jobs.csv

The Prometheus scrapes kube-state-metrics. A pod counts from its creation, and runs from the start of its first container to its completion.")]
pub(super) struct FetchArgs {
    /// The Prometheus: http://HOST:PORT, or `https://HOST`. The certificates of the system verify
    /// its certificate; the variable `SSL_CERT_FILE` names others, and `HTTPS_PROXY` a proxy
    #[arg(long, value_name = "ADDRESS")]
    prometheus: Address,
    /// A file with the bearer token that this Prometheus needs. It is sent over HTTPS, and over
    /// HTTP to this machine only
    #[arg(long, value_name = "FILE")]
    prometheus_token_file: Option<PathBuf>,
    /// How many days of its past are read
    #[arg(long, value_name = "DAYS", default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=366))]
    days: u16,
    /// The file to write [default: standard output, also `-`]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  prophet trace generate --days 28 --jobs-per-day 5000 --out jobs.csv"
)]
pub(super) struct GenerateArgs {
    /// The number of days, at most ten years
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=3_660))]
    days: u32,
    /// The approximate average number of jobs per day
    #[arg(long, value_name = "N", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    jobs_per_day: u32,
    /// The fraction of sessions that submit GPU jobs, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = share)]
    gpu_share: f64,
    /// The fraction of sessions that are workflows, whose jobs wait for others, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    workflow_share: f64,
    /// The seed of the random number generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The file to write [default: standard output, also `-`]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    parsed
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a number from 0 to 1".into())
}

pub(super) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Describe(args) => run_describe(&args),
        Command::Ticks(args) => run_ticks(&args),
        #[cfg(feature = "kubernetes")]
        Command::Fetch(args) => run_fetch(&args),
        Command::Generate(args) => run_generate(&args),
    }
}

#[cfg(feature = "kubernetes")]
fn run_fetch(args: &FetchArgs) -> anyhow::Result<()> {
    let FetchArgs { prometheus: server, prometheus_token_file, days, out } = args;
    let token = prometheus_token_file.as_deref().map(token).transpose()?;
    let now = base::clock::now().timestamp();
    let from = now - i64::from(*days) * 86_400;
    let access = Access::Verified { token };
    let reading = || prometheus_jobs::read((server, access), from, now);
    let (jobs, notes) = progress::during(&format!("reading {server}"), reading)?;
    anyhow::ensure!(
        !jobs.is_empty(),
        "{server}: no pod ended in these {days} days ({notes}): does it scrape kube-state-metrics?"
    );
    eprintln!("note: {} pods; {notes}", jobs.len());
    output::write_to(out.as_deref(), |mut to| traces::write_table(&jobs, &mut to))
}

fn run_generate(args: &GenerateArgs) -> anyhow::Result<()> {
    let GenerateArgs { days, jobs_per_day, gpu_share, workflow_share, seed, out } = args;
    let most = u64::from(*days) * u64::from(*jobs_per_day);
    if most > JOBS_MAX as u64 {
        return Err(wrong_usage::conflict(format!(
            "--days times --jobs-per-day is {most}, above the limit of {JOBS_MAX} jobs"
        )));
    }
    let recipe = Recipe {
        days: *days,
        jobs_per_day: (*jobs_per_day).into(),
        gpu_share: *gpu_share,
        workflow_share: *workflow_share,
        seed: *seed,
    };
    let jobs = progress::during("generating jobs", || traces::generate(&recipe));
    output::write_to(out.as_deref(), |mut to| traces::write_table(&jobs, &mut to))
}

fn run_ticks(args: &TicksArgs) -> anyhow::Result<()> {
    let TicksArgs { trace, columns, lenient, catalog, tick, mode, out } = args;
    let trace = read(trace, columns.as_ref(), *lenient, false)?;
    check_span(&trace, None, *tick)?;
    let catalog = catalog_for(&trace, catalog.as_deref())?;
    let workload = Workload::new(&trace.jobs, &catalog);
    output::write_to(out.as_deref(), |to| {
        let mut write = || match mode {
            Mode::Bins => write_ticks(&workload, &catalog, *tick, to),
            Mode::Share => write_snapshots(&workload, &catalog, *tick, to),
        };
        // A line of progress would mix with the rows where both are printed on a terminal.
        if out.is_some() { progress::during("replaying the log", write) } else { write() }
    })
}

/// The header of the ticks.
const TICK_COLUMNS: &str = "time,bucket,demand,demand_max,arrivals,room_mean,room_most";

fn write_snapshots(
    workload: &Workload,
    catalog: &Catalog,
    tick: Span,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut done = writeln!(to, "{TICK_COLUMNS}");
    snapshots(workload, catalog, tick.as_seconds(), &mut |tick| {
        let mut rows = catalog.buckets().iter().zip(&tick.buckets);
        if done.is_ok() {
            done = rows.try_for_each(|(bucket, BucketTick { demand, .. })| {
                writeln!(to, "{},{},{demand},{demand},0,0,0", tick.time.timestamp(), bucket.name)
            });
        }
    });
    done
}

fn write_ticks(
    workload: &Workload,
    catalog: &Catalog,
    tick: Span,
    to: &mut dyn io::Write,
) -> io::Result<()> {
    let mut history = History::new(catalog);
    let mut done = writeln!(to, "{TICK_COLUMNS}");
    ticks(workload, catalog, SchedulerKind::Pack, tick.as_seconds(), &mut |tick, _| {
        if done.is_err() {
            return;
        }
        history.record(tick.clone());
        let (arrivals, rooms) = (arrivals(&history, tick), room(&history, tick));
        let rows = catalog.buckets().iter().zip(&tick.buckets).zip(arrivals).zip(rooms);
        done = rows.into_iter().try_for_each(|(((bucket, seen), arrivals), room)| {
            let (time, BucketTick { demand, demand_max, .. }) = (tick.time.timestamp(), seen);
            let RoomNodes { mean, most } = room;
            writeln!(
                to,
                "{time},{},{demand},{demand_max},{arrivals:.5},{mean:.5},{most:.5}",
                bucket.name
            )
        });
    });
    done
}

fn read(
    path: &Path,
    columns: Option<&Mapping>,
    lenient: bool,
    strict: bool,
) -> anyhow::Result<Trace> {
    let read = || traces::read(path, columns, lenient);
    let trace = progress::during(&format!("reading {}", path.display()), read)?;
    check_units(&path.display().to_string(), &trace, strict)?;
    Ok(trace)
}

/// The catalog of a file, or one of instance types that suit the log.
fn catalog_for(trace: &Trace, path: Option<&Path>) -> anyhow::Result<Catalog> {
    let file = match path {
        Some(path) => input::catalog(path)?,
        None => default_types(&trace.jobs),
    };
    file.catalog().context("the catalog is invalid")
}

fn run_describe(args: &DescribeArgs) -> anyhow::Result<()> {
    let staged = output::stage(args.out.as_deref(), "description.json", &args.overwrite)?;
    let (trace, delays, catalog) = match (&args.trace, &args.data) {
        (None, Some(data)) => recorded_log(data, args.data_policy.as_deref())?,
        (file, _) => {
            let file = file.as_deref().unwrap_or(Path::new("-"));
            let trace = read(file, args.columns.as_ref(), args.lenient, args.strict)?;
            let catalog = catalog_for(&trace, args.catalog.as_deref())?;
            (trace, Vec::new(), catalog)
        }
    };
    check_span(&trace, None, args.tick)?;
    let workload = Workload::new(&trace.jobs, &catalog);
    let allocation = allocation(args, &trace)?;
    let mut description = progress::during("replaying the log", || {
        let series = offered(&workload, &catalog, SchedulerKind::Pack);
        let buckets = catalog.buckets().iter().map(|bucket| bucket.name.clone());
        let demand: Vec<_> = buckets.zip(series.buckets).collect();
        describe(&trace, &demand, &delays, allocation, args.tick.as_seconds())
    });
    // One statement of all that the description leaves out.
    let too_large: Vec<String> =
        workload.unplaceable.iter().map(|pods| pods.sentence(&catalog)).collect();
    if !too_large.is_empty() {
        let noted = Some(description.notes).filter(|_| trace.notes != Notes::default());
        description.notes = noted.into_iter().chain(too_large).collect::<Vec<_>>().join("; ");
    }
    let document = report::versioned(serde_json::to_value(&description)?);
    if let Some(staged) = staged {
        staged.write("description.json", |to| Ok(serde_json::to_writer_pretty(to, &document)?))?;
        let page = description_page(&description);
        staged.write("description.html", |to| to.write_all(page.as_bytes()))?;
        eprintln!("wrote {}", staged.finish()?.join("description.html").display());
    }
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => output::print_document(args.output, &document),
        OutputFormat::Table => output::print(&table(&description, args.tick)),
    }
}

/// The shares of the machines that jobs request and use, if there is a file of machines.
fn allocation(args: &DescribeArgs, trace: &Trace) -> anyhow::Result<Option<Allocation>> {
    let Some(path) = &args.machines else { return Ok(None) };
    let machines = Machines::read(path)?;
    let Some(path) = &args.usage else {
        return Ok(Some(Allocation::of(trace, &machines, &BTreeMap::new())));
    };
    // The name of a task is its collection and its index.
    let collection = |job: &Job| Some((job.name.split_once('/')?.0.parse().ok()?, job.priority));
    let priorities: HashMap<i64, i32> = trace.jobs.iter().filter_map(collection).collect();
    let priority = |collection| priorities.get(&collection).copied();
    let used = read_used(path, Allocation::window(trace), &priority)?;
    Ok(Some(Allocation::of(trace, &machines, &used)))
}

fn table(description: &Description, tick: Span) -> String {
    let Description {
        trace,
        format,
        jobs,
        days,
        notes,
        demand,
        arrivals_by_hour,
        autocorrelation,
        consumption,
        cpu_memory_correlation,
        inter_arrival,
        tiers,
        scheduling_delays,
        allocation,
        first_submit: _,
        accelerators_rounded_up: _,
    } = description;
    let mut text = format!("{trace}: {format}, {jobs} jobs in {days:.1} days; {notes}\n\n");
    let _ = writeln!(text, "{:<22} {:>10} {:>8} {:>8}", "offered demand", "mean", "p95", "peak");
    for bucket in demand {
        let _ = writeln!(
            text,
            "{:<22} {:>10.1} {:>8} {:>8}",
            bucket.bucket, bucket.mean, bucket.p95, bucket.peak
        );
    }
    let most = arrivals_by_hour.iter().copied().max().unwrap_or(0).max(1);
    let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |n: &u64| bars[usize::try_from(n * 7 / most).unwrap_or(0)];
    let least = arrivals_by_hour.iter().copied().min().unwrap_or(0);
    let picture: String = arrivals_by_hour.iter().map(bar).collect();
    let _ = writeln!(text, "\narrivals by hour      {picture}  from {least} to {most} jobs");
    let _ = writeln!(
        text,
        "autocorrelation       {} after {tick}, {} after 1h, {} after 1d",
        number(autocorrelation.tick),
        number(autocorrelation.hour),
        number(autocorrelation.day)
    );
    let InterArrival { mean, percentiles, ccdf: _ } = inter_arrival;
    let _ = writeln!(
        text,
        "between submissions   {} s on average, median {}, 99 % {}, most {}",
        number(*mean),
        number(percentiles.p50),
        number(percentiles.p99),
        number(percentiles.max)
    );
    for one in consumption {
        let Consumption { resource, jobs, percentiles, mean, variance, tail, ccdf: _ } = one;
        let Percentiles { p50, p90, p99, p99_9, max } = percentiles;
        let sizes = [*mean, *variance, *p50, *p90, *p99, *p99_9, *max].map(number);
        let [mean, variance, p50, p90, p99, p99_9, max] = sizes;
        let delays = tail
            .delays
            .map(|Delay { load, delay }| format!("{} % {}", number(100.0 * load), number(delay)));
        let _ = write!(
            text,
            "\n{resource} of {jobs} jobs\n  {:<20}mean {mean}, variance {variance}\n  {:<20}50 % {p50}, 90 % {p90}, 99 % {p99}, 99.9 % {p99_9}, most {max}\n  {:<20}the top 1 % of jobs take {} %, the top 0.1 % {} %\n  {:<20}C² {}, Pareto index {} from {} to {} (R² {})\n  {:<20}{}\n  {:<20}mean sizes, by the load of a queue with one server\n",
            "size of a job",
            "percentiles",
            "tail",
            number(100.0 * tail.top_1_percent_share),
            number(100.0 * tail.top_0_1_percent_share),
            "",
            number(tail.squared_coefficient_of_variation),
            number(tail.pareto_index),
            number(tail.pareto_from),
            number(tail.pareto_to),
            number(tail.pareto_r2),
            "queueing delay",
            delays.join(", "),
            "",
        );
    }
    if cpu_memory_correlation.is_finite() {
        let _ = writeln!(
            text,
            "\ncorrelation of core-hours and GiB-hours: {}",
            number(*cpu_memory_correlation)
        );
    }
    text += &tiers_tables(tiers, scheduling_delays);
    text += &allocation.as_ref().map_or_else(String::new, allocation_table);
    text
}

/// The shares of the machines that are requested and used.
fn allocation_table(Allocation { machines, tiers }: &Allocation) -> String {
    let Capacity { machines, cores, gib } = machines;
    let mut text =
        format!("\n{:<22}{machines:.1} on average, {cores:.1} cores, {gib:.1} GiB\n", "machines");
    let _ = writeln!(
        text,
        "{:<22} {:>10} {:>10} {:>10} {:>10}",
        "% of the machines", "CPU req.", "CPU used", "mem. req.", "mem. used"
    );
    for one in tiers {
        let shares = [one.cpu_requested, one.cpu_used, one.memory_requested, one.memory_used];
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let [a, b, c, d] =
            shares.map(|share| if share.is_nan() { "-".into() } else { percent(share) });
        let _ = writeln!(text, "{:<22} {a:>10} {b:>10} {c:>10} {d:>10}", one.tier);
    }
    text
}

/// The submissions by tier and, if they are known, the scheduling delays by tier.
fn tiers_tables(tiers: &[LogTier], scheduling_delays: &[TierDelays]) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n{:<22} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8}",
        "jobs submitted by tier", "jobs", "% of hours", "mean/h", "median", "90 %", "most"
    );
    for one in tiers {
        let _ = writeln!(
            text,
            "{:<22} {:>9} {:>10} {:>8} {:>8} {:>8} {:>8}",
            one.tier,
            one.jobs,
            number(100.0 * one.share),
            number(one.mean_per_hour),
            number(one.per_hour.p50),
            number(one.per_hour.p90),
            number(one.per_hour.max)
        );
    }
    if !scheduling_delays.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<22} {:>9} {:>10} {:>8} {:>8} {:>8}",
            "scheduling delay, s", "pods", "50 %", "90 %", "99 %", "most"
        );
    }
    for TierDelays { tier, pods, percentiles, ccdf: _ } in scheduling_delays {
        let Percentiles { p50, p90, p99, p99_9: _, max } = percentiles;
        let [p50, p90, p99, max] = [*p50, *p90, *p99, *max].map(number);
        let _ = writeln!(text, "{tier:<22} {pods:>9} {p50:>10} {p90:>8} {p99:>8} {max:>8}");
    }
    text
}
