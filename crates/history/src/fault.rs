//! Errors and faults of a history.
//!
//! An error stops the operation. A fault is a line that is skipped and reported.

use std::fmt;

use chrono::NaiveDate;
use parquet::errors::ParquetError;

use super::line::LineError;

/// Why a history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The name of the policy is not valid as a folder name.
    #[error("policy {0:?}: expected NAMESPACE.NAME in lower-case letters, digits, dots and dashes")]
    PolicyName(String),
    /// The line belongs to another policy.
    #[error("a line of policy {line} does not belong to the history of {journal}")]
    OtherPolicy {
        /// The policy of the line.
        line: String,
        /// The policy of the journal.
        journal: String,
    },
    /// The line is longer than the longest line that a replay reads.
    #[error("a line of {0} bytes is longer than {max}", max = super::raw::LINE_BYTES_MAX)]
    TooLong(usize),
    /// The line cannot be serialized.
    #[error("failed to write a line as JSON")]
    Text(#[source] serde_json::Error),
    /// The file cannot be appended to, for example because the disk is full.
    #[error("failed to append to {file}")]
    Append {
        /// The file of JSON lines, with its folder or URL.
        file: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Another process wrote to the same history during both attempts to append.
    #[error("failed to append to {0}: another process writes to the same history")]
    OtherWriter(String),
    /// An operation of the store failed.
    #[error("failed to {act} {file}")]
    Store {
        /// The operation, as a verb.
        act: &'static str,
        /// The file or folder.
        file: String,
        /// The cause.
        source: object_store::Error,
    },
    /// The line has a newer format version, so the replay stops instead of skipping it.
    #[error("{file}:{line}")]
    Line {
        /// The file of JSON lines, with its folder or URL.
        file: String,
        /// The line number, from 1.
        line: u64,
        /// The cause.
        source: LineError,
    },
    /// The Parquet file cannot be written or read.
    #[error("{file}: {act}")]
    Parquet {
        /// The operation that failed.
        act: &'static str,
        /// The Parquet file, as messages name it.
        file: String,
        /// The cause.
        source: ParquetError,
    },
    /// The content of the Parquet file does not follow the format.
    #[error("{file}: {fault}")]
    Columns {
        /// The Parquet file, as messages name it.
        file: String,
        /// The problem.
        fault: String,
    },
    /// The day has a malformed line, which a compaction would lose.
    #[error("day {day} stays as JSON: {fault}")]
    Kept {
        /// The day in UTC whose lines are kept.
        day: NaiveDate,
        /// The first fault.
        fault: HistoryFault,
    },
    /// The Parquet file that was read back differs from the lines that were written.
    #[error("{file} differs from the lines of its day at {time}: the lines are kept")]
    NotEqual {
        /// The Parquet file.
        file: String,
        /// The time of the first line that differs.
        time: chrono::DateTime<chrono::Utc>,
    },
}

impl HistoryError {
    /// Whether the line itself cannot be written, whatever the state of the storage.
    pub fn is_of_the_line(&self) -> bool {
        matches!(self, Self::OtherPolicy { .. } | Self::TooLong(_) | Self::Text(_))
    }

    /// A conversion for `map_err`: an operation of the store on `file` failed.
    pub(crate) fn store(
        act: &'static str,
        file: String,
    ) -> impl FnOnce(object_store::Error) -> Self {
        move |source| Self::Store { act, file, source }
    }
}

/// A line or a file that a replay skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryFault {
    /// The file with the problem, with its folder or URL.
    pub file: String,
    /// The line number, from 1; 0 for the file.
    pub line: u64,
    /// The problem.
    pub kind: HistoryFaultKind,
}

/// The problem of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryFaultKind {
    /// The last line has no line end, because its writer was interrupted before it acknowledged the
    /// line.
    Torn {
        /// The length of the line, in bytes.
        bytes: u64,
    },
    /// The text is not a line of the history.
    Malformed(String),
    /// The line is longer than the longest line that Prophet writes.
    TooLong,
    /// The Parquet file of the day is damaged. The rest of it is skipped.
    Damaged(String),
}

impl fmt::Display for HistoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, kind } = self;
        match kind {
            HistoryFaultKind::Torn { bytes } => {
                write!(f, "{file}:{line}: a torn last line of {bytes} bytes")
            }
            HistoryFaultKind::Malformed(why) => {
                write!(f, "{file}:{line}: not a line of the history: {why}")
            }
            HistoryFaultKind::TooLong => {
                write!(f, "{file}:{line}: longer than {} bytes", super::raw::LINE_BYTES_MAX)
            }
            HistoryFaultKind::Damaged(why) => write!(f, "{file}: damaged: {why}"),
        }
    }
}
