//! Observe: what a cluster's watches tell, in one synchronous index, and what a policy sees of it.
//!
//! ```text
//! objects.rs       what is read of Kubernetes objects
//! quantity.rs      Kubernetes quantities, exact
//! requests.rs      what a pod takes of a node
//! constraints.rs   where a pod may go
//! class.rs         pods that are alike, held once
//! nodes.rs         nodes, and what runs on each
//! announced.rs     pods to be
//! schedule.rs      when a CronJob fires
//! index.rs         all of it, kept up to date by events
//! workloads.rs     which of it a policy is about
//! gather.rs        what a policy sees at a moment: input of the stages that follow
//! world.rs         the index, and the few objects that are kept as they are
//! karpenter.rs     what is read of Karpenter's pools and claims
//! launching.rs     launches that ended, as our placeholders tell of them
//! watch.rs         the watches
//! ```

mod announced;
mod class;
mod constraints;
mod gather;
mod index;
mod karpenter;
mod launching;
mod nodes;
mod objects;
mod quantity;
mod requests;
mod schedule;
mod watch;
mod workloads;
mod world;

pub use announced::{Announcement, Held, Key, Reading};
pub use class::{ClassId, Classes, PodClass, Role};
pub use constraints::Constraints;
pub use gather::{Places, Seen, View};
pub use index::{Daemon, Index, PlaceholderPod, Preempted};
pub use karpenter::{NodeClaim, NodePool};
pub use launching::Launching;
pub(crate) use nodes::less;
pub use nodes::{NodeFacts, NodeId, Nodes, Slot};
pub use objects::{CronJob, DaemonSet, Job, JobSet, Node, Pod, PodSpec, Requirement, Workload};
pub use quantity::{millis, units};
pub use requests::{kind_in, requests, resources};
pub use schedule::Schedule;
pub use watch::{Scope, Shared, Watches};
pub use workloads::{HeldBack, Standing, Workloads};
pub use world::{OwnedObject, World};
