//! The resources that a pod takes of a node, as the scheduler counts them.
//!
//! The base is the maximum of two sums: the requests of all containers and sidecars together, and,
//! for each init container, its requests plus those of the sidecars started before it. For CPU and
//! memory, pod-level requests replace that base. The overhead is added at the end (Kubernetes,
//! `resourcehelper.PodRequests`).

use std::collections::BTreeMap;

use embedder::{AcceleratorKind, Resources};

use super::objects::{Container, PodSpec};
use super::quantity::{millis, units};

/// Resource names that count as accelerators. If a pod requests several, the first one in this list
/// counts.
pub(super) const ACCELERATORS: [&str; 5] = [
    AcceleratorKind::NVIDIA,
    AcceleratorKind::AMD,
    AcceleratorKind::NEURON,
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
];

/// Returns the resources that a pod takes of a node, including one pod slot, and the kind of its
/// accelerators.
pub fn requests(spec: &PodSpec) -> (Resources, AcceleratorKind) {
    let kind = kind(spec);
    let of = |quantities: &BTreeMap<String, String>| resources(quantities, kind);
    let requests = |container: &Container| of(&container.resources.requests);
    let mut running =
        spec.containers.iter().map(requests).fold(Resources::default(), Resources::give_back);
    let (mut sidecars, mut starting) = (Resources::default(), Resources::default());
    for container in &spec.init_containers {
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.give_back(requests(container));
            starting = starting.roof(sidecars);
        } else {
            starting = starting.roof(sidecars.give_back(requests(container)));
        }
    }
    running = running.give_back(sidecars).roof(starting);
    let whole = of(&spec.resources.requests);
    if spec.resources.requests.contains_key("cpu") {
        running.cpu_millis = whole.cpu_millis;
    }
    if spec.resources.requests.contains_key("memory") {
        running.memory_bytes = whole.memory_bytes;
    }
    let all = running.give_back(of(&spec.overhead));
    (Resources { pods: 1, ..all }, AcceleratorKind::new(kind))
}

/// Converts quantities to a vector, with accelerators of one kind.
///
/// Invalid quantities count as 0, because the API server accepts none.
pub fn resources(quantities: &BTreeMap<String, String>, kind: &str) -> Resources {
    let get = |name: &str| quantities.get(name).map_or("0", String::as_str);
    Resources {
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
            accelerators,
            cpu_millis,
            memory_bytes: gib * GIB,
            ephemeral_bytes: 0,
            pods: 1,
        };
        assert_eq!(requests(&spec).0, expected);
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
}
