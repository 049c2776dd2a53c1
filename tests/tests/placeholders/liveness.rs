//! The liveness probe: it fails while the controller's loop hangs, and only then.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use tests::installed::{NAMESPACE, Prophet, policy};
use tests::log_pipe::LogPipe;
use tests::node_group::NodeGroup;
use tests::wait;
use tokio::time::Instant;

use super::world::{DISCOVERY, Plan, World, job};

/// The shortest `--stuck-after`, and a little more.
const STUCK_AFTER: Duration = Duration::from_mins(1);
const LONGER: Duration = Duration::from_secs(70);

/// How many placeholders wait for a write that hangs. Eight writes are in progress at once, and
/// each ends after 10 s. One after the other, they would take 80 s.
const WRITES: u32 = 64;

/// A policy with this number of placeholders of an instance type at any demand.
fn ladder(instance_type: &str, placeholders: u32) -> Value {
    let ladder = json!({"nodesToReplicas": [[0, placeholders]]});
    json!({"mode": "Act", "tick": "10s", "buckets": {"instanceTypes": [instance_type]},
        "limits": {"placeholders": 100}, "forecast": {"method": "ladder", "ladder": ladder}})
}

/// A webhook that the API server calls for each change of a placeholder, at an address that accepts
/// connections and never answers.
fn silent_webhook(listener: &TcpListener) -> String {
    let address = listener.local_addr().unwrap();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silent"},
        "webhooks": [{
            "name": "silent.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 30,
            "failurePolicy": "Fail",
            "clientConfig": {"url": format!("https://{address}/")},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
        }],
    })
    .to_string()
}

/// Makes the history of a policy one that cannot be read to its end: a pipe gives no data.
fn endless_history(folder: &Path, policy: &str) {
    let day = folder.join(format!("policy={NAMESPACE}.{policy}/day=2026-01-01"));
    fs::create_dir_all(&day).unwrap();
    let made = Command::new("mkfifo").arg(day.join("ticks-00000.jsonl")).status();
    assert!(made.unwrap().success());
}

/// Starts the controller with the shortest limit. Its log goes through a pipe.
async fn start(world: &mut World, history: &Path, pipe: &LogPipe) {
    let arguments = ["--stuck-after=1m", &format!("--data={}", history.display()), DISCOVERY];
    let all = [&["run", "--namespace", NAMESPACE], &arguments[..]].concat();
    let mut command = tests::prophet(&all);
    let kubeconfig = world.plane.kubeconfig_for(NAMESPACE, "prophet").await.unwrap();
    command.env("KUBECONFIG", kubeconfig).env("PROPHET_LOG", "info,controller=debug");
    command.envs(world.moto.environment().to_vec());
    let prophet = Prophet::of_command(&world.plane, "prophet", pipe.connect(&command)).await;
    world.prophet = Some(prophet.unwrap_or_else(|error| panic!("{error:#}")));
}

impl World {
    /// Waits until the liveness probe succeeds, or fails. Returns the wait.
    async fn wait_for_liveness(&self, alive: bool) -> Duration {
        let begin = Instant::now();
        let what = format!("the liveness probe to return {alive}");
        let waited = wait::until_true(&what, 2 * STUCK_AFTER, async || {
            Ok(self.prophet.as_ref().unwrap().is_alive().await? == alive)
        });
        waited.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.details()));
        begin.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_liveness_probe_fails_while_the_loop_hangs_and_not_while_reads_and_writes_hang() {
    let folder = tempfile::tempdir().unwrap();
    let small = NodeGroup::new("small", "m5.xlarge").sizes(0, 100);
    let plan = Plan::of([small, NodeGroup::new("large", "m5.2xlarge")]);
    let mut world = plan.start_alone().await;
    Prophet::apply_chart(&world.plane).await.unwrap();
    let of = |name, ladder: Value| policy(name, &ladder.to_string());
    world.apply(&of("batch", ladder("m5.xlarge", 2))).await;
    world.apply(&of("endless", ladder("m5.2xlarge", 2))).await;
    endless_history(folder.path(), "endless");
    let pipe = LogPipe::create(folder.path(), &world.plane.folder().join("prophet.log")).unwrap();
    start(&mut world, folder.path(), &pipe).await;
    world.wait_for_placeholders([2, 0, 0]).await;
    // The first node can change the template, so its placeholders are replaced once, within a turn.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.wait_for_placeholders([2, 0, 0]).await;

    // A read of a history that never ends, and writes that hang, for longer than the limit.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    world.apply(&silent_webhook(&listener)).await;
    // The API server uses the webhook from the next read of its cache on.
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.patch_policy("batch", ladder("m5.xlarge", WRITES)).await;
    let alive = wait::stays_true("the liveness probe succeeds", LONGER, async || {
        world.prophet.as_ref().unwrap().is_alive().await
    });
    alive.await.unwrap_or_else(|error| panic!("{error:#}\n{}", world.details()));
    let reason = |reason: &'static str| {
        move |status: &Value| {
            let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
            conditions.iter().any(|condition| condition["reason"] == reason)
        }
    };
    world.wait_for_status("batch", "the failing writes", reason("WriteFailed")).await;
    world.wait_for_status("endless", "the read", reason("ReadingHistory")).await;
    let [bound, pending, gated] = world.placeholders().await.unwrap();
    assert!(bound == 2 && pending == 0 && gated > 32, "{bound}, {pending}, {gated}");
    world.patch_policy("batch", ladder("m5.xlarge", 2)).await;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(world.plane.client());
    webhooks.delete("silent", &DeleteParams::default()).await.unwrap();
    world.wait_for_placeholders([2, 0, 0]).await;

    // Nobody reads the log, so the loop hangs as soon as it writes to it.
    pipe.block().unwrap();
    world.apply(&job("first", 1)).await;
    let failed = world.wait_for_liveness(false).await;
    println!("the probe fails {:.1} s after the log was blocked", failed.as_secs_f64());
    assert!(failed + Duration::from_secs(5) > STUCK_AFTER, "{failed:?}");
    world.apply(&job("second", 1)).await;
    world.wait_for_job("second", 1).await;
    pipe.unblock();
    let succeeded = world.wait_for_liveness(true).await;
    println!("it succeeds {:.1} s after the log was read again", succeeded.as_secs_f64());
    world.wait_for_placeholders([2, 0, 0]).await;
}
