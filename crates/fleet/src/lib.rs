//! The replays of many clusters, in shards, and the advice for each of them.
//!
//! ```text
//! plan.rs     the clusters, their settings, and the shards
//! results.rs  what a shard found, as a Parquet file
//! joined.rs   the advice for each cluster, from the shards that are complete
//! text.rs     the advice for a terminal
//! page.rs     the advice as a page
//! ```

mod joined;
mod page;
mod plan;
mod results;
mod text;

pub use joined::{ClusterAdvice, FleetAdvice, MissingWindow};
pub use page::page;
pub use plan::{Cluster, Part, Plan, Replays, Shard, Shares};
pub use results::{Row, ShardResult};
