//! The shapes of the history, in the form that the embedder packs.

use embedder::{BucketId, Catalog, Demand, PackShape, Resources, Room, Shape, UNLIMITED};

use super::tick::{ShapeId, Tick};

/// Pods by shape.
pub(crate) type PodCounts = Vec<(ShapeId, u64)>;

/// The shapes of the history by [`ShapeId`], prepared for packing on one catalog.
#[derive(Clone)]
pub struct ShapeTable {
    catalog: Catalog,
    known: Vec<Option<KnownShape>>,
}

/// A shape with the results that packing needs.
#[derive(Clone)]
pub(crate) struct KnownShape {
    pub(crate) packs: PackShape,
    /// The dominant share of a new instance that one pod takes, in eighths of the instance.
    pub(crate) eighths: f64,
    /// The bucket of the new instance, and the dominant share of it that one pod takes, in [0, 1].
    /// The `pods` resource is not counted.
    node_share: Option<(BucketId, f64)>,
    shape: Shape,
}

impl ShapeTable {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        Self { catalog: catalog.clone(), known: Vec::new() }
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Adds the shapes that arrived first in this tick.
    pub(crate) fn note(&mut self, tick: &Tick) {
        for (id, shape) in &tick.first_seen {
            let at = *id as usize;
            if self.known.len() <= at {
                self.known.resize_with(at + 1, || None);
            }
            let packs = PackShape::new(shape, &self.catalog);
            let eighths = packs.opens().map_or(0.0, |(bucket, requests)| {
                8.0 * share(requests, self.catalog.buckets()[bucket].allocatable)
            });
            let node_share = packs.opens().map(|(bucket, requests)| {
                let sized = Resources { pods: 0, ..requests };
                (bucket, share(sized, self.catalog.buckets()[bucket].allocatable))
            });
            self.known[at] = Some(KnownShape { packs, eighths, node_share, shape: shape.clone() });
        }
    }

    /// The bucket that a new instance for this shape has, and the dominant share of the instance
    /// that one pod takes, in [0, 1].
    pub(crate) fn node_share(&self, id: ShapeId) -> Option<(BucketId, f64)> {
        self.get(id)?.node_share
    }

    pub(crate) fn get(&self, id: ShapeId) -> Option<&KnownShape> {
        self.known.get(id as usize)?.as_ref()
    }

    /// The total size of pods, in eighths of an instance.
    pub(crate) fn eighths(&self, arrivals: &[(ShapeId, u64)]) -> f64 {
        arrivals
            .iter()
            .map(|(id, count)| self.get(*id).map_or(0.0, |known| known.eighths * *count as f64))
            .sum()
    }

    /// The number of pods for which a new instance has this bucket, and the number of instances
    /// that they fill.
    pub(crate) fn pods(&self, arrivals: &[(ShapeId, u64)], bucket: BucketId) -> (f64, f64) {
        let known = arrivals.iter().filter_map(|(id, count)| Some((self.get(*id)?, *count as f64)));
        let ours = known
            .filter(|(known, _)| known.packs.opens().is_some_and(|(opens, _)| opens == bucket));
        ours.fold((0.0, 0.0), |(pods, nodes), (known, count)| {
            (pods + count, nodes + known.eighths / 8.0 * count)
        })
    }

    /// Sorts pods into the order of packing: smallest first.
    pub(crate) fn sort(&self, arrivals: &mut PodCounts) {
        arrivals.sort_by_key(|&(id, _)| (self.requests(id), id));
    }

    /// How many more pods of a shape the free room holds.
    pub(crate) fn room(&self, id: ShapeId, rooms: &[Room]) -> u64 {
        let Some(KnownShape { shape, .. }) = self.get(id) else { return 0 };
        let buckets = self.catalog.buckets();
        let admits = |room: &&Room| shape.admitted_by(room.bucket, &buckets[room.bucket]);
        room_for(shape.requests, rooms.iter().filter(admits).map(|room| (room.free, room.nodes)))
    }

    /// The demand that a tick recorded.
    ///
    /// Of the free room, the history records only how many pods of the most frequent shapes fit. So
    /// this function constructs rooms that hold exactly as many pods of each shape, largest shape
    /// first.
    pub fn demand(&self, tick: &Tick) -> Demand {
        let mut frequent: Vec<&(ShapeId, u64)> = tick.room.iter().collect();
        frequent.sort_by_key(|(id, _)| std::cmp::Reverse((self.requests(*id), *id)));
        let mut rooms: Vec<Room> = Vec::new();
        for &&(id, count) in &frequent {
            let nodes = count.saturating_sub(self.room(id, &rooms));
            let opens = self.get(id).and_then(|known| known.packs.opens());
            if let Some((bucket, requests)) = opens.filter(|_| nodes > 0) {
                rooms.push(Room { bucket, free: Resources { pods: UNLIMITED, ..requests }, nodes });
            }
        }
        // Packing fills the fullest node first.
        rooms.reverse();
        let announced = tick.buckets.iter().map(|bucket| bucket.announced).collect();
        Demand {
            present: tick.buckets.iter().map(|bucket| bucket.demand).collect(),
            announced,
            rooms,
            ..Demand::default()
        }
    }

    fn requests(&self, id: ShapeId) -> Option<Resources> {
        self.get(id).map(|known| known.shape.requests)
    }
}

/// The dominant share of an instance that a pod takes.
fn share(requests: Resources, allocatable: Resources) -> f64 {
    let pairs = requests.amounts().into_iter().zip(allocatable.amounts());
    pairs
        .filter(|&(_, have)| have != UNLIMITED && have > 0)
        .map(|(request, have)| request as f64 / have as f64)
        .fold(0.0, f64::max)
}

/// How many more pods of a shape fit on nodes with this free room.
pub(super) fn room_for(shape: Resources, free: impl Iterator<Item = (Resources, u64)>) -> u64 {
    free.fold(0, |sum, (free, nodes)| sum.saturating_add(free.holds(shape).saturating_mul(nodes)))
}
