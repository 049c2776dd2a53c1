//! Checks whether a pod fits on a node: resources, selectors, required node affinity and taints.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::{
    Container, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, ResourceRequirements, Taint,
    Toleration,
};

use crate::quantity::{Amounts, add, amounts, raise};

/// A present or future node and its free resources.
#[derive(Debug, Clone)]
pub(super) struct Room {
    pub(super) node: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) free: Amounts,
    /// Whether a pod on the node keeps it from being removed.
    pub(super) held: bool,
}

/// A pod without a node, and its requests.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) name: String,
    pub(super) priority: i32,
    pub(super) spec: PodSpec,
    pub(super) requests: Amounts,
}

impl Ask {
    pub(super) fn new(name: String, priority: i32, spec: PodSpec) -> Result<Self> {
        let requests = requests(&spec)?;
        Ok(Self { name, priority, spec, requests })
    }
}

impl Room {
    pub(super) fn fits(&self, ask: &Ask) -> bool {
        self.has_room(&ask.requests) && self.admits(&ask.spec)
    }

    pub(super) fn take(&mut self, requests: &Amounts) {
        for (name, amount) in requests {
            *self.free.entry(name.clone()).or_default() -= amount;
        }
    }

    fn has_room(&self, requests: &Amounts) -> bool {
        requests
            .iter()
            .all(|(name, amount)| *amount <= self.free.get(name).copied().unwrap_or_default())
    }

    /// Whether the node's labels and taints admit the pod, regardless of free resources.
    pub(super) fn admits(&self, spec: &PodSpec) -> bool {
        let selected = spec
            .node_selector
            .iter()
            .flatten()
            .all(|(key, value)| self.labels.get(key) == Some(value));
        let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
        let required = affinity
            .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
        let wanted = required
            .is_none_or(|terms| terms.node_selector_terms.iter().any(|term| self.matches(term)));
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        selected && wanted && self.taints.iter().all(|taint| tolerates(tolerations, taint))
    }

    /// Whether the node matches all requirements of a term. An empty term matches no node.
    fn matches(&self, term: &NodeSelectorTerm) -> bool {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        (!expressions.is_empty() || !fields.is_empty())
            && expressions.iter().all(|wanted| holds(wanted, self.labels.get(&wanted.key)))
            && fields
                .iter()
                .all(|wanted| wanted.key == "metadata.name" && holds(wanted, Some(&self.node)))
    }
}

fn holds(wanted: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let values = wanted.values.as_deref().unwrap_or_default();
    let number = |text: &String| text.parse::<i64>().ok();
    let bound = values.first().and_then(number);
    match wanted.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value > bound),
        "Lt" => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    let tolerated = |toleration: &Toleration| {
        let effect = toleration
            .effect
            .as_deref()
            .is_none_or(|effect| effect.is_empty() || effect == taint.effect);
        let key = toleration.key.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        let value = exists
            || toleration.value.as_deref().unwrap_or_default()
                == taint.value.as_deref().unwrap_or_default();
        effect && value && (key == taint.key || (key.is_empty() && exists))
    };
    taint.effect == "PreferNoSchedule" || tolerations.iter().any(tolerated)
}

/// The requests that the scheduler counts for a pod. The resource `pods` has an amount of one pod.
pub(super) fn requests(spec: &PodSpec) -> Result<Amounts> {
    let of = |resources: &Option<ResourceRequirements>| {
        amounts(resources.as_ref().and_then(|resources| resources.requests.as_ref()))
    };
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &of(&container.resources)?);
    }
    // Sidecars start in the order of the init containers and keep running.
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut at_once = of(&container.resources)?;
        if is_sidecar(container) {
            add(&mut sidecars, &at_once);
            at_once.clone_from(&sidecars);
        } else {
            add(&mut at_once, &sidecars);
        }
        raise(&mut peak, &at_once);
    }
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    // Requests of the pod as a whole replace the sums of its containers.
    total.extend(of(&spec.resources)?);
    add(&mut total, &amounts(spec.overhead.as_ref())?);
    total.insert("pods".to_owned(), 1_000);
    Ok(total)
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}
