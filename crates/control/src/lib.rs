//! The control of one policy: it records ticks, learns from them, forecasts demand and plans
//! placeholders.
//!
//! ```text
//! lib.rs         the turn
//! decide.rs      how many placeholders ought to stand, from a forecast and what stands
//! fallback.rs    on-demand nodes in place of spot instances whose launches fail
//! namespaces.rs  what each namespace may hold of the headroom
//! planned.rs     pods that are planned, and which plans were kept
//! run_times.rs   how long the steps of workflows take
//! successors.rs  steps of workflows that start when others end
//! warm_pools.rs  how many stopped instances the warm pools of groups shall have
//! ```
//!
//! The controller, the simulator and the backtest run this code for their decisions, and no other
//! code decides. It has no client, reads no clock and does no I/O: the observation is an argument,
//! and the plan is the result.

pub mod decide;
mod fallback;
mod namespaces;
mod planned;
mod run_times;
mod successors;
mod warm_pools;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use demand::forecast::{
    BucketOutlook, Distribution, Forecaster, Learners, ModelFault, Outlook, Present,
};
use demand::record::{BucketState, History, KeptPlan, PodStarts, Recorder, Shapes, StepRun, Tick};
use embedder::{
    BucketId, Catalog, Cluster, Demand, Room, Shape, VirtualInstance, embed, embed_preferring,
};
use placeholders::{Objective, Plan, Policy, Prices, Reason, Standing, Steady, lint};

pub use self::planned::{NOTICE_MAX, PlannedPods};
pub use self::successors::{Expected, Step, StepState, Workflow};
pub use self::warm_pools::{WARM_SHARE, WARM_START_SECONDS, WarmPools, WarmTerms, cut_to_fit};
use crate::decide::{decide, retain};
use crate::fallback::{Fallback, Moment};
use crate::namespaces::Namespaces;
use crate::planned::Plans;
use crate::successors::Successors;

/// The control of one policy. All of its state can be rebuilt from the history and the standing
/// placeholders.
pub struct Control {
    catalog: Catalog,
    learners: Learners,
    recorder: Recorder,
    steady: Steady,
    fallback: Fallback,
    namespaces: Namespaces,
    plans: Plans,
    successors: Successors,
    /// `None` without warm pools.
    warm_pools: Option<WarmPools>,
}

/// What one turn reads of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The time of the observation, in UTC.
    pub time: DateTime<Utc>,
    /// Batch pods, and the nodes that they occupy.
    pub cluster: Cluster,
    /// The free room that is recorded and that forecasts use, in place of what `cluster` leaves
    /// once pending pods are placed. `Some` only in a simulation of a reference policy that reads
    /// when jobs end.
    pub rooms: Option<Vec<Room>>,
    /// The placeholders, on nodes or waiting for one, and the state of their groups.
    pub standing: Standing,
    /// By bucket: placeholders on nodes.
    pub ready: Vec<u64>,
    /// Pods submitted since the last observation, by shape.
    pub arrivals: Vec<(Shape, u64)>,
    /// The pods among `arrivals` that belong to a tier.
    pub tiers: Vec<TierArrival>,
    /// The pods of `arrivals` by namespace. Empty where namespaces are not known.
    pub namespaces: Vec<NamespaceArrival>,
    /// Gangs submitted since the last observation that are larger than an instance.
    pub gangs: Vec<VirtualInstance>,
    /// Pods that started since the last observation, by bucket.
    pub starts: Vec<(BucketId, PodStarts)>,
    /// Planned pods that come within the time of a launch. `arrivals` has none of the pods for
    /// which nodes were held.
    pub planned: Vec<PlannedPods>,
    /// Plans that ended since the last observation.
    pub kept: Vec<KeptPlan>,
    /// Workflows that have not ended. `arrivals` has none of the pods of their steps for which
    /// nodes were held.
    pub workflows: Vec<Workflow>,
    /// Steps of workflows that ended since the last observation.
    pub runs: Vec<StepRun>,
}

/// Submitted pods of one tier: the name of the tier, the shape of the pods, and their number.
pub type TierArrival = (String, Shape, u64);

/// Submitted pods of one namespace: the name of the namespace, the shape of the pods, and their
/// number.
pub type NamespaceArrival = (String, Shape, u64);

/// The results of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The tick that was recorded. `None` if no tick was due, or if the observation was out of
    /// date.
    pub tick: Option<Tick>,
    /// The nodes that pods need now. Those for planned pods are among the announced ones.
    pub demand: Demand,
    /// The nodes that arrivals will need.
    pub outlook: Outlook,
    /// The placeholders that should stand.
    pub plan: Plan,
    /// By bucket, how many stopped instances the warm pools shall have. `None` without warm pools,
    /// and from an observation that is out of date.
    pub warm_pools: Option<Vec<u64>>,
    /// By plan of the observation, and by expected step: the number of pods for which nodes are
    /// held.
    pub planned: Vec<(String, u64)>,
    /// The steps of workflows that are expected within the time of a launch.
    pub expected: Vec<Expected>,
}

impl Control {
    /// Creates a control that has learnt nothing yet. `tick_seconds` is the time between two ticks.
    pub fn new(forecaster: Box<dyn Forecaster>, catalog: &Catalog, tick_seconds: i64) -> Self {
        Self {
            learners: Learners::new(forecaster, catalog),
            recorder: Recorder::new(catalog, tick_seconds),
            steady: Steady::default(),
            fallback: Fallback::default(),
            namespaces: Namespaces::default(),
            plans: Plans::default(),
            successors: Successors::default(),
            warm_pools: None,
            catalog: catalog.clone(),
        }
    }

    /// Decides the sizes of warm pools, too.
    #[must_use]
    pub fn with_warm_pools(self, warm_pools: Option<WarmPools>) -> Self {
        Self { warm_pools, ..self }
    }

    /// The warm pools whose sizes are decided.
    pub fn warm_pools_mut(&mut self) -> Option<&mut WarmPools> {
        self.warm_pools.as_mut()
    }

    /// Returns a copy that learns and decides on its own. `None` if the forecaster has no copy.
    pub fn copy(&self) -> Option<Self> {
        let learners = self.learners.copy()?;
        let Self { catalog, recorder, steady, fallback, namespaces, plans, successors, .. } = self;
        let warm_pools = match &self.warm_pools {
            Some(warm_pools) => Some(warm_pools.copy()?),
            None => None,
        };
        Some(Self {
            catalog: catalog.clone(),
            warm_pools,
            learners,
            recorder: recorder.clone(),
            steady: steady.clone(),
            fallback: fallback.clone(),
            namespaces: namespaces.clone(),
            plans: plans.clone(),
            successors: successors.clone(),
        })
    }

    /// Takes over the stabilisers of the control that this one replaces, what stands in place of
    /// spot instances, and the sizes of warm pools, by the names of the buckets. For the same
    /// buckets, it also takes over the observations since the last tick.
    pub fn succeed(&mut self, predecessor: &Self) {
        self.recorder.succeed(&predecessor.recorder);
        self.plans.succeed(&predecessor.plans);
        self.fallback = predecessor.fallback.renumbered(&predecessor.catalog, &self.catalog);
        self.steady = predecessor.steady.renumbered(&predecessor.catalog, &self.catalog);
        if let (Some(ours), Some(theirs)) = (&mut self.warm_pools, &predecessor.warm_pools) {
            ours.succeed(theirs, &predecessor.catalog, &self.catalog);
        }
    }

    /// The shapes by number.
    pub fn shapes(&self) -> &Shapes {
        self.recorder.shapes()
    }

    /// The shapes by number, to be read from a line of the history.
    pub fn shapes_mut(&mut self) -> &mut Shapes {
        self.recorder.shapes_mut()
    }

    /// The faults of the ONNX model at the last forecast. Empty without a model, or if the model
    /// works.
    pub fn faults(&self) -> Vec<ModelFault> {
        self.learners.faults()
    }

    /// The weights of the ensemble's experts for a bucket, by their names, the largest first. Empty
    /// for other methods.
    pub fn weights(&self, bucket: BucketId) -> Vec<(String, f64)> {
        self.learners.weights(bucket)
    }

    /// The latest ticks from which the control has learnt.
    pub fn history(&self) -> &History {
        self.learners.history()
    }

    /// Learns from a tick of the history; ticks come in the order of time. `targets` has, by
    /// bucket, the target of the plan at the tick, from which the stabilisers' windows are
    /// restored.
    pub fn recall(&mut self, tick: Tick, targets: &[u64]) {
        self.recorder.recall(&tick);
        self.steady.recall(targets, tick.time);
        self.namespaces.learn(&tick, self.catalog.len());
        tick.kept.iter().for_each(|kept| self.plans.learn(kept));
        tick.runs.iter().for_each(|run| self.successors.learn(run));
        self.learn(tick);
    }

    /// Notes that pods of a plan came. Returns for how many of them nodes were held: these pods are
    /// left out of [`Observed::arrivals`], because no forecast is needed for them.
    pub fn came(&mut self, plan: &str, count: u64) -> u64 {
        self.plans.came(plan, count)
    }

    /// The mean share of the planned pods of an author that came, in [0, 1]. `None` before the
    /// first plan ended.
    pub fn kept(&self, author: &str) -> Option<f64> {
        self.plans.kept(author)
    }

    /// Learns from a tick, except what it has of namespaces, plans and workflows: forecasts do not
    /// read them, and two weeks of them would fill the memory.
    fn learn(&mut self, tick: Tick) {
        let (namespaces, kept, runs) = (Vec::new(), Vec::new(), Vec::new());
        let tick = Tick { namespaces, kept, runs, ..tick };
        if let Some(warm_pools) = &mut self.warm_pools {
            warm_pools.learn(tick.clone());
        }
        self.learners.learn(tick);
    }

    /// Counts submitted pods of a shape, without an observation. Pods of a new shape are not
    /// counted if there is no room for another shape.
    pub fn arrived(&mut self, shape: &Shape, count: u64) {
        if let Some(id) = self.recorder.intern(shape) {
            self.recorder.arrived(id, count);
        }
    }

    /// Records what was observed and learns from it at a tick, without a forecast: for the warm-up
    /// of a simulation. `standing` is not read.
    pub fn watch(&mut self, observed: &Observed) -> Option<Tick> {
        let (planned, _) = self.planned(observed, Objective::default());
        let Self { plans, recorder, catalog, .. } = self;
        let embed = |cluster: &Cluster| embed(cluster, catalog);
        let seen = (&observed.cluster, &*planned, &*observed.kept);
        let context = (Objective::default(), observed.time.timestamp());
        let (mut demand, _) = plans.demand(seen, context, catalog, recorder, embed);
        demand.rooms = observed.rooms.clone().unwrap_or(demand.rooms);
        self.record(observed, &demand, None)
    }

    /// Runs one turn: embed, record, learn, forecast, decide. Headroom that spot buckets cannot
    /// launch at the moment moves to on-demand buckets.
    pub fn turn(&mut self, observed: &Observed, policy: &Policy) -> Turn {
        let Observed { time, cluster, rooms, standing, ready, .. } = observed;
        let moment = Moment::new(*time, cluster, standing, ready, &self.catalog);
        let (pods, expected) = self.planned(observed, policy.objective);
        let Self { plans, recorder, catalog, .. } = self;
        let embed =
            |cluster: &Cluster| embed_preferring(cluster, catalog, &moment.open, &moment.held);
        let seen = (cluster, &*pods, &*observed.kept);
        let context = (policy.objective, time.timestamp());
        let (mut demand, planned) = plans.demand(seen, context, catalog, recorder, embed);
        demand.rooms = rooms.clone().unwrap_or(demand.rooms);
        let tick = self.record(observed, &demand, policy.limits.outer.rollout_percent);
        let (arriving, newly) = (self.recorder.arriving(), self.recorder.planned_nodes());
        let now = Present { time: *time, demand: &demand, arriving: &arriving, planned: &newly };
        let mut outlook = self.learners.forecast(&now);
        let warm_pools = self.warm_pools.as_mut().map(|pools| pools.decide(&now));
        self.namespaces.weigh(&mut outlook, &self.catalog, policy, *time);
        let demand = planned.announced_in(demand);
        let submitted = self.recorder.submitted();
        let moved =
            self.fallback.moved(&moment, &outlook, &demand, submitted, policy, &self.catalog);
        let (catalog, steady) = (&self.catalog, &self.steady);
        let nodes = (&demand, &*planned.nodes);
        let (plan, steady) = decide(&moved, nodes, standing, catalog, policy, steady, *time);
        self.steady = steady;
        self.check(&plan, &demand, standing, policy);
        let planned = self.plans.held_pods();
        Turn { tick, demand, outlook, plan, warm_pools, planned, expected }
    }

    /// Learns from the steps of workflows that ended. Returns the pods that are planned, with those
    /// that are held for steps of workflows, and the steps that are expected.
    fn planned(
        &mut self,
        Observed { planned, workflows, runs, .. }: &Observed,
        objective: Objective,
    ) -> (Vec<PlannedPods>, Vec<Expected>) {
        for run in runs {
            self.successors.learn(run);
            self.recorder.step_ended(run.clone());
        }
        let mut planned = planned.clone();
        let expected = self.successors.expected(workflows, &self.plans, &self.catalog);
        if !expected.is_empty() {
            let prices = Prices::new(objective, &self.catalog);
            planned.extend(Successors::held(&expected, &prices, &self.catalog));
        }
        (planned, expected)
    }

    /// Runs a turn whose observation is out of date, because watches fail. Nothing is recorded or
    /// learnt, and no placeholder is added. `headroom` has, by bucket, the placeholders that stay.
    pub fn outdated_turn(&self, observed: &Observed, policy: &Policy, headroom: &[u64]) -> Turn {
        let Observed { time, cluster, standing, .. } = observed;
        let demand = embed(cluster, &self.catalog);
        let stays =
            |nodes: &u64| BucketOutlook::new(Distribution::certain(*nodes), Reason::Outdated);
        let outlook = Outlook { buckets: headroom.iter().map(stays).collect() };
        let plan = retain(&outlook, &demand, standing, &self.catalog, policy, *time);
        self.check(&plan, &Demand::default(), standing, policy);
        let (planned, expected) = (Vec::new(), Vec::new());
        Turn { tick: None, demand, outlook, plan, warm_pools: None, planned, expected }
    }

    /// Checks a plan in debug builds, by the rules that hold for every plan.
    fn check(&self, plan: &Plan, demand: &Demand, standing: &Standing, policy: &Policy) {
        if cfg!(debug_assertions) {
            let mut gangs: BTreeMap<BucketId, Vec<u64>> = BTreeMap::new();
            for gang in &demand.gangs {
                gangs.entry(gang.bucket).or_default().push(gang.instances);
            }
            let wrong = lint(plan, &gangs, standing, &self.catalog, policy);
            assert!(wrong.is_empty(), "{wrong:?}: {plan:?} of {standing:?} by {policy:?}");
        }
    }

    /// Adds an observation to the recorder. If a tick is due, records it, learns from it and
    /// returns it.
    fn record(
        &mut self,
        observed: &Observed,
        demand: &Demand,
        rollout_percent: Option<u8>,
    ) -> Option<Tick> {
        let Observed { time, ready, arrivals, tiers, namespaces, gangs, starts, .. } = observed;
        for (shape, count) in arrivals {
            self.arrived(shape, *count);
        }
        for (tier, shape, count) in tiers {
            if let Some(id) = self.recorder.intern(shape) {
                self.recorder.tier_arrived(tier, id, *count);
            }
        }
        for (namespace, shape, count) in namespaces {
            self.recorder.namespace_arrived(namespace, shape, *count);
        }
        for gang in gangs {
            self.recorder.gang_arrived(*gang);
        }
        for (bucket, starts) in starts {
            self.recorder.started(*bucket, *starts);
        }
        self.recorder.demand(demand.present.iter().copied());
        if !self.recorder.is_due(*time) {
            return None;
        }
        let state = |id: BucketId| BucketState {
            demand: demand.present[id],
            announced: demand.announced[id],
            ready: ready.get(id).copied().unwrap_or(0),
        };
        let states: Vec<BucketState> = (0..self.catalog.len()).map(state).collect();
        let room = self.recorder.room(&demand.rooms);
        let tick = self.recorder.tick(*time, &states, &room);
        let tick = Tick { rollout_percent, ..tick };
        self.namespaces.learn(&tick, self.catalog.len());
        self.learn(tick.clone());
        Some(tick)
    }
}
