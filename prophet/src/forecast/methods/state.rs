//! Past needs, weighted by the similarity of the state at the start of their windows to the present
//! state.
//!
//! The weight of a past window depends on recency, time of day and kind of day (`past.rs`), on
//! similarity of recent arrivals (`activity.rs`) and on similarity of free room. The latter is
//! exp(-d / 0.5), where the distance d is the mean of |ln(1 + r) - ln(1 + r')| over the shapes that
//! arrive most often. The number r is how many pods of a shape fit in the free room of occupied
//! nodes. The forecast is the weighted distribution of D.

use std::sync::Arc;

use crate::forecast::hyperparameters::ROOM_SCALE;
use crate::forecast::windows::Changes;
use crate::forecast::windows::PastNeeds;
use crate::forecast::windows::{Activity, ActivityLevel};
use crate::forecast::{
    demand_ahead::{Ahead, DemandForecaster},
    lead::Lead,
    question::{Forecaster, Outlook, Present},
};
use crate::record::{FREQUENT_SHAPES_MAX, History, ShapeId};

/// Forecasts D from past windows that started in a similar state.
pub struct StateForecaster {
    activity: Activity,
    needs: PastNeeds<Start>,
    changes: Changes,
    /// The shapes for which the last tick recorded free room, in rising order.
    frequent: Arc<[ShapeId]>,
    /// The similarity by distance in 32nds, in (0, 1].
    likeness: Vec<f64>,
    /// The activity level at the last tick.
    level: ActivityLevel,
}

/// The state at the start of a window.
struct Start {
    level: ActivityLevel,
    room: Roominess,
}

impl StateForecaster {
    /// A forecaster for `buckets` buckets.
    pub fn new(buckets: usize, lead: Lead) -> Self {
        Self {
            activity: Activity::new(lead),
            needs: PastNeeds::new(buckets, lead),
            changes: Changes::new(lead),
            frequent: Arc::new([]),
            likeness: (0..=STEPS).map(|step| (-(step as f64) / 32.0 / ROOM_SCALE).exp()).collect(),
            level: ActivityLevel::default(),
        }
    }

    fn roominess(&self, room: &[(ShapeId, u64)]) -> Roominess {
        let mut room = room.to_vec();
        room.truncate(FREQUENT_SHAPES_MAX);
        room.sort_unstable_by_key(|(id, _)| *id);
        let same = room.len() == self.frequent.len()
            && room.iter().zip(&*self.frequent).all(|(a, b)| a.0 == *b);
        let shapes = if same {
            Arc::clone(&self.frequent)
        } else {
            room.iter().map(|(id, _)| *id).collect()
        };
        let mut logs = [0; FREQUENT_SHAPES_MAX];
        logs.iter_mut().zip(&room).for_each(|(slot, (_, room))| *slot = log(*room));
        Roominess { shapes, logs }
    }

    /// Returns the similarity of a start to a moment with the given level and free room, in (0, 1].
    fn alike(&self, start: &Start, level: ActivityLevel, room: &Roominess) -> f64 {
        self.activity.likeness(level, start.level) * self.likeness(room, &start.room)
    }

    /// Returns the similarity of two free rooms over the shapes that both contain, in (0, 1].
    ///
    /// It is 1 where they share no shape.
    fn likeness(&self, one: &Roominess, other: &Roominess) -> f64 {
        let (apart, shared) = if Arc::ptr_eq(&one.shapes, &other.shapes) {
            let pairs = one.logs.iter().zip(&other.logs);
            (pairs.map(|(a, b)| u32::from(a.abs_diff(*b))).sum(), one.shapes.len())
        } else {
            let known = |id: &ShapeId| other.shapes.binary_search(id).ok().map(|at| other.logs[at]);
            let pairs = one
                .shapes
                .iter()
                .zip(&one.logs)
                .filter_map(|(id, log)| Some(log.abs_diff(known(id)?)));
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

impl Forecaster for StateForecaster {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        let level = self.activity.at_tick(history);
        self.level = level;
        let room = self.roominess(&tick.room);
        self.frequent = Arc::clone(&room.shapes);
        self.needs.learn(history, || Start { level, room });
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let level = self.activity.now(history, now);
        let frequent = history.last().map_or(&[][..], |tick| &tick.room);
        let room: Vec<(ShapeId, u64)> = frequent
            .iter()
            .map(|(id, _)| (*id, history.shapes().room(*id, &now.demand.rooms)))
            .collect();
        let room = self.roominess(&room);
        self.needs.outlook(|start| self.alike(start, level, &room))
    }
}

impl DemandForecaster for StateForecaster {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let room = self.roominess(history.last().map_or(&[][..], |tick| &tick.room));
        self.changes.ahead(history, ticks, || {
            self.needs.moments(|start| self.alike(start, self.level, &room))
        })
    }
}

/// ln(1 + room) of the shapes that arrive most, in 32nds.
struct Roominess {
    /// The shapes in rising order. Successive ticks with the same shapes share one allocation.
    shapes: Arc<[ShapeId]>,
    /// One value per shape. Unused entries are 0.
    logs: [i16; FREQUENT_SHAPES_MAX],
}

/// Largest distance between free rooms that is distinguished, in 32nds. At this distance of 4 the
/// similarity is exp(-4 / 0.5) = 0.0003, so larger distances do not differ in effect.
const STEPS: usize = 128;

#[cfg(test)]
mod tests {
    use embedder::{AcceleratorKind, Demand, Resources, Room, Shape};

    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// For two days a pod arrives every ten minutes. In odd hours there is no free room, so the pod
    /// needs a node.
    fn learnt() -> (StateForecaster, History) {
        let _catalog = sample::catalog();
        let half = Resources { cpu_millis: 4_000, ..Resources::default() };
        let shape = Shape::new(half, AcceleratorKind::default());
        let (mut state, mut history) =
            (StateForecaster::new(1, sample::LEAD), History::new(&sample::catalog()));
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
        let demand = Demand {
            present: vec![3],
            rooms: vec![Room { bucket: 0, free, nodes: 1 }],
            ..Demand::default()
        };
        let now = history.last().unwrap().time;
        let outlook = state.forecast(&history, &Present::at_tick(now, &demand));
        let chance = outlook.buckets[0].new_nodes.chance_of(1);
        assert!(chance_of_one.contains(&chance), "{chance}");
    }

    /// Three of ten windows of three ticks contain a rise, where there was no free room.
    #[test]
    fn moments_with_similar_free_room_count() {
        check(0, 0.24..0.34);
        check(16_000, 0.0..0.05);
    }

    #[test]
    fn similarity_is_computed_over_shared_shapes() {
        let state = StateForecaster::new(1, sample::LEAD);
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
