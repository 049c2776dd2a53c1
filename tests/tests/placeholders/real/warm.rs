//! What a warm node is worth: the time from a job's creation to its container's start, with an
//! image that must be pulled and data that must be loaded. `make real` runs it.

use std::time::Duration;

use tests::installed::policy;
use tests::joiner::JoinerSettings;
use tests::node_group::NodeGroup;
use tests::ports::Port;
use tests::real_node::{Forward, Image, Kubelets};
use tests::registry::Registry;
use tokio::time::Instant;

use super::super::world::{Plan, World};
use super::{Images, PAUSE, TYPE, end, is_running};

/// The size of the image, and of the data.
const MIB: u64 = 300;

/// What the registry sends in a second.
const RATE: u32 = 20_000_000;

/// The time from an instance's request until its kubelet starts.
const BOOT: Duration = Duration::from_secs(20);

/// The image of the jobs, in a registry of this name.
const IMAGE: &str = "registry.test/large:1";

/// Loads the data in the time that a download takes from such a registry.
const LOAD: &str = "sleep 15; head -c 300M /dev/zero > /var/warm/data/file";

/// A job whose container has the large image.
fn with_image(name: &str) -> String {
    super::job(name, "command: [sleep, '1']").replace(tests::real_node::SHELL, IMAGE)
}

/// A job that loads its data, unless a placeholder of its node has.
fn with_data(name: &str) -> String {
    let mounts = "volumeMounts: [{name: data, mountPath: /var/warm/data}]";
    let load = format!(
        "initContainers: [{{name: load, image: '{}', command: [sh, -c, '[ -e /var/warm/data/.done ] || {{ {LOAD}; }}'], {mounts}}}],
         volumes: [{{name: data, hostPath: {{path: /var/warm/data, type: DirectoryOrCreate}}}}], containers:",
        tests::real_node::SHELL
    );
    super::job(name, "command: [sleep, '1']").replace("containers:", &load)
}

/// A policy with one placeholder, which loads this, and none on the node that pushes the image.
fn warming(warm: &str) -> String {
    format!(
        "{{mode: Act, tick: 10s, limits: {{buckets: {{'{TYPE}/tools=only:NoSchedule': 0}}}}, placeholders: {{image: '{PAUSE}', {warm}}}, forecast: {{method: ladder, ladder: {{nodesToReplicas: [[0, 1]]}}}}}}"
    )
}

/// A cluster whose nodes pull from a slow registry.
struct Warm {
    world: World,
    _slow: Forward,
    _port: Port,
    _registry: Registry,
    _images: Images,
}

impl Warm {
    /// Starts it with a policy, or without the controller.
    async fn start(policies: Option<&str>) -> Option<Self> {
        let images = Images::where_permitted()?;
        let registry = Registry::start().await.unwrap();
        let port = Port::free().unwrap();
        let slow = std::net::SocketAddr::from(([127, 0, 0, 1], port.number()));
        let forward = Forward::start(slow, registry.address(), Some(RATE)).unwrap();
        let tools = NodeGroup::new("tools", TYPE).sizes(1, 1).taint("tools", "only", "NoSchedule");
        let plan = images.plan([tools, NodeGroup::new("batch", TYPE)]);
        let kubelets = Kubelets {
            registries: vec![("registry.test".into(), slow)],
            ..plan.nodes.kubelets.clone().unwrap()
        };
        let arguments = vec!["--warm-host-path-prefix=/var/warm".into()];
        let nodes = JoinerSettings { kubelets: Some(kubelets), ..plan.nodes.clone() };
        let mut world = Plan { nodes, ..plan }.start_alone().await;
        world.wait_for_ready_nodes(1).await;
        let tools = world.nodes().await[0].metadata.name.clone().unwrap();
        push(&world, &tools, &registry);
        world.joiner.set_latency("batch", BOOT);
        if let Some(policies) = policies {
            world = world.with_controller(&arguments, &policy("batch", policies)).await;
            world.wait_for_measured_placeholders(1).await;
            world.wait_for_running_placeholders(1).await;
        }
        Some(Self { world, _slow: forward, _port: port, _registry: registry, _images: images })
    }

    /// The seconds from a job's creation until its container has started.
    async fn seconds(&self, job: &str) -> f64 {
        let begin = Instant::now();
        self.world.apply(job).await;
        let started = |pod: &_| is_running(pod) || end(pod).is_some();
        self.world.wait_for_pod("work", "has started", started).await;
        begin.elapsed().as_secs_f64()
    }
}

/// Pushes the image to the registry from a node, without the slow connection.
fn push(world: &World, node: &str, registry: &Registry) {
    let large = Image::with_shell(IMAGE, MIB).unwrap();
    let node = world.joiner.node(node).unwrap();
    let address = registry.address();
    let name = IMAGE.replace("registry.test", &address.to_string());
    let archive = large.archive();
    let run = |arguments: &[&str]| {
        node.ctr(arguments).unwrap_or_else(|error| panic!("{error:#}"));
    };
    run(&["images", "import", archive.to_str().unwrap()]);
    run(&["images", "tag", IMAGE, &name]);
    run(&["images", "push", "--plain-http", &name]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of several minutes; run by make real"]
async fn a_warm_node_saves_the_launch_the_pull_and_the_data() {
    let images = format!("warmImages: [{{image: '{IMAGE}'}}]");
    let volume = format!("warmImages: [{{image: '{IMAGE}', volume: true}}]");
    let data = format!(
        "warmData: [{{name: data, image: '{}', hostPath: /var/warm/data, marker: .done, command: [sh, -c, '{LOAD}']}}]",
        tests::real_node::SHELL
    );
    let (image_job, data_job) = (with_image("work"), with_data("work"));
    let cases: [(&str, Option<String>, &str); 7] = [
        ("image, no placeholder", None, &image_job),
        ("image, a placeholder that loads nothing", Some(warming("")), &image_job),
        ("image, warmImages", Some(warming(&images)), &image_job),
        ("image, warmImages by volume", Some(warming(&volume)), &image_job),
        ("data, no placeholder", None, &data_job),
        ("data, a placeholder that loads nothing", Some(warming("")), &data_job),
        ("data, warmData", Some(warming(&data)), &data_job),
    ];
    let mut seconds = Vec::new();
    for (name, policies, job) in cases {
        let Some(warm) = Warm::start(policies.as_deref()).await else { return };
        seconds.push(warm.seconds(job).await);
        println!("| {name} | {:.1} |", seconds[seconds.len() - 1]);
    }
    let boot = BOOT.as_secs_f64();
    let pull = 15.0;
    assert!(seconds[0] > boot + pull && seconds[4] > boot + pull, "{seconds:?}");
    assert!(seconds[1] > pull && seconds[1] < boot + pull, "{seconds:?}");
    assert!(seconds[5] > pull && seconds[5] < boot + pull, "{seconds:?}");
    assert!([2, 3, 6].iter().all(|case| seconds[*case] < 5.0), "{seconds:?}");
}
