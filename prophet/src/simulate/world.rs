//! The event loop, and the turn of the policy under test.
//!
//! Events of one second are taken in the order in which they were scheduled, submissions first. The policy decides at
//! ticks, at the end of a second in which demand changed, and before a scan that would see a change it has not.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use chrono::DateTime;
use embedder::{Ask, Catalog, Demand, embed};
use placeholders::Plan;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::autoscaler::{Autoscaler, Launch};
use super::cluster::{Cluster, NEVER, NodeId};
use super::contender::Contender;
use super::control::Control;
use super::log::{JobRecord, NodeRecord, RunLog};
use super::offered::Series;
use super::queue::{Queue, Waiting};
use super::scheduler::{self, Placements};
use super::settings::{GangMode, Settings};
use super::workload::{Class, ClassId, Workload};
use crate::record::ShapeId;

/// What a run needs, checked.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The jobs.
    pub workload: &'a Workload,
    /// The buckets.
    pub catalog: &'a Catalog,
    /// The options.
    pub settings: &'a Settings,
    /// Jobs submitted within `[from, until)` count, and hours within it.
    pub window: (i64, i64),
    /// Which repetition, from 0: with the seed it draws launch latencies.
    pub replay: u32,
    /// Whether to keep a record of every tick.
    pub keep_ticks: bool,
}

/// Something that will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    JobEnds(usize),
    Launched(NodeId),
    LaunchFailed(NodeId),
    /// A node may have been unneeded for long enough, if it still is since the same moment.
    MayGo(NodeId, u64),
    Scan,
}

/// Runs the jobs under a policy. `series` is offered demand, which only the oracle may look at. `stop` is asked now and
/// then, and ends the run when it says so.
pub fn simulate(world: World<'_>, contender: Contender, series: &Series, stop: &dyn Fn() -> bool) -> RunLog {
    let mut run = Run::new(world, contender, series);
    run.start_minimum();
    while let Some(now) = run.next_moment() {
        run.moment(now);
        if run.steps.is_multiple_of(1 << 12) && stop() {
            break;
        }
        run.steps += 1;
    }
    run.finish()
}

pub(super) struct Run<'a> {
    pub(super) world: World<'a>,
    pub(super) cluster: Cluster<'a>,
    queue: Queue,
    pub(super) placements: Placements,
    autoscaler: Autoscaler,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    scheduled: u64,
    /// The next submission.
    next_job: usize,
    next_tick: i64,
    scan_at: i64,
    /// Whether anything but a scan happened in this second.
    stirred: bool,
    /// Pods of a job that wait still, where they are placed one by one.
    missing: BTreeMap<usize, u64>,
    /// For pod-by-pod placement, the class of a single pod, by priority and shape.
    single: HashMap<(i32, ShapeId), ClassId>,
    pub(super) workload: Cow<'a, Workload>,
    counted: Vec<JobRecord>,
    /// Jobs that count and have not started.
    waiting: u64,
    control: Control<'a>,
    steps: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(world: World<'a>, contender: Contender, series: &'a Series) -> Self {
        let World { workload, catalog, settings, window, replay, .. } = world;
        let cluster = Cluster::new(catalog, settings.scheduler, window);
        let seed = settings.seed.wrapping_mul(1_000_003).wrapping_add(replay.into());
        let autoscaler = Autoscaler::new(settings, &cluster, Pcg64Mcg::seed_from_u64(seed));
        let mut workload = Cow::Borrowed(workload);
        let single = match settings.gang {
            GangMode::Whole => HashMap::new(),
            GangMode::PodByPod => workload.to_mut().single_pods(),
        };
        let first = workload.jobs.first().map_or(0, |job| job.submit);
        let queue = Queue::new(workload.classes.iter().map(|class| class.priority).collect());
        let tick = settings.tick.as_seconds();
        Self {
            control: Control::new(world, contender, series),
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
            missing: BTreeMap::new(),
            single,
            workload,
            counted: Vec::new(),
            waiting: 0,
            steps: 0,
        }
    }

    /// Nodes that groups keep at the least are there from the start.
    pub(super) fn start_minimum(&mut self) {
        // Before the window, so that they count as nodes and not as launches.
        let now = self.next_tick.min(self.world.window.0) - 1;
        for (bucket, entry) in self.world.catalog.buckets().iter().enumerate() {
            for (at, group) in entry.groups.iter().enumerate() {
                for _ in 0..group.min.min(MINIMUM_MAX) {
                    let id = self.cluster.launch(bucket, at, false, now);
                    self.cluster.make_ready(id, now);
                }
            }
        }
        self.note_unneeded(now);
    }

    /// The next second in which something happens; `None` when all that counts is over.
    pub(super) fn next_moment(&self) -> Option<i64> {
        let submit = self.workload.jobs.get(self.next_job).map(|job| job.submit);
        let event = self.events.peek().map(|Reverse((time, ..))| *time);
        let next = submit.into_iter().chain(event).fold(self.next_tick, i64::min);
        let (_, until) = self.world.window;
        let counted = next >= until && (self.waiting == 0 || next >= until.saturating_add(WAIT_SECONDS_MAX));
        // Without submissions and events, what waits waits for ever.
        let stuck = next >= until && submit.is_none() && event.is_none();
        (!counted && !stuck).then_some(next)
    }

    pub(super) fn moment(&mut self, now: i64) {
        while self.workload.jobs.get(self.next_job).is_some_and(|job| job.submit == now) {
            self.submit(self.next_job, now);
            self.next_job += 1;
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
        if now == self.next_tick {
            self.turn(now, true);
            self.next_tick += self.world.settings.tick.as_seconds();
        } else if self.control.due {
            self.turn(now, false);
        }
        // Whatever happened may have taken room that something which waits was expected to use.
        if std::mem::take(&mut self.stirred) && self.anything_waits() {
            self.ask_for_scan(now);
        }
    }

    fn anything_waits(&self) -> bool {
        !self.queue.is_empty() || self.cluster.any_waiting()
    }

    fn happen(&mut self, event: Event, now: i64) {
        match event {
            Event::JobEnds(job) => {
                scheduler::finish(job, &mut self.cluster, &mut self.placements, &self.workload, now);
                self.control.due = true;
                self.fill(now);
            }
            Event::Launched(node) => {
                let (bucket, group) = (self.cluster.nodes[node].bucket, self.cluster.nodes[node].group);
                self.autoscaler.succeed(bucket, group);
                self.cluster.make_ready(node, now);
                self.fill(now);
                // What runs on it already has waited.
                self.cluster.nodes[node].waited_for |= self.cluster.nodes[node].has_pods();
                self.control.launched(bucket, self.cluster.nodes[node].waited_for, now);
                self.control.due = true;
            }
            Event::LaunchFailed(node) => {
                let (bucket, group) = (self.cluster.nodes[node].bucket, self.cluster.nodes[node].group);
                self.cluster.fail(node, now);
                self.autoscaler.back_off(bucket, group, now);
                self.control.due = true;
            }
            Event::MayGo(node, idle_count) => self.may_go(node, idle_count, now),
            Event::Scan => self.scan(now),
        }
    }

    fn submit(&mut self, at: usize, now: i64) {
        let class = self.workload.jobs[at].class;
        let Class { pods, priority, .. } = self.workload.classes[class].clone();
        self.control.due = true;
        for &(shape, count) in &pods {
            self.control.arrived(shape, count);
        }
        let (from, until) = self.world.window;
        self.waiting += u64::from((from..until).contains(&now));
        match self.world.settings.gang {
            GangMode::Whole => self.enqueue(Waiting { job: at, class }, now),
            GangMode::PodByPod => {
                self.missing.insert(at, pods.iter().map(|(_, count)| count).sum());
                for (shape, count) in pods {
                    let class = self.single[&(priority, shape)];
                    for _ in 0..count {
                        self.enqueue(Waiting { job: at, class }, now);
                    }
                }
            }
        }
    }

    /// Places what was just submitted, or lets it wait: what waits already has found no room since the last was freed.
    fn enqueue(&mut self, waiting: Waiting, now: i64) {
        if scheduler::place(waiting, &mut self.cluster, &mut self.placements, &self.workload, now) {
            self.placed(waiting.job, now);
        } else {
            self.queue.push(waiting);
        }
        // Forgets what preemption noted of nodes that are in use again.
        self.note_unneeded(now);
    }

    /// Room was freed: pods that wait take it, then placeholders.
    fn fill(&mut self, now: i64) {
        if !self.queue.is_empty() {
            let mut placed = Vec::new();
            let Self { queue, cluster, placements, workload, .. } = self;
            scheduler::pass(queue, cluster, placements, workload, now, |job| placed.push(job));
            for job in placed {
                self.placed(job, now);
            }
        }
        self.cluster.settle_placeholders();
        self.note_unneeded(now);
    }

    /// A job, or a pod of it, was placed: when none is missing, it starts.
    fn placed(&mut self, job: usize, now: i64) {
        if let Some(missing) = self.missing.get_mut(&job) {
            *missing -= 1;
            if *missing > 0 {
                return;
            }
            self.missing.remove(&job);
        }
        let entry = &self.workload.jobs[job];
        let (index, submit, class) = (entry.index, entry.submit, entry.class);
        let end = now.saturating_add(entry.runtime);
        self.schedule(end, Event::JobEnds(job));
        let (from, until) = self.world.window;
        if (from..until).contains(&submit) {
            self.waiting -= 1;
            let instances = scheduler::instances(job, &self.placements);
            let pods = self.workload.classes[class].pods.iter().map(|(_, count)| count).sum();
            self.counted.push(JobRecord { index, submit, start: now, end, pods, instances });
        }
    }

    fn scan(&mut self, now: i64) {
        self.scan_at = NEVER;
        if self.control.due {
            self.turn(now, false);
        }
        let (launches, ran_out) = self.autoscaler.scan(&self.queue, &mut self.cluster, &self.workload, now);
        for Launch { node, at, fails } in launches {
            self.schedule(at, if fails { Event::LaunchFailed(node) } else { Event::Launched(node) });
        }
        if ran_out {
            self.ask_for_scan(now);
        }
        if let Some(retry) = self.autoscaler.next_retry(now).filter(|_| self.anything_waits()) {
            self.ask_for_scan(retry);
        }
    }

    /// A node goes at the first scan at which it has been unneeded for long enough, and no scale-up was too recent.
    fn may_go(&mut self, node: NodeId, idle_count: u64, now: i64) {
        let Some(entry) =
            Some(&self.cluster.nodes[node]).filter(|n| n.is_unneeded() && n.idle_count == idle_count)
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

    /// The clock of every node that became unneeded starts.
    fn note_unneeded(&mut self, now: i64) {
        let due = self.scan_at_or_after(now + self.world.settings.scale_down_unneeded_time.as_seconds());
        let mut newly = std::mem::take(&mut self.cluster.newly_unneeded);
        for id in newly.drain(..) {
            if self.cluster.nodes[id].is_unneeded() {
                self.schedule(due, Event::MayGo(id, self.cluster.nodes[id].idle_count));
            }
        }
        self.cluster.newly_unneeded = newly;
    }

    /// Asks for a scan at the first multiple of the scan interval strictly after `now`.
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

    /// Observe, embed, record, forecast, plan, actuate.
    fn turn(&mut self, now: i64, at_tick: bool) {
        self.control.due = false;
        let demand = self.observe();
        self.control.note(&demand);
        let time = DateTime::from_timestamp(now, 0).unwrap_or_default();
        let tick = at_tick.then(|| self.control.tick(&demand, &self.cluster, &self.workload, time));
        let autoscaler = &self.autoscaler;
        let standing = || self.cluster.standing(|bucket, group| autoscaler.backs_off(bucket, group, now));
        if let Some(plan) = self.control.decide(tick, &demand, standing, self.world.catalog, time) {
            let counts = (self.world.window.0..self.world.window.1).contains(&now);
            self.actuate(&plan, counts);
            self.fill(now);
        }
        if at_tick && self.world.keep_ticks && (self.world.window.0..self.world.window.1).contains(&now) {
            self.control.keep(now, &demand, &self.cluster);
        }
    }

    fn observe(&self) -> Demand {
        let (occupied, rooms) = (self.cluster.occupied(), self.cluster.occupied_rooms());
        let mut cluster = embedder::Cluster { occupied, rooms, ..Default::default() };
        if !self.queue.is_empty() {
            let waiting =
                self.queue.counts().flat_map(|(class, jobs)| scheduler::asks(class, jobs, &self.workload));
            cluster.pending = waiting.collect::<Vec<Ask>>();
        }
        embed(&cluster, self.world.catalog)
    }

    fn actuate(&mut self, plan: &Plan, counts: bool) {
        for bucket in &plan.buckets {
            for (group, change) in
                bucket.groups.iter().enumerate().filter(|(_, group)| group.have != group.want)
            {
                self.cluster.want(bucket.bucket, group, change.want);
                self.stirred = true;
                self.control.writes += u64::from(counts);
            }
        }
    }

    pub(super) fn finish(mut self) -> RunLog {
        let (from, until) = self.world.window;
        let busy_by_day = self.cluster.close(until);
        let within = |node: &super::cluster::Node| node.requested < until && node.gone > from;
        let time = |time: i64| (time != NEVER).then_some(time);
        let nodes = self.cluster.nodes.iter().enumerate().filter(|(_, node)| within(node));
        let nodes = nodes.map(|(id, node)| NodeRecord {
            id,
            bucket: node.bucket,
            group: node.group,
            requested: node.requested,
            ready: time(node.ready),
            gone: time(node.gone),
            busy_seconds: node.busy_seconds,
            waited_for: node.waited_for,
        });
        let nodes = nodes.collect();
        self.counted.sort_by_key(|job| (job.submit, job.index));
        RunLog {
            window: self.world.window,
            jobs: self.counted,
            nodes,
            ticks: self.control.ticks,
            busy_by_day,
            placeholder_writes: self.control.writes,
            unfinished: self.waiting,
        }
    }
}

/// So long after the window the last jobs are waited for: one that no group will ever have room for must not keep a run
/// going.
const WAIT_SECONDS_MAX: i64 = 90 * 86_400;

/// Groups that keep more nodes than this at the least start with this many.
const MINIMUM_MAX: u64 = 100_000;
