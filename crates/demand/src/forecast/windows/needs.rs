//! The needs of past windows. The need of a window in a bucket is the largest demand within the
//! window less the demand at its start.

use placeholders::Reason;

use super::NewNodes;
use super::drawn::DrawnNodes;
use super::past::Windows;
use crate::forecast::{distribution::Distribution, lead::Lead};
use crate::record::{History, Tick};

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
    let mut ticks = history.latest(ticks + 1);
    let start = ticks.next();
    let mut most = vec![0; buckets];
    for tick in ticks {
        most.iter_mut()
            .zip(&tick.buckets)
            .for_each(|(most, bucket)| *most = bucket.demand_max.max(*most));
    }
    let at_start =
        |id: usize| start.and_then(|tick: &Tick| tick.buckets.get(id)).map_or(0, |b| b.demand);
    most.iter().enumerate().map(|(id, most)| most.saturating_sub(at_start(id))).collect()
}
