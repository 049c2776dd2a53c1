//! The trait of log readers, their faults, and the parsing of fields.

use std::borrow::Cow;

use embedder::Resources;
use serde_json::Value;

use super::job::Job;

/// The counts of rows that a reader omitted or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Jobs that never ran: cancelled, or with a runtime that is unknown or 0.
    pub never_ran: u64,
    /// Jobs that had not ended when the log was written.
    pub unfinished: u64,
    /// Jobs whose size is unknown or 0.
    pub no_size: u64,
    /// Rows that are not separate jobs: parts of a job, allocations, events without a request.
    pub not_jobs: u64,
    /// Pods that request a share of an accelerator, which counts as a whole accelerator.
    pub rounded_up: u64,
    /// Jobs whose requests are estimated by what they used or held over time.
    pub estimated: u64,
    /// Malformed lines that were skipped because the caller is lenient.
    pub bad_lines: u64,
    /// The message of the first malformed line.
    pub first_bad: Option<String>,
}

impl Notes {
    /// Counts a row. Returns the job that it is, if it is one.
    pub(super) fn count(&mut self, row: Row) -> Option<Job> {
        match row {
            Row::Job(job) => return Some(job),
            Row::NeverRan => self.never_ran += 1,
            Row::Unfinished => self.unfinished += 1,
            Row::NoSize => self.no_size += 1,
            Row::NotAJob => self.not_jobs += 1,
            Row::Blank => {}
        }
        None
    }
}

/// The problem of a malformed line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}{}", place(.column), got(.value))]
pub struct TraceFault {
    /// The name of the column; empty if the fault is of the whole line.
    pub column: Cow<'static, str>,
    /// The problem, often the expected value.
    pub problem: Cow<'static, str>,
    /// The value found, at most 80 characters of it.
    pub value: String,
}

impl TraceFault {
    pub(super) fn new(
        column: impl Into<Cow<'static, str>>,
        problem: impl Into<Cow<'static, str>>,
        value: &str,
    ) -> Self {
        Self {
            column: column.into(),
            problem: problem.into(),
            value: value.chars().take(80).collect(),
        }
    }
}

fn place(column: &str) -> String {
    if column.is_empty() { String::new() } else { format!("column {column}: ") }
}

fn got(value: &str) -> String {
    if value.is_empty() { String::new() } else { format!(", got {value:?}") }
}

/// The result of reading a line.
pub(super) enum Row {
    Job(Job),
    NeverRan,
    Unfinished,
    NoSize,
    NotAJob,
    Blank,
}

impl Row {
    /// A job, or why it is none: it never ran, or its size is unknown.
    pub(super) fn of(job: Job) -> Self {
        if job.runtime <= 0 {
            Self::NeverRan
        } else if job.work.units == 0 || job.work.unit == Resources::default() {
            Self::NoSize
        } else {
            Self::Job(job)
        }
    }
}

/// A reader of one format.
pub(super) trait Reader {
    /// Reads one line, with its number from 1. The header is not passed.
    fn row(&mut self, line: &str, number: u64, notes: &mut Notes) -> Result<Row, TraceFault>;

    /// The number of jobs that have started and not ended.
    fn open_jobs(&self) -> usize {
        0
    }

    /// The jobs that had not ended at the end of the log.
    fn finish(&mut self) -> Vec<Job> {
        Vec::new()
    }
}

impl std::fmt::Display for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            never_ran,
            unfinished,
            no_size,
            not_jobs,
            rounded_up,
            estimated,
            bad_lines,
            first_bad,
        } = self;
        let counts = [
            (*never_ran, "never ran"),
            (*unfinished, "had not ended"),
            (*no_size, "without a size"),
            (*not_jobs, "rows that are no job"),
            (*rounded_up, "shares of an accelerator counted as whole ones"),
            (*estimated, "with estimated requests"),
            (*bad_lines, "bad lines"),
        ];
        let parts: Vec<String> = counts
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        f.write_str(if parts.is_empty() { "nothing left out" } else { "" })?;
        f.write_str(&parts.join(", "))?;
        first_bad.iter().try_for_each(|bad| write!(f, " (the first: {bad})"))
    }
}

/// The greatest valid time and runtime, in seconds: the year 5138, and three thousand years. A
/// greater value is certainly an error in the log.
pub(super) const SECONDS_MAX: f64 = 1e11;

/// The most units of one job. No machine has as many, so a greater value is an error in the log.
pub(super) const UNITS_MAX: f64 = 1e6;

/// The most of one resource that one unit may request, in the resource's unit: 10^18, an exabyte of
/// memory.
///
/// No machine has as much, so a greater value is an error in the log.
pub(super) const AMOUNT_MAX: f64 = 1e18;

/// The longest name of a job or of a kind of accelerators, in bytes. It is the longest name of an
/// extended resource in Kubernetes, and it bounds the memory of a log.
const NAME_BYTES_MAX: usize = 317;

/// Checks the length of a name.
pub(super) fn name<'a>(column: &'static str, text: &'a str) -> Result<&'a str, TraceFault> {
    if text.len() <= NAME_BYTES_MAX {
        return Ok(text);
    }
    Err(TraceFault::new(column, format!("expected at most {NAME_BYTES_MAX} bytes"), text))
}

/// Parses a number of seconds and rounds it to the nearest whole second.
pub(super) fn seconds(column: &'static str, text: &str) -> Result<i64, TraceFault> {
    let value = number(column, text, f64::MAX);
    let value = value.map_err(|fault| match fault.value.as_str() {
        "" => fault,
        _ => TraceFault { problem: "expected a number of seconds".into(), ..fault },
    })?;
    if value.abs() > SECONDS_MAX {
        return Err(TraceFault::new(column, too_many_seconds(value), text));
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    Ok(value.round() as i64)
}

/// Parses a time of submission in seconds, 0 or more.
pub(super) fn submission(column: &'static str, text: &str) -> Result<i64, TraceFault> {
    let value = seconds(column, text)?;
    if value < 0 {
        return Err(TraceFault::new(column, "expected a time of 0 or more", text));
    }
    Ok(value)
}

/// The likely unit of a number that is too large for seconds. The bounds are Unix times of the
/// years 1973 to 5138 in each unit.
fn too_many_seconds(value: f64) -> &'static str {
    match value {
        ..0.0 => "expected a number of seconds",
        ..1e14 => "expected seconds, but this looks like milliseconds (divide by 1000)",
        ..1e17 => "expected seconds, but this looks like microseconds (divide by 1000000)",
        ..1e20 => "expected seconds, but this looks like nanoseconds (divide by 1000000000)",
        _ => "expected a number of seconds",
    }
}

/// Parses a count and rounds it up to a whole number. A negative number is 0, because logs write -1
/// for an unknown count.
pub(super) fn count(column: &'static str, text: &str, most: f64) -> Result<u64, TraceFault> {
    Ok(rounded_up(number(column, text, most)?))
}

/// An amount rounded up to a whole number, at least 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(super) fn rounded_up(amount: f64) -> u64 {
    amount.ceil() as u64
}

/// The amount in a field of a JSON object, in units of which one is `unit`, rounded up. 0 if it is
/// absent.
pub(super) fn amount(of: &Value, field: &'static str, unit: f64) -> Result<u64, TraceFault> {
    let amount = of[field].as_f64().unwrap_or(0.0) * unit;
    if (0.0..=AMOUNT_MAX).contains(&amount) {
        return Ok(rounded_up(amount));
    }
    Err(TraceFault::new(field, "expected an amount", &amount.to_string()))
}

/// Parses a number whose absolute value is at most `most`.
pub(super) fn number(column: &'static str, text: &str, most: f64) -> Result<f64, TraceFault> {
    let text = text.trim();
    if text.is_empty() {
        return Err(TraceFault::new(column, "is empty", ""));
    }
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    let value = value.ok_or_else(|| TraceFault::new(column, "expected a number", text))?;
    if value.abs() <= most {
        return Ok(value);
    }
    Err(TraceFault::new(column, format!("expected at most {most}"), text))
}

/// The index of a column in a header, or [`usize::MAX`] if the header does not have it.
pub(super) fn index(columns: &[&str], name: &str) -> usize {
    columns.iter().position(|column| *column == name).unwrap_or(usize::MAX)
}

/// The field of a row at an index.
pub(super) fn field<'a>(
    fields: &'a [impl AsRef<str>],
    at: usize,
    column: &'static str,
) -> Result<&'a str, TraceFault> {
    let field = fields.get(at).map(|field| field.as_ref().trim());
    field.ok_or_else(|| TraceFault::new(column, "the line has too few columns", ""))
}

/// The problem of a JSON text, without the place in the text.
pub(super) fn json_problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}
