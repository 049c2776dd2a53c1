//! Placeholders over Auto Scaling groups: a real API server, scheduler and controller manager, AWS by its emulator, and the
//! controller with the permissions that its chart gives it.
#![expect(clippy::panic, reason = "a test that cannot go on fails")]

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use tests::autoscaler::{Autoscaler, Settings};
use tests::control_plane::ControlPlane;
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::joiner::{self, Joiner};
use tests::moto::Moto;
use tests::node_group::NodeGroup;
use tests::wait;
use tokio::time::Instant;

/// Long enough for a machine that does something else, too.
const DEADLINE: Duration = Duration::from_mins(1);

const DISCOVERY: &str = "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled";

/// A cluster over groups, with an autoscaler, and with or without the controller.
struct World {
    prophet: Option<Prophet>,
    autoscaler: Autoscaler,
    joiner: Joiner,
    moto: Moto,
    plane: ControlPlane,
}

impl World {
    async fn start(groups: &[NodeGroup]) -> Result<Self> {
        let (plane, moto) = tokio::join!(ControlPlane::start(), Moto::start());
        let (plane, moto) = (plane?, moto?);
        for group in groups {
            group.create(&moto).await?;
        }
        let joiner = Joiner::start(
            &plane,
            &moto,
            joiner::Settings { latency: Duration::from_secs(3), ..Default::default() },
        )?;
        let autoscaler = Autoscaler::start(&plane, &moto, Settings::default())?;
        Ok(Self { prophet: None, autoscaler, joiner, moto, plane })
    }

    async fn with_prophet(groups: &[NodeGroup], policies: &str) -> Result<Self> {
        let mut world = Self::start(groups).await?;
        world.prophet = Some(Prophet::install(&world.plane, &[DISCOVERY], &world.moto.environment()).await?);
        world.plane.apply_yaml(policies).await?;
        Ok(world)
    }

    async fn pods(&self, namespace: &str) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.plane.client(), namespace);
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    /// Placeholders: on nodes, ungated and waiting, held by the gate.
    async fn placeholders(&self) -> Result<[usize; 3]> {
        let pods = self.pods(NAMESPACE).await?;
        let count = |of: fn(&Pod) -> bool| pods.iter().filter(|pod| of(pod)).count();
        Ok([count(is_bound), count(|pod| !is_bound(pod) && !is_gated(pod)), count(is_gated)])
    }

    async fn wait_for_placeholders(&self, expected: [usize; 3]) {
        let mut last = [0; 3];
        let what = format!("placeholders {expected:?}");
        let waited = wait::until_true(&what, DEADLINE, async || {
            last = self.placeholders().await?;
            Ok(last == expected)
        });
        if let Err(error) = waited.await {
            panic!("{error:#}; there are {last:?}\n{}", self.told());
        }
    }

    /// The seconds from the creation of a job's pods until all of them are on nodes.
    async fn wait_for_job(&self, name: &str, pods: usize) -> f64 {
        let begin = Instant::now();
        let what = format!("{pods} pods of {name}");
        let waited = wait::until_true(&what, DEADLINE, async || {
            let all = self.pods("default").await?;
            let ours =
                all.iter().filter(|pod| pod.metadata.name.as_ref().is_some_and(|pod| pod.starts_with(name)));
            Ok(ours.filter(|pod| is_bound(pod)).count() == pods)
        });
        if let Err(error) = waited.await {
            panic!("{error:#}\n{}", self.told());
        }
        begin.elapsed().as_secs_f64()
    }

    async fn nodes(&self) -> Result<usize> {
        let nodes: Api<Node> = Api::all(self.plane.client());
        Ok(nodes.list(&ListParams::default()).await?.items.len())
    }

    fn told(&self) -> String {
        let log = self.prophet.as_ref().and_then(|prophet| prophet.log().ok()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(40)..].join("\n");
        format!("{:?}\n{:?}\n{last}", self.autoscaler.counters(), self.joiner.errors())
    }
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

fn is_gated(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()))
}

/// A job of so many pods, each a node of m5.xlarge large.
fn job(name: &str, pods: usize) -> String {
    format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: {name}}}, spec: {{parallelism: {pods}, completions: {pods}, template: {{spec: {{restartPolicy: Never, containers: [
           {{name: work, image: busybox, resources: {{requests: {{cpu: '3', memory: 8Gi}}}}}}]}}}}}}}}\n---\n"
    )
}

/// Two placeholders of each bucket while nothing runs, none once two nodes are in demand.
const TWO_AT_FIRST: &str =
    "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2], [1, 1], [2, 0]]}}}";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_preempts_placeholders_and_its_place_is_refilled_only_by_plan() {
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let world = World::with_prophet(&groups, &policy("batch", TWO_AT_FIRST)).await.unwrap();
    world.wait_for_placeholders([2, 0, 0]).await;
    let launched = world.autoscaler.counters().launched();
    assert_eq!(launched, 2, "{}", world.told());

    world.plane.apply_yaml(&job("first", 2)).await.unwrap();
    let with = world.wait_for_job("first", 2).await;
    // The plan wants none now: what the ReplicaSet recreates stays held until it is taken away.
    world.wait_for_placeholders([0, 0, 0]).await;
    let scans = world.autoscaler.wait_for_scans(3).await;
    scans.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 2, "{}", world.told());
    assert_eq!(world.nodes().await.unwrap(), 2);

    let jobs: Api<k8s_openapi::api::batch::v1::Job> = Api::default_namespaced(world.plane.client());
    jobs.delete("first", &DeleteParams::background()).await.unwrap();
    world.wait_for_placeholders([2, 0, 0]).await;
    let lifted = world.pods(NAMESPACE).await.unwrap();
    for pod in lifted {
        let annotations = pod.metadata.annotations.unwrap();
        assert_eq!(annotations["prophet.dev/lifted-for"], "forecast");
    }

    let alone = World::start(&groups).await.unwrap();
    alone.plane.apply_yaml(&job("first", 2)).await.unwrap();
    let without = alone.wait_for_job("first", 2).await;
    println!("a job of two nodes waits {with:.2} s beside the controller, {without:.2} s without it");
    assert!(with < without, "{with} {without}");
}

/// Whatever the binary prints as its CustomResourceDefinition, the chart installs.
#[test]
fn the_chart_has_the_definition_that_the_binary_prints() {
    let (code, printed, _) = tests::run(&["crd", "--without-priority-classes"]);
    let file = tests::installed::chart().join("files/crd.json");
    let same = std::fs::read_to_string(file).unwrap() == printed;
    assert!(code == 0 && same, "run: prophet crd --without-priority-classes > charts/prophet/files/crd.json");
}
