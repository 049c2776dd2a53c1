//! A large cluster in the index, and a policy's turn over it: `cargo bench --features kubernetes --bench observe`.
//!
//! A million pods of 2,000 shapes on 15,000 nodes of 50 groups. What is told: bytes of the process by its resident set,
//! which counts what the allocator keeps; microseconds of an event, parsed from JSON and not; milliseconds of a turn.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use chrono::DateTime;
use embedder::{AcceleratorKind, CapacityType, Resources, UNLIMITED};
use placeholders::{Objective, Policy};
use prophet::catalog::{NodeGroup, Offers, Sizes, offers};
use prophet::control::{Control, Now};
use prophet::forecast::onnx::Source;
use prophet::forecast::{Basis, Ladder, Lead, Method};
use prophet::observe::{Index, Node, Places, Pod, View, Workloads};
use serde_json::{Value, json};

const GROUPS: usize = 50;
const GIB: u64 = 1 << 30;

/// How large it is: pods, shapes, nodes.
#[derive(Clone, Copy)]
struct Size {
    pods: usize,
    shapes: usize,
    nodes: usize,
}

fn pod(size: Size, id: usize, waits: bool) -> Value {
    let shape = id % size.shapes;
    let node = (!waits).then(|| format!("node-{}", id % size.nodes));
    json!({
        "metadata": {"name": format!("work-{id}"), "namespace": "batch", "uid": format!("{:032x}", id + 1)},
        "spec": {
            "nodeName": node, "priority": 0,
            "nodeSelector": {"node.kubernetes.io/instance-type": format!("type-{}", shape % GROUPS)},
            "containers": [{"resources": {"requests": {
                "cpu": format!("{}m", 100 + shape), "memory": format!("{}Mi", 64 + shape % 7 * 64),
            }}}],
        },
        "status": {"phase": if waits { "Pending" } else { "Running" }},
    })
}

fn node(id: usize) -> Node {
    let node = json!({
        "metadata": {
            "name": format!("node-{id}"), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"node.kubernetes.io/instance-type": format!("type-{}", id % GROUPS)},
        },
        "status": {
            "allocatable": {"cpu": "192", "memory": "768Gi", "pods": "250"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
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
        desired: 0,
        labels: BTreeMap::from([("node.kubernetes.io/instance-type".into(), instance_type.clone())]),
        instance_type,
        taints: Vec::new(),
        capacity: Resources {
            accelerators: 0,
            cpu_millis: 192_000,
            memory_bytes: 768 * GIB,
            ephemeral_bytes: UNLIMITED,
            pods: 250,
        },
        accelerator_kind: AcceleratorKind::default(),
        resources: BTreeMap::new(),
        estimate: None,
        hourly: None,
    }
}

/// Bytes that the process holds in memory.
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

/// The microseconds of an event: of a pod that comes, and of one that goes.
fn events(index: &mut Index, size: Size) {
    let texts: Vec<String> =
        (0..size.pods / 10).map(|id| pod(size, size.pods + id, false).to_string()).collect();
    let mut pods: Vec<Pod> = Vec::with_capacity(texts.len());
    let each = |seconds: f64| seconds * 1e6 / texts.len() as f64;
    let parsed = seconds(|| pods.extend(texts.iter().filter_map(|text| serde_json::from_str(text).ok())));
    let came = seconds(|| pods.iter().for_each(|pod| index.apply_pod(pod)));
    let went = seconds(|| pods.iter().for_each(|pod| index.delete_pod(pod)));
    index.take_arrivals();
    println!(
        "an event: {:.2} µs for a pod that comes, {:.2} µs for one that goes, {:.2} µs to parse",
        each(came),
        each(went),
        each(parsed)
    );
}

fn offers_of(index: &Index) -> Offers {
    let groups: Vec<NodeGroup> = (0..GROUPS).map(group).collect();
    let made = offers(&groups, index.nodes(), &[], "placement-group", &mut Sizes::new());
    made.expect("there are groups")
}

/// The milliseconds of a turn that is a tick: offers, gather, embed, record, forecast, plan.
fn turns(index: &Index, offers: &Arc<Offers>, method: Method) {
    let lead = Lead { seconds: 250, tick_seconds: 60 };
    let (catalog, ladder) = (offers.catalog.clone(), Ladder::default());
    let (objective, network) = (Objective::default(), Source::Pretrained);
    let basis = Basis { catalog, method, ladder, lead, objective, network };
    let mut control = Control::new(basis, DateTime::UNIX_EPOCH);
    let (mut view, workloads) = (View::default(), Workloads::default());
    let mut took = Vec::new();
    for minute in 0..240 {
        let time = DateTime::from_timestamp(60 * minute, 0).unwrap_or_default();
        took.push(seconds(|| {
            black_box(offers_of(index));
            let window = (time.timestamp(), lead.seconds);
            let seen = view.gather(index, offers, &workloads, &Places::new(), &|_, _| false, window);
            for (id, class) in index.classes().iter().take(20) {
                control.arrived(&view.shape(class, offers), 1 + u64::from(id) % 3);
            }
            let now = Now {
                name: "batch",
                policy: &Policy::default(),
                tick_seconds: 60,
                launches: Vec::new(),
                time,
            };
            black_box(control.turn(&seen, now));
        }));
    }
    let first = took[0];
    took.sort_by(f64::total_cmp);
    let at = |share: usize| 1e3 * took[took.len() * share / 100];
    println!("a tick by {method:?}: {:.1} ms, p99 {:.1} ms, the first {:.1} ms", at(50), at(99), 1e3 * first);
}

fn main() {
    // `cargo test --benches` asks only whether it runs.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let size = if whole {
        Size { pods: 1_000_000, shapes: 2_000, nodes: 15_000 }
    } else {
        Size { pods: 1_000, shapes: 20, nodes: 15 }
    };
    let before = resident();
    let mut index = filled(size);
    let megabytes = resident().saturating_sub(before) as f64 / 1e6;
    println!("{} pods of {} shapes on {} nodes: {megabytes:.0} MB", size.pods, size.shapes, size.nodes);
    events(&mut index, size);
    let offers = Arc::new(offers_of(&index));
    for method in [Method::Increments, Method::Scenario, Method::Ensemble] {
        turns(&index, &offers, method);
    }
}
