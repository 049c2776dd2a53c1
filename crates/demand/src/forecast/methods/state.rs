//! Past needs, weighted by the similarity of the state at the start of their windows to the present
//! state.
//!
//! The weight of a past window depends on recency, time of day and kind of day (`past.rs`), on
//! similarity of recent arrivals (`activity.rs`) and on similarity of free room (`roominess.rs`).
//! The forecast is the weighted distribution of D.

use crate::forecast::windows::{
    Activity, ActivityLevel, Changes, PastNeeds, RoomLikeness, Roominess, Rooms,
};
use crate::forecast::{
    cache::{Cache, Copied},
    demand_ahead::Ahead,
    distribution::Distribution,
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::{History, ShapeId};

/// Forecasts D from past windows that started in a similar state.
#[derive(Clone)]
pub struct StateForecaster {
    activity: Activity,
    needs: PastNeeds<State>,
    changes: Changes,
    likeness: RoomLikeness,
    /// The activity level at the last tick.
    level: ActivityLevel,
    kept: Cache<Reused>,
}

/// What a forecast keeps for the next one.
#[derive(Clone, Default)]
struct Reused {
    last: Option<Last>,
    pool: Option<Pool>,
}

/// The states at the starts of the windows that are drawn, arranged for comparison.
#[derive(Clone)]
struct Pool {
    /// The version of the windows.
    version: u64,
    levels: Vec<ActivityLevel>,
    rooms: Rooms,
}

/// The last forecast, which is reused while the windows and the state are the same.
#[derive(Clone)]
struct Last {
    version: u64,
    state: State,
    new_nodes: Vec<Distribution>,
}

/// The state at a moment, as far as it is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
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
            likeness: RoomLikeness::new(),
            level: ActivityLevel::default(),
            kept: Cache::default(),
        }
    }

    /// Returns the similarity of two states, in (0, 1].
    fn alike(&self, one: &State, other: &State) -> f64 {
        self.activity.likeness(one.level, other.level)
            * self.likeness.between(&one.room, &other.room)
    }
}

impl Pool {
    fn new(version: u64, states: &[State]) -> Self {
        Self {
            version,
            levels: states.iter().map(|state| state.level).collect(),
            rooms: Rooms::new(states.iter().map(|state| &state.room)),
        }
    }
}

impl Forecaster for StateForecaster {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        let state = State {
            level: self.activity.at_tick(history),
            room: Roominess::new(tick.room.iter().copied()),
        };
        self.level = state.level;
        self.needs.learn(history, || state);
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let frequent = history.last().map_or(&[][..], |tick| &tick.room);
        let shapes = history.shapes();
        let fit = |&(id, _): &(ShapeId, u64)| (id, shapes.room(id, &now.demand.rooms));
        let state = State {
            level: self.activity.now(history, now),
            room: Roominess::new(frequent.iter().map(fit)),
        };
        let version = self.needs.version();
        let Reused { last, pool } = &mut *self.kept.lock();
        let same = last.take().filter(|last| last.version == version && last.state == state);
        let mut draw = || {
            self.needs.distributions(|states| {
                let same = pool.take().filter(|pool| pool.version == version);
                let pool = pool.insert(same.unwrap_or_else(|| Pool::new(version, states)));
                let rooms = pool.rooms.likenesses(&state.room, &self.likeness);
                let levels = pool.levels.iter();
                let levels = levels.map(|level| self.activity.likeness(*level, state.level));
                levels.zip(rooms).map(|(level, room)| level * room)
            })
        };
        let last = last.insert(same.unwrap_or_else(|| Last { version, state, new_nodes: draw() }));
        let reason = self.needs.reason();
        let bucket = |new_nodes: &Distribution| BucketOutlook::new(new_nodes.clone(), reason);
        Outlook { buckets: last.new_nodes.iter().map(bucket).collect() }
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.clone()))
    }
}

impl DemandForecaster for StateForecaster {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let room = history.last().map_or(&[][..], |tick| &tick.room);
        let state = State { level: self.level, room: Roominess::new(room.iter().copied()) };
        self.changes.ahead(history, ticks, || self.needs.moments(|start| self.alike(start, &state)))
    }
}

#[cfg(test)]
mod tests {
    use embedder::{Demand, Resources, Room};

    use super::*;
    use crate::forecast::sample;
    use crate::record::BucketTick;

    /// For two days a pod arrives every ten minutes. In odd hours there is no free room, so the pod
    /// needs a node.
    fn learnt() -> (StateForecaster, History) {
        let shape = testkit::shape(testkit::cpus(4_000));
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
}
