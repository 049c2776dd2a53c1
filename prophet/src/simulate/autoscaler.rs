//! The autoscaler: what pends and fits on no node and no launching node gets new ones; what is unneeded for long goes.
//!
//! As cluster-autoscaler: real pods first in the order of the queue, then placeholders, first fit; a group whose launch failed
//! backs off, 5 to 30 minutes; after any scale-up no node is removed for a while.

use embedder::{Ask, BucketId, BucketSet, Order, Packing, Room, pack_within};
use rand::RngExt;
use rand_distr::{Distribution as _, LogNormal};
use rand_pcg::Pcg64Mcg;

use super::cluster::{Cluster, NodeId};
use super::queue::Queue;
use super::scheduler::asks;
use super::settings::{LaunchLatency, Settings};
use super::workload::Workload;

/// cluster-autoscaler's first and longest backoff of a group whose launches fail.
const BACKOFF_SECONDS: (i64, i64) = (300, 1_800);

/// The standard normal quantile at 0.95, which turns a log-normal's p95 into its deviation.
const Z95: f64 = 1.644_853_626_951_472;

/// No launch takes longer than a day: the tail of a distribution must not stop a simulation.
const LATENCY_SECONDS_MAX: f64 = 86_400.0;

pub(crate) struct Autoscaler {
    latency: LaunchLatency,
    failure_share: f64,
    random: Pcg64Mcg,
    backoffs: Vec<Vec<Backoff>>,
    /// When nodes were last requested.
    pub(crate) last_scale_up: i64,
}

#[derive(Clone, Copy, Default)]
struct Backoff {
    until: i64,
    seconds: i64,
}

/// A node that was requested, and what will come of it.
pub(crate) struct Launch {
    pub(crate) node: NodeId,
    pub(crate) at: i64,
    pub(crate) fails: bool,
}

impl Autoscaler {
    pub(crate) fn new(settings: &Settings, cluster: &Cluster<'_>, random: Pcg64Mcg) -> Self {
        let backoffs =
            cluster.catalog.buckets().iter().map(|bucket| vec![Backoff::default(); bucket.groups.len()]);
        Self {
            latency: settings.launch_latency,
            failure_share: settings.launch_failure_share,
            random,
            backoffs: backoffs.collect(),
            last_scale_up: i64::MIN / 2,
        }
    }

    pub(crate) fn backs_off(&self, bucket: BucketId, group: usize, now: i64) -> bool {
        self.backoffs[bucket][group].until > now
    }

    /// When the next group stops backing off.
    pub(crate) fn next_retry(&self, now: i64) -> Option<i64> {
        self.backoffs.iter().flatten().map(|backoff| backoff.until).filter(|&until| until > now).min()
    }

    /// Requests what is missing; says whether a bucket ran out of room on the way, so that another scan may do better.
    pub(crate) fn scan(
        &mut self,
        queue: &Queue,
        cluster: &mut Cluster<'_>,
        workload: &Workload,
        now: i64,
    ) -> (Vec<Launch>, bool) {
        let (mut launches, mut ran_out) = (Vec::new(), false);
        let mut spoken_for: Vec<NodeId> = Vec::new();
        if !queue.is_empty() {
            let (packing, under_way) = self.estimate(queue, cluster, workload, now);
            spoken_for = under_way;
            for &id in &spoken_for {
                cluster.nodes[id].waited_for = true;
            }
            for (bucket, &count) in packing.opened.iter().enumerate() {
                for _ in 0..count {
                    let Some(group) = self.group_for(bucket, cluster, now) else {
                        ran_out = true;
                        break;
                    };
                    launches.push(self.launch(bucket, group, true, cluster, now));
                }
            }
        }
        // Nodes requested for real pods have the largest numbers: the list stays sorted.
        spoken_for.extend(launches.iter().map(|launch| launch.node));
        for bucket in 0..self.backoffs.len() {
            for group in 0..self.backoffs[bucket].len() {
                for _ in 0..self.missing_for_placeholders(bucket, group, &spoken_for, cluster, now) {
                    launches.push(self.launch(bucket, group, false, cluster, now));
                }
            }
        }
        if !launches.is_empty() {
            self.last_scale_up = now;
        }
        (launches, ran_out)
    }

    /// What the pods that wait need, first on ready nodes, then on launching ones, then on new ones; and the launching
    /// nodes that they are expected to use.
    fn estimate(
        &self,
        queue: &Queue,
        cluster: &Cluster<'_>,
        workload: &Workload,
        now: i64,
    ) -> (Packing, Vec<NodeId>) {
        let open =
            BucketSet::only((0..self.backoffs.len()).filter(|&b| self.group_for(b, cluster, now).is_some()));
        let mut pending: Vec<Ask> = Vec::new();
        for (class, jobs) in queue.runs() {
            pending.extend(asks(class, jobs, workload));
        }
        let mut rooms = cluster.ready_rooms();
        let ready: u64 = rooms.iter().map(|room| room.nodes).sum();
        let mut under_way: Vec<NodeId> = Vec::new();
        for bucket in 0..self.backoffs.len() {
            for group in 0..self.backoffs[bucket].len() {
                under_way.extend(cluster.launching(bucket, group));
            }
        }
        under_way.sort_unstable();
        let allocatable = |id: NodeId| {
            let bucket = cluster.nodes[id].bucket;
            Room { bucket, free: cluster.catalog.buckets()[bucket].allocatable, nodes: 1 }
        };
        rooms.extend(under_way.iter().map(|&id| allocatable(id)));
        let packing = pack_within(&pending, &rooms, cluster.catalog, &open, Order::Given);
        let used = packing.placed.iter().flat_map(|placed| placed.node..placed.node + placed.nodes);
        let index =
            |node: u64| usize::try_from(node.checked_sub(ready)?).ok().filter(|&at| at < under_way.len());
        let mut spoken_for: Vec<NodeId> = used.filter_map(index).map(|at| under_way[at]).collect();
        spoken_for.sort_unstable();
        spoken_for.dedup();
        (packing, spoken_for)
    }

    /// Nodes for the placeholders of a group that wait, less those under way that no real pod is expected to use.
    fn missing_for_placeholders(
        &self,
        bucket: BucketId,
        group: usize,
        spoken_for: &[NodeId],
        cluster: &Cluster<'_>,
        now: i64,
    ) -> u64 {
        let waiting = cluster.waiting(bucket, group);
        if waiting == 0 || self.backs_off(bucket, group, now) {
            return 0;
        }
        let under_way =
            cluster.launching(bucket, group).filter(|id| spoken_for.binary_search(id).is_err()).count();
        let most = cluster.catalog.buckets()[bucket].groups[group].max;
        let room = most.saturating_sub(cluster.nodes_in(bucket, group));
        waiting.saturating_sub(under_way as u64).min(room)
    }

    fn launch(
        &mut self,
        bucket: BucketId,
        group: usize,
        waited_for: bool,
        cluster: &mut Cluster<'_>,
        now: i64,
    ) -> Launch {
        let node = cluster.launch(bucket, group, waited_for, now);
        let fails = self.failure_share > 0.0 && self.random.random_bool(self.failure_share);
        Launch { node, at: now + self.draw_latency(), fails }
    }

    /// The group with the fewest nodes that has room and does not back off.
    fn group_for(&self, bucket: BucketId, cluster: &Cluster<'_>, now: i64) -> Option<usize> {
        let groups = cluster.catalog.buckets()[bucket].groups.iter().enumerate();
        let open = groups.filter(|&(at, group)| {
            cluster.nodes_in(bucket, at) < group.max && !self.backs_off(bucket, at, now)
        });
        open.map(|(at, _)| at).min_by_key(|&at| (cluster.nodes_in(bucket, at), at))
    }

    fn draw_latency(&mut self) -> i64 {
        match self.latency {
            LaunchLatency::Constant(span) => span.as_seconds(),
            LaunchLatency::LogNormal { median, p95 } => {
                let mu = (median.as_seconds() as f64).ln();
                let sigma = ((p95.as_seconds() as f64).ln() - mu) / Z95;
                let drawn = LogNormal::new(mu, sigma).map_or(mu.exp(), |law| law.sample(&mut self.random));
                #[expect(clippy::cast_possible_truncation, reason = "clamped")]
                let seconds = drawn.clamp(1.0, LATENCY_SECONDS_MAX).round() as i64;
                seconds
            }
        }
    }

    /// A launch failed: its group backs off, longer each time.
    pub(crate) fn back_off(&mut self, bucket: BucketId, group: usize, now: i64) {
        let backoff = &mut self.backoffs[bucket][group];
        if backoff.until > now {
            return;
        }
        let (first, longest) = BACKOFF_SECONDS;
        backoff.seconds = (2 * backoff.seconds).clamp(first, longest);
        backoff.until = now + backoff.seconds;
    }

    /// A launch succeeded: its group's backoff starts anew.
    pub(crate) fn succeed(&mut self, bucket: BucketId, group: usize) {
        self.backoffs[bucket][group] = Backoff::default();
    }
}
