//! Nodes, and what runs on each.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use embedder::{AcceleratorKind, Resources};

use super::class::{ClassId, PodClass, Role};
use super::objects::Taint;
use super::objects::{Node, is_true, since, time};
use super::requests::{kind_in, resources};

/// The place of a node among [`Nodes`]; used anew once the node is gone and nothing is bound to it.
pub type NodeId = u32;

/// A node as we read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What pods can have of it.
    pub allocatable: Resources,
    /// The kind of its accelerators, where any are registered.
    pub accelerator_kind: Option<AcceleratorKind>,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// Whether pods may be put on it: ready, not cordoned, not being deleted.
    pub schedulable: bool,
    /// When it was made.
    pub created: Option<DateTime<Utc>>,
    /// Since when its kubelet says that it is ready.
    pub ready_since: Option<DateTime<Utc>>,
}

impl NodeFacts {
    fn of(node: &Node) -> Self {
        let Node { metadata, spec, status } = node;
        let kind = kind_in(&status.allocatable);
        let ready = is_true(&status.conditions, "Ready");
        let taints = spec.taints.iter().map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
        });
        let going = metadata.deletion_timestamp.is_some()
            || spec.taints.iter().any(|taint| GOING.contains(&taint.key.as_str()));
        Self {
            labels: metadata.labels.clone().unwrap_or_default(),
            taints: taints.collect(),
            allocatable: resources(&status.allocatable, kind.unwrap_or(AcceleratorKind::NVIDIA)),
            accelerator_kind: kind.map(AcceleratorKind::new),
            ready,
            schedulable: ready && !spec.unschedulable && !going,
            created: metadata.creation_timestamp.as_ref().and_then(time),
            ready_since: since(&status.conditions, "Ready"),
        }
    }
}

/// Taints of nodes that an autoscaler is about to take away.
const GOING: [&str; 3] =
    ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"];

/// A workload's pods of one class on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnNode {
    /// Which.
    pub class: ClassId,
    /// How many, one at least.
    pub count: u32,
    /// When the oldest of those that came since the first one was made.
    pub oldest: Option<DateTime<Utc>>,
}

/// A node with what runs on it. Pods may be bound before the node is seen.
#[derive(Clone, Debug, Default)]
pub struct NodeSlot {
    /// Its name.
    pub name: Arc<str>,
    /// The node, once seen.
    pub facts: Option<NodeFacts>,
    /// What all pods but placeholders take of it.
    pub used: Resources,
    /// What static pods take of it.
    pub static_used: Resources,
    /// Workloads' pods on it or nominated to it, by class.
    pub pods: Vec<OnNode>,
    /// Placeholders on it.
    pub placeholders: u32,
    /// All pods counted above.
    users: u32,
    generation: u8,
}

/// Nodes by place and name.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    ids: HashMap<Arc<str>, NodeId>,
    slots: Vec<NodeSlot>,
    free: Vec<NodeId>,
    generation: u8,
    /// Changes with every change of a node's facts.
    pub version: u64,
}

impl Nodes {
    /// The place of a node by its name.
    pub fn id(&mut self, name: &str) -> NodeId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(NodeSlot::default());
            NodeId::try_from(self.slots.len() - 1).unwrap_or(NodeId::MAX)
        });
        self.slots[id as usize] = NodeSlot {
            name: Arc::clone(&name),
            generation: self.generation,
            ..NodeSlot::default()
        };
        self.ids.insert(name, id);
        self.version += 1;
        id
    }

    /// A node as it is now; whether anything we read has changed.
    pub fn apply(&mut self, node: &Node) -> bool {
        let Some(name) = node.metadata.name.as_deref() else { return false };
        let (id, generation) = (self.id(name), self.generation);
        let slot = &mut self.slots[id as usize];
        slot.generation = generation;
        let facts = Some(NodeFacts::of(node));
        let changed = slot.facts != facts;
        if changed {
            slot.facts = facts;
            self.version += 1;
        }
        changed
    }

    /// A node that is gone.
    pub fn delete(&mut self, name: &str) {
        let Some(&id) = self.ids.get(name) else { return };
        let slot = &mut self.slots[id as usize];
        slot.facts = None;
        // Should one of its name come again, what is still bound to this one did not wait for that.
        slot.pods.iter_mut().for_each(|pods| pods.oldest = None);
        self.version += 1;
        self.let_go(id);
    }

    /// A new list of all nodes begins.
    pub fn begin(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The list has ended: what was not in it is gone.
    pub fn end(&mut self) {
        let generation = self.generation;
        let gone: Vec<Arc<str>> = self
            .slots
            .iter()
            .filter(|slot| slot.facts.is_some() && slot.generation != generation)
            .map(|slot| Arc::clone(&slot.name))
            .collect();
        for name in gone {
            self.delete(&name);
        }
    }

    /// A pod was bound, which was made then.
    pub(super) fn bind(
        &mut self,
        id: NodeId,
        class_id: ClassId,
        class: &PodClass,
        created: Option<DateTime<Utc>>,
    ) {
        let slot = &mut self.slots[id as usize];
        slot.users += 1;
        match class.role {
            Role::Placeholder => slot.placeholders += 1,
            Role::Mirror => {
                slot.static_used = slot.static_used.give_back(class.requests);
                slot.used = slot.used.give_back(class.requests);
            }
            Role::Daemon => slot.used = slot.used.give_back(class.requests),
            Role::Workload => {
                slot.used = slot.used.give_back(class.requests);
                if let Some(pods) = slot.pods.iter_mut().find(|pods| pods.class == class_id) {
                    pods.count += 1;
                    pods.oldest = pods.oldest.into_iter().chain(created).min();
                } else {
                    slot.pods.push(OnNode { class: class_id, count: 1, oldest: created });
                }
            }
        }
    }

    /// A pod left.
    pub(super) fn unbind(&mut self, id: NodeId, class_id: ClassId, class: &PodClass) {
        let slot = &mut self.slots[id as usize];
        slot.users = slot.users.saturating_sub(1);
        match class.role {
            Role::Placeholder => slot.placeholders = slot.placeholders.saturating_sub(1),
            Role::Mirror => {
                slot.static_used = less(slot.static_used, class.requests);
                slot.used = less(slot.used, class.requests);
            }
            Role::Daemon => slot.used = less(slot.used, class.requests),
            Role::Workload => {
                slot.used = less(slot.used, class.requests);
                if let Some(at) = slot.pods.iter().position(|pods| pods.class == class_id) {
                    slot.pods[at].count -= 1;
                    if slot.pods[at].count == 0 {
                        slot.pods.swap_remove(at);
                    }
                }
            }
        }
        self.let_go(id);
    }

    /// Frees the place of a node that is gone and on which nothing is counted any more.
    fn let_go(&mut self, id: NodeId) {
        let slot = &self.slots[id as usize];
        if slot.facts.is_none() && slot.users == 0 && self.ids.remove(&slot.name).is_some() {
            self.free.push(id);
        }
    }

    /// A node by its place.
    pub fn get(&self, id: NodeId) -> &NodeSlot {
        &self.slots[id as usize]
    }

    /// Nodes that were seen, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &NodeSlot, &NodeFacts)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(id, slot)| Some((id, slot, slot.facts.as_ref()?)))
    }

    /// How many places there are, used or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no node was ever seen.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A node by its name.
    pub fn by_name(&self, name: &str) -> Option<&NodeSlot> {
        self.ids.get(name).map(|&id| self.get(id))
    }
}

/// `have` less `take`, never below nothing.
pub(crate) fn less(have: Resources, take: Resources) -> Resources {
    let (have, take) = (have.components(), take.components());
    Resources::of(std::array::from_fn(|i| have[i].saturating_sub(take[i])))
}
