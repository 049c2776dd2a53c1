//! The nodes that are predicted for a suspended Job are those that the autoscaler launches for it,
//! and the scheduler then binds all of its pods to them.
//!
//! Each workload has a group of nodes of its own, so that workloads do not share nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests::autoscaler::{Autoscaler, AutoscalerSettings};
use tests::control_plane::{ControlPlane, Options};
use tests::installed::{self, Prophet, policy};
use tests::instances::instance;
use tests::joiner::{Joiner, JoinerSettings};
use tests::moto::Moto;
use tests::node_group::NodeGroup;
use tests::wait;
use tests::workloads::{CLUSTER, Generator, Workload};
use tokio::time::Instant;

use super::{length, seed};

/// The longest wait for nodes and pods of a round, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(3);

/// The number of groups, and so of workloads at once.
const GROUPS: usize = 6;

/// The label of the nodes of a group, and its value.
const LABEL: &str = "tests.prophet.dev/pool";

/// The instance types of the groups. All have GPUs or not, and differ in size.
const TYPES: [&str; 3] = ["m5.xlarge", "m5.4xlarge", "g5.12xlarge"];

/// A policy that holds placeholders for announced pods only.
const ANNOUNCED: &str = "{mode: Act, tick: 10s, forecast: {method: scheduled}, workloads: {
    namespaces: [plain, defaults, limits], releasedJobs: {}}}";

fn group(at: usize) -> String {
    format!("pool-{at}")
}

/// The workload, restricted to a group, without what keeps its pods off any node.
fn placed(workload: Workload, at: usize) -> Workload {
    let mut workload = workload;
    let spec = &mut workload.template["spec"];
    let map = spec.as_object_mut().unwrap();
    for field in [
        "affinity",
        "topologySpreadConstraints",
        "schedulerName",
        "volumes",
        "schedulingGates",
        "priorityClassName",
    ] {
        map.remove(field);
    }
    if map.get("runtimeClassName").is_some_and(|name| name == "placed") {
        map.remove("runtimeClassName");
    }
    spec["nodeSelector"] = json!({LABEL: group(at)});
    workload
}

/// The devices of each node, besides GPUs.
const DEVICES: [(&str, i128); 2] = [("nvidia.com/mig-3g.20gb", 4), ("vpc.amazonaws.com/efa", 2)];

/// The number of nodes of the group that the pods need, computed from a pod that the API server
/// made of the template, by the sums of the autoscaler. `None` if one does not fit on a node, or if
/// the number depends on what exactly is reserved on a node.
fn needed(pod: &Pod, pods: u64, instance_type: &str) -> Option<u64> {
    let requests = tests::autoscaler::requests_of(pod.spec.as_ref()?).ok()?;
    let size = instance(instance_type).ok()?;
    let nodes = |cpu_millis: i128, memory_mib: i128| {
        let mut room = BTreeMap::from([
            ("cpu", i128::from(size.cpus) * 1_000 - cpu_millis),
            ("memory", (i128::from(size.memory_mib) - memory_mib) * (1_000 << 20)),
            ("ephemeral-storage", (100 << 30) * 1_000),
            ("pods", 100_000),
            ("nvidia.com/gpu", i128::from(size.gpus) * 1_000),
        ]);
        room.extend(DEVICES.map(|(name, amount)| (name, amount * 1_000)));
        let holds = requests
            .iter()
            .filter(|(_, amount)| **amount > 0)
            .map(|(name, amount)| room.get(name.as_str()).copied().unwrap_or(0) / amount);
        let each = u64::try_from(holds.min()?).ok().filter(|each| *each > 0)?;
        Some(pods.div_ceil(each))
    };
    let (least, most) = (nodes(0, 0)?, nodes(200, 2_048)?);
    (least == most).then_some(least)
}

async fn status(plane: &ControlPlane) -> Value {
    installed::status(plane, "batch").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_predicted_nodes_come_and_the_scheduler_binds_all_pods_to_them() {
    let seed = seed();
    println!("SEED={seed}");
    let mut generator = Generator::new(seed);
    let (begin, mut rounds, mut compared) = (Instant::now(), 0, 0);
    while rounds == 0 || begin.elapsed() < length(1) {
        compared += round(&mut generator, seed).await;
        rounds += 1;
    }
    println!("{compared} workloads placed in {rounds} rounds");
}

/// Workloads of which a pod fits on a node of its group, with the number of nodes that each needs.
async fn fitting(
    generator: &mut Generator,
    plane: &ControlPlane,
    types: &[&str],
) -> Vec<(Workload, u64)> {
    let mut workloads: Vec<(Workload, u64)> = Vec::new();
    while workloads.len() < GROUPS {
        let at = workloads.len();
        let workload = placed(generator.workload(), at);
        if workload.namespace == "selecting" {
            continue;
        }
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
        let pods: Api<DynamicObject> =
            Api::namespaced_with(plane.client(), &workload.namespace, &resource);
        let object: DynamicObject = serde_json::from_value(workload.pod()).unwrap();
        let dry = kube::api::PostParams { dry_run: true, ..Default::default() };
        let Ok(pod) = pods.create(&dry, &object).await else { continue };
        let pod: Pod = serde_json::from_value(serde_json::to_value(pod).unwrap()).unwrap();
        if let Some(nodes) = needed(&pod, workload.pods, types[at]) {
            workloads.push((workload, nodes));
        }
    }
    workloads
}

/// The number of nodes that hold these pods, by group.
async fn nodes_used(all: &Api<Pod>, ours: &ListParams) -> BTreeMap<String, u64> {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for spec in all.list(ours).await.unwrap().items.into_iter().filter_map(|pod| pod.spec) {
        let group = spec.node_selector.unwrap_or_default().remove(LABEL).unwrap_or_default();
        used.entry(group).or_default().extend(spec.node_name);
    }
    used.into_iter().map(|(group, nodes)| (group, nodes.len() as u64)).collect()
}

/// All pods and Events of the cluster, as text.
async fn pods_and_events(plane: &ControlPlane) -> String {
    let (pods, events): (Api<Pod>, Api<Event>) =
        (Api::all(plane.client()), Api::all(plane.client()));
    let pods = pods.list(&ListParams::default()).await.unwrap().items;
    let pods = pods.iter().map(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let status = serde_json::to_string(&pod.status).unwrap();
        format!("{} on {node:?}: {status}", pod.name_any())
    });
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let events = events.into_iter().map(|event| {
        let name = event.involved_object.name.unwrap_or_default();
        let (reason, message) = (event.reason.unwrap_or_default(), event.message);
        let time = event.event_time.map(|time| time.0.to_string());
        format!("{time:?} {name}: {reason} {}", message.unwrap_or_default())
    });
    pods.chain(events).collect::<Vec<_>>().join("\n")
}

/// One round on a control plane of its own. Returns the number of workloads.
async fn round(generator: &mut Generator, seed: u64) -> usize {
    let options = Options { adds_to_pods: true, ..Options::default() };
    let (plane, moto) = tokio::join!(ControlPlane::start_with(options), Moto::start());
    let (plane, moto) = (plane.unwrap(), moto.unwrap());
    plane.apply_yaml(CLUSTER).await.unwrap();
    let types: Vec<&str> = (0..GROUPS).map(|at| TYPES[at % TYPES.len()]).collect();
    for (at, instance_type) in types.iter().enumerate() {
        let of = NodeGroup::new(&group(at), instance_type).label(LABEL, &group(at));
        let of = of.resource("ephemeral-storage", "100Gi");
        let of = DEVICES.iter().fold(of, |of, (name, n)| of.resource(name, &n.to_string()));
        of.create(&moto).await.unwrap();
    }
    let settings = JoinerSettings { latency: Duration::from_secs(1), ..JoinerSettings::default() };
    let _joiner = Joiner::start(&plane, &moto, settings).unwrap();
    // A node whose placeholder is gone stays until the pods of a slow Job controller come.
    let unneeded_time = Duration::from_mins(2);
    let settings = AutoscalerSettings { unneeded_time, ..AutoscalerSettings::default() };
    let autoscaler = Autoscaler::start(&plane, &moto, settings).unwrap();

    let workloads = fitting(generator, &plane, &types).await;
    let expected: BTreeMap<String, u64> =
        workloads.iter().enumerate().map(|(at, (_, nodes))| (group(at), *nodes)).collect();
    for (workload, _) in &workloads {
        plane.apply_yaml(&workload.job().to_string()).await.unwrap();
    }
    let discovery = "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled";
    let prophet = Prophet::install(&plane, &[discovery], &moto.environment()).await.unwrap();
    plane.apply_yaml(&policy("batch", ANNOUNCED)).await.unwrap();

    let details = |workloads: &[(Workload, u64)]| {
        let lines = workloads.iter().map(|(workload, nodes)| {
            format!("{} x {} needs {nodes}: {}", workload.name, workload.pods, workload.template)
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let launched = || -> BTreeMap<String, u64> {
        let counters = autoscaler.counters();
        let groups = expected.keys();
        groups.map(|group| (group.clone(), counters.launched_in(group) as u64)).collect()
    };
    let nodes: Api<Node> = Api::all(plane.client());
    let waited = wait::until_true("the predicted nodes", DEADLINE, async || {
        let all = nodes.list(&ListParams::default()).await?.items.len();
        Ok(launched() == expected && all as u64 == expected.values().sum::<u64>())
    });
    if let Err(error) = waited.await {
        panic!(
            "SEED={seed} {error:#}: expected {expected:?}, launched {:?}\n{:#}\n{}",
            launched(),
            status(&plane).await,
            details(&workloads)
        );
    }
    // No further node is launched for what is announced.
    autoscaler.wait_for_scans(2).await.unwrap();
    assert_eq!(launched(), expected, "SEED={seed}\n{}", details(&workloads));
    for (workload, _) in &workloads {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("batch", "v1", "Job"));
        let jobs: Api<DynamicObject> =
            Api::namespaced_with(plane.client(), &workload.namespace, &resource);
        let released: Patch<Value> = Patch::Merge(json!({"spec": {"suspend": false}}));
        jobs.patch(&workload.name, &PatchParams::default(), &released).await.unwrap();
    }
    let all: Api<Pod> = Api::all(plane.client());
    let ours = ListParams::default().labels("workload");
    let pods_of_all: u64 = workloads.iter().map(|(workload, _)| workload.pods).sum();
    let waited = wait::until_true("all pods on nodes", DEADLINE, async || {
        let pods = all.list(&ours).await?.items;
        let bound = pods
            .iter()
            .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        Ok(bound.count() as u64 == pods_of_all)
    });
    if let Err(error) = waited.await {
        panic!(
            "SEED={seed} {error:#}\n{}\n{}\n{}",
            pods_and_events(&plane).await,
            details(&workloads),
            prophet.log().unwrap_or_default()
        );
    }
    // No fewer nodes hold the pods. There can be more: a scan between the preemption of a
    // placeholder and the binding of the pods beside the first one finds them without a node.
    let used = nodes_used(&all, &ours).await;
    let more: Vec<&String> = expected
        .iter()
        .filter(|(group, nodes)| launched()[*group] > **nodes)
        .map(|(group, _)| group)
        .collect();
    if !more.is_empty() {
        println!("the autoscaler launched more nodes while pods preempted placeholders: {more:?}");
    }
    for (group, nodes) in &expected {
        let used = used.get(group).copied().unwrap_or(0);
        assert!(
            used >= *nodes,
            "SEED={seed} {group}: {used} of {nodes} nodes hold the pods\n{}\n{:?}\n{:#}\n{}",
            details(&workloads),
            autoscaler.counters(),
            status(&plane).await,
            prophet.log().unwrap_or_default()
        );
    }
    workloads.len()
}
