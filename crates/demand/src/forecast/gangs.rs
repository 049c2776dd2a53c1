//! The sizes of the gangs that arrive within the lead time.
//!
//! A gang that is larger than an instance starts on a virtual instance: nodes of one bucket in one
//! group (the paper's section 4.3). Headroom that is spread over the groups of a bucket is of no
//! use to it. Therefore an outlook has, beside the number of new nodes, the sizes of the gangs: for
//! each rank, the distribution of the size of the gang with this rank among the gangs of a window,
//! the largest first. The windows are as long as the lead time and are drawn by recency, time of
//! day and kind of day, as those of new nodes are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use embedder::{BucketId, VirtualInstance};

use super::cache::{Cache, Copied};
use super::demand_ahead::Ahead;
use super::distribution::Distribution;
use super::hyperparameters::GANG_RANKS;
use super::lead::Lead;
use super::model_fault::ModelFault;
use super::question::{DemandForecaster, Forecaster, Outlook, Present};
use super::windows::Windows;
use crate::record::History;

/// A forecaster of new nodes, with the sizes of gangs added to its outlooks.
pub struct WithGangs {
    new_nodes: Box<dyn DemandForecaster>,
    /// Past windows, each with the largest gangs that arrived in it.
    windows: Windows<(), Gangs>,
    /// Whether a gang arrived at all. Without one, no windows are drawn.
    any: bool,
    last: Cache<Last>,
}

/// The largest gangs of a window, by bucket, the largest first.
type Gangs = Box<[VirtualInstance]>;

/// By bucket with gangs, the sizes by rank.
type Ranks = Vec<(BucketId, Vec<Distribution>)>;

/// The last forecast, which is reused while the windows are the same.
#[derive(Clone, Default)]
struct Last {
    version: u64,
    ranks: Ranks,
}

impl WithGangs {
    /// Adds the gangs of windows as long as `lead` to the outlooks of `new_nodes`.
    pub fn new(new_nodes: Box<dyn DemandForecaster>, lead: Lead) -> Self {
        Self { new_nodes, windows: Windows::new(lead), any: false, last: Cache::default() }
    }

    /// Draws windows, and returns the sizes of the gangs in them.
    fn ranks(&self) -> Ranks {
        let mut drawn: BTreeMap<(BucketId, usize, u64), u32> = BTreeMap::new();
        self.windows.draw(
            |notes| notes.iter().map(|()| 1.0),
            |gangs, times| {
                for of_bucket in gangs.chunk_by(|a, b| a.bucket == b.bucket) {
                    for (rank, VirtualInstance { bucket, instances }) in
                        of_bucket.iter().enumerate()
                    {
                        *drawn.entry((*bucket, rank, *instances)).or_default() += times;
                    }
                }
            },
        );
        let counts: Vec<_> = drawn.into_iter().collect();
        let mut ranks = Ranks::new();
        for sizes in counts.chunk_by(|((a, i, _), _), ((b, j, _), _)| (a, i) == (b, j)) {
            let times = sizes.iter().map(|&((_, _, size), times)| (size, f64::from(times)));
            let size = Distribution::weighted(times);
            let ((bucket, ..), _) = sizes[0];
            match ranks.last_mut() {
                Some((last, sizes)) if *last == bucket => sizes.push(size),
                _ => ranks.push((bucket, vec![size])),
            }
        }
        ranks
    }
}

/// The largest gangs of the last `ticks` ticks, by bucket, the largest first, [`GANG_RANKS`] at
/// most for each bucket.
fn largest(history: &History, ticks: usize) -> Gangs {
    let mut gangs: Vec<(VirtualInstance, u64)> =
        history.latest(ticks).flat_map(|tick| tick.gangs.iter().copied()).collect();
    gangs.sort_unstable_by_key(|(gang, _)| (gang.bucket, Reverse(gang.instances)));
    let of_bucket = |gangs: &[(VirtualInstance, u64)]| -> Vec<VirtualInstance> {
        let equal = |&(gang, count): &(VirtualInstance, u64)| {
            std::iter::repeat_n(gang, usize::try_from(count).unwrap_or(GANG_RANKS).min(GANG_RANKS))
        };
        gangs.iter().flat_map(equal).take(GANG_RANKS).collect()
    };
    gangs.chunk_by(|(a, _), (b, _)| a.bucket == b.bucket).flat_map(of_bucket).collect()
}

impl Forecaster for WithGangs {
    fn learn(&mut self, history: &History) {
        self.any |= history.last().is_some_and(|tick| !tick.gangs.is_empty());
        let ticks = self.windows.ticks();
        self.windows.learn(history, || (), || largest(history, ticks));
        self.new_nodes.learn(history);
    }

    fn forecast(&self, history: &History, now: &Present<'_>) -> Outlook {
        let mut outlook = self.new_nodes.forecast(history, now);
        if !self.any || self.windows.are_few() {
            return outlook;
        }
        let mut last = self.last.lock();
        if last.version != self.windows.version() {
            *last = Last { version: self.windows.version(), ranks: self.ranks() };
        }
        for (bucket, sizes) in &last.ranks {
            if let Some(outlook) = outlook.buckets.get_mut(*bucket) {
                outlook.gangs.clone_from(sizes);
            }
        }
        outlook
    }

    fn faults(&self) -> Vec<ModelFault> {
        self.new_nodes.faults()
    }

    fn weights(&self, bucket: BucketId) -> Vec<(String, f64)> {
        self.new_nodes.weights(bucket)
    }

    fn copy(&self, copied: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        let new_nodes = self.new_nodes.copy(copied)?;
        let Self { windows, any, last, .. } = self;
        let (windows, last) = (windows.clone(), last.clone());
        Some(Box::new(Self { new_nodes, windows, any: *any, last }))
    }
}

impl DemandForecaster for WithGangs {
    fn demand_ahead(&self, history: &History, ticks: usize) -> Vec<Ahead> {
        self.new_nodes.demand_ahead(history, ticks)
    }
}

#[cfg(test)]
mod tests {
    use embedder::Demand;
    use placeholders::Objective;

    use crate::forecast::method::Method;
    use crate::forecast::question::{BucketOutlook, Present};
    use crate::forecast::sample;
    use crate::record::{BucketTick, History};

    use super::*;

    /// For two days, gangs of these (instances, number) arrive at one of every ten minutes. Checks
    /// the sizes of the gangs for a headroom that is certain, at quantile 0.9, and windows of three
    /// ticks.
    #[track_caller]
    fn check(gangs: &[(u64, u64)], headroom: u64, expected: &[u64]) {
        let config = sample::config(Method::Increments, Objective::Quantile(0.9));
        let mut forecaster = config.demand_forecaster(sample::tick(2_880, vec![]).time);
        let mut history = History::new(&config.catalog);
        for minute in 0..2_880 {
            let mut tick = sample::tick(minute, vec![BucketTick::default()]);
            if minute % 10 == 0 {
                let gang = |&(instances, n)| (VirtualInstance { bucket: 0, instances }, n);
                tick.gangs = gangs.iter().map(gang).collect();
            }
            history.record(tick);
            forecaster.learn(&history);
        }
        let demand = Demand { present: vec![9], ..Demand::default() };
        let now = Present::at_tick(history.last().unwrap().time, &demand);
        let outlook = forecaster.forecast(&history, &now).buckets.swap_remove(0);
        let outlook = BucketOutlook { new_nodes: Distribution::certain(headroom), ..outlook };
        assert_eq!(outlook.gangs(0.9), expected);
    }

    #[test]
    fn the_gangs_of_the_headroom_are_those_of_past_windows_that_it_holds() {
        check(&[(2, 1), (4, 1)], 9, &[4, 2]);
        check(&[(2, 1), (4, 1)], 5, &[4]);
        check(&[(2, 1), (4, 1)], 3, &[]);
        check(&[(4, 3)], 9, &[4, 4]);
        check(&[(2, 100)], 99, &[2; GANG_RANKS]);
        check(&[], 9, &[]);
    }
}
