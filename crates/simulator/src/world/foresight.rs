//! The references that know the future: a copy of the run goes on without decisions, and shows what
//! its jobs will need.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::span::Span;
use embedder::{Resources, Room, embed};

use super::{Announced, Event, Simulation};
use crate::input::SimulationInput;
use crate::named_policy::{KnownJobs, NamedPolicy};
use crate::policy_run::PolicyRun;
use crate::replay::{NEVER, PlacedPods, SimulatedNode, SimulatedNodeId};
use crate::settings::{LaunchLatency, SimulationSettings};
use crate::spot::Interruptions;

/// How long ago an active user submitted the last job, in seconds: ten minutes.
const ACTIVE_SECONDS: i64 = 600;

impl Simulation<'_> {
    /// Returns, by bucket, how many nodes that are empty or missing at `now` the jobs use that are
    /// submitted within the lead time. Nodes for jobs that are pending at `now` do not count,
    /// because they are part of present demand. If not all jobs are `known`, only these count.
    pub(super) fn foresee(&self, now: i64, known: Option<KnownJobs>) -> Vec<u64> {
        let until = now.saturating_add(self.world.settings.lead().seconds);
        let mut new_nodes = vec![0; self.world.catalog.len()];
        if !self.any_starts(until) {
            return new_nodes;
        }
        let settings = SimulationSettings {
            launch_latency: LaunchLatency::Constant(Span::seconds(0)),
            launch_failure_share: 0.0,
            interruptions: Interruptions::default(),
            ..self.world.settings.clone()
        };
        let mut future = self.continued(&settings, now, until);
        future.known = known.map(|known| (known, self.active_users(now)));
        future.launch_at_once(now);
        let nodes = &mut future.cluster.nodes;
        let busy: Vec<bool> = nodes.iter().map(SimulatedNode::has_pods).collect();
        for node in nodes.iter_mut() {
            node.used = false;
        }
        while let Some(next) = future.next_moment().filter(|next| *next <= until) {
            future.moment(next);
            future.launch_at_once(next);
        }
        for (id, node) in future.cluster.nodes.iter().enumerate() {
            if node.used && !busy.get(id).is_some_and(|busy| *busy) {
                new_nodes[node.bucket] += 1;
            }
        }
        new_nodes
    }

    /// Whether a job can start until `until`: one that is pending or will be submitted, or one that
    /// loses pods with a spot instance.
    fn any_starts(&self, until: i64) -> bool {
        let next = self.workload.jobs.get(self.next_job).map(|job| job.submit);
        !self.queue.is_empty()
            || next.is_some_and(|submit| submit <= until)
            || self.dependencies.any_held_back()
            || self.any_loses_pods(until)
    }

    /// Whether a job can lose pods with a spot instance until `until`.
    fn any_loses_pods(&self, until: i64) -> bool {
        let is_loss = |event: Event| matches!(event, Event::Noticed(_) | Event::TakenAway(_));
        let mut events = self.events.iter();
        events.any(|&Reverse((time, _, event))| time <= until && is_loss(event))
    }

    /// Returns the free room that will be left once the jobs have ended that end within the lead
    /// time, and pending pods are placed. `seen` is what is observed at `now`.
    ///
    /// Present demand has new nodes for pending pods that the ends will make room for. These nodes
    /// are launching, and will be empty.
    pub(super) fn rooms_after_ends(&self, seen: &embedder::Cluster, now: i64) -> Vec<Room> {
        let until = now.saturating_add(self.world.settings.lead().seconds);
        let mut freed: HashMap<SimulatedNodeId, Resources> = HashMap::new();
        for (job, _) in self.running.iter().filter(|(_, (_, end))| *end <= until) {
            for PlacedPods { node, shape, pods } in self.placements.of(*job) {
                let requests = self.workload.shapes[*shape as usize].requests.times(*pods);
                let sum = freed.entry(*node).or_default();
                *sum = sum.give_back(requests);
            }
        }
        let (catalog, rooms) = (self.world.catalog, self.cluster.occupied_rooms_with(&freed));
        let present = embed(seen, catalog).present;
        let later = embed(&embedder::Cluster { rooms, ..seen.clone() }, catalog);
        let mut rooms = later.rooms;
        for (bucket, entry) in catalog.buckets().iter().enumerate() {
            let nodes = present[bucket].saturating_sub(later.present[bucket]);
            rooms.extend((nodes > 0).then_some(Room { bucket, free: entry.allocatable, nodes }));
        }
        rooms
    }

    /// Returns the users who submitted a job within the last ten minutes.
    fn active_users(&self, now: i64) -> BTreeSet<u32> {
        let jobs = self.workload.jobs[..self.next_job].iter().rev();
        let recent = jobs.take_while(|job| job.submit > now - ACTIVE_SECONDS);
        recent.filter_map(|job| job.user).collect()
    }

    /// Whether a job is submitted: in a run that is continued for a reference, only known jobs are.
    pub(super) fn is_known(&self, job: usize) -> bool {
        self.known.as_ref().is_none_or(|(known, active)| {
            let is_active = self.workload.jobs[job].user.is_some_and(|user| active.contains(&user));
            is_active == (*known == KnownJobs::Active)
        })
    }

    /// Launches the nodes for pending pods without waiting for the next scan, and makes them ready
    /// where launches take no time.
    fn launch_at_once(&mut self, now: i64) {
        if !self.queue.is_empty() {
            self.scan(now);
            self.moment(now);
        }
    }

    /// Returns the run from `now` until `until`, without decisions, under other settings. Nodes
    /// that are launching become ready at `now`, and no node is launched for a placeholder.
    ///
    /// Jobs that run beyond `until` are left out, because nothing reads them, and a copy of them
    /// takes longer than the run. Their pods stay on their nodes. All jobs are copied if a node can
    /// be taken away by then, because any of them can lose pods.
    fn continued<'b>(
        &'b self,
        settings: &'b SimulationSettings,
        now: i64,
        until: i64,
    ) -> Simulation<'b> {
        let world = SimulationInput { settings, keep_ticks: false, ..self.world };
        let events = self.events.iter().filter_map(|&Reverse((time, order, event))| match event {
            Event::Launched(_) => Some(Reverse((now, order, event))),
            _ => (time <= until).then_some(Reverse((time, order, event))),
        });
        let any_loses_pods = self.any_loses_pods(until);
        let changes = |job: usize| {
            any_loses_pods || self.running.get(&job).is_none_or(|(_, end)| *end <= until)
        };
        let running = self.running.iter().filter(|(job, _)| changes(**job));
        let mut future = Simulation {
            policy: PolicyRun::new(world, NamedPolicy::Reactive),
            world,
            cluster: self.cluster.clone(),
            queue: self.queue.clone(),
            placements: self.placements.only(changes),
            autoscaler: self.autoscaler.continued(settings),
            events: events.collect(),
            next_tick: NEVER,
            scan_at: NEVER,
            unstarted: self.unstarted.clone(),
            single: self.single.clone(),
            workload: Cow::Borrowed(&self.workload),
            counted: BTreeMap::new(),
            running: running.map(|(job, times)| (*job, *times)).collect(),
            interrupted: self.interrupted.clone(),
            seed: self.seed,
            scheduled: self.scheduled,
            next_job: self.next_job,
            stirred: false,
            waiting: self.waiting,
            announced: Announced::default(),
            dependencies: self.dependencies.clone(),
            known: None,
            steps: 0,
            last_turn: None,
            witness: None,
        };
        future.cluster.withdraw_placeholders();
        future
    }
}
