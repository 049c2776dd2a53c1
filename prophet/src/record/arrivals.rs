//! Pods submitted since the last tick, by shape, and the most frequent shapes.
//!
//! The history records the free room of the most frequent shapes only.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::tick::ShapeId;

/// The number of most frequent shapes whose free room is recorded.
pub(crate) const FREQUENT_SHAPES_MAX: usize = 8;

/// Counts the pods submitted, by shape.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    since_tick: BTreeMap<ShapeId, u64>,
    /// Shapes that arrived for the first time since the last tick.
    first_seen: Vec<ShapeId>,
    /// The number of pods submitted so far, by shape.
    total: Vec<u64>,
    frequent: Vec<ShapeId>,
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
            self.first_seen.push(shape);
        }
        self.total[at] = self.total[at].saturating_add(count);
        if self.frequent.contains(&shape) {
            return;
        }
        if self.frequent.len() < FREQUENT_SHAPES_MAX {
            self.frequent.push(shape);
            return;
        }
        let rarest = self
            .frequent
            .iter_mut()
            .min_by_key(|shape| (self.total[**shape as usize], Reverse(**shape)));
        if let Some(rarest) = rarest.filter(|rarest| self.total[**rarest as usize] < self.total[at])
        {
            *rarest = shape;
        }
    }

    /// The most frequent shapes, at most 8, in no particular order.
    pub fn frequent(&self) -> &[ShapeId] {
        &self.frequent
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
    /// among them, and starts the next tick.
    pub fn take(&mut self) -> (Vec<(ShapeId, u64)>, Vec<ShapeId>) {
        (
            std::mem::take(&mut self.since_tick).into_iter().collect(),
            std::mem::take(&mut self.first_seen),
        )
    }
}
