//! The buckets on offer.
//!
//! ```text
//! table.rs   a small table of AWS instance types, for logs that come without a cluster
//! file.rs    a catalog as a file, and as part of a run's settings
//! ```

mod file;
mod table;

pub use file::{CatalogFault, CatalogFile, GroupEntry, InstanceTypeEntry, Reserved};
pub use table::{default_types, instance_type, instance_types};
