//! The shapes of the history, as the embedder packs them.

use embedder::{BucketId, Catalog, Demand, PackShape, Resources, Room, Shape, UNLIMITED};

use crate::record::{ShapeId, Tick, room_for};

/// Pods by shape.
pub(super) type Arrivals = Vec<(ShapeId, u64)>;

/// See the module.
pub(super) struct Shapes {
    catalog: Catalog,
    known: Vec<Option<Known>>,
}

/// A shape, made ready.
pub(super) struct Known {
    pub(super) packs: PackShape,
    /// Its size: the dominant share of a new instance, in eighths.
    pub(super) eighths: f64,
    shape: Shape,
}

impl Shapes {
    pub(super) fn new(catalog: &Catalog) -> Self {
        Self { catalog: catalog.clone(), known: Vec::new() }
    }

    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Notes the shapes that a tick saw first.
    pub(super) fn note(&mut self, tick: &Tick) {
        for (id, shape) in &tick.first_seen {
            let at = *id as usize;
            if self.known.len() <= at {
                self.known.resize_with(at + 1, || None);
            }
            let packs = PackShape::new(shape, &self.catalog);
            let eighths = packs
                .opens()
                .map_or(0.0, |(bucket, asks)| 8.0 * share(asks, self.catalog.buckets()[bucket].allocatable));
            self.known[at] = Some(Known { packs, eighths, shape: shape.clone() });
        }
    }

    pub(super) fn get(&self, id: ShapeId) -> Option<&Known> {
        self.known.get(id as usize)?.as_ref()
    }

    /// The size of pods together.
    pub(super) fn eighths(&self, arrivals: &[(ShapeId, u64)]) -> f64 {
        arrivals
            .iter()
            .map(|(id, count)| self.get(*id).map_or(0.0, |known| known.eighths * *count as f64))
            .sum()
    }

    /// The pods of which a new instance of a bucket would be opened, and how many instances they fill.
    pub(super) fn pods(&self, arrivals: &[(ShapeId, u64)], bucket: BucketId) -> (f64, f64) {
        let known = arrivals.iter().filter_map(|(id, count)| Some((self.get(*id)?, *count as f64)));
        let ours = known.filter(|(known, _)| known.packs.opens().is_some_and(|(opens, _)| opens == bucket));
        ours.fold((0.0, 0.0), |(pods, nodes), (known, count)| {
            (pods + count, nodes + known.eighths / 8.0 * count)
        })
    }

    /// Puts pods in the order of packing: smallest first.
    pub(super) fn sort(&self, arrivals: &mut Arrivals) {
        arrivals.sort_by_key(|&(id, _)| (self.asks(id), id));
    }

    /// How many more pods of a shape the free room holds.
    pub(super) fn room(&self, id: ShapeId, rooms: &[Room]) -> u64 {
        let Some(Known { shape, .. }) = self.get(id) else { return 0 };
        let buckets = self.catalog.buckets();
        let admits = |room: &&Room| shape.admitted_by(room.bucket, &buckets[room.bucket]);
        room_for(shape.asks, rooms.iter().filter(admits).map(|room| (room.free, room.nodes)))
    }

    /// Demand as a tick recorded it. Of free room the history knows how many pods of the most frequent shapes fit: rooms are
    /// made that hold just as many of each, largest first.
    pub(super) fn demand(&self, tick: &Tick) -> Demand {
        let mut frequent: Vec<&(ShapeId, u64)> = tick.room.iter().collect();
        frequent.sort_by_key(|(id, _)| std::cmp::Reverse((self.asks(*id), *id)));
        let mut rooms: Vec<Room> = Vec::new();
        for &&(id, count) in &frequent {
            let nodes = count.saturating_sub(self.room(id, &rooms));
            let opens = self.get(id).and_then(|known| known.packs.opens());
            if let Some((bucket, asks)) = opens.filter(|_| nodes > 0) {
                rooms.push(Room { bucket, free: Resources { pods: UNLIMITED, ..asks }, nodes });
            }
        }
        // The fullest node is filled first.
        rooms.reverse();
        let announced = tick.buckets.iter().map(|bucket| bucket.announced).collect();
        Demand {
            present: tick.buckets.iter().map(|bucket| bucket.demand).collect(),
            announced,
            rooms,
            ..Demand::default()
        }
    }

    fn asks(&self, id: ShapeId) -> Option<Resources> {
        self.get(id).map(|known| known.shape.asks)
    }
}

/// The dominant share of an instance that a pod takes.
pub(super) fn share(asks: Resources, allocatable: Resources) -> f64 {
    let pairs = asks.components().into_iter().zip(allocatable.components());
    pairs
        .filter(|&(_, have)| have != UNLIMITED && have > 0)
        .map(|(ask, have)| ask as f64 / have as f64)
        .fold(0.0, f64::max)
}
