//! Reads a log of any supported format.

use std::io;
use std::path::{Path, PathBuf};

use super::alibaba;
use super::detect::{Format, detect, is_document};
use super::documents::{DocumentFault, Documents};
use super::job::Job;
use super::lines::Lines;
use super::mapping::Mapping;
use super::reader::{Notes, TraceFault};

/// A job log.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The path of the log, or the name of the example.
    pub source: String,
    /// The format that was detected from the first line.
    pub format: Format,
    /// The jobs, by submission, then by their order in the log.
    pub jobs: Vec<Job>,
    /// The counts of omitted and changed rows.
    pub notes: Notes,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is malformed.
    #[error("{}:{line}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
        /// The column, the problem and the value.
        fault: TraceFault,
    },
    /// The format of the content is unknown, or its header is faulty.
    #[error("{}:{line}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The number of the first line that is not blank, from 1.
        line: u64,
        /// The problem, and what to change.
        problem: String,
    },
    /// A JSON document has no jobs of a known form, or one of its elements is malformed.
    #[error("{}: {problem}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The problem, and what to change.
        problem: String,
    },
    /// The file has no line.
    #[error("{}: the file is empty", path.display())]
    Blank {
        /// The file.
        path: PathBuf,
    },
    /// The log has more jobs than the limit.
    #[error("{}:{line}: the log has more than {most} jobs: give a part of it", path.display())]
    TooManyJobs {
        /// The file.
        path: PathBuf,
        /// The line of the first job above the limit.
        line: u64,
        /// The limit.
        most: usize,
    },
    /// The file has no measurement.
    #[error("{}: the file has no usage{notes}", path.display())]
    NoUsage {
        /// The file.
        path: PathBuf,
        /// The counts of omitted rows in parentheses, if there are any.
        notes: String,
    },
    /// The log has no job that ran.
    #[error("{}: the log has no job that ran{notes}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The counts of omitted rows in parentheses, if there are any.
        notes: String,
    },
}

/// The most jobs of a log. Jobs are kept in memory, and this many take about 2 GB. The largest
/// public logs of batch clusters have some millions.
pub const JOBS_MAX: usize = 10_000_000;

/// Reads a log. A gzip file is decompressed. A `mapping` gives the columns of any delimited file;
/// without one, the content determines the format.
///
/// # Errors
/// Returns an error if the file cannot be read, its format is unknown, it has no job that ran or
/// too many jobs, or, unless `lenient`, a line is malformed.
pub fn read(path: &Path, mapping: Option<&Mapping>, lenient: bool) -> Result<Trace, TraceError> {
    read_at_most(JOBS_MAX, path, mapping, lenient)
}

/// Reads the example log: four weeks of Microsoft's Philly cluster, from 2017-10-09 on.
///
/// # Errors
/// Returns an error if the log of this build cannot be read.
pub fn example() -> Result<Trace, TraceError> {
    read_lines(Lines::new(EXAMPLE), JOBS_MAX, Path::new(EXAMPLE_NAME), None, false)
}

/// The name of the example log.
const EXAMPLE_NAME: &str = "Philly, four weeks of 2017";

/// The example log. `data/README.md` has its source and its licence.
const EXAMPLE: &[u8] = include_bytes!("../data/philly-2017-10.csv.gz");

fn read_at_most(
    most: usize,
    path: &Path,
    mapping: Option<&Mapping>,
    lenient: bool,
) -> Result<Trace, TraceError> {
    read_lines(Lines::open(path), most, path, mapping, lenient)
}

/// Reads a log from its lines. `path` names it in errors.
fn read_lines(
    lines: io::Result<Lines>,
    most: usize,
    path: &Path,
    mapping: Option<&Mapping>,
    lenient: bool,
) -> Result<Trace, TraceError> {
    let failed = |source| TraceError::Read { path: path.into(), source };
    let mut lines = lines.map_err(failed)?;
    let mut line = String::new();
    if mapping.is_none() && lines.begins_document().map_err(failed)? {
        return read_documents(lines, most, path, lenient);
    }
    // The accounting of Grid Engine begins with comments.
    while line.trim().is_empty() || line.trim() == "#" || line.starts_with("# ") {
        if !lines.next(&mut line).map_err(failed)? {
            return Err(TraceError::Blank { path: path.into() });
        }
    }
    if mapping.is_none() && is_document(&line) {
        return read_documents(lines, most, path, lenient);
    }
    let (format, mut reader, header) = detect(&line, mapping).map_err(|problem| {
        TraceError::Format { path: path.into(), line: lines.number(), problem }
    })?;
    let (mut jobs, mut notes) = (Vec::new(), Notes::default());
    let mut pending = !header;
    // The parts of a log that were put together each begin with the header.
    let header = header.then(|| line.clone());
    loop {
        if !pending && !lines.next(&mut line).map_err(failed)? {
            break;
        }
        pending = false;
        if header.as_ref() == Some(&line) {
            continue;
        }
        match reader.row(&line, lines.number(), &mut notes) {
            Ok(row) => jobs.extend(notes.count(row)),
            Err(fault) => {
                let bad = TraceError::Line { path: path.into(), line: lines.number(), fault };
                if !lenient {
                    return Err(bad);
                }
                notes.bad_lines += 1;
                notes.first_bad.get_or_insert_with(|| bad.to_string());
            }
        }
        if jobs.len() + reader.open_jobs() > most {
            return Err(TraceError::TooManyJobs { path: path.into(), line: lines.number(), most });
        }
    }
    jobs.extend(reader.finish());
    trace(path, format, jobs, notes)
}

/// The log of these jobs.
fn trace(
    path: &Path,
    format: Format,
    mut jobs: Vec<Job>,
    notes: Notes,
) -> Result<Trace, TraceError> {
    if jobs.is_empty() {
        let none = notes == Notes::default();
        let notes = if none { String::new() } else { format!(" ({notes})") };
        return Err(TraceError::Empty { path: path.into(), notes });
    }
    if format == Format::AlibabaTasks {
        alibaba::name_predecessors(&mut jobs);
    }
    jobs.sort_by_key(|job| job.submit);
    Ok(Trace { source: path.display().to_string(), format, jobs, notes })
}

/// Reads JSON documents whose first line was read.
fn read_documents(
    lines: Lines,
    most: usize,
    path: &Path,
    lenient: bool,
) -> Result<Trace, TraceError> {
    let line = lines.number();
    let read = Documents::read(lines.rest(), most, lenient);
    let Documents { kind, notes, jobs, .. } = read.map_err(|fault| match fault {
        DocumentFault::Json(error) if error.is_io() => {
            TraceError::Read { path: path.into(), source: error.into() }
        }
        DocumentFault::Json(ref error) => TraceError::Format {
            path: path.into(),
            line: line.max(1) - 1 + error.line() as u64,
            problem: fault.to_string(),
        },
        DocumentFault::TooMany => TraceError::TooManyJobs { path: path.into(), line, most },
        fault => TraceError::Document { path: path.into(), problem: fault.to_string() },
    })?;
    trace(path, Format::Documents(kind.unwrap_or_default()), jobs, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last line of each log is malformed, so an error for it would show that it was read.
    #[test]
    fn reading_stops_at_the_limit_of_jobs() {
        let job = "0,60,1000\n";
        let event = |id: u32| {
            format!("{{\"time\":1,\"type\":0,\"collection_id\":{id},\"instance_index\":0}}\n")
        };
        for text in [
            format!("submit,runtime,cpu_millis\n{}x\n", job.repeat(3)),
            format!("{}{}{}{}x\n", event(1), event(1), event(2), event(3)),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
            std::fs::write(&path, text).unwrap();
            let message = read_at_most(2, &path, None, false).unwrap_err().to_string();
            let expected =
                format!("{}:4: the log has more than 2 jobs: give a part of it", path.display());
            assert_eq!(message, expected);
        }
    }
}
