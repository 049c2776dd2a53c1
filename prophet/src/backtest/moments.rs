//! The ticks of a log, and what demand came to after each.

use std::ops::Range;
use std::sync::Arc;

use embedder::{Catalog, Demand, Room};

use super::horizon::Horizon;
use crate::record::Tick;
use crate::replay::{DAY_SECONDS, LookAhead, Workload, offered, ticks};
use crate::simulate::SimulationSettings;

/// The ticks of a log, and what demand came to after each.
pub(super) struct Moments {
    ticks: Vec<(Tick, Arc<[Room]>)>,
    /// Those that are judged.
    pub(super) judged: Range<usize>,
    /// Buckets that were ever in use.
    pub(super) used: Vec<usize>,
    /// By bucket, the largest demand at a tick before those that are judged.
    pub(super) most: Vec<u64>,
    /// By judged tick and bucket: by how much demand rises within the lead.
    rises: Vec<Vec<u64>>,
}

impl Moments {
    /// Runs the jobs. Judged are the ticks from the window's start, whose leads and horizons are over before the last job is submitted.
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
        let series = offered(workload, catalog, settings.scheduler);
        let mut ahead: Vec<LookAhead> =
            series.buckets.iter().map(|steps| LookAhead::new(steps)).collect();
        let rise = |(tick, _): &(Tick, Arc<[Room]>)| {
            let now = tick.time.timestamp();
            ahead.iter_mut().map(|ahead| ahead.rise(now, lead.seconds)).collect()
        };
        let rises = all[judged.clone()].iter().map(rise).collect();
        Self { ticks: all, judged, used, most, rises }
    }

    pub(super) fn tick(&self, at: usize) -> &Tick {
        &self.ticks[at].0
    }

    /// When a tick was, in Unix seconds; of one after the last, the last.
    pub(super) fn tick_time(&self, at: usize) -> i64 {
        self.ticks.get(at).or(self.ticks.last()).map_or(0, |(tick, _)| tick.time.timestamp())
    }

    /// Present demand at a tick.
    pub(super) fn demand(&self, at: usize) -> Demand {
        let (tick, rooms) = &self.ticks[at];
        Demand {
            present: tick.buckets.iter().map(|bucket| bucket.demand).collect(),
            announced: vec![0; tick.buckets.len()],
            rooms: rooms.to_vec(),
            ..Demand::default()
        }
    }

    /// By how much demand will rise within the lead, per bucket; `at` is judged.
    pub(super) fn rise(&self, at: usize) -> &[u64] {
        &self.rises[at - self.judged.start]
    }

    /// What is forecast at a judged tick.
    pub(super) fn actual(&self, at: usize, horizon: Horizon, bucket: usize) -> u64 {
        match horizon {
            Horizon::Ticks(ticks) => self.tick(at + ticks).buckets[bucket].demand,
            Horizon::Lead => self.rise(at)[bucket],
        }
    }

    /// What errors in a bucket are measured by.
    pub(super) fn scale(&self, bucket: usize) -> f64 {
        self.most[bucket].max(1) as f64
    }

    /// The day of a judged tick, from 0.
    pub(super) fn day(&self, at: usize) -> usize {
        let since = self.tick(at).time - self.tick(self.judged.start).time;
        usize::try_from(since.num_seconds() / DAY_SECONDS).unwrap_or(0)
    }

    /// Days that are judged.
    pub(super) fn days(&self) -> usize {
        if self.judged.is_empty() { 0 } else { self.day(self.judged.end - 1) + 1 }
    }
}
