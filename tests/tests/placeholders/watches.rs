//! Watches that fail: the network to the API server is interrupted, or a permission is missing.

use std::time::Duration;

use serde_json::Value;
use tests::control_plane::Options;
use tests::crds;
use tests::installed::{Prophet, policy};
use tests::node_group::NodeGroup;
use tests::wait;
use tokio::time::Instant;

use super::policies::recorded;
use super::world::{DEADLINE, POD, Plan, World, job};

/// A policy with two placeholders at any demand.
const TWO: &str =
    "{mode: Act, tick: 10s, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 2]]}}}";

/// The longest time from the return of the API server until the headroom is renewed.
const RENEWAL_MAX: Duration = Duration::from_mins(1);

/// The status of a condition of a policy, and its reason.
fn condition<'a>(status: &'a Value, type_: &str) -> (&'a str, &'a str) {
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let found = conditions.iter().find(|condition| condition["type"] == type_);
    let text = |key: &str| found.and_then(|found| found[key].as_str()).unwrap_or_default();
    (text("status"), text("reason"))
}

fn is_ready(status: &Value) -> bool {
    condition(status, "Ready") == ("True", "Working")
        && condition(status, "Degraded") == ("False", "AllWell")
}

/// Drops all connections of the controller, and refuses new ones for `duration`.
pub(crate) async fn refuse_connections(world: &World, duration: Duration) {
    let proxy = world.proxy.as_ref().unwrap();
    proxy.close();
    tokio::time::sleep(duration).await;
    proxy.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn headroom_is_renewed_after_connections_were_refused_and_after_they_hung() {
    let plan = Plan { proxied: true, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", TWO)).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_status("batch", "a ready policy", is_ready).await;

    let refused = refuse_connections(&world, Duration::from_secs(8));
    let arrives = async {
        world.apply(&job("first", 1)).await;
        world.wait_for_job("first", 1).await;
        world.wait_for_placeholders([1, 0, 1]).await;
    };
    tokio::join!(refused, arrives);
    let returned = Instant::now();
    let log = world.prophet.as_ref().unwrap().log().unwrap();
    let failed = |watch: &str| {
        let name = format!("\"{watch}\"");
        log.lines().any(|line| line.contains("watch failed") && line.contains(&name))
    };
    for watch in ["pods", "daemonsets", "priorityclasses", "cronjobs"] {
        assert!(failed(watch), "the watch of {watch} did not fail\n{log}");
    }

    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_status("batch", "a ready policy", is_ready).await;
    let waited = returned.elapsed();
    println!("headroom is renewed {:.1} s after the return", waited.as_secs_f64());
    assert!(waited < RENEWAL_MAX, "{waited:?}\n{}", world.details());

    // Connections that are half open: the API server accepts them, and never answers.
    let proxy = world.proxy.as_ref().unwrap();
    proxy.silence();
    world.apply(&job("second", 1)).await;
    world.wait_for_job("second", 1).await;
    world.wait_for_placeholders([1, 0, 1]).await;
    // Requests to write that are in progress hang now.
    tokio::time::sleep(Duration::from_secs(12)).await;
    proxy.open();
    let returned = Instant::now();
    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_status("batch", "a ready policy", is_ready).await;
    let waited = returned.elapsed();
    println!("headroom is renewed {:.1} s after silence ended", waited.as_secs_f64());
    assert!(waited < SILENCE_MAX, "{waited:?}\n{}", world.details());
}

/// The longest time until the headroom is renewed, if connections of before stay half open: watches
/// end after 65 s without an event.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// The role of the chart for the whole cluster without the permission to watch DaemonSets.
pub(crate) const WITHOUT_DAEMONSETS: &str =
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: prophet-observe}, rules: [
      {apiGroups: [''], resources: [pods, nodes], verbs: [list, watch]},
      {apiGroups: [batch], resources: [jobs, cronjobs], verbs: [list, watch]},
      {apiGroups: [scheduling.k8s.io], resources: [priorityclasses, podgroups], verbs: [list, watch]}]}";

/// The lead time with `--launch-latency=10s`: a launch, a tick and a scan of the autoscaler.
const LEAD: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn while_a_watch_fails_nothing_is_recorded_and_headroom_shrinks_after_the_lead_time() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("policy=prophet.batch");
    let arguments =
        vec![format!("--data={}", folder.path().display()), "--launch-latency=10s".into()];
    let plan =
        Plan { proxied: true, arguments, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", TWO)).await;
    world.wait_for_measured_placeholders(2).await;
    world.wait_for_status("batch", "a ready policy", is_ready).await;
    let is_recorded = || history.exists() && !recorded(&history).is_empty();
    wait::until_true("a tick", DEADLINE, async || Ok(is_recorded())).await.unwrap();

    // A running watch keeps its permission, so it must start again.
    world.apply(WITHOUT_DAEMONSETS).await;
    refuse_connections(&world, Duration::from_secs(1)).await;
    let begin = Instant::now();
    let fails = |status: &Value| condition(status, "Ready") == ("False", "WatchFailed");
    world.wait_for_status("batch", "the failing watch", fails).await;
    let before = recorded(&history);
    assert!(!before.is_empty(), "{}", world.details());
    let left = LEAD.saturating_sub(begin.elapsed());
    let mut last = [0; 3];
    let stays = wait::stays_true("the placeholders stay", left, async || {
        last = world.placeholders().await?;
        Ok(last == [2, 0, 0])
    });
    if let Err(error) = stays.await {
        panic!("{error:#}; there are {last:?}\n{}", world.details());
    }
    world.wait_for_placeholders([1, 0, 0]).await;
    assert_eq!(recorded(&history), before, "{}", world.details());

    Prophet::apply_chart(&world.plane).await.unwrap();
    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_status("batch", "a ready policy", is_ready).await;
    wait::until_true("a further tick", DEADLINE, async || Ok(recorded(&history) != before))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_streaming_lists_is_listed_in_pages() {
    let options = Options { streaming_lists: false, ..Options::default() };
    let plan = Plan { options, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let world = plan.start(&policy("batch", TWO)).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    world.wait_for_status("batch", "a ready policy", is_ready).await;
    let log = world.prophet.as_ref().unwrap().log().unwrap();
    assert!(log.contains("no streaming lists"), "{log}");
}

/// A definition with a conversion webhook that does not answer.
fn with_broken_conversion(definition: &str) -> String {
    let webhook = "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1],
      clientConfig: {url: 'https://127.0.0.1:9/convert'}}}";
    definition.replacen("scope: Namespaced", &format!("scope: Namespaced\n  {webhook}"), 1)
}

/// A definition whose other version is stored, so that the version that Prophet reads is converted.
fn with_other_storage(definition: &str) -> String {
    definition
        .replace("storage: true", "storage: other")
        .replace("storage: false", "storage: true")
        .replace("storage: other", "storage: false")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_optional_kind_stops_nothing_and_a_kind_that_appears_later_counts() {
    let definitions = [crds::CAPACITY_BUFFER, crds::WORKLOAD].map(with_other_storage);
    let broken = definitions.each_ref().map(|definition| with_broken_conversion(definition));
    let objects = "{apiVersion: autoscaling.x-k8s.io/v1alpha1, kind: CapacityBuffer, metadata: {name: a, namespace: prophet},
         spec: {podTemplateRef: {name: t}, replicas: 0}}\n---\n
        {apiVersion: kueue.x-k8s.io/v1beta1, kind: Workload, metadata: {name: a, namespace: default}, spec: {podSets: []}}";
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: prophet}}";
    let [buffer, workload] = definitions.each_ref().map(String::as_str);
    let [broken_buffer, broken_workload] = broken.each_ref().map(String::as_str);
    let unknown = crds::POD_GROUP.replace("name: v1alpha1", "name: v9");
    let before =
        vec![buffer, workload, namespace, objects, broken_buffer, broken_workload, &unknown];
    let plan = Plan { before, ..Plan::of([NodeGroup::new("small", "m5.xlarge")]) };
    let spec = TWO.replace("mode:", "workloads: {releasedJobs: {}}, mode:");
    let world = plan.start(&policy("batch", &spec)).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    // Workloads announce demand, and PodGroups of an unknown version would be no gangs in silence.
    // CapacityBuffers have no effect on a policy with ReplicaSets.
    let degraded = |status: &Value| {
        condition(status, "Ready") == ("True", "Working")
            && condition(status, "Degraded") == ("True", "WatchFailed")
            && status["conditions"][1]["message"].as_str().is_some_and(|message| {
                message.contains("workloads")
                    && message.contains("PodGroup of scheduling.x-k8s.io is served as v9, and this build reads v1alpha1")
                    && !message.contains("capacitybuffers")
            })
    };
    world.wait_for_status("batch", "a ready but degraded policy", degraded).await;

    world.apply(crds::JOB_SET).await;
    world
        .apply(&format!(
            "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: later, namespace: default}}, spec: {{suspend: true,
              replicatedJobs: [{{name: workers, replicas: 1, template: {{spec: {{parallelism: 3, template: {POD}}}}}}}]}}}}"
        ))
        .await;
    world.wait_for_placeholders([3, 0, 0]).await;
}
