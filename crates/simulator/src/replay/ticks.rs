//! The ticks that a controller would have recorded from offered demand.
//!
//! The models are trained with these ticks.

use std::sync::Arc;

use chrono::DateTime;
use demand::record::{BucketState, Recorder, ShapeId, Tick};
use embedder::{Catalog, Room};

use super::cluster::SimulatedCluster;
use super::offered::{Onlooker, run};
use super::scheduler_kind::SchedulerKind;
use super::workload::{JobClassId, Workload};

/// Calls `each` with every tick of the jobs and the free room on occupied nodes.
///
/// Ticks are `tick_seconds` apart (at least 1), from the first submission to the last.
pub fn ticks(
    workload: &Workload,
    catalog: &Catalog,
    scheduler: SchedulerKind,
    tick_seconds: i64,
    each: &mut dyn FnMut(&Tick, &Arc<[Room]>),
) {
    let (Some(first), Some(last)) = (workload.jobs.first(), workload.jobs.last()) else { return };
    let tick_seconds = tick_seconds.max(1);
    let mut recorder = Recorder::new(catalog, tick_seconds);
    let shapes = workload.shapes.iter().map(|shape| recorder.intern(shape)).collect();
    let mut ticker = Ticker {
        workload,
        shapes,
        tick_seconds,
        next: first.submit.div_euclid(tick_seconds) * tick_seconds,
        until: last.submit,
        recorder,
        free: Free { changes: None, rooms: Arc::new([]), room: Arc::new([]) },
        each,
    };
    run(workload, catalog, scheduler, &mut ticker);
}

struct Ticker<'a> {
    workload: &'a Workload,
    /// The number in the recorder of each shape of the workload. `None` if the recorder is full.
    shapes: Vec<Option<ShapeId>>,
    tick_seconds: i64,
    next: i64,
    until: i64,
    recorder: Recorder,
    free: Free,
    each: &'a mut dyn FnMut(&Tick, &Arc<[Room]>),
}

/// Free room on occupied nodes.
struct Free {
    /// The value of [`SimulatedCluster::changes`] when the free room was read.
    changes: Option<u64>,
    rooms: Arc<[Room]>,
    /// How many more pods of each frequent shape fit.
    room: Arc<[(ShapeId, u64)]>,
}

impl Onlooker for Ticker<'_> {
    /// Emits the ticks before `time`. A tick includes all events of its second, so the tick at
    /// `time` itself is not due yet.
    fn before(&mut self, time: i64, cluster: &SimulatedCluster<'_>) {
        while self.next < time.min(self.until) {
            let tick = self.tick(cluster);
            (self.each)(&tick, &self.free.rooms);
            self.next += self.tick_seconds;
        }
    }

    fn after(&mut self, _: i64, cluster: &SimulatedCluster<'_>, arrived: Option<JobClassId>) {
        self.recorder.demand(cluster.occupied());
        for &(shape, count) in arrived.iter().flat_map(|&class| &self.workload.classes[class].pods)
        {
            if let Some(shape) = self.shapes[shape as usize] {
                self.recorder.arrived(shape, count);
            }
        }
    }
}

impl Ticker<'_> {
    fn tick(&mut self, cluster: &SimulatedCluster<'_>) -> Tick {
        let state = |demand| BucketState { demand, ..BucketState::default() };
        let states: Vec<BucketState> = cluster.occupied().into_iter().map(state).collect();
        if self.free.changes != Some(cluster.changes) {
            let rooms: Arc<[Room]> = cluster.occupied_rooms().into();
            let room = self.recorder.room(&rooms);
            self.free = Free { changes: Some(cluster.changes), rooms, room };
        }
        let time = DateTime::from_timestamp(self.next, 0).unwrap_or_default();
        self.recorder.tick(time, &states, &self.free.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::offered;
    use traces::default_types;
    use traces::{Recipe, generate};

    /// The demand of each tick equals the value of the series of offered demand at its time.
    #[test]
    fn ticks_are_samples_of_offered_demand() {
        let jobs = generate(&Recipe { days: 2, ..Recipe::default() });
        let catalog = default_types(&jobs).catalog().unwrap();
        let workload = Workload::new(&jobs, &catalog);
        let series = offered(&workload, &catalog, SchedulerKind::Pack);
        let at = |bucket: usize, time: i64| {
            series.buckets[bucket]
                .iter()
                .take_while(|step| step.0 <= time)
                .last()
                .map_or(0, |step| step.1)
        };
        let (mut seen, mut pods, mut previous) = (0, 0, None);
        ticks(&workload, &catalog, SchedulerKind::Pack, 600, &mut |tick, _| {
            let time = tick.time.timestamp();
            assert!(previous.is_none_or(|previous| time == previous + 600));
            previous = Some(time);
            for (id, bucket) in tick.buckets.iter().enumerate() {
                assert_eq!(bucket.demand, at(id, time));
                assert!(bucket.demand_max >= bucket.demand);
            }
            pods += tick.arrivals.iter().map(|(_, count)| count).sum::<u64>();
            seen += 1;
        });
        let all: u64 = jobs.iter().map(|job| job.work.units).sum();
        assert!(seen > 200 && pods > 0 && pods <= all, "{seen} ticks, {pods} pods of {all}");
    }
}
