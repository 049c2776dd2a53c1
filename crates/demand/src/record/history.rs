//! The latest ticks, in memory.

use std::collections::VecDeque;

use embedder::Catalog;

use super::shape_table::ShapeTable;
use super::tick::Tick;

/// Ticks kept in memory: two weeks of one-minute ticks, which is the longest look-back of a
/// forecaster.
pub const TICKS_MAX: usize = 14 * 24 * 60;

/// The latest ticks, oldest first.
#[derive(Clone)]
pub struct History {
    ticks: VecDeque<Tick>,
    shapes: ShapeTable,
}

impl History {
    /// An empty history for the buckets of a catalog.
    pub fn new(catalog: &Catalog) -> Self {
        Self { ticks: VecDeque::new(), shapes: ShapeTable::new(catalog) }
    }

    /// The shapes of all ticks recorded so far, prepared for packing.
    pub fn shapes(&self) -> &ShapeTable {
        &self.shapes
    }

    /// Adds a tick. A tick that is not later than the last one is dropped, because it is a
    /// repetition or the clock went back.
    pub fn record(&mut self, tick: Tick) {
        if self.ticks.back().is_some_and(|last| last.time >= tick.time) {
            return;
        }
        if self.ticks.len() == TICKS_MAX {
            self.ticks.pop_front();
        }
        self.shapes.note(&tick);
        self.ticks.push_back(tick);
    }

    /// The number of ticks.
    pub fn len(&self) -> usize {
        self.ticks.len()
    }

    /// Whether the history has no tick.
    pub fn is_empty(&self) -> bool {
        self.ticks.is_empty()
    }

    /// The tick at index `at`, counted from the oldest.
    pub fn get(&self, at: usize) -> Option<&Tick> {
        self.ticks.get(at)
    }

    /// The last tick.
    pub fn last(&self) -> Option<&Tick> {
        self.ticks.back()
    }

    /// The last `n` ticks, oldest first, or all ticks if there are fewer.
    pub fn latest(&self, n: usize) -> impl ExactSizeIterator<Item = &Tick> + DoubleEndedIterator {
        self.ticks.range(self.ticks.len().saturating_sub(n)..)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::forecast::sample;

    #[test]
    fn ticks_that_are_not_later_than_the_last_one_are_dropped() {
        let mut history = History::new(&sample::catalog());
        for seconds in [60, 120, 120, 60, 180] {
            let time = DateTime::from_timestamp(seconds, 0).unwrap();
            history.record(Tick { time, ..sample::tick(0, vec![]) });
        }
        let times: Vec<_> = history.latest(9).map(|tick| tick.time.timestamp()).collect();
        assert_eq!(times, [60, 120, 180]);
    }
}
