//! The buckets on offer.
//!
//! ```text
//! described.rs  groups of nodes from a catalog in a file
//! group.rs      groups of nodes, in one form for all sources
//! alike.rs      which groups are one bucket, and the names of buckets
//! labels.rs     the node labels of instance type and capacity type
//! karpenter.rs  groups of nodes from Karpenter's pools
//! live.rs       groups of nodes from live nodes
//! joined.rs     what live nodes add to the description of their group
//! known.rs      what is known of the nodes of a group, also while it has none
//! offers.rs     the buckets on offer in a cluster, sized by its nodes
//! size.rs       the size of a group's nodes
//! price.rs      the price of an instance
//! aws/          groups of nodes from Auto Scaling groups
//! ```

#[cfg(feature = "kubernetes")]
mod alike;
#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "kubernetes")]
mod described;
#[cfg(feature = "kubernetes")]
mod group;
#[cfg(feature = "kubernetes")]
mod joined;
#[cfg(feature = "kubernetes")]
mod karpenter;
#[cfg(feature = "kubernetes")]
mod known;
mod labels;
#[cfg(feature = "kubernetes")]
mod live;
#[cfg(feature = "kubernetes")]
mod offers;
#[cfg(feature = "kubernetes")]
mod price;
#[cfg(feature = "kubernetes")]
mod size;
#[cfg(feature = "kubernetes")]
mod type_labels;

#[cfg(feature = "kubernetes")]
pub use alike::{Comparison, label_of_part, named_parts};
#[cfg(feature = "kubernetes")]
pub use described::file_groups;
#[cfg(feature = "kubernetes")]
pub use group::{LaunchedBy, NodeGroup, OtherTypes, Pool};
#[cfg(feature = "kubernetes")]
pub use joined::joined;
#[cfg(feature = "kubernetes")]
pub use karpenter::{POOL_LABEL, pool_groups};
#[cfg(feature = "kubernetes")]
pub use known::{Known, Sizes};
#[cfg(feature = "kubernetes")]
pub use labels::is_capacity_label;
pub use labels::{INSTANCE_TYPE_LABEL, capacity_type, spot_labels};
#[cfg(feature = "kubernetes")]
pub use live::{Launches, live_groups};
#[cfg(feature = "kubernetes")]
pub use offers::{Offer, Offers, offers};
