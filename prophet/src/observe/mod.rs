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
//! world.rs         the index, and the few objects that are kept as they are
//! karpenter.rs     what is read of Karpenter's pools and claims
//! watch.rs         the watches
//! ```

mod announced;
mod class;
mod constraints;
mod index;
mod karpenter;
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
pub use index::{Daemon, Index, PlaceholderPod, Preempted};
pub use karpenter::{NodeClaim, NodePool};
pub use nodes::{NodeFacts, NodeId, NodeSlot, Nodes};
pub(crate) use nodes::{OnNode, less};
pub use objects::{
    BatchJob, CronJob, DaemonSet, JobSet, KueueWorkload, Node, Pod, PodSpec, Requirement, Taint,
};
pub use quantity::{millis, units};
pub use requests::{kind_in, requests, resources};
pub use schedule::Schedule;
pub use watch::{Scope, Shared, Watches};
pub use workloads::{HeldBack, WaitingState, Workloads};
pub use world::{OwnedObject, World};
