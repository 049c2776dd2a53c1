//! Collects the observations since the last tick and makes a [`Tick`] from them.
//!
//! The recorder neither forecasts nor reads a clock. The controller, the simulator and the export
//! of ticks for training all record through it, so that all of them make the same ticks.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use embedder::{BucketId, Catalog, Room, Shape, VirtualInstance};

use super::arrivals::Arrivals;
use super::shape_table::room_for;
use super::shapes::Shapes;
use super::tick::{BucketTick, KeptPlan, NamespaceArrivals, ShapeId, StepRun, Tick, TierArrivals};

/// Makes ticks from the observations between them.
#[derive(Clone)]
pub struct Recorder {
    catalog: Catalog,
    tick_seconds: i64,
    shapes: Shapes,
    arrivals: Arrivals,
    /// Gangs submitted since the last tick that are larger than an instance.
    gangs: BTreeMap<VirtualInstance, u64>,
    /// Pods submitted since the last tick that belong to a tier, by bucket and tier.
    tiers: BTreeMap<(BucketId, String), u64>,
    /// What was submitted since the last tick, in thousandths of an instance, by bucket and
    /// namespace.
    namespaces: BTreeMap<(BucketId, String), u64>,
    /// The maximum of present demand since the last tick, by bucket.
    demand_max: Vec<u64>,
    /// Pods that started since the last tick, by bucket.
    starts: Vec<PodStarts>,
    /// What was planned since the last tick, by bucket.
    planned: Vec<Planned>,
    /// Planned demand that ended since the last tick.
    kept: Vec<KeptPlan>,
    /// Steps of workflows that ended since the last tick.
    runs: Vec<StepRun>,
    last_tick: Option<DateTime<Utc>>,
}

/// What was planned for one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Planned {
    /// As in [`BucketTick::planned`].
    nodes: u64,
    /// As in [`BucketTick::notice`].
    notice: u64,
}

/// Pods that started on nodes of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodStarts {
    /// Pods that had waited no longer than one scan of the autoscaler.
    pub hidden: u64,
    /// Pods that had waited longer.
    pub waited: u64,
}

/// The state of a bucket at the time of a tick, in instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// Present demand.
    pub demand: u64,
    /// Announced demand.
    pub announced: u64,
    /// Placeholders on nodes.
    pub ready: u64,
}

impl Recorder {
    /// A recorder for the buckets of a catalog, with a tick every `tick_seconds` (at least 1).
    pub fn new(catalog: &Catalog, tick_seconds: i64) -> Self {
        Self {
            tick_seconds: tick_seconds.max(1),
            shapes: Shapes::default(),
            arrivals: Arrivals::default(),
            gangs: BTreeMap::new(),
            tiers: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            demand_max: vec![0; catalog.len()],
            starts: vec![PodStarts::default(); catalog.len()],
            planned: vec![Planned::default(); catalog.len()],
            kept: Vec::new(),
            runs: Vec::new(),
            last_tick: None,
            catalog: catalog.clone(),
        }
    }

    /// The number of a shape. `None` when the shape is new and [`Shapes`] is full.
    pub fn intern(&mut self, shape: &Shape) -> Option<ShapeId> {
        self.shapes.intern(shape).map(|(id, _)| id)
    }

    /// The shapes by number.
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// The shapes by number, mutable because reading a line of the history adds shapes.
    pub fn shapes_mut(&mut self) -> &mut Shapes {
        &mut self.shapes
    }

    /// Counts `count` submitted pods of a shape.
    pub fn arrived(&mut self, shape: ShapeId, count: u64) {
        self.arrivals.add(shape, count);
    }

    /// Counts a submitted gang that is larger than an instance. A tick keeps [`GANG_SIZES_MAX`]
    /// sizes; a gang of a further size is not counted.
    pub fn gang_arrived(&mut self, gang: VirtualInstance) {
        if self.gangs.len() < GANG_SIZES_MAX || self.gangs.contains_key(&gang) {
            let count = self.gangs.entry(gang).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Counts `count` submitted pods of a shape that belong to a tier, in addition to
    /// [`Self::arrived`]. Pods that fit no bucket are left out.
    pub fn tier_arrived(&mut self, tier: &str, shape: ShapeId, count: u64) {
        let buckets = self.shapes.get(shape).map(|shape| self.catalog.buckets_for(shape));
        if let Some(bucket) = buckets.and_then(|fitting| fitting.ok()?.first()) {
            let pods = self.tiers.entry((bucket, tier.to_owned())).or_default();
            *pods = pods.saturating_add(count);
        }
    }

    /// Counts `count` submitted pods of a shape of a namespace, in addition to [`Self::arrived`].
    /// Pods that fit no bucket are left out, and those of further namespaces once a tick has
    /// [`NAMESPACES_MAX`].
    pub fn namespace_arrived(&mut self, namespace: &str, shape: &Shape, count: u64) {
        let bucket = self.catalog.buckets_for(shape).ok().and_then(|fitting| fitting.first());
        let Some(id) = bucket else { return };
        let fit = self.catalog.buckets()[id].allocatable.holds(shape.requests).max(1);
        let key = (id, namespace.to_owned());
        if self.namespaces.len() < NAMESPACES_MAX || self.namespaces.contains_key(&key) {
            let millis = self.namespaces.entry(key).or_default();
            *millis = millis.saturating_add(count.saturating_mul(1_000).div_ceil(fit));
        }
    }

    /// Counts pods that started on nodes of a bucket.
    pub fn started(&mut self, bucket: BucketId, starts: PodStarts) {
        if let Some(counts) = self.starts.get_mut(bucket) {
            counts.hidden = counts.hidden.saturating_add(starts.hidden);
            counts.waited = counts.waited.saturating_add(starts.waited);
        }
    }

    /// Counts nodes by which demand rose because of planned pods of which the policy knew for as
    /// long as a launch takes, by bucket.
    pub fn planned(&mut self, nodes: impl IntoIterator<Item = u64>) {
        for (planned, nodes) in self.planned.iter_mut().zip(nodes) {
            planned.nodes = planned.nodes.saturating_add(nodes);
        }
    }

    /// Counts the notice of `count` planned pods of a shape, in addition to [`Self::arrived`], in
    /// thousandths of a launch. Pods that fit no bucket are left out.
    pub fn noticed(&mut self, shape: &Shape, count: u64, thousandths: u64) {
        let bucket = self.catalog.buckets_for(shape).ok().and_then(|fitting| fitting.first());
        if let Some(planned) = bucket.and_then(|bucket| self.planned.get_mut(bucket)) {
            planned.notice = planned.notice.saturating_add(count.saturating_mul(thousandths));
        }
    }

    /// Records what became of planned pods. A tick keeps at most [`KEPT_MAX`] of them.
    pub fn kept(&mut self, kept: KeptPlan) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(kept);
        }
    }

    /// Records that a step of a workflow ended. A tick keeps at most [`KEPT_MAX`] of them.
    pub fn step_ended(&mut self, run: StepRun) {
        if self.runs.len() < KEPT_MAX {
            self.runs.push(run);
        }
    }

    /// The planned nodes since the last tick, as [`Self::planned`] counts them.
    pub fn planned_nodes(&self) -> Vec<u64> {
        self.planned.iter().map(|planned| planned.nodes).collect()
    }

    /// Updates the maximum with the present demand, by bucket. May be called between ticks.
    pub fn demand(&mut self, present: impl IntoIterator<Item = u64>) {
        self.demand_max.iter_mut().zip(present).for_each(|(most, now)| *most = (*most).max(now));
    }

    /// The pods submitted since the last tick, by shape.
    pub fn arriving(&self) -> Vec<(ShapeId, u64)> {
        self.arrivals.since_tick()
    }

    /// The shapes that arrived, each with the number of its pods submitted so far.
    pub fn submitted(&self) -> impl Iterator<Item = (&Shape, u64)> {
        self.arrivals.totals().filter_map(|(id, pods)| Some((self.shapes.get(id)?, pods)))
    }

    /// For the most frequent shapes, how many more pods fit on `rooms`, the free room on occupied
    /// nodes.
    pub fn room(&self, rooms: &[Room]) -> Arc<[(ShapeId, u64)]> {
        let buckets = self.catalog.buckets();
        let room = self.arrivals.frequent().filter_map(|id| {
            let shape = self.shapes.get(id)?;
            let admits: Vec<bool> = buckets
                .iter()
                .enumerate()
                .map(|(id, bucket)| shape.admitted_by(id, bucket))
                .collect();
            let admitting = rooms.iter().filter(|room| admits[room.bucket]);
            let free = admitting.map(|room| (room.free, room.nodes));
            Some((id, room_for(shape.requests, free)))
        });
        room.collect()
    }

    /// Whether a tick is due. Ticks are at multiples of `tick_seconds` in Unix time, and their
    /// times only ascend.
    pub fn is_due(&self, now: DateTime<Utc>) -> bool {
        let tick = |time: DateTime<Utc>| time.timestamp().div_euclid(self.tick_seconds);
        self.last_tick.is_none_or(|last| tick(last) < tick(now))
    }

    /// The tick at `time`, with all observations since the last tick. `room` is the result of
    /// [`Self::room`] at `time`.
    pub fn tick(
        &mut self,
        time: DateTime<Utc>,
        states: &[BucketState],
        room: &[(ShapeId, u64)],
    ) -> Tick {
        let present = states.iter().map(|state| state.demand).collect();
        let maxima = std::mem::replace(&mut self.demand_max, present);
        let counted = self.starts.iter_mut().zip(&mut self.planned);
        let buckets = states.iter().zip(maxima).zip(counted).map(|of| {
            let ((state, demand_max), (starts, planned)) = of;
            let PodStarts { hidden: pods_hidden, waited: pods_waited } = std::mem::take(starts);
            let Planned { nodes: planned, notice } = std::mem::take(planned);
            let BucketState { demand, announced, ready } = *state;
            BucketTick {
                demand,
                demand_max,
                planned,
                notice,
                announced,
                ready,
                pods_hidden,
                pods_waited,
            }
        });
        let buckets = buckets.collect();
        let (arrivals, first_seen) = self.arrivals.take();
        let first_seen = first_seen
            .into_iter()
            .filter_map(|id| Some((id, self.shapes.get(id)?.clone())))
            .collect();
        self.last_tick = Some(time);
        let gangs = std::mem::take(&mut self.gangs).into_iter().collect();
        let tiers = std::mem::take(&mut self.tiers).into_iter();
        let tiers = tiers.map(|((bucket, tier), pods)| TierArrivals { bucket, tier, pods });
        let namespaces = std::mem::take(&mut self.namespaces).into_iter();
        let namespaces = namespaces.map(|((bucket, namespace), millis)| NamespaceArrivals {
            bucket,
            namespace,
            millis,
        });
        Tick {
            time,
            buckets,
            room: room.to_vec(),
            first_seen,
            arrivals,
            gangs,
            tiers: tiers.collect(),
            namespaces: namespaces.collect(),
            kept: std::mem::take(&mut self.kept),
            runs: std::mem::take(&mut self.runs),
            rollout_percent: None,
        }
    }

    /// Takes over the observations since the last tick of a recorder of the same buckets, which may
    /// have other sizes. Other buckets have other numbers, so their observations are lost.
    pub fn succeed(&mut self, predecessor: &Self) {
        let names = |of: &Self| -> Vec<String> {
            of.catalog.buckets().iter().map(|bucket| bucket.name.clone()).collect()
        };
        if names(predecessor) != names(self) {
            return;
        }
        for (shape, count) in predecessor.arrivals.since_tick() {
            let id = predecessor.shapes.get(shape).and_then(|shape| self.intern(shape));
            if let Some(id) = id {
                self.arrived(id, count);
            }
        }
        self.gangs.clone_from(&predecessor.gangs);
        self.tiers.clone_from(&predecessor.tiers);
        self.namespaces.clone_from(&predecessor.namespaces);
        self.starts.clone_from(&predecessor.starts);
        self.planned.clone_from(&predecessor.planned);
        self.kept.clone_from(&predecessor.kept);
        self.runs.clone_from(&predecessor.runs);
        self.demand(predecessor.demand_max.iter().copied());
    }

    /// Restores the state after a tick of the history, so that recording continues from it.
    pub fn recall(&mut self, tick: &Tick) {
        for (shape, count) in &tick.arrivals {
            self.arrivals.add(*shape, *count);
        }
        self.arrivals.take();
        self.demand_max = tick.buckets.iter().map(|bucket| bucket.demand).collect();
        self.last_tick = Some(tick.time);
    }
}

/// The largest number of sizes of gangs in a tick. The limit bounds the length of a line of the
/// history.
const GANG_SIZES_MAX: usize = 1_000;

/// The largest number of ended plans in a tick. The limit bounds the length of a line of the
/// history.
const KEPT_MAX: usize = 1_000;

/// The largest number of pairs of a bucket and a namespace in a tick. The limit bounds the length
/// of a line of the history.
const NAMESPACES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::forecast::sample;

    /// A lead time that changes replaces the recorder between two ticks.
    #[test]
    fn a_successor_has_the_observations_since_the_last_tick() {
        let catalog = sample::catalog();
        let shape = |cpu_millis| testkit::shape(testkit::cpus(cpu_millis));
        let mut before = Recorder::new(&catalog, 60);
        before.intern(&shape(2_000));
        let id = before.intern(&shape(1_000)).unwrap();
        before.arrived(id, 3);
        before.tier_arrived("production", id, 2);
        before.namespace_arrived("jobs", &shape(1_000), 2);
        before.gang_arrived(VirtualInstance { bucket: 0, instances: 4 });
        before.started(0, PodStarts { hidden: 5, waited: 6 });
        before.demand(vec![7; catalog.len()]);

        let mut after = Recorder::new(&catalog, 60);
        after.succeed(&before);
        let now = DateTime::UNIX_EPOCH + TimeDelta::hours(1);
        let states = vec![BucketState::default(); catalog.len()];
        let numbered = after.intern(&shape(1_000)).unwrap();
        let tick = after.tick(now, &states, &[]);
        assert_eq!(tick.arrivals, [(numbered, 3)]);
        assert_eq!(tick.gangs, [(VirtualInstance { bucket: 0, instances: 4 }, 1)]);
        assert_eq!(tick.tiers.iter().map(|tier| tier.pods).collect::<Vec<_>>(), [2]);
        let filled =
            2_000_u64.div_ceil(catalog.buckets()[0].allocatable.holds(testkit::cpus(1_000)));
        assert_eq!(tick.namespaces.iter().map(|of| of.millis).collect::<Vec<_>>(), [filled]);
        let BucketTick { demand_max, pods_hidden, pods_waited, .. } = tick.buckets[0];
        assert_eq!((demand_max, pods_hidden, pods_waited), (7, 5, 6));
        // The next tick begins anew.
        let next = after.tick(now + TimeDelta::minutes(1), &states, &[]);
        assert_eq!((next.arrivals, next.gangs), (vec![], vec![]));
    }
}
