//! The state of each bucket in nodes: the pods that arrived, and the free room.
//!
//! A pod counts as its dominant share of a node of the bucket that would be opened for it. `prophet
//! trace ticks` writes the same values, so models are trained with the inputs that they run with.

use crate::record::{History, Tick};

/// The free room on occupied nodes of one bucket, in nodes.
///
/// The free room of a shape is the number of its pods that fit times their share of a node. The
/// shapes are those that arrive most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoomNodes {
    /// The mean over the shapes.
    pub mean: f64,
    /// The largest value of a shape.
    pub most: f64,
}

/// Returns the pods that arrived in `tick`, per bucket, in nodes. `history` must contain the tick.
pub fn arrivals(history: &History, tick: &Tick) -> Vec<f64> {
    let shapes = history.shapes();
    let mut nodes = vec![0.0; shapes.catalog().len()];
    for &(id, count) in &tick.arrivals {
        if let Some((bucket, share)) = shapes.node_share(id) {
            nodes[bucket] += share * count as f64;
        }
    }
    nodes
}

/// Returns the free room at `tick`, per bucket. `history` must contain the tick.
pub fn room(history: &History, tick: &Tick) -> Vec<RoomNodes> {
    let shapes = history.shapes();
    let mut sums = vec![(RoomNodes::default(), 0_u32); shapes.catalog().len()];
    for &(id, fit) in &tick.room {
        if let Some((bucket, share)) = shapes.node_share(id) {
            let (room, count) = &mut sums[bucket];
            room.mean += share * fit as f64;
            room.most = room.most.max(share * fit as f64);
            *count += 1;
        }
    }
    let mean = |(room, count): (RoomNodes, u32)| RoomNodes {
        mean: room.mean / f64::from(count.max(1)),
        most: room.most,
    };
    sums.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use embedder::{Bucket, Resources};

    use super::*;
    use crate::forecast::sample;

    #[test]
    fn a_pod_counts_as_its_dominant_share_of_the_bucket_that_is_opened() {
        let bucket = |name: &str, cpu_millis, gib: u64| {
            let bucket = testkit::bucket(name, cpu_millis, 0.0);
            let memory_bytes = gib << 30;
            Bucket { allocatable: Resources { memory_bytes, ..bucket.allocatable }, ..bucket }
        };
        let catalog = testkit::catalog_of([bucket("small", 2_000, 8), bucket("large", 8_000, 16)]);
        let mut history = History::new(&catalog);
        let shape = |cpu_millis, gib: u64| {
            testkit::shape(Resources { memory_bytes: gib << 30, ..testkit::cpus(cpu_millis) })
        };
        let tick = Tick {
            room: vec![(0, 3), (1, 1), (2, 0)],
            first_seen: vec![(0, shape(500, 1)), (1, shape(500, 4)), (2, shape(4_000, 4))],
            arrivals: vec![(0, 2), (2, 3), (9, 1)],
            ..sample::tick(0, vec![])
        };
        history.record(tick.clone());
        assert_eq!(arrivals(&history, &tick), [0.5, 1.5]);
        let nodes = |mean, most| RoomNodes { mean, most };
        assert_eq!(room(&history, &tick), [nodes(0.625, 0.75), nodes(0.0, 0.0)]);
    }
}
