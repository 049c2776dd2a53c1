//! What was needed in the past, where things were as they are now.
//!
//! The need of a past window, D, weighs by recency and time of day (`past.rs`), kind of day, what had just arrived
//! (`activity.rs`), and free room: exp(-d / 0.5), with d the mean of |ln(1 + r) - ln(1 + r')| over the shapes that arrive
//! most, r the pods of a shape that fit on occupied nodes. The weighted distribution of D is the forecast.

use std::sync::Arc;

use embedder::Catalog;

use super::activity::{Activity, Level};
use super::ahead::Changes;
use super::hyperparameters::ROOM_SCALE;
use super::needs::Needs;
use super::shapes::Shapes;
use super::{Ahead, Forecaster, Lead, Outlook, Present};
use crate::record::{FREQUENT_SHAPES_MAX, History, ShapeId};

/// See the module.
pub struct State {
    shapes: Shapes,
    activity: Activity,
    needs: Needs<Start>,
    changes: Changes,
    /// The shapes of the last tick's room.
    frequent: Arc<[ShapeId]>,
    /// By steps of distance.
    likeness: Vec<f64>,
    /// What had arrived just before the last tick.
    level: Level,
}

/// What a window started with.
struct Start {
    level: Level,
    room: Roominess,
}

impl State {
    /// For the buckets of a catalog.
    pub fn new(catalog: &Catalog, lead: Lead) -> Self {
        Self {
            shapes: Shapes::new(catalog),
            activity: Activity::new(lead),
            needs: Needs::new(catalog.len(), lead),
            changes: Changes::new(lead),
            frequent: Arc::new([]),
            likeness: (0..=STEPS).map(|step| (-(step as f64) / 32.0 / ROOM_SCALE).exp()).collect(),
            level: Level::default(),
        }
    }

    fn roominess(&self, room: &[(ShapeId, u64)]) -> Roominess {
        let mut room = room.to_vec();
        room.truncate(FREQUENT_SHAPES_MAX);
        room.sort_unstable_by_key(|(id, _)| *id);
        let same =
            room.len() == self.frequent.len() && room.iter().zip(&*self.frequent).all(|(a, b)| a.0 == *b);
        let shapes = if same { Arc::clone(&self.frequent) } else { room.iter().map(|(id, _)| *id).collect() };
        let mut logs = [0; FREQUENT_SHAPES_MAX];
        logs.iter_mut().zip(&room).for_each(|(slot, (_, room))| *slot = log(*room));
        Roominess { shapes, logs }
    }

    /// How alike a start is to a moment of this level and this room.
    fn alike(&self, start: &Start, level: Level, room: &Roominess) -> f64 {
        self.activity.likeness(level, start.level) * self.likeness(room, &start.room)
    }

    /// How alike two rooms are, over the shapes that both tell of; 1 where they share none.
    fn likeness(&self, one: &Roominess, other: &Roominess) -> f64 {
        let (apart, shared) = if Arc::ptr_eq(&one.shapes, &other.shapes) {
            let pairs = one.logs.iter().zip(&other.logs);
            (pairs.map(|(a, b)| u32::from(a.abs_diff(*b))).sum(), one.shapes.len())
        } else {
            let known = |id: &ShapeId| other.shapes.binary_search(id).ok().map(|at| other.logs[at]);
            let pairs =
                one.shapes.iter().zip(&one.logs).filter_map(|(id, log)| Some(log.abs_diff(known(id)?)));
            pairs.fold((0, 0), |(sum, n), apart| (sum + u32::from(apart), n + 1))
        };
        self.likeness[(apart as usize / shared.max(1)).min(STEPS)]
    }
}

fn log(room: u64) -> i16 {
    #[expect(clippy::cast_possible_truncation, reason = "32 ln(2^64) is 1420")]
    let log = (32.0 * (room as f64).ln_1p()).round() as i16;
    log
}

impl Forecaster for State {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        self.shapes.note(tick);
        let level = self.activity.at_tick(history, &self.shapes);
        self.level = level;
        let room = self.roominess(&tick.room);
        self.frequent = Arc::clone(&room.shapes);
        self.needs.learn(history, || Start { level, room });
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let level = self.activity.now(history, &self.shapes, now);
        let frequent = history.last().map_or(&[][..], |tick| &tick.room);
        let room: Vec<(ShapeId, u64)> =
            frequent.iter().map(|(id, _)| (*id, self.shapes.room(*id, &now.demand.rooms))).collect();
        let room = self.roominess(&room);
        self.needs.outlook(|start| self.alike(start, level, &room))
    }

    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let room = self.roominess(history.last().map_or(&[][..], |tick| &tick.room));
        self.changes
            .ahead(history, ticks, || self.needs.moments(|start| self.alike(start, self.level, &room)))
    }
}

/// ln(1 + room) of the shapes that arrive most, in 32nds.
struct Roominess {
    /// Rising. Shared as long as it is the same.
    shapes: Arc<[ShapeId]>,
    /// 0 where there is no shape.
    logs: [i16; FREQUENT_SHAPES_MAX],
}

/// 32nds up to a distance of 4: farther is as good as nowhere.
const STEPS: usize = 128;

#[cfg(test)]
mod tests {
    use embedder::{AcceleratorKind, Demand, Resources, Room, Shape};

    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// For two days, every ten minutes a pod arrives; it needs a node in odd hours, when there is no room for it.
    fn learnt() -> (State, History) {
        let catalog = sample::catalog();
        let half = Resources { cpu_millis: 4_000, ..Resources::default() };
        let shape = Shape::new(half, AcceleratorKind::default());
        let (mut state, mut history) = (State::new(&catalog, sample::LEAD), History::default());
        for minute in 0..2_880 {
            let full = minute / 60 % 2 == 1;
            let rise = u64::from(full && minute % 10 == 5);
            let mut tick = sample::tick(
                minute,
                vec![BucketTick { demand: 3, demand_max: 3 + rise, ..BucketTick::default() }],
            );
            tick.room = vec![(0, if full { 0 } else { 4 })];
            tick.first_seen = if minute == 0 { vec![(0, shape.clone())] } else { vec![] };
            history.record(tick);
            state.learn(&history);
        }
        (state, history)
    }

    #[track_caller]
    fn check(free: u64, chance_of_one: std::ops::Range<f64>) {
        let (state, history) = learnt();
        let free = Resources { cpu_millis: free, ..Resources::UNLIMITED };
        let demand =
            Demand { present: vec![3], rooms: vec![Room { bucket: 0, free, nodes: 1 }], ..Demand::default() };
        let now = history.last().unwrap().time;
        let outlook = state.forecast(&history, &Present::at_tick(now, &demand));
        let chance = outlook.buckets[0].new_nodes.chance_of(1);
        assert!(chance_of_one.contains(&chance), "{chance}");
    }

    /// Three of ten windows of three ticks see a rise, where there was no room.
    #[test]
    fn moments_with_like_room_count() {
        check(0, 0.24..0.34);
        check(16_000, 0.0..0.05);
    }

    #[test]
    fn likeness_is_over_shared_shapes() {
        let state = State::new(&sample::catalog(), sample::LEAD);
        let rooms = |shapes: &[ShapeId], of: &[i16]| {
            let mut logs = [0; FREQUENT_SHAPES_MAX];
            logs[..of.len()].copy_from_slice(of);
            Roominess { shapes: shapes.into(), logs }
        };
        let near = |a: &Roominess, b: &Roominess, expected: f64| {
            assert!((state.likeness(a, b) - expected).abs() < 1e-9, "{}", state.likeness(a, b));
        };
        let one = rooms(&[0, 2], &[32, 0]);
        near(&one, &rooms(&[1, 2, 3], &[288, 16, 32]), (-1.0_f64).exp());
        near(&one, &rooms(&[0, 2], &[48, 16]), (-1.0_f64).exp());
        near(&one, &rooms(&[1], &[160]), 1.0);
        near(&one, &one, 1.0);
    }
}
