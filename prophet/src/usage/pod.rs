//! What one pod used from its start to its end.

use serde::{Deserialize, Serialize};

use super::ladder::{LADDER, rung};

/// The measurements of a pod: a histogram of CPU, and the peak of memory. It has at most as many
/// bins as [`LADDER`] has boundaries, however long the pod runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodUsage {
    /// CPU in thousandths of a core, rounded up to a boundary of [`LADDER`], each with the number
    /// of measurements, in ascending order.
    pub cpu_millis: Vec<(u64, u64)>,
    /// The largest measured memory, in bytes.
    pub memory_bytes: u64,
}

impl PodUsage {
    /// Adds a measurement.
    pub fn measure(&mut self, cpu_millis: u64, memory_bytes: u64) {
        let boundary = LADDER[rung(cpu_millis)];
        match self.cpu_millis.binary_search_by_key(&boundary, |(known, _)| *known) {
            Ok(at) => self.cpu_millis[at].1 = self.cpu_millis[at].1.saturating_add(1),
            Err(at) => self.cpu_millis.insert(at, (boundary, 1)),
        }
        self.memory_bytes = self.memory_bytes.max(memory_bytes);
    }

    /// The number of measurements.
    pub fn measurements(&self) -> u64 {
        self.cpu_millis.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_counted_by_boundary_and_the_peak_of_memory_is_kept() {
        let mut usage = PodUsage::default();
        for (cpu_millis, memory_bytes) in [(51, 7), (3, 9), (52, 8)] {
            usage.measure(cpu_millis, memory_bytes);
        }
        let expected = PodUsage { cpu_millis: vec![(3, 1), (52, 2)], memory_bytes: 9 };
        assert_eq!((&usage, usage.measurements()), (&expected, 3));
        let text = serde_json::to_string(&usage).unwrap();
        assert_eq!(text, r#"{"cpu_millis":[[3,1],[52,2]],"memory_bytes":9}"#);
    }
}
