//! The policy under test, and what it has seen.
//!
//! Records ticks and calls the three functions that decide; knows the world only by what a turn hands it.

use chrono::{DateTime, Utc};
use embedder::{Catalog, Demand, Room};
use placeholders::{Plan, Policy, Standing, Steady};

use super::cluster::Cluster;
use super::contender::Contender;
use super::log::TickRecord;
use super::offered::{LookAhead, Series};
use super::rates::Rates;
use super::workload::Workload;
use super::world::World;
use crate::decide::{decide, forecast, learn};
use crate::forecast::{Forecaster, Learners, Present};
use crate::record::{Arrivals, BucketTick, ShapeId, Tick, room_for};

/// The policy under test, and what it has seen.
pub(crate) struct Control<'a> {
    learners: Option<Learners>,
    policy: Policy,
    steady: Steady,
    ahead: Option<Vec<LookAhead<'a>>>,
    lead_seconds: i64,
    /// Before this it only learns.
    decides_from: i64,
    demand_max: Vec<u64>,
    arrivals: Arrivals,
    /// Launches by bucket since the last tick, once placeholders stand: for which no pod waited, and for which one did.
    launched: Vec<[u64; 2]>,
    /// Whether demand changed since the last decision.
    pub(crate) due: bool,
    headroom: Vec<u64>,
    pub(crate) writes: u64,
    pub(crate) ticks: Vec<TickRecord>,
}

/// Placeholders stand from a day before the window on: what they do to a cluster is over in an hour.
const SETTLE_SECONDS: i64 = 86_400;

impl<'a> Control<'a> {
    pub(crate) fn new(world: World<'a>, contender: Contender, series: &'a Series) -> Self {
        let World { workload, catalog, settings, window, .. } = world;
        let from: DateTime<Utc> = DateTime::from_timestamp(window.0, 0).unwrap_or_default();
        let oracle = contender == Contender::Oracle;
        let forecaster: Option<Box<dyn Forecaster>> = match contender {
            Contender::Rates(_) => Some(Box::new(Rates::new(workload, catalog, settings.lead().seconds))),
            _ => contender.forecaster(settings, catalog, from),
        };
        Self {
            learners: forecaster.map(Learners::new),
            policy: contender.policy(&settings.policy),
            steady: Steady::default(),
            ahead: oracle.then(|| series.buckets.iter().map(|steps| LookAhead::new(steps)).collect()),
            lead_seconds: settings.lead().seconds,
            decides_from: window.0.saturating_sub(SETTLE_SECONDS),
            demand_max: vec![0; catalog.len()],
            arrivals: Arrivals::default(),
            launched: vec![[0; 2]; catalog.len()],
            due: false,
            headroom: vec![0; catalog.len()],
            writes: 0,
            ticks: Vec::new(),
        }
    }

    pub(crate) fn arrived(&mut self, shape: ShapeId, count: u64) {
        self.arrivals.add(shape, count);
    }

    /// A node became ready.
    pub(crate) fn launched(&mut self, bucket: usize, waited_for: bool, now: i64) {
        self.launched[bucket][usize::from(waited_for)] += u64::from(now >= self.decides_from);
    }

    pub(crate) fn note(&mut self, demand: &Demand) {
        self.demand_max.iter_mut().zip(&demand.present).for_each(|(most, now)| *most = (*most).max(*now));
    }

    pub(crate) fn tick(
        &mut self,
        demand: &Demand,
        cluster: &Cluster<'_>,
        workload: &Workload,
        time: DateTime<Utc>,
    ) -> Tick {
        let maxima = std::mem::replace(&mut self.demand_max, demand.present.clone());
        let bucket = |(id, demand_max): (usize, u64)| {
            let [hidden, waited_for] = std::mem::take(&mut self.launched[id]);
            let (demand, announced) = (demand.present[id], demand.announced[id]);
            BucketTick { demand, demand_max, announced, ready: cluster.counts(id).1, hidden, waited_for }
        };
        let buckets: Vec<BucketTick> = maxima.into_iter().enumerate().map(bucket).collect();
        let room = room(&demand.rooms, workload, self.arrivals.frequent());
        let (arrivals, first_seen) = self.arrivals.take();
        let first_seen =
            first_seen.into_iter().map(|id| (id, workload.shapes[id as usize].clone())).collect();
        Tick { time, buckets, room, first_seen, arrivals }
    }

    /// The three functions that decide; `None` for a policy that holds no placeholders.
    pub(crate) fn decide(
        &mut self,
        tick: Option<Tick>,
        demand: &Demand,
        standing: impl FnOnce() -> Standing,
        catalog: &Catalog,
        now: DateTime<Utc>,
    ) -> Option<Plan> {
        let learners = self.learners.as_mut()?;
        if let Some(tick) = tick {
            learn(learners, tick);
        }
        let (at, lead) = (now.timestamp(), self.lead_seconds);
        if at < self.decides_from {
            return None;
        }
        let rise: Vec<u64> = self.ahead.iter_mut().flatten().map(|ahead| ahead.rise(at, lead)).collect();
        let arriving = self.arrivals.since_tick();
        let outlook = forecast(learners, &Present { time: now, demand, arriving: &arriving, rise: &rise });
        self.headroom.iter_mut().zip(&outlook.buckets).for_each(|(headroom, bucket)| {
            *headroom = bucket.headroom(self.policy.objective);
        });
        let (plan, steady) = decide(&outlook, demand, &standing(), catalog, &self.policy, &self.steady, now);
        self.steady = steady;
        Some(plan)
    }

    pub(crate) fn keep(&mut self, time: i64, demand: &Demand, cluster: &Cluster<'_>) {
        for (bucket, &demand) in demand.present.iter().enumerate() {
            let (placeholders, _, ready, launching) = cluster.counts(bucket);
            let headroom = self.headroom[bucket];
            self.ticks.push(TickRecord { time, bucket, demand, headroom, placeholders, ready, launching });
        }
    }
}

/// For each of these shapes, how many more pods fit on nodes with free room.
pub(super) fn room(rooms: &[Room], workload: &Workload, shapes: &[ShapeId]) -> Vec<(ShapeId, u64)> {
    let room = shapes.iter().map(|&shape| {
        let (asks, fits) = (workload.shapes[shape as usize].asks, &workload.fits[shape as usize]);
        let admitting = rooms.iter().filter(|room| fits.contains(room.bucket));
        (shape, room_for(asks, admitting.map(|room| (room.free, room.nodes))))
    });
    room.collect()
}
