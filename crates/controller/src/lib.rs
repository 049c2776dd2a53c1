//! The controller: observes a cluster, takes one turn for each policy, and writes what follows.
//!
//! ```text
//! observe → embed → record → forecast → plan → actuate → explain
//!
//! observe/    the watches of a cluster, and one synchronous index
//! catalog/    the buckets on offer: live nodes, Karpenter, Auto Scaling groups
//! crd/        OverprovisioningPolicy
//! cluster/    the loop, and one policy's turn on a cluster
//! actuate.rs  the only code that writes placeholders
//! outcome.rs  the result of a turn
//! rollout/    the part of the placeholders that stands while a policy begins to act
//! writes.rs   which writes to the API server may be sent now
//! causes.rs   the message of an error with those of its causes
//! account.rs  the launches that placeholders hid, and what they cost
//! explain/    status, events, metrics
//! serve/      health, readiness, metrics and the dashboard
//! ```
//!
//! Only this crate and the program use a client of Kubernetes. The simulator is injected
//! ([`cluster`]).

pub mod account;
pub mod actuate;
pub mod catalog;
mod causes;
pub mod cluster;
pub mod crd;
pub mod explain;
pub mod observe;
pub mod outcome;
pub mod rollout;
pub mod serve;
mod writes;
