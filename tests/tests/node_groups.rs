//! Auto Scaling groups that grow and shrink with pods: tests of the joiner and of the stand-in for
//! cluster-autoscaler, with emulated AWS and a real scheduler.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use tests::autoscaler::{Autoscaler, AutoscalerSettings, provision_time};
use tests::control_plane::ControlPlane;
use tests::joiner::{self, Joiner};
use tests::moto::Moto;
use tests::node_group::NodeGroup;
use tests::{crds, wait};

/// The longest wait for a condition, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A cluster with groups, a joiner and an autoscaler.
struct World {
    autoscaler: Autoscaler,
    joiner: Joiner,
    _moto: Moto,
    plane: ControlPlane,
}

impl World {
    async fn start(
        groups: &[NodeGroup],
        settings: AutoscalerSettings,
        nodes: joiner::JoinerSettings,
    ) -> Result<Self> {
        let (plane, moto) = tokio::join!(ControlPlane::start(), Moto::start());
        let (plane, moto) = (plane?, moto?);
        for group in groups {
            group.create(&moto).await?;
        }
        let joiner = Joiner::start(&plane, &moto, nodes)?;
        let autoscaler = Autoscaler::start(&plane, &moto, settings)?;
        Ok(Self { autoscaler, joiner, _moto: moto, plane })
    }

    async fn nodes(&self) -> Result<Vec<Node>> {
        let nodes: Api<Node> = Api::all(self.plane.client());
        Ok(nodes.list(&ListParams::default()).await?.items)
    }

    async fn running(&self) -> Result<usize> {
        let pods: Api<Pod> = Api::default_namespaced(self.plane.client());
        Ok(pods.list(&ListParams::default().fields("status.phase=Running")).await?.items.len())
    }

    async fn wait_for_running(&self, count: usize) -> Result<()> {
        let what = format!("{count} pods to run");
        let waited =
            wait::until_true(&what, DEADLINE, async || Ok(self.running().await? == count)).await;
        waited.map_err(|error| self.explain(&error))
    }

    async fn wait_for_nodes(&self, count: usize) -> Result<()> {
        let what = format!("{count} nodes");
        let waited =
            wait::until_true(&what, DEADLINE, async || Ok(self.nodes().await?.len() == count))
                .await;
        waited.map_err(|error| self.explain(&error))
    }

    async fn status(&self) -> Result<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.plane.client(), "kube-system");
        let map = maps.get("cluster-autoscaler-status").await?;
        Ok(map.data.unwrap_or_default().remove("status").unwrap_or_default())
    }

    fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        let (counters, errors) = (self.autoscaler.counters(), self.joiner.errors());
        anyhow::anyhow!("{error:#}\nautoscaler: {counters:?}\njoiner: {errors:?}")
    }
}

/// The status of a group's scale-up. The order of the groups differs between autoscalers.
fn scale_up<'a>(status: &'a Value, group: &str) -> &'a str {
    let mut groups = status["nodeGroups"].as_array().into_iter().flatten();
    let found = groups.find(|found| found["name"] == group);
    found.and_then(|found| found["scaleUp"]["status"].as_str()).unwrap_or_default()
}

/// The YAML document of a pod that requests this CPU and 1 GiB of memory; `more` is added to its
/// spec.
fn pod(name: &str, cpu: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{more} containers: [
           {{name: work, image: busybox, resources: {{requests: {{cpu: '{cpu}', memory: 1Gi}}}}}}]}}}}\n---\n"
    )
}

#[tokio::test]
async fn a_group_grows_for_pending_pods_and_shrinks_when_they_are_gone() {
    let groups = [
        NodeGroup::new("large", "c5.24xlarge").placement_group("one"),
        NodeGroup::new("small", "m5.xlarge").label("team", "blue").taint(
            "dedicated",
            "blue",
            "NoSchedule",
        ),
    ];
    let world =
        World::start(&groups, AutoscalerSettings::default(), joiner::JoinerSettings::default())
            .await
            .unwrap();
    let blue = "nodeSelector: {team: blue}, tolerations: [{key: dedicated, value: blue}],";
    let pods: String = (0..3).map(|n| pod(&format!("blue-{n}"), "3", blue)).collect();
    world.plane.apply_yaml(&pods).await.unwrap();
    world.wait_for_running(3).await.unwrap();
    let counters = world.autoscaler.counters();
    assert_eq!(
        (counters.launched_in("small"), counters.launched_in("large")),
        (3, 0),
        "{counters:?}"
    );
    let joined = world.joiner.joined();
    assert!(joined.iter().all(|one| one.after >= Duration::from_secs(1)), "{joined:?}");

    for node in world.nodes().await.unwrap() {
        let spec = node.spec.unwrap();
        assert_eq!(
            spec.provider_id.unwrap(),
            format!("aws:///us-east-1a/{}", node.metadata.name.clone().unwrap())
        );
        assert_eq!(
            spec.taints.unwrap_or_default().iter().filter(|taint| taint.key == "dedicated").count(),
            1
        );
        let allocatable = node.status.unwrap().allocatable.unwrap();
        assert_eq!(allocatable["cpu"].0, "3920m");
    }
    let pods: Api<Pod> = Api::default_namespaced(world.plane.client());
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default())
        .await
        .unwrap();
    world.wait_for_nodes(0).await.unwrap();
    // cluster-autoscaler reports a removal after the Node object is gone.
    let removed = async || Ok(world.autoscaler.counters().removed.len() == 3);
    wait::until_true("3 removals", DEADLINE, removed).await.unwrap();
    let status: Value = serde_saphyr::from_str(&world.status().await.unwrap()).unwrap();
    assert_eq!(scale_up(&status, "small"), "NoActivity", "{status}");
}

#[tokio::test]
async fn expendable_gated_and_impossible_pods_launch_nothing() {
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let world =
        World::start(&groups, AutoscalerSettings::default(), joiner::JoinerSettings::default())
            .await
            .unwrap();
    let classes =
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: expendable}, value: -11}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: placeholder}, value: -10}";
    world.plane.apply_yaml(classes).await.unwrap();
    let pods = [
        pod("expendable", "1", "priorityClassName: expendable,"),
        pod("gated", "1", "schedulingGates: [{name: prophet.dev/hold}],"),
        pod("too-large", "5", ""),
        pod("elsewhere", "1", "nodeSelector: {kubernetes.io/arch: arm64},"),
    ];
    world.plane.apply_yaml(&pods.concat()).await.unwrap();
    world.autoscaler.wait_for_scans(3).await.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 0, "{:?}", world.autoscaler.counters());

    // A pod with the cutoff's priority launches a node, and the expendable pod runs there as well.
    world
        .plane
        .apply_yaml(&pod("placeholder", "1", "priorityClassName: placeholder,"))
        .await
        .unwrap();
    world.wait_for_running(2).await.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 1);
}

#[tokio::test]
async fn a_pod_that_preempts_launches_nothing() {
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let world =
        World::start(&groups, AutoscalerSettings::default(), joiner::JoinerSettings::default())
            .await
            .unwrap();
    let class =
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: placeholder}, value: -10,
       preemptionPolicy: Never}";
    world.plane.apply_yaml(class).await.unwrap();
    world
        .plane
        .apply_yaml(&pod("placeholder", "3", "priorityClassName: placeholder,"))
        .await
        .unwrap();
    world.wait_for_running(1).await.unwrap();
    world.plane.apply_yaml(&pod("work", "3", "")).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.plane.client());
    let work = ListParams::default().fields("status.phase=Running,metadata.name=work");
    wait::until_true("the pod to preempt", DEADLINE, async || {
        Ok(pods.list(&work).await?.items.len() == 1)
    })
    .await
    .unwrap();
    assert!(pods.get_opt("placeholder").await.unwrap().is_none());
    world.autoscaler.wait_for_scans(3).await.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 1, "{:?}", world.autoscaler.counters());
}

#[tokio::test]
async fn a_group_whose_nodes_do_not_come_backs_off_and_another_takes_its_pods() {
    let groups = [NodeGroup::new("a", "m5.xlarge"), NodeGroup::new("b", "m5.2xlarge").sizes(0, 1)];
    let settings = AutoscalerSettings {
        max_node_provision_time: provision_time(Duration::from_secs(3)),
        ..AutoscalerSettings::default()
    };
    let world = World::start(&groups, settings, joiner::JoinerSettings::default()).await.unwrap();
    world.joiner.fail("a");
    world.plane.apply_yaml(&pod("first", "3", "")).await.unwrap();
    world.wait_for_running(1).await.unwrap();
    let counters = world.autoscaler.counters();
    assert_eq!((counters.launched_in("a"), counters.launched_in("b")), (1, 1), "{counters:?}");
    // The harness does not count the instances that the real program gives up.
    if tests::cluster_autoscaler::program().is_none() {
        assert_eq!(counters.given_up.len(), 1, "{counters:?}");
    }
    let status: Value = serde_saphyr::from_str(&world.status().await.unwrap()).unwrap();
    assert_eq!(scale_up(&status, "a"), "Backoff", "{status}");

    // Group `b` is at its maximum, and group `a` still backs off.
    world.plane.apply_yaml(&pod("second", "6", "")).await.unwrap();
    world.autoscaler.wait_for_scans(3).await.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 2);
}

#[tokio::test]
async fn the_cluster_grows_to_its_limit_and_gpus_come_late() {
    let groups =
        [NodeGroup::new("gpu", "g5.xlarge").label("k8s.amazonaws.com/accelerator", "a10g")];
    let settings = AutoscalerSettings { max_nodes_total: Some(2), ..AutoscalerSettings::default() };
    let nodes = joiner::JoinerSettings {
        gpu_latency: Duration::from_secs(3),
        ..joiner::JoinerSettings::default()
    };
    let world = World::start(&groups, settings, nodes).await.unwrap();
    let gpu = |n: usize| {
        pod(&format!("gpu-{n}"), "1", "")
            .replace("memory: 1Gi", "memory: 1Gi}, limits: {nvidia.com/gpu: 1")
    };
    world.plane.apply_yaml(&(0..3).map(gpu).collect::<String>()).await.unwrap();
    world.wait_for_running(2).await.unwrap();
    world.autoscaler.wait_for_scans(3).await.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 2, "{:?}", world.autoscaler.counters());
}

#[tokio::test]
async fn the_template_of_a_group_is_its_type_and_later_a_node() {
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let world =
        World::start(&groups, AutoscalerSettings::default(), joiner::JoinerSettings::default())
            .await
            .unwrap();
    let agent = "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {
        selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {
          containers: [{name: agent, image: agent, resources: {requests: {cpu: 20m}}}]}}}}\n---\n";
    // Of 4 CPUs, the template has 100m less for kube-proxy, and 20m less for the agent.
    world.plane.apply_yaml(&(agent.to_owned() + &pod("large", "3890m", ""))).await.unwrap();
    let reason = "pod didn't trigger scale-up: 1 Insufficient cpu";
    let events: Api<Event> = Api::default_namespaced(world.plane.client());
    let of_pod = ListParams::default().fields("reason=NotTriggerScaleUp");
    wait::until_true("the reason", DEADLINE, async || {
        let events = events.list(&of_pod).await?.items;
        Ok(events.iter().any(|event| event.message.as_deref() == Some(reason)))
    })
    .await
    .unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 0, "{:?}", world.autoscaler.counters());
    // The pod would take the node of the next one.
    let pods: Api<Pod> = Api::default_namespaced(world.plane.client());
    pods.delete("large", &DeleteParams::default().grace_period(0)).await.unwrap();
    world.plane.apply_yaml(&pod("small", "3880m", "")).await.unwrap();
    world.wait_for_running(2).await.unwrap();
    world.plane.apply_yaml(&pod("large-again", "3890m", "")).await.unwrap();
    world.autoscaler.wait_for_scans(3).await.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 1, "{:?}", world.autoscaler.counters());
    // The node has 3,920m less 20m, and is the template after a minute.
    let launched = async || Ok(world.autoscaler.counters().launched() == 2);
    wait::until_true("the second node", DEADLINE * 2, launched).await.unwrap();
    world.wait_for_running(4).await.unwrap();
}

#[tokio::test]
async fn a_delay_after_a_scale_up_keeps_nodes() {
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let delay = Duration::from_secs(20);
    let settings = AutoscalerSettings {
        unneeded_time: Duration::from_secs(1),
        delay_after_add: delay,
        ..AutoscalerSettings::default()
    };
    let world = World::start(&groups, settings, joiner::JoinerSettings::default()).await.unwrap();
    world.plane.apply_yaml(&pod("work", "3", "")).await.unwrap();
    world.wait_for_running(1).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(world.plane.client());
    pods.delete("work", &DeleteParams::default().grace_period(0)).await.unwrap();
    let removed = async || Ok(world.autoscaler.counters().removed.len() == 1);
    wait::until_true("the removal", DEADLINE, removed).await.unwrap();
    let counters = world.autoscaler.counters();
    let kept = counters.removed[0].at - counters.scale_ups[0].at;
    assert!(kept >= delay, "removed after {kept:?}");
}

#[tokio::test]
async fn a_capacity_buffer_keeps_nodes_without_pods() {
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let settings = AutoscalerSettings { capacity_buffers: true, ..AutoscalerSettings::default() };
    let world = World::start(&groups, settings, joiner::JoinerSettings::default()).await.unwrap();
    world.plane.apply_yaml(crds::CAPACITY_BUFFER).await.unwrap();
    let template =
        "{apiVersion: v1, kind: PodTemplate, metadata: {name: node}, template: {spec: {containers: [
           {name: room, image: pause, resources: {requests: {cpu: 3500m, memory: 8Gi}}}]}}}";
    world.plane.apply_yaml(template).await.unwrap();
    let buffer = |replicas: u32| {
        format!(
            "{{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {{name: spare}},
               spec: {{podTemplateRef: {{name: node}}, replicas: {replicas}}}}}"
        )
    };
    world.plane.apply_yaml(&buffer(2)).await.unwrap();
    world.wait_for_nodes(2).await.unwrap();
    world.autoscaler.wait_for_scans(8).await.unwrap();
    assert_eq!(world.nodes().await.unwrap().len(), 2, "the buffer keeps its nodes");
    let kind = GroupVersionKind::gvk("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer");
    let buffers: Api<DynamicObject> =
        Api::default_namespaced_with(world.plane.client(), &ApiResource::from_gvk(&kind));
    assert_eq!(buffers.get("spare").await.unwrap().data["status"]["replicas"], 2);

    world.plane.apply_yaml(&buffer(0)).await.unwrap();
    world.wait_for_nodes(0).await.unwrap();
    assert_eq!(world.autoscaler.counters().launched(), 2);
}
