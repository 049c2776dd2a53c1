//! `prophet model accept`: compares a newly trained model with the model in use, and publishes it
//! unless it is worse.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use backtest::{Acceptance, Check, Models, accept};
use base::days::DAY_SECONDS;
use base::span::Span;
use clap::value_parser;
use demand::forecast::onnx::ModelSource;
use report::{TextTable, day, write_note};
use serde_json::{Value, json};
use simulator::{DAYS_MIN, NamedPolicy, REPLAYS_MAX, SimulationSettings, TimePoint};
use traces::Trace;

use super::log::{LoadedLog, LogArgs, covered, set};
use super::model_place::{ModelPlace, read};
use super::output::OutputFormat;
use super::{output, progress, wrong_usage};

const EXAMPLES: &str = "\
Exit codes: 0 the model is published (or not worse, without --publish), 1 failed, 2 wrong usage,
3 the model in use stays, because the candidate is worse.

Examples:
  prophet model accept --candidate new.onnx --data /var/lib/prophet --publish /models/own.onnx
  prophet model accept --candidate new.onnx --data s3://logs/prophet --publish s3://models/prophet/own.onnx
  prophet model accept --candidate new.onnx --current own.onnx --trace jobs.csv.gz --output json
                                       only compares two models, and publishes none

The comparison covers the days of --window, which end with the last job or --until. The earlier jobs warm up the forecasters.
Train the candidate without these days: a model that has seen them would be scored on its training data.
  pinball loss of the model      D, the new nodes needed within the lead time, forecast by each model alone
  pinball loss of the ensemble   D, forecast by the ensemble with each model, and without any
  cost with the ensemble         of waiting, idling and launching, by replays through the simulator
A candidate is worse if one of these ratios is above its limit, or if its 95 % interval by day lies above 1.01. The
pinball loss of the ensemble does not count where its cost is lower: the ensemble chooses experts by their cost.
A published model has a card beside it, NAME.card.json: the comparison, the settings, and the model's training.";

#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("model", |arg| arg
        .long("current")
        .help("The model in use: a file, or s3://BUCKET/PREFIX/FILE [default: that of --publish, if it exists, \
               else the shipped model]")),
)]
pub(super) struct Args {
    /// The newly trained model
    #[arg(long, value_name = "FILE")]
    candidate: PathBuf,
    /// Where controllers load the model from: a file, or `s3://BUCKET/PREFIX/FILE` [default:
    /// nothing is published]
    #[arg(long, value_name = "PLACE")]
    publish: Option<String>,
    /// The length of the compared time, which ends with the last job or --until: at least 10d
    #[arg(long, value_name = "TIME", default_value = "14d", conflicts_with = "from",
          value_parser = window)]
    window: Span,
    /// The number of replays with shifted submissions, over which the cost is averaged [default: 1]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=REPLAYS_MAX.into()))]
    seeds: Option<u32>,
    #[command(flatten)]
    log: LogArgs,
    /// How to print the result
    #[arg(long, short, default_value = "table")]
    output: OutputFormat,
}

/// The exit code if the candidate is worse. It differs from a failure, so that a scheduled job can
/// end without an error.
const KEPT: u8 = 3;

/// The shortest time before the compared time, in seconds: a week, so that the forecasters have
/// seen every day of the week.
const EARLIER_SECONDS: i64 = 7 * DAY_SECONDS;

/// Parses the length of the compared time.
fn window(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span.as_seconds() / DAY_SECONDS < i64::try_from(DAYS_MIN).unwrap_or(i64::MAX) {
        return Err(format!("must be at least {DAYS_MIN}d, because intervals are by day"));
    }
    Ok(span)
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let candidate = read(&args.candidate)?;
    let mut settings = args.log.settings(|settings| {
        set(&mut settings.replays, args.seeds);
        settings.policies = vec![NamedPolicy::DEFAULT];
    })?;
    if settings.trace.is_none() && settings.data.is_none() {
        return Err(wrong_usage::conflict(
            "give --data, the location of a recorded history, or --trace, a job log",
        ));
    }
    let fetched = tempfile::tempdir().context("failed to make a temporary folder")?;
    let given = settings.model.take();
    let place = args.publish.as_deref().map(ModelPlace::parse).transpose()?;
    let in_use = current(args, given.as_deref(), place.as_ref(), fetched.path())?;
    let staged = place.map(ModelPlace::stage).transpose()?;
    args.log
        .check_network(&args.candidate.display().to_string())
        .context("the candidate cannot be used")?;
    let mut short = Ok(());
    let loaded =
        args.log.replay(settings, |settings, trace| short = set_window(args, settings, trace))?;
    short?;
    let models = Models { candidate: args.candidate.display().to_string(), current: in_use.file };
    let LoadedLog { settings, trace, catalog, workload, window } = &loaded;
    let compared = progress::of_runs(|progress| {
        accept(workload, catalog, settings, *window, &models, progress)
    });
    ensure!(
        compared.ticks > 0,
        "no tick is scored: no tick of the compared time is followed by six ticks and a launch latency; {}",
        covered(trace)
    );
    let names = [models.candidate.clone(), in_use.name];
    let mut document = document(&compared, &loaded, &names);
    let accepted = compared.accepted();
    if let Some(staged) = staged.filter(|_| accepted) {
        let card = serde_json::to_vec_pretty(&document)?;
        staged.publish(&candidate, &card)?;
        document["published"] = json!(args.publish);
    }
    match args.output {
        OutputFormat::Json | OutputFormat::Yaml => output::print_document(args.output, &document)?,
        OutputFormat::Table => {
            output::print(&as_text(&compared, &loaded, &names, args.publish.as_deref()))?;
        }
    }
    Ok(if accepted { ExitCode::SUCCESS } else { ExitCode::from(KEPT) })
}

/// The model in use.
struct InUse {
    /// Its address, or `the shipped model`.
    name: String,
    /// A file with it; `None` for the shipped model.
    file: Option<String>,
}

/// Finds the model in use. A file that cannot be used is not in use, although it is there.
fn current(
    args: &Args,
    given: Option<&str>,
    publish: Option<&ModelPlace>,
    folder: &std::path::Path,
) -> anyhow::Result<InUse> {
    let shipped = || InUse { name: ModelSource::Pretrained.to_string(), file: None };
    let (address, file) = match (given, publish) {
        (Some(address), _) => {
            let file = ModelPlace::parse(address)?.fetch(folder)?;
            let Some(file) = file else { bail!("--current {address}: there is no such file") };
            (address, file)
        }
        (None, Some(place)) => {
            let Some(file) = place.fetch(folder)? else { return Ok(shipped()) };
            (args.publish.as_deref().unwrap_or_default(), file)
        }
        (None, None) => return Ok(shipped()),
    };
    let file = file.display().to_string();
    if let Err(error) = args.log.check_network(&file) {
        eprintln!(
            "note: {address} cannot be used, so the candidate is compared with the shipped model: {error:#}"
        );
        return Ok(shipped());
    }
    Ok(InUse { name: address.into(), file: Some(file) })
}

/// Sets the start of the compared time.
///
/// # Errors
/// Too little time precedes it.
fn set_window(args: &Args, settings: &mut SimulationSettings, trace: &Trace) -> anyhow::Result<()> {
    let (Some(first), Some(last)) = (trace.jobs.first(), trace.jobs.last()) else { return Ok(()) };
    let after_last = last.submit + 1;
    let until = settings.until.as_ref().map_or(after_last, |until| until.seconds(first.submit));
    let from = match &settings.from {
        Some(from) => from.seconds(first.submit),
        None => until.min(after_last) - args.window.as_seconds(),
    };
    let days = |seconds: i64| seconds as f64 / DAY_SECONDS as f64;
    let earlier = from - first.submit;
    ensure!(
        earlier >= EARLIER_SECONDS,
        "the history is too short: {:.1} days precede the compared time, but forecasters need {} to warm up; \
         wait until there is more history, or give a shorter --window (at least {DAYS_MIN}d); {}",
        days(earlier.max(0)),
        EARLIER_SECONDS / DAY_SECONDS,
        covered(trace)
    );
    let offset = format!("{earlier}s").parse::<TimePoint>().map_err(anyhow::Error::msg)?;
    settings.from.get_or_insert(offset);
    Ok(())
}

/// The comparison as JSON, which is also the card of a published model.
fn document(
    compared: &Acceptance,
    loaded: &LoadedLog,
    [candidate, current]: &[String; 2],
) -> Value {
    let LoadedLog { settings, trace, window, .. } = loaded;
    let model = ModelSource::File(candidate.into()).load();
    let (training, revision) = model.map_or_else(
        |_| (Value::Null, String::new()),
        |model| (model.spec().training.clone(), model.spec().revision.clone()),
    );
    json!({
        "accepted": compared.accepted(),
        "published": Value::Null,
        "candidate": {"file": candidate, "training": training, "revision": revision},
        "current": current,
        "source": trace.source,
        "from": window.0,
        "until": window.1,
        "ticks": compared.ticks,
        "days": compared.days,
        "lead_seconds": settings.lead().seconds,
        "checks": compared.checks,
        "fault": compared.fault,
        "reasons": reasons(compared),
        "settings": settings,
    })
}

/// Why the candidate is not accepted: one sentence for each comparison that finds it worse.
fn reasons(compared: &Acceptance) -> Vec<String> {
    let fault =
        compared.fault.iter().map(|fault| format!("the candidate has no forecast: {fault}"));
    let worse = compared.checks.iter().filter(|check| check.worse).map(|check| {
        let Check { measure, reference, candidate_loss, reference_loss, limit, ratio, .. } = check;
        let why = match ratio {
            Some(ratio) if ratio.ratio > *limit => format!("more than {limit:.2} times"),
            Some(_) => "and its 95 % interval lies above 1.01".into(),
            None => "where the reference has none".into(),
        };
        format!("{measure}: {candidate_loss:.4} with the candidate, {reference_loss:.4} with {reference}, {why}")
    });
    fault.chain(worse).collect()
}

const HEADS: [[&str; 6]; 2] = [
    ["compared", "", "", "", "95 %", ""],
    ["with", "candidate", "reference", "ratio", "interval", "limit"],
];

fn as_text(
    compared: &Acceptance,
    loaded: &LoadedLog,
    [candidate, current]: &[String; 2],
    publish: Option<&str>,
) -> String {
    let LoadedLog { trace, window, .. } = loaded;
    let mut text = String::new();
    write_note(
        &mut text,
        &format!(
            "{candidate} on the jobs of {} from {} on ({} days), with {current} in use",
            trace.source,
            day(window.0),
            compared.days
        ),
    );
    text.push('\n');
    let row = |check: &Check| {
        let Check { measure, reference, candidate_loss, reference_loss, ratio, limit, worse } =
            check;
        let interval = ratio.and_then(|ratio| ratio.interval);
        let cells = vec![
            reference.to_string(),
            format!("{candidate_loss:.4}"),
            format!("{reference_loss:.4}"),
            ratio.map_or_else(|| "-".into(), |ratio| format!("{:.3}", ratio.ratio)),
            interval.map_or_else(|| "-".into(), |(low, high)| format!("{low:.3} to {high:.3}")),
            format!("{limit:.2}{}", if *worse { " worse" } else { "" }),
        ];
        (measure.to_string(), cells)
    };
    let rows: Vec<(String, Vec<String>)> = compared.checks.iter().map(row).collect();
    TextTable::new(HEADS, &rows).write(&mut text, &rows);
    text.push('\n');
    let _ = match (compared.accepted(), publish) {
        (true, Some(place)) => writeln!(text, "The candidate is not worse: published to {place}."),
        (true, None) => {
            writeln!(text, "The candidate is not worse. Without --publish, it is not published.")
        }
        (false, _) => writeln!(text, "The model in use stays, because the candidate is worse:"),
    };
    for reason in reasons(compared) {
        write_note(&mut text, &format!("- {reason}"));
    }
    text
}
