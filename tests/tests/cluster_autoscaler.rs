//! What runs around a real cluster-autoscaler: its flags, its configuration for the emulated AWS,
//! the count of its calls, and the nodes of the instances that it requests. A script that calls the
//! emulator takes the place of cluster-autoscaler, which the tests cannot build.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use tests::autoscaler::flags::{arguments, cloud_config};
use tests::autoscaler::{Autoscaler, AutoscalerSettings};
use tests::control_plane::ControlPlane;
use tests::joiner::{Joiner, JoinerSettings};
use tests::moto::Moto;
use tests::node_group::NodeGroup;
use tests::{built, wait};

/// The longest wait for a condition, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

#[test]
fn the_cloud_config_directs_all_services_to_the_emulator() {
    let expected = r#"[ServiceOverride "1"]
Service = ec2
Region = us-east-1
URL = http://127.0.0.1:5000
SigningRegion = us-east-1

[ServiceOverride "2"]
Service = autoscaling
Region = us-east-1
URL = http://127.0.0.1:5000
SigningRegion = us-east-1

[ServiceOverride "3"]
Service = eks
Region = us-east-1
URL = http://127.0.0.1:5000
SigningRegion = us-east-1

"#;
    assert_eq!(cloud_config("http://127.0.0.1:5000"), expected);
}

/// Checks the arguments that follow those of every scenario.
#[track_caller]
fn check(settings: &AutoscalerSettings, expected: &[&str]) {
    let made = arguments(settings, Path::new("/k"), Path::new("/c"), "127.0.0.1:1");
    let always = [
        "--cloud-provider=aws",
        "--cloud-config=/c",
        "--kubeconfig=/k",
        "--address=127.0.0.1:1",
        "--aws-use-static-instance-list=true",
        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/tests",
        "--leader-elect=false",
    ];
    assert_eq!(made, [&always, expected].concat());
}

#[test]
fn the_flags_are_the_settings_of_the_scenario() {
    let common = [
        "--scan-interval=1s",
        "--expendable-pods-priority-cutoff=-10",
        "--max-node-provision-time=60s",
        "--initial-node-group-backoff-duration=60s",
        "--max-node-group-backoff-duration=300s",
        "--scale-down-unneeded-time=5s",
        "--scale-down-delay-after-add=5s",
    ];
    check(&AutoscalerSettings::default(), &common);
    let settings = AutoscalerSettings {
        scan_interval: Duration::from_millis(2_500),
        expendable_cutoff: -100,
        max_nodes_total: Some(3),
        delay_type_local: true,
        capacity_buffers: true,
        ..AutoscalerSettings::default()
    };
    let more = [
        "--max-nodes-total=3",
        "--scale-down-delay-type-local=true",
        "--capacity-buffer-controller-enabled=true",
        "--capacity-buffer-pod-injection-enabled=true",
    ];
    let mut expected = [&common[..], &more].concat();
    (expected[0], expected[1]) =
        ("--scan-interval=2500ms", "--expendable-pods-priority-cutoff=-100");
    check(&settings, &expected);
}

/// A program with the flags of cluster-autoscaler. It reads the address of AWS from its cloud
/// configuration, carries out the orders in a file, one per line, and counts as a scan each time
/// that it has read the file. After an internal error of the emulator, it tries the order again in
/// the next scan, as cluster-autoscaler does.
const SCRIPT: &str = r#"
import http.server, re, sys, threading, time
import boto3
import botocore.parsers

flags = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
assert flags["cloud-provider"] == "aws", flags
sections = open(flags["cloud-config"]).read().split("[ServiceOverride ")[1:]
sections = [dict(re.findall(r"(\w+) = (\S+)", section)) for section in sections]
at = {section["Service"]: section for section in sections}
assert sorted(at) == ["autoscaling", "ec2", "eks"], at
autoscaling = boto3.client(
    "autoscaling", endpoint_url=at["autoscaling"]["URL"], region_name=at["autoscaling"]["Region"]
)
scans = 0

class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        line = 'cluster_autoscaler_function_duration_seconds_count{function="main"} %d\n'
        self.wfile.write((line % scans).encode())

host, port = flags["address"].split(":")
server = http.server.ThreadingHTTPServer((host, int(port)), Metrics)
threading.Thread(target=server.serve_forever, daemon=True).start()
done = 0
while True:
    orders = open(ORDERS).read().splitlines()
    for name, argument in (order.split() for order in orders[done:]):
        try:
            if name == "terminate":
                autoscaling.terminate_instance_in_auto_scaling_group(
                    InstanceId=argument, ShouldDecrementDesiredCapacity=True)
            else:
                autoscaling.set_desired_capacity(
                    AutoScalingGroupName=name, DesiredCapacity=int(argument), HonorCooldown=False)
        except botocore.parsers.ResponseParserError as error:
            print(error, file=sys.stderr, flush=True)
            break
        done += 1
    scans += 1
    time.sleep(0.1)
"#;

/// A cluster in which the script takes the place of cluster-autoscaler.
struct World {
    autoscaler: Autoscaler,
    joiner: Joiner,
    moto: Moto,
    plane: ControlPlane,
    orders: PathBuf,
}

impl World {
    async fn start(group: &NodeGroup) -> Result<Self> {
        let (plane, moto) = tokio::try_join!(ControlPlane::start(), Moto::start())?;
        group.create(&moto).await?;
        let (orders, program) = (plane.folder().join("orders"), plane.folder().join("program"));
        fs::write(&orders, "")?;
        let python = built::control_plane("python/bin/python")?;
        let text = format!("#!{}\nORDERS = '{}'\n{SCRIPT}", python.display(), orders.display());
        fs::write(&program, text)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let joiner = Joiner::start(&plane, &moto, JoinerSettings::default())?;
        let settings = AutoscalerSettings::default();
        let autoscaler = Autoscaler::start_program(&program, &plane, &moto, &settings)?;
        Ok(Self { autoscaler, joiner, moto, plane, orders })
    }

    /// Adds an order.
    fn order(&self, order: &str) {
        let before = fs::read_to_string(&self.orders).unwrap();
        fs::write(&self.orders, format!("{before}{order}\n")).unwrap();
    }

    /// Waits until there are exactly this many nodes; returns them.
    async fn wait_for_nodes(&self, count: usize) -> Vec<Node> {
        let nodes: Api<Node> = Api::all(self.plane.client());
        let what = format!("{count} nodes");
        let found = wait::until(&what, DEADLINE, async || {
            let found = nodes.list(&ListParams::default()).await?.items;
            Ok((found.len() == count).then_some(found))
        });
        found.await.unwrap_or_else(|error| {
            let (counters, errors) = (self.autoscaler.counters(), self.joiner.errors());
            panic!("{error:#}\n{counters:?}\n{errors:?}")
        })
    }

    /// Waits until the numbers of requested, removed and given up nodes are these.
    async fn wait_for_counters(&self, expected: [usize; 3]) {
        let counted = || {
            let counters = self.autoscaler.counters();
            [counters.launched_in("small"), counters.removed.len(), counters.given_up.len()]
        };
        let waited = wait::until_true("the counters", DEADLINE, async || Ok(counted() == expected));
        waited.await.unwrap_or_else(|error| panic!("{error:#}: {:?}", counted()));
    }

    /// The IDs of the instances of the group.
    async fn instances(&self) -> Vec<String> {
        let groups = self.moto.autoscaling().describe_auto_scaling_groups().send().await.unwrap();
        let instances = groups.auto_scaling_groups()[0].instances().iter();
        instances.map(|instance| instance.instance_id().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_scales_groups_through_its_configuration_and_their_instances_become_nodes() {
    let group = NodeGroup::new("small", "m5.xlarge").label("team", "blue").taint(
        "dedicated",
        "blue",
        "NoSchedule",
    );
    let world = World::start(&group).await.unwrap();
    world.order("small 2");
    let nodes = world.wait_for_nodes(2).await;
    world.wait_for_counters([2, 0, 0]).await;
    let mut instances = world.instances().await;
    instances.sort();
    let names: Vec<String> = nodes.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, instances);
    for node in &nodes {
        let spec = node.spec.clone().unwrap();
        let expected = format!("aws:///us-east-1a/{}", node.name_any());
        assert_eq!(spec.provider_id.as_deref(), Some(expected.as_str()));
        assert_eq!(node.labels()["team"], "blue");
        assert_eq!(node.labels()["node.kubernetes.io/instance-type"], "m5.xlarge");
        let taints = spec.taints.unwrap_or_default();
        let dedicated = taints.iter().find(|taint| taint.key == "dedicated").unwrap();
        assert_eq!(
            (dedicated.value.as_deref(), dedicated.effect.as_str()),
            (Some("blue"), "NoSchedule")
        );
    }
    world.autoscaler.wait_for_scans(3).await.unwrap();
    let missing = Path::new("/none");
    let settings = AutoscalerSettings::default();
    let started = Autoscaler::start_program(missing, &world.plane, &world.moto, &settings);
    let error = format!("{:#}", started.unwrap_err());
    assert_eq!(error, "PROPHET_CLUSTER_AUTOSCALER: there is no file /none");

    // An instance that is a node counts as removed, and the joiner deletes its node.
    world.order(&format!("terminate {}", instances[0]));
    let left = world.wait_for_nodes(1).await;
    assert_eq!(left[0].name_any(), instances[1]);
    world.wait_for_counters([2, 1, 0]).await;

    // An instance that never became a node counts as given up.
    world.joiner.fail("small");
    world.order("small 2");
    world.wait_for_counters([3, 1, 0]).await;
    let new = world.instances().await.into_iter().find(|id| !instances.contains(id)).unwrap();
    world.order(&format!("terminate {new}"));
    world.wait_for_counters([3, 1, 1]).await;

    assert!(world.autoscaler.counters().errors.is_empty(), "{:?}", world.autoscaler.counters());
}
