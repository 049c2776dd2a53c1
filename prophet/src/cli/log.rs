//! Shared by the commands that replay a job log: the log, its catalog and the settings.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base::span::Span;
use chrono::DateTime;
use clap::builder::PossibleValuesParser;
use demand::forecast::{Expression, Method, onnx};
use embedder::Catalog;

#[cfg(feature = "kubernetes")]
use history::Place;
use placeholders::Objective;
#[cfg(feature = "kubernetes")]
use usage::MeasuredRun;

use super::{input, progress, wrong_usage};
#[cfg(feature = "kubernetes")]
use recorded::{Recorded, RecordedWaiting, recorded};
use simulator::replay::Workload;
use simulator::{LaunchLatency, NamedPolicy, SimulationSettings, TimePoint, WAIT_SECONDS_MAX};
use traces::catalog::{CatalogFile, default_types, instance_type, instance_types};
use traces::{Admits, Job, SchedulingDelay, Trace};

#[derive(clap::Args)]
pub(super) struct LogArgs {
    /// The job log: Philly CSV, SWF, openb, Alibaba batch tasks, Borg 2019 or Prophet's own table,
    /// gzipped or plain [default: an example, four weeks of Microsoft's Philly cluster]; `-` is
    /// standard input
    #[arg(long, value_name = "FILE", value_parser = input::file())]
    trace: Option<PathBuf>,
    /// The location of a history that `prophet run --data` recorded: replay the pods that ended in
    /// your cluster, with its buckets, launch latencies and objective, pod by pod; needs a build
    /// with --features full
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["trace", "lenient"])]
    pub(super) data: Option<String>,
    /// The policy of this history, as NAMESPACE.NAME [default: the only one]
    #[arg(long, value_name = "POLICY", requires = "data", conflicts_with = "trace")]
    data_policy: Option<String>,
    /// The history, once it is read
    #[cfg(feature = "kubernetes")]
    #[arg(skip)]
    recorded: std::cell::OnceCell<Recorded>,
    /// Whether the usage of the pods of the history is needed
    #[arg(skip)]
    pub(super) with_usage: bool,
    /// Whether the instance types on offer are others than those of the history. The buckets that
    /// admit a recorded pod are assumed from its requests, then.
    #[arg(skip)]
    pub(super) other_types: bool,
    /// Skip bad lines of the log, and report their number
    #[arg(long)]
    lenient: bool,
    /// The start of the evaluated time: a date, a date-time, or an offset from the first job (8d);
    /// earlier jobs only warm up the state [default: the first job; of the example, 14d]
    #[arg(long, value_name = "T")]
    from: Option<TimePoint>,
    /// The end of the evaluated time [default: the last job]
    #[arg(long, value_name = "T")]
    until: Option<TimePoint>,
    /// AWS instance types from the built-in table [default: types that suit the log]
    #[arg(long, value_name = "TYPE", value_delimiter = ',', conflicts_with = "catalog",
          value_parser = PossibleValuesParser::new(instance_types()), hide_possible_values = true)]
    pub(super) instance_type: Vec<String>,
    /// The instance types on offer, as YAML
    #[arg(long, value_name = "FILE")]
    pub(super) catalog: Option<PathBuf>,
    /// Replaces the price of waiting: the fraction of pods that wait at most one scan with
    /// ensemble, and the quantile that other methods hold
    #[arg(long, visible_alias = "service-level", value_name = "Q", value_parser = quantile)]
    quantile: Option<f64>,
    /// The price of waiting, in dollars per pending pod-hour; idling costs the price of the
    /// instance
    #[arg(long, value_name = "D", value_parser = price, conflicts_with = "quantile")]
    wait_cost: Option<f64>,
    /// The price of waiting as a ratio: the idle instance-hours, at the mean price of the instance
    /// types, that a pending pod-hour is worth [default: 9]
    #[arg(long, value_name = "R", value_parser = price, conflicts_with_all = ["quantile", "wait_cost"])]
    wait_ratio: Option<f64>,
    /// The trained model that onnx and ensemble use [default: the shipped model]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The Transformer that the policy paper uses [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    transformer: Option<PathBuf>,
    /// The LSTM that the policy paper(lstm) uses [default: the shipped one]
    #[arg(long, value_name = "FILE")]
    lstm: Option<PathBuf>,
    /// The ONNX Runtime library that runs the model [default: the embedded engine]
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
    /// The time between decisions while demand does not change [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = tick)]
    tick: Option<Span>,
    /// The time from the request of a node to its readiness: 5m, or lognormal:MEDIAN:P95 [default:
    /// 5m]
    #[arg(long, value_name = "TIME")]
    launch_latency: Option<LaunchLatency>,
    /// A YAML or JSON file of all options; the field `settings` of `--output json` repeats a run
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// The seed of the random number generator [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn quantile(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    parsed
        .filter(|q| *q > 0.0 && *q < 1.0)
        .ok_or_else(|| "expected a number between 0 and 1".into())
}

fn price(text: &str) -> Result<f64, String> {
    let parsed: Option<f64> = text.parse().ok();
    parsed.filter(|d| *d > 0.0 && d.is_finite()).ok_or_else(|| "expected a price above 0".into())
}

/// Parses the length of a tick.
pub(super) fn tick(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span.as_seconds() == 0 { Err("must be at least 1s".into()) } else { Ok(span) }
}

/// The default of `--from` for the example log: the first 14 of its 28 days warm up the state.
const EXAMPLE_FROM: &str = "14d";

impl LogArgs {
    /// The options of the settings file, overridden by the options of the command line. `more` sets
    /// the command's own options.
    ///
    /// # Errors
    /// A file cannot be read, or the options are invalid or contradict each other.
    pub(super) fn settings(
        &self,
        more: impl FnOnce(&mut SimulationSettings),
    ) -> anyhow::Result<SimulationSettings> {
        let mut settings = match &self.settings {
            None => SimulationSettings::default(),
            Some(path) => input::settings(path)?,
        };
        if let Some(data) = &self.data {
            settings.data = Some(data.clone());
            settings.data_policy = self.data_policy.clone().or(settings.data_policy);
        }
        // The settings of a report have the recorded buckets already.
        if self.data.is_some() || (settings.data.is_some() && settings.catalog.is_none()) {
            self.take_over_recorded(&mut settings)?;
        }
        self.set_files(&mut settings)?;
        settings.policy.objective = self.objective(settings.policy.objective);
        settings.lenient |= self.lenient;
        settings.from = self.from.clone().or(settings.from);
        settings.until = self.until.clone().or(settings.until);
        set(&mut settings.tick, self.tick);
        set(&mut settings.launch_latency, self.launch_latency);
        set(&mut settings.seed, self.seed);
        more(&mut settings);
        match (settings.check(), &self.settings) {
            (Ok(()), _) => Ok(settings),
            (Err(error), Some(path)) => Err(error).context(path.display().to_string()),
            (Err(error), None) => Err(wrong_usage::conflict(format!("invalid options: {error}"))),
        }
    }

    /// The objective of the options, or that of the settings file.
    fn objective(&self, before: Objective) -> Objective {
        let quantile = self.quantile.map(Objective::Quantile);
        let cost = self.wait_cost.map(Objective::WaitCost);
        let ratio = self.wait_ratio.map(Objective::WaitRatio);
        quantile.or(cost).or(ratio).unwrap_or(before)
    }

    fn set_files(&self, settings: &mut SimulationSettings) -> anyhow::Result<()> {
        if let Some(trace) = &self.trace {
            settings.trace = Some(trace.display().to_string());
        }
        if let Some(path) = &self.catalog {
            settings.catalog = Some(input::catalog(path)?);
        } else if !self.instance_type.is_empty() {
            let types = self.instance_type.iter().filter_map(|name| instance_type(name)).collect();
            settings.catalog = Some(CatalogFile { instance_types: types });
        }
        if let Some(path) = &self.model {
            settings.model = Some(path.display().to_string());
        }
        if let Some(path) = &self.transformer {
            settings.transformer = Some(path.display().to_string());
        }
        if let Some(path) = &self.lstm {
            settings.lstm = Some(path.display().to_string());
        }
        Ok(())
    }

    /// The file of the job log.
    pub(super) fn trace(&self) -> Option<&Path> {
        self.trace.as_deref()
    }

    /// Fails if the model in `file` cannot be run, so that the error comes before the long runs.
    pub(super) fn check_network(&self, file: &str) -> anyhow::Result<()> {
        usable(&onnx::ModelSource::File(file.into()), self.onnx_runtime.as_deref()).map(|_| ())
    }

    /// Reads the log, and prepares its replay. `more` sets the options that depend on the log.
    ///
    /// # Errors
    /// The log cannot be read, the settings do not match it, or no job is within the evaluated
    /// time.
    pub(super) fn replay(
        &self,
        mut settings: SimulationSettings,
        more: impl FnOnce(&mut SimulationSettings, &Trace),
    ) -> anyhow::Result<LoadedLog> {
        check_network(&settings, self.onnx_runtime.as_deref())?;
        let mut trace = match &settings.data {
            Some(_) => self.recorded_trace(&settings)?,
            None => load(&mut settings)?,
        };
        if self.other_types {
            trace.jobs.iter_mut().for_each(|job| job.work.admits = Admits::Assumed);
        }
        more(&mut settings, &trace);
        let window = window(&settings, &trace)?;
        // Runs end at most this long after the window, so later jobs have no effect.
        let end = window.1.saturating_add(WAIT_SECONDS_MAX);
        trace.jobs.retain(|job| job.submit < end);
        check_span(&trace, Some(window), settings.tick)?;
        let catalog = {
            let entries = || CatalogFile { instance_types: default_types(&trace.jobs) };
            settings
                .catalog
                .get_or_insert_with(entries)
                .catalog()
                .context("the catalog is invalid")?
        };
        check_paper(&settings, &catalog, self.onnx_runtime.as_deref())?;
        let named = self.settings.as_ref().map(|path| path.display().to_string());
        settings.check_names(&catalog).context(named.unwrap_or("invalid options".into()))?;
        settings.spot_for.mark(&mut trace.jobs, settings.seed);
        let workload = Workload::new(&trace.jobs, &catalog);
        for unplaceable in &workload.unplaceable {
            eprintln!("note: {}", unplaceable.sentence(&catalog));
        }
        if workload.jobs_within(window) == 0 {
            bail!(
                "no job is evaluated: from {} until {}, no job is submitted that fits an instance type; {}",
                date_time(window.0),
                date_time(window.1),
                covered(&trace)
            );
        }
        Ok(LoadedLog { settings, trace, catalog, workload, window })
    }
}

/// Histories, in builds that can read them.
#[cfg(feature = "kubernetes")]
impl LogArgs {
    /// Sets the options that the history has: buckets, launch latency, and objective.
    fn take_over_recorded(&self, settings: &mut SimulationSettings) -> anyhow::Result<()> {
        let recorded = read_recorded(settings, self.with_usage)?;
        recorded.set(settings);
        // It is empty, because options are combined once.
        let _ = self.recorded.set(recorded);
        Ok(())
    }

    /// What the pods of the history used. Empty before [`Self::settings`] has read the history.
    pub(super) fn recorded_usage(&self) -> &[MeasuredRun] {
        self.recorded.get().map_or(&[], |recorded| &recorded.usage)
    }

    /// The finished pods of the history.
    fn recorded_trace(&self, settings: &SimulationSettings) -> anyhow::Result<Trace> {
        let read;
        let recorded = if let Some(recorded) = self.recorded.get() {
            recorded
        } else {
            read = read_recorded(settings, self.with_usage)?;
            &read
        };
        Ok(pods_of(recorded, settings.data.clone().unwrap_or_default()))
    }
}

/// The pods of a history as a log. Prints how long they really waited.
#[cfg(feature = "kubernetes")]
fn pods_of(recorded: &Recorded, source: String) -> Trace {
    let RecordedWaiting { pods, earlier, hidden, seconds } = recorded.waiting;
    if earlier > 0 {
        eprintln!(
            "note: {earlier} pods are left out, because they were created before the first line"
        );
    }
    eprintln!(
        "note: recorded: {pods} pods ended, {:.1} % of them waited at most one scan, {:.1} pending pod-hours",
        100.0 * hidden as f64 / pods.max(1) as f64,
        seconds as f64 / 3_600.0
    );
    Trace {
        source,
        format: traces::Format::History,
        jobs: recorded.jobs.clone(),
        notes: traces::Notes::default(),
    }
}

/// The pods of a history as a log, their scheduling delays, and the buckets of the history.
#[cfg(feature = "kubernetes")]
pub(super) fn recorded_log(
    data: &str,
    policy: Option<&str>,
) -> anyhow::Result<(Trace, Vec<SchedulingDelay>, Catalog)> {
    let settings = SimulationSettings {
        data: Some(data.into()),
        data_policy: policy.map(Into::into),
        ..SimulationSettings::default()
    };
    let recorded = read_recorded(&settings, false)?;
    Ok((pods_of(&recorded, data.into()), recorded.delays, recorded.catalog))
}

#[cfg(not(feature = "kubernetes"))]
pub(super) fn recorded_log(
    _: &str,
    _: Option<&str>,
) -> anyhow::Result<(Trace, Vec<SchedulingDelay>, Catalog)> {
    Err(wrong_usage::conflict(NO_HISTORY))
}

#[cfg(feature = "kubernetes")]
fn read_recorded(settings: &SimulationSettings, with_usage: bool) -> anyhow::Result<Recorded> {
    let data = settings.data.clone().unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let place = Place::existing(&data)?;
    let read = async {
        let policies = place.policies().await?;
        let policy = match (&settings.data_policy, &*policies) {
            (Some(policy), all) if all.contains(policy) => policy,
            (Some(policy), _) => {
                bail!("there is no policy {policy}, only {}", policies.join(", "))
            }
            (None, [only]) => only,
            (None, []) => bail!("there is no history"),
            (None, _) => bail!("give --data-policy: one of {}", policies.join(", ")),
        };
        Ok(recorded(&place, policy, with_usage).await?)
    };
    let recorded = runtime.block_on(read).context(data)?;
    for fault in &recorded.report.faults {
        eprintln!("prophet: skipped: {fault}");
    }
    Ok(recorded)
}

#[cfg(not(feature = "kubernetes"))]
#[expect(clippy::unused_self, reason = "the other builds use it")]
impl LogArgs {
    fn take_over_recorded(&self, _: &mut SimulationSettings) -> anyhow::Result<()> {
        Err(wrong_usage::conflict(NO_HISTORY))
    }

    fn recorded_trace(&self, _: &SimulationSettings) -> anyhow::Result<Trace> {
        Err(wrong_usage::conflict(NO_HISTORY))
    }
}

/// The error of a build that cannot read histories.
#[cfg(not(feature = "kubernetes"))]
const NO_HISTORY: &str =
    "this build cannot read a history: build it with cargo build --release --features full";

/// A log that is ready for the replay.
pub(super) struct LoadedLog {
    pub(super) settings: SimulationSettings,
    pub(super) trace: Trace,
    pub(super) catalog: Catalog,
    pub(super) workload: Workload,
    /// The evaluated time: its first second and the second after its last, in the log's seconds.
    pub(super) window: (i64, i64),
}

/// Starts the engine and loads the model if a policy uses it or an option names it, so that errors
/// come before the long runs. Without an explicit `--model` or `--onnx-runtime`, the ensemble runs
/// without a model.
fn check_network(settings: &SimulationSettings, library: Option<&Path>) -> anyhow::Result<()> {
    let has = |method| {
        settings.policies.iter().any(|p| matches!(p, NamedPolicy::Forecast(m, _) if *m == method))
    };
    let named = library.is_some() || settings.model.is_some();
    let reads_forecast = settings.expression.as_ref().is_some_and(Expression::reads_forecast);
    let ensemble = has(Method::Ensemble) || (has(Method::Expression) && reads_forecast);
    if !named && !has(Method::Onnx) && !ensemble {
        return Ok(());
    }
    let source = settings.model_source();
    let tick = settings.tick;
    let fits = |model: onnx::Model| {
        let of_model = model.spec().tick_seconds;
        anyhow::ensure!(
            of_model % tick.as_seconds() == 0,
            "{source} has ticks of {of_model} s, which are no multiple of --tick {tick}"
        );
        Ok(())
    };
    let Err(error) = usable(&source, library).and_then(fits) else {
        return Ok(());
    };
    if named || !ensemble {
        return Err(error);
    }
    eprintln!("note: the ensemble runs without a model: {error:#}");
    Ok(())
}

/// Loads the networks of the policies `paper`. A network that an option names must suit the
/// buckets; if the shipped one does not, `paper` holds the ladder.
fn check_paper(
    settings: &SimulationSettings,
    catalog: &Catalog,
    library: Option<&Path>,
) -> anyhow::Result<()> {
    let suits = |model: onnx::Model| {
        let known = |name: &String| catalog.buckets().iter().any(|bucket| bucket.name == *name);
        let names = model.spec().buckets.clone().unwrap_or_default();
        anyhow::ensure!(
            names.iter().all(known),
            "it was trained for the instance types {}: give them with --catalog",
            names.join(", ")
        );
        Ok(())
    };
    for named_policy in &settings.policies {
        let NamedPolicy::Paper(forecast) = named_policy else { continue };
        let Some(source) = settings.paper_network(*forecast) else { continue };
        let Err(error) = usable(&source, library).and_then(suits) else { continue };
        if matches!(source, onnx::ModelSource::File(_)) {
            return Err(error.context(source.to_string()));
        }
        eprintln!("note: {named_policy} holds the ladder, without {source}: {error:#}");
    }
    Ok(())
}

/// Loads a model. Fails if the engine cannot start or cannot run the model.
fn usable(source: &onnx::ModelSource, library: Option<&Path>) -> anyhow::Result<onnx::Model> {
    let engine = onnx::start(library)?;
    source.load().map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{source} cannot be run by {engine}: {}", faults.join("; "))
    })
}

/// Overwrites a setting if its option was given on the command line.
pub(super) fn set<T>(field: &mut T, typed: Option<T>) {
    if let Some(value) = typed {
        *field = value;
    }
}

fn load(settings: &mut SimulationSettings) -> anyhow::Result<Trace> {
    let Some(path) = &settings.trace else {
        settings.from.get_or_insert(EXAMPLE_FROM.parse().map_err(anyhow::Error::msg)?);
        eprintln!(
            "note: without --trace, this is an example: four weeks of Microsoft's Philly cluster"
        );
        return Ok(traces::example()?);
    };
    let read = || traces::read(Path::new(path), settings.lenient);
    let trace = progress::during(&format!("reading {path}"), read)?;
    if trace.notes != traces::Notes::default() {
        eprintln!("note: {path}: {}", trace.notes);
    }
    Ok(trace)
}

/// The evaluated time: its first second and the second after its last, in the log's seconds.
///
/// # Errors
/// The log has no job, or the time is empty or outside of the log.
fn window(settings: &SimulationSettings, trace: &Trace) -> anyhow::Result<(i64, i64)> {
    let (first, last) = match (trace.jobs.first(), trace.jobs.last()) {
        (Some(first), Some(last)) => (first.submit, last.submit),
        _ => bail!("{}: the log has no job", trace.source),
    };
    let covered = covered(trace);
    let time = |point: &Option<TimePoint>| {
        point.as_ref().map(|point| (point.seconds(first), time_point(point, first)))
    };
    let (from, until) = (time(&settings.from), time(&settings.until));
    match (&from, &until) {
        (Some((from, shown)), _) if *from > last => {
            bail!("no job is evaluated: --from {shown} is after the log's end; {covered}")
        }
        (_, Some((until, shown))) if *until <= first => {
            bail!("no job is evaluated: --until {shown} is not after the log's start; {covered}")
        }
        (Some((from, shown_from)), Some((until, shown))) if until <= from => {
            bail!(
                "no job is evaluated: --until {shown} is not after --from {shown_from}; {covered}"
            )
        }
        (_, Some((until, shown))) if *until > last + 1 => eprintln!(
            "note: --until {shown} is after the log's end, so the evaluated time ends with the last job; {covered}"
        ),
        _ => {}
    }
    let from = from.map_or(first, |(from, _)| from);
    let until = until.map_or(last + 1, |(until, _)| until.min(last + 1));
    Ok((from, until))
}

/// Prints a note if no job precedes the evaluated time.
pub(super) fn warn_untrained(LoadedLog { settings, trace, window, .. }: &LoadedLog) {
    let Some(first) = trace.jobs.first().map(|job| job.submit).filter(|first| window.0 <= *first)
    else {
        return;
    };
    let from = settings.from.as_ref().map(|from| time_point(from, first));
    eprintln!(
        "note: no job precedes --from {}: policies that learn start untrained, and static-max holds no placeholders; {}",
        from.unwrap_or_else(|| "(by default the first job)".into()),
        covered(trace)
    );
}

/// The submissions that a log covers, for messages.
pub(super) fn covered(trace: &Trace) -> String {
    let time = |job: Option<&Job>| job.map_or_else(|| "-".into(), |job| date_time(job.submit));
    format!("the log covers {} to {}", time(trace.jobs.first()), time(trace.jobs.last()))
}

/// A point in time as it was given, followed by its date if it was an offset from the first job.
fn time_point(point: &TimePoint, first: i64) -> String {
    let given = point.to_string();
    match given.parse::<Span>() {
        Ok(_) => format!("{given} ({})", date_time(point.seconds(first))),
        Err(_) => given,
    }
}

/// A time of a log: a date and a time in UTC if it is Unix time, and the log's second otherwise.
/// Unix times of logs of clusters are above a billion seconds (2001).
fn date_time(seconds: i64) -> String {
    let date = DateTime::from_timestamp(seconds, 0).filter(|_| seconds >= 1_000_000_000);
    date.map_or(format!("second {seconds}"), |date| date.format("%Y-%m-%d %H:%M").to_string())
}

/// The largest number of ticks of a replay: five years of one-minute ticks. The longest public logs
/// cover less, and a longer one most likely has a wrong time in it. The limit also bounds the
/// memory of a backtest, which keeps all ticks.
const TICKS_MAX: i64 = 5 * 366 * 1_440;

/// Fails if a log and the evaluated time have more than `TICKS_MAX` ticks together.
pub(super) fn check_span(
    trace: &Trace,
    window: Option<(i64, i64)>,
    tick: Span,
) -> anyhow::Result<()> {
    let (Some(first), Some(last)) = (trace.jobs.first(), trace.jobs.last()) else {
        return Ok(());
    };
    let (from, until) = window.unwrap_or((first.submit, last.submit));
    let (start, end) = (first.submit.min(from), last.submit.max(until.saturating_sub(1)));
    let ticks = end.saturating_sub(start) / tick.as_seconds().max(1);
    if ticks <= TICKS_MAX {
        return Ok(());
    }
    if start < first.submit {
        bail!(
            "--from is before the first job, at {}, by more than {TICKS_MAX} ticks",
            date_time(first.submit)
        );
    }
    let pairs = trace.jobs.windows(2).map(|pair| (&pair[0], &pair[1]));
    let gap = pairs.max_by_key(|(before, after)| after.submit - before.submit);
    let gap = gap.map_or(String::new(), |(before, after)| {
        let (one, other) = (date_time(before.submit), date_time(after.submit));
        format!(
            " The longest time without a job is from job {} ({one}) to job {} ({other}).",
            before.name, after.name
        )
    });
    bail!(
        "{}: {} to {} are {ticks} ticks of {tick}, more than the limit of {TICKS_MAX}: check the times, or give an earlier --until, a longer --tick or a part of the log.{gap}",
        trace.source,
        date_time(start),
        date_time(end)
    );
}
