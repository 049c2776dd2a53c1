//! The simulated cluster that a job log is replayed on: jobs, a queue, a scheduler and nodes.
//!
//! ```text
//! workload.rs        converts the jobs of a log to pods for the buckets of a catalog
//! cluster.rs         nodes in the scheduler's order of preference, and the placeholders on them
//! queue.rs           pending pods
//! scheduler.rs       places jobs on nodes and preempts placeholders
//! scheduler_kind.rs  the names of the scheduler's rules for choosing a node
//! offered.rs         demand without launch latency, and its maximum in a future window
//! allocated.rs       the same demand as the paper counts it, by Algorithm 2
//! warm_pools.rs      instances that groups have prepared and stopped
//! ticks.rs           the ticks that a controller would record from offered demand
//! ```

mod allocated;
mod cluster;
mod offered;
mod queue;
mod scheduler;
mod scheduler_kind;
mod ticks;
mod warm_pools;
mod workload;

pub use allocated::{Allocated, snapshot};
pub use allocated::{allocated, snapshots};
pub(crate) use cluster::{GroupId, NEVER, SimulatedCluster, SimulatedNode, SimulatedNodeId};
pub use offered::LookAhead;
pub use offered::{Series, offered};
pub(crate) use queue::{Queue, Waiting};
pub(crate) use scheduler::{
    PlacedPods, Placements, finish, instances, lose, pass, place, requests,
};
pub use scheduler_kind::SchedulerKind;
pub use ticks::ticks;
pub(crate) use warm_pools::{WarmId, may_stop};
pub use workload::{JobClass, JobClassId, Unplaceable, Workload, WorkloadJob};
