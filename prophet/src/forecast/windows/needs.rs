//! The needs of past windows. The need of a window in a bucket is the largest demand within the
//! window less the demand at its start.

use placeholders::Reason;

use super::past::{Window, Windows};
use crate::forecast::{
    distribution::Distribution,
    lead::Lead,
    question::{BucketOutlook, Outlook},
};
use crate::record::sum_by_key;
use crate::record::{History, Tick};

/// Past windows with their needs. Each window has a note `N`, which the method makes at the start
/// of the window.
pub(crate) struct PastNeeds<N> {
    buckets: usize,
    windows: Windows<N, Box<[u64]>>,
}

impl<N> PastNeeds<N> {
    pub(crate) fn new(buckets: usize, lead: Lead) -> Self {
        Self { buckets, windows: Windows::new(lead) }
    }

    /// Learns from the last tick of `history`. `note` is called where a window starts with that
    /// tick.
    pub(crate) fn learn(&mut self, history: &History, note: impl FnOnce() -> N) {
        let (ticks, buckets) = (self.windows.ticks(), self.buckets);
        self.windows.learn(history, note, || last_needs(history, ticks, buckets));
    }

    /// Returns the starts of past windows in Unix seconds, with their weights times `likeness`.
    pub(crate) fn moments(&self, likeness: impl Fn(&N) -> f64) -> impl Iterator<Item = (i64, f64)> {
        self.windows.moments(move |window| likeness(&window.note))
    }

    /// Returns the distribution of past needs, with windows weighted by their age and by
    /// `likeness`.
    pub(crate) fn outlook(&self, likeness: impl Fn(&N) -> f64) -> Outlook {
        let mut drawn: Vec<(&[u64], u32)> = Vec::new();
        let alike = |window: &Window<N, _>| likeness(&window.note);
        self.windows.draw(alike, |window, times| drawn.push((&window.seen, times)));
        let reason =
            if self.windows.are_few() { Reason::TooLittleHistory } else { Reason::Forecast };
        let bucket = |id: usize| {
            let mut counts: Vec<(u64, f64)> =
                drawn.iter().map(|(needs, times)| (needs[id], f64::from(*times))).collect();
            counts.sort_unstable_by_key(|(need, _)| *need);
            sum_by_key(&mut counts, |a, b| a + b);
            BucketOutlook::new(Distribution::weighted(counts.into_iter()), reason)
        };
        Outlook { buckets: (0..self.buckets).map(bucket).collect() }
    }
}

/// Returns the need, per bucket and in nodes, of the window of `ticks` ticks that ends with the
/// last tick.
pub(crate) fn last_needs(history: &History, ticks: usize, buckets: usize) -> Box<[u64]> {
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
