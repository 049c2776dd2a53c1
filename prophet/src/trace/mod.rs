//! Job logs: readers of public formats, a generator of synthetic ones, and what a log is like.
//!
//! A reader streams lines and yields jobs; the format is told from the content. What counts is submit and runtime: the
//! wait that a log recorded belongs to the machine that it came from. A bad line is an error that names file, line, column
//! and value, unless the caller is lenient.
//!
//! ```text
//! lines.rs      lines of a file, plain or gzip, of bounded length
//! philly.rs  swf.rs  openb.rs  borg.rs  table.rs    one file per format
//! generate.rs   a seeded synthetic log
//! describe.rs   demand, arrivals, autocorrelation, tail
//! ```

mod borg;
mod describe;
mod generate;
mod lines;
mod openb;
mod philly;
mod swf;
mod table;

use std::path::{Path, PathBuf};

use embedder::{AcceleratorKind, Resources, Split};

pub use describe::{Description, describe};
pub use generate::{Recipe, generate};
pub use table::write as write_table;

use lines::Lines;

/// A job of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name in the log, or its row.
    pub name: Box<str>,
    /// When it was submitted, in seconds: Unix time where the log has it, else since the log's zero.
    pub submit: i64,
    /// How long it ran, in seconds, above 0.
    pub runtime: i64,
    /// Higher is placed first.
    pub priority: i32,
    /// What it asks for.
    pub work: Work,
}

/// What a job asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// How many units; above 0.
    pub units: u64,
    /// What each asks for.
    pub unit: Resources,
    /// The kind of the accelerators, where it asks for any.
    pub accelerator_kind: AcceleratorKind,
    /// How units become pods: `None` makes each unit a pod; else as many units as an instance holds share one.
    pub split: Option<Split>,
}

/// The formats that are read.
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
    /// Our own: see `docs/trace-format.md`.
    Table,
}

impl Format {
    /// Its name.
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

/// A log as it was read, jobs in the order of their submission.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What it was read from.
    pub source: String,
    /// Its format.
    pub format: Format,
    /// The jobs, by submission, then by place in the log.
    pub jobs: Vec<Job>,
    /// What was left out or changed on the way.
    pub notes: Notes,
}

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

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("failed to read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line does not make sense.
    #[error("{}:{line}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// Column and value.
        fault: Fault,
    },
    /// The content is of no format that is read.
    #[error("{}: not a known format; the first line is {first:?}. Known are Philly CSV, SWF, Alibaba openb pods, Borg 2019 events (JSON lines) and our own job table (docs/trace-format.md)", path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The start of its first line.
        first: String,
    },
    /// There is no job in it.
    #[error("{}: no job that ran ({notes})", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// What was left out.
        notes: String,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}, got {value:?}")]
pub struct Fault {
    /// The column's name.
    pub column: &'static str,
    /// What was expected.
    pub problem: &'static str,
    /// What is there, shortened.
    pub value: String,
}

impl Fault {
    fn new(column: &'static str, problem: &'static str, value: &str) -> Self {
        Self { column, problem, value: value.chars().take(80).collect() }
    }
}

/// What a reader makes of a line.
enum Row {
    Job(Job),
    NeverRan,
    NoSize,
    NotAJob,
    Blank,
}

/// A format's reader: fed line by line, without the header that told the format.
trait Reader {
    fn row(&mut self, line: &str, number: u64, notes: &mut Notes) -> Result<Row, Fault>;

    /// What was still open when the log ended.
    fn finish(&mut self) -> Vec<Job> {
        Vec::new()
    }
}

/// Reads a log; `.gz` is read as it is.
///
/// # Errors
/// The file cannot be read, its format is unknown, it holds no job, or, unless `lenient`, a line is bad.
pub fn read(path: &Path, lenient: bool) -> Result<Trace, TraceError> {
    let failed = |source| TraceError::Read { path: path.into(), source };
    let mut lines = Lines::open(path).map_err(failed)?;
    let mut first = String::new();
    let found = lines.next(&mut first).map_err(failed)?;
    let unknown = || TraceError::Unknown { path: path.into(), first: first.chars().take(80).collect() };
    let line_1 = |fault| TraceError::Line { path: path.into(), line: 1, fault };
    let (format, mut reader, header) = tell(&first).map_err(line_1)?.filter(|_| found).ok_or_else(unknown)?;
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

/// A format, its reader, and whether the line that told it is a header.
type Told = (Format, Box<dyn Reader>, bool);

/// The format of a log by its first line.
fn tell(first: &str) -> Result<Option<Told>, Fault> {
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
    let swf = first.trim_start().starts_with(';') || numbers == 18 && first.split_whitespace().count() == 18;
    Ok(swf.then(|| (Format::Swf, Box::new(swf::Swf::default()) as _, false)))
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
        let said: Vec<String> =
            counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        f.write_str(if said.is_empty() { "nothing left out" } else { "" })?;
        f.write_str(&said.join(", "))?;
        first_bad.iter().try_for_each(|bad| write!(f, " (the first: {bad})"))
    }
}

/// The latest time and the longest runtime that make sense: the year 5138, and three thousand years.
const SECONDS_MAX: f64 = 1e11;

/// The most units of one job: more than any machine has.
const UNITS_MAX: f64 = 1e6;

/// The most of one resource that one unit may ask for: an exbibyte of memory, and more of the others than exists.
const AMOUNT_MAX: f64 = (1_u64 << 60) as f64;

/// A number of seconds, rounded to whole ones.
fn seconds(column: &'static str, text: &str) -> Result<i64, Fault> {
    let value = number(column, text, SECONDS_MAX)?;
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
    Ok(value.round() as i64)
}

/// A count, rounded up to a whole one; below 0 is 0, as logs write -1 for unknown.
fn count(column: &'static str, text: &str, most: f64) -> Result<u64, Fault> {
    let value = number(column, text, most)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    Ok(value.max(0.0).ceil() as u64)
}

fn number(column: &'static str, text: &str, most: f64) -> Result<f64, Fault> {
    let value: f64 = text.trim().parse().map_err(|_| Fault::new(column, "expected a number", text))?;
    if value.abs() <= most { Ok(value) } else { Err(Fault::new(column, "out of range", text)) }
}

/// The place of a column in a header.
fn place(columns: &[&str], name: &str) -> usize {
    columns.iter().position(|column| *column == name).unwrap_or(usize::MAX)
}

/// The field of a row at a place.
fn field<'a>(fields: &[&'a str], at: usize, column: &'static str) -> Result<&'a str, Fault> {
    fields
        .get(at)
        .copied()
        .map(str::trim)
        .ok_or_else(|| Fault::new(column, "the line has too few columns", ""))
}
