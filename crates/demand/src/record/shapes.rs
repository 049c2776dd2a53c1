//! The shapes of pods, by number.
//!
//! A [`ShapeId`] identifies a shape within one process only, because shapes are numbered in the
//! order of their first use.

use std::collections::HashMap;

use embedder::{AcceleratorKind, Shape};

use super::tick::ShapeId;

/// The most shapes in one process: five times the number observed in a cluster of a million pods.
/// The limit exists because a job that requests a slightly different amount each time would
/// otherwise fill the memory.
const SHAPES_MAX: usize = 10_000;

/// From these numbers of shapes on, the CPU and the memory of new ones are rounded down to this
/// many leading bits. Two bits leave about a hundred amounts of each, so new sizes still count
/// after thousands that were used once.
const ROUNDED: [(usize, u32); 2] = [(3 * SHAPES_MAX / 4, 2), (SHAPES_MAX / 2, 6)];

/// The shapes of one process, each with its [`ShapeId`].
///
/// A shape refers to buckets by their index in one catalog. When the catalog changes, create new
/// `Shapes` and replay the history.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    ids: HashMap<Shape, ShapeId>,
    by_id: Vec<Shape>,
    /// A cache of parsed keys, because most lines of a history have the same keys.
    read: HashMap<String, ShapeId>,
}

impl Shapes {
    /// The number of a shape, and whether the shape is new. `None` when the shape is new and the
    /// limit of 10,000 shapes is reached.
    ///
    /// From 5,000 shapes on, the CPU and the memory of a new one are rounded down by less than
    /// 1/32, and from 7,500 on by less than a third, so that requests that differ a little share a
    /// shape. A smaller shape fits each node that the exact one fits.
    pub fn intern(&mut self, shape: &Shape) -> Option<(ShapeId, bool)> {
        let mut shape = canonical(shape);
        if let Some(id) = self.ids.get(&shape) {
            return Some((*id, false));
        }
        let rounded = ROUNDED.into_iter().find(|(from, _)| self.by_id.len() >= *from);
        if let Some((_, bits)) = rounded {
            let requests = &mut shape.requests;
            requests.cpu_millis = rounded_down(requests.cpu_millis, bits);
            requests.memory_bytes = rounded_down(requests.memory_bytes, bits);
            requests.ephemeral_bytes = rounded_down(requests.ephemeral_bytes, bits);
            if let Some(id) = self.ids.get(&shape) {
                return Some((*id, false));
            }
        }
        let id =
            ShapeId::try_from(self.by_id.len()).ok().filter(|_| self.by_id.len() < SHAPES_MAX)?;
        self.ids.insert(shape.clone(), id);
        self.by_id.push(shape);
        Some((id, true))
    }

    /// Like [`Shapes::intern`], for a key that always denotes the same shape. `parse` is called
    /// only for a new key.
    ///
    /// Also returns `None` when `parse` does.
    pub fn intern_key(
        &mut self,
        key: &str,
        parse: impl FnOnce() -> Option<Shape>,
    ) -> Option<(ShapeId, bool)> {
        if let Some(id) = self.read.get(key) {
            return Some((*id, false));
        }
        let interned = self.intern(&parse()?)?;
        // Several keys may denote one shape, so the cache needs a limit of its own.
        if self.read.len() < SHAPES_MAX {
            self.read.insert(key.into(), interned.0);
        }
        Some(interned)
    }

    /// The shape with this number.
    pub fn get(&self, id: ShapeId) -> Option<&Shape> {
        self.by_id.get(id as usize)
    }

    /// The number of shapes.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are as many shapes as there may be, so that a new one has no number.
    pub fn is_full(&self) -> bool {
        self.by_id.len() >= SHAPES_MAX
    }

    /// Whether there is no shape.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// The number with only this many leading bits.
fn rounded_down(number: u64, leading: u32) -> u64 {
    let bits = u64::BITS - number.leading_zeros();
    let cut = bits.saturating_sub(leading);
    number >> cut << cut
}

/// The shape, with the default accelerator kind if it requests no accelerators, so that shapes that
/// differ only in a kind without meaning are equal.
pub fn canonical(shape: &Shape) -> Shape {
    let mut shape = shape.clone();
    if shape.requests.accelerators == 0 {
        shape.accelerator_kind = AcceleratorKind::default();
    }
    shape
}

#[cfg(test)]
mod tests {
    use embedder::Resources;

    use super::*;

    #[test]
    fn shapes_are_numbered_in_the_order_of_first_use_up_to_a_limit() {
        let mut shapes = Shapes::default();
        let shape = |cpu_millis: u64, kind: &str| {
            Shape::new(Resources { cpu_millis, ..Resources::default() }, AcceleratorKind::new(kind))
        };
        assert_eq!(shapes.intern(&shape(7, "x")), Some((0, true)));
        assert_eq!(
            shapes.intern(&shape(7, "y")),
            Some((0, false)),
            "the kind is ignored for a shape without accelerators"
        );
        for cpu_millis in 1..ROUNDED[1].0 as u64 {
            assert!(shapes.intern(&shape(10 + cpu_millis, "x")).is_some_and(|(_, new)| new));
        }
        assert_eq!(shapes.intern(&shape(11, "x")), Some((1, false)));
        // 16,895 millicores and fewer, down to 16,384, share a shape from now on.
        let (id, is_new) = shapes.intern(&shape(16_895, "x")).unwrap();
        assert!(is_new && shapes.get(id).is_some_and(|of| of.requests.cpu_millis == 16_384));
        assert_eq!(shapes.intern(&shape(16_500, "x")), Some((id, false)));
        let gpus = |accelerators| {
            let requests = Resources { accelerators, ..Resources::default() };
            Shape::new(requests, AcceleratorKind::new("x"))
        };
        while shapes.len() < ROUNDED[0].0 {
            shapes.intern(&gpus(1 + shapes.len() as u64));
        }
        // 24,575 millicores and fewer, down to 16,384, share a shape from now on.
        assert_eq!(shapes.intern(&shape(24_575, "x")), Some((id, false)));
        assert!(!shapes.is_full());
        while !shapes.is_full() {
            shapes.intern(&gpus(1 + shapes.len() as u64));
        }
        assert_eq!(shapes.intern(&shape(1_000_000, "x")), None);
        assert_eq!((shapes.len(), shapes.is_empty()), (SHAPES_MAX, false));
    }
}
