//! The Indexed Job of the chart, which replays the logs of many clusters, on real nodes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tests::control_plane::Options;
use tests::installed::{NAMESPACE, Prophet};
use tests::node_group::NodeGroup;
use tests::real_node::ServiceAddress;
use tests::{finish, prophet, run, wait};

use super::super::world::{DEADLINE, Plan, World};
use super::{Images, TYPE, aws_of_pods, forward_aws, is_running, kubectl};

/// The number of shards: two logs of ten days after the first two.
const SHARDS: usize = 20;

/// The options of a plan of short shards over the logs in a folder.
fn plan(folder: &Path, results: &str) -> Vec<String> {
    let log = |name: &str| folder.join(name).display().to_string();
    let few = [
        "--from 2d --windows 1d --policies constant:1 --scale-down-unneeded-times 5m",
        "--wait-ratios 3 --instance-type m5.4xlarge --launch-latency 5m --results",
    ];
    let few = few.iter().flat_map(|part| part.split(' ')).map(str::to_owned);
    let start = ["fleet".to_owned(), "plan".to_owned(), log("a.csv"), log("b.csv")];
    start.into_iter().chain(few).chain([results.to_owned()]).collect()
}

/// Two generated logs, which all users can read.
fn generate(folder: &Path) {
    for (name, seed) in [("a.csv", "1"), ("b.csv", "2")] {
        let file = folder.join(name).display().to_string();
        let all = ["trace", "generate", "--days", "12", "--seed", seed, "--out", &file];
        let done = run(&[&all[..], &["--jobs-per-day", "400", "--gpu-share", "0"]].concat());
        assert_eq!(done.0, 0, "{}", done.2);
    }
    // The pods run as another user.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a command of the binary with the emulated S3; returns its standard output.
fn with_s3(world: &World, arguments: &[String]) -> String {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (code, out, error) = finish(prophet(&arguments).envs(world.moto.environment()));
    assert_eq!(code, 0, "{error}");
    out
}

/// The clusters of the report on these results.
fn clusters(world: &World, results: &str) -> Value {
    let report = ["fleet", "report", "--output", "json", "--results", results];
    let document = with_s3(world, &report.map(str::to_owned));
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["missing"], json!([]));
    document["clusters"].clone()
}

impl World {
    async fn running_shard(&self) -> Pod {
        let pod = wait::until("a pod that runs", DEADLINE, async || {
            Ok(self.pods(NAMESPACE).await?.into_iter().find(is_running))
        });
        pod.await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    async fn wait_for_shards(&self, done: i32) {
        let jobs: Api<Job> = Api::namespaced(self.plane.client(), NAMESPACE);
        let waited = wait::until_true("the shards", 3 * DEADLINE, async || {
            let job = jobs.list(&ListParams::default()).await?.items.pop();
            let status = job.and_then(|job| job.status).unwrap_or_default();
            Ok(status.succeeded.unwrap_or(0) >= done)
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}"));
    }
}

/// Twenty shards on three nodes. A pod is deleted and a node is lost, and the report is that of one
/// machine.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; run by make real"]
async fn shards_as_pods_give_the_report_of_one_machine_though_a_pod_and_a_node_are_lost() {
    let Some(mut images) = Images::where_permitted() else { return };
    let mut address = ServiceAddress::start().await.unwrap();
    images.0.push(super::installed::image());
    let plan_of_world = images.plan([NodeGroup::new("fleet", TYPE).sizes(3, 3)]);
    let options = Options { service_accounts: true, ..plan_of_world.options };
    let world = Plan { options, ..plan_of_world }.start_alone().await;
    address.serve(world.plane.server()).unwrap();
    forward_aws(&mut address, &world);

    let folder = tempfile::tempdir().unwrap();
    generate(folder.path());
    let whole = folder.path().join("whole").display().to_string();
    with_s3(&world, &plan(folder.path(), &whole));
    with_s3(&world, &["fleet", "run", "--results", &whole].map(str::to_owned));
    world.moto.make_bucket("lake").unwrap();
    with_s3(&world, &plan(folder.path(), "s3://lake/fleet"));
    world.wait_for_ready_nodes(3).await;

    // All nodes have the folder of the logs, as a network file system offers it.
    let path = json!({"path": folder.path()});
    let mount = json!([{"name": "logs", "mountPath": folder.path(), "readOnly": true}]);
    let values = [
        "fleet.enabled=true".to_owned(),
        r#"fleet.results="s3://lake/fleet""#.to_owned(),
        format!("fleet.shards={SHARDS}"),
        "fleet.parallelism=6".to_owned(),
        r#"fleet.resources={"requests": {"cpu": "600m", "memory": "64Mi"}}"#.to_owned(),
        format!("extraEnv={}", aws_of_pods(&world)),
        format!("extraVolumes={}", json!([{"name": "logs", "hostPath": path}])),
        format!("extraVolumeMounts={mount}"),
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    Prophet::apply_chart_with(&world.plane, &values).await.unwrap();

    world.wait_for_shards(3).await;
    let pod = world.running_shard().await.name_any();
    // With a grace period, the shard could end well.
    let now = ["delete", "pod", "--namespace", NAMESPACE, "--force", "--grace-period=0", &pod];
    kubectl(&world, &now).unwrap();
    world.wait_for_shards(7).await;
    let lost = world.running_shard().await.spec.unwrap().node_name.unwrap();
    let terminate = world.moto.autoscaling().terminate_instance_in_auto_scaling_group();
    terminate.instance_id(lost).should_decrement_desired_capacity(true).send().await.unwrap();
    world.wait_for_shards(i32::try_from(SHARDS).unwrap()).await;
    assert_eq!(clusters(&world, "s3://lake/fleet"), clusters(&world, &whole));
}
