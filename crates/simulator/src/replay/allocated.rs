//! The pods of the jobs that run or wait, counted as instances by the paper's Algorithm 2.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use chrono::DateTime;
use demand::record::{BucketTick, ShapeId, Tick};
use embedder::{Catalog, Sums};

use super::offered::Series;
use super::workload::{JobClassId, Workload};

/// The pods of jobs that were submitted and have not ended.
#[derive(Clone, Debug)]
pub struct Allocated<'a> {
    workload: &'a Workload,
    catalog: &'a Catalog,
    sums: Sums,
}

impl<'a> Allocated<'a> {
    /// No pods.
    pub fn new(workload: &'a Workload, catalog: &'a Catalog) -> Self {
        Self { workload, catalog, sums: Sums::new(catalog) }
    }

    /// Adds the pods of a submitted job.
    pub fn add(&mut self, pods: &[(ShapeId, u64)]) {
        self.change(pods, Sums::add);
    }

    /// Removes the pods of a job that ended.
    pub fn remove(&mut self, pods: &[(ShapeId, u64)]) {
        self.change(pods, Sums::remove);
    }

    fn change(
        &mut self,
        pods: &[(ShapeId, u64)],
        change: fn(&mut Sums, usize, embedder::Resources, u64),
    ) {
        for &(shape, count) in pods {
            let Some(bucket) = self.workload.fits[shape as usize].first() else { continue };
            let requests = self.workload.shapes[shape as usize].requests;
            change(&mut self.sums, bucket, requests, count);
        }
    }

    /// Returns the instances of each bucket.
    pub fn instances(&self) -> Vec<u64> {
        self.sums.instances(self.catalog)
    }
}

/// Calls `each` with the instances after every second in which a job is submitted or ends. Each job
/// runs from its submission.
fn run(workload: &Workload, catalog: &Catalog, each: &mut dyn FnMut(i64, Vec<u64>)) {
    let mut allocated = Allocated::new(workload, catalog);
    let pods = |class: JobClassId| &workload.classes[class].pods;
    let mut ends: BinaryHeap<Reverse<(i64, JobClassId)>> = BinaryHeap::new();
    let mut jobs = workload.jobs.iter().peekable();
    loop {
        let end = ends.peek().map(|Reverse((time, _))| *time);
        let Some(now) = jobs.peek().map(|job| job.submit).into_iter().chain(end).min() else {
            return;
        };
        while let Some(&Reverse((_, class))) = ends.peek().filter(|Reverse((time, _))| *time == now)
        {
            ends.pop();
            allocated.remove(pods(class));
        }
        while let Some(job) = jobs.next_if(|job| job.submit == now) {
            allocated.add(pods(job.class));
            // A run ends later than it begins.
            ends.push(Reverse((now.saturating_add(job.runtime.max(1)), job.class)));
        }
        each(now, allocated.instances());
    }
}

/// The instances over time, per bucket.
pub fn allocated(workload: &Workload, catalog: &Catalog) -> Series {
    let mut series = Series { buckets: vec![Vec::new(); catalog.len()] };
    run(workload, catalog, &mut |time, instances| series.note(time, &instances));
    series
}

/// Calls `each` with a snapshot of the instances at every tick, from the first submission to the
/// last. Ticks are `tick_seconds` apart (at least 1), and have no arrivals and no free room.
pub fn snapshots(
    workload: &Workload,
    catalog: &Catalog,
    tick_seconds: i64,
    each: &mut dyn FnMut(Tick),
) {
    let (Some(first), Some(last)) = (workload.jobs.first(), workload.jobs.last()) else { return };
    let tick_seconds = tick_seconds.max(1);
    let mut next = first.submit.div_euclid(tick_seconds) * tick_seconds;
    let mut present = vec![0; catalog.len()];
    run(workload, catalog, &mut |time, instances| {
        // A tick includes all events of its second, so the tick at `time` itself is not due yet.
        while next < time.min(last.submit) {
            each(snapshot(next, &present));
            next += tick_seconds;
        }
        present = instances;
    });
}

/// Returns a tick at which the demand of each bucket is `present`.
pub fn snapshot(time: i64, present: &[u64]) -> Tick {
    let bucket = |&demand| BucketTick { demand, demand_max: demand, ..BucketTick::default() };
    Tick {
        time: DateTime::from_timestamp(time, 0).unwrap_or_default(),
        buckets: present.iter().map(bucket).collect(),
        room: vec![],
        first_seen: vec![],
        arrivals: vec![],
        gangs: vec![],
        tiers: vec![],
        namespaces: vec![],
        kept: Vec::new(),
        runs: Vec::new(),
        rollout_percent: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{bucket, catalog_of, cpus};
    use traces::{Job, Work};

    fn catalog(sizes: &[u64]) -> Catalog {
        catalog_of(sizes.iter().map(|cores| bucket(&format!("c{cores}"), 1_000 * cores, 0.0)))
    }

    /// Jobs as (submission, runtime, pods of a core).
    fn workload(jobs: &[(i64, i64, u64)], catalog: &Catalog) -> Workload {
        let job = |&(submit, runtime, units): &(i64, i64, u64)| {
            let job = testkit::job("", submit, runtime, cpus(1_000));
            Job { work: Work { units, ..job.work }, ..job }
        };
        Workload::new(&jobs.iter().map(job).collect::<Vec<_>>(), catalog)
    }

    /// Five cores are three instances of two. Those that end at second 100 make room for the next
    /// job in the same second. Pods of a core never count towards the larger instances.
    #[test]
    fn pods_of_running_jobs_are_counted_by_their_sums() {
        let catalog = catalog(&[2, 8]);
        let workload = workload(&[(0, 100, 4), (50, 500, 1), (100, 10, 2)], &catalog);
        let series = allocated(&workload, &catalog);
        assert_eq!(series.buckets[0], [(0, 2), (50, 3), (100, 2), (110, 1), (550, 0)]);
        assert!(series.buckets[1].is_empty());
    }

    #[test]
    fn snapshots_are_the_instances_at_each_tick() {
        let catalog = catalog(&[2]);
        let workload = workload(&[(10, 100, 4), (60, 10, 2), (200, 10, 2)], &catalog);
        let mut seen = Vec::new();
        snapshots(&workload, &catalog, 60, &mut |tick| {
            seen.push((tick.time.timestamp(), tick.buckets[0].demand, tick.buckets[0].demand_max));
        });
        assert_eq!(seen, [(0, 0, 0), (60, 3, 3), (120, 0, 0), (180, 0, 0)]);
    }
}
