//! The ticks of a log, and the actual demand after each.

use std::ops::Range;
use std::sync::Arc;

use base::days::DAY_SECONDS;
use demand::record::Tick;
use embedder::{Catalog, Demand, Room};
use simulator::SimulationSettings;
use simulator::replay::{LookAhead, Series, Workload, allocated, offered, snapshots, ticks};

use super::horizon::Horizon;

/// The ticks of a log, and the actual demand after each.
pub(super) struct Moments {
    ticks: Vec<(Tick, Arc<[Room]>)>,
    /// The indices of the ticks that are scored.
    pub(super) judged: Range<usize>,
    /// The buckets that are in use at any time, ascending.
    pub(super) used: Vec<usize>,
    /// By bucket, the largest demand at a tick before the scored ticks (the training maximum), in
    /// nodes.
    pub(super) most: Vec<u64>,
    /// By scored tick and bucket, the rise of demand within the lead time, in nodes.
    rises: Vec<Vec<u64>>,
}

impl Moments {
    /// Runs the jobs.
    ///
    /// A tick is scored if it lies within the window, and if its lead time and its longest horizon
    /// end before the last tick of the log.
    pub(super) fn new(
        workload: &Workload,
        catalog: &Catalog,
        settings: &SimulationSettings,
        window: (i64, i64),
    ) -> Self {
        let tick_seconds = settings.tick.as_seconds();
        let mut all = Vec::new();
        ticks(workload, catalog, settings.scheduler, tick_seconds, &mut |tick, rooms| {
            all.push((tick.clone(), Arc::clone(rooms)));
        });
        let series = offered(workload, catalog, settings.scheduler);
        Self::of(all, &series, catalog, settings, window)
    }

    /// Runs the jobs, and counts demand by Algorithm 2 at the ticks, as the paper does.
    pub(super) fn of_paper(
        workload: &Workload,
        catalog: &Catalog,
        settings: &SimulationSettings,
        window: (i64, i64),
    ) -> Self {
        let mut all = Vec::new();
        let none: Arc<[Room]> = Arc::new([]);
        snapshots(workload, catalog, settings.tick.as_seconds(), &mut |tick| {
            all.push((tick, Arc::clone(&none)));
        });
        Self::of(all, &allocated(workload, catalog), catalog, settings, window)
    }

    fn of(
        all: Vec<(Tick, Arc<[Room]>)>,
        series: &Series,
        catalog: &Catalog,
        settings: &SimulationSettings,
        window: (i64, i64),
    ) -> Self {
        let tick_seconds = settings.tick.as_seconds();
        let lead = settings.lead();
        let beyond =
            Horizon::TICKS_MAX.max(usize::try_from(lead.seconds / tick_seconds).unwrap_or(0) + 1);
        let place = |time: i64| all.partition_point(|(tick, _)| tick.time.timestamp() < time);
        let end = place(window.1).min(all.len().saturating_sub(beyond));
        let judged = place(window.0).min(end)..end;
        let over_all = |of: fn(&Tick, usize) -> u64, ticks: Range<usize>| -> Vec<u64> {
            let most = |id| all[ticks.clone()].iter().map(|(tick, _)| of(tick, id)).max();
            (0..catalog.len()).map(|id| most(id).unwrap_or(0)).collect()
        };
        let most = over_all(|tick, id| tick.buckets[id].demand, 0..judged.start);
        let ever = over_all(|tick, id| tick.buckets[id].demand_max, 0..judged.end);
        let used = (0..catalog.len()).filter(|&id| ever[id] > 0).collect();
        let mut ahead: Vec<LookAhead> =
            series.buckets.iter().map(|steps| LookAhead::new(steps)).collect();
        let rise = |(tick, _): &(Tick, Arc<[Room]>)| {
            let now = tick.time.timestamp();
            ahead.iter_mut().map(|ahead| ahead.rise(now, lead.seconds)).collect()
        };
        let rises = all[judged.clone()].iter().map(rise).collect();
        Self { ticks: all, judged, used, most, rises }
    }

    /// Returns the number of ticks.
    pub(super) fn len(&self) -> usize {
        self.ticks.len()
    }

    pub(super) fn tick(&self, at: usize) -> &Tick {
        &self.ticks[at].0
    }

    /// Returns the time of a tick in Unix seconds; for an index past the end, the time of the last
    /// tick.
    pub(super) fn tick_time(&self, at: usize) -> i64 {
        self.ticks.get(at).or(self.ticks.last()).map_or(0, |(tick, _)| tick.time.timestamp())
    }

    /// Returns present demand at a tick.
    pub(super) fn demand(&self, at: usize) -> Demand {
        let (tick, rooms) = &self.ticks[at];
        Demand {
            present: tick.buckets.iter().map(|bucket| bucket.demand).collect(),
            announced: vec![0; tick.buckets.len()],
            rooms: rooms.to_vec(),
            ..Demand::default()
        }
    }

    /// Returns the rise of demand within the lead time after a scored tick, by bucket, in nodes.
    pub(super) fn rise(&self, at: usize) -> &[u64] {
        &self.rises[at - self.judged.start]
    }

    /// Returns the actual value of the forecast made at a scored tick, in nodes.
    pub(super) fn actual(&self, at: usize, horizon: Horizon, bucket: usize) -> u64 {
        match horizon {
            Horizon::Ticks(ticks) => self.tick(at + ticks).buckets[bucket].demand,
            Horizon::Lead => self.rise(at)[bucket],
        }
    }

    /// Returns the unit of errors in a bucket: its training maximum, at least 1 node.
    pub(super) fn scale(&self, bucket: usize) -> f64 {
        self.most[bucket].max(1) as f64
    }

    /// Returns the day of a scored tick, from 0.
    pub(super) fn day(&self, at: usize) -> usize {
        let since = self.tick(at).time - self.tick(self.judged.start).time;
        usize::try_from(since.num_seconds() / DAY_SECONDS).unwrap_or(0)
    }

    /// Returns the number of scored days.
    pub(super) fn days(&self) -> usize {
        if self.judged.is_empty() { 0 } else { self.day(self.judged.end - 1) + 1 }
    }
}
