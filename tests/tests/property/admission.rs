//! What is announced for a suspended Job, and what is counted once it runs, is what the API server
//! makes of its template.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controller::observe::{Pod, PodClass, Scope, Shared, Watches, World};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kube::api::{Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};
use tests::control_plane::{ControlPlane, Options};
use tests::wait;
use tests::workloads::{CLUSTER, Generator, Workload};
use tokio::time::Instant;

use super::{length, seed};

/// The longest wait for what the controller observes.
const DEADLINE: Duration = Duration::from_mins(1);

/// The number of workloads that exist at once.
const BATCH: usize = 20;

/// The label by which the classes of one workload are found.
const LABEL: &str = "workload";

fn api(plane: &ControlPlane, group: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(plane.client(), namespace, &resource)
}

/// The differences between what is announced and a pod, one line each.
fn differences(announced: &PodClass, pod: &PodClass) -> Vec<String> {
    let mut all = Vec::new();
    let mut compare = |what: &str, announced: String, pod: String| {
        if announced != pod {
            all.push(format!("{what}: {announced} is announced, and the pod has {pod}"));
        }
    };
    let text = |value: &dyn std::fmt::Debug| format!("{value:?}");
    compare("requests", text(&announced.requests), text(&pod.requests));
    compare("devices", text(&announced.devices), text(&pod.devices));
    if pod.requests.accelerators > 0 {
        compare("kind", text(&announced.accelerator_kind), text(&pod.accelerator_kind));
    }
    compare("priority", text(&announced.priority), text(&pod.priority));
    compare("scheduler", text(&announced.scheduler), text(&pod.scheduler));
    compare("preemption", text(&announced.may_preempt), text(&pod.may_preempt));
    compare("ties", text(&announced.ties), text(&pod.ties));
    compare("claims", text(&announced.has_claims), text(&pod.has_claims));
    all.extend(announced.constraints.differences(&pod.constraints));
    let lost = pod.constraints.differences(&announced.constraints);
    all.extend(lost.into_iter().map(|what| format!("only announced: {what}")));
    all
}

/// The pod that the API server would make of a workload's template. `None` if it refuses it.
async fn admitted(plane: &ControlPlane, workload: &Workload) -> Option<Pod> {
    let pods = api(plane, "", "Pod", &workload.namespace);
    let object = serde_json::from_value(workload.pod()).unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let pod = pods.create(&dry, &object).await.ok()?;
    Some(serde_json::from_value(serde_json::to_value(pod).unwrap()).unwrap())
}

/// Waits until a condition of the index is true.
async fn wait_for(shared: &Shared, what: &str, holds: impl Fn(&World) -> bool) {
    let waited = wait::until_true(what, DEADLINE, async || Ok(holds(&shared.world())));
    waited.await.unwrap_or_else(|error| panic!("{error:#}"));
}

fn of_workload<'a>(class: &'a PodClass, workload: &Workload) -> Option<&'a PodClass> {
    (class.labels.get(LABEL) == Some(&workload.name)).then_some(class)
}

/// Compares what is announced for one workload.
fn check_announced(
    shared: &Shared,
    workload: &Workload,
    pod: &PodClass,
    failures: &mut Vec<String>,
) {
    let world = shared.world();
    let mut found = 0;
    for (key, announcement) in world.index.announcements() {
        if (&key.namespace, &key.name) != (&workload.namespace, &workload.name) {
            continue;
        }
        for (class, count) in world.index.announced_pods(announcement) {
            found += count;
            for difference in differences(&class, pod) {
                failures.push(format!("{}: {difference}\n{}", workload.name, workload.template));
            }
        }
    }
    if found != workload.pods {
        failures.push(format!("{}: {found} of {} pods announced", workload.name, workload.pods));
    }
}

/// Compares what is counted for one workload whose Job runs.
fn check_counted(shared: &Shared, workload: &Workload, pod: &PodClass, failures: &mut Vec<String>) {
    let world = shared.world();
    let classes = world.index.classes().iter();
    let ours = classes.filter_map(|(id, class)| Some((id, of_workload(class, workload)?)));
    for (_, class) in ours {
        for difference in differences(class, pod) {
            failures.push(format!("{} runs: {difference}\n{}", workload.name, workload.template));
        }
    }
}

fn waiting(world: &World, workload: &Workload) -> u64 {
    let classes = world.index.classes().iter();
    let ours = classes.filter(|(_, class)| of_workload(class, workload).is_some());
    ours.map(|(id, _)| world.index.waiting(id).iter().sum::<u64>()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_announced_and_counted_is_what_the_api_server_admits() {
    let seed = seed();
    println!("SEED={seed}");
    let options = Options { adds_to_pods: true, kwok: false, ..Options::default() };
    let plane = ControlPlane::start_with(options).await.unwrap();
    plane.apply_yaml(CLUSTER).await.unwrap();
    let shared = Arc::new(Shared::default());
    let labels = [LABEL.to_owned()];
    shared.world().index.read_labels(labels);
    let scope = Scope {
        namespaces: vec![],
        off_switch_namespace: None,
        autoscaler_namespace: "kube-system".into(),
        karpenter: false,
        usage: false,
    };
    let _watches = Watches::start(plane.client(), Arc::clone(&shared), &scope);
    wait_for(&shared, "the first lists", World::is_listed).await;

    let mut generator = Generator::new(seed);
    let (begin, mut compared, mut refused) = (Instant::now(), 0, 0);
    let mut failures: Vec<String> = Vec::new();
    while begin.elapsed() < length(15) && failures.is_empty() {
        let mut batch: Vec<(Workload, PodClass)> = Vec::new();
        while batch.len() < BATCH {
            let workload = generator.workload();
            // The API server refuses some random templates, such as those whose containers request
            // more than the pod as a whole.
            let Some(pod) = admitted(&plane, &workload).await else {
                refused += 1;
                continue;
            };
            let class = PodClass::of(&pod, &BTreeSet::from([LABEL.to_owned()]));
            let jobs = api(&plane, "batch", "Job", &workload.namespace);
            let job: DynamicObject = serde_json::from_value(workload.job()).unwrap();
            jobs.create(&PostParams::default(), &job).await.unwrap();
            batch.push((workload, class));
        }
        wait_for(&shared, "the announcements", |world| {
            batch.iter().all(|(workload, _)| {
                world.index.announcements().any(|(key, _)| {
                    (&key.namespace, &key.name) == (&workload.namespace, &workload.name)
                })
            })
        })
        .await;
        for (workload, class) in &batch {
            check_announced(&shared, workload, class, &mut failures);
            let jobs = api(&plane, "batch", "Job", &workload.namespace);
            let released: Patch<Value> = Patch::Merge(json!({"spec": {"suspend": false}}));
            jobs.patch(&workload.name, &PatchParams::default(), &released).await.unwrap();
        }
        for (workload, class) in &batch {
            wait_for(&shared, "the pods", |world| waiting(world, workload) == workload.pods).await;
            check_counted(&shared, workload, class, &mut failures);
            let jobs = api(&plane, "batch", "Job", &workload.namespace);
            let gone = DeleteParams {
                propagation_policy: Some(PropagationPolicy::Background),
                ..DeleteParams::default()
            };
            jobs.delete(&workload.name, &gone).await.unwrap();
        }
        compared += batch.len();
    }
    println!("{compared} workloads compared, {refused} refused by the API server");
    assert!(failures.is_empty(), "SEED={seed}\n{}", failures.join("\n"));
    assert!(compared >= BATCH && refused < 2 * compared, "{compared} compared, {refused} refused");
}
