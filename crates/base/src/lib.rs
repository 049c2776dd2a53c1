//! What most crates share.
//!
//! ```text
//! span.rs   spans of time in settings and files, such as 90s or 2h
//! tier.rs   bands of priority, each with its own cost of waiting
//! days.rs   the seconds of a window of time, by day
//! clock.rs  the only module that reads a clock
//! pattern.rs  patterns of names, with stars
//! quantity.rs  Kubernetes quantities, exact
//! input/    files that users give: their kind, their text, errors in YAML
//! ```
//!
//! It imports no other crate of the workspace.

pub mod clock;
pub mod days;
pub mod input;
pub mod pattern;
pub mod quantity;
pub mod span;
pub mod tier;

use chrono::TimeDelta;

/// The time after which a launch without a node has failed: 15 minutes, the default of
/// cluster-autoscaler's flag `--max-node-provision-time`.
pub const GIVE_UP: TimeDelta = TimeDelta::minutes(15);
