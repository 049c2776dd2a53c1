//! What can be wrong with a history: errors stop, faults are passed over and reported.

use std::fmt;

use chrono::NaiveDate;
use object_store::path::Path;
use parquet::errors::ParquetError;

use super::line::LineError;
use super::place::Place;

/// Why a history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A policy's name that cannot name a folder.
    #[error("policy {0:?}: expected NAMESPACE.NAME in lower-case letters, digits, dots and dashes")]
    PolicyName(String),
    /// A line of another policy.
    #[error("a line of policy {line} does not belong into the history of {journal}")]
    OtherPolicy {
        /// The policy of the line.
        line: String,
        /// The policy of the journal.
        journal: String,
    },
    /// A line that would be passed over by whoever reads it.
    #[error("a line of {0} bytes is longer than {max}", max = super::raw::LINE_BYTES_MAX)]
    TooLong(usize),
    /// A line that cannot be written as text.
    #[error("failed to write a line as JSON")]
    Text(#[source] serde_json::Error),
    /// A file that cannot be appended to: the disk is full, for one.
    #[error("failed to append to {file}")]
    Append {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Somebody else writes to the same history, and again while we looked.
    #[error("failed to append to {0}: another writer is at it")]
    OtherWriter(String),
    /// The store failed.
    #[error("failed to {act} {file}")]
    Store {
        /// What was tried.
        act: &'static str,
        /// On what.
        file: String,
        /// Why.
        source: object_store::Error,
    },
    /// A line that we refuse, rather than pass over.
    #[error("{file}:{line}")]
    Line {
        /// The file.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// Why.
        source: LineError,
    },
    /// A Parquet file that cannot be written or read.
    #[error("{file}: {act}")]
    Parquet {
        /// What was tried.
        act: &'static str,
        /// The file.
        file: String,
        /// Why.
        source: ParquetError,
    },
    /// A Parquet file that is not as this version has it.
    #[error("{file}: {fault}")]
    Columns {
        /// The file.
        file: String,
        /// What is wrong.
        fault: String,
    },
    /// A day with a line that is none, which must not be lost.
    #[error("day {day} stays as JSON: {fault}")]
    Kept {
        /// The day.
        day: NaiveDate,
        /// The first fault.
        fault: Fault,
    },
    /// What was read back is not what was written.
    #[error("{file} differs from the lines of its day at {time}: they are kept")]
    NotEqual {
        /// The Parquet file.
        file: String,
        /// The time of the first line that differs.
        time: chrono::DateTime<chrono::Utc>,
    },
}

impl HistoryError {
    /// For `map_err`: the store failed at this.
    pub(super) fn store<'a>(
        act: &'static str,
        place: &'a Place,
        path: &'a Path,
    ) -> impl FnOnce(object_store::Error) -> Self + 'a {
        move |source| Self::Store { act, file: place.display(path), source }
    }
}

/// Something in a file that is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// Which line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub kind: FaultKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The last line has no end: whoever wrote it was cut off before it was acknowledged.
    Torn {
        /// How much of it there is.
        bytes: u64,
    },
    /// It is no line of a history.
    Malformed(String),
    /// It is longer than any line that we write.
    TooLong,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, kind } = self;
        match kind {
            FaultKind::Torn { bytes } => write!(f, "{file}:{line}: a torn last line of {bytes} bytes"),
            FaultKind::Malformed(why) => write!(f, "{file}:{line}: not a line of the history: {why}"),
            FaultKind::TooLong => {
                write!(f, "{file}:{line}: longer than {} bytes", super::raw::LINE_BYTES_MAX)
            }
        }
    }
}
