//! Counts the instances that a set of pods needs.
//!
//! This crate packs the resource vectors of pods into instance-type buckets, with exact integer
//! arithmetic. It is pure: it has no Kubernetes client, no clock and no I/O, so the same input
//! always gives the same output.
//!
//! ```text
//! resources.rs   the resource vector: exact units, total order
//! bucket.rs      instance types, their groups, the catalog, and the shapes of pods
//! room.rs        the free room of nodes, with an index for the search of the first fit
//! pack.rs        first-fit-increasing over shapes with counts
//! share.rs       the paper's Algorithm 2: dominant shares
//! gang.rs        pods that start together, as virtual instances
//! base.rs        selection of the smallest instance type that lowers the cost
//! demand.rs      the state of a cluster as demand per bucket
//! ```
//!
//! "The paper" is "A Predictive Autoscaler for Elastic Batch Jobs".

mod base;
mod bucket;
mod demand;
mod gang;
mod pack;
mod resources;
mod room;
mod share;

pub use base::base;
pub use bucket::{
    AcceleratorKind, Bucket, BucketId, BucketSet, CapacityType, Catalog, CatalogError, Group,
    MicroDollars, Shape, Unfit, parts_of_name, plain_name,
};
pub use demand::{Cluster, Demand, embed, embed_preferring};
pub use gang::{Gang, Split, VirtualInstance, split, virtual_instance};
pub use pack::{
    FreeRoom, Order, PackShape, Packing, Placed, PodRequest, Unplaced, new_instance, pack,
    pack_within,
};
pub use resources::{DEVICES_MAX, Devices, Resource, Resources, UNLIMITED};
pub use room::Room;
pub use share::{Share, Sums, share};
