//! The history on disk or in S3. `docs/history.md` describes the format of its files.
//!
//! ```text
//! line.rs       converts a tick to a line of JSON, and back
//! finished.rs   pods that ended, and buckets on offer, as lines contain them
//! shape_key.rs  converts a shape to a text, and back
//! place.rs      the location: a folder, or a prefix in an S3 bucket
//! journal.rs    appends lines (file.rs: to a file, atomically; removes a torn last line)
//! replay.rs     reads lines, oldest first (raw.rs: splits bytes into lines)
//! archive.rs    converts closed days to Parquet (columns.rs: lines as rows)
//! parquet_columns.rs  the columns of a Parquet file, as vectors of values
//! fault.rs      errors, which stop, and faults, which are skipped and reported
//! ```

mod archive;
mod columns;
mod fault;
mod file;
mod finished;
mod journal;
mod line;
pub mod parquet_columns;
mod place;
mod raw;
mod replay;
#[cfg(test)]
mod samples;
mod shape_key;

pub use archive::{Compaction, Export, KEPT_MIN, export};
pub use fault::{HistoryError, HistoryFault, HistoryFaultKind};
pub use finished::{FinishedPods, Offered, OfferedBucket, OfferedGroup};
pub use journal::{Appended, Journal};
pub use line::{
    BucketExtras, BucketLine, EndedLaunch, LaunchEnd, Line, LineError, Recalled, UsedLaunch,
    VERSION,
};
pub use place::{Place, PlaceError};
pub use replay::{HistoryReplay, ReplayReport};
pub use shape_key::{ShapeKeyError, parse_shape_key, shape_key};
