//! The buckets on offer.
//!
//! ```text
//! table.rs      a small table of AWS instance types, for logs that come without a cluster
//! file.rs       a catalog as a file, and as part of a run's settings
//! group.rs      groups of nodes as their source tells of them
//! karpenter.rs  pools of Karpenter as groups
//! offers.rs     the buckets that groups offer in a cluster, sized by its nodes
//! price.rs      what an instance costs
//! aws/          Auto Scaling groups
//! ```

#[cfg(feature = "aws")]
pub mod aws;
mod file;
mod group;
#[cfg(feature = "kubernetes")]
mod karpenter;
#[cfg(feature = "kubernetes")]
mod offers;
#[cfg(feature = "kubernetes")]
mod price;
mod table;

pub use file::{CatalogFault, CatalogFile, GroupEntry, InstanceTypeEntry, Reserved};
pub use group::{NodeGroup, Taint};
#[cfg(feature = "kubernetes")]
pub use karpenter::pool_groups;
#[cfg(feature = "kubernetes")]
pub use offers::{INSTANCE_TYPE_LABEL, Offer, Offers, Sizes, capacity_type, live_groups, offers};
pub use table::{default_types, instance_type, instance_types};
