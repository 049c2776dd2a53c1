//! What was needed in the past, where things were as they are now.
//!
//! The need of a past window, D, weighs by recency and time of day (`past.rs`), kind of day, what had just arrived
//! (`activity.rs`), and free room: exp(-d / 0.5), with d the mean of |ln(1 + r) - ln(1 + r')| over the shapes that arrive
//! most, r the pods of a shape that fit on occupied nodes. The weighted distribution of D is the forecast.

use chrono::{DateTime, Utc};
use embedder::{Catalog, Demand};

use super::activity::{Activity, Level};
use super::hyperparameters::ROOM_SCALE;
use super::needs::{Needs, Window};
use super::past::{Ages, kind_of_day};
use super::shapes::Shapes;
use super::{Forecaster, KnownFuture, Lead, Outlook};
use crate::record::{History, ShapeId};

/// See the module.
pub struct State {
    shapes: Shapes,
    activity: Activity,
    ages: Ages,
    needs: Needs<Moment>,
    now: (i64, Level),
}

/// What a window started with.
struct Moment {
    level: Level,
    room: Vec<(ShapeId, f64)>,
}

impl State {
    /// For the buckets of a catalog.
    pub fn new(catalog: &Catalog, lead: Lead) -> Self {
        Self {
            shapes: Shapes::new(catalog),
            activity: Activity::new(lead),
            ages: Ages::new(lead),
            needs: Needs::new(catalog.len(), lead),
            now: (0, 0),
        }
    }
}

impl Forecaster for State {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        self.shapes.note(tick);
        let level = self.activity.level(history, &self.shapes);
        self.now = (tick.time.timestamp(), level);
        self.needs.learn(history, || Moment { level, room: logs(tick.room.iter().copied()) });
        self.ages.reach(history.len());
    }

    fn forecast(&self, history: &History, demand: &Demand, _: &KnownFuture, _: DateTime<Utc>) -> Outlook {
        let (now, level) = self.now;
        let frequent = history.last().map_or(&[][..], |tick| &tick.room);
        let room = logs(frequent.iter().map(|(id, _)| (*id, self.shapes.room(*id, &demand.rooms))));
        self.needs.outlook(|Window { start, note, .. }| {
            let alike = self.activity.likeness(level, note.level) * likeness(&room, &note.room);
            self.ages.weight(*start, now) * kind_of_day(*start, now) * alike
        })
    }
}

/// ln(1 + room), in the order of shapes.
fn logs(room: impl Iterator<Item = (ShapeId, u64)>) -> Vec<(ShapeId, f64)> {
    let mut logs: Vec<(ShapeId, f64)> = room.map(|(id, room)| (id, (room as f64).ln_1p())).collect();
    logs.sort_unstable_by_key(|(id, _)| *id);
    logs
}

/// How alike two rooms are, over the shapes that both tell of; 1 where they share none.
fn likeness(one: &[(ShapeId, f64)], other: &[(ShapeId, f64)]) -> f64 {
    let (mut apart, mut shared) = (0.0, 0.0);
    let mut others = other.iter().peekable();
    for (id, log) in one {
        while others.next_if(|(other, _)| other < id).is_some() {}
        if let Some((_, other)) = others.next_if(|(other, _)| other == id) {
            apart += (log - other).abs();
            shared += 1.0;
        }
    }
    if shared > 0.0 { (-apart / shared / ROOM_SCALE).exp() } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use embedder::{AcceleratorKind, Resources, Room, Shape};

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
            let mut tick =
                sample::tick(minute, vec![BucketTick { demand: 3, demand_max: 3 + rise, announced: 0 }]);
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
        let outlook = state.forecast(&history, &demand, &KnownFuture::default(), now);
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
        let near = |a: &[(ShapeId, f64)], b: &[(ShapeId, f64)], expected: f64| {
            assert!((likeness(a, b) - expected).abs() < 1e-12, "{}", likeness(a, b));
        };
        near(&[(0, 1.0), (2, 0.0)], &[(1, 9.0), (2, 0.5), (3, 1.0)], (-1.0_f64).exp());
        near(&[(0, 1.0), (2, 0.0)], &[(0, 1.5), (2, 0.5)], (-1.0_f64).exp());
        near(&[(0, 1.0)], &[(1, 5.0)], 1.0);
    }
}
