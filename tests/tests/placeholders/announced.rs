//! Announced demand: pods that do not exist yet, or that may not run yet.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tests::autoscaler::AutoscalerSettings;
use tests::crds;
use tests::installed::policy;
use tests::node_group::NodeGroup;
use tests::wait;

use super::world::{POD, Plan, World, job_with};

/// A policy with placeholders for announced demand only.
const ANNOUNCED: &str = "{mode: Act, tick: 10s, forecast: {method: scheduled}}";

/// A Workload of Kueue, with `more` in its set of pods.
fn workload(name: &str, count: u32, more: &str) -> String {
    format!(
        "{{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {{name: {name}, namespace: default}},
          spec: {{queueName: batch, podSets: [{{name: main, count: {count}, {more} template: {POD}}}]}}}}\n---\n"
    )
}

/// Sets the status of a Workload, as Kueue does: a condition that becomes true, and `more`.
async fn set_status(world: &World, name: &str, condition: &str, more: Value) {
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("kueue.x-k8s.io", "v1beta2", "Workload"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(world.plane.client(), &resource);
    let known = api.get(name).await.unwrap_or_else(|error| panic!("{error:#}"));
    let mut conditions = known.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(json!({
        "type": condition, "status": "True", "reason": "Tested", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }));
    let mut status = more;
    status["conditions"] = json!(conditions);
    let patch = Patch::Merge(json!({"status": status}));
    let patched = api.patch_status(name, &PatchParams::default(), &patch).await;
    patched.unwrap_or_else(|error| panic!("{error:#}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_quota_has_nodes_of_its_flavor_and_other_jobs_of_kueue_have_none() {
    let groups = [
        NodeGroup::new("blue", "m5.xlarge").label("team", "blue"),
        NodeGroup::new("red", "m5.xlarge").label("team", "red"),
    ];
    let plan = Plan { before: vec![crds::WORKLOAD, crds::RESOURCE_FLAVOR], ..Plan::of(groups) };
    let world = plan.start(&policy("batch", ANNOUNCED)).await;
    let flavor = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: red},
        spec: {nodeLabels: {team: red}}}\n---\n";
    let queued = job_with("admitted", 2, "suspend: true,")
        .replace("labels: {", "labels: {kueue.x-k8s.io/queue-name: batch, ");
    let rack = "topologyRequest: {required: cloud.provider.com/topology-rack},";
    let workloads = [
        // It may run with two of its three pods.
        workload("admitted", 3, "minCount: 2,"),
        workload("waiting", 5, ""),
        workload("checked", 3, ""),
        workload("placed", 4, rack),
    ];
    world.apply(&[flavor, &queued, &workloads.concat()].concat()).await;
    let assigned =
        json!([{"name": "main", "flavors": {"cpu": "red", "memory": "red"}, "count": 2}]);
    let admission = json!({"admission": {"clusterQueue": "batch", "podSetAssignments": assigned}});
    set_status(&world, "admitted", "QuotaReserved", admission).await;
    let check = json!({"name": "provisioning", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    set_status(&world, "checked", "QuotaReserved", json!({"admissionChecks": [check]})).await;
    set_status(&world, "placed", "QuotaReserved", json!({})).await;
    world.wait_for_groups(&[("red", 2)]).await;
    let held_back = |status: &Value| {
        status["heldBack"] == json!({"no_quota": 5, "admission_check": 3, "cannot_preempt": 4})
    };
    world.wait_for_status("batch", "the pods held back", held_back).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());

    set_status(&world, "admitted", "Admitted", json!({})).await;
    let jobs: Api<Job> = Api::default_namespaced(world.plane.client());
    let template = json!({"spec": {"nodeSelector": {"team": "red"}}});
    let released = Patch::Merge(json!({"spec": {"suspend": false, "template": template}}));
    jobs.patch("admitted", &PatchParams::default(), &released).await.unwrap();
    let waited = world.wait_for_job("admitted", 2).await;
    println!("an announced job of two nodes waits {waited:.2} s");
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_jobs_and_gated_pods_count_where_the_policy_names_them() {
    let spec = "{mode: Act, tick: 10s, forecast: {method: scheduled},
        workloads: {releasedGates: [example.com/data], releasedJobs: {matchLabels: {job: soon}},
            tiers: [{name: production, priorityMin: 100, weight: 4}, {name: batch, priorityMin: 0, weight: 1}]}}";
    // The controller lists these jobs before it reads a policy that selects by their labels.
    let held =
        [job_with("soon", 1, "suspend: true,"), job_with("some-day", 4, "suspend: true,")].concat();
    let plan = Plan { before: vec![&held], ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", spec)).await;
    let gated = |name: &str, gate: &str| {
        job_with(name, 1, "").replace(
            "restartPolicy",
            &format!("schedulingGates: [{{name: {gate}}}], restartPolicy"),
        )
    };
    let pods = [gated("data", "example.com/data"), gated("unknown", "example.com/other")].concat();
    // Pods that cannot preempt would wait beside the placeholders that stand for them.
    let with = |name: &str, more: &str| {
        gated(name, "example.com/data").replace("restartPolicy", &format!("{more}, restartPolicy"))
    };
    let polite = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: polite}, value: 10, preemptionPolicy: Never}\n---\n";
    let polite_job = with("polite", "priorityClassName: polite");
    let polite_later = job_with("soon-polite", 1, "suspend: true,")
        .replace("job: soon-polite", "job: soon")
        .replace("restartPolicy", "priorityClassName: polite, restartPolicy");
    let volcano = with("volcano", "schedulerName: volcano");
    // A volume, or other pods, may forbid the nodes of placeholders.
    let claim = with("claim", "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]");
    let spread = with(
        "spread",
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]",
    );
    let others = [polite_job, polite_later, volcano, claim, spread].concat();
    world.apply(&[polite, &pods, &others].concat()).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let held_back = |status: &Value| {
        status["heldBack"]
            == json!({"suspended": 4, "unknown_gate": 1, "cannot_preempt": 3, "own_constraints": 2})
    };
    world.wait_for_status("batch", "the pods held back", held_back).await;
    // The pods with an unknown gate wait, too. Those of suspended jobs do not exist.
    let tiers = |status: &Value| {
        let tier =
            |name: &str, waiting: u64| json!({"name": name, "waiting": waiting, "running": 0});
        status["tiers"] == json!([tier("batch", 2), tier("production", 0)])
    };
    world.wait_for_status("batch", "the pods of each tier", tiers).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());

    // The policy reads a label that it did not read when the pods were listed.
    let others = json!([{"key": "job-name", "operator": "NotIn", "values": ["data"]}]);
    let selector = json!({"workloads": {"selector": {"matchExpressions": others}}});
    world.patch_policy("batch", selector).await;
    world.wait_for_placeholders([1, 0, 0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cron_job_has_nodes_before_it_fires() {
    let world =
        Plan::of([NodeGroup::new("small", "m5.xlarge")]).start(&policy("batch", ANNOUNCED)).await;
    let cron = |name: &str, schedule: &str, pods: u32| {
        format!(
            "{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: {name}, namespace: default}}, spec: {{schedule: '{schedule}',
              concurrencyPolicy: Forbid, jobTemplate: {{spec: {{parallelism: {pods}, completions: {pods}, template: {POD}}}}}}}}}\n---\n"
        )
    };
    // `soon` fires in one or two minutes, within the launch latency of three minutes. `rare` fires
    // on 29 February.
    let soon = format!("{} * * * *", (world.started_at().await + 120) / 60 % 60);
    world.apply(&[cron("soon", &soon, 2), cron("rare", "0 0 29 2 *", 3)].concat()).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_job("soon", 2).await;
    // The timestamps are whole seconds. A node that is launched only when the job fires takes four
    // seconds, so two seconds show that it was there before.
    let pods = world.pods("default").await.unwrap();
    let waits: Vec<i64> = pods.iter().filter_map(waited_seconds).collect();
    assert!(
        waits.len() == 2 && waits.iter().all(|seconds| *seconds <= 2),
        "{waits:?}\n{}",
        world.details()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn three_firings_of_a_cron_job_launch_no_more_nodes_than_the_first_one_needs() {
    // Nodes stay, so that each launch counts. The lead time is below the minute between firings.
    let stay = Duration::from_hours(1);
    let plan = Plan {
        autoscaler: AutoscalerSettings { unneeded_time: stay, ..AutoscalerSettings::default() },
        arguments: vec!["--launch-latency=10s".into()],
        ..Plan::of([NodeGroup::new("small", "m5.xlarge")])
    };
    let world = plan.start(&policy("batch", ANNOUNCED)).await;
    // The CronJob fires at full minutes. Nodes take seconds, and a job that fires meanwhile is
    // pending beside the placeholders for it, so there must be time before the first firing.
    let second = second_of_the_minute();
    if second > 25 {
        tokio::time::sleep(Duration::from_secs(60 - second)).await;
    }
    let pod =
        POD.replacen('{', "{metadata: {annotations: {tests.prophet.dev/run-seconds: '20'}}, ", 1);
    world
        .apply(&format!(
            "{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: often, namespace: default}}, spec: {{schedule: '* * * * *',
              concurrencyPolicy: Allow, jobTemplate: {{spec: {{parallelism: 2, completions: 2, template: {pod}}}}}}}}}"
        ))
        .await;
    let jobs: Api<Job> = Api::default_namespaced(world.plane.client());
    let is_done = |job: &&Job| job.status.as_ref().and_then(|status| status.succeeded) == Some(2);
    let done = wait::until_true("three completed jobs", Duration::from_mins(5), async || {
        Ok(jobs.list(&ListParams::default()).await?.iter().filter(is_done).count() == 3)
    });
    done.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());
}

#[expect(clippy::disallowed_methods, reason = "a CronJob fires by the clock")]
fn second_of_the_minute() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() % 60
}

/// The time from a pod's creation until it was scheduled, in whole seconds.
fn waited_seconds(pod: &Pod) -> Option<i64> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let scheduled = conditions.iter().find(|condition| condition.type_ == "PodScheduled")?;
    let made = pod.metadata.creation_timestamp.as_ref()?;
    Some(scheduled.last_transition_time.as_ref()?.0.as_second() - made.0.as_second())
}

/// Announces a job with the program, and returns what it prints.
fn announce(world: &World, manifest: &str, options: &[&str]) -> String {
    let file = world.plane.folder().join("announced.yaml");
    std::fs::write(&file, manifest.trim_end_matches("---\n")).unwrap();
    let file = file.to_str().unwrap();
    let arguments = [&["announce", "-f", file, "--namespace", "default"], options].concat();
    let mut command = tests::prophet(&arguments);
    let (code, printed, error) = tests::finish(command.env("KUBECONFIG", world.plane.kubeconfig()));
    assert_eq!((code, error.as_str()), (0, ""), "{printed}");
    printed
}

/// The status of a PlannedDemand.
async fn plan_status(world: &World, name: &str) -> Option<Value> {
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("prophet.dev", "v1alpha1", "PlannedDemand"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(world.plane.client(), &resource);
    let found = api.get_opt(name).await.unwrap_or_else(|error| panic!("{error:#}"))?;
    Some(found.data["status"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_announced_by_the_program_has_nodes_when_it_comes() {
    let world =
        Plan::of([NodeGroup::new("small", "m5.xlarge")]).start(&policy("batch", ANNOUNCED)).await;
    let until = async |name: &str, what: &str, is: &dyn Fn(&Option<Value>) -> bool| {
        let done = wait::until_true(what, Duration::from_mins(2), async || {
            Ok(is(&plan_status(&world, name).await))
        });
        done.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    };
    let printed = announce(&world, &job_with("train", 2, ""), &["--in", "2m", "--gang"]);
    assert!(printed.starts_with("planneddemand/train in default: 2 pods, 20"), "{printed}");
    world.wait_for_measured_placeholders(2).await;
    let is = |held: u64, came: u64| {
        move |status: &Option<Value>| {
            status.as_ref().is_some_and(|status| {
                status["held"] == json!(held)
                    && status["came"] == json!(came)
                    && status["policy"] == "prophet/batch"
            })
        }
    };
    until("train", "the nodes for the planned pods", &is(2, 0)).await;
    world.apply(&job_with("train", 2, "")).await;
    world.wait_for_job("train", 2).await;
    until("train", "the planned pods that came", &is(0, 2)).await;
    assert_eq!(world.launched_after_scans(3).await, 2, "{}", world.details());

    // Nothing comes of the next announcement, so its nodes go. Then its object is deleted.
    announce(&world, &job_with("never", 1, ""), &["--in", "10s", "--tolerance", "5s"]);
    until("never", "a node for the pod that never comes", &is(1, 0)).await;
    world.wait_for_placeholders([0, 0, 0]).await;
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("prophet.dev", "v1alpha1", "PlannedDemand"));
    let api: Api<DynamicObject> = Api::default_namespaced_with(world.plane.client(), &resource);
    let soon = Patch::Merge(json!({"spec": {"ttlSecondsAfterEnd": 0}}));
    api.patch("never", &PatchParams::default(), &soon).await.unwrap();
    until("never", "the deletion of the announcement", &Option::is_none).await;

    // The API server refuses what could have no time.
    let refused = json!({"apiVersion": "prophet.dev/v1alpha1", "kind": "PlannedDemand",
        "metadata": {"name": "never"}, "spec": {"pods": 1, "template": {}}});
    let refused = serde_json::from_value(refused).unwrap();
    let error = api.create(&kube::api::PostParams::default(), &refused).await.unwrap_err();
    assert!(error.to_string().contains("give either at or schedule"), "{error}");
}

/// The groups, versions and kinds of workflows.
const WORKFLOW: (&str, &str, &str) = ("argoproj.io", "v1alpha1", "Workflow");
const SPARK: (&str, &str, &str) = ("sparkoperator.k8s.io", "v1beta2", "SparkApplication");
const JOB_SET: (&str, &str, &str) = ("jobset.x-k8s.io", "v1alpha2", "JobSet");

/// Replaces the status of an object of another project, as its controller does.
async fn replace_status(world: &World, kind: (&str, &str, &str), name: &str, status: Value) {
    let (group, version, kind) = kind;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = Api::default_namespaced_with(world.plane.client(), &resource);
    let patch = Patch::Merge(json!({"status": status}));
    // The status of a Workflow is no subresource.
    let patched = if kind == "Workflow" {
        api.patch(name, &PatchParams::default(), &patch).await
    } else {
        api.patch_status(name, &PatchParams::default(), &patch).await
    };
    patched.unwrap_or_else(|error| panic!("{error:#}"));
}

/// The controllers of these kinds are not at hand, so the scenario writes the objects, their status
/// and the pods of their steps.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_steps_of_workflows_have_nodes_when_they_start() {
    let groups = [NodeGroup::new("small", "m5.xlarge")];
    let before = vec![crds::WORKFLOW, crds::SPARK, crds::JOB_SET];
    let plan = Plan { before, ..Plan::of(groups) };
    let world = plan.start(&policy("batch", ANNOUNCED)).await;

    // Two pods follow a step of an Argo Workflow that ended.
    let node = |path: &str, phase: &str| {
        json!({"name": format!("flow{path}"), "phase": phase,
            "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:10:00Z"})
    };
    let container = "container: {image: busybox, resources: {requests: {cpu: '3', memory: 8Gi}}}";
    world
        .apply(&format!(
            "{{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {{name: flow, namespace: default}},
              spec: {{entrypoint: main, templates: [
                {{name: main, dag: {{tasks: [{{name: read, template: work}},
                  {{name: fit, template: work, dependencies: [read], withItems: [1, 2]}}]}}}},
                {{name: work, {container}}}]}}}}"
        ))
        .await;
    let status = |nodes: Value| json!({"phase": "Running", "nodes": nodes});
    let ended = node(".read", "Succeeded");
    replace_status(&world, WORKFLOW, "flow", status(json!({"a": ended.clone()}))).await;
    world.wait_for_measured_placeholders(2).await;
    let step =
        json!([{"name": "Workflow default/flow/fit", "chance": "100%", "pods": 2, "held": 2}]);
    world.wait_for_status("batch", "the expected step", |status| status["expected"] == step).await;
    let before = world.autoscaler.counters().launched();
    world.apply(&job_with("fit", 2, "")).await;
    let nodes = json!({"a": ended, "b": node(".fit", "Running")});
    replace_status(&world, WORKFLOW, "flow", status(nodes)).await;
    world.wait_for_job("fit", 2).await;
    assert_eq!(world.launched_after_scans(1).await, before, "{}", world.details());
    world.wait_for_placeholders([0, 0, 0]).await;

    // An executor follows a driver that runs.
    world
        .apply(
            "{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, metadata: {name: etl, namespace: default},
              spec: {type: Scala, driver: {cores: 1},
                executor: {instances: 1, coreRequest: '3', memory: 7g, memoryOverhead: 1g}}}",
        )
        .await;
    let running = json!({"applicationState": {"state": "RUNNING"}});
    replace_status(&world, SPARK, "etl", running.clone()).await;
    world.wait_for_placeholders([1, 0, 0]).await;
    let mut with_executor = running;
    with_executor["executorState"] = json!({"etl-exec-1": "PENDING"});
    replace_status(&world, SPARK, "etl", with_executor).await;
    world.wait_for_placeholders([0, 0, 0]).await;

    // A job of a JobSet follows one that is complete.
    let job = |name: &str, pods: u32, on: &str| {
        format!(
            "{{name: {name}, dependsOn: [{on}], template: {{spec: {{parallelism: {pods}, template: {POD}}}}}}}"
        )
    };
    world
        .apply(&format!(
            "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: set, namespace: default}},
              spec: {{replicatedJobs: [{}, {}]}}}}",
            job("read", 1, ""),
            job("fit", 2, "{name: read, status: Complete}")
        ))
        .await;
    let complete = json!({"replicatedJobsStatus": [{"name": "read", "succeeded": 1}]});
    replace_status(&world, JOB_SET, "set", complete).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    let failed = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    replace_status(&world, JOB_SET, "set", failed).await;
    world.wait_for_placeholders([0, 0, 0]).await;
}
