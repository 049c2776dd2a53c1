//! What commands that replay a job log share: the log, its catalog, and the settings that name them.

use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;
use embedder::Catalog;
use indicatif::{ProgressBar, ProgressStyle};
use placeholders::Objective;

use super::output;
use crate::catalog::{CatalogFile, default_types, instance_type, instance_types};
use crate::forecast::{Method, onnx};
use crate::simulate::{Contender, LaunchLatency, Moment, Settings, Unplaceable, Workload};
use crate::span::Span;
use crate::trace::{self, Recipe, Trace};

#[derive(clap::Args)]
pub(super) struct LogArgs {
    /// The job log: Philly CSV, SWF, openb, Borg 2019 or our own table, .gz or not; a synthetic one when absent
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Pass over bad lines of the log, and say how many there were
    #[arg(long)]
    lenient: bool,
    /// What counts begins here: a date, a date-time, or an offset from the first job (8d); what precedes warms up [default: the first job]
    #[arg(long, value_name = "T")]
    from: Option<Moment>,
    /// What counts ends here [default: the last job]
    #[arg(long, value_name = "T")]
    until: Option<Moment>,
    /// An AWS instance type from the built-in table; chosen to suit the log when absent
    #[arg(long, value_name = "TYPE", value_delimiter = ',', conflicts_with = "catalog",
          value_parser = PossibleValuesParser::new(instance_types()), hide_possible_values = true)]
    pub(super) instance_type: Vec<String>,
    /// The instance types on offer, as YAML
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
    /// Instead of costs: the share of launches that ensemble is to hide, the quantile that other methods hold
    #[arg(long, visible_alias = "service-level", value_name = "Q", value_parser = quantile)]
    quantile: Option<f64>,
    /// Dollars per pending pod-hour [default: 9]
    #[arg(long, value_name = "D", value_parser = price, requires = "idle_cost", conflicts_with = "quantile")]
    wait_cost: Option<f64>,
    /// Dollars per idle instance-hour [default: 1]
    #[arg(long, value_name = "D", value_parser = price, requires = "wait_cost")]
    idle_cost: Option<f64>,
    /// The network that onnx and ensemble hear [default: the one that is shipped]
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
    /// All options, as YAML or JSON: what `--output json` prints as `settings` repeats a run
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// What all randomness derives from [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
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

impl LogArgs {
    /// The options of the settings file, overridden by what was typed; what else was typed is set by `more`.
    pub(super) fn settings(&self, more: impl FnOnce(&mut Settings)) -> anyhow::Result<Settings> {
        let mut settings = match &self.settings {
            None => Settings::default(),
            Some(path) => {
                Settings::parse(&output::read_text(path)?).with_context(|| path.display().to_string())?
            }
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
        let named = self
            .settings
            .as_deref()
            .map_or("the options make no sense".into(), |path| path.display().to_string());
        settings.check().context(named)?;
        Ok(settings)
    }

    fn set_files(&self, settings: &mut Settings) -> anyhow::Result<()> {
        if let Some(trace) = &self.trace {
            settings.trace = Some(trace.display().to_string());
        }
        if let Some(path) = &self.catalog {
            let file =
                CatalogFile::parse(&output::read_text(path)?).with_context(|| path.display().to_string())?;
            file.catalog().with_context(|| path.display().to_string())?;
            settings.catalog = Some(file);
        } else if !self.instance_type.is_empty() {
            let types = self.instance_type.iter().filter_map(|name| instance_type(name)).collect();
            settings.catalog = Some(CatalogFile { instance_types: types });
        }
        if let Some(path) = &self.model {
            settings.model = Some(path.display().to_string());
        }
        Ok(())
    }

    /// Whether a network of this name can be run: better now than in the middle of the runs.
    pub(super) fn check_network(&self, name: &str, file: &str) -> anyhow::Result<()> {
        usable(name, &onnx::Source::File(file.into()), self.onnx_runtime.as_deref())
    }

    /// Reads the log and makes all ready; `more` sets what depends on the log.
    pub(super) fn replay(
        &self,
        mut settings: Settings,
        more: impl FnOnce(&mut Settings, &Trace),
    ) -> anyhow::Result<Replay> {
        check_network(&settings, self.onnx_runtime.as_deref())?;
        let trace = load(&mut settings)?;
        more(&mut settings, &trace);
        let catalog = {
            let entries = || CatalogFile { instance_types: default_types(&trace.jobs) };
            settings.catalog.get_or_insert_with(entries).catalog().context("the catalog makes no sense")?
        };
        settings.check_names(&catalog).context("the settings make no sense")?;
        let workload = Workload::new(&trace.jobs, &catalog);
        for Unplaceable { first, jobs, reason } in &workload.unplaceable {
            eprintln!(
                "note: {jobs} jobs fit on no instance type and are left out ({reason}; the first is job {first})"
            );
        }
        let window = window(&settings, &trace)?;
        if workload.jobs_within(window) == 0 {
            bail!("no job counts: none that fits an instance type is submitted between --from and --until");
        }
        Ok(Replay { settings, trace, catalog, workload, window })
    }
}

/// A log that is ready to be replayed.
pub(super) struct Replay {
    pub(super) settings: Settings,
    pub(super) trace: Trace,
    pub(super) catalog: Catalog,
    pub(super) workload: Workload,
    /// The seconds in which jobs and hours count.
    pub(super) window: (i64, i64),
}

/// Starts the engine and loads the network, where a policy hears one: better now than in the middle of the runs.
fn check_network(settings: &Settings, library: Option<&Path>) -> anyhow::Result<()> {
    let has =
        |method| settings.policies.iter().any(|p| matches!(p, Contender::Forecast(m, _) if *m == method));
    if !has(Method::Onnx) && !has(Method::Ensemble) {
        return Ok(());
    }
    let Err(error) = usable("the network", &settings.network(), library) else { return Ok(()) };
    let asked_for = library.is_some() || settings.model.is_some() || !has(Method::Ensemble);
    if asked_for {
        return Err(error);
    }
    eprintln!("note: the ensemble goes without a network: {error:#}");
    Ok(())
}

/// Whether a network can be run.
fn usable(name: &str, network: &onnx::Source, library: Option<&Path>) -> anyhow::Result<()> {
    let engine = onnx::start(library)?;
    if let Err(faults) = network.load() {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        bail!("{name} cannot be run by {engine}: {}", faults.join("; "));
    }
    Ok(())
}

pub(super) fn set<T>(field: &mut T, typed: Option<T>) {
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

/// Makes the folder of `--out`: better now than after the runs.
pub(super) fn make_folder(out: Option<&Path>) -> anyhow::Result<()> {
    let Some(folder) = out else { return Ok(()) };
    let failed = || format!("failed to write into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    tempfile::tempfile_in(folder).with_context(failed)?;
    Ok(())
}

/// Writes a file of a folder, whole or not at all.
pub(super) fn write_into(
    folder: &Path,
    name: &str,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let path = folder.join(name);
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    output::write_whole(&path, |to| write(to))
}

/// The first Ctrl-C ends the runs, the second the program.
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

/// A bar on a terminal, nothing in a pipe.
pub(super) fn progress_bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed} {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
