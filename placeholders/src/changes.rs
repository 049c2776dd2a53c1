//! From what a group ought to have and what it has to the writes that lead there: pure, so that a second look at the
//! applied first one finds nothing to do.
//!
//! The number of pods whose gate is lifted never exceeds what is wanted. A changed template is rolled delete-first, a few
//! nodes at a time: a full node has no room for both.

use serde_json::Value;

use crate::manifest::{HOLD_GATE, Template};

/// A ReplicaSet of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingSet {
    /// Its name, which holds the digest of its template.
    pub name: String,
    /// The version that a write must carry.
    pub resource_version: String,
    /// Pods that it is asked for.
    pub replicas: u64,
    /// Its pods.
    pub pods: Vec<StandingPod>,
}

/// A placeholder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingPod {
    /// Its name.
    pub name: String,
    /// The version that a write must carry.
    pub resource_version: String,
    /// All gates that hold it.
    pub gates: Vec<String>,
    /// Whether our gate is among them.
    pub held: bool,
    /// Whether it is on a node.
    pub bound: bool,
    /// Whether it is on its way out.
    pub deleting: bool,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Make the group's present ReplicaSet, or ask it for so many pods.
    Apply {
        /// Its name.
        set: String,
        /// The whole of it, with the version that it had, if there is one.
        body: Box<Value>,
    },
    /// Ask a ReplicaSet of an older template for so many pods.
    Scale {
        /// Its name.
        set: String,
        /// The version that it had.
        resource_version: String,
        /// How many.
        replicas: u64,
    },
    /// Lift the gate of a pod.
    Lift {
        /// The pod.
        pod: String,
        /// The version that it had.
        resource_version: String,
        /// The gates that remain.
        gates: Vec<String>,
    },
    /// Delete a ReplicaSet that nothing is asked of any more.
    Delete {
        /// Its name.
        set: String,
        /// The version that it had.
        resource_version: String,
    },
}

/// Placeholders that a roll takes away at once in one group.
const ROLL_AT_ONCE: u64 = 2;

impl StandingSet {
    fn staying(&self) -> impl Iterator<Item = &StandingPod> {
        self.pods.iter().filter(|pod| !pod.deleting)
    }

    fn lifted(&self) -> u64 {
        self.staying().filter(|pod| !pod.held).count() as u64
    }

    fn bound(&self) -> u64 {
        self.staying().filter(|pod| pod.bound).count() as u64
    }
}

/// The writes that lead a group towards `want` placeholders made by `template`; `sets` are all of the group.
pub fn changes(template: &Template, want: u64, sets: &[StandingSet]) -> Vec<Change> {
    let mut changes = Vec::new();
    let name = template.name();
    let present = sets.iter().find(|set| set.name == name);
    let older: Vec<&StandingSet> = sets.iter().filter(|set| set.name != name).collect();
    let old: u64 = older.iter().map(|set| set.lifted()).sum();
    let new = present.map_or(0, StandingSet::lifted);
    // Of what is too much, the old goes.
    let new_kept = new.min(want);
    let new_want = want.saturating_sub(old).max(new_kept);
    if new_want > 0 || present.is_some() {
        towards(template, present, new_want, new, &mut changes);
    }
    let settled = present.is_none_or(|set| set.staying().all(|pod| pod.held || pod.bound)) && new >= new_want;
    // What waits for a node holds none, and may be too large for the one that comes: it goes at once.
    let mut keep = older.iter().map(|set| set.bound()).sum::<u64>().min(want - new_kept);
    if settled {
        keep -= keep.min(ROLL_AT_ONCE);
    }
    for set in older {
        let replicas = keep.min(set.bound());
        keep -= replicas;
        let (set_name, resource_version) = (set.name.clone(), set.resource_version.clone());
        if replicas == 0 && set.pods.is_empty() && set.replicas == 0 {
            changes.push(Change::Delete { set: set_name, resource_version });
        } else if set.replicas != replicas {
            changes.push(Change::Scale { set: set_name, resource_version, replicas });
        }
    }
    changes
}

/// Towards `want` lifted pods of the present ReplicaSet, of which `lifted` are there.
fn towards(
    template: &Template,
    present: Option<&StandingSet>,
    want: u64,
    lifted: u64,
    changes: &mut Vec<Change>,
) {
    if present.is_none_or(|set| set.replicas != want) {
        let body = template.replica_set(want, present.map(|set| set.resource_version.as_str()));
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
