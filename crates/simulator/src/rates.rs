//! A reference forecaster with exact arrival rates: it shows how much of future demand is noise.
//!
//! It reads the arrivals of the half hour before and after each moment, except the arrivals within
//! the lead time of the moment. It cuts them into windows as long as the lead time, and packs each
//! window onto the free room of the moment, as the method `scenario` does with windows of the past.
//!
//! The forecaster therefore has the past and future arrival rate and the mix of jobs, but not the
//! arrivals that its forecast covers. A method that learns rates from the past can hardly reach the
//! same waiting time with less headroom. A method that predicts single jobs can, so this reference
//! is not a bound.

use demand::forecast::{BucketOutlook, Distribution, Forecaster, Outlook, Present};
use demand::record::sum_by_key;
use demand::record::{History, ShapeId};
use embedder::{Catalog, FreeRoom, PackShape};
use placeholders::Reason;

use crate::replay::Workload;

/// Forecasts from the arrivals around the moment of the forecast.
pub(super) struct Rates {
    catalog: Catalog,
    lead_seconds: i64,
    shapes: Vec<PackShape>,
    /// By shape, its rank in the order of packing: smallest first.
    order: Vec<usize>,
    /// (second of arrival, shape, pods), ascending by second.
    arrivals: Vec<(i64, ShapeId, u64)>,
}

/// How far the arrivals are read, in seconds before and after the moment. Half an hour, unless
/// [`AROUND_LEADS`] lead times are longer.
const AROUND_SECONDS: i64 = 1_800;

/// The smallest reach before and after the moment, in lead times. It ensures that several windows
/// fit when the lead time is long.
const AROUND_LEADS: i64 = 4;

/// The time between the starts of two windows, in seconds.
const STEP_SECONDS: usize = 30;

impl Rates {
    pub(super) fn new(workload: &Workload, catalog: &Catalog, lead_seconds: i64) -> Self {
        let pods = |class: usize| workload.classes[class].pods.iter();
        let arrivals = workload
            .jobs
            .iter()
            .flat_map(|job| pods(job.class).map(|&(shape, count)| (job.submit, shape, count)));
        let mut smallest_first: Vec<usize> = (0..workload.shapes.len()).collect();
        smallest_first.sort_by_key(|&shape| workload.shapes[shape].requests);
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

    /// Returns the pods that arrive after second `start` and within the lead time, by shape, in the
    /// order of packing.
    fn window(&self, start: i64) -> Vec<(ShapeId, u64)> {
        let after = |time: i64| self.arrivals.partition_point(|(at, ..)| *at <= time);
        let arrivals = &self.arrivals[after(start)..after(start + self.lead_seconds)];
        let mut pods: Vec<(ShapeId, u64)> =
            arrivals.iter().map(|&(_, shape, count)| (shape, count)).collect();
        pods.sort_unstable_by_key(|(shape, _)| self.order[*shape as usize]);
        sum_by_key(&mut pods, u64::saturating_add);
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
    use embedder::Demand;

    use super::*;
    use traces::Job;

    /// `arrivals` are pods that fill a node each, in seconds from now. `chance` is the expected
    /// probability that at least one new node is needed.
    #[track_caller]
    fn check(arrivals: &[i64], chance: f64) {
        const NOW: i64 = 1_000_000;
        let catalog = testkit::catalog([("one", 8_000, 0.0)]);
        let job = |after: &i64| testkit::job("", NOW + after, 60, testkit::cpus(8_000));
        let jobs: Vec<Job> = arrivals.iter().map(job).collect();
        let rates = Rates::new(&Workload::new(&jobs, &catalog), &catalog, 300);
        let demand = Demand { present: vec![0], ..Demand::default() };
        let now = DateTime::from_timestamp(NOW, 0).unwrap();
        let outlook = rates.forecast(&History::new(&catalog), &Present::at_tick(now, &demand));
        let found = outlook.buckets[0].new_nodes.chance_of(1);
        assert!((found - chance).abs() < 1e-12, "{found}");
    }

    /// Windows of 300 s begin every 30 s: 51 windows begin between 1,800 s and 300 s ago, and 41
    /// begin between 300 s and 1,500 s from now.
    #[test]
    fn arrivals_around_a_moment_count_except_those_within_the_lead_time() {
        check(&[1, 100, 300], 0.0);
        check(&[1_000], 10.0 / 92.0);
        check(&[-1_000, 1_000], 20.0 / 92.0);
        check(&[-1_801, 1_801], 0.0);
    }
}
