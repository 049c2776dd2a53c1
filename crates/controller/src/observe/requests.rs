//! The resources that a pod takes of a node, as the scheduler counts them.
//!
//! The base is the maximum of two sums: the requests of all containers and sidecars together, and,
//! for each init container, its requests plus those of the sidecars started before it. For CPU,
//! memory and huge pages, pod-level requests replace that base. The overhead is added at the end
//! (Kubernetes, `resourcehelper.PodRequests`).

use std::collections::BTreeMap;

use base::quantity::{millis, units};
use embedder::{AcceleratorKind, Resources};

use super::devices::amounts;
use super::objects::{Container, ContainerStatus, Pod, PodSpec, is_condition};

/// Resource names that count as accelerators. If a pod requests several, the first one in this list
/// counts.
pub const ACCELERATORS: [&str; 4] = [
    AcceleratorKind::NVIDIA,
    AcceleratorKind::AMD,
    AcceleratorKind::NEURON,
    AcceleratorKind::GAUDI,
];

/// What a pod takes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// The resources, including one pod slot.
    pub resources: Resources,
    /// The kind of the accelerators that it requests. It has no meaning if the pod requests none.
    pub accelerator_kind: AcceleratorKind,
    /// Other resources, by name, in whole units.
    pub devices: BTreeMap<String, u64>,
}

/// Returns what a pod with this specification takes of a node, as it is written.
pub fn requests(spec: &PodSpec) -> PodRequests {
    with_containers(spec, |container, kind| Taken::of(&container.resources.requests, kind))
}

/// Returns what a pod takes of its node: while it is resized, the largest of what each container
/// requests, what the kubelet has granted and what is in force. The specification does not count if
/// the kubelet finds it infeasible (Kubernetes, `determineContainerReqs`).
pub(super) fn requests_of(pod: &Pod) -> PodRequests {
    let status = &pod.status;
    let infeasible = is_condition(&status.conditions, "PodResizePending", "Infeasible");
    // Of init containers, only sidecars can be resized, and only they have these fields.
    let of_status = |container: &Container| {
        let mut all = status.container_statuses.iter().chain(&status.init_container_statuses);
        all.find(|status| !status.name.is_empty() && status.name == container.name)
    };
    with_containers(&pod.spec, |container, kind| {
        let specified = Taken::of(&container.resources.requests, kind);
        let Some(ContainerStatus { allocated_resources, resources: Some(in_force), .. }) =
            of_status(container)
        else {
            return specified;
        };
        let in_force = Taken::of(&in_force.requests, kind);
        let granted = Taken::of(allocated_resources, kind).roof(in_force);
        if infeasible { granted } else { granted.roof(specified) }
    })
}

/// `of` returns what one container takes, given the kind of the pod's accelerators.
fn with_containers(spec: &PodSpec, of: impl Fn(&Container, &str) -> Taken) -> PodRequests {
    let kind = kind(spec);
    let requests = |container: &Container| of(container, kind);
    let running = spec.containers.iter().map(requests).fold(Taken::default(), Taken::plus);
    let (mut sidecars, mut starting) = (Taken::default(), Taken::default());
    for container in &spec.init_containers {
        let one = requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.plus(one);
            starting = starting.roof(sidecars.clone());
        } else {
            starting = starting.roof(one.plus(sidecars.clone()));
        }
    }
    let mut running = running.plus(sidecars).roof(starting);
    if !spec.resources.requests.is_empty() {
        let whole = Taken::of(&spec.resources.requests, kind);
        if spec.resources.requests.contains_key("cpu") {
            running.resources.cpu_millis = whole.resources.cpu_millis;
        }
        if spec.resources.requests.contains_key("memory") {
            running.resources.memory_bytes = whole.resources.memory_bytes;
        }
        running.devices.extend(whole.devices);
    }
    let all = running.plus(Taken::of(&spec.overhead, kind));
    PodRequests {
        resources: Resources { pods: 1, ..all.resources },
        accelerator_kind: AcceleratorKind::new(kind),
        devices: all.devices,
    }
}

/// An amount of each resource.
#[derive(Clone, Debug, Default)]
struct Taken {
    resources: Resources,
    devices: BTreeMap<String, u64>,
}

impl Taken {
    fn of(quantities: &BTreeMap<String, String>, kind: &str) -> Self {
        Self {
            resources: resources(quantities, kind),
            devices: amounts(quantities, kind).collect(),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, Resources::give_back, u64::saturating_add)
    }

    fn roof(self, other: Self) -> Self {
        self.with(other, Resources::roof, u64::max)
    }

    fn with(
        mut self,
        other: Self,
        resources: impl Fn(Resources, Resources) -> Resources,
        amount: impl Fn(u64, u64) -> u64,
    ) -> Self {
        for (name, more) in other.devices {
            let all = self.devices.entry(name).or_default();
            *all = amount(*all, more);
        }
        Self { resources: resources(self.resources, other.resources), devices: self.devices }
    }
}

/// Converts quantities to a vector, with accelerators of one kind.
///
/// Invalid quantities count as 0, because the API server accepts none.
pub fn resources(quantities: &BTreeMap<String, String>, kind: &str) -> Resources {
    let get = |name: &str| quantities.get(name).map_or("0", String::as_str);
    Resources {
        devices: embedder::Devices::NONE,
        accelerators: units(get(kind)).unwrap_or(0),
        cpu_millis: millis(get("cpu")).unwrap_or(0),
        memory_bytes: units(get("memory")).unwrap_or(0),
        ephemeral_bytes: units(get("ephemeral-storage")).unwrap_or(0),
        pods: units(get("pods")).unwrap_or(0),
    }
}

/// Returns the first kind of accelerator of which the quantities contain at least one.
pub fn kind_in(quantities: &BTreeMap<String, String>) -> Option<&'static str> {
    ACCELERATORS
        .into_iter()
        .find(|name| quantities.get(*name).is_some_and(|quantity| units(quantity).unwrap_or(0) > 0))
}

fn kind(spec: &PodSpec) -> &'static str {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let mut all = containers.map(|container| &container.resources.requests);
    let found = all
        .by_ref()
        .filter_map(kind_in)
        .min_by_key(|kind| ACCELERATORS.iter().position(|k| k == kind));
    found.unwrap_or(AcceleratorKind::NVIDIA)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[track_caller]
    fn check(spec: &str, [accelerators, cpu_millis, gib]: [u64; 3]) {
        let spec: PodSpec = serde_json::from_str(spec).unwrap();
        let expected = Resources {
            devices: embedder::Devices::NONE,
            accelerators,
            cpu_millis,
            memory_bytes: gib * GIB,
            ephemeral_bytes: 0,
            pods: 1,
        };
        assert_eq!(requests(&spec).resources, expected);
    }

    #[test]
    fn containers_add_up() {
        check(
            r#"{"containers": [{"resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}}},
                               {"resources": {"requests": {"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": "4"}}}, {}]}"#,
            [4, 3_500, 3],
        );
        check("{}", [0, 0, 0]);
    }

    #[test]
    fn the_maximum_of_init_containers_and_containers_counts() {
        check(
            r#"{"containers": [{"resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}],
                "initContainers": [{"resources": {"requests": {"cpu": "3"}}}, {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}"#,
            [0, 3_000, 4],
        );
    }

    #[test]
    fn sidecars_run_beside_the_containers_and_later_init_containers() {
        let sidecar = r#"{"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}"#;
        let init = r#"{"resources": {"requests": {"cpu": "5"}}}"#;
        let main = r#"{"resources": {"requests": {"cpu": "2"}}}"#;
        check(
            &format!(r#"{{"containers": [{main}], "initContainers": [{sidecar}]}}"#),
            [0, 3_000, 0],
        );
        check(
            &format!(r#"{{"containers": [{main}], "initContainers": [{init}, {sidecar}]}}"#),
            [0, 5_000, 0],
        );
        check(
            &format!(r#"{{"containers": [{main}], "initContainers": [{sidecar}, {init}]}}"#),
            [0, 6_000, 0],
        );
    }

    #[test]
    fn pod_level_resources_replace_the_sum_and_overhead_adds_to_it() {
        check(
            r#"{"containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
                "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m", "memory": "1Gi"}}"#,
            [0, 4_250, 2],
        );
    }

    #[test]
    fn devices_add_up_like_other_resources() {
        let spec = r#"{"containers": [{"resources": {"requests": {"vpc.amazonaws.com/efa": 1, "hugepages-2Mi": "4Mi"}}},
                                      {"resources": {"requests": {"vpc.amazonaws.com/efa": 2}}}],
                       "initContainers": [{"resources": {"requests": {"vpc.amazonaws.com/efa": 4}}}]}"#;
        let requests = requests(&serde_json::from_str(spec).unwrap());
        let expected = [("hugepages-2Mi", 4 << 20), ("vpc.amazonaws.com/efa", 4)];
        assert_eq!(requests.devices, expected.map(|(name, n)| (name.to_owned(), n)).into());
    }

    /// Checks the CPU of a pod whose container requests 2 CPUs, of which the kubelet has granted
    /// and applied these, and whether the resize is infeasible.
    #[track_caller]
    fn check_resize(granted: Option<&str>, in_force: Option<&str>, infeasible: bool, cpus: u64) {
        let cpu = |amount: Option<&str>| amount.map(|cpu| serde_json::json!({"cpu": cpu}));
        let pod = serde_json::json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
            "status": {
                "conditions": infeasible.then(|| serde_json::json!({
                    "type": "PodResizePending", "status": "True", "reason": "Infeasible",
                })).into_iter().collect::<Vec<_>>(),
                "containerStatuses": [{
                    "name": "c",
                    "allocatedResources": cpu(granted).unwrap_or_else(|| serde_json::json!({})),
                    "resources": {"requests": cpu(in_force).unwrap_or_else(|| serde_json::json!({}))},
                }],
            },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(requests_of(&pod).resources.cpu_millis, 1_000 * cpus);
    }

    #[test]
    fn a_pod_that_is_resized_takes_the_largest_of_what_it_has_and_will_have() {
        check_resize(None, None, false, 2);
        check_resize(Some("12"), Some("12"), false, 12);
        check_resize(Some("1"), Some("12"), false, 12);
        check_resize(Some("1"), Some("1"), false, 2);
        check_resize(Some("1"), Some("1"), true, 1);
    }
}
