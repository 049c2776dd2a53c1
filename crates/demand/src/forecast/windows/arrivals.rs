//! Past windows of arrivals, and the new nodes that each of them needs in the present free room.
//!
//! Many windows contain the same arrivals. Such windows are of one kind, and each kind is packed at
//! most once while the free room does not change. A kind with pods of one shape is not packed,
//! because its new nodes follow from the number of such pods that fit on the free room. Other kinds
//! with the same first shape share the packing of these pods.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use embedder::{BucketId, FreeRoom, Room};
use placeholders::Reason;

use super::NewNodes;
use super::activity::{Activity, ActivityLevel};
use super::past::Windows;
use crate::forecast::{lead::Lead, question::Present};
use crate::record::{History, PodCounts, ShapeId, ShapeTable, sum_by_key};

/// Past windows with the activity level at their start and the arrivals within them.
#[derive(Clone)]
pub(crate) struct PastArrivals {
    activity: Activity,
    windows: Windows<ActivityLevel, KindId>,
    kinds: Kinds,
    /// The activity level at the last tick.
    level: ActivityLevel,
    /// The time of the last tick.
    learnt: Option<DateTime<Utc>>,
    /// The last two free rooms. There are two because a method learns at a tick with the free room
    /// of the history, and then forecasts with the present free room.
    rooms: [PackedRoom; 2],
    /// The place of the present free room in `rooms`.
    room: usize,
    /// How often each kind was drawn in the present draw; 0 between draws.
    times_drawn: Vec<u32>,
}

/// The number of a kind of window.
pub(crate) type KindId = usize;

/// The kinds of all windows that are not forgotten.
#[derive(Clone, Default)]
struct Kinds {
    ids: HashMap<Arrivals, KindId>,
    known: Vec<Kind>,
    /// The numbers of forgotten kinds, which new kinds reuse.
    free: Vec<KindId>,
}

/// The number of pods per shape, in the order of packing.
type Arrivals = Arc<[(ShapeId, u64)]>;

/// The windows with the same arrivals.
#[derive(Clone)]
struct Kind {
    arrivals: Arrivals,
    /// The number of windows.
    windows: usize,
    /// The pods that are packed first. They are copied here, because a draw is sorted by them.
    first: Option<(ShapeId, u64)>,
}

/// The new nodes that arrivals need in a free room.
#[derive(Clone, Default)]
struct Packed {
    /// The version of the free room; 0 before the arrivals are packed.
    version: u64,
    new_nodes: NewNodes,
}

/// A free room for which kinds are packed.
#[derive(Clone, Default)]
struct PackedRoom {
    rooms: Vec<Room>,
    /// A number that identifies the free room. It is 0 before the first rooms are known.
    version: u64,
    /// Built from `rooms` for the first kind that is packed, with the first pods that are on it.
    free: Option<(FreeRoom, Option<(ShapeId, u64)>)>,
    /// How many pods of a shape fit on it, by shape.
    capacities: Vec<Capacity>,
    /// By kind. They are not part of [`Kind`], because a forecast reads hundreds of them, and close
    /// together they are read in less time.
    packed: Vec<Packed>,
}

/// What is known of the number of pods of one shape that fit on a free room, if no other pods are
/// placed on it.
#[derive(Clone, Copy, Default)]
struct Capacity {
    /// At least this many pods fit.
    pods: u64,
    /// Whether exactly `pods` pods fit.
    exact: bool,
}

impl Capacity {
    /// Returns how many of `count` pods do not fit. `search` returns this number for any count, but
    /// slowly. It is called for twice as many pods, because the next kinds often have more.
    fn left(&mut self, count: u64, search: impl FnOnce(u64) -> u64) -> u64 {
        if count > self.pods && !self.exact {
            let tried = count.saturating_mul(2);
            let left = search(tried);
            (self.pods, self.exact) = (tried - left, left > 0);
        }
        count.saturating_sub(self.pods)
    }
}

impl PastArrivals {
    /// Past windows as long as `lead`.
    pub(crate) fn new(lead: Lead) -> Self {
        Self {
            activity: Activity::new(lead),
            windows: Windows::new(lead),
            kinds: Kinds::default(),
            level: ActivityLevel::default(),
            learnt: None,
            rooms: Default::default(),
            room: 0,
            times_drawn: Vec::new(),
        }
    }

    /// Learns from the last tick of `history`. A tick is learnt once, even if several methods that
    /// share these windows learn from it.
    pub(crate) fn learn(&mut self, history: &History) {
        let time = history.last().map(|tick| tick.time);
        if std::mem::replace(&mut self.learnt, time) == time {
            return;
        }
        let level = self.activity.at_tick(history);
        self.level = level;
        let (ticks, kinds) = (self.windows.ticks(), &mut self.kinds);
        let rooms = &mut self.rooms;
        let kind = || {
            let (id, new) = kinds.intern(arrivals(history, ticks));
            for PackedRoom { packed, .. } in rooms.iter_mut().filter(|_| new) {
                packed.resize_with(packed.len().max(id + 1), Packed::default);
                packed[id] = Packed::default();
            }
            id
        };
        for forgotten in self.windows.learn(history, || level, kind) {
            self.kinds.forget(forgotten);
        }
    }

    /// Returns the activity level at the last tick.
    pub(crate) fn level(&self) -> ActivityLevel {
        self.level
    }

    /// Returns the activity level at the moment `now`.
    pub(crate) fn level_now(&self, history: &History, now: &Present<'_>) -> ActivityLevel {
        self.activity.now(history, now)
    }

    /// Returns whether the history suffices for a forecast.
    pub(crate) fn reason(&self) -> Reason {
        if self.windows.are_few() { Reason::TooLittleHistory } else { Reason::Forecast }
    }

    /// Returns a number that changes with the windows from which [`PastArrivals::draw`] draws.
    pub(crate) fn version(&self) -> u64 {
        self.windows.version()
    }

    /// Draws windows, weighted by their age and, where `level` is given, by the similarity of their
    /// activity level to it. Returns the kinds that were drawn, with the number of times. Kinds
    /// with the same first shape are adjacent, with rising counts, because then only the difference
    /// is packed for the next kind.
    pub(crate) fn draw(&mut self, level: Option<ActivityLevel>) -> Vec<(KindId, u32)> {
        let mut times_drawn = std::mem::take(&mut self.times_drawn);
        times_drawn.resize(self.kinds.known.len(), 0);
        let mut kinds = Vec::new();
        self.windows.draw(
            |levels| levels.iter().map(|note| self.likeness(level, *note)),
            |kind, times| {
                if times_drawn[*kind] == 0 {
                    kinds.push(*kind);
                }
                times_drawn[*kind] += times;
            },
        );
        let drawn = kinds.into_iter().map(|kind| (kind, std::mem::take(&mut times_drawn[kind])));
        let mut drawn: Vec<(KindId, u32)> = drawn.collect();
        self.times_drawn = times_drawn;
        drawn.sort_unstable_by_key(|(kind, _)| self.kinds.known[*kind].first);
        drawn
    }

    /// Returns the starts of past windows in Unix seconds, with their weights as in
    /// [`PastArrivals::draw`].
    pub(crate) fn moments(&self, level: Option<ActivityLevel>) -> Vec<(i64, f64)> {
        self.windows.moments(|note| self.likeness(level, *note)).collect()
    }

    fn likeness(&self, level: Option<ActivityLevel>, note: ActivityLevel) -> f64 {
        level.map_or(1.0, |level| self.activity.likeness(level, note))
    }

    /// Sets the free room into which [`PastArrivals::new_nodes`] packs. Returns a number that
    /// identifies the free room.
    pub(crate) fn set_room(&mut self, rooms: &[Room]) -> u64 {
        let known = |room: &PackedRoom| room.version > 0 && room.rooms == rooms;
        if !known(&self.rooms[self.room]) {
            let latest = self.rooms[self.room].version;
            self.room = 1 - self.room;
            let room = &mut self.rooms[self.room];
            if !known(room) {
                room.rooms.clear();
                room.rooms.extend_from_slice(rooms);
                (room.version, room.free) = (room.version.max(latest) + 1, None);
                room.capacities.clear();
            }
        }
        self.rooms[self.room].version
    }

    /// Returns the new nodes by bucket that the arrivals of a kind need in the free room. Buckets
    /// that need none are left out.
    pub(crate) fn new_nodes(&mut self, kind: KindId, history: &History) -> &[(BucketId, u64)] {
        let room = &mut self.rooms[self.room];
        if room.packed[kind].version != room.version {
            let new_nodes = room.new_nodes(&self.kinds.known[kind].arrivals, history.shapes());
            room.packed[kind] = Packed { version: room.version, new_nodes };
        }
        &room.packed[kind].new_nodes
    }
}

impl PackedRoom {
    /// Returns the new nodes that arrivals need in the free room.
    fn new_nodes(&mut self, arrivals: &[(ShapeId, u64)], shapes: &ShapeTable) -> NewNodes {
        if arrivals.is_empty() {
            return NewNodes::new();
        }
        let Self { rooms, free, capacities, .. } = self;
        let (free, first) = free.get_or_insert_with(|| (FreeRoom::new(rooms), None));
        let packs = |(id, count): (ShapeId, u64)| Some((&shapes.get(id)?.packs, count));
        let opened = |(_, nodes): &(BucketId, u64)| *nodes > 0;
        if let [pods] = *arrivals {
            let Some((shape, count)) = packs(pods) else { return NewNodes::new() };
            let at = pods.0 as usize;
            capacities.resize(capacities.len().max(at + 1), Capacity::default());
            let left = capacities[at].left(count, |count| free.left(shape, count));
            return shape.new_instances(left).into_iter().filter(opened).collect();
        }
        let (pods, rest) = (arrivals[0], &arrivals[1..]);
        let added = first.filter(|(id, count)| *id == pods.0 && *count <= pods.1);
        if added.is_none() {
            free.clear_first();
        }
        let added = added.map_or(0, |(_, count)| count);
        if let Some((shape, count)) = packs(pods).filter(|(_, count)| *count > added) {
            free.add_first(shape, count - added, shapes.catalog());
        }
        *first = Some(pods);
        let rest = rest.iter().copied().filter_map(packs);
        let nodes = free.opened(rest, shapes.catalog()).iter().copied().enumerate();
        nodes.filter(opened).collect()
    }
}

impl Kinds {
    /// Counts a window with these arrivals. Returns its kind, and whether the kind is new.
    fn intern(&mut self, arrivals: Arrivals) -> (KindId, bool) {
        if let Some(id) = self.ids.get(&arrivals) {
            self.known[*id].windows += 1;
            return (*id, false);
        }
        let first = arrivals.first().copied();
        let kind = Kind { arrivals: Arc::clone(&arrivals), windows: 1, first };
        let id = self.free.pop().unwrap_or(self.known.len());
        match self.known.get_mut(id) {
            Some(free) => *free = kind,
            None => self.known.push(kind),
        }
        self.ids.insert(arrivals, id);
        (id, true)
    }

    /// Forgets a window of a kind, and the kind with its last window.
    fn forget(&mut self, id: KindId) {
        let kind = &mut self.known[id];
        kind.windows -= 1;
        if kind.windows == 0 {
            self.ids.remove(&kind.arrivals);
            self.free.push(id);
        }
    }
}

/// Returns the arrivals of the last `ticks` ticks.
fn arrivals(history: &History, ticks: usize) -> Arrivals {
    let mut merged: PodCounts =
        history.latest(ticks).flat_map(|tick| tick.arrivals.iter().copied()).collect();
    merged.sort_unstable_by_key(|(id, _)| *id);
    sum_by_key(&mut merged, u64::saturating_add);
    history.shapes().sort(&mut merged);
    merged.into()
}

#[cfg(test)]
mod tests {
    use embedder::{Order, PodRequest, Resources, Shape, pack};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::forecast::sample;

    /// The CPU of the shapes, by id. A node of the sample has 8,000, so the last one fits nowhere.
    const CPU_MILLIS: [u64; 4] = [1_000, 3_000, 4_000, 9_000];

    fn shape(cpu_millis: u64) -> Shape {
        testkit::shape(testkit::cpus(cpu_millis))
    }

    /// Learns a tick with these arrivals.
    fn learn(past: &mut PastArrivals, history: &mut History, mut arrivals: PodCounts) {
        arrivals.sort_unstable();
        sum_by_key(&mut arrivals, u64::saturating_add);
        let mut tick = sample::tick(i64::try_from(history.len()).unwrap(), vec![]);
        if history.is_empty() {
            tick.first_seen = (0..).zip(CPU_MILLIS.map(shape)).collect();
        }
        tick.arrivals = arrivals;
        history.record(tick);
        past.learn(history);
    }

    /// Returns the new nodes of a kind by a packing of its own.
    fn packed_alone(arrivals: &[(ShapeId, u64)], rooms: &[Room]) -> Vec<(BucketId, u64)> {
        let pods = |&(id, count): &(ShapeId, u64)| PodRequest {
            shape: shape(CPU_MILLIS[id as usize]),
            count,
        };
        let pods: Vec<PodRequest> = arrivals.iter().map(pods).collect();
        let opened = pack(&pods, rooms, &sample::catalog(), Order::Given).opened;
        opened.into_iter().enumerate().filter(|(_, nodes)| *nodes > 0).collect()
    }

    proptest! {
        /// Kinds are packed one after the other, on several free rooms and in both orders, and new
        /// ones are learnt while a free room stays. Each result must be that of a packing of its
        /// own.
        #[test]
        fn kinds_need_as_many_new_nodes_as_a_packing_of_their_own(
            ticks in vec(vec((0..4_u32, 1..40_u64), 0..4), 160..220),
            free in vec(vec((0..9_u64, 1..4_u64), 0..12), 1..4),
        ) {
            let mut past = PastArrivals::new(sample::LEAD);
            let mut history = History::new(&sample::catalog());
            let (before, after) = ticks.split_at(130);
            for arrivals in before {
                learn(&mut past, &mut history, arrivals.clone());
            }
            let mut after = after.iter();
            for (at, free) in free.iter().chain(&free).enumerate() {
                let room = |&(cpus, nodes): &(u64, u64)| {
                    let free = Resources { cpu_millis: 1_000 * cpus, ..Resources::UNLIMITED };
                    Room { bucket: 0, free, nodes }
                };
                let rooms: Vec<Room> = free.iter().map(room).collect();
                past.set_room(&rooms);
                // The first order packs most kinds, so rooms begin with one and the other in turn.
                for falling in [at % 2 == 1, at % 2 == 0] {
                    let mut drawn = past.draw(None);
                    if falling {
                        drawn.reverse();
                    }
                    for (kind, _) in drawn {
                        let arrivals = past.kinds.known[kind].arrivals.clone();
                        let expected = packed_alone(&arrivals, &rooms);
                        prop_assert_eq!(past.new_nodes(kind, &history), expected, "{:?}", arrivals);
                    }
                    for arrivals in after.by_ref().take(12) {
                        learn(&mut past, &mut history, arrivals.clone());
                    }
                }
            }
        }
    }

    #[test]
    fn a_capacity_is_searched_for_twice_as_many_pods() {
        let (mut capacity, mut searches) = (Capacity::default(), 0);
        let mut left = |count: u64| {
            capacity.left(count, |count| {
                searches += 1;
                count.saturating_sub(10)
            })
        };
        assert_eq!([3, 6, 7, 20, 30].map(&mut left), [0, 0, 0, 10, 20]);
        assert_eq!(searches, 2);
    }

    #[test]
    fn a_kind_lives_as_long_as_its_windows() {
        let mut kinds = Kinds::default();
        let intern = |kinds: &mut Kinds, pods: u64| kinds.intern([(0, pods)].into()).0;
        let ids = [1, 2, 1].map(|pods| intern(&mut kinds, pods));
        assert_eq!(ids, [0, 1, 0]);
        kinds.forget(0);
        assert_eq!(intern(&mut kinds, 1), 0);
        kinds.forget(1);
        assert_eq!([3, 2].map(|pods| intern(&mut kinds, pods)), [1, 2]);
        assert_eq!((kinds.ids.len(), kinds.known.len()), (3, 3));
    }
}
