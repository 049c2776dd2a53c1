//! The alerts over counters, times and several replicas, each by its fault: a real Prometheus
//! scrapes the controller and evaluates the rules of the chart.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use tests::autoscaler::AutoscalerSettings;
use tests::helm::NAMESPACE;
use tests::installed::{Prophet, policy};
use tests::log_pipe::LogPipe;
use tests::node_group::NodeGroup;
use tests::prometheus::{Prometheus, is_installed};
use tests::{monitoring, wait};

use super::world::{DISCOVERY, Plan, World, job};

/// How long each alert waits here, longer than a tick of ten seconds. A fault that comes and goes
/// between two ticks fires none.
const FOR: &str = "12s";

/// The longest wait for an alert: several ticks, launches and retries, on a loaded machine.
const DEADLINE: Duration = Duration::from_mins(4);

/// A Prometheus that scrapes controllers. Its counters begin with its start, so what happened
/// before fires no alert.
struct Watched(Prometheus);

impl Watched {
    /// Scrapes these controllers, with the alerts of the chart for one replica. The grace of five
    /// minutes for ticks and decisions is left out.
    async fn start(world: &World, controllers: &[&Prophet]) -> Self {
        let mut rules = monitoring::rules().unwrap();
        let alerts = rules["groups"][0]["rules"].as_array_mut().unwrap();
        for alert in alerts.iter_mut() {
            alert["for"] = FOR.into();
            let expression = alert["expr"].as_str().unwrap().replace(" + 300", "");
            alert["expr"] = expression.into();
        }
        // The chart has two replicas, and one of them is enough here.
        alerts.retain(|alert| alert["alert"] != "ProphetReplicasMissing");
        let names = (0..controllers.len()).map(|at| format!("prophet-{at}"));
        let names: Vec<String> = names.collect();
        let addresses = controllers.iter().map(|controller| controller.address());
        let targets: Vec<(&str, String)> =
            names.iter().map(String::as_str).zip(addresses).collect();
        let folder = tempfile::tempdir_in(world.plane.folder()).unwrap().keep();
        let prometheus = Prometheus::start(&folder, NAMESPACE, &targets, &rules).await;
        Self(prometheus.unwrap())
    }

    /// Waits until these alerts fire, and no others.
    async fn fire(&self, world: &World, expected: &[&'static str]) {
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        let mut firing = BTreeSet::new();
        let what = format!("{expected:?}");
        let fired = wait::until_true(&what, DEADLINE, async || {
            firing = self.0.firing().await?;
            Ok(firing.iter().eq(&expected))
        });
        if let Err(error) = fired.await {
            panic!("{error:#}; {firing:?} fire, and not {expected:?}\n{}", world.details());
        }
        println!("{expected:?}");
    }
}

/// A policy with this number of placeholders of an instance type, for pods of the namespace
/// `batch`.
fn ladder(instance_type: &str, placeholders: u32) -> Value {
    let ladder = json!({"nodesToReplicas": [[0, placeholders]]});
    json!({"mode": "Act", "tick": "10s", "buckets": {"instanceTypes": [instance_type]},
        "workloads": {"namespaces": ["batch"]},
        "forecast": {"method": "ladder", "ladder": ladder}})
}

const BATCH: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: batch}}";

/// Starts the controller, with its log in a pipe and a history in this folder of the control plane.
async fn start(world: &mut World, pipe: &LogPipe, history: &str, more: &[&str]) {
    let data = format!("--data={}", world.plane.folder().join(history).display());
    let always = ["run", "--namespace", NAMESPACE, DISCOVERY, "--launch-latency=10s", &data];
    let mut command = tests::prophet(&[&always, more].concat());
    let proxy = world.proxy.as_ref().unwrap().url();
    let kubeconfig = world.plane.kubeconfig_at(&proxy, NAMESPACE, "prophet").await.unwrap();
    command.env("KUBECONFIG", kubeconfig).env("PROPHET_LOG", "info,controller=debug");
    command.env("PROPHET_MAX_PLACEHOLDERS", "1000").envs(world.moto.environment().to_vec());
    let prophet = Prophet::of_command(&world.plane, "prophet", pipe.connect(&command)).await;
    world.prophet = Some(prophet.unwrap_or_else(|error| panic!("{error:#}")));
}

async fn delete_job(world: &World, namespace: &str, name: &str) {
    let jobs: Api<Job> = Api::namespaced(world.plane.client(), namespace);
    jobs.delete(name, &DeleteParams::background()).await.unwrap();
}

/// A job of the namespace `batch`, whose pods run on nodes of m5.xlarge only.
fn in_batch(job: &str) -> String {
    let selects =
        "restartPolicy: Never, nodeSelector: {node.kubernetes.io/instance-type: m5.xlarge}";
    let job = job.replacen("metadata: {", "metadata: {namespace: batch, ", 1);
    job.replacen("restartPolicy: Never", selects, 1)
}

/// A cluster with groups of three instance types, and the pipe for the log of its controllers.
/// `None` without Prometheus.
async fn cluster() -> Option<(World, LogPipe)> {
    if !is_installed() {
        return None;
    }
    let autoscaler = AutoscalerSettings {
        max_node_provision_time: Duration::from_secs(15),
        ..AutoscalerSettings::default()
    };
    let sizes = ["m5.xlarge", "m5.2xlarge", "m5.4xlarge"];
    let groups = sizes.map(|size| NodeGroup::new(size, size).sizes(0, 100));
    let world = Plan { autoscaler, proxied: true, ..Plan::of(groups) }.start_alone().await;
    Prophet::apply_chart(&world.plane).await.unwrap();
    world.apply(BATCH).await;
    let log = world.plane.folder().join("prophet.log");
    let pipe = LogPipe::create(world.plane.folder(), &log).unwrap();
    Some((world, pipe))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make alerts"]
async fn alerts_over_counters_fire_by_their_faults() {
    let Some((mut world, pipe)) = cluster().await else { return };

    // Each request takes seven seconds, and a turn needs several ones.
    start(&mut world, &pipe, "history", &[]).await;
    world.apply(&policy("batch", &ladder("m5.xlarge", 2).to_string())).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let mut watched = Watched::start(&world, &[world.prophet.as_ref().unwrap()]).await;
    watched.fire(&world, &[]).await;
    world.proxy.as_ref().unwrap().delay(Duration::from_secs(7));
    for placeholders in 3..9 {
        world.patch_policy("batch", ladder("m5.xlarge", placeholders)).await;
        tokio::time::sleep(Duration::from_secs(12)).await;
    }
    watched.fire(&world, &["ProphetSlow"]).await;
    world.proxy.as_ref().unwrap().open();
    world.wait_for_placeholders([8, 0, 0]).await;

    // Pods of no policy preempt placeholders.
    watched = Watched::start(&world, &[world.prophet.as_ref().unwrap()]).await;
    world.apply(&job("other", 7)).await;
    world.wait_for_job("other", 7).await;
    watched.fire(&world, &["ProphetPlaceholdersTaken"]).await;
    delete_job(&world, "default", "other").await;

    // More pods come than there are placeholders, and nodes take longer than a scan.
    watched = Watched::start(&world, &[world.prophet.as_ref().unwrap()]).await;
    world.joiner.set_latency("m5.xlarge", Duration::from_secs(14));
    world.apply(&in_batch(&job("large", 50))).await;
    watched.fire(&world, &["ProphetPodsWait"]).await;
    delete_job(&world, "batch", "large").await;

    // Nodes are launched for placeholders, and no pod comes.
    watched = Watched::start(&world, &[world.prophet.as_ref().unwrap()]).await;
    world.patch_policy("batch", ladder("m5.2xlarge", 24)).await;
    watched.fire(&world, &["ProphetLaunchesUnused"]).await;

    watched = Watched::start(&world, &[world.prophet.as_ref().unwrap()]).await;
    world.joiner.fail("m5.4xlarge");
    world.patch_policy("batch", ladder("m5.4xlarge", 5)).await;
    watched.fire(&world, &["ProphetLaunchesFail"]).await;

    // Two controllers without an election.
    world.patch_policy("batch", ladder("m5.xlarge", 2)).await;
    let first = world.prophet.take().unwrap();
    start(&mut world, &pipe, "other-history", &[]).await;
    let both = [&first, world.prophet.as_ref().unwrap()];
    watched = Watched::start(&world, &both).await;
    watched.fire(&world, &["ProphetSeveralLeaders"]).await;
    first.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make alerts"]
async fn alerts_over_times_and_reads_fire_by_their_faults() {
    let Some((mut world, pipe)) = cluster().await else { return };
    start(&mut world, &pipe, "history", &["--max-writes-per-minute=10"]).await;
    world.apply(&policy("batch", &ladder("m5.xlarge", 2).to_string())).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let mut watched = Watched::start(&world, &[world.prophet.as_ref().unwrap()]).await;
    world.patch_policy("batch", ladder("m5.xlarge", 30)).await;
    watched.fire(&world, &["ProphetWritesLimited"]).await;
    world.patch_policy("batch", ladder("m5.xlarge", 2)).await;
    world.prophet.take().unwrap().stop().await.unwrap();

    // AWS is gone.
    start(&mut world, &pipe, "history", &[]).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    watched = Watched::start(&world, &[world.prophet.as_ref().unwrap()]).await;
    watched.fire(&world, &[]).await;
    world.moto.process().signal("STOP").unwrap();
    watched.fire(&world, &["ProphetCatalogFailed"]).await;
    world.moto.process().signal("CONT").unwrap();
    watched.fire(&world, &[]).await;

    // A watch that decisions need has no permission. Nothing is recorded meanwhile.
    world.apply(super::watches::WITHOUT_DAEMONSETS).await;
    super::watches::refuse_connections(&world, Duration::from_secs(1)).await;
    watched.fire(&world, &["ProphetNotRecording", "ProphetWatchFailed"]).await;
    Prophet::apply_chart(&world.plane).await.unwrap();
    watched.fire(&world, &[]).await;

    // The loop hangs, because nothing reads its log.
    pipe.block().unwrap();
    watched.fire(&world, &["ProphetNotDeciding", "ProphetNotRecording"]).await;
    pipe.unblock();
    watched.fire(&world, &[]).await;
}
