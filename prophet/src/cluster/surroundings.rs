//! What a turn goes by beside the policy.

use std::collections::BTreeSet;

use kube::Client;

use super::config::Config;
use super::sources::Groups;
use crate::observe::{PodClass, Preempted, Shared};

/// What a turn goes by beside the policy.
pub(super) struct Surroundings<'a> {
    pub(super) client: &'a Client,
    pub(super) config: &'a Config,
    pub(super) shared: &'a Shared,
    pub(super) groups: &'a Groups,
    /// Buckets that an older policy has.
    pub(super) taken: &'a BTreeSet<String>,
    /// Pods of workloads that came since the last turn.
    pub(super) arrivals: &'a [(PodClass, u64)],
    /// Placeholders that were preempted since the last turn.
    pub(super) preempted: &'a [Preempted],
}
