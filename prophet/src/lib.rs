//! Launches the nodes that a batch cluster is about to need, before it needs them.
//!
//! ```text
//! observe → embed → record → forecast → plan → actuate → explain
//!
//! observe/     the watches of a cluster, and one synchronous index
//! catalog/     the buckets on offer: files, live nodes, Karpenter, Auto Scaling groups
//! outcome.rs   the result of a turn on a cluster
//! rollout/     the part of the placeholders that stands while a policy begins to act
//! writes.rs    which writes to the API server may be sent now
//! account.rs   the launches that placeholders hid, and what they cost
//! explain/     status, events, metrics
//! crd/         OverprovisioningPolicy
//! cluster/     the controller's loop, and one policy's turn on a cluster
//! serve/       health, readiness, metrics and the dashboard of the controller
//! description_page.rs   the page of a log's statistics
//! demo/        two simulated policies in fast time, on the dashboard
//! cli/         one file per command; nothing imports it
//! ```
//!
//! Some stages are crates of their own: `embedder` embeds, `demand` records and forecasts, and
//! `placeholders` plans and actuates.

#[cfg(feature = "kubernetes")]
pub mod account;
pub mod catalog;
pub mod cli;
#[cfg(feature = "kubernetes")]
pub mod cluster;
#[cfg(feature = "kubernetes")]
pub mod crd;

pub mod demo;
pub mod description_page;
#[cfg(feature = "kubernetes")]
pub mod explain;

#[cfg(feature = "kubernetes")]
pub mod observe;
#[cfg(feature = "kubernetes")]
pub mod outcome;

#[cfg(feature = "kubernetes")]
pub mod rollout;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "kubernetes")]
mod writes;
