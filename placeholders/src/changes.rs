//! Computes the writes that lead a group from its standing placeholders to the planned ones.
//!
//! The computation is pure: once the writes are applied, a second computation returns no writes.
//! The number of pods without a gate never exceeds the planned number, unless more stood before.
//! When the template changes, old placeholders are deleted before new ones are created, a few at a
//! time, because a full node has no room for both.
//!
//! A stranded placeholder does not count. It is kept in addition to the planned ones until its node
//! goes, because a ReplicaSet that shrinks would delete another of its pods.

use serde_json::Value;

use crate::manifest::{HOLD_GATE, Template};

/// A ReplicaSet that Prophet owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingSet {
    /// The name, which contains the digest of its template.
    pub name: String,
    /// The `resourceVersion` that a write must carry.
    pub resource_version: String,
    /// The number of pods in `spec.replicas`.
    pub replicas: u64,
    /// The pods of the ReplicaSet.
    pub pods: Vec<StandingPod>,
}

/// A placeholder pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingPod {
    /// The pod's name, which the API server generated from that of the ReplicaSet.
    pub name: String,
    /// The `resourceVersion` that a write must carry.
    pub resource_version: String,
    /// All scheduling gates of the pod.
    pub gates: Vec<String>,
    /// Whether Prophet's gate, [`HOLD_GATE`], is one of them.
    pub held: bool,
    /// Whether the pod is bound to a node.
    pub binding: Binding,
    /// Whether the pod is being deleted.
    pub deleting: bool,
}

/// Whether a placeholder pod is bound to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// The pod waits for a node.
    #[default]
    Unbound,
    /// The pod is bound to a node.
    Bound,
    /// The pod is bound to a node that other pods cannot use, so it provides no headroom.
    Stranded,
}

/// One write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Creates the group's present ReplicaSet, or sets its number of replicas.
    Apply {
        /// The name of the ReplicaSet.
        set: String,
        /// The complete object, with its last `resourceVersion` if it exists.
        body: Box<Value>,
    },
    /// Sets the number of replicas of a ReplicaSet with an older template.
    Scale {
        /// The name of the ReplicaSet.
        set: String,
        /// The last `resourceVersion` of the object.
        resource_version: String,
        /// The number of replicas.
        replicas: u64,
    },
    /// Removes the gate of a pod.
    Lift {
        /// The name of the pod.
        pod: String,
        /// The last `resourceVersion` of the object.
        resource_version: String,
        /// The gates that remain.
        gates: Vec<String>,
    },
    /// Deletes a ReplicaSet that has no replicas and no pods any more.
    Delete {
        /// The name of the ReplicaSet.
        set: String,
        /// The last `resourceVersion` of the object.
        resource_version: String,
    },
}

/// The number of placeholders that a rolling replacement deletes at once in one group: 2. The value
/// is small because each deleted placeholder lowers the headroom until its replacement runs.
const ROLL_AT_ONCE: u64 = 2;

impl StandingSet {
    fn staying(&self) -> impl Iterator<Item = &StandingPod> {
        self.pods.iter().filter(|pod| !pod.deleting)
    }

    fn lifted(&self) -> u64 {
        self.staying().filter(|pod| !pod.held && pod.binding != Binding::Stranded).count() as u64
    }

    fn bound(&self) -> u64 {
        self.staying().filter(|pod| pod.binding == Binding::Bound).count() as u64
    }

    /// The number of replicas with which `want` placeholders provide headroom.
    fn replicas_for(&self, want: u64) -> u64 {
        let stranded = self.staying().filter(|pod| pod.binding == Binding::Stranded).count() as u64;
        if want == 0 { 0 } else { want.saturating_add(stranded) }
    }
}

/// Returns the writes that lead a group towards `want` placeholders made by `template`.
///
/// `sets` are all ReplicaSets of the group.
pub fn changes(template: &Template, want: u64, sets: &[StandingSet]) -> Vec<Change> {
    let mut changes = Vec::new();
    let name = template.name();
    let present = sets.iter().find(|set| set.name == name);
    let older: Vec<&StandingSet> = sets.iter().filter(|set| set.name != name).collect();
    let old: u64 = older.iter().map(|set| set.lifted()).sum();
    let new = present.map_or(0, StandingSet::lifted);
    // If there are too many placeholders, those of older templates are removed first.
    let new_kept = new.min(want);
    let new_want = want.saturating_sub(old).max(new_kept);
    if new_want > 0 || present.is_some() {
        towards(template, present, new_want, new, &mut changes);
    }
    let settled = present
        .is_none_or(|set| set.staying().all(|pod| pod.held || pod.binding != Binding::Unbound))
        && new >= new_want;
    // A pending placeholder occupies no node, and it may be too large for the node that is
    // launched. So pending placeholders of older templates are removed at once.
    let mut keep = older.iter().map(|set| set.bound()).sum::<u64>().min(want - new_kept);
    if settled {
        keep -= keep.min(ROLL_AT_ONCE);
    }
    for set in older {
        let kept = keep.min(set.bound());
        keep -= kept;
        let replicas = set.replicas_for(kept);
        let (set_name, resource_version) = (set.name.clone(), set.resource_version.clone());
        if replicas == 0 && set.pods.is_empty() && set.replicas == 0 {
            changes.push(Change::Delete { set: set_name, resource_version });
        } else if set.replicas != replicas {
            changes.push(Change::Scale { set: set_name, resource_version, replicas });
        }
    }
    changes
}

/// Adds the writes that lead the present ReplicaSet, which has `lifted` pods without a gate,
/// towards `want`.
fn towards(
    template: &Template,
    present: Option<&StandingSet>,
    want: u64,
    lifted: u64,
    changes: &mut Vec<Change>,
) {
    let replicas = present.map_or(want, |set| set.replicas_for(want));
    if present.is_none_or(|set| set.replicas != replicas) {
        let version = present.map(|set| set.resource_version.as_str());
        let body = template.replica_set(replicas, version);
        changes.push(Change::Apply { set: template.name(), body: Box::new(body) });
    }
    let Some(set) = present else { return };
    let more = usize::try_from(want.saturating_sub(lifted)).unwrap_or(usize::MAX);
    for pod in set.staying().filter(|pod| pod.held).take(more) {
        changes.push(Change::Lift {
            pod: pod.name.clone(),
            resource_version: pod.resource_version.clone(),
            gates: pod.gates.iter().filter(|gate| *gate != HOLD_GATE).cloned().collect(),
        });
    }
}
