//! What the watches have told us, in one synchronous index: events go in, each in a few microseconds, and a turn reads it.
//!
//! Pods are interned: one that is like another costs a map entry. No clock, no client.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use chrono::{DateTime, Utc};
use embedder::Resources;
use placeholders::{HOLD_GATE, LIFTED_AT, POLICY_LABEL};

use super::announced::{Announcement, Key};
use super::class::{ClassId, Classes, PodClass, Role};
use super::constraints::Constraints;
use super::nodes::{NodeId, Nodes};
use super::objects::time;
use super::objects::{DaemonSet, Node, Pod, is_true, since};
use super::requests::requests;

/// What is known of pods, nodes, and pods to be.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Labels of pods that policies read.
    label_keys: BTreeSet<String>,
    classes: Classes,
    pods: HashMap<u128, Entry>,
    nodes: Nodes,
    /// By class: pods that wait, not held by a gate; and those that are.
    waiting: Vec<[u64; 2]>,
    /// Our pods, each with the generation in which it was last seen.
    placeholders: BTreeMap<Key, (u8, PlaceholderPod)>,
    daemons: BTreeMap<Key, Daemon>,
    announcements: BTreeMap<(&'static str, Key), Announcement>,
    /// PodGroups whose pods start together: how many of them at least.
    gangs: [BTreeMap<Key, u64>; GANG_KINDS],
    /// Pods of workloads that came since they were last taken.
    arrivals: HashMap<ClassId, u64>,
    /// Placeholders that left a node before they were told to.
    preempted: Vec<Preempted>,
    generation: u8,
    /// Whether the first list of pods is in.
    listed: bool,
    /// Changes with every change that a decision could depend on.
    pub version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    class: ClassId,
    /// [`NOWHERE`] while it waits.
    node: NodeId,
    generation: u8,
}

/// Kinds of PodGroups: of Kubernetes, of the scheduler plugins, of Volcano.
pub(super) const GANG_KINDS: usize = 3;

const NOWHERE: NodeId = NodeId::MAX;

/// Preempted placeholders that are remembered until a turn asks: more come only when nobody asks.
const PREEMPTED_MAX: usize = 10_000;

/// A DaemonSet's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Where they run.
    pub constraints: Constraints,
    /// What each takes.
    pub requests: Resources,
}

/// One of our pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceholderPod {
    /// The version that a write must carry.
    pub resource_version: String,
    /// Its ReplicaSet.
    pub replica_set: String,
    /// Its policy.
    pub policy: String,
    /// The gates that hold it.
    pub gates: Vec<String>,
    /// The node that it stands on.
    pub node: Option<String>,
    /// Whether it is on its way out.
    pub deleting: bool,
    /// When its gate was lifted.
    pub lifted_at: Option<DateTime<Utc>>,
    /// When it was put on a node.
    pub scheduled_at: Option<DateTime<Utc>>,
}

impl PlaceholderPod {
    /// Whether our gate holds it.
    pub fn is_held(&self) -> bool {
        self.gates.iter().any(|gate| gate == HOLD_GATE)
    }
}

/// A placeholder that left a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preempted {
    /// Its namespace and name.
    pub pod: Key,
    /// Its policy.
    pub policy: String,
    /// Its ReplicaSet.
    pub replica_set: String,
    /// The node that it stood on.
    pub node: String,
}

impl Index {
    /// An index that keeps these labels of pods.
    pub fn new(label_keys: BTreeSet<String>) -> Self {
        Self { label_keys, ..Self::default() }
    }

    /// Keeps these labels, too; whether there are any new ones, so that pods must be listed anew.
    pub fn read_labels(&mut self, keys: impl IntoIterator<Item = String>) -> bool {
        let before = self.label_keys.len();
        self.label_keys.extend(keys);
        self.label_keys.len() != before
    }

    /// A new list of all pods begins.
    pub fn begin_pods(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The list has ended: what was not in it is gone.
    pub fn end_pods(&mut self) {
        let generation = self.generation;
        let gone: Vec<u128> = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.generation != generation)
            .map(|(&key, _)| key)
            .collect();
        for key in gone {
            self.remove(key);
        }
        self.placeholders.retain(|_, (seen, _)| *seen == generation);
        self.listed = true;
        self.version += 1;
    }

    /// A pod as it is now.
    pub fn apply_pod(&mut self, pod: &Pod) {
        let phase = pod.status.phase.as_deref().unwrap_or("");
        if phase == "Succeeded" || phase == "Failed" {
            return self.delete_pod(pod);
        }
        let (key, class) = (key(pod), PodClass::of(pod, &self.label_keys));
        let node = pod.spec.node_name.as_deref().or(pod.status.nominated_node_name.as_deref());
        let node = node.filter(|name| !name.is_empty()).map_or(NOWHERE, |name| self.nodes.id(name));
        if class.role == Role::Placeholder {
            self.note_placeholder(pod);
        }
        let generation = self.generation;
        if let Some(entry) = self.pods.get_mut(&key) {
            let same = self.classes.get(entry.class).is_some_and(|known| **known == class);
            entry.generation = generation;
            if same && entry.node == node {
                return;
            }
            self.remove(key);
        } else if class.role == Role::Workload && self.listed {
            let id = self.classes.take(class.clone());
            *self.arrivals.entry(id).or_default() += 1;
        }
        let id = self.classes.take(class);
        let Some(class) = self.classes.get(id) else { return };
        if node == NOWHERE {
            self.waiting.resize(self.classes.len().max(self.waiting.len()), [0; 2]);
            self.waiting[id as usize][usize::from(!class.gates.is_empty())] += 1;
        } else {
            let created = pod.metadata.creation_timestamp.as_ref().and_then(time);
            self.nodes.bind(node, id, class, created);
        }
        self.pods.insert(key, Entry { class: id, node, generation });
        self.version += 1;
    }

    /// A pod that is gone.
    pub fn delete_pod(&mut self, pod: &Pod) {
        self.forget_placeholder(pod);
        self.remove(key(pod));
    }

    fn remove(&mut self, key: u128) {
        let Some(Entry { class: id, node, generation: _ }) = self.pods.remove(&key) else { return };
        if let Some(class) = self.classes.get(id) {
            if node == NOWHERE {
                let count = &mut self.waiting[id as usize][usize::from(!class.gates.is_empty())];
                *count = count.saturating_sub(1);
            } else {
                self.nodes.unbind(node, id, class);
            }
        }
        self.classes.release(id);
        self.version += 1;
    }

    fn note_placeholder(&mut self, pod: &Pod) {
        let Pod { metadata, spec, status } = pod;
        let owner =
            metadata.owner_references.iter().flatten().find(|owner| owner.kind == "ReplicaSet");
        let lifted = metadata.annotations.as_ref().and_then(|all| all.get(LIFTED_AT));
        let placeholder = PlaceholderPod {
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            replica_set: owner.map(|owner| owner.name.clone()).unwrap_or_default(),
            policy: label(pod, POLICY_LABEL),
            gates: spec.scheduling_gates.iter().map(|gate| gate.name.clone()).collect(),
            node: spec.node_name.clone().filter(|name| !name.is_empty()),
            deleting: metadata.deletion_timestamp.is_some(),
            lifted_at: lifted.and_then(|text| text.parse().ok()),
            scheduled_at: since(&status.conditions, "PodScheduled"),
        };
        let known = self.placeholders.insert(name(pod), (self.generation, placeholder.clone()));
        if known.is_none_or(|(_, known)| known != placeholder) {
            self.version += 1;
        }
    }

    fn forget_placeholder(&mut self, pod: &Pod) {
        let Some((_, known)) = self.placeholders.remove(&name(pod)) else { return };
        let PlaceholderPod { policy, replica_set, node, .. } = known;
        self.version += 1;
        let preempted = is_true(&pod.status.conditions, "DisruptionTarget");
        if let (true, Some(node), true) = (preempted, node, self.preempted.len() < PREEMPTED_MAX) {
            self.preempted.push(Preempted { pod: name(pod), policy, replica_set, node });
        }
    }

    /// A node as it is now.
    pub fn apply_node(&mut self, node: &Node) {
        if self.nodes.apply(node) {
            self.version += 1;
        }
    }

    /// A node that is gone.
    pub fn delete_node(&mut self, node: &Node) {
        self.nodes.delete(node.metadata.name.as_deref().unwrap_or_default());
        self.version += 1;
    }

    /// A new list of all nodes begins, and ends.
    pub fn begin_nodes(&mut self) {
        self.nodes.begin();
    }

    /// The list has ended: what was not in it is gone.
    pub fn end_nodes(&mut self) {
        self.nodes.end();
        self.version += 1;
    }

    /// A DaemonSet as it is now.
    pub fn apply_daemon(&mut self, daemon: &DaemonSet) {
        let spec = &daemon.spec.template.spec;
        let known =
            Daemon { constraints: Constraints::of_daemon(spec), requests: requests(spec).0 };
        let key = Key::of(&daemon.metadata);
        if self.daemons.get(&key) != Some(&known) {
            self.daemons.insert(key, known);
            self.version += 1;
        }
    }

    /// A DaemonSet that is gone.
    pub fn delete_daemon(&mut self, key: &Key) {
        if self.daemons.remove(key).is_some() {
            self.version += 1;
        }
    }

    /// Pods to be, as `source` announces them; `None` when it no longer does.
    pub fn announce(&mut self, source: &'static str, key: Key, announcement: Option<Announcement>) {
        let before = match announcement {
            Some(announcement) => {
                if self.announcements.get(&(source, key.clone())) == Some(&announcement) {
                    return;
                }
                self.announcements.insert((source, key), announcement)
            }
            None => self.announcements.remove(&(source, key)),
        };
        drop(before);
        self.version += 1;
    }

    /// Keeps only these of what one source announces: a list has ended.
    pub fn retain_announced(&mut self, source: &'static str, keys: &BTreeSet<Key>) {
        self.announcements.retain(|(from, key), _| *from != source || keys.contains(key));
        self.version += 1;
    }

    /// Keeps only these DaemonSets: a list has ended.
    pub fn retain_daemons(&mut self, keys: &BTreeSet<Key>) {
        self.daemons.retain(|key, _| keys.contains(key));
        self.version += 1;
    }

    /// Pods of workloads that came since the last call, by class.
    pub fn take_arrivals(&mut self) -> Vec<(PodClass, u64)> {
        let arrivals = std::mem::take(&mut self.arrivals);
        let mut taken = Vec::with_capacity(arrivals.len());
        for (id, count) in arrivals {
            if let Some(class) = self.classes.get(id) {
                taken.push((PodClass::clone(class), count));
            }
            self.classes.release(id);
        }
        taken.sort_by(|(a, _), (b, _)| {
            (&a.namespace, a.requests, a.priority).cmp(&(&b.namespace, b.requests, b.priority))
        });
        taken
    }

    /// Placeholders that were preempted since the last call.
    pub fn take_preempted(&mut self) -> Vec<Preempted> {
        std::mem::take(&mut self.preempted)
    }

    /// The classes in use.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Pods of a class that wait: not held by a gate, and held.
    pub fn waiting(&self, id: ClassId) -> [u64; 2] {
        self.waiting.get(id as usize).copied().unwrap_or_default()
    }

    /// Our pods.
    pub fn placeholders(&self) -> impl Iterator<Item = (&Key, &PlaceholderPod)> {
        self.placeholders.iter().map(|(key, (_, pod))| (key, pod))
    }

    /// The DaemonSets.
    pub fn daemons(&self) -> impl Iterator<Item = &Daemon> {
        self.daemons.values()
    }

    /// Pods to be.
    pub fn announcements(&self) -> impl Iterator<Item = (&Key, &Announcement)> {
        self.announcements.iter().map(|((_, key), announcement)| (key, announcement))
    }

    /// PodGroups of one kind that are gangs, with the fewest pods that start.
    pub(super) fn gangs(&mut self, kind: usize) -> &mut BTreeMap<Key, u64> {
        &mut self.gangs[kind.min(GANG_KINDS - 1)]
    }

    /// The fewest pods of a PodGroup that start; `None` where it is no gang.
    pub fn gang_min(&self, group: &Key) -> Option<u64> {
        self.gangs.iter().find_map(|gangs| gangs.get(group).copied())
    }

    /// Labels of pods that are kept.
    pub fn label_keys(&self) -> &BTreeSet<String> {
        &self.label_keys
    }

    /// How many pods there are.
    pub fn pods(&self) -> usize {
        self.pods.len()
    }
}

fn name(pod: &Pod) -> Key {
    Key::of(&pod.metadata)
}

fn label(pod: &Pod, key: &str) -> String {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

/// A pod's UID as a number, or a hash of whatever it has instead.
fn key(pod: &Pod) -> u128 {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let digits: String = uid.chars().filter(|c| *c != '-').collect();
    if let (32, Ok(number)) = (digits.len(), u128::from_str_radix(&digits, 16)) {
        return number;
    }
    let mut hasher = DefaultHasher::new();
    (uid, &pod.metadata.namespace, &pod.metadata.name).hash(&mut hasher);
    hasher.finish().into()
}
