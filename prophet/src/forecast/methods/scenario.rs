//! Past windows of arrivals, packed onto the free room of the moment.
//!
//! Whether an arrival needs a node depends on the room that it finds, and that room is known. So arrivals are forecast, as
//! shapes with counts, and packing turns them into nodes. Windows as long as the lead are drawn from the history by their
//! weight: recency, likeness in time of day and kind of day, and, where asked for, likeness of what arrived just before (`activity.rs`).
//! Each is packed by the embedder onto the room that is free now; the distribution of the new nodes is the forecast.
//! Ends of running jobs are left out.

use std::cell::RefCell;
use std::sync::Arc;

use embedder::FreeRoom;
use placeholders::Reason;

use crate::forecast::windows::Changes;
use crate::forecast::windows::{Activity, ActivityLevel};
use crate::forecast::windows::{Window, Windows};
use crate::forecast::{
    demand_ahead::{Ahead, DemandForecaster},
    distribution::Distribution,
    lead::Lead,
    question::{BucketOutlook, Forecaster, Outlook, Present},
};
use crate::record::PodCounts;
use crate::record::{History, ShapeId};

/// See the module.
pub struct Scenario {
    like_arrivals: bool,
    activity: Activity,
    /// With what arrived just before them, and within them.
    windows: Windows<ActivityLevel, Merged>,
    /// What had arrived just before the last tick.
    level: ActivityLevel,
    /// The last draw, and the level for which it was made.
    drawn: RefCell<Option<(ActivityLevel, Drawn)>>,
    changes: Changes,
}

/// Pods by shape, in the order of packing.
type Merged = Arc<[(ShapeId, u64)]>;

struct Drawn {
    /// How many windows hold no arrival.
    quiet: u32,
    /// PodCounts of the others, and how often they were drawn.
    busy: Vec<(Merged, u32)>,
}

impl Scenario {
    /// `like_arrivals` weighs windows by what arrived just before them, too.
    pub fn new(lead: Lead, like_arrivals: bool) -> Self {
        Self {
            like_arrivals,
            activity: Activity::new(lead),
            windows: Windows::new(lead),
            level: ActivityLevel::default(),
            drawn: RefCell::new(None),
            changes: Changes::new(lead),
        }
    }

    fn likeness(&self, window: &Window<ActivityLevel, Merged>, level: ActivityLevel) -> f64 {
        if self.like_arrivals { self.activity.likeness(level, window.note) } else { 1.0 }
    }

    fn draw(&self, level: ActivityLevel) -> Drawn {
        let mut drawn = Drawn { quiet: 0, busy: Vec::new() };
        self.windows.draw(
            |window| self.likeness(window, level),
            |window, times| match &window.seen {
                arrivals if arrivals.is_empty() => drawn.quiet += times,
                arrivals => drawn.busy.push((Arc::clone(arrivals), times)),
            },
        );
        // Windows with the same arrivals are packed once.
        drawn.busy.sort_unstable();
        drawn.busy.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        drawn
    }
}

/// What arrived in the last ticks.
fn merged(history: &History, ticks: usize) -> Merged {
    let mut merged: PodCounts =
        history.latest(ticks).flat_map(|tick| tick.arrivals.clone()).collect();
    merged.sort_unstable_by_key(|(id, _)| *id);
    merged.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 = kept.1.saturating_add(if same { next.1 } else { 0 });
        same
    });
    history.shapes().sort(&mut merged);
    merged.into()
}

impl Forecaster for Scenario {
    fn learn(&mut self, history: &History) {
        let Some(_tick) = history.last() else { return };
        self.level = self.activity.at_tick(history);
        let ticks = self.windows.ticks();
        let merged = || merged(history, ticks);
        self.windows.learn(history, || self.level, merged);
        self.drawn = RefCell::new(None);
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let level = if self.like_arrivals { self.activity.now(history, now) } else { self.level };
        let mut last = self.drawn.borrow_mut();
        let (_, drawn) = match last.take_if(|(of, _)| *of == level) {
            Some(same) => last.insert(same),
            None => last.insert((level, self.draw(level))),
        };
        let shapes = history.shapes();
        let catalog = shapes.catalog();
        let mut room = FreeRoom::new(&now.demand.rooms);
        let mut counts: Vec<Vec<u32>> = vec![vec![drawn.quiet]; catalog.len()];
        for (arrivals, times) in &drawn.busy {
            let pods =
                arrivals.iter().filter_map(|&(id, count)| Some((&shapes.get(id)?.packs, count)));
            for (counts, &nodes) in counts.iter_mut().zip(room.opened(pods, catalog)) {
                let nodes = usize::try_from(nodes).unwrap_or(NODES_MAX).min(NODES_MAX);
                if counts.len() <= nodes {
                    counts.resize(nodes + 1, 0);
                }
                counts[nodes] += times;
            }
        }
        let reason =
            if self.windows.are_few() { Reason::TooLittleHistory } else { Reason::Forecast };
        let bucket = |counts: Vec<u32>| {
            let weights =
                counts.iter().enumerate().map(|(nodes, times)| (nodes as u64, f64::from(*times)));
            BucketOutlook::new(Distribution::weighted(weights), reason)
        };
        Outlook { buckets: counts.into_iter().map(bucket).collect() }
    }
}

impl DemandForecaster for Scenario {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        self.changes.ahead(history, ticks, || {
            self.windows.moments(|window| self.likeness(window, self.level))
        })
    }
}

/// More nodes than this within one lead are counted as this many: no cluster has more.
const NODES_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use embedder::{AcceleratorKind, Demand, Resources, Room, Shape};

    use super::*;
    use crate::forecast::sample;

    /// Every ten minutes, two pods of half a node each arrive, for two days.
    fn learnt(like_arrivals: bool) -> (Scenario, History) {
        let _catalog = sample::catalog();
        let half = Resources { cpu_millis: 4_000, ..Resources::default() };
        let shape = Shape::new(half, AcceleratorKind::default());
        let (mut scenario, mut history) =
            (Scenario::new(sample::LEAD, like_arrivals), History::new(&sample::catalog()));
        for minute in 0..2_880 {
            let mut tick = sample::tick(minute, vec![]);
            tick.first_seen = if minute == 0 { vec![(0, shape.clone())] } else { vec![] };
            tick.arrivals = if minute % 10 == 5 { vec![(0, 2)] } else { vec![] };
            history.record(tick);
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
        let demand = Demand {
            present: vec![9],
            rooms: free.iter().map(room).collect(),
            ..Demand::default()
        };
        let now = history.last().unwrap().time;
        let outlook = scenario.forecast(&history, &Present::at_tick(now, &demand));
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

    /// As much arrived in the ten minutes before every window. Those that begin in the minute of the pair hardly count: three of the
    /// nine others hold the next.
    #[test]
    fn windows_after_as_much_weigh_the_same() {
        check(true, &[], 0.28..0.39);
    }
}
