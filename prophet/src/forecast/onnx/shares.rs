//! What a network is told of the state of each bucket, in nodes: the pods that arrived, and the room that they find.
//!
//! A pod's share of a node is the dominant one of the bucket that would be opened for it. `prophet trace ticks` writes the
//! same figures, so that networks are trained with what they are fed.

use embedder::{BucketId, Catalog, PackShape, Resources};

use crate::forecast::shapes::share;
use crate::record::{ShapeId, Tick};

/// What pods take of a node, by shape. Bounded by the shapes that a history tells apart.
#[derive(Clone, Debug)]
pub struct NodeShares {
    catalog: Catalog,
    /// The bucket that is opened for a shape, and the share of its node that a pod takes.
    shapes: Vec<Option<(BucketId, f64)>>,
}

/// The room on occupied nodes of one bucket for the shapes that arrive most, in nodes: pods that fit times their share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoomNodes {
    /// The mean over these shapes.
    pub mean: f64,
    /// That of the shape that finds most.
    pub most: f64,
}

impl NodeShares {
    /// No shape seen yet.
    pub fn new(catalog: &Catalog) -> Self {
        Self { catalog: catalog.clone(), shapes: Vec::new() }
    }

    /// Takes in the shapes that a tick sees for the first time.
    pub fn note(&mut self, tick: &Tick) {
        for (id, shape) in &tick.first_seen {
            let at = *id as usize;
            if self.shapes.len() <= at {
                self.shapes.resize(at + 1, None);
            }
            let opens = PackShape::new(shape, &self.catalog).opens();
            self.shapes[at] = opens.map(|(bucket, asks)| {
                // The pod itself is no resource of size.
                let sized = Resources { pods: 0, ..asks };
                (bucket, share(sized, self.catalog.buckets()[bucket].allocatable))
            });
        }
    }

    /// The pods that arrived since the tick before, per bucket, in nodes.
    pub fn arrivals(&self, tick: &Tick) -> Vec<f64> {
        let mut nodes = vec![0.0; self.catalog.len()];
        for &(id, count) in &tick.arrivals {
            if let Some((bucket, share)) = self.known(id) {
                nodes[bucket] += share * count as f64;
            }
        }
        nodes
    }

    /// The room at a tick, per bucket.
    pub fn room(&self, tick: &Tick) -> Vec<RoomNodes> {
        let mut sums = vec![(RoomNodes::default(), 0_u32); self.catalog.len()];
        for &(id, fit) in &tick.room {
            if let Some((bucket, share)) = self.known(id) {
                let (room, shapes) = &mut sums[bucket];
                room.mean += share * fit as f64;
                room.most = room.most.max(share * fit as f64);
                *shapes += 1;
            }
        }
        let mean = |(room, shapes): (RoomNodes, u32)| RoomNodes {
            mean: room.mean / f64::from(shapes.max(1)),
            most: room.most,
        };
        sums.into_iter().map(mean).collect()
    }

    fn known(&self, id: ShapeId) -> Option<(BucketId, f64)> {
        self.shapes.get(id as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use embedder::{AcceleratorKind, Shape};

    use super::*;
    use crate::catalog::{CatalogFile, InstanceTypeEntry};

    #[test]
    fn shares_are_dominant_ones_of_the_bucket_that_is_opened() {
        let entry = |name: &str, cpu_millis, gib: u64| InstanceTypeEntry {
            name: name.into(),
            cpu_millis: Some(cpu_millis),
            memory_bytes: Some(gib << 30),
            ..InstanceTypeEntry::default()
        };
        let file = CatalogFile { instance_types: vec![entry("small", 2_000, 8), entry("large", 8_000, 16)] };
        let mut shares = NodeShares::new(&file.catalog().unwrap());
        let shape = |cpu_millis, gib: u64| {
            let asks = Resources { cpu_millis, memory_bytes: gib << 30, ..Resources::default() };
            Shape::new(asks, AcceleratorKind::default())
        };
        let tick = Tick {
            time: DateTime::default(),
            buckets: vec![],
            room: vec![(0, 3), (1, 1), (2, 0)],
            first_seen: vec![(0, shape(500, 1)), (1, shape(500, 4)), (2, shape(4_000, 4))],
            arrivals: vec![(0, 2), (2, 3), (9, 1)],
        };
        shares.note(&tick);
        assert_eq!(shares.arrivals(&tick), [0.5, 1.5]);
        let room = |mean, most| RoomNodes { mean, most };
        assert_eq!(shares.room(&tick), [room(0.625, 0.75), room(0.0, 0.0)]);
    }
}
