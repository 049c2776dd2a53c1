//! What the API server adds to a pod when it admits it.
//!
//! The template of a Job or a DaemonSet has only what its author wrote. The pods that are made of
//! it have more, so [`Admission::admitted`] repeats, in the API server's order, what decides where
//! a pod may run: the defaults of the pod's version, then the admission plugins. Webhooks are not
//! known.

use std::collections::BTreeMap;

use super::class::Priority;
use super::constraints::is_extended;
use super::objects::{
    Container, Key, LimitRange, Namespace, PodSpec, RuntimeClassAdds, Toleration,
};
use super::objects::{NAMESPACE_SELECTOR, NAMESPACE_TOLERATIONS};
use super::requests::requests;

/// What admission adds to pods, as the cluster's objects define it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// The defaults of containers, by the key of their LimitRange.
    pub limit_ranges: BTreeMap<Key, ContainerDefaults>,
    /// RuntimeClasses, by their key, which has no namespace.
    pub runtime_classes: BTreeMap<Key, RuntimeClassAdds>,
    /// Namespaces that add something, by their key, which has no namespace.
    pub namespaces: BTreeMap<Key, NamespaceAdds>,
    /// PriorityClasses, by their key, which has no namespace.
    pub priorities: BTreeMap<Key, Priority>,
}

/// Quantities by resource name.
type Quantities = BTreeMap<String, String>;

/// The resources that a LimitRange gives to containers that lack them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerDefaults {
    limits: Quantities,
    requests: Quantities,
}

impl ContainerDefaults {
    /// Reads a LimitRange. Returns `None` if it has no defaults for containers.
    pub(super) fn of(range: LimitRange) -> Option<Self> {
        let mut defaults = Self::default();
        for item in range.spec.limits.into_iter().filter(|item| item.type_ == "Container") {
            defaults.limits.extend(item.default);
            defaults.requests.extend(item.default_request);
        }
        (!defaults.limits.is_empty() || !defaults.requests.is_empty()).then_some(defaults)
    }
}

/// What a namespace adds to its pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceAdds {
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
}

impl NamespaceAdds {
    /// Reads a namespace. Returns `None` if it adds nothing.
    pub(super) fn of(namespace: &Namespace) -> Option<Self> {
        let annotations = namespace.metadata.annotations.as_ref()?;
        let selector = annotations.get(NAMESPACE_SELECTOR).map_or("", String::as_str);
        let labels = selector.split(',').filter_map(|label| label.split_once('='));
        let node_selector =
            labels.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect();
        let tolerations = annotations.get(NAMESPACE_TOLERATIONS);
        let tolerations = tolerations.and_then(|text| serde_json::from_str(text).ok());
        let adds = Self { node_selector, tolerations: tolerations.unwrap_or_default() };
        (adds != Self::default()).then_some(adds)
    }
}

impl Admission {
    /// Returns the specification of a pod of a namespace that is made of a template with this
    /// specification.
    pub fn admitted(&self, template: &PodSpec, namespace: &str) -> PodSpec {
        let mut spec = template.clone();
        each_container(&mut spec, request_limits);
        let first = Key { namespace: namespace.to_owned(), name: String::new() };
        let ranges = self.limit_ranges.range(first..);
        for (_, defaults) in ranges.take_while(|(key, _)| key.namespace == namespace) {
            each_container(&mut spec, |container| add_defaults(container, defaults));
        }
        request_pod_limits(&mut spec);
        if let Some(NamespaceAdds { node_selector, .. }) = self.namespaces.get(&unbound(namespace))
        {
            spec.node_selector.extend(node_selector.clone());
        }
        self.prioritize(&mut spec);
        if let Some(NamespaceAdds { tolerations, .. }) = self.namespaces.get(&unbound(namespace)) {
            spec.tolerations.extend(tolerations.clone());
        }
        tolerate_extended_resources(&mut spec);
        let class = spec.runtime_class_name.as_ref();
        if let Some(adds) = class.and_then(|name| self.runtime_classes.get(&unbound(name))) {
            let RuntimeClassAdds { overhead, scheduling } = adds.clone();
            if !overhead.pod_fixed.is_empty() {
                spec.overhead = overhead.pod_fixed;
            }
            spec.node_selector.extend(scheduling.node_selector);
            spec.tolerations.extend(scheduling.tolerations);
        }
        spec
    }

    /// Sets the priority to that of the named PriorityClass, else to that of the class that is the
    /// default of the cluster (plugin `Priority`).
    fn prioritize(&self, spec: &mut PodSpec) {
        let named = spec.priority_class_name.as_deref().filter(|name| !name.is_empty());
        let priority = if let Some(name) = named {
            self.priorities.get(&unbound(name))
        } else {
            // Of several defaults, the API server takes the lowest.
            let defaults = self.priorities.values().filter(|priority| priority.is_default);
            defaults.min_by_key(|priority| priority.value)
        };
        if let Some(Priority { value, may_preempt, .. }) = priority {
            spec.priority = Some(*value);
            if !may_preempt {
                spec.preemption_policy = Some("Never".into());
            }
        }
    }
}

/// The key of an object without a namespace.
fn unbound(name: &str) -> Key {
    Key { namespace: String::new(), name: name.into() }
}

fn each_container(spec: &mut PodSpec, change: impl Fn(&mut Container)) {
    spec.containers.iter_mut().chain(&mut spec.init_containers).for_each(change);
}

/// Requests what is limited and not requested (`SetDefaults_Pod`).
fn request_limits(container: &mut Container) {
    let resources = &mut container.resources;
    for (name, limit) in &resources.limits {
        resources.requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}

/// Requests, for the pod as a whole, what it limits as a whole: of CPU and memory what its
/// containers request, with the defaults of a LimitRange, else the limit (`defaultPodLevelRequests`
/// of Kubernetes 1.37; before, without these defaults). The limits of huge pages of the containers
/// count as one of the pod (`defaultHugePagePodLevelLimits`).
fn request_pod_limits(spec: &mut PodSpec) {
    if spec.resources.limits.is_empty() && spec.resources.requests.is_empty() {
        return;
    }
    let of_containers = PodSpec {
        resources: super::objects::ContainerResources::default(),
        overhead: Quantities::new(),
        ..spec.clone()
    };
    let requested = requests(&of_containers);
    // The requests of huge pages are equal to their limits.
    for (name, amount) in requested.devices.iter().filter(|(name, _)| is_huge(name)) {
        if !spec.resources.requests.contains_key(name) {
            spec.resources.limits.entry(name.clone()).or_insert_with(|| amount.to_string());
        }
    }
    if spec.resources.limits.is_empty() {
        return;
    }
    let all = of_containers.containers.iter().chain(&of_containers.init_containers);
    let is_requested =
        |name: &str| all.clone().any(|container| container.resources.requests.contains_key(name));
    let amounts = [
        ("cpu", format!("{}m", requested.resources.cpu_millis)),
        ("memory", requested.resources.memory_bytes.to_string()),
    ];
    for (name, amount) in amounts.into_iter().filter(|(name, _)| is_requested(name)) {
        spec.resources.requests.entry(name.into()).or_insert(amount);
    }
    let limits = spec.resources.limits.clone();
    let whole = |name: &str| matches!(name, "cpu" | "memory") || is_huge(name);
    for (name, limit) in limits.into_iter().filter(|(name, _)| whole(name)) {
        spec.resources.requests.entry(name).or_insert(limit);
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Adds the defaults of a LimitRange (plugin `LimitRanger`). They come after the requests that
/// follow from limits, so a default limit is not requested.
fn add_defaults(container: &mut Container, defaults: &ContainerDefaults) {
    let ContainerDefaults { limits, requests } = defaults;
    let resources = &mut container.resources;
    for (name, limit) in limits {
        resources.limits.entry(name.clone()).or_insert_with(|| limit.clone());
    }
    for (name, request) in requests {
        resources.requests.entry(name.clone()).or_insert_with(|| request.clone());
    }
}

/// Tolerates taints whose key is an extended resource that the pod requests (plugin
/// `ExtendedResourceToleration`). It is on in EKS and GKE. Where it is off, nodes with such a taint
/// seem to admit pods of a template that lacks the toleration, until the pods exist.
fn tolerate_extended_resources(spec: &mut PodSpec) {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let requested = containers.flat_map(|container| container.resources.requests.keys());
    let extended = requested.filter(|name| is_extended(name)).cloned();
    let tolerated = extended.map(|key| Toleration {
        key: Some(key),
        operator: Some("Exists".into()),
        value: None,
        effect: Some("NoSchedule".into()),
    });
    let mut tolerated: Vec<Toleration> = tolerated.collect();
    tolerated.sort();
    tolerated.dedup();
    tolerated.retain(|toleration| !spec.tolerations.contains(toleration));
    spec.tolerations.extend(tolerated);
}
