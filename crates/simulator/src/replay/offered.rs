//! Offered demand: the nodes that the jobs would occupy without launch latency.
//!
//! Each job runs from its submission to submission + runtime.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use embedder::{Catalog, Order, PodRequest, pack};

use super::cluster::SimulatedCluster;
use super::queue::Waiting;
use super::scheduler;
use super::scheduler::Placements;
use super::scheduler_kind::SchedulerKind;
use super::workload::{JobClassId, Workload};

/// The occupied nodes over time, per bucket, as steps of (second, nodes) in ascending time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The steps of each bucket of the catalog.
    pub buckets: Vec<Vec<(i64, u64)>>,
}

/// Runs the jobs on nodes that are ready at once when needed and removed as soon as they are empty.
pub fn offered(workload: &Workload, catalog: &Catalog, scheduler: SchedulerKind) -> Series {
    let mut series = Series { buckets: vec![Vec::new(); catalog.len()] };
    run(workload, catalog, scheduler, &mut series);
    series
}

/// An observer of the events of [`run`].
pub(crate) trait Onlooker {
    /// Called before the event at `time` changes the cluster.
    fn before(&mut self, _time: i64, _cluster: &SimulatedCluster<'_>) {}

    /// Called after the event at `time`: a job of class `arrived` started, or, if `None`, a job
    /// ended.
    fn after(&mut self, time: i64, cluster: &SimulatedCluster<'_>, arrived: Option<JobClassId>);
}

/// Runs the jobs like [`offered`], and calls an observer for every event.
pub(crate) fn run(
    workload: &Workload,
    catalog: &Catalog,
    scheduler: SchedulerKind,
    onlooker: &mut impl Onlooker,
) {
    let mut cluster = SimulatedCluster::new(catalog, scheduler, (0, 0));
    let mut placements = Placements::default();
    let mut ends: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let end = |time: i64,
               job: usize,
               cluster: &mut SimulatedCluster<'_>,
               placements: &mut Placements,
               onlooker: &mut _| {
        Onlooker::before(onlooker, time, cluster);
        scheduler::finish(job, cluster, placements, workload, time);
        for id in std::mem::take(&mut cluster.newly_unneeded) {
            if cluster.nodes[id].is_unneeded() {
                cluster.remove(id, time);
            }
        }
        Onlooker::after(onlooker, time, cluster, None);
    };
    for (at, job) in workload.jobs.iter().enumerate() {
        while let Some(&Reverse((time, ended))) =
            ends.peek().filter(|Reverse((time, _))| *time <= job.submit)
        {
            ends.pop();
            end(time, ended, &mut cluster, &mut placements, onlooker);
        }
        onlooker.before(job.submit, &cluster);
        let waiting = Waiting { job: at, class: job.class };
        if !scheduler::place(waiting, &mut cluster, &mut placements, workload, job.submit) {
            open(waiting, &mut cluster, workload, job.submit);
            scheduler::place(waiting, &mut cluster, &mut placements, workload, job.submit);
        }
        cluster.newly_unneeded.clear();
        onlooker.after(job.submit, &cluster, Some(job.class));
        ends.push(Reverse((job.submit.saturating_add(job.runtime), at)));
    }
    while let Some(Reverse((time, ended))) = ends.pop() {
        end(time, ended, &mut cluster, &mut placements, onlooker);
    }
}

/// Adds the ready nodes that a job needs beyond the free room.
fn open(waiting: Waiting, cluster: &mut SimulatedCluster<'_>, workload: &Workload, now: i64) {
    let requests: Vec<PodRequest> = scheduler::requests(waiting.class, 1, workload).collect();
    let packing = pack(&requests, &cluster.ready_rooms(), cluster.catalog, Order::Given);
    for (bucket, &count) in packing.opened.iter().enumerate() {
        for _ in 0..count {
            let id = cluster.launch(bucket, 0, true, now);
            cluster.make_ready(id, now);
        }
    }
}

impl Onlooker for Series {
    fn after(&mut self, time: i64, cluster: &SimulatedCluster<'_>, _: Option<JobClassId>) {
        self.note(time, &cluster.occupied());
    }
}

impl Series {
    pub(super) fn note(&mut self, time: i64, nodes: &[u64]) {
        for (steps, &nodes) in self.buckets.iter_mut().zip(nodes) {
            // Only the last value of a second counts.
            if steps.last().is_some_and(|last| last.0 == time) {
                steps.pop();
            }
            if steps.last().map_or(0, |last| last.1) != nodes {
                steps.push((time, nodes));
            }
        }
    }
}

/// The rise of a series above its present value within a window that moves forward in time.
pub struct LookAhead {
    steps: Box<[(i64, u64)]>,
    /// The index of the first step after the window's start.
    start: usize,
    /// The index of the first step after the window's end.
    end: usize,
    /// The indices of the steps in the window that may be its maximum now or later, in descending
    /// value.
    highs: VecDeque<usize>,
}

impl LookAhead {
    /// Of a series of (time, value), by time.
    pub fn new(steps: &[(i64, u64)]) -> Self {
        Self { steps: steps.into(), start: 0, end: 0, highs: VecDeque::new() }
    }

    /// The largest value within `(now, now + seconds]` minus the value at `now`, at least 0. `now`
    /// must not decrease between calls.
    pub fn rise(&mut self, now: i64, seconds: i64) -> u64 {
        while self.end < self.steps.len() && self.steps[self.end].0 <= now.saturating_add(seconds) {
            let value = self.steps[self.end].1;
            while self.highs.back().is_some_and(|&at| self.steps[at].1 <= value) {
                self.highs.pop_back();
            }
            self.highs.push_back(self.end);
            self.end += 1;
        }
        while self.start < self.steps.len() && self.steps[self.start].0 <= now {
            self.start += 1;
        }
        while self.highs.front().is_some_and(|&at| at < self.start) {
            self.highs.pop_front();
        }
        let present = self.start.checked_sub(1).map_or(0, |at| self.steps[at].1);
        self.highs.front().map_or(0, |&at| self.steps[at].1.saturating_sub(present))
    }
}

#[cfg(test)]
mod tests {
    use super::LookAhead;

    #[test]
    fn a_rise_is_the_future_maximum_minus_the_present_value() {
        let steps = [(10, 2), (20, 5), (30, 1), (40, 3)];
        let mut ahead = LookAhead::new(&steps);
        let rises = [0, 5, 10, 15, 20, 25, 30, 35, 40, 99].map(|now| ahead.rise(now, 10));
        assert_eq!(rises, [2, 2, 3, 3, 0, 0, 2, 2, 0, 0]);
    }
}
