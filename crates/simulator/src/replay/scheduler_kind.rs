//! The rules by which the simulated scheduler can choose a node. `cluster.rs` applies them.

use serde::{Deserialize, Serialize};

/// How the scheduler chooses among nodes that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// The node with the least free room that fits, accelerators first.
    Pack,
    /// The node with the smallest share of its resources in use (Kubernetes' default,
    /// `LeastAllocated`).
    Spread,
}
