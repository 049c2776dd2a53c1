//! The policy under test: its control, and its observations since its last turn.

use chrono::{DateTime, Utc};
use control::{Control, Observed, PlannedPods, TierArrival, Turn, WarmPools, WarmTerms, Workflow};
use demand::forecast::Method;
use demand::record::{KeptPlan, PodStarts, ShapeId, StepRun};
use embedder::{BucketId, Cluster, Room, Shape, VirtualInstance};
use placeholders::{Policy, Prices, Standing};

use super::forecasters::{causal_forecaster, forecaster};
use super::input::{SimulationInput, first_decision};
use super::log::TickRecord;
use super::named_policy::{KnownJobs, NamedPolicy};
use super::oracle::Foreseen;
use super::paper::Counts;
use crate::replay::{Allocated, may_stop};

/// The policy under test.
pub(crate) struct PolicyRun<'a> {
    /// `None` for a policy that holds no placeholders.
    control: Option<Control>,
    /// `Some` for the oracle, with the jobs that it knows, `None` for all.
    foreseen: Option<(Foreseen, Option<KnownJobs>)>,
    /// `Some` for `paper`: the pods that run or are pending, and where their counts are read.
    allocated: Option<(Allocated<'a>, Counts)>,
    /// The number of stopped instances of each bucket, if it is fixed.
    pub(super) warm_pool: Option<u64>,
    /// Whether forecasts know which of the running jobs end within the lead time.
    pub(crate) knows_ends: bool,
    policy: Policy,
    prices: Prices,
    /// The time of the first decision, in Unix seconds.
    decides_from: i64,
    /// Whether the policy observes the warm-up before it.
    pub(super) learns: bool,
    /// The shapes of the workload, by number.
    shapes: &'a [Shape],
    /// The pods that arrived since the last turn.
    arrivals: Vec<(Shape, u64)>,
    /// Of these pods, those that belong to a tier.
    tiers: Vec<TierArrival>,
    /// The gangs larger than an instance that arrived since the last turn.
    gangs: Vec<VirtualInstance>,
    /// The pods that started since the last turn.
    starts: Vec<(BucketId, PodStarts)>,
    /// The announcements that ended since the last turn.
    kept: Vec<KeptPlan>,
    /// The steps of workflows that ended since the last turn.
    runs: Vec<StepRun>,
    /// Whether demand changed since the last turn.
    pub(crate) due: bool,
    headroom: Vec<u64>,
    pub(crate) writes: u64,
    pub(crate) ticks: Vec<TickRecord>,
}

impl<'a> PolicyRun<'a> {
    pub(crate) fn new(world: SimulationInput<'a>, named_policy: NamedPolicy) -> Self {
        let SimulationInput { workload, catalog, settings, window, .. } = world;
        let tick_seconds = settings.tick.as_seconds();
        let (foreseen, counts) = (Foreseen::default(), Counts::default());
        let policy = named_policy.policy(&settings.policy);
        let prices = Prices::new(policy.objective, catalog);
        let is_sized = named_policy == NamedPolicy::Tiered(None);
        let warm_pools = is_sized.then(|| warm_pools(world, &prices)).flatten();
        let control = forecaster(named_policy, world, &foreseen, &counts).map(|forecaster| {
            Control::new(forecaster, catalog, tick_seconds).with_warm_pools(warm_pools)
        });
        Self {
            warm_pool: match named_policy {
                NamedPolicy::WarmPool(n) | NamedPolicy::Tiered(Some(n)) => Some(n),
                _ => None,
            },
            control,
            foreseen: match named_policy {
                NamedPolicy::Oracle => Some((foreseen, None)),
                NamedPolicy::Jobs(known) => Some((foreseen, Some(known))),
                _ => None,
            },
            allocated: named_policy
                .counts_pods()
                .then(|| (Allocated::new(workload, catalog), counts)),
            knows_ends: named_policy == NamedPolicy::Ends,
            prices,
            policy,
            decides_from: first_decision(window),
            learns: named_policy.learns(),
            shapes: &workload.shapes,
            arrivals: Vec::new(),
            tiers: Vec::new(),
            gangs: Vec::new(),
            starts: Vec::new(),
            kept: Vec::new(),
            runs: Vec::new(),
            due: false,
            headroom: vec![0; catalog.len()],
            writes: 0,
            ticks: Vec::new(),
        }
    }

    /// Returns a copy that learns and decides on its own. `None` if the policy reads the run, and
    /// if its forecaster cannot be copied.
    pub(crate) fn copy(&self) -> Option<Self> {
        if self.foreseen.is_some() || self.allocated.is_some() {
            return None;
        }
        let control = match &self.control {
            Some(control) => Some(control.copy()?),
            None => None,
        };
        Some(Self {
            control,
            foreseen: None,
            allocated: None,
            policy: self.policy.clone(),
            prices: self.prices.clone(),
            arrivals: self.arrivals.clone(),
            tiers: self.tiers.clone(),
            gangs: self.gangs.clone(),
            starts: self.starts.clone(),
            kept: self.kept.clone(),
            runs: self.runs.clone(),
            headroom: self.headroom.clone(),
            ticks: self.ticks.clone(),
            ..*self
        })
    }

    /// Whether the policy can hold placeholders.
    fn has_control(&self) -> bool {
        self.control.is_some()
    }

    /// Whether the policy decides at `now`, or learns from what it observes.
    pub(crate) fn observes(&self, now: i64) -> bool {
        self.has_control() && (self.learns || now >= self.decides_from)
    }

    /// Where the oracle reads the new nodes of the decision at `now`, and the jobs that it knows.
    /// `None` for other policies, and while the policy only learns.
    pub(crate) fn foreseen(&self, now: i64) -> Option<(Foreseen, Option<KnownJobs>)> {
        self.foreseen.clone().filter(|_| now >= self.decides_from)
    }

    /// Records that the pods of a job were submitted.
    pub(crate) fn submitted(&mut self, pods: &[(ShapeId, u64)]) {
        self.allocated.iter_mut().for_each(|(allocated, _)| allocated.add(pods));
    }

    /// Records that a job ended.
    pub(crate) fn ended(&mut self, pods: &[(ShapeId, u64)]) {
        self.allocated.iter_mut().for_each(|(allocated, _)| allocated.remove(pods));
    }

    /// The counts that the forecaster of `paper` reads.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> Option<Vec<u64>> {
        self.allocated.as_ref().map(|(_, counts)| counts.get())
    }

    /// Records that pods arrived. `tier` is the name of their tier.
    pub(crate) fn arrived(&mut self, shape: ShapeId, count: u64, tier: Option<&str>) {
        if !self.has_control() {
            return;
        }
        let shape = &self.shapes[shape as usize];
        self.arrivals.push((shape.clone(), count));
        self.tiers.extend(tier.map(|tier| (tier.to_owned(), shape.clone(), count)));
    }

    pub(crate) fn gang_arrived(&mut self, gang: VirtualInstance) {
        if self.has_control() {
            self.gangs.push(gang);
        }
    }

    /// Records that pods started on nodes of a bucket.
    pub(crate) fn started(&mut self, bucket: BucketId, starts: PodStarts, now: i64) {
        if self.has_control() && now >= self.decides_from {
            self.starts.push((bucket, starts));
        }
    }

    /// Records what became of an announcement.
    pub(crate) fn announcement_ended(&mut self, kept: KeptPlan) {
        if self.has_control() {
            self.kept.push(kept);
        }
    }

    /// Records that a step of a workflow ended.
    pub(crate) fn step_ended(&mut self, run: StepRun) {
        if self.has_control() {
            self.runs.push(run);
        }
    }

    /// Records that announced pods, or those of an expected step, were submitted. Returns for how
    /// many of them nodes were held.
    pub(crate) fn came(&mut self, announcement: &str, count: u64) -> u64 {
        self.control.as_mut().map_or(0, |control| control.came(announcement, count))
    }

    /// Clears the observations since the last turn, in a warm-up that the policy does not observe.
    /// Only the number of submitted pods is kept, because decisions on spot instances read it.
    pub(crate) fn skip(&mut self) {
        let arrivals = std::mem::take(&mut self.arrivals);
        if let Some(control) = &mut self.control {
            for (shape, count) in arrivals {
                control.arrived(&shape, count);
            }
        }
        self.tiers.clear();
        self.gangs.clear();
        self.kept.clear();
        self.runs.clear();
    }

    /// Returns the observations since the last turn, and clears them.
    pub(crate) fn observe(
        &mut self,
        time: DateTime<Utc>,
        (cluster, planned, workflows): (Cluster, Vec<PlannedPods>, Vec<Workflow>),
        rooms: Option<Vec<Room>>,
        ready: Vec<u64>,
        standing: impl FnOnce() -> Standing,
    ) -> Observed {
        let decides = time.timestamp() >= self.decides_from;
        Observed {
            time,
            cluster,
            rooms,
            standing: if decides { standing() } else { Standing::default() },
            ready,
            arrivals: std::mem::take(&mut self.arrivals),
            tiers: std::mem::take(&mut self.tiers),
            namespaces: Vec::new(),
            gangs: std::mem::take(&mut self.gangs),
            starts: std::mem::take(&mut self.starts),
            planned,
            kept: std::mem::take(&mut self.kept),
            workflows,
            runs: std::mem::take(&mut self.runs),
        }
    }

    /// Runs one turn. Returns `None` for a policy that holds no placeholders, and while it only
    /// learns.
    pub(crate) fn turn(&mut self, observed: &Observed) -> Option<Turn> {
        let control = self.control.as_mut()?;
        if let Some((allocated, counts)) = &self.allocated {
            counts.set(allocated.instances());
        }
        if observed.time.timestamp() < self.decides_from {
            control.watch(observed);
            return None;
        }
        let turn = control.turn(observed, &self.policy);
        for (id, bucket) in turn.outlook.buckets.iter().enumerate() {
            self.headroom[id] = bucket.headroom(self.prices.quantile(id));
        }
        Some(turn)
    }

    /// The weights of the ensemble's experts for a bucket, the largest first.
    pub(crate) fn weights(&self, bucket: BucketId) -> Vec<(String, f64)> {
        self.control.as_ref().map_or_else(Vec::new, |control| control.weights(bucket))
    }

    /// Keeps a record of each bucket at a tick. `demand` is present demand by bucket.
    pub(crate) fn keep(
        &mut self,
        time: i64,
        demand: &[u64],
        cluster: &crate::replay::SimulatedCluster<'_>,
    ) {
        for (bucket, &demand) in demand.iter().enumerate() {
            let (placeholders, _, ready, launching) = cluster.counts(bucket);
            let headroom = self.headroom[bucket];
            self.ticks.push(TickRecord {
                time,
                bucket,
                demand,
                headroom,
                placeholders,
                ready,
                launching,
            });
        }
    }
}

/// The warm pools whose sizes are decided. `None` if the settings admit no forecast.
fn warm_pools(world: SimulationInput<'_>, prices: &Prices) -> Option<WarmPools> {
    let SimulationInput { catalog, settings, window, .. } = world;
    let increments = NamedPolicy::Forecast(Method::Increments, None);
    let from = DateTime::from_timestamp(window.0, 0).unwrap_or_default();
    let forecaster = causal_forecaster(increments, settings, catalog, from)?;
    let terms = WarmTerms {
        launch_seconds: settings.launch_latency.typical(),
        start_seconds: settings.warm_start.as_seconds(),
        share: settings.warm_share,
    };
    let terms: Vec<Option<WarmTerms>> =
        catalog.buckets().iter().map(|bucket| may_stop(bucket).then_some(terms)).collect();
    Some(WarmPools::new(forecaster, catalog, prices, &terms))
}
