//! Autopilot's recommender by statistics of a moving window (section 3.2.2).
//!
//! Numbers in parentheses are the paper's equations.

use serde::Serialize;

use super::decayed::DecayedUsage;
use super::ladder::{LADDER, rung};
use super::row::{OomTolerance, WorkloadClass};
use super::sample::SAMPLE_SECONDS;
use super::sliding_max::SlidingMax;
use super::spread::Spread;

/// The half-life of samples of CPU, in seconds: 12 hours, as in the paper.
pub(super) const CPU_HALF_LIFE_SECONDS: f64 = 12.0 * 3_600.0;

/// The half-life of samples of memory, in seconds: 48 hours, as in the paper.
pub(super) const MEMORY_HALF_LIFE_SECONDS: f64 = 48.0 * 3_600.0;

/// The number of samples of the peak: a week of them. The paper's N is a fixed number that it does
/// not give; a week has every hour of every day once.
const PEAK_SAMPLES: i64 = 7 * 86_400 / SAMPLE_SECONDS;

/// The number of samples whose largest recommendation holds: those of one hour, as in the paper.
const HOLD_SAMPLES: i64 = 3_600 / SAMPLE_SECONDS;

/// The margin up to the knee, and of large limits, in percent. The paper has both, and no bounds.
const MARGIN_PERCENT: (u64, u64) = (15, 10);

/// The limits of CPU and of memory up to which the margin is the larger one, in units of the
/// ladder: one core, and 4 GiB. Pods of the largest type of a series have more of both.
pub(super) const CPU_KNEE: u64 = 1_000;
/// The same for memory.
pub(super) const MEMORY_KNEE: u64 = 4_096;

/// The relative error of the sums behind an average. Without it, the average of a steady usage may
/// round up to the next unit.
const ROUNDING: f64 = 1e-9;

/// A statistic of the decayed samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Statistic {
    /// The weighted average (2).
    #[serde(rename = "S_avg")]
    Average,
    /// The 90th percentile of the load-adjusted histogram (3).
    #[serde(rename = "S_p90")]
    P90,
    /// The 95th percentile.
    #[serde(rename = "S_p95")]
    P95,
    /// The 98th percentile.
    #[serde(rename = "S_p98")]
    P98,
    /// The larger of the 60th percentile and half of the peak.
    #[serde(rename = "max(S_p60, S_max/2)")]
    P60OrHalfMax,
    /// The peak.
    #[serde(rename = "S_max")]
    Max,
}

impl Statistic {
    /// The statistic of CPU. A job that tolerates throttling needs its average only.
    pub const fn of_cpu(class: WorkloadClass) -> Self {
        match class {
            WorkloadClass::Batch => Self::Average,
            WorkloadClass::Service => Self::P90,
            WorkloadClass::SensitiveService => Self::P95,
        }
    }

    /// The statistic of memory.
    pub const fn of_memory(tolerance: OomTolerance) -> Self {
        match tolerance {
            OomTolerance::Minimal => Self::Max,
            OomTolerance::Low => Self::P98,
            OomTolerance::Intermediate => Self::P60OrHalfMax,
        }
    }
}

/// The recommender of one resource of a container.
#[derive(Clone, Debug)]
pub(super) struct WindowRecommender {
    usage: DecayedUsage,
    peak: SlidingMax,
    held: SlidingMax,
    knee: u64,
}

impl WindowRecommender {
    /// A recommender with a half-life, and a knee of the margin in units of the ladder.
    pub(super) fn new(half_life_seconds: f64, knee: u64) -> Self {
        Self {
            usage: DecayedUsage::new(half_life_seconds),
            peak: SlidingMax::new(PEAK_SAMPLES),
            held: SlidingMax::new(HOLD_SAMPLES),
            knee,
        }
    }

    /// Adds a sample, and returns the limit: the statistic and its margin, as the smallest boundary
    /// that is not below them, and the largest such recommendation of the last hour.
    pub(super) fn learn(&mut self, number: i64, spread: &Spread, statistic: Statistic) -> u64 {
        self.usage.add(number, spread);
        let peak = self.peak.add(number, spread.max());
        let percentile = |share: f64| self.usage.load_percentile(share);
        let value = match statistic {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "usage >= 0"
            )]
            Statistic::Average => (self.usage.average() * (1.0 - ROUNDING)).ceil() as u64,
            Statistic::P90 => percentile(0.9),
            Statistic::P95 => percentile(0.95),
            Statistic::P98 => percentile(0.98),
            Statistic::P60OrHalfMax => percentile(0.6).max(peak.div_ceil(2)),
            Statistic::Max => peak,
        };
        self.held.add(number, LADDER[rung(with_margin(value, self.knee))])
    }
}

/// Adds the margin: 15 % up to the knee, then as much as at the knee until that is 10 %, so that a
/// larger value never has a smaller limit.
fn with_margin(value: u64, knee: u64) -> u64 {
    let (small, large) = MARGIN_PERCENT;
    let part = |percent: u64| value.min(knee).saturating_mul(percent).div_ceil(100);
    let least = value.saturating_mul(large).div_ceil(100);
    value.saturating_add(part(small).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_falls_from_fifteen_to_ten_percent() {
        let limits = [0, 1, 1_000, 1_200, 1_500, 2_000].map(|value| with_margin(value, 1_000));
        assert_eq!(limits, [0, 2, 1_150, 1_350, 1_650, 2_200]);
        let all: Vec<u64> = (0..4_000).map(|value| with_margin(value, 1_000)).collect();
        assert!(all.is_sorted_by(|low, high| low < high));
    }

    /// Nine samples of 10 and one of 30, whose loads are 90 and 30, at a half-life so long that all
    /// count alike. The statistics are 12, 30, 30, 30, 15 and 30, and the margins 15 % of them.
    #[test]
    fn each_statistic_has_its_limit() {
        let check = |statistic: Statistic, limit: u64| {
            let mut recommender = WindowRecommender::new(f64::INFINITY, 1_000);
            (0..9).for_each(|number| {
                recommender.learn(number, &Spread::of(&[10]), statistic);
            });
            assert_eq!(recommender.learn(9, &Spread::of(&[30]), statistic), limit, "{statistic:?}");
        };
        check(Statistic::Average, 14);
        check(Statistic::P90, 35);
        check(Statistic::P95, 35);
        check(Statistic::P98, 35);
        // The 60th percentile is 10, below half of the peak.
        check(Statistic::P60OrHalfMax, 18);
        check(Statistic::Max, 35);
    }

    #[test]
    fn the_largest_recommendation_of_an_hour_holds() {
        let mut recommender = WindowRecommender::new(1.0, 1_000);
        let high = recommender.learn(0, &Spread::of(&[40]), Statistic::Average);
        let limits: Vec<u64> = (1..=12)
            .map(|number| recommender.learn(number, &Spread::of(&[10]), Statistic::Average))
            .collect();
        assert_eq!((high, &limits[..11], limits[11]), (46, &[46; 11][..], 12));
    }

    #[test]
    fn the_peak_is_that_of_a_week() {
        let mut recommender = WindowRecommender::new(3_600.0, 1_000);
        recommender.learn(0, &Spread::of(&[40]), Statistic::Max);
        let mut at = |number: i64| recommender.learn(number, &Spread::of(&[10]), Statistic::Max);
        assert_eq!((at(PEAK_SAMPLES - 1), at(PEAK_SAMPLES + HOLD_SAMPLES)), (46, 12));
    }

    #[test]
    fn class_and_tolerance_choose_the_statistic() {
        use {OomTolerance as T, WorkloadClass as C};
        let cpu = C::ALL.map(Statistic::of_cpu);
        assert_eq!(cpu, [Statistic::Average, Statistic::P90, Statistic::P95]);
        let memory = T::ALL.map(Statistic::of_memory);
        assert_eq!(memory, [Statistic::Max, Statistic::P98, Statistic::P60OrHalfMax]);
    }
}
