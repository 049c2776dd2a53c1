//! The trait of readers of usage, and the counts of rows.

use usage::UsageRow;

use crate::reader::TraceFault;

/// The counts of rows that a reader of usage read and omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageNotes {
    /// The measurements.
    pub rows: u64,
    /// Measurements of tasks inside an alloc, whose resources they use.
    pub in_allocs: u64,
    /// Pods of a history that were measured in less than half of the minutes of their run.
    pub hardly_measured: u64,
    /// Malformed lines that were skipped because the caller is lenient.
    pub bad_lines: u64,
    /// The message of the first malformed line.
    pub first_bad: Option<String>,
}

impl std::fmt::Display for UsageNotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rows: _, in_allocs, hardly_measured, bad_lines, first_bad } = self;
        let counts = [
            (*in_allocs, "of tasks in an alloc"),
            (*hardly_measured, "pods that were measured for less than half of their time"),
            (*bad_lines, "bad lines"),
        ];
        let parts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        let parts: Vec<String> = parts.collect();
        f.write_str(if parts.is_empty() { "nothing left out" } else { "left out: " })?;
        f.write_str(&parts.join(", "))?;
        first_bad.iter().try_for_each(|bad| write!(f, " (the first: {bad})"))
    }
}

/// A reader of one format.
pub(super) trait UsageReader {
    /// Reads one line, with its number from 1. `None` is a line without a measurement.
    fn row(
        &mut self,
        line: &str,
        number: u64,
        notes: &mut UsageNotes,
    ) -> Result<Option<UsageRow>, TraceFault>;
}
