//! Reads a file of usage.

use std::path::Path;

use base::input::header_faults;
use usage::UsageRow;

use super::reader::{UsageNotes, UsageReader};
use super::{borg, usage_table};
use crate::columns::header;
use crate::lines::Lines;
use crate::read::TraceError;
use crate::reader::TraceFault;

/// Reads a file of usage, and hands each row to `take`. A gzip file is decompressed.
///
/// # Errors
/// Returns an error if the file cannot be read, its format is unknown, it has no row, or, unless
/// `lenient`, a line is malformed or `take` refuses it.
pub fn read_usage(
    path: &Path,
    lenient: bool,
    take: &mut dyn FnMut(UsageRow) -> Result<(), TraceFault>,
) -> Result<UsageNotes, TraceError> {
    let failed = |source| TraceError::Read { path: path.into(), source };
    let mut lines = Lines::open(path).map_err(failed)?;
    let mut line = String::new();
    while line.trim().is_empty() {
        if !lines.next(&mut line).map_err(failed)? {
            return Err(TraceError::Blank { path: path.into() });
        }
    }
    let number = lines.number();
    let format = |problem| TraceError::Format { path: path.into(), line: number, problem };
    let (mut reader, header) = detect(&line).map_err(format)?;
    let mut notes = UsageNotes::default();
    let mut pending = !header;
    while std::mem::take(&mut pending) || lines.next(&mut line).map_err(failed)? {
        let row = reader.row(&line, lines.number(), &mut notes);
        match row.and_then(|row| row.map(&mut *take).transpose()) {
            Ok(taken) => notes.rows += u64::from(taken.is_some()),
            Err(fault) => {
                let bad = TraceError::Line { path: path.into(), line: lines.number(), fault };
                if !lenient {
                    return Err(bad);
                }
                notes.bad_lines += 1;
                notes.first_bad.get_or_insert_with(|| bad.to_string());
            }
        }
    }
    if notes.rows == 0 {
        let none = notes == UsageNotes::default();
        let notes = if none { String::new() } else { format!(" ({notes})") };
        return Err(TraceError::NoUsage { path: path.into(), notes });
    }
    Ok(notes)
}

/// Detects the format from the first line that is not blank. Returns the reader, and whether the
/// line is a header.
fn detect(first: &str) -> Result<(Box<dyn UsageReader>, bool), String> {
    if first.trim_start().starts_with(['{', '[']) {
        return borg::detect(first).map(|reader| (Box::new(reader) as Box<dyn UsageReader>, false));
    }
    let header = header(first, &usage_table::COLUMNS)?;
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let page = "docs/rightsizing.md lists the columns of usage";
    if let Some(faults) = header_faults(&names, &usage_table::REQUIRED, &usage_table::COLUMNS) {
        return Err(format!("{faults} ({page})"));
    }
    if !usage_table::MEASURED.iter().any(|name| names.contains(name)) {
        return Err(format!(
            "the header needs {} or both ({page})",
            usage_table::MEASURED.join(" or ")
        ));
    }
    Ok((Box::new(usage_table::Table::new(&names)), true))
}
