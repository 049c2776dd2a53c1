//! The event loop, and the turn of the policy under test. `world/foresight.rs` has the references
//! that know the future.
//!
//! Within one second, submissions come first, and events follow in the order in which they were
//! scheduled. The policy decides at ticks, at the end of a second in which demand changed, and
//! before a scan when demand changed earlier in the same second.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use chrono::DateTime;
use control::{Turn, cut_to_fit};
use demand::record::{PodStarts, ShapeId};
use embedder::{PodRequest, embed};
use placeholders::Plan;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::announced::Announced;
use super::autoscaler::{Autoscaler, NodeRequest};
use super::dependencies::Dependencies;
use super::input::{SimulationInput, first_decision};
use super::log::{JobRecord, NodeRecord, RunLog, WarmRecord};
use super::named_policy::{KnownJobs, NamedPolicy};
use super::policy_run::PolicyRun;
use super::settings::{GangHeadroom, GangMode};
use super::spot::{Interrupted, NOTICE_SECONDS};
use crate::replay::{
    JobClass, JobClassId, NEVER, PlacedPods, Placements, Queue, SimulatedCluster, SimulatedNodeId,
    Waiting, WarmId, Workload, finish, instances, lose, may_stop, pass, place,
};

mod foresight;

/// A scheduled event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    JobEnds(usize),
    Launched(SimulatedNodeId),
    LaunchFailed(SimulatedNodeId),
    /// The node has been unneeded for long enough, if its idle count still equals the second field.
    MayGo(SimulatedNodeId, u64),
    Scan,
    /// An instance of a warm pool is ready, and is stopped.
    Prepared(WarmId),
    /// The node will be taken away in two minutes.
    Noticed(SimulatedNodeId),
    TakenAway(SimulatedNodeId),
}

/// The pods of a submitted job that has not started, or has lost pods since.
#[derive(Clone, Copy, Default)]
pub(super) struct Unstarted {
    /// The pods that are pending.
    missing: u64,
    /// The pods that started.
    started: u64,
    /// Of those, the pods that had waited no longer than one scan.
    hidden: u64,
}

/// Runs the jobs under a policy.
///
/// `reached` is called every 256 moments with the time that the run has reached.
pub fn simulate(
    world: SimulationInput<'_>,
    named_policy: NamedPolicy,
    reached: &dyn Fn(i64),
) -> RunLog {
    Simulation::new(world, named_policy).complete(reached)
}

pub(super) struct Simulation<'a> {
    pub(super) world: SimulationInput<'a>,
    pub(super) cluster: SimulatedCluster<'a>,
    pub(super) queue: Queue,
    pub(super) placements: Placements,
    autoscaler: Autoscaler,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    scheduled: u64,
    /// The index of the next job to submit.
    next_job: usize,
    pub(super) next_tick: i64,
    scan_at: i64,
    /// Whether an event other than a scan happened in this second.
    stirred: bool,
    /// The submitted jobs that have not started.
    pub(super) unstarted: BTreeMap<usize, Unstarted>,
    /// For pod-by-pod placement, the class of a single pod, by priority and shape.
    single: HashMap<(i32, ShapeId), JobClassId>,
    pub(super) workload: Cow<'a, Workload>,
    /// The jobs that count and started, by their index in the workload.
    counted: BTreeMap<usize, JobRecord>,
    /// The jobs that run with all their pods: when they started, and when they end. A run that is
    /// continued for a reference has only those that can change.
    pub(super) running: HashMap<usize, (i64, i64)>,
    /// What interruptions did to jobs; only jobs that lost pods.
    interrupted: HashMap<usize, Interrupted>,
    /// The seed of interruptions.
    seed: u64,
    /// The number of jobs that count and have not started.
    waiting: u64,
    pub(super) policy: PolicyRun<'a>,
    announced: Announced,
    dependencies: Dependencies,
    /// In a run that is continued for a reference: the jobs that it knows, and the active users.
    known: Option<(KnownJobs, BTreeSet<u32>)>,
    steps: u64,
    /// The last turn of the policy.
    pub(super) last_turn: Option<Turn>,
    /// Sees each turn before it is actuated.
    pub(super) witness: Option<Box<Witness<'a>>>,
}

pub(super) type Witness<'a> =
    dyn FnMut(&Simulation<'_>, &control::Observed, &control::Turn) + Send + 'a;

impl<'a> Simulation<'a> {
    pub(super) fn new(world: SimulationInput<'a>, named_policy: NamedPolicy) -> Self {
        let SimulationInput { catalog, settings, window, .. } = world;
        let cluster = SimulatedCluster::new(catalog, settings.scheduler, window);
        let seed = world.seed(0);
        let autoscaler = Autoscaler::new(settings, &cluster, Pcg64Mcg::seed_from_u64(seed));
        let (workload, single) = prepared(world);
        let first = workload.jobs.first().map_or(0, |job| job.submit);
        let queue = Queue::new(workload.classes.iter().map(|class| class.priority).collect());
        let tick = settings.tick.as_seconds();
        Self {
            policy: PolicyRun::new(world, named_policy),
            announced: Announced::new(&workload, settings, settings.seed),
            dependencies: Dependencies::new(&workload),
            world,
            cluster,
            queue,
            placements: Placements::default(),
            autoscaler,
            events: BinaryHeap::new(),
            scheduled: 0,
            next_job: 0,
            next_tick: first.div_euclid(tick) * tick,
            scan_at: NEVER,
            stirred: false,
            unstarted: BTreeMap::new(),
            single,
            workload,
            counted: BTreeMap::new(),
            running: HashMap::new(),
            interrupted: HashMap::new(),
            seed,
            waiting: 0,
            known: None,
            steps: 0,
            last_turn: None,
            witness: None,
        }
    }

    /// Returns a copy that goes on with the jobs of another replay, which are the same until now.
    /// `None` if the policy cannot be copied.
    pub(super) fn copy(&self, world: SimulationInput<'a>) -> Option<Self> {
        let policy = self.policy.copy()?;
        let (workload, single) = prepared(world);
        let announced = Announced::new(&workload, world.settings, world.settings.seed);
        let now = first_decision(world.window);
        Some(Self {
            policy,
            announced: announced.succeed(&self.announced, now),
            dependencies: Dependencies::new(&workload).succeed(&self.dependencies),
            world,
            cluster: self.cluster.clone(),
            queue: self.queue.clone(),
            placements: self.placements.clone(),
            autoscaler: self.autoscaler.clone(),
            events: self.events.clone(),
            unstarted: self.unstarted.clone(),
            single,
            workload,
            counted: self.counted.clone(),
            running: self.running.clone(),
            interrupted: self.interrupted.clone(),
            known: self.known.clone(),
            last_turn: self.last_turn.clone(),
            witness: None,
            ..*self
        })
    }

    /// Draws launch latencies and interruptions with the seed of the replay from now on. The first
    /// replay goes on with its seed.
    pub(super) fn begin_replay(&mut self) {
        if self.world.replay > 0 {
            self.seed = self.world.seed(self.world.replay);
            self.autoscaler.draw_from(Pcg64Mcg::seed_from_u64(self.seed));
        }
        if let Some(wanted) = self.policy.warm_pool {
            let now = first_decision(self.world.window);
            self.want_warm(&vec![wanted; self.world.catalog.len()], now);
        }
    }

    /// Sets the sizes of the warm pools, by bucket.
    fn want_warm(&mut self, wanted: &[u64], now: i64) {
        for (bucket, &wanted) in wanted.iter().enumerate() {
            let has_pool = may_stop(&self.world.catalog.buckets()[bucket]);
            self.cluster.warm.want(bucket, if has_pool { wanted } else { 0 }, now);
        }
        self.prepare(now);
    }

    /// Begins to prepare the instances that warm pools lack.
    fn prepare(&mut self, now: i64) {
        if !self.cluster.warm.any_lacks() {
            return;
        }
        for (id, at) in self.autoscaler.prepare(&mut self.cluster, now) {
            self.schedule(at, Event::Prepared(id));
        }
    }

    /// Runs until `until`, in seconds, or to the end of the run.
    pub(super) fn advance(&mut self, until: i64, reached: &dyn Fn(i64)) {
        while let Some(now) = self.next_moment().filter(|now| *now < until) {
            self.moment(now);
            if self.steps.is_multiple_of(1 << 8) {
                reached(now);
            }
            self.steps += 1;
        }
    }

    /// Runs all jobs.
    pub(super) fn complete(mut self, reached: &dyn Fn(i64)) -> RunLog {
        self.start_minimum();
        self.advance(first_decision(self.world.window), reached);
        self.begin_replay();
        self.advance(NEVER, reached);
        self.finish()
    }

    /// Launches the minimum number of nodes of each group, ready from the start.
    pub(super) fn start_minimum(&mut self) {
        // They are requested before the window, so they count as nodes and not as launches.
        let now = self.next_tick.min(self.world.window.0) - 1;
        for (bucket, entry) in self.world.catalog.buckets().iter().enumerate() {
            for (at, group) in entry.groups.iter().enumerate() {
                for _ in 0..group.min.min(MINIMUM_MAX) {
                    let id = self.cluster.launch(bucket, at, false, now);
                    self.make_ready(id, now);
                }
            }
        }
        self.note_unneeded(now);
    }

    /// Returns the next second that has a submission, an event or a tick. Returns `None` when the
    /// window is over and all jobs that count have started, or can no longer start.
    pub(super) fn next_moment(&self) -> Option<i64> {
        let submit = self.workload.jobs.get(self.next_job).map(|job| job.submit);
        let event = self.events.peek().map(|Reverse((time, ..))| *time);
        let announced = self.announced.next_moment();
        let next = submit.into_iter().chain(event).chain(announced).fold(self.next_tick, i64::min);
        let (_, until) = self.world.window;
        let counted =
            next >= until && (self.waiting == 0 || next >= until.saturating_add(WAIT_SECONDS_MAX));
        // Without submissions and events, a pending job would stay pending forever.
        let stuck = next >= until && submit.is_none() && event.is_none();
        (!counted && !stuck).then_some(next)
    }

    pub(super) fn moment(&mut self, now: i64) {
        let (changed, broken) = self.announced.advance(now, &self.workload);
        self.policy.due |= changed;
        for broken in broken {
            self.policy.announcement_ended(broken);
        }
        while self.workload.jobs.get(self.next_job).is_some_and(|job| job.submit == now) {
            let (at, index) = (self.next_job, self.workload.jobs[self.next_job].index);
            self.next_job += 1;
            if !self.is_known(at) {
                self.over(at, now);
            } else if self.dependencies.hold_back(index) {
                self.waiting += u64::from(self.counts(at));
            } else {
                self.submit(at, now);
            }
            self.stirred = true;
        }
        while let Some(&Reverse((time, _, event))) = self.events.peek() {
            if time > now {
                break;
            }
            self.events.pop();
            self.stirred |= event != Event::Scan;
            self.happen(event, now);
        }
        if self.stirred {
            // A node may be gone, so that its group has room for an instance of its pool.
            self.prepare(now);
        }
        if now == self.next_tick {
            self.turn(now, self.world.keep_ticks);
            self.next_tick += self.world.settings.tick.as_seconds();
        } else if self.policy.due {
            self.turn(now, false);
        }
        // The event may have used room that the last scan reserved for a pending pod.
        if std::mem::take(&mut self.stirred) && self.anything_waits() {
            self.ask_for_scan(now);
        }
    }

    fn anything_waits(&self) -> bool {
        !self.queue.is_empty() || self.cluster.any_waiting()
    }

    fn happen(&mut self, event: Event, now: i64) {
        match event {
            // A job that lost pods ends later.
            Event::JobEnds(job) if self.running.get(&job).is_none_or(|(_, end)| *end != now) => {}
            Event::JobEnds(job) => {
                self.running.remove(&job);
                let class = self.workload.jobs[job].class;
                self.policy.ended(&self.workload.classes[class].pods);
                finish(job, &mut self.cluster, &mut self.placements, &self.workload, now);
                self.policy.due = true;
                self.fill(now);
                self.over(job, now);
            }
            Event::Launched(node) => {
                let (bucket, group) =
                    (self.cluster.nodes[node].bucket, self.cluster.nodes[node].group);
                self.autoscaler.succeed(bucket, group);
                self.make_ready(node, now);
                self.fill(now);
                // Pods that start in the second in which the node becomes ready were waiting for
                // it.
                self.cluster.nodes[node].waited_for |= self.cluster.nodes[node].has_pods();
                self.policy.due = true;
            }
            Event::LaunchFailed(node) => {
                let (bucket, group) =
                    (self.cluster.nodes[node].bucket, self.cluster.nodes[node].group);
                self.cluster.fail(node, now);
                self.autoscaler.back_off(bucket, group, now);
                self.policy.due = true;
            }
            Event::MayGo(node, idle_count) => self.may_go(node, idle_count, now),
            Event::Scan => self.scan(now),
            Event::Prepared(id) => self.cluster.warm.stop(id, now),
            Event::Noticed(node) => {
                if self.cluster.nodes[node].is_ready() {
                    self.cluster.notice(node, now);
                    self.schedule(now.saturating_add(NOTICE_SECONDS), Event::TakenAway(node));
                    self.policy.due = true;
                }
            }
            Event::TakenAway(node) => self.take_away(node, now),
        }
    }

    /// Marks a node as ready, and schedules the interruption of a spot instance.
    fn make_ready(&mut self, node: SimulatedNodeId, now: i64) {
        self.cluster.make_ready(node, now);
        let bucket = &self.world.catalog.buckets()[self.cluster.nodes[node].bucket];
        let after = self.world.settings.interruptions.notice_after(bucket, self.seed, node);
        if let Some(after) = after {
            self.schedule(now.saturating_add(after), Event::Noticed(node));
        }
    }

    /// Takes a node away. Its pods are submitted again and run from the start.
    fn take_away(&mut self, node: SimulatedNodeId, now: i64) {
        for job in self.placements.on(node) {
            self.interrupt(job, node, now);
        }
        self.cluster.take_away(node, now);
        let (bucket, group) = (self.cluster.nodes[node].bucket, self.cluster.nodes[node].group);
        if let Some(request) = self.autoscaler.replace(bucket, group, &mut self.cluster, now) {
            self.request(request);
        }
        self.policy.due = true;
        self.fill(now);
    }

    /// Submits the pods of a job again that a node takes away: all pods of a gang, and otherwise
    /// those on the node.
    fn interrupt(&mut self, job: usize, node: SimulatedNodeId, now: i64) {
        let JobClass { pods, priority, .. } =
            self.workload.classes[self.workload.jobs[job].class].clone();
        let lost: Vec<(ShapeId, u64)> = match self.world.settings.gang {
            GangMode::Whole | GangMode::OneGroup => {
                finish(job, &mut self.cluster, &mut self.placements, &self.workload, now);
                pods.clone()
            }
            GangMode::PodByPod => {
                let (cluster, placements) = (&mut self.cluster, &mut self.placements);
                lose(job, node, cluster, placements, &self.workload, now)
            }
        };
        let count: u64 = lost.iter().map(|(_, count)| count).sum();
        let all: u64 = pods.iter().map(|(_, count)| count).sum();
        let (from, until) = self.world.window;
        let counts = (from..until).contains(&self.workload.jobs[job].submit);
        let record = self.interrupted.entry(job).or_default();
        record.pods = record.pods.saturating_add(count);
        let mut unstarted = self.unstarted.remove(&job).unwrap_or_default();
        if let Some((start, _)) = self.running.remove(&job) {
            record.lost_seconds += now - start;
            record.lost_pod_seconds += (now - start).saturating_mul(count.cast_signed());
            unstarted.started = all;
            self.waiting += u64::from(counts);
            // A run that is continued for a reference has no records of earlier jobs.
            let before = self.counted.remove(&job);
            unstarted.hidden = before.map_or(0, |before| before.pods_hidden);
        }
        unstarted.missing += count;
        unstarted.started = unstarted.started.saturating_sub(count);
        unstarted.hidden = unstarted.hidden.saturating_sub(count);
        self.unstarted.insert(job, unstarted);
        self.arrived(job, &lost);
        match self.world.settings.gang {
            GangMode::Whole | GangMode::OneGroup => {
                self.gang_arrived(self.workload.jobs[job].class);
                self.queue.push(Waiting { job, class: self.workload.jobs[job].class });
            }
            GangMode::PodByPod => {
                for (shape, count) in lost {
                    for _ in 0..count {
                        self.queue.push(Waiting { job, class: self.single[&(priority, shape)] });
                    }
                }
            }
        }
    }

    /// Schedules the end of a launch.
    fn request(&mut self, NodeRequest { node, at, fails }: NodeRequest) {
        self.schedule(at, if fails { Event::LaunchFailed(node) } else { Event::Launched(node) });
    }

    /// Submits the jobs that waited only for a job that ended, or that never comes.
    fn over(&mut self, job: usize, now: i64) {
        let index = self.workload.jobs[job].index;
        let (run, released) = self.dependencies.ended(index, &self.workload, now);
        if let Some(run) = run {
            self.policy.step_ended(run);
        }
        for at in released {
            self.submit(at, now);
        }
    }

    /// Whether a job counts: its time in the log is in the window.
    fn counts(&self, job: usize) -> bool {
        let (from, until) = self.world.window;
        (from..until).contains(&self.workload.jobs[job].submit)
    }

    /// Since when a job waits for nodes: its time in the log, or later if it waited for other jobs.
    fn submitted_at(&self, job: usize) -> i64 {
        let entry = &self.workload.jobs[job];
        self.dependencies.released(entry.index).unwrap_or(entry.submit)
    }

    fn submit(&mut self, at: usize, now: i64) {
        let class = self.workload.jobs[at].class;
        let JobClass { pods, priority, .. } = self.workload.classes[class].clone();
        self.policy.due = true;
        self.policy.submitted(&pods);
        let mut held = 0;
        if let Some((announcement, kept)) = self.announced.submitted(at, &self.workload) {
            held = self.policy.came(&announcement, kept.planned);
            self.policy.announcement_ended(kept);
        }
        let index = self.workload.jobs[at].index;
        let delay = self.dependencies.submitted(index, now);
        if let Some(delay) = delay {
            self.policy.step_ended(delay);
        }
        if let Some(plan) = self.dependencies.plan(index).filter(|_| held == 0) {
            held = self.policy.came(&plan, pods.iter().map(|(_, count)| count).sum());
        }
        let is_held = held > 0;
        let unheld = pods.iter().map(|&(shape, count)| {
            let of_held = count.min(held);
            held -= of_held;
            (shape, count - of_held)
        });
        let unheld: Vec<(ShapeId, u64)> = unheld.filter(|(_, count)| *count > 0).collect();
        self.arrived(at, &unheld);
        if self.dependencies.released(index).is_none() {
            self.waiting += u64::from(self.counts(at));
        }
        let missing = pods.iter().map(|(_, count)| count).sum();
        self.unstarted.insert(at, Unstarted { missing, ..Unstarted::default() });
        match self.world.settings.gang {
            GangMode::Whole | GangMode::OneGroup => {
                if !is_held {
                    self.gang_arrived(class);
                }
                self.enqueue(Waiting { job: at, class }, now);
            }
            GangMode::PodByPod => {
                for (shape, count) in pods {
                    let class = self.single[&(priority, shape)];
                    for _ in 0..count {
                        self.enqueue(Waiting { job: at, class }, now);
                    }
                }
            }
        }
    }

    /// Counts pods of a job among the observations of the policy.
    fn arrived(&mut self, job: usize, pods: &[(ShapeId, u64)]) {
        let priority = self.workload.classes[self.workload.jobs[job].class].priority;
        let tier = self.world.settings.tiers.of(priority).map(|tier| tier.name.as_str());
        for &(shape, count) in pods {
            self.policy.arrived(shape, count, tier);
        }
    }

    /// Counts a job that needs several instances together among the observations of the policy.
    fn gang_arrived(&mut self, class: JobClassId) {
        let known = self.world.settings.gang_headroom == GangHeadroom::OneGroup;
        if let Some(gang) = self.workload.classes[class].virtual_instance.filter(|_| known) {
            self.policy.gang_arrived(gang);
        }
    }

    /// Places a job that was just submitted, or queues it.
    ///
    /// Jobs already in the queue are not tried again, because no room was freed since they were
    /// last tried.
    fn enqueue(&mut self, waiting: Waiting, now: i64) {
        if place(waiting, &mut self.cluster, &mut self.placements, &self.workload, now) {
            self.placed(waiting.job, now);
        } else {
            self.queue.push(waiting);
        }
        // Preemption may have noted nodes as unneeded that are in use again.
        self.note_unneeded(now);
    }

    /// Assigns freed room to pending pods first, then to placeholders.
    fn fill(&mut self, now: i64) {
        if !self.queue.is_empty() {
            let mut placed = Vec::new();
            let Self { queue, cluster, placements, workload, .. } = self;
            pass(queue, cluster, placements, workload, now, |job| placed.push(job));
            for job in placed {
                self.placed(job, now);
            }
        }
        self.cluster.settle_placeholders();
        self.note_unneeded(now);
    }

    /// Records that a job, or one of its pods, was placed. The job starts when no pod is missing.
    fn placed(&mut self, job: usize, now: i64) {
        let mut pods = self.unstarted.remove(&job).unwrap_or_default();
        let placed = match self.world.settings.gang {
            GangMode::Whole | GangMode::OneGroup => pods.missing,
            GangMode::PodByPod => 1,
        };
        pods.hidden += self.started(job, (pods.started, placed), now);
        pods.started += placed;
        pods.missing -= placed;
        if pods.missing > 0 {
            self.unstarted.insert(job, pods);
            return;
        }
        let end = now.saturating_add(self.workload.jobs[job].runtime);
        self.running.insert(job, (now, end));
        self.schedule(end, Event::JobEnds(job));
        if self.counts(job) {
            self.waiting -= 1;
            let instances = instances(job, &self.placements);
            let record = self.record(job, Some((now, end)), pods.hidden, instances);
            self.counted.insert(job, record);
        }
    }

    /// Counts `placed` pods of a job, which start now after `before` others, by bucket. Returns how
    /// many of them waited no longer than one scan.
    fn started(&mut self, job: usize, (before, placed): (u64, u64), now: i64) -> u64 {
        let scan = self.world.settings.scan.as_seconds();
        let ran = self.interrupted.get(&job).map_or(0, |interrupted| interrupted.lost_seconds);
        let is_hidden = now - self.submitted_at(job) - ran <= scan;
        let (mut skipped, mut left) = (before, placed);
        let mut starts: BTreeMap<usize, u64> = BTreeMap::new();
        for PlacedPods { node, pods, .. } in self.placements.of(job) {
            let earlier = skipped.min(*pods);
            let starting = left.min(pods - earlier);
            (skipped, left) = (skipped - earlier, left - starting);
            if starting > 0 {
                let node = &mut self.cluster.nodes[*node];
                node.used = true;
                *starts.entry(node.bucket).or_default() += starting;
            }
        }
        let priority = self.workload.classes[self.workload.jobs[job].class].priority;
        let counts = self.world.settings.tiers.count(priority);
        for (bucket, pods) in starts.into_iter().filter(|_| counts) {
            let (hidden, waited) = if is_hidden { (pods, 0) } else { (0, pods) };
            self.policy.started(bucket, PodStarts { hidden, waited }, now);
        }
        if is_hidden { placed } else { 0 }
    }

    fn record(
        &self,
        job: usize,
        ran: Option<(i64, i64)>,
        pods_hidden: u64,
        instances: usize,
    ) -> JobRecord {
        let entry = &self.workload.jobs[job];
        let pods = self.workload.classes[entry.class].pod_count();
        let interrupted = self.interrupted.get(&job).copied().unwrap_or_default();
        let (index, submit) = (entry.index, self.submitted_at(job));
        let priority = self.workload.classes[entry.class].priority;
        JobRecord { index, submit, ran, pods, pods_hidden, instances, priority, interrupted }
    }

    fn scan(&mut self, now: i64) {
        self.scan_at = NEVER;
        if self.policy.due {
            self.turn(now, false);
        }
        let (launches, ran_out) =
            self.autoscaler.scan(&self.queue, &mut self.cluster, &self.workload, now);
        for request in launches {
            self.request(request);
        }
        self.prepare(now);
        if ran_out {
            self.ask_for_scan(now);
        }
        if let Some(retry) = self.autoscaler.next_retry(now).filter(|_| self.anything_waits()) {
            self.ask_for_scan(retry);
        }
    }

    /// Removes a node that has been unneeded for long enough, at the first scan that is late enough
    /// after the last scale-up.
    fn may_go(&mut self, node: SimulatedNodeId, idle_count: u64, now: i64) {
        let Some(entry) = Some(&self.cluster.nodes[node])
            .filter(|n| n.is_unneeded() && n.idle_count == idle_count)
        else {
            return;
        };
        let (bucket, group) = (entry.bucket, entry.group);
        let delay = self.world.settings.scale_down_delay_after_add.as_seconds();
        let allowed = self.scan_at_or_after(self.autoscaler.last_scale_up.saturating_add(delay));
        if allowed > now {
            self.schedule(allowed, Event::MayGo(node, idle_count));
        } else if self.cluster.nodes_in(bucket, group)
            > self.world.catalog.buckets()[bucket].groups[group].min
        {
            self.cluster.remove(node, now);
        }
    }

    /// Starts the unneeded time of every node that became unneeded.
    fn note_unneeded(&mut self, now: i64) {
        let due =
            self.scan_at_or_after(now + self.world.settings.scale_down_unneeded_time.as_seconds());
        let mut newly = std::mem::take(&mut self.cluster.newly_unneeded);
        for id in newly.drain(..) {
            if self.cluster.nodes[id].is_unneeded() {
                self.schedule(due, Event::MayGo(id, self.cluster.nodes[id].idle_count));
            }
        }
        self.cluster.newly_unneeded = newly;
    }

    /// Schedules a scan at the first multiple of the scan interval strictly after `now`.
    fn ask_for_scan(&mut self, now: i64) {
        let scan = self.world.settings.scan.as_seconds();
        let at = (now.div_euclid(scan) + 1) * scan;
        if at < self.scan_at {
            self.scan_at = at;
            self.schedule(at, Event::Scan);
        }
    }

    fn scan_at_or_after(&self, time: i64) -> i64 {
        let scan = self.world.settings.scan.as_seconds();
        let before = time.div_euclid(scan) * scan;
        if before == time { time } else { before + scan }
    }

    fn schedule(&mut self, time: i64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    /// Runs one turn: observe, decide, actuate. `keep` adds a record of each bucket to the log.
    fn turn(&mut self, now: i64, keep: bool) {
        self.policy.due = false;
        let within = (self.world.window.0..self.world.window.1).contains(&now);
        let keep = keep && within;
        if !keep && !self.policy.observes(now) {
            self.policy.skip();
            return;
        }
        let time = DateTime::from_timestamp(now, 0).unwrap_or_default();
        let ready =
            (0..self.world.catalog.len()).map(|bucket| self.cluster.counts(bucket).1).collect();
        let seen = self.observe();
        let (cluster, autoscaler) = (&self.cluster, &self.autoscaler);
        let standing =
            || cluster.standing(|bucket, group| autoscaler.backs_off(bucket, group, now));
        let rooms = self.policy.knows_ends.then(|| self.rooms_after_ends(&seen, now));
        let planned = self.announced.planned(&self.workload);
        let workflows = if self.world.settings.announced.successors {
            self.dependencies.workflows(&self.workload, self.world.settings, now)
        } else {
            Vec::new()
        };
        let seen = (seen, planned, workflows);
        let observed = self.policy.observe(time, seen, rooms, ready, standing);
        if let Some((foreseen, known)) = self.policy.foreseen(now) {
            foreseen.set(self.foresee(now, known));
        }
        let turn = self.policy.turn(&observed);
        self.show(&observed, turn.as_ref());
        if let Some(turn) = &turn {
            self.actuate(&turn.plan, within);
            self.fill(now);
        }
        if let Some(wanted) = turn.as_ref().and_then(|turn| turn.warm_pools.clone()) {
            let most = self.world.settings.warm_max.unwrap_or(u64::MAX);
            let number = |sizes: &[u64]| sizes.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
            self.want_warm(&cut_to_fit(wanted, |sizes| number(sizes) <= most), now);
        }
        if keep {
            let demand = turn.as_ref().map_or_else(
                || embed(&observed.cluster, self.world.catalog).present,
                |turn| turn.demand.present.clone(),
            );
            self.policy.keep(now, &demand, &self.cluster);
        }
        self.last_turn = turn;
    }

    /// Present demand in nodes, by bucket.
    pub(super) fn demand(&self) -> Vec<u64> {
        embed(&self.observe(), self.world.catalog).present
    }

    /// The jobs that are submitted and have not started.
    pub(super) fn waiting_jobs(&self) -> u64 {
        self.unstarted.len() as u64
    }

    /// The weights of the experts for a bucket.
    pub(super) fn weights(&self, bucket: usize) -> Vec<(String, f64)> {
        self.policy.weights(bucket)
    }

    fn show(&mut self, observed: &control::Observed, turn: Option<&control::Turn>) {
        if let (Some(mut witness), Some(turn)) = (self.witness.take(), turn) {
            witness(self, observed, turn);
            self.witness = Some(witness);
        }
    }

    fn observe(&self) -> embedder::Cluster {
        let (occupied, rooms) = (self.cluster.occupied(), self.cluster.occupied_rooms());
        let mut cluster = embedder::Cluster { occupied, rooms, ..Default::default() };
        // One request for each shape, in the order of shapes, as the controller counts pods.
        let mut waiting: BTreeMap<ShapeId, u64> = BTreeMap::new();
        for (class, jobs) in self.queue.counts() {
            for &(shape, count) in &self.workload.classes[class].pods {
                let sum = waiting.entry(shape).or_default();
                *sum = sum.saturating_add(count.saturating_mul(jobs));
            }
        }
        let request = |(shape, count): (ShapeId, u64)| PodRequest {
            shape: self.workload.shapes[shape as usize].clone(),
            count,
        };
        cluster.pending = waiting.into_iter().map(request).collect();
        cluster.pending.sort_by(|a, b| a.shape.cmp(&b.shape));
        cluster
    }

    fn actuate(&mut self, plan: &Plan, counts: bool) {
        for bucket in &plan.buckets {
            for (group, change) in bucket.groups.iter().enumerate() {
                if self.cluster.wanted(bucket.bucket, group) != change.want {
                    self.cluster.want(bucket.bucket, group, change.want);
                    self.stirred = true;
                    self.policy.writes += u64::from(counts);
                }
            }
        }
    }

    pub(super) fn finish(self) -> RunLog {
        let log = self.log_until(self.world.window.1);
        RunLog { ticks: self.policy.ticks, ..log }
    }

    /// Returns the record of the part of the window before `until`, which has been reached. It has
    /// no ticks.
    pub(super) fn log_until(&self, until: i64) -> RunLog {
        let from = self.world.window.0;
        let mut cluster = self.cluster.clone();
        let busy_by_day = cluster.close(until);
        // Nodes for jobs of the window can be requested after its end.
        let within = |node: &crate::replay::SimulatedNode| node.gone > from;
        let time = |time: i64| (time != NEVER).then_some(time);
        let nodes = cluster.nodes.iter().enumerate().filter(|(_, node)| within(node));
        let nodes = nodes.map(|(id, node)| NodeRecord {
            id,
            bucket: node.bucket,
            group: node.group,
            requested: node.requested,
            ready: time(node.ready),
            gone: time(node.gone),
            busy_seconds: node.busy_seconds,
            used: node.used,
            waited_for: node.waited_for,
            interrupted: node.noticed != NEVER && node.gone != NEVER,
        });
        let nodes = nodes.collect();
        let stands = |instance: &&WarmRecord| instance.gone.is_none_or(|gone| gone > from);
        let warm = cluster.warm.instances.iter().filter(stands).copied().collect();
        let counts = |job: &usize| (from..until).contains(&self.workload.jobs[*job].submit);
        let unstarted = self.unstarted.iter().filter(|(job, _)| counts(job));
        let unstarted: Vec<JobRecord> =
            unstarted.map(|(job, pods)| self.record(*job, None, pods.hidden, 0)).collect();
        let mut jobs: Vec<JobRecord> = self.counted.values().cloned().collect();
        jobs.extend(unstarted);
        jobs.sort_by_key(|job| (job.submit, job.index));
        RunLog {
            window: (from, until),
            jobs,
            nodes,
            warm,
            ticks: Vec::new(),
            busy_by_day,
            placeholder_writes: self.policy.writes,
        }
    }
}

/// Returns the jobs as the gang mode of the settings needs them. For pod-by-pod placement, also the
/// class of a single pod, by priority and shape.
fn prepared(
    world: SimulationInput<'_>,
) -> (Cow<'_, Workload>, HashMap<(i32, ShapeId), JobClassId>) {
    let mut workload = Cow::Borrowed(world.workload);
    let mut single = HashMap::new();
    match world.settings.gang {
        GangMode::Whole => {}
        GangMode::OneGroup => workload.to_mut().require_one_group(),
        GangMode::PodByPod => single = workload.to_mut().single_pods(),
    }
    (workload, single)
}

/// How long a run continues after the window for jobs that have not started, in seconds: 90 days.
/// The limit ends runs with a job for which no group will ever have room.
pub const WAIT_SECONDS_MAX: i64 = 90 * 86_400;

/// The largest number of nodes with which a group starts. A larger group minimum is reduced to it.
const MINIMUM_MAX: u64 = 100_000;
