//! The image and the packed chart, installed as a user installs them: helm creates the pods of the
//! controller, which run on real nodes with the token of their service account, their probes, their
//! security context and their volumes.

use std::collections::BTreeSet;
use std::fs;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use tests::control_plane::Options;
use tests::helm;
use tests::installed::NAMESPACE;
use tests::node_group::NodeGroup;
use tests::own_root::OwnRoot;
use tests::real_node::{Image, ServiceAddress};
use tests::wait;

use super::super::chart::helm;
use super::super::world::{DEADLINE, Plan, World};
use super::{Images, PAUSE, TYPE, aws_of_pods, end, forward_aws, is_running, job, kubectl};

/// Where the chart's volumes are on a node.
const HISTORY: &str = "/var/warm/history";

/// The image of the chart's pods, by the script that builds the image of a release.
pub(super) fn image() -> Image {
    let chart = helm::rendered(&[]).unwrap();
    let set = chart.iter().find(|object| object["kind"] == "StatefulSet").unwrap();
    let name = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
    let root = OwnRoot::build(None).unwrap_or_else(|error| panic!("{error:#}"));
    Image::of_root(name, root.path(), &["/usr/bin/prophet"]).unwrap()
}

/// The values of the installation, with one policy in this mode.
fn values(world: &World, mode: &str) -> Vec<String> {
    let policies = json!([{"name": "batch", "spec": {
        "mode": mode, "tick": "10s", "placeholders": {"image": PAUSE},
        "forecast": {"method": "ladder", "ladder": {"nodesToReplicas": [[0, 1]]}}}}]);
    vec![
        r#"nodeGroupAutoDiscovery="asg:tag=k8s.io/cluster-autoscaler/enabled""#.into(),
        "crds.keep=false".into(),
        "ceilings.placeholders=2".into(),
        r#"nodeSelector={"role": "system"}"#.into(),
        r#"tolerations=[{"key": "role", "operator": "Exists"}]"#.into(),
        format!("extraEnv={}", aws_of_pods(world)),
        format!("policies={policies}"),
    ]
}

/// A volume for a replica on a disk of a node.
fn volume(node: &str) -> String {
    let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]);
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": node},
        "spec": {
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"],
            "local": {"path": HISTORY},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    });
    format!("{volume}\n---\n")
}

impl World {
    fn controllers(&self) -> Api<Pod> {
        Api::namespaced(self.plane.client(), NAMESPACE)
    }

    /// Deletes a replica and waits for the pod that takes its place: until the old one has gone,
    /// the set counts it as ready.
    async fn replace(&self, replica: &str) {
        let old = self.controllers().get(replica).await.unwrap().uid();
        self.controllers().delete(replica, &DeleteParams::default()).await.unwrap();
        let replaced =
            wait::until_true("the pod of the replica to come back", DEADLINE, async || {
                let pod = self.controllers().get_opt(replica).await?;
                Ok(pod.is_some_and(|pod| pod.uid() != old && is_running(&pod)))
            });
        replaced.await.unwrap_or_else(|error| panic!("{error:#}"));
        self.wait_for_ready_replicas(2).await;
    }

    /// Waits until so many replicas are ready, as their probes say.
    async fn wait_for_ready_replicas(&self, count: i32) {
        let sets: Api<StatefulSet> = Api::namespaced(self.plane.client(), NAMESPACE);
        let what = format!("{count} replicas that are ready");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let status = sets.get("prophet").await?.status.unwrap_or_default();
            let current = status.update_revision == status.current_revision;
            Ok(status.ready_replicas.unwrap_or(0) == count && (current || count < 2))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}"));
    }

    /// The holder of the Lease, with a part that differs for each start of a replica.
    async fn holder_of_lease(&self) -> String {
        let leases: Api<Lease> = Api::namespaced(self.plane.client(), NAMESPACE);
        let lease = leases.get("prophet").await.unwrap_or_else(|error| panic!("{error:#}"));
        lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    }

    /// Waits until one of these replicas leads; returns its name.
    async fn leader_of(&self, replicas: &[&str]) -> String {
        let leases: Api<Lease> = Api::namespaced(self.plane.client(), NAMESPACE);
        let what = format!("one of {replicas:?} to lead");
        let waited = wait::until(&what, DEADLINE, async || {
            let holder = leases.get("prophet").await?.spec.and_then(|spec| spec.holder_identity);
            let holder = holder.unwrap_or_default();
            let leads = |replica: &&&str| holder.starts_with(**replica);
            Ok(replicas.iter().find(leads).map(|replica| (*replica).to_owned()))
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}"))
    }
}

/// The pods of the controller.
const REPLICAS: [&str; 2] = ["prophet-0", "prophet-1"];

/// The other of two replicas.
fn other(replica: &str) -> &'static str {
    REPLICAS[usize::from(replica == REPLICAS[0])]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_packed_chart_runs_the_image_on_real_nodes_through_its_whole_life() {
    let Some(mut images) = Images::where_permitted() else { return };
    let mut address = ServiceAddress::start().await.unwrap();
    images.0.push(image());
    let groups = [
        NodeGroup::new("system", TYPE).sizes(2, 2).label("role", "system").taint(
            "role",
            "system",
            "NoSchedule",
        ),
        NodeGroup::new("batch", TYPE).sizes(0, 1),
    ];
    let plan = images.plan(groups);
    let options = Options { service_accounts: true, audited: true, ..plan.options };
    let world = Plan { options, ..plan }.start_alone().await;
    address.serve(world.plane.server()).unwrap();
    forward_aws(&mut address, &world);
    world.wait_for_ready_nodes(2).await;
    let before = world.inventory().await.unwrap();
    let mut nodes = Vec::new();
    for node in world.nodes().await {
        let name = node.name_any();
        let folder = world.joiner.node(&name).unwrap().folder_of(HISTORY);
        fs::create_dir_all(folder).unwrap();
        world.apply(&volume(&name)).await;
        nodes.push(name);
    }

    // The chart is packed, as it is pushed to a registry.
    let folder = world.plane.folder().to_str().unwrap();
    let chart = helm::chart();
    let package = ["package", chart.to_str().unwrap(), "--destination", folder];
    let packed = helm::offline(&package).unwrap();
    let packed = packed.trim().rsplit(' ').next().unwrap();
    let install = ["install", "prophet", packed, "--create-namespace", "--wait"];
    helm(&world, &install, &values(&world, "Observe"));
    world.wait_for_ready_replicas(2).await;
    world.leader_of(&REPLICAS).await;
    let pods = world.controllers().list(&ListParams::default()).await.unwrap().items;
    let on: BTreeSet<_> =
        pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
    assert_eq!(on, nodes.iter().cloned().collect(), "each replica is on a node of its own");
    let decided = |status: &Value| status["buckets"][0]["reason"].is_string();
    world.wait_for_status("batch", "a decision", decided).await;
    assert!(world.sets().await.unwrap().is_empty(), "Observe holds nothing");

    // An upgrade changes a value. The placeholder runs, and a job takes its node.
    let upgrade = ["upgrade", "prophet", packed, "--wait"];
    helm(&world, &upgrade, &values(&world, "Act"));
    world.wait_for_running_placeholders(1).await;
    world.wait_for_measured_placeholders(1).await;
    world.apply(&job("work", "command: [sh, -c, 'sleep 3']")).await;
    world.wait_for_pod("work", "runs", is_running).await;
    world.wait_for_pod("work", "has ended", |pod| end(pod) == Some(("Completed", 0))).await;
    world.wait_for_running_placeholders(1).await;

    // The pod of the leader is deleted: it gives up the Lease when it ends. The other one or the
    // new pod leads.
    let (leader, holder) = (world.leader_of(&REPLICAS).await, world.holder_of_lease().await);
    world.replace(&leader).await;
    let passed_on = wait::until_true("another holder of the Lease", DEADLINE, async || {
        let next = world.holder_of_lease().await;
        Ok(!next.is_empty() && next != holder)
    });
    passed_on.await.unwrap_or_else(|error| panic!("{error:#}"));
    world.wait_for_running_placeholders(1).await;

    drain(&world).await;
    for node in &nodes {
        let folder = world.joiner.node(node).unwrap().folder_of(HISTORY);
        let history = ["history", "--output", "json", "--data", folder.to_str().unwrap()];
        assert!(tests::run(&history).1.lines().count() > 2, "the volume on {node} has no history");
    }

    helm(&world, &["rollback", "prophet", "1", "--wait"], &[]);
    world.wait_for_placeholders([0, 0, 0]).await;
    helm(&world, &upgrade, &values(&world, "Act"));
    world.wait_for_running_placeholders(1).await;

    assert_requests(&world);
    // The hook, which removes the placeholders, runs in a pod too.
    helm(&world, &["uninstall", "prophet", "--wait"], &[]);
    assert_eq!(world.placeholders().await.unwrap(), [0; 3]);
    assert_uninstalled(&world, &before).await;
}

/// Drains the node of the leader. The budget of the chart then keeps the replica on the other node.
async fn drain(world: &World) {
    let node = async |pod: &str| {
        let pod = world.controllers().get(pod).await.unwrap();
        pod.spec.and_then(|spec| spec.node_name).unwrap()
    };
    let leader = world.leader_of(&REPLICAS).await;
    let next = other(&leader);
    let nodes = [node(&leader).await, node(next).await];
    kubectl(world, &["drain", &nodes[0]]).unwrap();
    world.leader_of(&[next]).await;
    world.wait_for_ready_replicas(1).await;
    let refused = kubectl(world, &["drain", &nodes[1], "--timeout=2s"]).unwrap_err();
    assert!(refused.contains("would violate the pod's disruption budget"), "{refused}");
    kubectl(world, &["uncordon", &nodes[0], &nodes[1]]).unwrap();
    world.wait_for_ready_replicas(2).await;
}

/// Waits until only the claims, their volumes, the namespace and the jobs of the test are left.
async fn assert_uninstalled(world: &World, before: &BTreeSet<String>) {
    let mut left = Vec::new();
    let gone = wait::until_true("only the claims left", DEADLINE, async || {
        left = world.inventory().await?.difference(before).cloned().collect();
        left.retain(|object: &String| {
            !(object == "Namespace /prophet"
                || object.starts_with("ServiceAccount ") && object.ends_with("/default")
                || object.starts_with("PersistentVolume")
                || object.contains(" default/work"))
        });
        Ok(left.is_empty())
    });
    gone.await.unwrap_or_else(|error| panic!("{error:#}: {left:#?}"));
}

/// The pods used their own service account, and nothing that it asked for was denied.
fn assert_requests(world: &World) {
    let mut log = world.plane.audit_log().unwrap();
    log.retain(|entry| entry.user.starts_with("system:serviceaccount:prophet:"));
    assert!(log.iter().all(|entry| entry.user == "system:serviceaccount:prophet:prophet"));
    assert!(log.iter().any(|entry| entry.writes() && entry.resource == "replicasets"));
    let denied: Vec<_> = log.iter().filter(|entry| matches!(entry.code, 401 | 403)).collect();
    assert!(denied.is_empty(), "{denied:#?}");
    // Two replicas, one that was deleted and one that was evicted, which came back, have tokens of
    // their own.
    let tokens: BTreeSet<&String> = log.iter().map(|entry| &entry.credential).collect();
    assert!(tokens.len() >= 4, "{tokens:?}");
}
