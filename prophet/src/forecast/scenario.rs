//! Past windows of arrivals, packed onto the free room of the moment.
//!
//! Whether an arrival needs a node depends on the room that it finds, and that room is known. So arrivals are forecast, as
//! shapes with counts, and packing turns them into nodes. Windows as long as the lead are drawn from the history by their
//! weight: recency, likeness in time of day, and, where asked for, likeness of what arrived just before,
//! exp(-|sqrt a - sqrt a'|) with a in eighths of a node. Each is packed by the embedder onto the room that is free now; the
//! distribution of the new nodes is the forecast. Ends of running jobs are left out.

use std::collections::VecDeque;
use std::sync::OnceLock;

use chrono::{DateTime, Utc};
use embedder::{Catalog, Demand, FreeRoom, PackShape, Resources, UNLIMITED};
use placeholders::Reason;

use super::{BucketOutlook, Distribution, Forecaster, KnownFuture, Lead, Outlook};
use crate::record::{History, ShapeId, Tick};

/// Windows that are drawn: the quantile 0.99 still rests on four.
const WINDOWS: usize = 400;

/// Windows overlap by most of their length: every third start says as much as all.
const STRIDE: usize = 3;

/// After a week a window counts half.
const HALF_LIFE_SECONDS: f64 = 7.0 * 86_400.0;

/// Two hours away in time of day, a window counts a third (1/e).
const DAY_SCALE_SECONDS: f64 = 7_200.0;

/// Arrivals of the last ten minutes say how busy it is.
const ACTIVITY_SECONDS: i64 = 600;

/// Closed windows that make a forecast: two hours of one-minute ticks.
const WINDOWS_MIN: usize = 120;

/// See the module.
pub struct Scenario {
    lead: Lead,
    catalog: Catalog,
    like_arrivals: bool,
    /// By shape: how it packs, its place in the order of packing, and its size in eighths of a node.
    shapes: Vec<Option<Known>>,
    /// By tick of the history.
    seen: VecDeque<Seen>,
    /// What a window weighs by its age in ticks: recency and time of day.
    ages: Vec<f32>,
    drawn: OnceLock<Drawn>,
}

struct Seen {
    /// In Unix seconds.
    time: i64,
    /// The square root of the eighths of a node that arrived just before.
    activity: f32,
}

struct Known {
    packs: PackShape,
    asks: Resources,
    eighths: f64,
}

/// Arrivals of one window, in the order of packing, and how often it was drawn.
type Window = (Vec<(ShapeId, u64)>, u32);

struct Drawn {
    /// How many windows hold no arrival.
    quiet: u32,
    windows: Vec<Window>,
}

impl Scenario {
    /// For the buckets of a catalog; `like_arrivals` weighs windows by what arrived just before them, too.
    pub fn new(catalog: &Catalog, lead: Lead, like_arrivals: bool) -> Self {
        Self {
            lead,
            catalog: catalog.clone(),
            like_arrivals,
            shapes: Vec::new(),
            seen: VecDeque::new(),
            ages: Vec::new(),
            drawn: OnceLock::new(),
        }
    }

    fn note_shapes(&mut self, tick: &Tick) {
        for (id, shape) in &tick.first_seen {
            let at = *id as usize;
            if self.shapes.len() <= at {
                self.shapes.resize_with(at + 1, || None);
            }
            let packs = PackShape::new(shape, &self.catalog);
            let eighths = packs
                .opens()
                .map_or(0.0, |(bucket, asks)| 8.0 * share(asks, self.catalog.buckets()[bucket].allocatable));
            self.shapes[at] = Some(Known { packs, asks: shape.asks, eighths });
        }
    }

    fn eighths(&self, arrivals: &[(ShapeId, u64)]) -> f64 {
        let of =
            |(id, count): &(ShapeId, u64)| self.known(*id).map_or(0.0, |known| known.eighths * *count as f64);
        arrivals.iter().map(of).sum()
    }

    fn known(&self, id: ShapeId) -> Option<&Known> {
        self.shapes.get(id as usize)?.as_ref()
    }

    /// Draws windows by weight: systematic resampling, so that each is drawn as often as its weight says, but for rounding.
    fn draw(&self, history: &History) -> Drawn {
        let mut drawn = Drawn { quiet: 0, windows: Vec::new() };
        let window = self.lead.ticks();
        let Some((now, starts)) = self.seen.back().zip(history.len().checked_sub(window)) else {
            return drawn;
        };
        let starts = (0..starts).rev().step_by(STRIDE);
        let weights: Vec<(usize, f64)> =
            starts.filter_map(|start| Some((start, self.weight(self.seen.get(start)?, now)))).collect();
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let step = total / WINDOWS as f64;
        let (mut sum, mut next) = (0.0, 0.5 * step);
        for (start, weight) in weights {
            sum += weight;
            let mut times = 0;
            while next < sum {
                next += step;
                times += 1;
            }
            if times > 0 {
                match self.arrivals(history, start, window) {
                    arrivals if arrivals.is_empty() => drawn.quiet += times,
                    arrivals => drawn.windows.push((arrivals, times)),
                }
            }
        }
        // Windows with the same arrivals are packed once.
        drawn.windows.sort_unstable();
        drawn.windows.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        drawn
    }

    fn weight(&self, start: &Seen, now: &Seen) -> f64 {
        let age = (now.time - start.time) / self.lead.tick_seconds.max(1);
        let weight = usize::try_from(age).ok().and_then(|age| self.ages.get(age)).copied().unwrap_or(0.0);
        let unlike = if self.like_arrivals { (now.activity - start.activity).abs() } else { 0.0 };
        f64::from(weight * (-unlike).exp())
    }

    /// What windows of this age weigh.
    fn weight_of_age(&self, ticks: usize) -> f32 {
        let age = ticks as f64 * self.lead.tick_seconds as f64;
        let around = age.rem_euclid(86_400.0);
        let apart = around.min(86_400.0 - around);
        #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more precision")]
        let weight = ((-age / HALF_LIFE_SECONDS).exp2() * (-apart / DAY_SCALE_SECONDS).exp()) as f32;
        weight
    }

    /// What arrived in the window after a tick, merged, in the order of packing.
    fn arrivals(&self, history: &History, start: usize, window: usize) -> Vec<(ShapeId, u64)> {
        let mut merged: Vec<(ShapeId, u64)> = Vec::new();
        for tick in (start + 1..=start + window).filter_map(|at| history.get(at)) {
            for &(id, count) in &tick.arrivals {
                match merged.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, sum)) => *sum = sum.saturating_add(count),
                    None => merged.push((id, count)),
                }
            }
        }
        merged.sort_by_key(|&(id, _)| (self.known(id).map(|known| known.asks), id));
        merged
    }
}

/// The dominant share of an instance that a pod takes.
fn share(asks: Resources, allocatable: Resources) -> f64 {
    let pairs = asks.components().into_iter().zip(allocatable.components());
    pairs
        .filter(|&(_, have)| have != UNLIMITED && have > 0)
        .map(|(ask, have)| ask as f64 / have as f64)
        .fold(0.0, f64::max)
}

impl Forecaster for Scenario {
    fn learn(&mut self, history: &History) {
        let Some(tick) = history.last() else { return };
        self.note_shapes(tick);
        let ticks = usize::try_from(ACTIVITY_SECONDS / self.lead.tick_seconds.max(1)).unwrap_or(1).max(1);
        let recent: f64 = history.latest(ticks).map(|tick| self.eighths(&tick.arrivals)).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a weight needs no more precision")]
        self.seen.push_back(Seen { time: tick.time.timestamp(), activity: recent.sqrt() as f32 });
        while self.seen.len() > history.len() {
            self.seen.pop_front();
        }
        while self.ages.len() <= history.len() {
            self.ages.push(self.weight_of_age(self.ages.len()));
        }
        self.drawn = OnceLock::new();
    }

    fn forecast(&self, history: &History, demand: &Demand, _: &KnownFuture, _: DateTime<Utc>) -> Outlook {
        let drawn = self.drawn.get_or_init(|| self.draw(history));
        let room = FreeRoom::new(&demand.rooms);
        let mut counts: Vec<Vec<u32>> = vec![vec![drawn.quiet]; self.catalog.len()];
        for (arrivals, times) in &drawn.windows {
            let pods = arrivals.iter().filter_map(|&(id, count)| Some((&self.known(id)?.packs, count)));
            for (counts, nodes) in counts.iter_mut().zip(room.opened(pods, &self.catalog)) {
                let nodes = usize::try_from(nodes).unwrap_or(NODES_MAX).min(NODES_MAX);
                if counts.len() <= nodes {
                    counts.resize(nodes + 1, 0);
                }
                counts[nodes] += times;
            }
        }
        let few = history.len() < WINDOWS_MIN + self.lead.ticks();
        let basis = if few { Reason::TooLittleHistory } else { Reason::Forecast };
        let bucket = |counts: Vec<u32>| {
            let weights = counts.iter().enumerate().map(|(nodes, times)| (nodes as u64, f64::from(*times)));
            BucketOutlook { new_nodes: Distribution::weighted(weights), basis }
        };
        Outlook { buckets: counts.into_iter().map(bucket).collect() }
    }
}

/// More nodes than this within one lead are counted as this many: no cluster has more.
const NODES_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use embedder::{AcceleratorKind, Room, Shape};

    use super::*;
    use crate::catalog::{CatalogFile, InstanceTypeEntry};

    const LEAD: Lead = Lead { seconds: 180, tick_seconds: 60 };

    /// Every ten minutes, two pods of half a node each arrive, for two days.
    fn learnt(like_arrivals: bool) -> (Scenario, History) {
        let entry =
            InstanceTypeEntry { name: "one".into(), cpu_millis: Some(8_000), ..InstanceTypeEntry::default() };
        let catalog = CatalogFile { instance_types: vec![entry] }.catalog().unwrap();
        let half = Resources { cpu_millis: 4_000, ..Resources::default() };
        let shape = Shape::new(half, AcceleratorKind::default());
        let (mut scenario, mut history) = (Scenario::new(&catalog, LEAD, like_arrivals), History::default());
        for minute in 0..2_880 {
            let time = DateTime::from_timestamp(60 * minute, 0).unwrap();
            let first_seen = if minute == 0 { vec![(0, shape.clone())] } else { vec![] };
            let arrivals = if minute % 10 == 5 { vec![(0, 2)] } else { vec![] };
            history.record(Tick { time, buckets: vec![], room: vec![], first_seen, arrivals });
            scenario.learn(&history);
        }
        (scenario, history)
    }

    #[track_caller]
    fn check(like_arrivals: bool, free: &[u64], chance_of_one: std::ops::Range<f64>) {
        let (scenario, history) = learnt(like_arrivals);
        let room = |cpu_millis: &u64| Room {
            bucket: 0,
            free: Resources { cpu_millis: *cpu_millis, ..Resources::UNLIMITED },
            nodes: 1,
        };
        let demand = Demand { present: vec![9], rooms: free.iter().map(room).collect(), ..Demand::default() };
        let now = history.last().unwrap().time;
        let outlook = scenario.forecast(&history, &demand, &KnownFuture::default(), now);
        let chance = outlook.buckets[0].new_nodes.chance_of(1);
        assert!(chance_of_one.contains(&chance), "{chance}");
        assert!(outlook.buckets[0].new_nodes.most() <= 1);
    }

    /// Three of ten windows of three ticks hold the pair; whether it needs a node is a matter of the room that it finds.
    #[test]
    fn the_room_of_the_moment_decides() {
        check(false, &[], 0.25..0.36);
        check(false, &[4_000], 0.25..0.36);
        check(false, &[4_000, 3_999, 4_000], 0.0..1e-12);
        check(false, &[8_000], 0.0..1e-12);
    }

    /// As much arrived in the ten minutes before every window: likeness changes nothing.
    #[test]
    fn windows_that_are_alike_weigh_the_same() {
        check(true, &[], 0.25..0.36);
    }
}
