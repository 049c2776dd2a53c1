//! Nodes, and the pods on each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{AcceleratorKind, Resources};

use super::class::{ClassId, PodClass, Role};
use super::devices::amounts;
use super::objects::Taint;
use super::objects::{Node, is_true, since, time};
use super::requests::{kind_in, resources};
use super::taints::{is_leaving, is_problem};

/// The node label of the instance type.
pub const INSTANCE_TYPE_LABEL: &str = "node.kubernetes.io/instance-type";

/// The node label of the zone.
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The index of a node in [`Nodes`]. An index is reused once its node is gone and no pod is bound
/// to it.
pub type NodeId = u32;

/// The properties of a node that Prophet reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// The ID of the node's instance: the last part of its provider ID, such as that of
    /// `aws:///us-east-1a/i-0123456789abcdef0`.
    pub instance: Option<Box<str>>,
    /// The labels of the node.
    pub labels: BTreeMap<String, String>,
    /// The taints of the node.
    pub taints: Vec<Taint>,
    /// The allocatable resources of the node.
    pub allocatable: Resources,
    /// The kind of its accelerators, if any are registered.
    pub accelerator_kind: Option<AcceleratorKind>,
    /// The node's allocatable resources beyond those of `allocatable`, by name, in whole units.
    pub devices: BTreeMap<String, u64>,
    /// The number of accelerators in the capacity of the node, healthy or not.
    pub accelerators_capacity: u64,
    /// Whether the kubelet reports the node as ready.
    pub ready: bool,
    /// Whether the node will be gone soon: it is being deleted, an autoscaler removes it, or its
    /// instance is interrupted.
    pub leaving: bool,
    /// Whether pods may be bound to the node: it is ready, not cordoned, not leaving, and has no
    /// problem such as a full disk.
    pub schedulable: bool,
    /// `Some` if the node is not ready, was ready before, and nothing else keeps pods off it.
    pub lost: Option<Lost>,
    /// The creation time of the node.
    pub created: Option<DateTime<Utc>>,
    /// The time since which the kubelet reports the node as ready.
    pub ready_since: Option<DateTime<Utc>>,
}

/// The time after its creation until which a node that is not ready has not been ready yet.
const STARTS: TimeDelta = TimeDelta::seconds(10);

/// How long a node that is not ready is expected to be ready again: a minute, because the kubelet
/// reports late on a busy node, and after a restart.
const EXPECTED_BACK: TimeDelta = TimeDelta::minutes(1);

/// The fewest nodes that were ready and are not, of which a third of all nodes shows a fault of the
/// network or of the control plane. Then all of them are expected back, as the node lifecycle
/// controller of Kubernetes then evicts no pod.
const FAULT_NODES_MIN: usize = 3;

/// How long such a fault counts: ten minutes. Nodes that are not ready for longer are gone.
const FAULT: TimeDelta = TimeDelta::minutes(10);

/// What is known of a node that ceased to be ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The time since which the node is not ready.
    pub since: DateTime<Utc>,
    /// Whether the node counts as if pods could be bound to it, because it is expected to be ready
    /// again. It is so until [`Nodes::expect_back`] decides.
    pub expected_back: bool,
}

impl NodeFacts {
    /// Whether placeholders on the node are headroom: pods may be bound to it, or it is expected to
    /// be ready again.
    pub fn is_headroom(&self) -> bool {
        self.schedulable || self.lost.is_some_and(|lost| lost.expected_back)
    }

    /// Whether the node has fewer accelerators than its capacity, or than `siblings`, the number
    /// that other nodes of its instance type have. A node whose device plugin has not registered
    /// any is not degraded, because its accelerators may still come.
    pub fn is_degraded(&self, siblings: u64) -> bool {
        let has = self.allocatable.accelerators;
        has < self.accelerators_capacity || (has > 0 && has < siblings)
    }

    fn of(node: &Node) -> Self {
        let Node { metadata, spec, status } = node;
        let kind = kind_in(&status.allocatable);
        let kind_of_capacity = kind.or_else(|| kind_in(&status.capacity));
        let ready = is_true(&status.conditions, "Ready");
        let taints = spec.taints.iter().map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
        });
        let leaving = metadata.deletion_timestamp.is_some()
            || spec.taints.iter().any(|taint| is_leaving(&taint.key));
        let has_problem = spec.taints.iter().any(|taint| is_problem(&taint.key));
        let created = metadata.creation_timestamp.as_ref().and_then(time);
        let lost = status.conditions.iter().find(|of| of.type_ == "Ready" && !ready);
        let lost = lost.and_then(|of| of.last_transition_time.as_ref().and_then(time));
        // A node that starts is not ready from its creation on.
        let was_ready = |at: &DateTime<Utc>| created.is_some_and(|created| *at - created > STARTS);
        let instance = spec.provider_id.as_deref().and_then(|id| id.rsplit('/').next());
        Self {
            instance: instance.filter(|id| !id.is_empty()).map(Into::into),
            labels: metadata.labels.clone().unwrap_or_default(),
            taints: taints.collect(),
            allocatable: resources(&status.allocatable, kind.unwrap_or(AcceleratorKind::NVIDIA)),
            accelerator_kind: kind.map(AcceleratorKind::new),
            devices: amounts(&status.allocatable, kind.unwrap_or_default()).collect(),
            accelerators_capacity: kind_of_capacity
                .map_or(0, |kind| resources(&status.capacity, kind).accelerators),
            ready,
            leaving,
            schedulable: ready && !spec.unschedulable && !leaving && !has_problem,
            lost: lost
                .filter(was_ready)
                .filter(|_| !spec.unschedulable && !leaving)
                .map(|since| Lost { since, expected_back: true }),
            created,
            ready_since: since(&status.conditions, "Ready"),
        }
    }
}

/// The workload pods of one class on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnNode {
    /// The class of the pods.
    pub class: ClassId,
    /// The number of pods, at least 1.
    pub count: u32,
    /// The creation time of the oldest of those pods that were bound since the first pod of the
    /// class came to the node.
    pub oldest: Option<DateTime<Utc>>,
}

/// A node with its pods. Pods may be bound before the node itself is observed.
#[derive(Clone, Debug, Default)]
pub struct NodeSlot {
    /// The name of the node.
    pub name: Arc<str>,
    /// The properties of the node, once it is observed.
    pub facts: Option<NodeFacts>,
    /// The resources that all pods except placeholders take of the node.
    pub used: Resources,
    /// The devices that all pods except placeholders take of the node, by name.
    pub devices_used: BTreeMap<String, u64>,
    /// The resources that static pods take of the node.
    pub static_used: Resources,
    /// The workload pods that run on the node or are nominated to it, by class.
    pub pods: Vec<OnNode>,
    /// The number of those of `pods` that are only nominated to the node, by class.
    pub nominated: BTreeMap<ClassId, u32>,
    /// The number of placeholders on the node.
    pub placeholders: u32,
    /// The number of all pods counted above.
    users: u32,
    generation: u8,
}

/// Nodes by index and by name.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    ids: HashMap<Arc<str>, NodeId>,
    slots: Vec<NodeSlot>,
    free: Vec<NodeId>,
    generation: u8,
    /// A number that changes with every change of the properties of a node.
    pub version: u64,
}

impl Nodes {
    /// Returns the index of the node with this name. An unknown name gets a new index.
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

    /// Returns the name of the node with an index.
    pub(super) fn name(&self, id: NodeId) -> Arc<str> {
        Arc::clone(&self.slots[id as usize].name)
    }

    /// Records the current state of a node. Returns whether any property that Prophet reads has
    /// changed.
    pub fn apply(&mut self, node: &Node) -> bool {
        let Some(name) = node.metadata.name.as_deref() else { return false };
        let (id, generation) = (self.id(name), self.generation);
        let slot = &mut self.slots[id as usize];
        slot.generation = generation;
        let known = slot.facts.as_ref().and_then(|facts| facts.lost);
        let mut facts = NodeFacts::of(node);
        if let (Some(lost), Some(known)) = (&mut facts.lost, known) {
            lost.expected_back = known.expected_back;
        }
        let facts = Some(facts);
        let changed = slot.facts != facts;
        if changed {
            slot.facts = facts;
            self.version += 1;
        }
        changed
    }

    /// Removes a node.
    pub fn delete(&mut self, name: &str) {
        let Some(&id) = self.ids.get(name) else { return };
        let slot = &mut self.slots[id as usize];
        slot.facts = None;
        // If a node of the same name is created later, the pods that are still bound to this one
        // did not wait for it.
        slot.pods.iter_mut().for_each(|pods| pods.oldest = None);
        self.version += 1;
        self.let_go(id);
    }

    /// Begins a new list of all nodes.
    pub fn begin(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Ends the list. Nodes that were not in it are removed.
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

    /// Records that a pod was bound or nominated to a node. `created` is the creation time of the
    /// pod.
    pub(super) fn bind(
        &mut self,
        id: NodeId,
        (class_id, class): (ClassId, &PodClass),
        bound: bool,
        created: Option<DateTime<Utc>>,
    ) {
        let slot = &mut self.slots[id as usize];
        slot.users += 1;
        if class.role == Role::Placeholder {
            slot.placeholders += 1;
            return;
        }
        slot.used = slot.used.give_back(class.requests);
        for (name, amount) in class.device_amounts() {
            let used = slot.devices_used.entry(name.clone()).or_default();
            *used = used.saturating_add(amount);
        }
        match class.role {
            Role::Placeholder | Role::Daemon => {}
            Role::Mirror => slot.static_used = slot.static_used.give_back(class.requests),
            Role::Workload => {
                if !bound {
                    *slot.nominated.entry(class_id).or_default() += 1;
                }
                if let Some(pods) = slot.pods.iter_mut().find(|pods| pods.class == class_id) {
                    pods.count += 1;
                    pods.oldest = pods.oldest.into_iter().chain(created).min();
                } else {
                    slot.pods.push(OnNode { class: class_id, count: 1, oldest: created });
                }
            }
        }
    }

    /// Records that a pod left a node to which it was bound or nominated.
    pub(super) fn unbind(
        &mut self,
        id: NodeId,
        (class_id, class): (ClassId, &PodClass),
        bound: bool,
    ) {
        let slot = &mut self.slots[id as usize];
        slot.users = slot.users.saturating_sub(1);
        if class.role == Role::Placeholder {
            slot.placeholders = slot.placeholders.saturating_sub(1);
        } else {
            slot.used = slot.used.less(class.requests);
            for (name, amount) in class.device_amounts() {
                if let Some(used) = slot.devices_used.get_mut(name) {
                    *used = used.saturating_sub(amount);
                }
            }
            slot.devices_used.retain(|_, used| *used > 0);
        }
        match class.role {
            Role::Placeholder | Role::Daemon => {}
            Role::Mirror => slot.static_used = slot.static_used.less(class.requests),
            Role::Workload => {
                if !bound && let Some(pods) = slot.nominated.get_mut(&class_id) {
                    *pods = pods.saturating_sub(1);
                }
                slot.nominated.retain(|_, pods| *pods > 0);
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

    /// The number of pods, by class, that are nominated to a node that is gone or was never
    /// observed. They wait for a node.
    pub fn nominated_to_none(&self) -> BTreeMap<ClassId, u64> {
        let mut all = BTreeMap::new();
        for slot in self.slots.iter().filter(|slot| slot.facts.is_none()) {
            for (class, pods) in &slot.nominated {
                *all.entry(*class).or_default() += u64::from(*pods);
            }
        }
        all
    }

    /// Frees the index of a node that is gone and that no pod uses any more.
    fn let_go(&mut self, id: NodeId) {
        let slot = &self.slots[id as usize];
        if slot.facts.is_none() && slot.users == 0 && self.ids.remove(&slot.name).is_some() {
            self.free.push(id);
        }
    }

    /// Returns a node by its index.
    pub fn get(&self, id: NodeId) -> &NodeSlot {
        &self.slots[id as usize]
    }

    /// Iterates over the observed nodes, with their indexes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &NodeSlot, &NodeFacts)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(id, slot)| Some((id, slot, slot.facts.as_ref()?)))
    }

    /// Decides which of the nodes that are not ready are expected to be ready again. Returns
    /// whether so many of them are not ready that a fault of the network or of the control plane is
    /// likely, and the nodes that were expected back and are not any more.
    pub(super) fn expect_back(&mut self, now: DateTime<Utc>) -> (bool, BTreeSet<NodeId>) {
        let facts = || self.slots.iter().filter_map(|slot| slot.facts.as_ref());
        let recently = |lost: &Lost| now - lost.since < FAULT;
        let lost = facts().filter(|facts| facts.lost.as_ref().is_some_and(recently)).count();
        let many = lost >= FAULT_NODES_MIN && 3 * lost > facts().count();
        let mut given_up = BTreeSet::new();
        for (id, slot) in self.slots.iter_mut().enumerate() {
            let Some(lost) = slot.facts.as_mut().and_then(|facts| facts.lost.as_mut()) else {
                continue;
            };
            let longest = if many { FAULT } else { EXPECTED_BACK };
            let expected = now - lost.since < longest;
            if lost.expected_back && !expected {
                given_up.insert(NodeId::try_from(id).unwrap_or(NodeId::MAX));
            }
            lost.expected_back = expected;
        }
        (many, given_up)
    }

    /// The number of indexes, used or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no node was ever observed.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns a node by its name.
    pub fn by_name(&self, name: &str) -> Option<&NodeSlot> {
        self.ids.get(name).map(|&id| self.get(id))
    }
}
