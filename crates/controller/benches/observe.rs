//! Measures the index of a large cluster, and a policy's turn over it:
//! `cargo bench -p controller --bench observe`.
//!
//! The cluster has a million pods of 2,000 shapes on 15,000 nodes of 50 groups. The output has the
//! resident set of the process in MB, which includes memory that the allocator retains, the time of
//! an event in microseconds, with its parsing from JSON apart, and the time of a turn in
//! milliseconds.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use base::tier::Tiers;
use chrono::DateTime;
use control::{Control, Observed};
use controller::catalog::{
    Comparison, LaunchedBy, NodeGroup, Offers, OtherTypes, Pricing, Sizes, offers,
};
use controller::cluster::{Places, Seen, View};
use controller::observe::{Index, Node, Pod, Workloads};
use demand::forecast::onnx::ModelSource;
use demand::forecast::{ForecasterConfig, Ladder, Lead, Method};
use embedder::{AcceleratorKind, CapacityType, Resources, UNLIMITED};
use placeholders::{Objective, Policy};
use serde_json::{Value, json};

/// The number of node groups; each has an instance type of its own.
const GROUPS: usize = 50;
const GIB: u64 = 1 << 30;

/// The size of the cluster.
#[derive(Clone, Copy)]
struct Size {
    pods: usize,
    shapes: usize,
    nodes: usize,
}

fn pod(size: Size, id: usize, pending: bool) -> Value {
    let shape = id % size.shapes;
    let node = (!pending).then(|| format!("node-{}", id % size.nodes));
    json!({
        "metadata": {"name": format!("work-{id}"), "namespace": "batch", "uid": format!("{:032x}", id + 1)},
        "spec": {
            "nodeName": node, "priority": 0,
            "nodeSelector": {"node.kubernetes.io/instance-type": format!("type-{}", shape % GROUPS)},
            "containers": [{"resources": {"requests": {
                "cpu": format!("{}m", 100 + shape), "memory": format!("{}Mi", 64 + shape % 7 * 64),
            }}}],
        },
        "status": {"phase": if pending { "Pending" } else { "Running" }},
    })
}

fn node(id: usize) -> Node {
    let labels = json!({"node.kubernetes.io/instance-type": format!("type-{}", id % GROUPS)});
    let allocatable = json!({"cpu": "192", "memory": "768Gi", "pods": "250"});
    let mut node = testkit::ready_node(&format!("node-{id}"), &labels, &allocatable);
    node["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    serde_json::from_value(node).expect("a node")
}

fn group(id: usize) -> NodeGroup {
    let instance_type = format!("type-{id}");
    NodeGroup {
        name: instance_type.clone(),
        capacity_type: CapacityType::OnDemand,
        placement_group: None,
        zone: None,
        min: 0,
        max: UNLIMITED,
        launched_by: LaunchedBy::ClusterAutoscaler,
        desired: 0,
        instances: std::collections::BTreeSet::new(),
        described: true,
        labels: BTreeMap::from([(
            "node.kubernetes.io/instance-type".into(),
            instance_type.clone(),
        )]),
        instance_type,
        size_class: None,
        other_types: OtherTypes::None,
        taints: Vec::new(),
        capacity: Resources {
            devices: embedder::Devices::NONE,
            accelerators: 0,
            cpu_millis: 192_000,
            memory_bytes: 768 * GIB,
            ephemeral_bytes: UNLIMITED,
            pods: 250,
        },
        accelerator_kind: AcceleratorKind::default(),
        choices: BTreeMap::new(),
        pool: None,
        resources: BTreeMap::new(),
        estimate: None,
        hourly: None,
        unneeded_seconds: None,
        weight: 0,
        may_have_warm_pool: false,
    }
}

/// The resident set of this process, in bytes; 0 where `/proc` does not have it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn filled(size: Size) -> Index {
    let mut index = Index::default();
    (0..size.nodes).for_each(|id| index.apply_node(&node(id)));
    index.begin_pods();
    for id in 0..size.pods {
        let pod: Pod = serde_json::from_value(pod(size, id, id % 100 == 0)).expect("a pod");
        index.apply_pod(&pod);
    }
    index.end_pods();
    index
}

/// Prints the mean time of an event in microseconds: of a pod's creation, its deletion and its
/// parsing.
fn events(index: &mut Index, size: Size) {
    let texts: Vec<String> =
        (0..size.pods / 10).map(|id| pod(size, size.pods + id, false).to_string()).collect();
    let mut pods: Vec<Pod> = Vec::with_capacity(texts.len());
    let each = |seconds: f64| seconds * 1e6 / texts.len() as f64;
    let parsed =
        seconds(|| pods.extend(texts.iter().filter_map(|text| serde_json::from_str(text).ok())));
    let created = seconds(|| pods.iter().for_each(|pod| index.apply_pod(pod)));
    let deleted = seconds(|| pods.iter().for_each(|pod| index.delete_pod(pod)));
    index.take_occurred(0);
    println!(
        "an event: {:.2} µs for a created pod, {:.2} µs for a deleted pod, {:.2} µs to parse",
        each(created),
        each(deleted),
        each(parsed)
    );
}

fn offers_of(index: &Index) -> Offers {
    let groups: Vec<NodeGroup> = (0..GROUPS).map(group).collect();
    let comparison = Comparison::by_taints("placement-group");
    let made =
        offers(&groups, index.nodes(), &[], (&comparison, &Pricing::of_table()), &mut Sizes::new());
    made.expect("there are groups")
}

/// Prints the time of a tick in milliseconds, from offers and gather through embed, record and
/// forecast to plan: the median, the 99th percentile and the first.
fn turns(index: &Index, offers: &Arc<Offers>, method: Method) {
    let lead = Lead::covering(180, 60, 10);
    let leads = vec![lead; offers.catalog.len()];
    let unneeded_seconds = vec![600; offers.catalog.len()];
    let (catalog, ladder) = (offers.catalog.clone(), Ladder::default());
    let (objective, model) = (Objective::default(), ModelSource::Pretrained);
    let tiers = Tiers::default();
    let config = ForecasterConfig {
        catalog,
        method,
        ladder,
        ladder_first: false,
        expression: None,
        leads,
        unneeded_seconds,
        objective,
        tiers,
        model,
        patient: false,
    };
    let forecaster = config.forecaster(DateTime::UNIX_EPOCH);
    let mut control = Control::new(forecaster, &offers.catalog, 60);
    let (mut view, workloads) = (View::default(), Workloads::default());
    let lead_seconds = vec![lead.seconds; offers.catalog.len()];
    let mut took = Vec::new();
    for minute in 0..240 {
        let time = DateTime::from_timestamp(60 * minute, 0).unwrap_or_default();
        took.push(seconds(|| {
            black_box(offers_of(index));
            let window = (time.timestamp(), lead_seconds.as_slice());
            let Seen { cluster, standing, ready, .. } =
                view.gather(index, offers, &workloads, &Places::new(), &|_, _| None, window);
            let classes = index.classes().iter().take(20);
            let arrivals = classes
                .map(|(id, class)| (view.shape(class, offers, &workloads), 1 + u64::from(id) % 3));
            let arrivals = arrivals.collect();
            let ready = ready.iter().map(|groups| groups.iter().sum()).collect();
            let starts = Vec::new();
            let observed = Observed {
                time,
                cluster,
                standing,
                ready,
                arrivals,
                starts,
                ..Observed::default()
            };
            black_box(control.turn(&observed, &Policy::default()));
        }));
    }
    let first = took[0];
    took.sort_by(f64::total_cmp);
    let at = |share: usize| 1e3 * took[took.len() * share / 100];
    println!(
        "a tick of {method:?}: {:.1} ms, p99 {:.1} ms, the first {:.1} ms",
        at(50),
        at(99),
        1e3 * first
    );
}

fn main() {
    // Cargo passes `--bench` only for `cargo bench`. `cargo test --benches` needs no measurement,
    // so a small cluster is enough.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let size = if whole {
        Size { pods: 1_000_000, shapes: 2_000, nodes: 15_000 }
    } else {
        Size { pods: 1_000, shapes: 20, nodes: 15 }
    };
    let before = resident();
    let mut index = filled(size);
    let megabytes = resident().saturating_sub(before) as f64 / 1e6;
    println!(
        "{} pods of {} shapes on {} nodes: {megabytes:.0} MB",
        size.pods, size.shapes, size.nodes
    );
    events(&mut index, size);
    let offers = Arc::new(offers_of(&index));
    for method in [Method::Increments, Method::Scenario, Method::Ensemble] {
        turns(&index, &offers, method);
    }
}
