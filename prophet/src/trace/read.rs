//! Reads a log of any supported format.

use std::path::{Path, PathBuf};

use super::job::Job;
use super::lines::Lines;
use super::reader::{Notes, Reader, Row, TraceFault};
use super::{borg, openb, philly, swf, table};

/// The supported formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Microsoft Philly: `timestamp,duration,num_gpus,gpu_time,cluster`.
    Philly,
    /// The Standard Workload Format, version 2.2.
    Swf,
    /// Alibaba's cluster-trace-gpu-v2023 pods.
    Openb,
    /// Google's clusterdata-2019 event tables as JSON lines.
    Borg,
    /// Prophet's job table. `docs/trace-format.md` specifies it.
    Table,
}

impl Format {
    /// The name of the format in reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Philly => "Philly CSV",
            Self::Swf => "Standard Workload Format",
            Self::Openb => "Alibaba openb pods",
            Self::Borg => "Borg 2019 events",
            Self::Table => "job table",
        }
    }
}

/// A job log.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The path of the log, or a description of a synthetic one.
    pub source: String,
    /// The format.
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
    /// The format of the content is not supported.
    #[error("{}: not a known format; the first line is {first:?}. Known formats are Philly CSV, SWF, Alibaba openb pods, Borg 2019 events (JSON lines) and the job table (docs/trace-format.md)", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The start of its first line.
        first: String,
    },
    /// The log has no job that ran.
    #[error("{}: no job that ran ({notes})", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The counts of omitted rows.
        notes: String,
    },
}

/// Reads a log. A gzip file is decompressed.
///
/// # Errors
/// Returns an error if the file cannot be read, its format is unknown, it has no job that ran, or,
/// unless `lenient`, a line is malformed.
pub fn read(path: &Path, lenient: bool) -> Result<Trace, TraceError> {
    let failed = |source| TraceError::Read { path: path.into(), source };
    let mut lines = Lines::open(path).map_err(failed)?;
    let mut first = String::new();
    let found = lines.next(&mut first).map_err(failed)?;
    let unknown =
        || TraceError::Unknown { path: path.into(), first: first.chars().take(80).collect() };
    let line_1 = |fault| TraceError::Line { path: path.into(), line: 1, fault };
    let (format, mut reader, header) =
        detect(&first).map_err(line_1)?.filter(|_| found).ok_or_else(unknown)?;
    let (mut jobs, mut notes) = (Vec::new(), Notes::default());
    let mut line = first.clone();
    let mut pending = !header;
    loop {
        if !pending && !lines.next(&mut line).map_err(failed)? {
            break;
        }
        pending = false;
        match reader.row(&line, lines.number(), &mut notes) {
            Ok(Row::Job(job)) => jobs.push(job),
            Ok(Row::NeverRan) => notes.never_ran += 1,
            Ok(Row::NoSize) => notes.no_size += 1,
            Ok(Row::NotAJob) => notes.not_jobs += 1,
            Ok(Row::Blank) => {}
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
    jobs.extend(reader.finish());
    if jobs.is_empty() {
        return Err(TraceError::Empty { path: path.into(), notes: notes.to_string() });
    }
    jobs.sort_by_key(|job| job.submit);
    Ok(Trace { source: path.display().to_string(), format, jobs, notes })
}

/// A format, its reader, and whether the first line is a header.
type Detected = (Format, Box<dyn Reader>, bool);

/// Detects the format of a log from its first line. `None` if it is unknown.
fn detect(first: &str) -> Result<Option<Detected>, TraceFault> {
    let columns: Vec<&str> = first.split(',').map(str::trim).collect();
    let has = |names: &[&str]| names.iter().all(|name| columns.contains(name));
    if has(&["timestamp", "duration", "num_gpus"]) {
        return Ok(Some((Format::Philly, Box::new(philly::Philly::new(&columns)), true)));
    }
    if has(&["cpu_milli", "memory_mib", "num_gpu", "creation_time"]) {
        return Ok(Some((Format::Openb, Box::new(openb::Openb::new(&columns)), true)));
    }
    if has(&["submit", "runtime"]) {
        return Ok(Some((Format::Table, Box::new(table::Table::new(&columns)?), true)));
    }
    if first.trim_start().starts_with('{') {
        return Ok(Some((Format::Borg, Box::new(borg::Borg::default()), false)));
    }
    let numbers = first.split_whitespace().filter(|field| field.parse::<f64>().is_ok()).count();
    let swf = first.trim_start().starts_with(';')
        || numbers == 18 && first.split_whitespace().count() == 18;
    Ok(swf.then(|| (Format::Swf, Box::new(swf::Swf::default()) as _, false)))
}
