//! The free room at a moment, as far as it is compared, and the similarity of two free rooms.
//!
//! The similarity is exp(-d / 0.5), where the distance d is the mean of |ln(1 + r) - ln(1 + r')|
//! over the shapes that arrive most often at both moments. The number r is how many pods of a shape
//! fit in the free room of occupied nodes.
//!
//! A forecast compares the present free room with those of many past moments, which mostly have the
//! same shapes. Therefore [`Rooms`] finds the shapes in common once for each set of shapes.

use std::array::from_fn;
use std::collections::HashMap;

use crate::forecast::hyperparameters::ROOM_SCALE;
use crate::record::{FREQUENT_SHAPES_MAX, ShapeId};

/// ln(1 + room) of the shapes that arrive most, in 32nds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roominess {
    shapes: Shapes,
    logs: Logs,
}

/// Shapes in rising order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shapes {
    /// The number of shapes, at most [`FREQUENT_SHAPES_MAX`].
    len: u8,
    /// Unused entries are 0.
    ids: [ShapeId; FREQUENT_SHAPES_MAX],
}

/// One value per shape. Unused entries are 0.
type Logs = [i16; FREQUENT_SHAPES_MAX];

impl Roominess {
    /// `fits` has the number of pods that fit, by shape. Shapes beyond the most that are recorded
    /// are left out.
    pub(crate) fn new(fits: impl Iterator<Item = (ShapeId, u64)>) -> Self {
        let mut room =
            Self { shapes: Shapes { len: 0, ids: Default::default() }, logs: Logs::default() };
        let mut fits: Vec<(ShapeId, u64)> = fits.take(FREQUENT_SHAPES_MAX).collect();
        fits.sort_unstable_by_key(|(id, _)| *id);
        for (at, (id, fit)) in fits.into_iter().enumerate() {
            room.shapes.len += 1;
            (room.shapes.ids[at], room.logs[at]) = (id, log(fit));
        }
        room
    }
}

impl Shapes {
    /// Returns the place of a shape.
    fn place(&self, id: ShapeId) -> Option<usize> {
        self.ids[..usize::from(self.len)].binary_search(&id).ok()
    }
}

/// The largest value of [`log`]: 32 ln(2^64), rounded.
const LOG_MAX: usize = 1_420;

/// A sum of distances is a number of 16 bits.
const _: () = assert!(FREQUENT_SHAPES_MAX * LOG_MAX <= u16::MAX as usize);

fn log(room: u64) -> i16 {
    #[expect(clippy::cast_possible_truncation, reason = "32 ln(2^64) is 1420")]
    let log = (32.0 * (room as f64).ln_1p()).round() as i16;
    log
}

/// Largest distance between free rooms that is distinguished, in 32nds. At this distance of 4 the
/// similarity is exp(-4 / 0.5) = 0.0003, so larger distances do not differ in effect.
const STEPS: usize = 128;

/// The similarity of two free rooms, in (0, 1], by the number of shapes that both contain and by
/// the sum of their distances in 32nds. A table takes less time than a division.
#[derive(Clone)]
pub(crate) struct RoomLikeness(Vec<Vec<f64>>);

impl RoomLikeness {
    pub(crate) fn new() -> Self {
        let of_mean = |mean: usize| (-(mean as f64) / 32.0 / ROOM_SCALE).exp();
        let of_shapes = |shapes: usize| {
            (0..=STEPS * shapes).map(|apart| of_mean(apart / shapes.max(1))).collect()
        };
        Self((0..=FREQUENT_SHAPES_MAX).map(of_shapes).collect())
    }

    /// Returns the similarity of two free rooms over the shapes that both contain, in (0, 1].
    ///
    /// It is 1 where they share no shape.
    pub(crate) fn between(&self, one: &Roominess, other: &Roominess) -> f64 {
        let common = Common::new(one.shapes, other);
        self.of(common.shapes, common.apart(&one.logs))
    }

    fn of(&self, shapes: usize, apart: u16) -> f64 {
        let row = &self.0[shapes];
        row[usize::from(apart).min(row.len() - 1)]
    }
}

/// The shapes that a set of shapes has in common with a free room.
struct Common {
    /// The number of these shapes.
    shapes: usize,
    /// The values of the free room, at the places of the shapes in the set.
    logs: Logs,
    /// All bits for the shapes in common, and none for the others.
    masks: [u16; FREQUENT_SHAPES_MAX],
}

impl Common {
    fn new(set: Shapes, room: &Roominess) -> Self {
        let mut common = Self { shapes: 0, logs: Logs::default(), masks: Default::default() };
        for (at, id) in set.ids.into_iter().enumerate().take(usize::from(set.len)) {
            if let Some(place) = room.shapes.place(id) {
                common.shapes += 1;
                (common.logs[at], common.masks[at]) = (room.logs[place], u16::MAX);
            }
        }
        common
    }

    /// Returns the sum of the distances to values of the set.
    fn apart(&self, logs: &Logs) -> u16 {
        let apart: [u16; FREQUENT_SHAPES_MAX] =
            from_fn(|at| logs[at].abs_diff(self.logs[at]) & self.masks[at]);
        apart.into_iter().fold(0, u16::wrapping_add)
    }
}

/// The free rooms at many moments, arranged for comparison with one free room.
#[derive(Clone)]
pub(crate) struct Rooms {
    /// The sets of shapes that the free rooms have.
    sets: Vec<Shapes>,
    /// Of each free room: the place of its shapes in `sets`, and its values.
    rooms: Vec<(u32, Logs)>,
}

impl Rooms {
    pub(crate) fn new<'a>(rooms: impl Iterator<Item = &'a Roominess>) -> Self {
        let mut places: HashMap<Shapes, u32> = HashMap::new();
        let mut sets = Vec::new();
        // Adjacent moments mostly have the same shapes, and a comparison takes less time than a
        // hash. Shapes are compared in place, because copying them took most of the time.
        let mut last: Option<(&Shapes, u32)> = None;
        let room = |Roominess { shapes, logs }: &'a Roominess| {
            let place = match last {
                Some((before, place)) if before == shapes => place,
                _ => *places.entry(*shapes).or_insert_with(|| {
                    sets.push(*shapes);
                    u32::try_from(sets.len() - 1).unwrap_or(u32::MAX)
                }),
            };
            last = Some((shapes, place));
            (place, *logs)
        };
        let rooms = rooms.map(room).collect();
        Self { sets, rooms }
    }

    /// Returns the similarity of each free room to `now`, as [`RoomLikeness::between`] does.
    pub(crate) fn likenesses(
        &self,
        now: &Roominess,
        likeness: &RoomLikeness,
    ) -> impl Iterator<Item = f64> {
        let common: Vec<Common> = self.sets.iter().map(|set| Common::new(*set, now)).collect();
        self.rooms.iter().map(move |(set, logs)| {
            let common = &common[*set as usize];
            likeness.of(common.shapes, common.apart(logs))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free rooms with these shapes and values.
    fn room(shapes: &[ShapeId], logs: &[i16]) -> Roominess {
        let mut room = Roominess::new(shapes.iter().map(|id| (*id, 0)));
        room.logs[..logs.len()].copy_from_slice(logs);
        room
    }

    #[track_caller]
    fn check(one: &Roominess, other: &Roominess, expected: f64) {
        let likeness = RoomLikeness::new();
        for (one, other) in [(one, other), (other, one)] {
            let found = likeness.between(one, other);
            assert!((found - expected).abs() < 1e-9, "{found}");
            let rooms = Rooms::new([other, one, other].into_iter());
            let all: Vec<f64> = rooms.likenesses(one, &likeness).collect();
            assert_eq!(all, [found, 1.0, found]);
        }
    }

    #[test]
    fn the_largest_value_is_that_of_the_largest_room() {
        assert_eq!(usize::try_from(log(u64::MAX)), Ok(LOG_MAX));
    }

    #[test]
    fn similarity_is_computed_over_shared_shapes() {
        let one = room(&[0, 2], &[32, 0]);
        check(&one, &room(&[1, 2, 3], &[288, 16, 32]), (-1.0_f64).exp());
        check(&one, &room(&[0, 2], &[48, 16]), (-1.0_f64).exp());
        check(&one, &room(&[1], &[160]), 1.0);
        check(&one, &room(&[], &[]), 1.0);
    }
}
