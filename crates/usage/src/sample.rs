//! Five minutes of a container in all of its pods: the paper's s\[t\] (section 3.2.1).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::ladder::MEMORY_UNIT_BYTES;
use super::row::UsageRow;
use super::spread::Spread;

/// The length of a sample, in seconds: five minutes, as in the paper.
pub const SAMPLE_SECONDS: i64 = 300;

/// A complete sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UsageSample {
    /// The number of the five minutes since the zero of the log.
    pub(super) number: i64,
    /// The pods that were measured.
    pub(super) pods: u64,
    /// CPU in thousandths of a core.
    pub(super) cpu: Spread,
    /// The mean of the measured CPU, in thousandths of a core.
    pub(super) cpu_mean: f64,
    /// The peak of each pod, in units of memory. A limit below a peak ends the pod, so the peak
    /// counts, and not the distribution.
    pub(super) memory: Spread,
    /// The same peaks in bytes.
    pub(super) memory_peaks: Vec<u64>,
}

/// The sample that rows are added to.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenSample {
    number: i64,
    /// The peak of memory of each pod, in bytes. Pods are known by the hash of their name, so that
    /// long names take no memory.
    pods: BTreeMap<u64, Option<u64>>,
    cpu: Spread,
    /// The sums of CPU times weight, and of weights.
    cpu_sum: (f64, f64),
}

impl OpenSample {
    pub(super) fn new(number: i64) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) fn number(&self) -> i64 {
        self.number
    }

    /// The number of pods that were measured.
    pub(super) fn pods(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn add(&mut self, row: &UsageRow) {
        let mut hasher = DefaultHasher::new();
        row.pod.hash(&mut hasher);
        let peak = self.pods.entry(hasher.finish()).or_default();
        *peak = (*peak).max(row.memory_bytes);
        for &(millis, weight) in &row.cpu {
            self.cpu.add(millis, weight);
            self.cpu_sum.0 += millis as f64 * weight;
            self.cpu_sum.1 += weight;
        }
    }

    pub(super) fn close(self) -> UsageSample {
        let Self { number, pods, cpu, cpu_sum: (sum, weight) } = self;
        let memory_peaks: Vec<u64> = pods.values().copied().flatten().collect();
        let mut memory = Spread::default();
        for peak in &memory_peaks {
            memory.add(peak.div_ceil(MEMORY_UNIT_BYTES), 1.0);
        }
        UsageSample {
            number,
            pods: pods.len() as u64,
            cpu,
            cpu_mean: if weight > 0.0 { sum / weight } else { 0.0 },
            memory,
            memory_peaks,
        }
    }
}
