//! How many instances does this need?
//!
//! Packs the resource vectors of pods into instance-type buckets, exactly, in integers.
//! Pure: no Kubernetes, no clock, no I/O; the same input gives the same output.
//!
//! ```text
//! resources.rs   the resource vector: exact units, total order
//! bucket.rs      instance types, their groups, the catalog, and what a pod asks for
//! pack.rs        first-fit-increasing over shapes with counts
//! share.rs       the paper's Algorithm 2: dominant shares
//! gang.rs        pods that start together, as virtual instances
//! base.rs        which small instance types earn their place
//! demand.rs      a cluster as demand per bucket
//! ```
//!
//! "The paper" is "A Predictive Autoscaler for Elastic Batch Jobs".

mod base;
mod bucket;
mod demand;
mod gang;
mod pack;
mod resources;
mod share;

pub use base::base;
pub use bucket::{
    AcceleratorKind, Bucket, BucketId, BucketSet, CapacityType, Catalog, CatalogError, Group, MicroDollars,
    Shape,
};
pub use demand::{Cluster, Demand, embed};
pub use gang::{Gang, Split, VirtualInstance, split, virtual_instance};
pub use pack::{Ask, FreeRoom, Order, PackShape, Packing, Placed, Room, Unfit, Unplaced, pack, pack_within};
pub use resources::{Resource, Resources, UNLIMITED};
pub use share::{Share, share};
