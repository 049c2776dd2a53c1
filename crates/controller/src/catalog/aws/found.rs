//! The result of a refresh.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::problem::GroupProblem;
use crate::catalog::NodeGroup;

/// The groups and problems that a refresh found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The usable groups, sorted by name.
    pub groups: Vec<NodeGroup>,
    /// Problems of groups, sorted by the group's name. A group with a problem is missing from
    /// `groups` only if [`leaves_out`](super::GroupFault::leaves_out) is true of the problem.
    pub problems: Vec<GroupProblem>,
    /// The groups in which AWS could launch no instance, with the end of their backoff. Empty
    /// without the permission for it.
    pub closed: BTreeMap<String, DateTime<Utc>>,
}
