//! The instance types on offer, without a cluster.
//!
//! ```text
//! aws_types.rs  a small table of AWS instance types, for job logs without a cluster
//! file.rs       the catalog in a file, and in the settings of a run
//! unfit.rs      why pods fit no instance type, in words
//! ```

mod aws_types;
mod file;
mod unfit;

pub use aws_types::{default_types, families, family, instance_type, instance_types};
pub use file::{CatalogFault, CatalogFile, GroupEntry, InstanceTypeEntry, Reserved};
pub use unfit::why_unfit;
