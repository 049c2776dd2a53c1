//! Random worlds: random steps of a scenario, with what must hold after each turn.
//!
//! A world that fails shrinks to the fewest steps, and is printed as a scenario. Put it into
//! `crates/controller/scenarios` once it is mended. `WORLDS` sets the number of worlds.

use proptest::prelude::*;
use proptest::test_runner::{Config as TestConfig, TestCaseError};

use super::cluster::Cluster;
use super::step::Step;

/// The worlds of a run of all tests, which take a few seconds.
const WORLDS: u32 = 200;

/// The most placeholders of the operator.
const CEILING: u64 = 5;

/// The maximum of each group.
const GROUPS: &str = "groups {a: {type: m5.xlarge, max: 4}, b: {type: m5.4xlarge, max: 3}, \
                      g: {type: g4dn.xlarge, max: 2}}";

/// The steps without parameters that a world can have, beside those of [`line`].
const PLAIN: [&str; 30] = [
    "policy {mode: Observe}",
    "policy {mode: Act}",
    "policy {mode: Act, forecast: {method: scheduled}, workloads: {releasedJobs: {}}}",
    "policy {mode: Act, limits: {placeholders: 1}, forecast: {method: ladder}}",
    "policy {mode: Act, limits: {dollarsPerHour: 0.5}, forecast: {method: ladder}}",
    "policy {mode: Act, forecast: {method: expression, expression: \"nodes +\"}}",
    "policy {mode: Act, forecast: {method: expression, expression: \"demand * 2\"}}",
    "policy {mode: Act, behavior: {scaleDown: {stabilizationWindowSeconds: 600}}}",
    "policy {mode: Act, rollout: {stepDuration: 1h}, forecast: {method: ladder}}",
    "policy gone",
    "policy other {mode: Act, forecast: {method: ladder, ladder: {nodesToReplicas: [[0, 9]]}}}",
    "policy other {mode: Act, buckets: {groups: [a]}, forecast: {method: ladder}}",
    "policy other gone",
    "off",
    "on",
    "api refuses",
    "api works",
    "watch pods fails",
    "watch pods works",
    "watch cronjobs fails",
    "watch cronjobs works",
    "autoscaler {nodeGroups: [{name: a, scaleUp: {status: Backoff}}]}",
    "autoscaler {nodeGroups: []}",
    "turn",
    "wait 20s",
    "wait 2m",
    "wait 20m",
    "object {kind: Job, metadata: {name: soon, namespace: jobs}, spec: {suspend: true, parallelism: 3, \
     template: {spec: {containers: [{name: c, resources: {requests: {cpu: 12}}}]}}}}",
    "object {kind: CronJob, metadata: {name: often, namespace: jobs}, spec: {schedule: \"*/5 * * * *\", \
     jobTemplate: {spec: {parallelism: 9, template: {spec: {containers: [{name: c, resources: \
     {requests: {cpu: 3}}}]}}}}}}",
    "object {kind: DaemonSet, metadata: {name: agent, namespace: agents}, spec: {template: {spec: \
     {containers: [{name: c, resources: {requests: {cpu: 5}}}]}}}}",
];

/// A step.
fn line() -> impl Strategy<Value = String> {
    let node = (0..5_u8, prop::sample::select(vec!["m5.xlarge", "m5.4xlarge", "g4dn.xlarge"]));
    let fields = prop::sample::select(vec![
        "",
        "{ready: false}",
        "{unschedulable: true}",
        "{taints: [{key: a, value: b, effect: NoSchedule}]}",
    ]);
    let requests = prop::sample::select(vec![
        "{cpu: 1}",
        "{cpu: 3500m, memory: 1Gi}",
        "{cpu: 15}",
        "{cpu: 500}",
        "{cpu: 1, nvidia.com/gpu: 1}",
        "{}",
    ]);
    prop_oneof![
        4 => prop::sample::select(&PLAIN[..]).prop_map(str::to_owned),
        2 => (node, fields).prop_map(|((at, of), fields)| format!("node n{at} {of} {fields}")),
        1 => (0..5_u8).prop_map(|at| format!("node n{at} gone")),
        3 => (1..7_u8, 0..4_u8, requests).prop_map(|(count, of, requests)| {
            format!("pods {count} p{of} {requests}")
        }),
        2 => (0..4_u8, 0..7_u8, 0..5_u8).prop_map(|(of, at, node)| format!("pod p{of}-{at} on n{node}")),
        2 => (0..4_u8, 0..7_u8).prop_map(|(of, at)| format!("pod p{of}-{at} ends")),
        2 => (0..5_u8).prop_map(|at| format!("placeholder on n{at}")),
        1 => (0..5_u8).prop_map(|at| format!("preempt on n{at}")),
    ]
}

/// Runs a world. Returns what did not hold.
async fn violation(lines: &[String]) -> Option<String> {
    let mut cluster = Cluster::new();
    let first = [format!("operator {{placeholders: {CEILING}}}"), GROUPS.to_owned()];
    for line in first.iter().chain(lines) {
        let step = Step::parse(line).unwrap_or_else(|error| panic!("{line}: {error:#}"));
        // Steps that name what does not exist are left out.
        let _ = cluster.step(step).await;
        if let Some(violation) = cluster.violation(CEILING) {
            return Some(format!("after {line:?}: {violation}"));
        }
    }
    None
}

#[test]
fn what_must_hold_holds_in_random_worlds() {
    let worlds = std::env::var("WORLDS").ok().and_then(|worlds| worlds.parse().ok());
    let config = TestConfig {
        cases: worlds.unwrap_or(WORLDS),
        failure_persistence: None,
        ..TestConfig::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    proptest!(config, |(lines in prop::collection::vec(line(), 1..40))| {
        if let Some(violation) = runtime.block_on(violation(&lines)) {
            let scenario = [GROUPS, &lines.join("\n")].join("\n");
            return Err(TestCaseError::fail(format!("{violation}\n{scenario}\n")));
        }
    });
}
