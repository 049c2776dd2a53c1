//! Shared by the commands that replay a job log: the log, its catalog and the settings.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use chrono::DateTime;
use clap::builder::PossibleValuesParser;
use embedder::Catalog;
use indicatif::{ProgressBar, ProgressStyle};
use placeholders::Objective;

use super::{input, output};
use crate::catalog::{CatalogFile, default_types, instance_type, instance_types};
use crate::forecast::{Method, onnx};
use crate::replay::Workload;
use crate::simulate::{
    LaunchLatency, NamedPolicy, SimulationSettings, TimePoint, WAIT_SECONDS_MAX,
};
use crate::span::Span;
use crate::trace;
use crate::trace::{Recipe, Trace};

#[derive(clap::Args)]
pub(super) struct LogArgs {
    /// The job log: Philly CSV, SWF, openb, Borg 2019 or Prophet's own table, gzipped or plain
    /// [default: a synthetic log]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Skip bad lines of the log, and report their number
    #[arg(long)]
    lenient: bool,
    /// The start of the evaluated time: a date, a date-time, or an offset from the first job (8d);
    /// earlier jobs only warm up the state [default: the first job]
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
    catalog: Option<PathBuf>,
    /// Replaces the costs: the fraction of launches that ensemble hides, and the quantile that
    /// other methods hold
    #[arg(long, visible_alias = "service-level", value_name = "Q", value_parser = quantile)]
    quantile: Option<f64>,
    /// Dollars per pending pod-hour [default: 9]
    #[arg(long, value_name = "D", value_parser = price, requires = "idle_cost", conflicts_with = "quantile")]
    wait_cost: Option<f64>,
    /// Dollars per idle instance-hour [default: 1]
    #[arg(long, value_name = "D", value_parser = price, requires = "wait_cost")]
    idle_cost: Option<f64>,
    /// The trained model that onnx and ensemble use [default: the shipped model]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The ONNX Runtime library that runs the model [default: the embedded engine]
    #[arg(long, value_name = "PATH", env = "PROPHET_ONNX_RUNTIME")]
    onnx_runtime: Option<PathBuf>,
    /// The time between decisions while demand does not change [default: 1m]
    #[arg(long, value_name = "TIME")]
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

/// The default of `--from` for the synthetic log: the first 14 of its 21 days warm up the state.
const SYNTHETIC_FROM: &str = "14d";

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
        self.set_files(&mut settings)?;
        if let (Some(wait), Some(idle)) = (self.wait_cost, self.idle_cost) {
            settings.policy.objective = Objective::Costs { wait, idle };
        }
        if let Some(q) = self.quantile {
            settings.policy.objective = Objective::Quantile(q);
        }
        settings.lenient |= self.lenient;
        settings.from = self.from.clone().or(settings.from);
        settings.until = self.until.clone().or(settings.until);
        set(&mut settings.tick, self.tick);
        set(&mut settings.launch_latency, self.launch_latency);
        set(&mut settings.seed, self.seed);
        more(&mut settings);
        settings.check().context("invalid options")?;
        Ok(settings)
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
        Ok(())
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
        let mut trace = load(&mut settings)?;
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
        let named = self.settings.as_ref().map(|path| path.display().to_string());
        settings.check_names(&catalog).context(named.unwrap_or("invalid options".into()))?;
        let workload = Workload::new(&trace.jobs, &catalog);
        for unplaceable in &workload.unplaceable {
            eprintln!("note: {}", unplaceable.sentence(&catalog));
        }
        if workload.jobs_within(window) == 0 {
            bail!(
                "no job is evaluated: between --from and --until no job is submitted that fits an instance type"
            );
        }
        Ok(LoadedLog { settings, trace, catalog, workload, window })
    }
}

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
    if !named && !has(Method::Onnx) && !has(Method::Ensemble) {
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
    if named || !has(Method::Ensemble) {
        return Err(error);
    }
    eprintln!("note: the ensemble runs without a model: {error:#}");
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
        let recipe = Recipe { seed: settings.seed, ..Recipe::default() };
        settings.from.get_or_insert(SYNTHETIC_FROM.parse().map_err(anyhow::Error::msg)?);
        eprintln!("note: without --trace, this is a synthetic log of {} days", recipe.days);
        return Ok(recipe.trace());
    };
    let trace = trace::read(Path::new(path), settings.lenient)?;
    if trace.notes != trace::Notes::default() {
        eprintln!("note: {path}: {}", trace.notes);
    }
    Ok(trace)
}

/// The evaluated time: its first second and the second after its last, in the log's seconds.
///
/// # Errors
/// The log has no job, or the time is empty or after the last job.
fn window(settings: &SimulationSettings, trace: &Trace) -> anyhow::Result<(i64, i64)> {
    let (first, last) = match (trace.jobs.first(), trace.jobs.last()) {
        (Some(first), Some(last)) => (first.submit, last.submit),
        _ => bail!("{}: the log has no job", trace.source),
    };
    let from = settings.from.as_ref().map_or(first, |from| from.seconds(first));
    let until = settings.until.as_ref().map_or(last + 1, |until| until.seconds(first));
    if from > last {
        let after = Span::try_from(format!("{}s", from - last)).unwrap_or_default();
        bail!("no job is evaluated: --from is {after} after the last job");
    }
    if until <= from {
        bail!("no job is evaluated: --until is not after --from");
    }
    if from <= first {
        eprintln!(
            "note: no job precedes --from: policies that learn start untrained, and static-max holds no placeholders"
        );
    }
    Ok((from, until))
}

/// Creates the folder of `--out` and checks that it is writable, so that errors come before the
/// long runs.
pub(super) fn make_folder(out: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = out else { return Ok(()) };
    let failed = || format!("failed to write into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    tempfile::tempfile_in(folder).with_context(failed)?;
    Ok(())
}

/// Writes a file into a folder atomically.
pub(super) fn write_into(
    folder: &Path,
    name: &str,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let path = folder.join(name);
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    output::write_whole(&path, |to| write(to))
}

/// Installs a handler for Ctrl-C: the first one sets the returned flag, which ends the runs; the
/// second one exits the process with code 1.
pub(super) fn stop_on_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
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

/// A progress bar, hidden where standard error is no terminal.
pub(super) fn progress_bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed} {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
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
            time(first.submit)
        );
    }
    let pairs = trace.jobs.windows(2).map(|pair| (&pair[0], &pair[1]));
    let gap = pairs.max_by_key(|(before, after)| after.submit - before.submit);
    let gap = gap.map_or(String::new(), |(before, after)| {
        let (one, other) = (time(before.submit), time(after.submit));
        format!(
            " The longest time without a job is from job {} ({one}) to job {} ({other}).",
            before.name, after.name
        )
    });
    bail!(
        "{}: {} to {} are {ticks} ticks of {tick}, more than the limit of {TICKS_MAX}: check the times, or give an earlier --until, a longer --tick or a part of the log.{gap}",
        trace.source,
        time(start),
        time(end)
    );
}

/// A time of a log: a date if it is Unix time, and the log's second otherwise. Unix times of logs
/// of clusters are above a billion seconds (2001).
fn time(seconds: i64) -> String {
    let date = DateTime::from_timestamp(seconds, 0).filter(|_| seconds >= 1_000_000_000);
    date.map_or(format!("second {seconds}"), |date| date.format("%FT%TZ").to_string())
}
