//! What running pods used so far, by the measurements of the metrics API.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::announced::Key;
use super::objects::{PodMetrics, time};
use super::quantity::{millis, units};
use crate::usage::PodUsage;

/// The most pods that are measured at the same time. Each takes less than a kilobyte, so these take
/// less than 200 MB. Further pods are not measured.
const PODS_MAX: usize = 200_000;

/// How long a pod is kept after its last measurement. A running pod is measured every minute, so a
/// pod without one for an hour is gone, and its end was not observed.
const KEPT: TimeDelta = TimeDelta::hours(1);

/// The usage of running pods, from their first measurement on.
#[derive(Clone, Debug, Default)]
pub(super) struct MeasuredPods {
    pods: HashMap<Key, Measured>,
    /// The number of pods in the last list.
    listed: usize,
}

#[derive(Clone, Debug, Default)]
struct Measured {
    usage: PodUsage,
    /// The time of the last measurement.
    last: Option<DateTime<Utc>>,
}

impl MeasuredPods {
    /// Adds the measurements of a list. A measurement that the list before it had, too, counts
    /// once.
    pub(super) fn add(&mut self, list: &[PodMetrics]) {
        self.listed = list.len();
        let Some(newest) = list.iter().filter_map(taken_at).max() else { return };
        for pod in list {
            let Some(taken) = taken_at(pod) else { continue };
            let (cpu_millis, memory_bytes) = total(pod);
            let key = Key::of(&pod.metadata);
            if self.pods.len() >= PODS_MAX && !self.pods.contains_key(&key) {
                continue;
            }
            let known = self.pods.entry(key).or_default();
            if known.last.is_none_or(|last| last < taken) {
                known.usage.measure(cpu_millis, memory_bytes);
                known.last = Some(taken);
            }
        }
        self.pods.retain(|_, pod| pod.last.is_some_and(|last| newest - last < KEPT));
    }

    /// The number of pods in the last list.
    pub(super) fn listed(&self) -> usize {
        self.listed
    }

    /// Removes a pod that has ended, and returns its usage if it was measured.
    pub(super) fn take(&mut self, pod: &Key) -> Option<PodUsage> {
        self.pods.remove(pod).map(|measured| measured.usage)
    }
}

fn taken_at(pod: &PodMetrics) -> Option<DateTime<Utc>> {
    pod.timestamp.as_ref().and_then(time)
}

/// The CPU in thousandths of a core, and the memory in bytes, of all containers of a pod together.
fn total(pod: &PodMetrics) -> (u64, u64) {
    let of = |name: &str, parse: fn(&str) -> Option<u64>| {
        let containers = pod.containers.iter();
        let amounts = containers.filter_map(|container| parse(container.usage.get(name)?));
        amounts.fold(0, u64::saturating_add)
    };
    (of("cpu", millis), of("memory", units))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, minute: u32, cpu: &str) -> PodMetrics {
        let container = json!({"name": "main", "usage": {"cpu": cpu, "memory": "1Mi"}});
        let sidecar = json!({"name": "sidecar", "usage": {"cpu": "1m", "memory": "1Ki"}});
        let pod = json!({
            "metadata": {"name": name, "namespace": "batch"},
            "timestamp": format!("2026-08-01T{:02}:{:02}:00Z", minute / 60, minute % 60),
            "window": "15s",
            "containers": [container, sidecar],
        });
        serde_json::from_value(pod).unwrap()
    }

    fn key(name: &str) -> Key {
        Key { namespace: "batch".into(), name: name.into() }
    }

    #[test]
    fn the_containers_of_a_pod_add_up_and_a_measurement_counts_once() {
        let mut pods = MeasuredPods::default();
        for (minute, cpu) in [(1, "9"), (1, "9"), (2, "41234567n"), (3, "41m")] {
            pods.add(&[pod("a", minute, cpu)]);
        }
        let usage = pods.take(&key("a")).unwrap();
        let bytes = (1 << 20) + (1 << 10);
        assert_eq!(usage.memory_bytes, bytes);
        assert_eq!(
            usage.cpu_millis.iter().map(|(_, count)| count).collect::<Vec<_>>(),
            [&1, &1, &1]
        );
        assert_eq!(usage.cpu_millis[..2], [(42, 1), (43, 1)]);
        assert_eq!(pods.take(&key("a")), None);
    }

    #[test]
    fn a_pod_that_is_no_longer_measured_is_forgotten_after_an_hour() {
        let mut pods = MeasuredPods::default();
        pods.add(&[pod("a", 0, "1"), pod("b", 0, "1")]);
        pods.add(&[pod("a", 59, "1")]);
        pods.add(&[]);
        assert_eq!((pods.pods.len(), pods.listed()), (2, 0));
        pods.add(&[pod("a", 60, "1")]);
        assert_eq!(pods.pods.keys().collect::<Vec<_>>(), [&key("a")]);
    }
}
