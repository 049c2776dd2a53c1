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

/// Ends a pod, with the end of its container.
fn ended(mut pod: Pod, phase: &str, seconds: i64) -> Pod {
    pod.status.phase = Some(phase.into());
    let statuses = json!([{"state": {"terminated": {"finishedAt": at(seconds)}}}]);
    pod.status.container_statuses = serde_json::from_value(statuses).unwrap();
    pod
}

#[test]
fn pods_that_end_on_a_node_are_kept_once() {
    let mut index = listed();
    index.apply_pod(&pod("a", &[], Some(110)));
    let done = ended(pod("a", &[], Some(110)), "Succeeded", 500);
    index.apply_pod(&done);
    index.apply_pod(&done);
    index.delete_pod(&done);
    // The gate held it until it started.
    index.apply_pod(&pod("gated", &["kueue"], None));
    index.delete_pod(&pod("gated", &[], Some(300)));
    index.apply_pod(&pod("gated", &["kueue"], None));
    index.apply_pod(&pod("gated", &[], Some(300)));
    index.delete_pod(&pod("gated", &[], Some(300)));
    // It has no node, or had ended before it was observed.
    index.apply_pod(&pod("waiting", &[], None));
    index.delete_pod(&pod("waiting", &[], None));
    index.apply_pod(&ended(pod("earlier", &[], Some(110)), "Failed", 120));
    let seconds = |time: DateTime<Utc>| time.timestamp();
    let finished = index.take_finished().into_iter().map(|pod| {
        let times = [pod.submitted, pod.started].map(seconds);
        (pod.owner_name, times, pod.ended.map(seconds))
    });
    let expected = [("a", [100, 110], Some(500)), ("gated", [300, 300], None)];
    let expected = expected.map(|(name, times, end)| (name.to_owned(), times, end));
    assert_eq!(finished.collect::<Vec<_>>(), expected);
    assert_eq!(index.take_finished(), []);
}

/// The second pod has the name of the first one, whose end was not observed.
#[test]
fn a_finished_pod_has_its_usage_and_not_that_of_an_earlier_pod_of_its_name() {
    let measurement = |minute: u32| {
        let metrics = json!({
            "metadata": {"name": "a", "namespace": "jobs"},
            "timestamp": format!("2026-08-01T00:{minute:02}:00Z"),
            "containers": [{"usage": {"cpu": "50m", "memory": "1Ki"}}],
        });
        Measurement::of(&serde_json::from_value(metrics).unwrap())
    };
    let pod = |uid: &str| {
        let mut pod = pod("a", &[], Some(110));
        pod.metadata.uid = Some(uid.into());
        pod
    };
    let mut index = listed();
    let mut usage_of = |uid: &str, minutes: std::ops::Range<u32>, is_last: bool| {
        index.apply_pod(&pod(uid));
        for minute in minutes {
            index.measure(Some(vec![measurement(minute).unwrap()]));
        }
        if is_last {
            index.delete_pod(&pod(uid));
        }
        let usage = index.take_finished().into_iter().map(|pod| pod.usage);
        usage.map(|usage| usage.map(|usage| usage.cpu_millis)).collect::<Vec<_>>()
    };
    assert_eq!(usage_of("one", 0..5, false), []);
    assert_eq!(usage_of("two", 0..0, true), [None]);
    assert_eq!(usage_of("three", 7..9, true), [Some(vec![(50, 2)])]);
}

/// Pods of a class that arrive and are gone before the next turn.
#[test]
fn classes_of_pods_that_are_gone_are_forgotten() {
    let mut index = listed();
    for name in ["one", "two", "three"] {
        index.apply_pod(&of_group(name, "ring"));
    }
    assert!(index.take_arrivals(0).is_empty());
    assert_eq!(index.take_arrivals(SCAN_SECONDS)[0].1, 3);
    assert!(index.take_gangs().is_empty());
    for name in ["one", "two", "three"] {
        index.delete_pod(&of_group(name, "ring"));
    }
    assert_eq!(index.classes().iter().count(), 1);
}

/// A pod that is deleted before an autoscaler can see it needs no node.
#[test]
fn a_pod_arrives_when_it_is_bound_or_has_waited_for_a_scan() {
    let mut index = listed();
    let mut arrived = |now: i64, change: &dyn Fn(&mut Index)| {
        change(&mut index);
        index.take_arrivals(now).iter().map(|(_, count)| count).sum::<u64>()
    };
    let waits =
        |name: &'static str| move |index: &mut Index| index.apply_pod(&pod(name, &[], None));
    let nothing = |_: &mut Index| {};
    assert_eq!(arrived(0, &waits("a")), 0);
    assert_eq!(arrived(3, &waits("b")), 0);
    assert_eq!(arrived(9, &|index| index.delete_pod(&pod("a", &[], None))), 0);
    assert_eq!(arrived(12, &nothing), 0);
    assert_eq!(arrived(13, &nothing), 1);
    assert_eq!(arrived(14, &|index| index.apply_pod(&pod("b", &[], Some(114)))), 0);
    assert_eq!(arrived(15, &|index| index.apply_pod(&pod("c", &[], Some(115)))), 1);
    assert_eq!(arrived(16, &waits("d")), 0);
    assert_eq!(arrived(17, &|index| index.apply_pod(&pod("d", &[], Some(117)))), 1);
    // It vanished while the watch was cut.
    assert_eq!(arrived(20, &waits("e")), 0);
    let relist = |index: &mut Index| {
        index.begin_pods();
        index.end_pods();
    };
    assert_eq!(arrived(40, &relist), 0);
    assert!(index.fresh.is_empty());
}

/// A pod of a PodGroup of the scheduler plugins.
fn of_group(name: &str, group: &str) -> Pod {
    let mut pod = pod(name, &[], None);
    pod.metadata.labels = Some([("scheduling.x-k8s.io/pod-group".into(), group.into())].into());
    pod
}

/// Two pods of `ring` start together, and `loose` is no gang.
#[test]
fn a_gang_arrives_when_as_many_pods_as_start_together_have_arrived() {
    let mut index = listed();
    let ring = Key { namespace: "jobs".into(), name: "ring".into() };
    index.gangs(0).insert(ring, 2);
    let mut arrive = |name: &str, group: &str| {
        index.apply_pod(&of_group(name, group));
        index.take_arrivals(0);
        index.take_arrivals(SCAN_SECONDS);
        let gangs = index.take_gangs().into_iter();
        gangs.map(|gang| gang[0].1).collect::<Vec<u64>>()
    };
    let none: [u64; 0] = [];
    assert_eq!(arrive("first", "ring"), none);
    assert_eq!(arrive("other", "loose"), none);
    assert_eq!(arrive("second", "ring"), [2]);
    assert_eq!(arrive("second", "ring"), none);
    assert_eq!(arrive("third", "ring"), none);
    assert_eq!(arrive("fourth", "ring"), none);
}
