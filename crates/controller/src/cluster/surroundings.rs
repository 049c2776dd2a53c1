//! The inputs of a policy's turn, other than the policy itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use placeholders::Ceiling;

use super::config::Config;
use super::election::Leadership;
use super::sources::Groups;
use super::yielding::Yield;
use crate::observe::{Occurred, Shared};
use crate::writes::Writes;

/// The inputs of a policy's turn, other than the policy itself.
pub(super) struct Surroundings<'a> {
    pub(super) client: &'a Client,
    pub(super) leadership: &'a Arc<Leadership>,
    pub(super) config: &'a Config,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) groups: &'a Groups,
    /// How long the turn waits for a replay of the history that begins.
    pub(super) patience: Duration,
    /// Which writes may be sent now.
    pub(super) writes: &'a Writes,
    /// The keys of the labels by which batch pods select nodes.
    pub(super) selected_labels: &'a BTreeSet<String>,
    /// The parts that names of buckets had before.
    pub(super) named_parts: &'a BTreeSet<String>,
    /// The names of the groups that older policies use.
    pub(super) taken: &'a BTreeSet<String>,
    /// What the operator's limits leave after older policies.
    pub(super) left: Ceiling,
    /// What placeholders do for pods that wait for nodes.
    pub(super) yielding: Yield,
    /// What occurred since the last turn.
    pub(super) occurred: &'a Occurred,
    /// Why the time of the turn is not that of the wall clock.
    pub(super) clock_fault: Option<&'a str>,
}
