//! Shared by the commands that replay a job log: the log, its catalog and the settings.
//!
//! ```text
//! mod.rs       the options, and a log that is ready for the replay
//! window.rs    reads the log, and checks the evaluated time against it
//! networks.rs  checks that the networks of a run can be run
//! policy_file.rs  a policy of a cluster, as it is written
//! recorded.rs  a history as a log (no_history.rs: in builds that cannot read one)
//! ```

mod networks;
#[cfg(feature = "kubernetes")]
mod policy_file;
#[cfg(feature = "kubernetes")]
mod recorded;
#[cfg(not(feature = "kubernetes"))]
#[path = "no_history.rs"]
mod recorded;
mod window;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use base::span::Span;
use demand::forecast::onnx;
use embedder::Catalog;
use instances::CatalogFile;
use placeholders::Objective;
use simulator::replay::Workload;
use simulator::{LaunchLatency, NamedPolicy, SimulationSettings, TimePoint, WAIT_SECONDS_MAX};
use traces::{Admits, Trace, default_types};

use self::networks::{check_network, check_paper, usable};
use self::recorded::RecordedLog;
pub(super) use self::recorded::recorded_log;
pub(super) use self::window::{check_span, check_units, covered, warm_up};
use self::window::{date_time, load, time_point, window};
use super::{input, wrong_usage};

#[derive(Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(super) struct LogArgs {
    /// The job log, gzipped or plain, such as kubectl's JSON, sacct, SWF or Prophet's own table;
    /// docs/logs.md lists the formats [default: an example, four weeks of Microsoft's Philly
    /// cluster]; `-` is standard input
    #[arg(long, value_name = "FILE", value_parser = input::file())]
    trace: Option<PathBuf>,
    /// The columns of a delimited log, as PART=COLUMN[:UNIT], such as
    /// submit=Submit,runtime=Elapsed:min,pods=Nodes,cpu=CPUs:cores,memory=Mem:GiB,gpus=GPUs
    /// [default: the content of the log determines its format]
    #[arg(long, value_name = "MAPPING", value_parser = input::columns, requires = "trace")]
    columns: Option<String>,
    /// The location of a history that `prophet run --data` recorded: replay the pods that ended in
    /// your cluster, with its buckets, launch latencies and objective, pod by pod; needs a build
    /// with --features full
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["trace", "lenient"])]
    pub(super) data: Option<String>,
    /// The policy of this history, as NAMESPACE.NAME [default: the only one]
    #[arg(long, value_name = "POLICY", requires = "data", conflicts_with = "trace")]
    data_policy: Option<String>,
    /// The history, once it is read
    #[arg(skip)]
    pub(super) recorded: RecordedLog,
    /// Whether the usage of the pods of the history is needed
    #[arg(skip)]
    pub(super) with_usage: bool,
    /// Whether the instance types on offer are others than those of the history. The buckets that
    /// admit a recorded pod are assumed from its requests, then.
    #[arg(skip)]
    pub(super) other_types: bool,
    /// The file of the policy to replay, of a command that has this option
    #[cfg(feature = "kubernetes")]
    #[arg(skip)]
    policy_file: Option<PathBuf>,
    /// The part of a longer time, for a command that runs parts
    #[arg(skip)]
    part: Option<PartOfLog>,
    /// Skip bad lines of the log, and report their number
    #[arg(long)]
    lenient: bool,
    /// Fail if the requests of the log are probably in another unit, instead of a warning
    #[arg(long)]
    strict: bool,
    /// The start of the evaluated time: a date, a date-time, or an offset from the first job (8d);
    /// earlier jobs only warm up the forecasts [default: half of the log, at most 14d; the first
    /// job where no forecasts are compared, as in rightsize]
    #[arg(long, value_name = "T")]
    from: Option<TimePoint>,
    /// The end of the evaluated time [default: the last job]
    #[arg(long, value_name = "T")]
    until: Option<TimePoint>,
    /// AWS instance types from the built-in table [default: types that suit the log]
    #[arg(long, value_name = "TYPE", value_delimiter = ',', conflicts_with = "catalog",
          value_parser = input::instance_type)]
    pub(super) instance_type: Vec<String>,
    /// The instance types on offer, as YAML
    #[arg(long, value_name = "FILE")]
    pub(super) catalog: Option<PathBuf>,
    /// What you pay for instances, as YAML: prices by instance type, or a percentage
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
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
    /// A trained model that onnx and ensemble use [default: the shipped model for onnx, none for
    /// ensemble]
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
    #[arg(long, value_name = "N", value_parser = seed)]
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

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// Parses the length of a tick.
pub(super) fn tick(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span.as_seconds() == 0 { Err("must be at least 1s".into()) } else { Ok(span) }
}

impl LogArgs {
    /// The options with the policy in a file.
    #[cfg(feature = "kubernetes")]
    pub(super) fn with_policy_file(self, policy_file: Option<PathBuf>) -> Self {
        Self { policy_file, ..self }
    }

    /// The options of a run that were combined before.
    #[cfg(feature = "kubernetes")]
    pub(super) fn of(run: &SimulationSettings) -> Self {
        Self { data: run.data.clone(), ..Self::default() }
    }

    /// The same, with the options that no run has: prices, the check of units, and the engine.
    #[cfg(feature = "kubernetes")]
    pub(super) fn of_source(&self, run: &SimulationSettings) -> Self {
        Self {
            strict: self.strict,
            prices: self.prices.clone(),
            onnx_runtime: self.onnx_runtime.clone(),
            ..Self::of(run)
        }
    }

    /// The options with a part of the log.
    #[cfg(feature = "kubernetes")]
    pub(super) fn with_part(self, part: PartOfLog, onnx_runtime: Option<PathBuf>) -> Self {
        Self { part: Some(part), onnx_runtime, ..self }
    }

    /// The options of a run, with those that its history has: buckets, launch latency and
    /// objective.
    #[cfg(feature = "kubernetes")]
    pub(super) fn settings_over(
        &self,
        mut run: SimulationSettings,
    ) -> anyhow::Result<SimulationSettings> {
        self.recorded.take_over(&mut run, self.with_usage)?;
        Ok(run)
    }

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
            self.recorded.take_over(&mut settings, self.with_usage)?;
        }
        self.set_files(&mut settings)?;
        #[cfg(feature = "kubernetes")]
        if let Some(path) = &self.policy_file {
            policy_file::apply(path, &mut settings)?;
        }
        settings.policy.objective = self.objective(settings.policy.objective);
        settings.lenient |= self.lenient;
        settings.columns = self.columns.clone().or(settings.columns);
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
            let prices = self.prices.as_deref().map(input::prices).transpose()?;
            settings.catalog = Some(input::catalog_with(path, prices.as_ref())?);
        } else if !self.instance_type.is_empty() {
            let names = self.instance_type.iter().map(String::as_str);
            settings.catalog = Some(CatalogFile::of_types(names));
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
            Some(_) => self.recorded.trace(&settings, self.with_usage)?,
            None => load(&mut settings, self.strict)?,
        };
        if self.other_types {
            trace.jobs.iter_mut().for_each(|job| job.work.admits = Admits::Assumed);
        }
        more(&mut settings, &trace);
        let window = window(&settings, &trace)?;
        // Runs end at most this long after the window, so later jobs have no effect.
        let end = window.1.saturating_add(WAIT_SECONDS_MAX);
        let begin = match self.part {
            Some(PartOfLog { window: part, warm_up }) => {
                ensure!(
                    part == window,
                    "{}: the log has changed since the plan: it now covers the window only from {} until {}",
                    trace.source,
                    date_time(window.0),
                    date_time(window.1)
                );
                part.0.saturating_sub(warm_up)
            }
            None => i64::MIN,
        };
        trace.jobs.retain(|job| (begin..end).contains(&job.submit));
        check_span(&trace, Some(window), settings.tick)?;
        settings.types_are_chosen = settings.catalog.is_none();
        let file = settings.catalog.get_or_insert_with(|| default_types(&trace.jobs));
        if let Some(path) = &self.prices {
            file.prices = input::prices(path)?;
        }
        let catalog = file.catalog().context("the catalog is invalid")?;
        check_constants(&settings, &catalog)?;
        check_paper(&settings, &catalog, self.onnx_runtime.as_deref())?;
        let named = self.settings.as_ref().map(|path| path.display().to_string());
        settings.check_names(&catalog).context(named.unwrap_or("invalid options".into()))?;
        settings.spot_for.mark(&mut trace.jobs, settings.seed);
        let workload = Workload::new(&trace.jobs, &catalog);
        for unplaceable in &workload.unplaceable {
            eprintln!("note: {}", unplaceable.sentence(&catalog));
        }
        // A part of a longer time may be quiet.
        if self.part.is_none() && workload.jobs_within(window) == 0 {
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

/// A part of a log that is replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartOfLog {
    /// The evaluated time, in seconds of the log.
    pub(super) window: (i64, i64),
    /// How long before it the log is replayed, in seconds.
    pub(super) warm_up: i64,
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

/// Overwrites a setting if its option was given on the command line.
pub(super) fn set<T>(field: &mut T, typed: Option<T>) {
    if let Some(value) = typed {
        *field = value;
    }
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

/// Checks that no policy `constants` has more numbers than there are buckets.
fn check_constants(settings: &SimulationSettings, catalog: &Catalog) -> anyhow::Result<()> {
    for named_policy in &settings.policies {
        let NamedPolicy::Constants(each) = named_policy else { continue };
        let (numbers, types) = (each.counts().len(), catalog.len());
        anyhow::ensure!(
            numbers <= types,
            "policy {named_policy} has more numbers ({numbers}) than instance types ({types})"
        );
    }
    Ok(())
}
