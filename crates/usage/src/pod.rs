//! What one pod used from its start to its end.

use embedder::Resources;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ladder::{LADDER, rung};

/// The measurements of a pod, as the history has them: a histogram of CPU, and the peak of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodUsage {
    /// CPU in thousandths of a core, rounded up to a boundary of [`LADDER`], each with the number
    /// of measurements, in ascending order.
    #[serde(default)]
    pub cpu_millis: Vec<(u64, u64)>,
    /// The largest measured memory, in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Unknown fields.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl PodUsage {
    /// The number of measurements.
    pub fn measurements(&self) -> u64 {
        self.cpu_millis.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    }
}

/// Pods that ran at the same time and used the same.
#[derive(Clone, Debug)]
pub struct MeasuredRun {
    /// NAMESPACE/NAME of the object that controls the pods, or its UID if names are not recorded.
    pub name: Box<str>,
    /// The number of pods.
    pub pods: u64,
    /// What each of the pods requests.
    pub unit: Resources,
    /// When the pods were created, in Unix seconds.
    pub submitted: i64,
    /// When the pods were bound to nodes, in Unix seconds.
    pub started: i64,
    /// When the pods ended, in Unix seconds.
    pub ended: i64,
    /// What each of the pods used.
    pub usage: PodUsage,
}

impl MeasuredRun {
    /// The last second in which the pods ran. A run has at least one.
    pub fn last_second(&self) -> i64 {
        self.ended.saturating_sub(1).max(self.started)
    }
}

/// The measurements of a running pod. A bin takes 8 bytes, and there are at most as many bins as
/// [`LADDER`] has boundaries, however long the pod runs.
#[derive(Clone, Debug, Default)]
pub struct PodMeasurements {
    /// The number of measurements by the index of the boundary, in ascending order.
    cpu: Vec<(u16, u32)>,
    memory_bytes: u64,
}

impl PodMeasurements {
    /// Adds a measurement.
    pub fn add(&mut self, cpu_millis: u64, memory_bytes: u64) {
        let bin = u16::try_from(rung(cpu_millis)).unwrap_or(u16::MAX);
        match self.cpu.binary_search_by_key(&bin, |(known, _)| *known) {
            Ok(at) => self.cpu[at].1 = self.cpu[at].1.saturating_add(1),
            Err(at) => self.cpu.insert(at, (bin, 1)),
        }
        self.memory_bytes = self.memory_bytes.max(memory_bytes);
    }

    /// The measurements as the history has them.
    pub fn usage(&self) -> PodUsage {
        let bins = self.cpu.iter();
        let bins = bins.map(|(bin, count)| (LADDER[usize::from(*bin)], u64::from(*count)));
        PodUsage { cpu_millis: bins.collect(), memory_bytes: self.memory_bytes, rest: Map::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_counted_by_boundary_and_the_peak_of_memory_is_kept() {
        let mut pod = PodMeasurements::default();
        for (cpu_millis, memory_bytes) in [(51, 7), (3, 9), (52, 8)] {
            pod.add(cpu_millis, memory_bytes);
        }
        let usage = pod.usage();
        assert_eq!(usage.measurements(), 3);
        let text = serde_json::to_string(&usage).unwrap();
        assert_eq!(text, r#"{"cpu_millis":[[3,1],[52,2]],"memory_bytes":9}"#);
    }

    #[test]
    fn unknown_fields_are_kept() {
        let text = r#"{"cpu_millis":[],"memory_bytes":9,"gpu_share":0.5}"#;
        let usage: PodUsage = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&usage).unwrap(), text);
    }
}
