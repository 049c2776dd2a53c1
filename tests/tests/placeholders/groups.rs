//! The distribution of placeholders over groups and placement groups.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests::autoscaler::AutoscalerSettings;
use tests::control_plane::Options;
use tests::crds;
use tests::installed::policy;
use tests::node_group::NodeGroup;

use super::world::{POD, Plan, World, job, job_with};

/// A policy with four placeholders of each bucket at any demand.
const FOUR: &str =
    "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 4]]}}}";

/// A policy that holds nodes for pods behind a gate.
const RELEASED: &str = "{mode: Act, tick: 10s, forecast: {method: scheduled}, workloads: {releasedGates: [example.com/data]}}";

/// Two groups of one bucket, of which the first has no room for a gang of three.
fn narrow_and_wide() -> [NodeGroup; 2] {
    [
        NodeGroup::new("narrow", "m5.xlarge").placement_group("a").sizes(0, 2),
        NodeGroup::new("wide", "m5.xlarge").placement_group("b"),
    ]
}

fn two_by_two() -> [NodeGroup; 4] {
    [
        NodeGroup::new("large-a", "m5.2xlarge").placement_group("a"),
        NodeGroup::new("large-b", "m5.2xlarge").placement_group("b"),
        NodeGroup::new("small-a", "m5.xlarge").placement_group("a"),
        NodeGroup::new("small-b", "m5.xlarge").placement_group("b"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_are_spread_over_placement_groups_and_a_full_one_is_skipped() {
    let [large_a, large_b, small_a, small_b] = two_by_two();
    let plan = Plan::of([large_a.sizes(0, 1), large_b, small_a, small_b]);
    let world = plan.start(&policy("batch", FOUR)).await;
    world.wait_for_groups(&[("large-a", 1), ("large-b", 3), ("small-a", 2), ("small-b", 2)]).await;
    assert_eq!(world.launched_after_scans(3).await, 8, "{}", world.details());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_launches_fail_is_skipped() {
    let autoscaler = AutoscalerSettings {
        max_node_provision_time: Duration::from_secs(8),
        ..AutoscalerSettings::default()
    };
    let plan = Plan { autoscaler, ..Plan::of(two_by_two()) };
    let world = plan.start_alone().await;
    world.joiner.fail("small-b");
    let world = world.with_controller(&[], &policy("batch", FOUR)).await;
    world.wait_for_groups(&[("large-a", 2), ("large-b", 2), ("small-a", 4)]).await;
    let backs_off = |status: &serde_json::Value| {
        let buckets = status["buckets"].as_array().cloned().unwrap_or_default();
        let groups = buckets.iter().filter_map(|bucket| bucket["groups"].as_array()).flatten();
        groups.into_iter().any(|group| group["name"] == "small-b" && group["backoff"] == true)
    };
    world.wait_for_status("batch", "the backoff", backs_off).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gangs_larger_than_a_node_are_launched_in_one_placement_group_or_not_at_all() {
    let spec = "{mode: Act, tick: 10s, forecast: {method: scheduled},
        workloads: {releasedJobs: {matchLabels: {queue: soon}}, gangJobs: {matchLabels: {kind: ring}}}}";
    let plan = Plan { before: vec![crds::JOB_SET], ..Plan::of(narrow_and_wide()) };
    let world = plan.start(&policy("batch", spec)).await;
    let set = |name: &str, pods: usize| {
        format!(
            "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: {name}, namespace: default, labels: {{queue: soon}}}},
              spec: {{suspend: true, replicatedJobs: [{{name: workers, replicas: 1, template: {{spec: {{parallelism: {pods}, completions: {pods}, template: {POD}}}}}}}]}}}}"
        )
    };
    world.apply(&set("gang", 3)).await;
    world.wait_for_groups(&[("wide", 3)]).await;
    assert_eq!(world.launched_after_scans(3).await, 3, "{}", world.details());

    // A Job with indexes is a gang, too, where the policy selects it.
    let ring = job_with("ring", 3, "suspend: true, completionMode: Indexed,")
        .replace("labels: {", "labels: {queue: soon, kind: ring, ");
    world.apply(&ring).await;
    world.wait_for_groups(&[("wide", 6)]).await;

    // No group has room for all of it, so nothing is launched for a part of it.
    world.apply(&set("vast", 11)).await;
    let waits = |status: &Value| {
        let steps = status["buckets"][0]["steps"].as_array().cloned().unwrap_or_default();
        steps.iter().any(|step| step["reason"] == "gang_fits_no_group")
    };
    world.wait_for_status("batch", "the gang that fits no group", waits).await;
    assert_eq!(world.launched_after_scans(3).await, 6, "{}", world.details());
    world.wait_for_groups(&[("wide", 6)]).await;
}

/// Announces three gated pods of a gang, of which the third one comes later: until then, nothing is
/// held for them. `template` is how the template of their pods begins.
async fn announce_gang(world: &World, group: &str, template: &str) {
    let template = format!("{template}schedulingGates: [{{name: example.com/data}}], ");
    let pods = |name, count| job(name, count).replace("template: {spec: {", &template);
    world.apply(&[group, "\n---\n", &pods("ring", 2)].concat()).await;
    let is_part = |status: &Value| status["heldBack"]["part_of_gang"] == 2;
    world.wait_for_status("batch", "part of a gang", is_part).await;
    world.apply(&pods("last", 1)).await;
    world.wait_for_groups(&[("wide", 3)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gated_pods_of_a_pod_group_are_a_gang() {
    let plan = Plan { before: vec![crds::POD_GROUP], ..Plan::of(narrow_and_wide()) };
    let world = plan.start(&policy("batch", RELEASED)).await;
    let group = "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: ring, namespace: default}, spec: {minMember: 3}}";
    let template = "template: {metadata: {labels: {scheduling.x-k8s.io/pod-group: ring}}, spec: {";
    announce_gang(&world, group, template).await;
    assert_eq!(world.launched_after_scans(3).await, 3, "{}", world.details());
}

/// The scheduler itself holds the pods of the gang back until all of them have room, which it makes
/// by preempting the placeholders of one group.
#[tokio::test(flavor = "multi_thread")]
async fn a_gang_of_kubernetes_preempts_the_placeholders_of_one_group() {
    let options = Options { gangs: true, ..Options::default() };
    let plan = Plan { options, ..Plan::of(narrow_and_wide()) };
    let world = plan.start(&policy("batch", RELEASED)).await;
    let group = "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: ring, namespace: default}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}";
    let template = "template: {spec: {schedulingGroup: {podGroupName: ring}, ";
    announce_gang(&world, group, template).await;

    let gated: Api<Pod> = Api::default_namespaced(world.plane.client());
    for pod in gated.list(&ListParams::default()).await.unwrap() {
        let lifted = Patch::Merge(json!({"spec": {"schedulingGates": []}}));
        gated.patch(&pod.name_any(), &PatchParams::default(), &lifted).await.unwrap();
    }
    world.wait_for_job("ring", 2).await;
    world.wait_for_job("last", 1).await;
    assert_eq!(world.launched_after_scans(3).await, 3, "{}", world.details());
}

#[tokio::test(flavor = "multi_thread")]
async fn placeholders_stand_only_in_groups_whose_nodes_the_jobs_can_use() {
    let groups = [
        NodeGroup::new("blue", "m5.xlarge").label("team", "blue"),
        NodeGroup::new("red", "m5.xlarge").label("team", "red"),
        NodeGroup::new("web", "m5.xlarge").label("team", "red").taint("web", "", "NoSchedule"),
    ];
    let world = Plan::of(groups).start(&policy("batch", RELEASED)).await;
    let gated = |team, count| {
        job(team, count).replace(
            "template: {spec: {",
            &format!("template: {{spec: {{schedulingGates: [{{name: example.com/data}}], nodeSelector: {{team: {team}}}, "),
        )
    };
    world.apply(&[gated("blue", 2), gated("red", 2)].concat()).await;
    world.wait_for_groups(&[("blue", 2), ("red", 2)]).await;
    assert_eq!(world.launched_after_scans(3).await, 4, "{}", world.details());
}

/// In the mode `Observe`, launch latencies are those for which pods waited. A slow group does not
/// lengthen the lead time of another bucket.
#[tokio::test(flavor = "multi_thread")]
async fn each_bucket_has_the_lead_time_of_its_launches() {
    let groups = [NodeGroup::new("fast", "m5.xlarge"), NodeGroup::new("slow", "m5.2xlarge")];
    let world = Plan::of(groups).start(&policy("batch", "{mode: Observe, tick: 10s}")).await;
    world.joiner.set_latency("slow", Duration::from_secs(25));
    let leads = |status: &Value| -> Option<[u64; 2]> {
        let lead = |at: usize| status["buckets"][at]["leadSeconds"].as_u64();
        Some([lead(0)?, lead(1)?])
    };
    // `--launch-latency`, one tick and one scan.
    world
        .wait_for_status("batch", "the defaults", |status| leads(status) == Some([200, 200]))
        .await;
    let job_on = |name: &str, instance_type: &str| {
        let selector =
            format!("nodeSelector: {{node.kubernetes.io/instance-type: {instance_type}}}");
        job(name, 1).replace("restartPolicy: Never", &format!("restartPolicy: Never, {selector}"))
    };
    world.apply(&[job_on("one", "m5.xlarge"), job_on("two", "m5.2xlarge")].concat()).await;
    let is_learnt = |status: &Value| {
        leads(status).is_some_and(|[fast, slow]| fast < slow && (50..200).contains(&slow))
    };
    world.wait_for_status("batch", "a lead time for each bucket", is_learnt).await;
    world.joiner.set_latency("fast", Duration::from_secs(45));
    world.apply(&job_on("three", "m5.xlarge")).await;
    let follows = |status: &Value| leads(status).is_some_and(|[fast, _]| (70..200).contains(&fast));
    world.wait_for_status("batch", "the latency that changed", follows).await;
}
