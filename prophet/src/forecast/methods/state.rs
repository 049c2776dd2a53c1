//! Past needs, weighted by the similarity of the state at the start of their windows to the present
//! state.
//!
//! The weight of a past window depends on recency, time of day and kind of day (`past.rs`), on
//! similarity of recent arrivals (`activity.rs`) and on similarity of free room. The latter is
//! exp(-d / 0.5), where the distance d is the mean of |ln(1 + r) - ln(1 + r')| over the shapes that
//! arrive most often. The number r is how many pods of a shape fit in the free room of occupied
//! nodes. The forecast is the weighted distribution of D.

use crate::forecast::hyperparameters::ROOM_SCALE;
use crate::forecast::windows::Changes;
use crate::forecast::windows::PastNeeds;
use crate::forecast::windows::{Activity, ActivityLevel};
use crate::forecast::{
    demand_ahead::Ahead,
    distribution::Distribution,
    kept::{Copied, Kept},
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::{FREQUENT_SHAPES_MAX, History, ShapeId};

/// Forecasts D from past windows that started in a similar state.
#[derive(Clone)]
pub struct StateForecaster {
    activity: Activity,
    needs: PastNeeds<State>,
    changes: Changes,
    /// The similarity of two free rooms, in (0, 1], by the number of shapes that both contain and
    /// by the sum of their distances in 32nds. A table takes less time than a division.
    likeness: Vec<Vec<f64>>,
    /// The activity level at the last tick.
    level: ActivityLevel,
    last: Kept<Option<Last>>,
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
            likeness: (0..=FREQUENT_SHAPES_MAX).map(likeness).collect(),
            level: ActivityLevel::default(),
            last: Kept::default(),
        }
    }

    /// Returns the similarity of two states, in (0, 1].
    fn alike(&self, one: &State, other: &State) -> f64 {
        self.activity.likeness(one.level, other.level) * self.likeness(&one.room, &other.room)
    }

    /// Returns the similarity of two free rooms over the shapes that both contain, in (0, 1].
    ///
    /// It is 1 where they share no shape.
    fn likeness(&self, one: &Roominess, other: &Roominess) -> f64 {
        let (apart, shared) = if one.shapes == other.shapes && one.len == other.len {
            // Unused entries are 0 in both.
            let pairs = one.logs.iter().zip(&other.logs);
            (pairs.map(|(a, b)| u32::from(a.abs_diff(*b))).sum(), usize::from(one.len))
        } else {
            one.apart(other)
        };
        let row = &self.likeness[shared];
        row[(apart as usize).min(row.len() - 1)]
    }
}

/// Returns the similarities, in (0, 1], of free rooms that share `shapes` shapes, by the sum of the
/// distances of these shapes in 32nds, up to the largest distance that is distinguished.
fn likeness(shapes: usize) -> Vec<f64> {
    let of_mean = |mean: usize| (-(mean as f64) / 32.0 / ROOM_SCALE).exp();
    (0..=STEPS * shapes).map(|apart| of_mean(apart / shapes.max(1))).collect()
}

fn log(room: u64) -> i16 {
    #[expect(clippy::cast_possible_truncation, reason = "32 ln(2^64) is 1420")]
    let log = (32.0 * (room as f64).ln_1p()).round() as i16;
    log
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
        let mut last = self.last.lock();
        let same = last.take().filter(|last| last.version == version && last.state == state);
        let draw = || self.needs.distributions(|start| self.alike(start, &state));
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

/// ln(1 + room) of the shapes that arrive most, in 32nds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Roominess {
    /// The number of shapes, at most [`FREQUENT_SHAPES_MAX`]. One byte, because a forecast reads
    /// the free room of many windows.
    len: u8,
    /// The shapes in rising order. Unused entries are 0.
    shapes: [ShapeId; FREQUENT_SHAPES_MAX],
    /// One value per shape. Unused entries are 0.
    logs: [i16; FREQUENT_SHAPES_MAX],
}

impl Roominess {
    /// `fits` has the number of pods that fit, by shape. Shapes beyond the most that are recorded
    /// are left out.
    fn new(fits: impl Iterator<Item = (ShapeId, u64)>) -> Self {
        let mut room = Self { len: 0, shapes: Default::default(), logs: Default::default() };
        let mut fits: Vec<(ShapeId, u64)> = fits.take(FREQUENT_SHAPES_MAX).collect();
        fits.sort_unstable_by_key(|(id, _)| *id);
        for (at, (id, fit)) in fits.into_iter().enumerate() {
            room.len += 1;
            (room.shapes[at], room.logs[at]) = (id, log(fit));
        }
        room
    }

    fn shapes(&self) -> &[ShapeId] {
        &self.shapes[..usize::from(self.len)]
    }

    /// Returns the sum of the distances over the shapes that both contain, and the number of these
    /// shapes.
    fn apart(&self, other: &Self) -> (u32, usize) {
        let known = |id: &ShapeId| other.shapes().binary_search(id).ok().map(|at| other.logs[at]);
        let pairs = self.shapes().iter().zip(&self.logs);
        let pairs = pairs.filter_map(|(id, log)| Some(log.abs_diff(known(id)?)));
        pairs.fold((0, 0), |(sum, n), apart| (sum + u32::from(apart), n + 1))
    }
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
        let rooms = |shapes: &[ShapeId], logs: &[i16]| {
            let len = u8::try_from(shapes.len()).unwrap();
            let mut room = Roominess { len, ..Roominess::new(std::iter::empty()) };
            room.shapes[..shapes.len()].copy_from_slice(shapes);
            room.logs[..logs.len()].copy_from_slice(logs);
            room
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
