//! Launches the nodes that a batch cluster is about to need, before it needs them.
//!
//! ```text
//! observe → embed → record → forecast → plan → actuate → explain
//!
//! cluster/     the cluster side of control: the loop, and each policy's turn
//! explain/     status, events, metrics
//! serve.rs     health, readiness and metrics over HTTP
//! control.rs   one policy's control, free of Kubernetes and of clocks
//! crd/         OverprovisioningPolicy, what a platform team writes
//! observe/     a cluster's watches in one synchronous index
//! decide.rs    learn, forecast, decide: all decisions, without I/O
//! catalog/     the buckets on offer: a table of AWS types, a file
//! record/      the history that forecasts learn from
//! forecast/    one file per method
//! backtest/    how far off forecasts are, and what decisions by them would have cost
//! simulate/    an event-driven cluster that runs a job log under a policy
//! trace/       readers of public logs, and a generator of synthetic ones
//! cli/         one file per command; nothing imports it
//! ```

pub mod backtest;
pub mod catalog;
pub mod cli;
#[cfg(feature = "kubernetes")]
pub mod cluster;
pub mod control;
#[cfg(feature = "kubernetes")]
pub mod crd;
pub mod decide;
#[cfg(feature = "kubernetes")]
pub mod explain;
pub mod forecast;
#[cfg(feature = "kubernetes")]
pub mod observe;
#[cfg(feature = "kubernetes")]
pub mod outcome;
pub mod record;
pub mod replay;
mod report;
#[cfg(feature = "serve")]
pub mod serve;
pub mod simulate;
pub mod span;
pub mod trace;
