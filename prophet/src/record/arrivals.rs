//! Pods submitted since the last tick, by shape; and the shapes that arrive most, whose free room is recorded.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::ShapeId;

/// Shapes whose free room is recorded: those that arrive most.
pub(crate) const FREQUENT_SHAPES_MAX: usize = 8;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    since_tick: BTreeMap<ShapeId, u64>,
    /// Shapes that arrived for the first time since the last tick.
    first_seen: Vec<ShapeId>,
    /// All that ever came, by shape.
    total: Vec<u64>,
    frequent: Vec<ShapeId>,
}

impl Arrivals {
    /// Pods of a shape arrived.
    pub fn add(&mut self, shape: ShapeId, count: u64) {
        *self.since_tick.entry(shape).or_default() += count;
        let at = shape as usize;
        if self.total.len() <= at {
            self.total.resize(at + 1, 0);
        }
        if self.total[at] == 0 {
            self.first_seen.push(shape);
        }
        self.total[at] += count;
        if self.frequent.contains(&shape) {
            return;
        }
        if self.frequent.len() < FREQUENT_SHAPES_MAX {
            self.frequent.push(shape);
            return;
        }
        let rarest =
            self.frequent.iter_mut().min_by_key(|shape| (self.total[**shape as usize], Reverse(**shape)));
        if let Some(rarest) = rarest.filter(|rarest| self.total[**rarest as usize] < self.total[at]) {
            *rarest = shape;
        }
    }

    /// The shapes that arrive most.
    pub fn frequent(&self) -> &[ShapeId] {
        &self.frequent
    }

    /// The pods since the last tick, by shape.
    pub fn since_tick(&self) -> Vec<(ShapeId, u64)> {
        self.since_tick.iter().map(|(shape, count)| (*shape, *count)).collect()
    }

    /// At a tick: the pods since the last one by shape, and the shapes among them that are new.
    pub fn take(&mut self) -> (Vec<(ShapeId, u64)>, Vec<ShapeId>) {
        (std::mem::take(&mut self.since_tick).into_iter().collect(), std::mem::take(&mut self.first_seen))
    }
}
