//! The log itself: reads it, and checks the evaluated time against it.

use std::path::Path;

use anyhow::bail;
use base::days::DAY_SECONDS;
use base::span::Span;
use chrono::DateTime;
use simulator::{SimulationSettings, TimePoint};
use traces::{Job, Trace};

use crate::cli::progress;

/// The default of `--from` for the example log: the first 14 of its 28 days warm up the state.
const EXAMPLE_FROM: &str = "14d";

/// Reads the log of the settings, or the example.
pub(super) fn load(settings: &mut SimulationSettings, strict: bool) -> anyhow::Result<Trace> {
    let Some(path) = &settings.trace else {
        settings.from.get_or_insert(EXAMPLE_FROM.parse().map_err(anyhow::Error::msg)?);
        eprintln!(
            "note: without --trace, this is an example: four weeks of Microsoft's Philly cluster"
        );
        return Ok(traces::example()?);
    };
    let mapping = settings.columns.as_deref().map(str::parse).transpose()?;
    let read = || traces::read(Path::new(path), mapping.as_ref(), settings.lenient);
    let trace = progress::during(&format!("reading {path}"), read)?;
    if trace.notes != traces::Notes::default() {
        eprintln!("note: {path}: {}", trace.notes);
    }
    check_units(path, &trace, strict)?;
    Ok(trace)
}

/// Warns of requests that the log probably has in another unit.
///
/// # Errors
/// `strict`, and there are such requests.
pub(in crate::cli) fn check_units(path: &str, trace: &Trace, strict: bool) -> anyhow::Result<()> {
    let odd = traces::odd_units(&trace.jobs, trace.format);
    if strict && !odd.is_empty() {
        bail!("{path}: {}", odd.join("; "));
    }
    for odd in odd {
        eprintln!("warning: {path}: {odd}");
    }
    Ok(())
}

/// The longest warm-up of a log for which no start is given, in seconds: 14 days.
const WARM_UP_MAX: i64 = 14 * DAY_SECONDS;

/// Lets the first half of a log, or of its part until `--until`, warm up the forecasts, at most 14
/// days, unless a start is given.
pub(in crate::cli) fn warm_up(settings: &mut SimulationSettings, trace: &Trace) {
    let (Some(first), Some(last)) = (trace.jobs.first(), trace.jobs.last()) else { return };
    if settings.from.is_some() {
        return;
    }
    let last = settings
        .until
        .as_ref()
        .map_or(last.submit, |until| until.seconds(first.submit).min(last.submit));
    let half = (last.saturating_sub(first.submit) / 2).clamp(0, WARM_UP_MAX);
    if half == 0 {
        return;
    }
    // A whole number of minutes is easier to read.
    let half = half - if half >= 3_600 { half % 60 } else { 0 };
    eprintln!(
        "note: without --from, the first half of the log, at most 14 days, warms up the forecasts: the evaluated time begins at {}",
        date_time(first.submit.saturating_add(half))
    );
    settings.from =
        u32::try_from(half).ok().and_then(|half| Span::seconds(half).to_string().parse().ok());
}

/// The evaluated time: its first second and the second after its last, in the log's seconds.
///
/// # Errors
/// The log has no job, or the time is empty or outside of the log.
pub(super) fn window(settings: &SimulationSettings, trace: &Trace) -> anyhow::Result<(i64, i64)> {
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

/// The submissions that a log covers, for messages.
pub(in crate::cli) fn covered(trace: &Trace) -> String {
    let time = |job: Option<&Job>| job.map_or_else(|| "-".into(), |job| date_time(job.submit));
    format!("the log covers {} to {}", time(trace.jobs.first()), time(trace.jobs.last()))
}

/// A point in time as it was given, followed by its date if it was an offset from the first job.
pub(super) fn time_point(point: &TimePoint, first: i64) -> String {
    let given = point.to_string();
    match given.parse::<Span>() {
        Ok(_) => format!("{given} ({})", date_time(point.seconds(first))),
        Err(_) => given,
    }
}

/// A time of a log: a date and a time in UTC if it is Unix time, and the log's second otherwise.
/// Unix times of logs of clusters are above a billion seconds (2001).
pub(super) fn date_time(seconds: i64) -> String {
    let date = DateTime::from_timestamp(seconds, 0).filter(|_| seconds >= 1_000_000_000);
    date.map_or(format!("second {seconds}"), |date| date.format("%Y-%m-%d %H:%M").to_string())
}

/// The largest number of ticks of a replay: five years of one-minute ticks. The longest public logs
/// cover less, and a longer one most likely has a wrong time in it. The limit also bounds the
/// memory of a backtest, which keeps all ticks.
const TICKS_MAX: i64 = 5 * 366 * 1_440;

/// Fails if a log and the evaluated time have more than `TICKS_MAX` ticks together.
pub(in crate::cli) fn check_span(
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
