//! The buckets on offer.
//!
//! ```text
//! table.rs   a small table of AWS instance types, for logs that come without a cluster
//! file.rs    a catalog as a file, and as part of a run's settings
//! group.rs   groups of nodes as their source tells of them
//! aws/       Auto Scaling groups
//! ```

#[cfg(feature = "aws")]
pub mod aws;
mod file;
mod group;
mod table;

pub use file::{CatalogFault, CatalogFile, GroupEntry, InstanceTypeEntry, Reserved};
pub use group::{NodeGroup, Taint};
pub use table::{default_types, instance_type, instance_types};
