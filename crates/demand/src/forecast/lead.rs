//! The lead time: the window that a forecast covers.

use std::collections::BTreeSet;

/// The lead time: from now until a node that is ordered at the next decision is ready.
///
/// The lead time is a whole number of ticks, because needs are counted from tick to tick. A launch
/// latency that varies by seconds must also not change the lead time, because every method learns
/// anew after each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lead {
    /// Its length in seconds: a multiple of `tick_seconds`, at least `tick_seconds`.
    pub seconds: i64,
    /// Seconds between ticks, at least 1.
    pub tick_seconds: i64,
}

impl Lead {
    /// The shortest lead time that covers a launch, one tick and one scan of cluster-autoscaler,
    /// all in seconds.
    ///
    /// The tick is included because that much time may pass until the next decision. The sum is
    /// rounded up to whole ticks, because a window that ends before the node is ready would leave
    /// out the arrivals of the last seconds.
    pub fn covering(launch_seconds: i64, tick_seconds: i64, scan_seconds: i64) -> Self {
        let tick_seconds = tick_seconds.max(1);
        let least = launch_seconds.saturating_add(tick_seconds).saturating_add(scan_seconds).max(1);
        let ticks = (least - 1).div_euclid(tick_seconds) + 1;
        Self { seconds: ticks.saturating_mul(tick_seconds), tick_seconds }
    }

    /// Its length in ticks, at least 1.
    pub fn ticks(self) -> usize {
        usize::try_from(self.seconds / self.tick_seconds.max(1)).unwrap_or(1).max(1)
    }

    /// Rounds lead times up to each other until at most three are distinct. Each time, the two that
    /// differ the least become the longer one.
    #[must_use]
    pub fn at_most_three(mut leads: Vec<Self>) -> Vec<Self> {
        loop {
            let distinct: BTreeSet<Self> = leads.iter().copied().collect();
            let pairs = distinct.iter().zip(distinct.iter().skip(1));
            let closest = pairs.min_by_key(|(short, long)| long.seconds - short.seconds);
            let Some((&short, &long)) = closest.filter(|_| distinct.len() > DISTINCT_MAX) else {
                return leads;
            };
            leads.iter_mut().filter(|lead| **lead == short).for_each(|lead| *lead = long);
        }
    }

    /// The lead time that is at least `seconds` longer, in whole ticks.
    #[must_use]
    pub fn longer_by(self, seconds: i64) -> Self {
        Self::covering(
            self.seconds.saturating_add(seconds).saturating_sub(self.tick_seconds),
            self.tick_seconds,
            0,
        )
    }
}

/// The most lead times of a forecaster. Each more costs as much time and memory as the first.
const DISTINCT_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(launch: i64, tick: i64, scan: i64, ticks: usize) {
        let lead = Lead::covering(launch, tick, scan);
        assert_eq!(lead.ticks(), ticks, "{lead:?}");
        assert!(lead.seconds >= launch + tick + scan && lead.seconds % tick == 0, "{lead:?}");
    }

    #[test]
    fn the_window_covers_launch_tick_and_scan_in_whole_ticks() {
        check(210, 60, 10, 5);
        check(230, 60, 10, 5);
        check(231, 60, 10, 6);
        check(300, 60, 10, 7);
        check(300, 300, 10, 3);
        check(0, 60, 0, 1);
        check(0, 3_600, 10, 2);
    }

    #[test]
    fn lead_times_are_rounded_up_until_three_are_distinct() {
        let leads = |minutes: &[i64]| {
            let lead = |minutes: &i64| Lead { seconds: 60 * minutes, tick_seconds: 60 };
            minutes.iter().map(lead).collect::<Vec<Lead>>()
        };
        assert_eq!(Lead::at_most_three(leads(&[5, 20, 5, 9])), leads(&[5, 20, 5, 9]));
        assert_eq!(Lead::at_most_three(leads(&[5, 20, 6, 9, 10])), leads(&[6, 20, 6, 10, 10]));
        assert_eq!(Lead::at_most_three(vec![]), vec![]);
    }

    #[test]
    fn a_longer_window_is_also_a_whole_number_of_ticks() {
        let lead = Lead::covering(210, 60, 10);
        assert_eq!(lead.longer_by(300).seconds, 600);
        assert_eq!(Lead::covering(210, 300, 10).longer_by(300).seconds, 900);
        assert_eq!(Lead::covering(210, 300, 10).longer_by(1).seconds, 900);
    }
}
