//! The world that a log is replayed in: jobs, a queue, a scheduler and nodes.
//!
//! ```text
//! workload.rs   jobs of a log as pods of shapes on a catalog's buckets
//! cluster.rs    nodes, their free room, placeholders on them
//! queue.rs      pods that wait
//! scheduler.rs  jobs onto nodes, gangs whole, placeholders preempted
//! offered.rs    demand without launch latency, and a look ahead at it
//! ticks.rs      offered demand as the ticks that a controller records
//! days.rs       seconds of a window of time, by day
//! ```

mod cluster;
mod days;
mod offered;
mod queue;
mod scheduler;
mod scheduler_kind;
mod ticks;
mod workload;

pub(crate) use cluster::{NEVER, SimulatedCluster, SimulatedNode, SimulatedNodeId};
pub(crate) use days::{DAY_SECONDS, add_by_day, days, within};
pub(crate) use offered::LookAhead;
pub use offered::{Series, offered};
pub(crate) use queue::{Queue, Waiting};
pub(crate) use scheduler::{Placements, finish, instances, pass, place, requests};
pub use scheduler_kind::SchedulerKind;
pub use ticks::ticks;
pub(crate) use workload::{JobClass, JobClassId};
pub use workload::{Unplaceable, Workload};
