//! What running pods used so far, by the measurements of the metrics API.

use std::collections::HashMap;

use base::quantity::{millis, units};
use chrono::{DateTime, Utc};
use usage::{PodMeasurements, PodUsage};

use super::objects::{Key, PodMetrics, time};

/// The most pods that are measured at the same time. Each takes half a kilobyte, or at most four if
/// its CPU varies by orders of magnitude. Further pods are not measured.
const PODS_MAX: usize = 100_000;

/// The number of lists in a row, one a minute, after which a pod that is in none of them is
/// forgotten. A running pod is in each list, so such a pod is gone, and its end was not observed.
const MISSED_MAX: u32 = 60;

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
    /// The number of lists since the last one that has the pod. Times of measurements do not show
    /// how old they are, because the clocks of nodes differ.
    missed: u32,
}

impl MeasuredPods {
    /// Adds a list. A measurement that the list before it had, too, counts once.
    pub(super) fn add(&mut self, list: Vec<Measurement>) {
        self.listed = list.len();
        self.pods.values_mut().for_each(|pod| pod.missed += 1);
        for Measurement { pod, taken, cpu_millis, memory_bytes } in list {
            if self.pods.len() >= PODS_MAX && !self.pods.contains_key(&pod) {
                continue;
            }
            let known = self.pods.entry(pod).or_default();
            if known.taken != Some(taken) {
                known.so_far.add(cpu_millis, memory_bytes);
                known.taken = Some(taken);
            }
            known.missed = 0;
        }
        self.pods.retain(|_, pod| pod.missed < MISSED_MAX);
    }

    /// Notes that there is no list, because the metrics API cannot be read.
    pub(super) fn no_list(&mut self) {
        self.listed = 0;
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

    #[test]
    fn the_containers_of_a_pod_add_up_and_a_measurement_counts_once() {
        let mut pods = MeasuredPods::default();
        for (minute, cpu) in [(1, "9"), (1, "9"), (2, "41234567n"), (3, "41m")] {
            pods.add(vec![pod("a", minute, cpu)]);
        }
        let usage = pods.take(&key("a")).unwrap();
        assert_eq!(usage.memory_bytes, (1 << 20) + (1 << 10));
        assert_eq!(usage.cpu_millis[..2], [(42, 1), (43, 1)]);
        assert_eq!(usage.measurements(), 3);
        assert_eq!(pods.take(&key("a")), None);
    }

    /// The clocks of the nodes differ by a day. The metrics API fails in between.
    #[test]
    fn a_pod_that_is_in_no_list_for_an_hour_is_forgotten() {
        let mut pods = MeasuredPods::default();
        pods.add(vec![pod("a", 0, "1"), pod("b", 1_439, "1")]);
        (0..100).for_each(|_| pods.no_list());
        assert_eq!((pods.pods.len(), pods.listed()), (2, 0));
        for minute in 1..60 {
            pods.add(vec![pod("a", minute, "1")]);
        }
        assert_eq!((pods.pods.len(), pods.listed()), (2, 1));
        pods.add(vec![pod("a", 60, "1")]);
        assert_eq!(pods.pods.keys().collect::<Vec<_>>(), [&key("a")]);
        assert_eq!(pods.take(&key("a")).unwrap().measurements(), 61);
    }
}
