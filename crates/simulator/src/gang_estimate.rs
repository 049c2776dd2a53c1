//! Estimates the nodes for pending pods where all pods of a job must be in one group.
//!
//! cluster-autoscaler simulates, for each group, the nodes that pending pods would need in it, and
//! scales up one of the groups. Here each pending job, in the order of the queue, chooses the group
//! where the missing nodes cost least. A job that fits in no group gets no node.

use std::cmp::Reverse;
use std::collections::HashMap;

use demand::record::ShapeId;
use embedder::{BucketId, BucketSet, Resources, new_instance};

use crate::replay::{GroupId, JobClass, Queue, SimulatedCluster, SimulatedNodeId, Workload};

/// Returns the nodes to request, by group, and the launching nodes that pending pods use, sorted by
/// id.
pub(super) fn estimate_in_groups(
    queue: &Queue,
    cluster: &SimulatedCluster<'_>,
    workload: &Workload,
    backs_off: &dyn Fn(BucketId, usize) -> bool,
) -> (Vec<GroupId>, Vec<SimulatedNodeId>) {
    let mut estimate = Estimate::new(cluster, workload, backs_off);
    for (class, jobs) in queue.runs() {
        // Where a job does not fit, the next job of its class does not fit either.
        let _placed = (0..jobs).take_while(|_| estimate.place(&workload.classes[class])).count();
    }
    let used = estimate.nodes.iter().filter(|node| node.used);
    let mut under_way: Vec<SimulatedNodeId> = used.filter_map(|node| node.launching).collect();
    under_way.sort_unstable();
    (estimate.requested, under_way)
}

/// A node on which pending pods can start, now or when it is ready.
struct RoomyNode {
    group: GroupId,
    free: Resources,
    launching: Option<SimulatedNodeId>,
    used: bool,
}

struct Estimate<'a> {
    cluster: &'a SimulatedCluster<'a>,
    workload: &'a Workload,
    nodes: Vec<RoomyNode>,
    /// The groups, those of the cheapest bucket first, with the number of nodes that may still be
    /// requested.
    groups: Vec<(GroupId, u64)>,
    requested: Vec<GroupId>,
}

/// The nodes that a job takes.
#[derive(Default)]
struct Fit {
    /// By node: the room that is left.
    left: HashMap<usize, Resources>,
    /// The requested nodes, with the room that is left on each.
    requested: Vec<(GroupId, Resources)>,
}

impl<'a> Estimate<'a> {
    fn new(
        cluster: &'a SimulatedCluster<'a>,
        workload: &'a Workload,
        backs_off: &dyn Fn(BucketId, usize) -> bool,
    ) -> Self {
        let node = |group, free, launching| RoomyNode { group, free, launching, used: false };
        let ready = cluster.ready_nodes().map(|(id, free)| node(cluster.home(id), free, None));
        let mut nodes: Vec<RoomyNode> = ready.collect();
        let mut groups = Vec::new();
        for (bucket, at) in cluster.groups_by_price() {
            let entry = &cluster.catalog.buckets()[bucket];
            let launching = cluster.launching(bucket, at);
            nodes.extend(launching.map(|id| node((bucket, at), entry.allocatable, Some(id))));
            let most = if backs_off(bucket, at) { 0 } else { entry.groups[at].max };
            groups.push(((bucket, at), most.saturating_sub(cluster.nodes_in(bucket, at))));
        }
        Self { cluster, workload, nodes, groups, requested: Vec::new() }
    }

    /// Places all pods of a job, and returns whether they fit.
    fn place(&mut self, job: &JobClass) -> bool {
        let best = if job.one_group {
            let groups = self.groups.iter().map(|(group, _)| *group);
            let fits = groups.filter_map(|group| self.fit(job, Some(group)));
            fits.min_by_key(|fit| self.cost(fit))
        } else {
            self.fit(job, None)
        };
        let Some(Fit { left, requested }) = best else { return false };
        for (node, free) in left {
            (self.nodes[node].free, self.nodes[node].used) = (free, true);
        }
        for (group, free) in requested {
            self.nodes.push(RoomyNode { group, free, launching: None, used: true });
            self.requested.push(group);
            if let Some((_, room)) = self.groups.iter_mut().find(|(known, _)| *known == group) {
                *room = room.saturating_sub(1);
            }
        }
        true
    }

    /// The cost per hour of the nodes to request, and their number.
    fn cost(&self, fit: &Fit) -> (u64, usize) {
        let buckets = self.cluster.catalog.buckets();
        let hourly = fit.requested.iter().map(|((bucket, _), _)| buckets[*bucket].hourly.0);
        (hourly.fold(0, u64::saturating_add), fit.requested.len())
    }

    /// The nodes that the pods of a job take, of one group if they must be there: first-fit, then
    /// new nodes.
    fn fit(&self, job: &JobClass, within: Option<GroupId>) -> Option<Fit> {
        let mut fit = Fit::default();
        for &(shape, count) in &job.pods {
            let requests = self.workload.shapes[shape as usize].requests;
            let fits = &self.workload.fits[shape as usize];
            let allowed =
                |group: GroupId| fits.contains(group.0) && within.is_none_or(|only| only == group);
            let mut from = 0;
            for _ in 0..count {
                let free = |at: usize| fit.left.get(&at).copied().unwrap_or(self.nodes[at].free);
                let found = (from..self.nodes.len())
                    .find(|&at| allowed(self.nodes[at].group) && free(at).fits(requests));
                from = found.unwrap_or(self.nodes.len());
                if let Some(at) = found {
                    fit.left.insert(at, free(at).take(requests)?);
                    continue;
                }
                let known = fit.requested.iter_mut();
                let mut known = known.filter(|(group, _)| allowed(*group));
                if let Some((_, free)) = known.find(|(_, free)| free.fits(requests)) {
                    *free = free.take(requests)?;
                } else {
                    let group = self.new_node(shape, within, &fit)?;
                    let free = self.cluster.catalog.buckets()[group.0].allocatable;
                    fit.requested.push((group, free.take(requests)?));
                }
            }
        }
        Some(fit)
    }

    /// The group of a new node for a pod: of the bucket of [`new_instance`], the group of the
    /// largest weight, and of these the one with the fewest nodes, among those that may get another
    /// one.
    fn new_node(&self, shape: ShapeId, within: Option<GroupId>, fit: &Fit) -> Option<GroupId> {
        let requested = |group: GroupId| {
            fit.requested.iter().filter(|(known, _)| *known == group).count() as u64
        };
        let open = self.groups.iter().filter(|(group, room)| {
            within.is_none_or(|only| only == *group) && requested(*group) < *room
        });
        let open: Vec<GroupId> = open.map(|(group, _)| *group).collect();
        let buckets = BucketSet::only(open.iter().map(|(bucket, _)| *bucket));
        let shape = &self.workload.shapes[shape as usize];
        let (bucket, _) = new_instance(shape, self.cluster.catalog, &buckets)?;
        let nodes = |group: GroupId| {
            let before = self.requested.iter().filter(|known| **known == group).count() as u64;
            self.cluster.nodes_in(group.0, group.1) + before + requested(group)
        };
        let groups = open.into_iter().filter(|(of, _)| *of == bucket);
        let weight =
            |(bucket, at): GroupId| self.cluster.catalog.buckets()[bucket].groups[at].weight;
        groups.min_by_key(|group| (Reverse(weight(*group)), nodes(*group), group.1))
    }
}
