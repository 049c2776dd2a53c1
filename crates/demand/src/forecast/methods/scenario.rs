//! Past windows of arrivals, packed into the present free room.
//!
//! Whether an arrival needs a new node depends on the free room, which is known. Therefore this
//! method forecasts arrivals, as shapes with counts, and packing turns them into new nodes. Windows
//! as long as the lead time are drawn from the history by weight: recency, nearness in time of day,
//! kind of day and, as an option, similarity of the arrivals just before (`activity.rs`). The
//! embedder packs the arrivals of each window into the present free room. The forecast is the
//! distribution of the new nodes. The ends of running jobs are not taken into account.

use std::sync::{Arc, MutexGuard};

use crate::forecast::windows::{ActivityLevel, Changes, DrawnNodes, KindId, PastArrivals};
use crate::forecast::{
    cache::{Cache, Copied},
    demand_ahead::Ahead,
    distribution::Distribution,
    lead::Lead,
    question::{BucketOutlook, DemandForecaster, Forecaster, Outlook, Present},
};
use crate::record::History;

/// Forecasts D by packing past windows of arrivals into the present free room.
pub struct Scenario {
    like_arrivals: bool,
    past: Arc<Cache<PastArrivals>>,
    last: Cache<Last>,
    changes: Changes,
}

/// The last draw and the last forecast, which are reused while nothing that they depend on changes.
#[derive(Clone, Default)]
struct Last {
    /// The version of the windows and the activity level at the draw.
    draw: Option<(u64, Option<ActivityLevel>)>,
    /// The kinds of window that were drawn, with the number of times.
    drawn: Vec<(KindId, u32)>,
    /// The version of the free room in the forecast from the draw.
    room: Option<u64>,
    new_nodes: Vec<Distribution>,
}

impl Scenario {
    /// A forecaster for windows as long as `lead`.
    ///
    /// With `like_arrivals`, windows are also weighted by the similarity of the arrivals just
    /// before them.
    pub fn new(lead: Lead, like_arrivals: bool) -> Self {
        Self::with_past(Arc::new(Cache::new(PastArrivals::new(lead))), lead, like_arrivals)
    }

    /// Two forecasters for windows as long as `lead`, without and with weights by the similarity of
    /// arrivals. They share the windows and what was packed.
    pub(crate) fn pair(lead: Lead) -> [Self; 2] {
        let past = Arc::new(Cache::new(PastArrivals::new(lead)));
        [false, true].map(|like| Self::with_past(Arc::clone(&past), lead, like))
    }

    fn with_past(past: Arc<Cache<PastArrivals>>, lead: Lead, like_arrivals: bool) -> Self {
        Self { like_arrivals, past, last: Cache::default(), changes: Changes::new(lead) }
    }

    fn past(&self) -> MutexGuard<'_, PastArrivals> {
        self.past.lock()
    }
}

impl Forecaster for Scenario {
    fn learn(&mut self, history: &History) {
        self.past().learn(history);
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let mut past = self.past();
        let mut last = self.last.lock();
        let level = self.like_arrivals.then(|| past.level_now(history, now));
        let (draw, room) = (Some((past.version(), level)), Some(past.set_room(&now.demand.rooms)));
        if last.draw != draw {
            *last = Last { draw, drawn: past.draw(level), ..Last::default() };
        }
        if last.room != room {
            let mut drawn = DrawnNodes::new(history.shapes().catalog().len());
            for &(kind, times) in &last.drawn {
                drawn.add(times, past.new_nodes(kind, history));
            }
            last.new_nodes = drawn.distributions();
            last.room = room;
        }
        let reason = past.reason();
        let bucket = |new_nodes: &Distribution| BucketOutlook::new(new_nodes.clone(), reason);
        Outlook { buckets: last.new_nodes.iter().map(bucket).collect() }
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        let past = copied.of(&self.past);
        let Self { like_arrivals, last, changes, .. } = self;
        let (last, changes) = (last.clone(), changes.clone());
        Some(Box::new(Self { like_arrivals: *like_arrivals, past, last, changes }))
    }
}

impl DemandForecaster for Scenario {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        let past = self.past();
        let level = self.like_arrivals.then(|| past.level());
        self.changes.ahead(history, ticks, || past.moments(level).into_iter())
    }
}

#[cfg(test)]
mod tests {
    use embedder::{Demand, Resources, Room};

    use super::*;
    use crate::forecast::sample;

    /// For two days, two pods of half a node each arrive every ten minutes.
    fn learnt(like_arrivals: bool) -> (Scenario, History) {
        let shape = testkit::shape(testkit::cpus(4_000));
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
