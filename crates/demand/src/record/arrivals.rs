//! Pods submitted since the last tick, by shape, and the most frequent shapes.
//!
//! The history records the free room of the most frequent shapes only.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::tick::ShapeId;

/// The number of most frequent shapes whose free room is recorded.
pub(crate) const FREQUENT_SHAPES_MAX: usize = 8;

/// Counts the pods submitted, by shape.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    since_tick: BTreeMap<ShapeId, u64>,
    /// Shapes that arrived for the first time since the last tick.
    first_seen: BTreeSet<ShapeId>,
    /// The number of pods submitted so far, by shape.
    total: Vec<u64>,
    frequent: BTreeSet<ShapeId>,
}

impl Arrivals {
    /// Counts `count` submitted pods of a shape.
    pub fn add(&mut self, shape: ShapeId, count: u64) {
        let since_tick = self.since_tick.entry(shape).or_default();
        *since_tick = since_tick.saturating_add(count);
        let at = shape as usize;
        if self.total.len() <= at {
            self.total.resize(at + 1, 0);
        }
        if self.total[at] == 0 {
            self.first_seen.insert(shape);
        }
        self.total[at] = self.total[at].saturating_add(count);
        if self.frequent.contains(&shape) {
            return;
        }
        if self.frequent.len() < FREQUENT_SHAPES_MAX {
            self.frequent.insert(shape);
            return;
        }
        let rank = |shape: &ShapeId| (self.total[*shape as usize], Reverse(*shape));
        let rarest = self.frequent.iter().copied().min_by_key(rank);
        if let Some(rarest) = rarest.filter(|rarest| rank(rarest).0 < rank(&shape).0) {
            self.frequent.remove(&rarest);
            self.frequent.insert(shape);
        }
    }

    /// The most frequent shapes, at most 8, in ascending order.
    pub fn frequent(&self) -> impl Iterator<Item = ShapeId> {
        self.frequent.iter().copied()
    }

    /// The number of pods submitted so far, by shape.
    pub fn totals(&self) -> impl Iterator<Item = (ShapeId, u64)> {
        let some = self.total.iter().enumerate().filter(|(_, pods)| **pods > 0);
        some.filter_map(|(shape, pods)| Some((ShapeId::try_from(shape).ok()?, *pods)))
    }

    /// The pods submitted since the last tick, by shape.
    pub fn since_tick(&self) -> Vec<(ShapeId, u64)> {
        self.since_tick.iter().map(|(shape, count)| (*shape, *count)).collect()
    }

    /// Ends a tick: returns the pods submitted since the last tick, by shape, and the new shapes
    /// among them, both in ascending order of shapes, and starts the next tick.
    pub fn take(&mut self) -> (Vec<(ShapeId, u64)>, Vec<ShapeId>) {
        (
            std::mem::take(&mut self.since_tick).into_iter().collect(),
            std::mem::take(&mut self.first_seen).into_iter().collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The controller counts the pods of a tick in an order of its own.
    #[test]
    fn the_order_within_a_tick_does_not_show() {
        let of = |order: [ShapeId; 3]| {
            let mut arrivals = Arrivals::default();
            for shape in order {
                arrivals.add(shape, 1);
            }
            let frequent: Vec<ShapeId> = arrivals.frequent().collect();
            (frequent, arrivals.take())
        };
        assert_eq!(of([2, 0, 1]), of([0, 1, 2]));
    }
}
