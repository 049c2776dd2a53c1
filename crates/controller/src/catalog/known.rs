//! What is known of the nodes of each group from those that it has or had.
//!
//! A group that has no nodes left keeps what its nodes showed, over restarts too, because a
//! different size, label or taint changes the placeholders' template and replaces all placeholders.
//! The status of the policy has it in between.

use std::collections::{BTreeMap, BTreeSet};

use embedder::Resources;

use super::group::NodeGroup;
use crate::observe::Taint;

/// What is known of each group's nodes, by the group's name.
pub type Sizes = BTreeMap<String, Known>;

/// What is known of a group's nodes from those that it has or had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The instance type of the group at that time. Nodes of another type are different.
    pub instance_type: String,
    /// The size before DaemonSets. It does not follow differences of a few bytes. `None` before the
    /// first ready node.
    pub size: Option<Resources>,
    /// The devices beyond the size, by name, with the amounts that nodes had last. A node that has
    /// just joined lacks the devices whose plugin has not started, so all that were ever seen are
    /// kept.
    pub devices: BTreeMap<String, u64>,
    /// Labels that the source of the group does not have, and by which pods select nodes.
    pub labels: BTreeMap<String, String>,
    /// The taints, if the source does not describe the nodes of the group. `None` before the first
    /// ready node.
    pub taints: Option<Vec<Taint>>,
    /// The DaemonSets, as NAMESPACE/NAME, that run on the nodes because of labels that the source
    /// of the group does not have, such as those of node feature discovery.
    pub daemons: BTreeSet<String>,
}

/// What is known of the nodes of a group. It is empty if the group had another instance type.
pub(super) fn known<'a>(sizes: &'a mut Sizes, group: &NodeGroup) -> &'a mut Known {
    let known = sizes.entry(group.name.clone()).or_default();
    if known.instance_type != group.instance_type {
        *known = Known { instance_type: group.instance_type.clone(), ..Known::default() };
    }
    known
}
