use chrono::TimeDelta;
use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> String {
    (DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)).to_rfc3339()
}

/// A pod that was created at second 100.
fn pod(name: &str, gates: &[&str], bound_at: Option<i64>) -> Pod {
    let gates: Vec<Value> = gates.iter().map(|name| json!({"name": name})).collect();
    let conditions = bound_at.map(|seconds| {
        json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(seconds)}])
    });
    let pod = json!({
        "metadata": {"name": name, "namespace": "jobs", "creationTimestamp": at(100)},
        "spec": {"nodeName": bound_at.map(|_| "n"), "schedulingGates": gates},
        "status": {"conditions": conditions.unwrap_or(json!([]))},
    });
    serde_json::from_value(pod).unwrap()
}

fn listed() -> Index {
    let mut index = Index::default();
    index.begin_pods();
    index.apply_pod(&pod("before", &[], Some(100)));
    index.end_pods();
    index
}

fn starts(index: &mut Index) -> Vec<(u64, u64)> {
    let starts = index.take_starts().into_iter();
    starts.map(|(_, _, started)| (started.hidden, started.waited)).collect()
}

#[test]
fn pods_that_start_are_counted_once_by_how_long_they_waited() {
    let mut index = listed();
    index.apply_pod(&pod("quick", &[], Some(110)));
    index.apply_pod(&pod("slow", &[], None));
    index.apply_pod(&pod("slow", &[], Some(111)));
    index.apply_pod(&pod("slow", &[], Some(111)));
    assert_eq!(starts(&mut index), [(1, 1)]);
    index.apply_pod(&pod("quick", &[], Some(110)));
    assert_eq!(starts(&mut index), []);
}

/// Such pods waited for the gate, too, and pods that were bound before the first list were
/// counted by an earlier process.
#[test]
fn pods_of_a_gate_and_of_the_first_list_are_not_counted() {
    let mut index = listed();
    index.apply_pod(&pod("gated", &["kueue"], None));
    index.apply_pod(&pod("gated", &[], None));
    index.apply_pod(&pod("gated", &[], Some(300)));
    assert_eq!(starts(&mut index), []);
}
