//! What running pods used so far, by the measurements of the metrics API.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::announced::Key;
use super::objects::{PodMetrics, time};
use super::quantity::{millis, units};
use crate::usage::{PodMeasurements, PodUsage};

/// The most pods that are measured at the same time. Each takes half a kilobyte, or at most four if
/// its CPU varies by orders of magnitude. Further pods are not measured.
const PODS_MAX: usize = 100_000;

/// How long a pod is kept after its last measurement. A running pod is measured every minute, so a
/// pod without one for an hour is gone, and its end was not observed.
const KEPT: TimeDelta = TimeDelta::hours(1);

/// What a pod used at one moment, all of its containers together.
#[derive(Clone, Debug)]
pub struct Measurement {
    pod: Key,
    /// The time of the measurement, by the clock of the node.
    taken: DateTime<Utc>,
    /// Thousandths of a core.
    cpu_millis: u64,
    memory_bytes: u64,
}

impl Measurement {
    /// Reads a measurement. `None` without its time.
    pub fn of(pod: &PodMetrics) -> Option<Self> {
        let total = |name: &str, parse: fn(&str) -> Option<u64>| {
            let containers = pod.containers.iter();
            let amounts = containers.filter_map(|container| parse(container.usage.get(name)?));
            amounts.fold(0, u64::saturating_add)
        };
        Some(Self {
            pod: Key::of(&pod.metadata),
            taken: pod.timestamp.as_ref().and_then(time)?,
            cpu_millis: total("cpu", millis),
            memory_bytes: total("memory", units),
        })
    }
}

/// The usage of running pods, from their first measurement on.
#[derive(Clone, Debug, Default)]
pub(super) struct MeasuredPods {
    pods: HashMap<Key, Measured>,
    /// The number of pods in the last list.
    listed: usize,
}

#[derive(Clone, Debug, Default)]
struct Measured {
    so_far: PodMeasurements,
    /// The time of the last measurement, by the clock of the node.
    taken: Option<DateTime<Utc>>,
    /// The time at which it was read, by our clock. Clocks of nodes differ.
    read: DateTime<Utc>,
}

impl MeasuredPods {
    /// Adds a list that was read at `now`. A measurement that the list before it had, too, counts
    /// once.
    pub(super) fn add(&mut self, list: Vec<Measurement>, now: DateTime<Utc>) {
        self.listed = list.len();
        for Measurement { pod, taken, cpu_millis, memory_bytes } in list {
            if self.pods.len() >= PODS_MAX && !self.pods.contains_key(&pod) {
                continue;
            }
            let known = self.pods.entry(pod).or_default();
            if known.taken != Some(taken) {
                known.so_far.add(cpu_millis, memory_bytes);
                known.taken = Some(taken);
            }
            known.read = now;
        }
        self.pods.retain(|_, pod| now - pod.read < KEPT);
    }

    /// The number of pods in the last list.
    pub(super) fn listed(&self) -> usize {
        self.listed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Removes a pod that has ended, and returns its usage if it was measured.
    pub(super) fn take(&mut self, pod: &Key) -> Option<PodUsage> {
        self.pods.remove(pod).map(|measured| measured.so_far.usage())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, minute: u32, cpu: &str) -> Measurement {
        let container = json!({"name": "main", "usage": {"cpu": cpu, "memory": "1Mi"}});
        let sidecar = json!({"name": "sidecar", "usage": {"cpu": "1m", "memory": "1Ki"}});
        let pod = json!({
            "metadata": {"name": name, "namespace": "batch"},
            "timestamp": format!("2026-08-01T{:02}:{:02}:00Z", minute / 60, minute % 60),
            "window": "15s",
            "containers": [container, sidecar],
        });
        Measurement::of(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn key(name: &str) -> Key {
        Key { namespace: "batch".into(), name: name.into() }
    }

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::minutes(minute)
    }

    #[test]
    fn the_containers_of_a_pod_add_up_and_a_measurement_counts_once() {
        let mut pods = MeasuredPods::default();
        for (minute, cpu) in [(1, "9"), (1, "9"), (2, "41234567n"), (3, "41m")] {
            pods.add(vec![pod("a", minute, cpu)], at(0));
        }
        let usage = pods.take(&key("a")).unwrap();
        assert_eq!(usage.memory_bytes, (1 << 20) + (1 << 10));
        assert_eq!(usage.cpu_millis[..2], [(42, 1), (43, 1)]);
        assert_eq!(usage.measurements(), 3);
        assert_eq!(pods.take(&key("a")), None);
    }

    /// The clock of the node of `b` is days ahead.
    #[test]
    fn a_pod_that_is_no_longer_measured_is_forgotten_after_an_hour() {
        let mut pods = MeasuredPods::default();
        pods.add(vec![pod("a", 0, "1"), pod("b", 1_439, "1")], at(0));
        pods.add(vec![pod("a", 1, "1")], at(59));
        assert_eq!((pods.pods.len(), pods.listed()), (2, 1));
        pods.add(vec![], at(60));
        assert_eq!((pods.pods.keys().collect::<Vec<_>>(), pods.listed()), (vec![&key("a")], 0));
    }
}
