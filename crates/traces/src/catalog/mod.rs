//! The instance types on offer, without a cluster.
//!
//! ```text
//! table.rs  a small table of AWS instance types, for job logs without a cluster
//! file.rs   the catalog in a file, and in the settings of a run
//! unfit.rs  why pods fit no instance type, in words
//! ```

mod file;
mod table;
mod unfit;

pub use file::{CatalogFault, CatalogFile, GroupEntry, InstanceTypeEntry, Reserved};
pub use table::{default_types, families, family, instance_type, instance_types};
pub use unfit::why_unfit;
