//! Past windows of arrivals, packed into the present free room.
//!
//! Whether an arrival needs a new node depends on the free room, which is known. Therefore this
//! method forecasts arrivals, as shapes with counts, and packing turns them into new nodes. Windows
//! as long as the lead time are drawn from the history by weight: recency, nearness in time of day,
//! kind of day and, as an option, similarity of the arrivals just before (`activity.rs`). The
//! embedder packs the arrivals of each window into the present free room. The forecast is the
//! distribution of the new nodes. The ends of running jobs are not taken into account.

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
use crate::record::sum_by_key;
use crate::record::{History, ShapeId};

/// Forecasts D by packing past windows of arrivals into the present free room.
pub struct Scenario {
    like_arrivals: bool,
    activity: Activity,
    /// Past windows with the activity level at their start and the arrivals within them.
    windows: Windows<ActivityLevel, Merged>,
    /// The activity level at the last tick.
    level: ActivityLevel,
    /// The last draw and its activity level. It is reused until the level changes or a tick is
    /// learnt.
    drawn: RefCell<Option<(ActivityLevel, Drawn)>>,
    changes: Changes,
}

/// The number of pods per shape, in the order of packing.
type Merged = Arc<[(ShapeId, u64)]>;

/// A weighted draw of windows.
struct Drawn {
    /// The number of draws of windows without arrivals.
    quiet: u32,
    /// The arrivals of the other windows, with the number of draws.
    busy: Vec<(Merged, u32)>,
}

impl Scenario {
    /// A forecaster for windows as long as `lead`.
    ///
    /// With `like_arrivals`, windows are also weighted by the similarity of the arrivals just
    /// before them.
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
        sum_by_key(&mut drawn.busy, u32::saturating_add);
        drawn
    }
}

/// Returns the arrivals of the last `ticks` ticks.
fn merged(history: &History, ticks: usize) -> Merged {
    let mut merged: PodCounts =
        history.latest(ticks).flat_map(|tick| tick.arrivals.clone()).collect();
    merged.sort_unstable_by_key(|(id, _)| *id);
    sum_by_key(&mut merged, u64::saturating_add);
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

/// Largest number of new nodes within one lead time that is counted, in nodes. It bounds the size
/// of the table of counts, and no cluster needs more.
const NODES_MAX: usize = 20_000;

#[cfg(test)]
mod tests {
    use embedder::{AcceleratorKind, Demand, Resources, Room, Shape};

    use super::*;
    use crate::forecast::sample;

    /// For two days, two pods of half a node each arrive every ten minutes.
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

    /// Three of ten windows of three ticks contain the two pods. Whether the pods need a node
    /// depends on the free room.
    #[test]
    fn the_forecast_depends_on_the_present_free_room() {
        check(false, &[], 0.25..0.36);
        check(false, &[4_000], 0.25..0.36);
        check(false, &[4_000, 3_999, 4_000], 0.0..1e-12);
        check(false, &[8_000], 0.0..1e-12);
    }

    /// The arrivals of the last ten minutes are the same before every window. Windows that begin in
    /// the minute of an arrival hardly count, and three of the nine others contain the next two
    /// pods.
    #[test]
    fn windows_after_similar_arrivals_have_equal_weights() {
        check(true, &[], 0.28..0.39);
    }
}
