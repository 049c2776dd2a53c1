//! What readers of logs share.

use super::job::Job;

/// What a reader left out or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Jobs that never ran: cancelled, or with a runtime that is unknown or 0.
    pub never_ran: u64,
    /// Jobs whose size is unknown or 0.
    pub no_size: u64,
    /// Rows that are no job of their own: parts of a job, allocations, events without a request.
    pub not_jobs: u64,
    /// Pods whose share of an accelerator was counted as a whole one.
    pub rounded_up: u64,
    /// Bad lines that were passed over, being lenient.
    pub bad_lines: u64,
    /// The first of them.
    pub first_bad: Option<String>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}, got {value:?}")]
pub struct TraceFault {
    /// The column's name.
    pub column: &'static str,
    /// What was expected.
    pub problem: &'static str,
    /// What is there, shortened.
    pub value: String,
}

impl TraceFault {
    pub(super) fn new(column: &'static str, problem: &'static str, value: &str) -> Self {
        Self { column, problem, value: value.chars().take(80).collect() }
    }
}

/// What a reader makes of a line.
pub(super) enum Row {
    Job(Job),
    NeverRan,
    NoSize,
    NotAJob,
    Blank,
}

/// A format's reader: fed line by line, without the header that told the format.
pub(super) trait Reader {
    fn row(&mut self, line: &str, number: u64, notes: &mut Notes) -> Result<Row, TraceFault>;

    /// What was still open when the log ended.
    fn finish(&mut self) -> Vec<Job> {
        Vec::new()
    }
}

impl std::fmt::Display for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { never_ran, no_size, not_jobs, rounded_up, bad_lines, first_bad } = self;
        let counts = [
            (*never_ran, "never ran"),
            (*no_size, "without a size"),
            (*not_jobs, "rows that are no job"),
            (*rounded_up, "shares of an accelerator counted as whole ones"),
            (*bad_lines, "bad lines"),
        ];
        let said: Vec<String> = counts
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        f.write_str(if said.is_empty() { "nothing left out" } else { "" })?;
        f.write_str(&said.join(", "))?;
        first_bad.iter().try_for_each(|bad| write!(f, " (the first: {bad})"))
    }
}

/// The latest time and the longest runtime that make sense: the year 5138, and three thousand years.
pub(super) const SECONDS_MAX: f64 = 1e11;

/// The most units of one job: more than any machine has.
pub(super) const UNITS_MAX: f64 = 1e6;

/// The most of one resource that one unit may ask for: an exbibyte of memory, and more of the others than exists.
pub(super) const AMOUNT_MAX: f64 = (1_u64 << 60) as f64;

/// A number of seconds, rounded to whole ones.
pub(super) fn seconds(column: &'static str, text: &str) -> Result<i64, TraceFault> {
    let value = number(column, text, SECONDS_MAX)?;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    Ok(value.round() as i64)
}

/// A count, rounded up to a whole one; below 0 is 0, as logs write -1 for unknown.
pub(super) fn count(column: &'static str, text: &str, most: f64) -> Result<u64, TraceFault> {
    let value = number(column, text, most)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    Ok(value.max(0.0).ceil() as u64)
}

pub(super) fn number(column: &'static str, text: &str, most: f64) -> Result<f64, TraceFault> {
    let value: f64 =
        text.trim().parse().map_err(|_| TraceFault::new(column, "expected a number", text))?;
    if value.abs() <= most { Ok(value) } else { Err(TraceFault::new(column, "out of range", text)) }
}

/// The place of a column in a header.
pub(super) fn place(columns: &[&str], name: &str) -> usize {
    columns.iter().position(|column| *column == name).unwrap_or(usize::MAX)
}

/// The field of a row at a place.
pub(super) fn field<'a>(
    fields: &[&'a str],
    at: usize,
    column: &'static str,
) -> Result<&'a str, TraceFault> {
    fields
        .get(at)
        .copied()
        .map(str::trim)
        .ok_or_else(|| TraceFault::new(column, "the line has too few columns", ""))
}
