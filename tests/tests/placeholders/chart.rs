//! The chart, installed by a real helm.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tests::control_plane::Options;
use tests::crds;
use tests::helm::{self, NAMESPACE};
use tests::installed::{Prophet, volume};
use tests::node_group::NodeGroup;
use tests::{monitoring, wait};

use super::prometheus;
use super::world::{DEADLINE, Plan, World, job};

#[expect(clippy::disallowed_methods, reason = "usage is measured now")]
fn now() -> DateTime<Utc> {
    Utc::now()
}

/// The chart's CustomResourceDefinition must equal the output of `prophet crd`.
#[test]
fn the_chart_has_the_definition_that_the_binary_prints() {
    let (code, printed, _) = tests::run(&["crd", "--without-priority-classes"]);
    let file = helm::chart().join("files/crd.json");
    let same = std::fs::read_to_string(file).unwrap() == printed;
    assert!(
        code == 0 && same,
        "run: prophet crd --without-priority-classes > charts/prophet/files/crd.json"
    );
}

/// The pods of the controller's `StatefulSet`.
const REPLICAS: [&str; 2] = ["prophet-0", "prophet-1"];

/// Volumes for the claims of the replicas, a pod that is held back, and one that fits nowhere.
const BEFORE: &str = "
    {apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /a}}}\n---\n
    {apiVersion: v1, kind: PersistentVolume, metadata: {name: b}, spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /b}}}\n---\n
    {apiVersion: batch/v1, kind: Job, metadata: {name: suspended}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [
       {name: work, image: busybox, resources: {requests: {cpu: '3'}}}]}}}}\n---\n
    {apiVersion: v1, kind: Pod, metadata: {name: huge}, spec: {containers: [
       {name: work, image: busybox, resources: {requests: {cpu: '300'}}}]}}";

/// The alerts that fire by the faults of the policy `faulty` and of the pod that fits nowhere.
const BY_FAULTS: [&str; 2] = ["ProphetPodsUnplaced", "ProphetPolicyInvalid"];

/// The alerts that fire after the stop of each replica.
const BY_STOPS: [&[&str]; 2] = [
    &["ProphetPodsUnplaced", "ProphetPolicyInvalid", "ProphetReplicasMissing"],
    &["ProphetAbsent"],
];

/// Values of an installation whose policy `batch` holds this many placeholders.
fn values(placeholders: u32) -> [String; 5] {
    let policies = json!([
        {"name": "batch", "spec": {"mode": "Act", "tick": "10s", "forecast": {
            "method": "ladder", "ladder": {"nodesToReplicas": [[0, placeholders]]}}}},
        {"name": "faulty", "spec": {"buckets": {"instanceTypes": ["none"]}}},
    ]);
    [
        r#"nodeGroupAutoDiscovery="asg:tag=k8s.io/cluster-autoscaler/enabled""#.into(),
        "crds.keep=false".into(),
        "history.recordUsage=true".into(),
        format!("ceilings.placeholders={}", placeholders + 1),
        format!("policies={policies}"),
    ]
}

pub(crate) fn helm(world: &World, command: &[&str], values: &[String]) -> String {
    let values = values.iter().flat_map(|value| ["--set-json", value]);
    let arguments: Vec<&str> = command.iter().copied().chain(values).collect();
    helm::online(&world.plane, &arguments).unwrap_or_else(|error| panic!("{error:#}"))
}

impl World {
    /// Starts a process for each replica, as the `StatefulSet` describes it. Both are ready.
    async fn replicas(&self) -> [Prophet; 2] {
        let sets: Api<StatefulSet> = Api::namespaced(self.plane.client(), NAMESPACE);
        let set = serde_json::to_value(sets.get("prophet").await.unwrap()).unwrap();
        let container = &set["spec"]["template"]["spec"]["containers"][0];
        let environment = self.moto.environment();
        let [first, second] = REPLICAS.map(async |replica| {
            Prophet::of_container(&self.plane, container, replica, &environment).await
        });
        let (first, second) =
            tokio::try_join!(first, second).unwrap_or_else(|error| panic!("{error:#}"));
        [first, second]
    }

    async fn policy_uid(&self, name: &str) -> Option<String> {
        self.policies().get_opt(name).await.unwrap().and_then(|policy| policy.metadata.uid)
    }

    /// Waits until both replicas have written lines to the history on their volumes.
    async fn wait_for_histories(&self) {
        for replica in REPLICAS {
            let folder = volume(&self.plane, replica);
            let arguments = ["history", "--output", "json", "--data", folder.to_str().unwrap()];
            let lines = async || Ok(tests::run(&arguments).1.lines().count() >= 2);
            let what = format!("two lines on the volume of {replica}");
            let waited = wait::until_true(&what, DEADLINE, lines).await;
            waited.unwrap_or_else(|error| panic!("{error:#}"));
        }
    }

    /// Runs a job whose usage the metrics API has. Both replicas record it.
    async fn measure_a_job(&self, replicas: &[Prophet; 2]) {
        self.apply(&job("work-measured", 1)).await;
        self.wait_for_job("work-measured", 1).await;
        let pods: Api<Pod> = Api::namespaced(self.plane.client(), "default");
        let of_job = ListParams::default().labels("job-name=work-measured");
        let pod = pods.list(&of_job).await.unwrap().items[0].name_any();
        let measured = json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": pod, "namespace": "default"},
            "timestamp": now(), "window": "15s",
            "containers": [{"name": "work", "usage": {"cpu": "499123456n", "memory": "1Gi"}}],
        });
        self.apply(&measured.to_string()).await;
        for replica in replicas {
            let read = async || Ok(replica.metrics().await?.contains("prophet_measured_pods 1\n"));
            let read = wait::until_true("a measured pod", Duration::from_secs(90), read).await;
            read.unwrap_or_else(|error| panic!("{error:#}"));
        }
        self.end_pods("default").await;
        for replica in REPLICAS {
            let folder = volume(&self.plane, replica);
            let arguments = ["rightsize", "--data", folder.to_str().unwrap()];
            let arguments =
                [&arguments[..], &["--data-policy=prophet.batch", "--output=json"]].concat();
            let mut last = (-1, String::new(), String::new());
            let recorded = wait::until_true("recorded usage", DEADLINE, async || {
                last = tests::run(&arguments);
                Ok(last.0 == 0)
            });
            if let Err(error) = recorded.await {
                panic!("{error:#}: {last:?}");
            }
            let document: Value = serde_json::from_str(&last.1).unwrap();
            let containers = document["advice"]["containers"].as_array().unwrap();
            assert_eq!(containers.len(), 1, "{document:#}");
            assert_eq!(containers[0]["owner"], "default/work-measured", "{document:#}");
        }
    }

    /// Waits until the replicas together serve every metric of the alerts and of the dashboard.
    async fn wait_for_metrics(&self, replicas: &[Prophet; 2]) {
        let all = monitoring::expressions().unwrap();
        let all: BTreeSet<String> = all.iter().flat_map(|text| monitoring::metrics(text)).collect();
        assert!(all.len() > 10, "{all:?}");
        let mut missing = all.clone();
        let served = wait::until_true("all metrics", DEADLINE, async || {
            for replica in replicas {
                let text = replica.metrics().await?;
                let samples = text.lines().filter(|line| !line.starts_with('#'));
                let names: BTreeSet<&str> =
                    samples.filter_map(|sample| sample.split(['{', ' ']).next()).collect();
                missing.retain(|metric| !names.contains(metric.as_str()));
            }
            Ok(missing.is_empty())
        });
        if let Err(error) = served.await {
            panic!("{error:#}: {missing:?}");
        }
    }
}

/// Waits until the replica, since its last start, has learnt from lines of its history.
async fn wait_for_recall(replica: &Prophet) {
    let recalled = async || {
        let log = replica.log()?;
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines: Vec<Value> = lines.collect();
        let of_this_start = lines.rsplit(|line| line["message"] == "starting").next();
        let first = of_this_start
            .and_then(|lines| lines.iter().find(|line| line["message"] == "history recalled"));
        Ok(first.is_some_and(|line| line["recalled"].as_u64() > Some(1)))
    };
    let waited = wait::until_true("a recalled history", DEADLINE, recalled).await;
    waited.unwrap_or_else(|error| panic!("{error:#}"));
}

/// The whole life of a release: installed with its policies, upgraded, rolled back, uninstalled.
/// Both replicas run from what the API server stored.
#[tokio::test(flavor = "multi_thread")]
async fn helm_installs_upgrades_rolls_back_and_uninstalls_two_replicas() {
    let options = Options { replicated: true, ..Options::default() };
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let world = Plan { options, ..Plan::of(groups) }.start_alone().await;
    world.apply(crds::POD_METRICS).await;
    let before = world.inventory().await.unwrap();
    world.apply(BEFORE).await;
    let chart = helm::chart();
    let chart = chart.to_str().unwrap();
    let notes =
        helm(&world, &["install", "prophet", chart, "--create-namespace", "--wait"], &values(1));
    assert!(notes.contains("prophet/batch: Act"), "{notes}");

    let replicas = world.replicas().await;
    let prometheus = prometheus::start(&world, &REPLICAS, &replicas).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    // The first launch shows how much a node has, so its placeholder is replaced. The second job
    // makes sure that there is a launch after Prometheus was started.
    for name in ["work", "work-again"] {
        world.apply(&job(name, 1)).await;
        world.wait_for_job(name, 1).await;
        world.wait_for_placeholders([1, 0, 0]).await;
    }
    world.wait_for_metrics(&replicas).await;
    if let Some(prometheus) = &prometheus {
        prometheus::wait_for_panels(prometheus).await;
        prometheus::wait_for_alerts(prometheus, &BY_FAULTS).await;
    }
    world.wait_for_histories().await;
    world.measure_a_job(&replicas).await;

    // An upgrade changes the policy in place. The container's arguments change too.
    let uid = world.policy_uid("batch").await;
    helm(&world, &["upgrade", "prophet", chart], &values(2));
    assert_eq!(world.policy_uid("batch").await, uid);
    for (replica, alert) in replicas.into_iter().zip(BY_STOPS) {
        replica.stop().await.unwrap();
        if let Some(prometheus) = &prometheus {
            prometheus::wait_for_alerts(prometheus, alert).await;
        }
    }
    drop(prometheus);
    let replicas = world.replicas().await;
    world.wait_for_placeholders([2, 0, 0]).await;
    for replica in &replicas {
        wait_for_recall(replica).await;
    }
    // A policy that is gone leaves no gauge.
    helm(&world, &["upgrade", "prophet", chart], &values(2)[..4]);
    world.wait_for_placeholders([0, 0, 0]).await;
    for replica in &replicas {
        let gauges = async || Ok(!replica.metrics().await?.contains("prophet_unplaced_pods{"));
        let gone = wait::until_true("no gauge of a policy", DEADLINE, gauges).await;
        gone.unwrap_or_else(|error| panic!("{error:#}"));
    }
    helm(&world, &["rollback", "prophet", "1"], &[]);
    world.wait_for_placeholders([1, 0, 0]).await;

    uninstall(world, replicas, &before).await;
}

async fn uninstall(world: World, replicas: [Prophet; 2], before: &BTreeSet<String>) {
    // No kubelet runs here, so the test runs the hook's container as a process. The controller and
    // the policy are still there, and the controller does not create the placeholders again.
    let hooks = helm(&world, &["get", "hooks", "prophet"], &[]);
    let hooks: Vec<Value> = serde_saphyr::from_multiple(&hooks).unwrap();
    let of_removal =
        |hook: &&Value| hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete";
    let hook = hooks.iter().find(of_removal).unwrap();
    let arguments = hook["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let arguments: Vec<String> = serde_json::from_value(arguments).unwrap();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let kubeconfig = world.plane.kubeconfig_for(NAMESPACE, "prophet").await.unwrap();
    let removed = tests::prophet(&arguments).env("KUBECONFIG", kubeconfig).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    world.wait_for_placeholders([0, 0, 0]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.placeholders().await.unwrap(), [0; 3], "{}", world.details());
    for replica in replicas {
        replica.stop().await.unwrap();
    }
    helm(&world, &["uninstall", "prophet", "--no-hooks"], &[]);
    let ours = ["Job default/suspended", "Pod default/huge"];
    // The claims stay, and with them the volumes and the history.
    let claims = REPLICAS.map(|replica| format!("PersistentVolumeClaim prophet/history-{replica}"));
    let mut left = Vec::new();
    let gone = wait::until_true("only the claims left", DEADLINE, async || {
        // Helm does not delete the namespace. Kubernetes creates a default service account in each
        // namespace after a delay.
        let is_kept = |object: &String| {
            object == "Namespace /prophet"
                || object.starts_with("ServiceAccount ") && object.ends_with("/default")
                || object.starts_with("PersistentVolume /")
                || ["Job", "Pod", "PodMetrics"]
                    .iter()
                    .any(|kind| object.starts_with(&format!("{kind} default/work")))
                || ours.contains(&object.as_str())
        };
        left = world.inventory().await?.difference(before).cloned().collect();
        left.retain(|object| !is_kept(object));
        Ok(left == claims)
    });
    gone.await.unwrap_or_else(|error| panic!("{error:#}: {left:#?}"));
}
