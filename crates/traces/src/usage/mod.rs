//! Readers of what containers use. Rows are handed on one after the other, so a file may be larger
//! than memory.
//!
//! ```text
//! read.rs         reads a file of any format (reader.rs: shared by the readers)
//! usage_table.rs  Prophet's usage table
//! borg.rs         instance_usage of Google's clusterdata-2019
//! ```

mod borg;
mod read;
mod reader;
mod usage_table;

pub use read::read_usage;
pub use reader::UsageNotes;
