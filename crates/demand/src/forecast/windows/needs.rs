//! The needs of past windows. The need of a window in a bucket is the largest demand within the
//! window less the demand at its start.

use embedder::BucketId;
use placeholders::Reason;

use super::NewNodes;
use super::drawn::DrawnNodes;
use super::past::Windows;
use crate::forecast::{distribution::Distribution, lead::Lead};
use crate::record::{BucketTick, History, Tick};

/// Past windows with their needs. Each window has a note `N`, which the method makes at the start
/// of the window.
#[derive(Clone)]
pub(crate) struct PastNeeds<N> {
    buckets: usize,
    windows: Windows<N, NewNodes>,
}

impl<N: Copy> PastNeeds<N> {
    pub(crate) fn new(buckets: usize, lead: Lead) -> Self {
        Self { buckets, windows: Windows::new(lead) }
    }

    /// Learns from the last tick of `history`. `note` is called where a window starts with that
    /// tick.
    pub(crate) fn learn(&mut self, history: &History, note: impl FnOnce() -> N) {
        let (ticks, buckets) = (self.windows.ticks(), self.buckets);
        let needs = || {
            let needs = last_needs(history, ticks, buckets);
            needs.iter().copied().enumerate().filter(|(_, need)| *need > 0).collect()
        };
        self.windows.learn(history, note, needs);
    }

    /// Returns the starts of past windows in Unix seconds, with their weights times `likeness`.
    pub(crate) fn moments(&self, likeness: impl Fn(&N) -> f64) -> impl Iterator<Item = (i64, f64)> {
        self.windows.moments(likeness)
    }

    /// Returns a number that changes with the windows from which [`PastNeeds::distributions`]
    /// draws.
    pub(crate) fn version(&self) -> u64 {
        self.windows.version()
    }

    /// Returns whether the history suffices for a forecast.
    pub(crate) fn reason(&self) -> Reason {
        if self.windows.are_few() { Reason::TooLittleHistory } else { Reason::Forecast }
    }

    /// Returns the distribution of past needs by bucket, with windows weighted by their age and by
    /// `likenesses`, which returns one factor for each note, as in [`Windows::draw`].
    pub(crate) fn distributions<'a, L: Iterator<Item = f64>>(
        &'a self,
        likenesses: impl FnOnce(&'a [N]) -> L,
    ) -> Vec<Distribution> {
        let mut drawn = DrawnNodes::new(self.buckets);
        self.windows.draw(likenesses, |needs, times| drawn.add(times, needs));
        drawn.distributions()
    }
}

/// Returns the need, per bucket and in nodes, of the window of `ticks` ticks that ends with the
/// last tick.
pub fn last_needs(history: &History, ticks: usize, buckets: usize) -> Box<[u64]> {
    let window: Vec<&Tick> = history.latest(ticks + 1).collect();
    (0..buckets).map(|id| need(&window, id)).collect()
}

/// Returns the need of one bucket in a window that starts at the first tick of `window`. Rises of
/// demand that are due to planned pods do not count.
pub(crate) fn need(window: &[&Tick], id: BucketId) -> u64 {
    let at = |tick: &Tick| tick.buckets.get(id).copied().unwrap_or_default();
    let Some((start, rest)) = window.split_first() else { return 0 };
    let (mut planned, mut most) = (0_u64, 0);
    for tick in rest {
        let BucketTick { demand_max, planned: newly, .. } = at(tick);
        planned = planned.saturating_add(newly);
        most = demand_max.saturating_sub(planned).max(most);
    }
    most.saturating_sub(at(start).demand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::sample;

    /// Checks the need of a window, whose ticks are given as (demand, planned).
    #[track_caller]
    fn check(ticks: &[(u64, u64)], expected: u64) {
        let mut history = History::new(&sample::catalog());
        for (minute, &(demand, planned)) in (0..).zip(ticks) {
            let bucket =
                BucketTick { demand, demand_max: demand, planned, ..BucketTick::default() };
            history.record(sample::tick(minute, vec![bucket]));
        }
        assert_eq!(last_needs(&history, ticks.len() - 1, 1)[0], expected);
    }

    #[test]
    fn a_need_is_the_largest_rise_without_what_was_planned() {
        check(&[(3, 0), (5, 0), (4, 0)], 2);
        check(&[(3, 9), (5, 0), (4, 0)], 2);
        check(&[(3, 0), (5, 2), (4, 0)], 0);
        check(&[(3, 0), (5, 1), (7, 0), (9, 2)], 3);
        check(&[(3, 0), (5, 9), (4, 0)], 0);
    }
}
