//! Classes of identical pods. Each class is stored once, however many pods it has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use embedder::{AcceleratorKind, Resources};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use placeholders::POLICY_LABEL;

use super::constraints::Constraints;
use super::devices::{Device, needed};
use super::held_back::HeldBack;
use super::objects::{MIRROR, PLUGINS_GROUP, Pod, PodSpec, PodTemplate, VOLCANO_GROUP};
use super::obstacle::{Waits, waits};
use super::requests::{PodRequests, requests, requests_of};

/// The label of nodes whose values differ between all nodes.
const HOST_NAME: &str = "kubernetes.io/hostname";

/// The scheduling gate of pods whose nodes Kueue's topology-aware scheduling assigns.
const TOPOLOGY_GATE: &str = "kueue.x-k8s.io/topology";

/// The name of the scheduler of pods that name none.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The priority of pods, as a PriorityClass gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// The priority. A higher one preempts a lower one.
    pub value: i32,
    /// Whether pods of the class preempt others.
    pub may_preempt: bool,
    /// Whether the class is that of pods that name none.
    pub is_default: bool,
}

impl Priority {
    /// The priority that a PriorityClass gives.
    pub fn of(class: &PriorityClass) -> Self {
        let may_preempt = may_preempt(class.preemption_policy.as_deref());
        let is_default = class.global_default.unwrap_or(false);
        Self { value: class.value.unwrap_or(0), may_preempt, is_default }
    }
}

/// Whether pods with this preemption policy may preempt others.
fn may_preempt(policy: Option<&str>) -> bool {
    policy != Some("Never")
}

/// The role of a pod in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A pod of a workload. It is batch demand if a policy selects it.
    Workload,
    /// A pod of a DaemonSet.
    Daemon,
    /// A mirror pod of kube-system, which is the object of a static pod in the API server.
    Mirror,
    /// A placeholder of Prophet.
    Placeholder,
}

/// What ties pods to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ties {
    /// Nothing.
    #[default]
    None,
    /// Required anti-affinity or topology spread between domains of several nodes.
    Apart,
    /// Required pod affinity: the pods run only beside others.
    Beside,
}

/// Pods that are interchangeable for every policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClass {
    /// The role of the pods.
    pub role: Role,
    /// The namespace of the pods.
    pub namespace: String,
    /// The labels of the pods that at least one policy reads.
    pub labels: BTreeMap<String, String>,
    /// The priority of the pods.
    pub priority: i32,
    /// The scheduler of the pods; `None` for the default scheduler.
    pub scheduler: Option<String>,
    /// Whether the pods may preempt others: their preemption policy is not `Never`.
    pub may_preempt: bool,
    /// The scheduling gates that hold the pods.
    pub gates: Vec<String>,
    /// The PodGroup of pods that a gate holds. It is `None` for pods without a gate, because their
    /// scheduler decides how they start.
    pub pod_group: Option<String>,
    /// The resources that each pod takes of a node.
    pub requests: Resources,
    /// The kind of the requested accelerators.
    pub accelerator_kind: AcceleratorKind,
    /// What each pod needs beyond `requests`, with the amounts.
    pub devices: BTreeMap<Device, u64>,
    /// The constraints on the nodes of the pods.
    pub constraints: Constraints,
    /// Whether other pods decide which nodes the pods may use.
    pub ties: Ties,
    /// Whether the pods mount PersistentVolumeClaims.
    pub has_claims: bool,
    /// What the pods wait for.
    pub waits: Waits,
    /// The name of the DaemonSet of a DaemonSet's pods.
    pub daemon: Option<String>,
}

impl PodClass {
    /// Returns the class of a pod. `label_keys` are the labels that policies read.
    pub fn of(pod: &Pod, label_keys: &BTreeSet<String>) -> Self {
        let Pod { metadata, spec, status: _ } = pod;
        let PodRequests { resources, accelerator_kind, devices } = requests_of(pod);
        let mut gates: Vec<String> =
            spec.scheduling_gates.iter().map(|gate| gate.name.clone()).collect();
        gates.sort();
        let pod_group = if gates.is_empty() { None } else { pod_group(pod) };
        let role = role(pod);
        Self {
            role,
            waits: if role == Role::Workload { waits(pod) } else { Waits::Node },
            daemon: if role == Role::Daemon { daemon(pod) } else { None },
            namespace: metadata.namespace.clone().unwrap_or_default(),
            labels: kept(metadata.labels.as_ref(), label_keys),
            priority: spec.priority.unwrap_or(0),
            scheduler: scheduler(spec),
            may_preempt: may_preempt(spec.preemption_policy.as_deref()),
            gates,
            pod_group,
            requests: resources,
            devices: needed(spec, devices),
            accelerator_kind,
            constraints: Constraints::of(spec),
            ties: Ties::of(spec),
            has_claims: has_claims(spec),
        }
    }

    /// The resources among the devices, with their amounts.
    pub fn device_amounts(&self) -> impl Iterator<Item = (&String, u64)> {
        self.devices.iter().filter_map(|(device, amount)| match device {
            Device::Resource(name) => Some((name, *amount)),
            Device::Claim(_) => None,
        })
    }

    /// Why pods of the class that wait would not take the node of a placeholder, or of a new node.
    /// `None` if they would.
    ///
    /// `preempts` is whether a scheduler preempts placeholders; `None` stands for the default one.
    /// `volumes_in_any_zone` is whether the pods can use their volumes in every zone.
    pub fn obstacle(
        &self,
        preempts: impl FnOnce(Option<&str>) -> bool,
        volumes_in_any_zone: bool,
    ) -> Option<HeldBack> {
        if self.constraints.are_cut() {
            return Some(HeldBack::TooLarge);
        }
        let topology = self.gates.iter().any(|gate| gate == TOPOLOGY_GATE);
        if !self.may_preempt || topology || !preempts(self.scheduler.as_deref()) {
            return Some(HeldBack::CannotPreempt);
        }
        if self.ties != Ties::None || self.has_claims && !volumes_in_any_zone {
            return Some(HeldBack::OwnConstraints);
        }
        (self.waits == Waits::Other).then_some(HeldBack::OtherObstacle)
    }

    /// Whether a new node would let a pod of the class start that waits, by its scheduler's
    /// reasons. Pods of another scheduler count if it preempts: what they wait for is not known
    /// otherwise. The node of a pod with a volume must be in the zone of the volume, and that of a
    /// pod with required pod affinity must have another pod.
    pub fn waits_for_node(&self, preempts: impl FnOnce(Option<&str>) -> bool) -> bool {
        let helps = match self.waits {
            Waits::Node => true,
            Waits::SomeNode => !self.has_claims,
            Waits::Other => false,
        };
        let topology = self.gates.iter().any(|gate| gate == TOPOLOGY_GATE);
        helps && self.ties != Ties::Beside && !topology && preempts(self.scheduler.as_deref())
    }

    /// Returns the class of the pods that a template describes. It has all labels, so that a policy
    /// that reads further labels needs no new list of the objects that announce pods.
    pub fn of_template(template: &PodTemplate, namespace: &str) -> Self {
        let PodTemplate { metadata, spec } = template;
        let PodRequests { resources, accelerator_kind, devices } = requests(spec);
        Self {
            role: Role::Workload,
            namespace: namespace.into(),
            labels: metadata.labels.clone(),
            priority: spec.priority.unwrap_or(0),
            scheduler: scheduler(spec),
            may_preempt: may_preempt(spec.preemption_policy.as_deref()),
            gates: Vec::new(),
            pod_group: None,
            waits: Waits::Node,
            daemon: None,
            requests: resources,
            devices: needed(spec, devices),
            accelerator_kind,
            constraints: Constraints::of(spec),
            ties: Ties::of(spec),
            has_claims: has_claims(spec),
        }
    }
}

impl Ties {
    /// Anti-affinity and topology spread between single nodes do not count: a new node has no pods,
    /// so it meets both.
    fn of(spec: &PodSpec) -> Self {
        let apart = spec.affinity.pod_anti_affinity.required.iter();
        let apart = apart.map(|term| &term.topology_key);
        let spread = spec.topology_spread_constraints.iter();
        let spread = spread.filter(|constraint| constraint.when_unsatisfiable != "ScheduleAnyway");
        let mut domains = apart.chain(spread.map(|constraint| &constraint.topology_key));
        if !spec.affinity.pod_affinity.required.is_empty() {
            Self::Beside
        } else if domains.any(|key| key != HOST_NAME) {
            Self::Apart
        } else {
            Self::None
        }
    }
}

fn has_claims(spec: &PodSpec) -> bool {
    spec.volumes.iter().any(|volume| volume.persistent_volume_claim.is_some())
}

fn scheduler(spec: &PodSpec) -> Option<String> {
    spec.scheduler_name.clone().filter(|name| name != DEFAULT_SCHEDULER)
}

/// Returns the name of the PodGroup of a pod.
pub(super) fn pod_group(pod: &Pod) -> Option<String> {
    let Pod { metadata, spec, status: _ } = pod;
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(PLUGINS_GROUP));
    let annotation =
        metadata.annotations.as_ref().and_then(|annotations| annotations.get(VOLCANO_GROUP));
    spec.scheduling_group.pod_group_name.as_ref().or(label).or(annotation).cloned()
}

fn kept(
    labels: Option<&BTreeMap<String, String>>,
    keys: &BTreeSet<String>,
) -> BTreeMap<String, String> {
    let Some(labels) = labels else { return BTreeMap::new() };
    let one = |key: &String| labels.get(key).map(|value| (key.clone(), value.clone()));
    keys.iter().filter_map(one).collect()
}

/// Returns the name of the DaemonSet of a pod.
fn daemon(pod: &Pod) -> Option<String> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.kind == "DaemonSet").map(|owner| owner.name.clone())
}

fn role(pod: &Pod) -> Role {
    let has = |map: &Option<BTreeMap<String, String>>, key: &str| {
        map.as_ref().is_some_and(|map| map.contains_key(key))
    };
    let owned_by =
        |kind: &str| pod.metadata.owner_references.iter().flatten().any(|owner| owner.kind == kind);
    // Whoever may create pods may write the annotation and the owner. Static pods of a cluster are
    // in namespaces to which tenants have no access: kube-system, and those of OpenShift.
    let is_static = has(&pod.metadata.annotations, MIRROR) || owned_by("Node");
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if is_static && (namespace == "kube-system" || namespace.starts_with("openshift-")) {
        Role::Mirror
    } else if owned_by("DaemonSet") {
        Role::Daemon
    } else if has(&pod.metadata.labels, POLICY_LABEL) && owned_by("ReplicaSet") {
        Role::Placeholder
    } else {
        Role::Workload
    }
}

/// The index of a class in [`Classes`]. An index is reused once the last pod of its class is gone.
pub type ClassId = u32;

/// Classes with the number of their users. Memory grows with the classes in use, not with those
/// that were used before.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    ids: HashMap<Arc<PodClass>, ClassId>,
    slots: Vec<Option<(Arc<PodClass>, u64)>>,
    free: Vec<ClassId>,
}

impl Classes {
    /// Returns the index of a class and adds one user.
    pub fn take(&mut self, class: PodClass) -> ClassId {
        if let Some(&id) = self.ids.get(&class) {
            self.retain(id);
            return id;
        }
        let class = Arc::new(class);
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            ClassId::try_from(self.slots.len() - 1).unwrap_or(ClassId::MAX)
        });
        self.slots[id as usize] = Some((Arc::clone(&class), 1));
        self.ids.insert(class, id);
        id
    }

    /// Adds one user to a class in use.
    pub fn retain(&mut self, id: ClassId) {
        if let Some(Some((_, users))) = self.slots.get_mut(id as usize) {
            *users += 1;
        }
    }

    /// Removes one user from a class.
    pub fn release(&mut self, id: ClassId) {
        let Some(slot) = self.slots.get_mut(id as usize) else { return };
        let Some((class, users)) = slot else { return };
        *users -= 1;
        if *users == 0 {
            self.ids.remove(class);
            *slot = None;
            self.free.push(id);
        }
    }

    /// Returns a class in use.
    pub fn get(&self, id: ClassId) -> Option<&Arc<PodClass>> {
        self.slots.get(id as usize)?.as_ref().map(|(class, _)| class)
    }

    /// The number of indexes, used or not.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no class was ever added.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Iterates over the classes in use.
    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Arc<PodClass>)> {
        let used =
            self.slots.iter().enumerate().filter_map(|(id, slot)| Some((id, &slot.as_ref()?.0)));
        used.map(|(id, class)| (ClassId::try_from(id).unwrap_or(ClassId::MAX), class))
    }
}
