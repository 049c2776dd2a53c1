//! The buckets on offer.
//!
//! ```text
//! described.rs     groups of nodes from a catalog in a file
//! group.rs         groups of nodes, in one form for all sources
//! alike.rs         which groups are one bucket, and the names of buckets
//! labels.rs        the node labels of instance type and capacity type
//! karpenter.rs     groups of nodes from Karpenter's pools
//! pool_classes.rs  the size classes of Karpenter's pools, and which of them pods need
//! live.rs          groups of nodes from live nodes
//! joined.rs        what live nodes add to the description of their group
//! known.rs         what is known of the nodes of a group, also while it has none
//! offers.rs        the buckets on offer in a cluster, sized by its nodes
//! overlays.rs      what Karpenter's overlays add to instance types
//! size.rs          the size of a group's nodes
//! price.rs         the price of an instance
//! warm_pool.rs     the warm pools of groups that are wanted, and that stand
//! aws/             groups of nodes from Auto Scaling groups
//! ```

mod alike;
#[cfg(feature = "aws")]
pub mod aws;
mod described;
mod group;
mod joined;
mod karpenter;
mod known;
mod labels;
mod live;
mod offers;
mod overlays;
mod pool_classes;
mod price;
mod size;
mod type_labels;
mod warm_pool;

pub use alike::{Comparison, label_of_part, named_parts};
pub use described::file_groups;
pub use group::{LaunchedBy, NodeGroup, OtherTypes, Pool};
pub use joined::joined;
pub use karpenter::{is_flexible, pool_groups, startup_taints};
pub use known::{Known, Sizes};
pub use labels::is_capacity_label;
pub use labels::{INSTANCE_TYPE_LABEL, REGION_LABEL, capacity_type, spot_labels};
pub use live::{Launchers, live_groups};
pub use offers::{Offer, Offers, offers};
pub use pool_classes::PoolClasses;
pub use price::Pricing;
pub use warm_pool::{StandingPool, StandingPools, WantedPool, WantedPools};
