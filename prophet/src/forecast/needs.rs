//! What past windows needed: for each bucket, the largest demand within the window less the demand at its start.

use std::collections::VecDeque;
use std::sync::Arc;

use placeholders::Reason;

use super::hyperparameters::{STRIDE, WINDOWS_MIN};
use super::past::draw;
use super::{BucketOutlook, Distribution, Lead, Outlook};
use crate::record::{History, Tick};

/// Past windows, each with what its method notes at its start.
pub(super) struct Needs<T> {
    buckets: usize,
    ticks: usize,
    closed: VecDeque<Window<T>>,
    /// Starts of windows that are not over, every [`STRIDE`]-th tick.
    open: VecDeque<(usize, i64, T)>,
    learnt: usize,
}

/// A window that is over.
pub(super) struct Window<T> {
    /// In Unix seconds.
    pub(super) start: i64,
    /// What was noted then.
    pub(super) note: T,
    /// Per bucket.
    needs: Arc<[u64]>,
}

impl<T> Needs<T> {
    pub(super) fn new(buckets: usize, lead: Lead) -> Self {
        Self { buckets, ticks: lead.ticks(), closed: VecDeque::new(), open: VecDeque::new(), learnt: 0 }
    }

    /// Learns from the last tick of `history`; `note` is kept of it where a window starts.
    pub(super) fn learn(&mut self, history: &History, note: impl FnOnce() -> T) {
        let Some(tick) = history.last() else { return };
        if let Some((_, start, note)) = self.open.pop_front_if(|(at, ..)| *at + self.ticks == self.learnt) {
            let needs = self.last_window(history);
            self.closed.push_back(Window { start, note, needs });
        }
        if self.learnt.is_multiple_of(STRIDE) {
            self.open.push_back((self.learnt, tick.time.timestamp(), note()));
        }
        self.learnt += 1;
        let oldest = history.get(0).map_or(0, |tick| tick.time.timestamp());
        while self.closed.pop_front_if(|window| window.start < oldest).is_some() {}
    }

    fn last_window(&self, history: &History) -> Arc<[u64]> {
        let mut ticks = history.latest(self.ticks + 1);
        let start = ticks.next();
        let mut most = vec![0; self.buckets];
        for tick in ticks {
            most.iter_mut()
                .zip(&tick.buckets)
                .for_each(|(most, bucket)| *most = bucket.demand_max.max(*most));
        }
        let at_start = |id: usize| start.and_then(|tick: &Tick| tick.buckets.get(id)).map_or(0, |b| b.demand);
        most.iter().enumerate().map(|(id, most)| most.saturating_sub(at_start(id))).collect()
    }

    /// The starts of past windows with their weights.
    pub(super) fn moments(&self, weight: impl Fn(&Window<T>) -> f64) -> impl Iterator<Item = (i64, f64)> {
        self.closed.iter().map(move |window| (window.start, weight(window)))
    }

    /// The distribution of what was needed, past windows by weight.
    pub(super) fn outlook(&self, weight: impl Fn(&Window<T>) -> f64) -> Outlook {
        let weights: Vec<f64> = self.closed.iter().map(weight).collect();
        let mut drawn: Vec<(&[u64], u32)> = Vec::new();
        draw(&weights, |at, times| drawn.push((&self.closed[at].needs, times)));
        let few = self.closed.len() * STRIDE < WINDOWS_MIN;
        let basis = if few { Reason::TooLittleHistory } else { Reason::Forecast };
        let bucket = |id: usize| {
            let mut counts: Vec<(u64, f64)> =
                drawn.iter().map(|(needs, times)| (needs[id], f64::from(*times))).collect();
            counts.sort_unstable_by_key(|(need, _)| *need);
            counts.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                kept.1 += if same { next.1 } else { 0.0 };
                same
            });
            BucketOutlook::new(Distribution::weighted(counts.into_iter()), basis)
        };
        Outlook { buckets: (0..self.buckets).map(bucket).collect() }
    }
}
