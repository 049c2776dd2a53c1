//! What knowledge of rates alone can tell: a reference for how much of what is to come is noise, not a bound.
//!
//! It sees the arrivals of the half hour before and after each moment, but for those within the lead, as windows as long as the lead,
//! and packs each onto the free room of the moment, as the method `scenario` does with windows of the past. So it knows how busy it
//! is and will be, and what comes then; what it cannot know is what comes just now. A method that learns rates from the past can
//! hardly hold the same for less; one that foresees jobs can.

use embedder::{Catalog, FreeRoom, PackShape};
use placeholders::Reason;

use super::workload::Workload;
use crate::forecast::{BucketOutlook, Distribution, Forecaster, Outlook, Present};
use crate::record::{History, ShapeId};

/// See the module.
pub(super) struct Rates {
    catalog: Catalog,
    lead_seconds: i64,
    shapes: Vec<PackShape>,
    /// By the place of a shape, its place in the order of packing: smallest first.
    order: Vec<usize>,
    /// Pods by the second in which they arrive, rising.
    arrivals: Vec<(i64, ShapeId, u64)>,
}

/// How far it sees, either way; farther where a lead is long.
const AROUND_SECONDS: i64 = 1_800;

/// So many leads at least.
const AROUND_LEADS: i64 = 4;

/// Between the starts of two windows.
const STEP_SECONDS: usize = 30;

impl Rates {
    pub(super) fn new(workload: &Workload, catalog: &Catalog, lead_seconds: i64) -> Self {
        let pods = |class: usize| workload.classes[class].pods.iter();
        let arrivals = workload
            .jobs
            .iter()
            .flat_map(|job| pods(job.class).map(|&(shape, count)| (job.submit, shape, count)));
        let mut smallest_first: Vec<usize> = (0..workload.shapes.len()).collect();
        smallest_first.sort_by_key(|&shape| workload.shapes[shape].asks);
        let mut order = vec![0; smallest_first.len()];
        smallest_first.iter().enumerate().for_each(|(place, &shape)| order[shape] = place);
        Self {
            catalog: catalog.clone(),
            lead_seconds,
            shapes: workload.shapes.iter().map(|shape| PackShape::new(shape, catalog)).collect(),
            order,
            arrivals: arrivals.collect(),
        }
    }

    /// Pods that arrive after a second and until the lead is over, by shape, in the order of packing.
    fn window(&self, start: i64) -> Vec<(ShapeId, u64)> {
        let after = |time: i64| self.arrivals.partition_point(|(at, ..)| *at <= time);
        let arrivals = &self.arrivals[after(start)..after(start + self.lead_seconds)];
        let mut pods: Vec<(ShapeId, u64)> =
            arrivals.iter().map(|&(_, shape, count)| (shape, count)).collect();
        pods.sort_unstable_by_key(|(shape, _)| self.order[*shape as usize]);
        pods.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        pods
    }
}

impl Forecaster for Rates {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        let (at, lead) = (now.time.timestamp(), self.lead_seconds);
        let around = AROUND_SECONDS.max(AROUND_LEADS * lead);
        let before = (at - around..=at - lead).step_by(STEP_SECONDS);
        let after = (at + lead..=at + around - lead).step_by(STEP_SECONDS);
        let mut room = FreeRoom::new(&now.demand.rooms);
        let mut needs: Vec<Vec<u64>> = vec![Vec::new(); self.catalog.len()];
        for start in before.chain(after) {
            let pods = self.window(start);
            let pods = pods.iter().map(|&(shape, count)| (&self.shapes[shape as usize], count));
            let opened = room.opened(pods, &self.catalog);
            needs.iter_mut().zip(opened).for_each(|(needs, nodes)| needs.push(*nodes));
        }
        let bucket = |mut needs: Vec<u64>| {
            needs.sort_unstable();
            let all = Distribution::weighted(needs.into_iter().map(|nodes| (nodes, 1.0)));
            BucketOutlook::new(all, Reason::Forecast)
        };
        Outlook { buckets: needs.into_iter().map(bucket).collect() }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use embedder::{AcceleratorKind, Demand, Resources};

    use super::*;
    use crate::catalog::{CatalogFile, InstanceTypeEntry};
    use crate::trace::{Job, Work};

    /// Pods of a whole node that arrive so many seconds from now, and the chance that one is needed.
    #[track_caller]
    fn check(arrivals: &[i64], chance: f64) {
        const NOW: i64 = 1_000_000;
        let entry =
            InstanceTypeEntry { name: "one".into(), cpu_millis: Some(8_000), ..InstanceTypeEntry::default() };
        let catalog = CatalogFile { instance_types: vec![entry] }.catalog().unwrap();
        let job = |after: &i64| {
            let unit = Resources { cpu_millis: 8_000, ..Resources::default() };
            let work = Work { units: 1, unit, accelerator_kind: AcceleratorKind::default(), split: None };
            Job { name: "".into(), submit: NOW + after, runtime: 60, priority: 0, work }
        };
        let jobs: Vec<Job> = arrivals.iter().map(job).collect();
        let rates = Rates::new(&Workload::new(&jobs, &catalog), &catalog, 300);
        let demand = Demand { present: vec![0], ..Demand::default() };
        let now = DateTime::from_timestamp(NOW, 0).unwrap();
        let outlook = rates.forecast(&History::default(), &Present::at_tick(now, &demand));
        let found = outlook.buckets[0].new_nodes.chance_of(1);
        assert!((found - chance).abs() < 1e-12, "{found}");
    }

    /// Windows of 300 s begin every 30 s from 1,800 to 300 s ago, 51, and in 300 to 1,500 s, 41.
    #[test]
    fn what_comes_around_a_moment_is_known_and_what_comes_within_the_lead_is_not() {
        check(&[1, 100, 300], 0.0);
        check(&[1_000], 10.0 / 92.0);
        check(&[-1_000, 1_000], 20.0 / 92.0);
        check(&[-1_801, 1_801], 0.0);
    }
}
