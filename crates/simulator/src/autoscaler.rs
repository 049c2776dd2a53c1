//! The simulated autoscaler requests nodes for pending pods that fit on no ready and no launching
//! node.
//!
//! It follows cluster-autoscaler. Real pods come first, in the order of the queue, and placeholders
//! second; both are packed first-fit. A group whose launch failed backs off for 5 to 30 minutes.
//! The event loop (`world.rs`) removes unneeded nodes, and uses [`Autoscaler::last_scale_up`] to
//! delay removals after a scale-up.

use std::cmp::Reverse;

use embedder::{BucketId, BucketSet, Group, Order, Packing, PodRequest, Room, pack_within};
use rand::RngExt;
use rand_distr::{Distribution as _, LogNormal};
use rand_pcg::Pcg64Mcg;

use super::gang_estimate::estimate_in_groups;
use super::settings::{GangMode, LaunchLatency, SimulationSettings};
use crate::replay::Queue;
use crate::replay::Workload;
use crate::replay::requests;
use crate::replay::{SimulatedCluster, SimulatedNodeId, WarmId};

/// The first and the longest backoff of a group whose launches fail, in seconds. These are the
/// defaults of cluster-autoscaler: 5 and 30 minutes.
const BACKOFF_SECONDS: (i64, i64) = (300, 1_800);

/// The standard normal quantile at 0.95. It converts the 95th percentile of a log-normal
/// distribution into the standard deviation of the logarithm.
const Z95: f64 = 1.644_853_626_951_472;

/// The longest launch latency that is drawn, in seconds: one day. Without this limit, a draw from
/// the tail of a distribution could stall a simulation.
const LATENCY_SECONDS_MAX: f64 = 86_400.0;

#[derive(Clone)]
pub(crate) struct Autoscaler {
    latency: LaunchLatency,
    failure_share: f64,
    /// How long a stopped instance of a warm pool takes to start, in seconds.
    warm_start: i64,
    /// Whether the pods of a job must be in one group.
    in_groups: bool,
    random: Pcg64Mcg,
    backoffs: Vec<Vec<Backoff>>,
    /// The time of the last request for nodes, in seconds.
    pub(crate) last_scale_up: i64,
}

#[derive(Clone, Copy, Default)]
struct Backoff {
    until: i64,
    seconds: i64,
}

/// A requested node. At time `at`, in seconds, it becomes ready, or its launch fails.
pub(crate) struct NodeRequest {
    pub(crate) node: SimulatedNodeId,
    pub(crate) at: i64,
    pub(crate) fails: bool,
}

impl Autoscaler {
    pub(crate) fn new(
        settings: &SimulationSettings,
        cluster: &SimulatedCluster<'_>,
        random: Pcg64Mcg,
    ) -> Self {
        let backoffs = cluster
            .catalog
            .buckets()
            .iter()
            .map(|bucket| vec![Backoff::default(); bucket.groups.len()]);
        Self {
            latency: settings.launch_latency,
            failure_share: settings.launch_failure_share,
            warm_start: settings.warm_start.as_seconds(),
            in_groups: settings.gang == GangMode::OneGroup,
            random,
            backoffs: backoffs.collect(),
            last_scale_up: i64::MIN / 2,
        }
    }

    /// Draws launch latencies and failures from another source from now on.
    pub(crate) fn draw_from(&mut self, random: Pcg64Mcg) {
        self.random = random;
    }

    /// Returns an autoscaler in the same state, with the launches of `settings`.
    pub(crate) fn continued(&self, settings: &SimulationSettings) -> Self {
        let SimulationSettings { launch_latency, launch_failure_share, .. } = settings;
        Self { latency: *launch_latency, failure_share: *launch_failure_share, ..self.clone() }
    }

    pub(crate) fn backs_off(&self, bucket: BucketId, group: usize, now: i64) -> bool {
        self.backoffs[bucket][group].until > now
    }

    /// Returns the earliest time after `now` at which a group stops backing off, in seconds.
    pub(crate) fn next_retry(&self, now: i64) -> Option<i64> {
        self.backoffs
            .iter()
            .flatten()
            .map(|backoff| backoff.until)
            .filter(|&until| until > now)
            .min()
    }

    /// Requests the missing nodes.
    ///
    /// The returned flag is true when all groups of a bucket reached their limits during this scan.
    /// The next scan excludes that bucket, so its pods may fit a node of another bucket.
    pub(crate) fn scan(
        &mut self,
        queue: &Queue,
        cluster: &mut SimulatedCluster<'_>,
        workload: &Workload,
        now: i64,
    ) -> (Vec<NodeRequest>, bool) {
        let (mut launches, mut ran_out) = (Vec::new(), false);
        let mut reserved: Vec<SimulatedNodeId> = Vec::new();
        if !queue.is_empty() && self.in_groups {
            let backs_off = |bucket, group| self.backs_off(bucket, group, now);
            let (nodes, under_way) = estimate_in_groups(queue, cluster, workload, &backs_off);
            reserved = under_way;
            for &id in &reserved {
                cluster.nodes[id].waited_for = true;
            }
            for (bucket, group) in nodes {
                launches.push(self.launch(bucket, group, true, cluster, now));
            }
        } else if !queue.is_empty() {
            let (packing, under_way) = self.estimate(queue, cluster, workload, now);
            reserved = under_way;
            for &id in &reserved {
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
        // The list stays sorted, because the nodes just requested have the largest ids.
        reserved.extend(launches.iter().map(|launch| launch.node));
        for bucket in 0..self.backoffs.len() {
            for group in 0..self.backoffs[bucket].len() {
                for _ in 0..self.missing_for_placeholders(bucket, group, &reserved, cluster, now) {
                    launches.push(self.launch(bucket, group, false, cluster, now));
                }
            }
        }
        if !launches.is_empty() {
            self.last_scale_up = now;
        }
        (launches, ran_out)
    }

    /// Packs the pending pods onto ready nodes first, then onto launching nodes, then onto new
    /// nodes.
    ///
    /// Returns the packing and the launching nodes that it uses, sorted by id.
    fn estimate(
        &self,
        queue: &Queue,
        cluster: &SimulatedCluster<'_>,
        workload: &Workload,
        now: i64,
    ) -> (Packing, Vec<SimulatedNodeId>) {
        let open = BucketSet::only(
            (0..self.backoffs.len()).filter(|&b| self.group_for(b, cluster, now).is_some()),
        );
        let mut pending: Vec<PodRequest> = Vec::new();
        for (class, jobs) in queue.runs() {
            pending.extend(requests(class, jobs, workload));
        }
        let mut rooms = cluster.ready_rooms();
        let ready: u64 = rooms.iter().map(|room| room.nodes).sum();
        let mut under_way: Vec<SimulatedNodeId> = Vec::new();
        for bucket in 0..self.backoffs.len() {
            for group in 0..self.backoffs[bucket].len() {
                under_way.extend(cluster.launching(bucket, group));
            }
        }
        under_way.sort_unstable();
        let allocatable = |id: SimulatedNodeId| {
            let bucket = cluster.nodes[id].bucket;
            Room { bucket, free: cluster.catalog.buckets()[bucket].allocatable, nodes: 1 }
        };
        rooms.extend(under_way.iter().map(|&id| allocatable(id)));
        let packing = pack_within(&pending, &rooms, cluster.catalog, &open, Order::Given);
        let used = packing.placed.iter().flat_map(|placed| placed.node..placed.node + placed.nodes);
        let index = |node: u64| {
            usize::try_from(node.checked_sub(ready)?).ok().filter(|&at| at < under_way.len())
        };
        let mut reserved: Vec<SimulatedNodeId> =
            used.filter_map(index).map(|at| under_way[at]).collect();
        reserved.sort_unstable();
        reserved.dedup();
        (packing, reserved)
    }

    /// Returns how many nodes the pending placeholders of a group need, less the launching nodes
    /// that are not reserved for real pods. The group's maximum limits the result.
    fn missing_for_placeholders(
        &self,
        bucket: BucketId,
        group: usize,
        reserved: &[SimulatedNodeId],
        cluster: &SimulatedCluster<'_>,
        now: i64,
    ) -> u64 {
        let waiting = cluster.waiting(bucket, group);
        if waiting == 0 || self.backs_off(bucket, group, now) {
            return 0;
        }
        let under_way = cluster
            .launching(bucket, group)
            .filter(|id| reserved.binary_search(id).is_err())
            .count();
        let most = cluster.catalog.buckets()[bucket].groups[group].max;
        let room = most.saturating_sub(cluster.nodes_in(bucket, group));
        waiting.saturating_sub(under_way as u64).min(room)
    }

    /// Requests a node in place of one that was taken away, if the group has fewer than its
    /// minimum, as an Auto Scaling group does by itself.
    pub(crate) fn replace(
        &mut self,
        bucket: BucketId,
        group: usize,
        cluster: &mut SimulatedCluster<'_>,
        now: i64,
    ) -> Option<NodeRequest> {
        let least = cluster.catalog.buckets()[bucket].groups[group].min;
        (cluster.nodes_in(bucket, group) < least)
            .then(|| self.launch(bucket, group, false, cluster, now))
    }

    fn launch(
        &mut self,
        bucket: BucketId,
        group: usize,
        waited_for: bool,
        cluster: &mut SimulatedCluster<'_>,
        now: i64,
    ) -> NodeRequest {
        let node = cluster.launch(bucket, group, waited_for, now);
        if cluster.warm.take((bucket, group), now) {
            return NodeRequest { node, at: now + self.warm_start, fails: false };
        }
        // A node goes before an instance that is being prepared.
        let most = cluster.catalog.buckets()[bucket].groups[group].max;
        let room = most.saturating_sub(cluster.nodes_in(bucket, group));
        cluster.warm.lower((bucket, group), room, now);
        let fails = self.failure_share > 0.0 && self.random.random_bool(self.failure_share);
        NodeRequest { node, at: now + self.draw_latency(), fails }
    }

    /// Begins to prepare the instances that warm pools lack, as far as the maxima of the groups
    /// admit. Returns them, each with the time at which it is stopped.
    pub(crate) fn prepare(
        &mut self,
        cluster: &mut SimulatedCluster<'_>,
        now: i64,
    ) -> Vec<(WarmId, i64)> {
        let mut prepared = Vec::new();
        for (bucket, entry) in cluster.catalog.buckets().iter().enumerate() {
            for (at, group) in entry.groups.iter().enumerate() {
                let home = (bucket, at);
                let exist = cluster.nodes_in(bucket, at).saturating_add(cluster.warm.size(home));
                let room = group.max.saturating_sub(exist);
                for _ in 0..cluster.warm.lacks(home).min(room) {
                    prepared.push((cluster.warm.prepare(home, now), now + self.draw_latency()));
                }
            }
        }
        prepared
    }

    /// Returns the group with the fewest nodes among those of the largest weight that are below
    /// their maximum and do not back off.
    fn group_for(
        &self,
        bucket: BucketId,
        cluster: &SimulatedCluster<'_>,
        now: i64,
    ) -> Option<usize> {
        let groups = cluster.catalog.buckets()[bucket].groups.iter().enumerate();
        let open = groups.filter(|&(at, group)| {
            cluster.nodes_in(bucket, at) < group.max && !self.backs_off(bucket, at, now)
        });
        let order = |(at, group): &(usize, &Group)| {
            (Reverse(group.weight), cluster.nodes_in(bucket, *at), *at)
        };
        open.min_by_key(order).map(|(at, _)| at)
    }

    fn draw_latency(&mut self) -> i64 {
        match self.latency {
            LaunchLatency::Constant(span) => span.as_seconds(),
            LaunchLatency::LogNormal { median, p95 } => {
                let mu = (median.as_seconds() as f64).ln();
                let sigma = ((p95.as_seconds() as f64).ln() - mu) / Z95;
                let drawn =
                    LogNormal::new(mu, sigma).map_or(mu.exp(), |law| law.sample(&mut self.random));
                #[expect(clippy::cast_possible_truncation, reason = "clamped")]
                let seconds = drawn.clamp(1.0, LATENCY_SECONDS_MAX).round() as i64;
                seconds
            }
        }
    }

    /// Starts or doubles the backoff of a group after a failed launch.
    pub(crate) fn back_off(&mut self, bucket: BucketId, group: usize, now: i64) {
        let backoff = &mut self.backoffs[bucket][group];
        if backoff.until > now {
            return;
        }
        let (first, longest) = BACKOFF_SECONDS;
        backoff.seconds = (2 * backoff.seconds).clamp(first, longest);
        backoff.until = now + backoff.seconds;
    }

    /// Resets the backoff of a group after a successful launch.
    pub(crate) fn succeed(&mut self, bucket: BucketId, group: usize) {
        self.backoffs[bucket][group] = Backoff::default();
    }
}
