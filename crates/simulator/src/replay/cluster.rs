//! Nodes, their free room, and the placeholders on them.
//!
//! A placeholder fills a node. It is placed on an empty node of its group as soon as there is one,
//! and the first pod that needs the node preempts it. An index holds the free room of nodes in the
//! order of the scheduler's preference.

use std::collections::{BTreeSet, HashMap};

use base::days::{add_by_day, days, within};
use embedder::{BucketId, BucketSet, Catalog, Resources, Room, UNLIMITED};
use placeholders::{GroupStanding, Standing};

use super::scheduler_kind::SchedulerKind;
use super::warm_pools::WarmPools;

/// The index of a node among all nodes requested so far, in the order of their requests.
pub(crate) type SimulatedNodeId = usize;

/// A group: its bucket, and its place among the groups of the bucket.
pub(crate) type GroupId = (BucketId, usize);

/// A time that is never reached.
pub(crate) const NEVER: i64 = i64::MAX;

/// A node, from its request on. Times are in the log's seconds.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedNode {
    pub(crate) bucket: BucketId,
    pub(crate) group: usize,
    pub(crate) requested: i64,
    /// When it became ready, [`NEVER`] before that.
    pub(crate) ready: i64,
    /// When it was removed or failed to launch, [`NEVER`] before that.
    pub(crate) gone: i64,
    /// Whether a pod waited for it.
    pub(crate) waited_for: bool,
    /// Whether a pod ever ran on it.
    pub(crate) used: bool,
    /// Seconds within the counted window in which pods ran on it.
    pub(crate) busy_seconds: i64,
    busy_since: i64,
    free: Resources,
    pods: u64,
    placeholder: bool,
    /// When the notice came that it will be taken away, [`NEVER`] before that. Its pods run on, and
    /// no other pod is placed on it.
    pub(crate) noticed: i64,
    /// How often the node became empty or ceased to be empty. A scheduled removal with an older
    /// count is void.
    pub(crate) idle_count: u64,
}

impl SimulatedNode {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready != NEVER && self.gone == NEVER
    }

    /// Whether the node is ready and has neither pods nor a placeholder.
    pub(crate) fn is_unneeded(&self) -> bool {
        self.is_ready() && self.pods == 0 && !self.placeholder && self.noticed == NEVER
    }

    pub(crate) fn has_pods(&self) -> bool {
        self.pods > 0
    }

    pub(crate) fn has_placeholder(&self) -> bool {
        self.placeholder
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> Resources {
        self.free
    }
}

/// The position of a node in the index. The scheduler prefers the smallest key.
type Key = (u64, Resources, SimulatedNodeId);

/// The search for the nodes of alike pods that are placed one after the other. A pod takes room and
/// frees none, so of the nodes before `from` in the index, at most `last` fits: it moved there when
/// it took a pod.
pub(crate) struct NodeSearch {
    /// Where the search goes on in the index. `None` if no node fits, except perhaps `last`.
    from: Option<Key>,
    /// The node of the last pod.
    last: Option<SimulatedNodeId>,
}

/// The nodes and placeholders of a group of a bucket.
#[derive(Clone, Debug, Default)]
struct GroupState {
    /// Nodes that are launching or ready.
    nodes: u64,
    launching: BTreeSet<SimulatedNodeId>,
    occupied: u64,
    /// Nodes that are ready and have neither pods nor a placeholder.
    unneeded: BTreeSet<SimulatedNodeId>,
    /// Placeholders, both on nodes and pending.
    wanted: u64,
    /// Placeholders on nodes.
    placed: u64,
    /// Nodes without pods that will be taken away soon.
    unusable: u64,
}

#[derive(Clone)]
pub(crate) struct SimulatedCluster<'a> {
    pub(crate) catalog: &'a Catalog,
    scheduler: SchedulerKind,
    /// The window, as (first second, first second after it), within which busy time counts.
    window: (i64, i64),
    pub(crate) nodes: Vec<SimulatedNode>,
    /// Ready nodes without a placeholder.
    index: BTreeSet<Key>,
    groups: Vec<Vec<GroupState>>,
    /// Nodes with a placeholder, per bucket.
    placeholders: Vec<BTreeSet<SimulatedNodeId>>,
    /// Buckets, cheapest first.
    by_price: Vec<BucketId>,
    /// Node-seconds with pods, by bucket and by day of the window; empty for a bucket without any.
    busy_by_day: Vec<Vec<i64>>,
    /// The number of ready nodes.
    pub(crate) ready: u64,
    /// A counter that increases whenever pods are placed or removed.
    pub(crate) changes: u64,
    /// How often free room was gained so far: on a node that became ready, or by pods that ended.
    /// Each time, at most one node's worth of room was gained.
    pub(crate) gains: u64,
    /// Nodes that became unneeded since the caller last took them.
    pub(crate) newly_unneeded: Vec<SimulatedNodeId>,
    /// The warm pools of the groups.
    pub(crate) warm: WarmPools,
}

impl<'a> SimulatedCluster<'a> {
    pub(crate) fn new(catalog: &'a Catalog, scheduler: SchedulerKind, window: (i64, i64)) -> Self {
        let mut by_price: Vec<BucketId> = (0..catalog.len()).collect();
        by_price.sort_by_key(|&id| (catalog.buckets()[id].hourly, id));
        let groups =
            catalog.buckets().iter().map(|bucket| vec![GroupState::default(); bucket.groups.len()]);
        Self {
            catalog,
            scheduler,
            window,
            nodes: Vec::new(),
            index: BTreeSet::new(),
            groups: groups.collect(),
            placeholders: vec![BTreeSet::new(); catalog.len()],
            by_price,
            busy_by_day: vec![Vec::new(); catalog.len()],
            ready: 0,
            changes: 0,
            gains: 0,
            newly_unneeded: Vec::new(),
            warm: WarmPools::new(catalog),
        }
    }

    /// Requests a node.
    pub(crate) fn launch(
        &mut self,
        bucket: BucketId,
        group: usize,
        waited_for: bool,
        now: i64,
    ) -> SimulatedNodeId {
        let id = self.nodes.len();
        self.nodes.push(SimulatedNode {
            bucket,
            group,
            requested: now,
            ready: NEVER,
            gone: NEVER,
            waited_for,
            used: false,
            busy_seconds: 0,
            busy_since: NEVER,
            free: self.catalog.buckets()[bucket].allocatable,
            pods: 0,
            placeholder: false,
            noticed: NEVER,
            idle_count: 0,
        });
        let state = &mut self.groups[bucket][group];
        state.nodes += 1;
        state.launching.insert(id);
        id
    }

    /// Marks a launching node as ready.
    pub(crate) fn make_ready(&mut self, id: SimulatedNodeId, now: i64) {
        self.nodes[id].ready = now;
        self.ready += 1;
        self.gains += 1;
        let (bucket, group) = self.home(id);
        self.groups[bucket][group].launching.remove(&id);
        self.index.insert(self.key(id));
        self.became_unneeded(id);
    }

    /// Marks the launch of a node as failed.
    pub(crate) fn fail(&mut self, id: SimulatedNodeId, now: i64) {
        self.nodes[id].gone = now;
        let (bucket, group) = self.home(id);
        let state = &mut self.groups[bucket][group];
        state.launching.remove(&id);
        state.nodes -= 1;
    }

    /// Removes an unneeded node.
    pub(crate) fn remove(&mut self, id: SimulatedNodeId, now: i64) {
        self.index.remove(&self.key(id));
        self.nodes[id].gone = now;
        self.ready -= 1;
        let (bucket, group) = self.home(id);
        let state = &mut self.groups[bucket][group];
        state.unneeded.remove(&id);
        state.nodes -= 1;
    }

    /// Notes that a ready node will be taken away soon. Its placeholder is removed.
    pub(crate) fn notice(&mut self, id: SimulatedNodeId, now: i64) {
        let (bucket, group) = self.home(id);
        let state = &mut self.groups[bucket][group];
        if self.nodes[id].placeholder {
            // As after a preemption, no placeholder takes its place before the next decision.
            self.placeholders[bucket].remove(&id);
            state.placed -= 1;
            state.wanted -= 1;
        } else {
            state.unneeded.remove(&id);
        }
        state.unusable += u64::from(self.nodes[id].pods == 0);
        self.index.remove(&self.key(id));
        let node = &mut self.nodes[id];
        (node.placeholder, node.noticed) = (false, now);
        node.idle_count += 1;
    }

    /// Removes a node that was noticed and has no pods any more.
    pub(crate) fn take_away(&mut self, id: SimulatedNodeId, now: i64) {
        self.nodes[id].gone = now;
        self.ready -= 1;
        let (bucket, group) = self.home(id);
        let state = &mut self.groups[bucket][group];
        state.unusable -= 1;
        state.nodes -= 1;
    }

    /// A search for the node of a first pod.
    pub(crate) fn search(&self, requests: Resources) -> NodeSearch {
        let from = match self.scheduler {
            // Keys compare the most expensive resource first, and a node with less of it than the
            // pod requests cannot fit, so the search skips such nodes.
            SchedulerKind::Pack => (0, requests, 0),
            SchedulerKind::Spread => (0, Resources::default(), 0),
        };
        NodeSearch { from: Some(from), last: None }
    }

    /// The node for a pod, of one group if the pod must be there, and whether a placeholder was
    /// preempted on it. `search` goes on from the pod before, which was alike and has been placed.
    pub(crate) fn node_for(
        &mut self,
        requests: Resources,
        fits: &BucketSet,
        within: Option<GroupId>,
        search: &mut NodeSearch,
    ) -> Option<(SimulatedNodeId, bool)> {
        if let Some(free) = self.preferred(requests, fits, within, search) {
            return Some((free, false));
        }
        // Its node is in the index from now on.
        search.last = self.preempt(requests, fits, within);
        Some((search.last?, true))
    }

    /// The node that the scheduler prefers among those on which a pod fits without preemption.
    fn preferred(
        &self,
        requests: Resources,
        fits: &BucketSet,
        within: Option<GroupId>,
        search: &mut NodeSearch,
    ) -> Option<SimulatedNodeId> {
        let takes = |id: SimulatedNodeId| {
            self.nodes[id].free.fits(requests)
                && fits.contains(self.nodes[id].bucket)
                && within.is_none_or(|group| self.home(id) == group)
        };
        // The node of the pod before has moved in the index, and the others have not.
        let is_before = |id: &SimulatedNodeId| search.from.is_none_or(|from| self.key(*id) < from);
        let last = search.last.filter(is_before).filter(|id| takes(*id));
        if last.is_some() {
            return last;
        }
        let mut rest = self.index.range(search.from?..);
        search.from = rest.find(|(.., id)| takes(*id)).copied();
        search.last = search.from.map(|(.., id)| id);
        search.last
    }

    /// Returns how many of the next `most` alike pods the scheduler places on the node of the first
    /// of them, at least 1.
    pub(crate) fn pods_on_same_node(
        &self,
        id: SimulatedNodeId,
        requests: Resources,
        most: u64,
    ) -> u64 {
        match self.scheduler {
            // A node that took a pod is preferred to all others, because it has less free room.
            SchedulerKind::Pack => self.nodes[id].free.holds(requests).clamp(1, most),
            SchedulerKind::Spread => 1,
        }
    }

    /// Places alike pods, at least one, on a node that has room for them.
    pub(crate) fn place(&mut self, id: SimulatedNodeId, requests: Resources, pods: u64, now: i64) {
        self.index.remove(&self.key(id));
        let (bucket, group) = self.home(id);
        let node = &mut self.nodes[id];
        let was_empty = node.pods == 0;
        node.free = node.free.take(requests.times(pods)).unwrap_or_default();
        node.pods += pods;
        if was_empty {
            node.idle_count += 1;
            node.busy_since = now;
            let state = &mut self.groups[bucket][group];
            state.unneeded.remove(&id);
            state.occupied += 1;
        }
        self.index.insert(self.key(id));
        self.changes += 1;
    }

    /// Removes alike pods, at least one, from a node.
    pub(crate) fn release(
        &mut self,
        id: SimulatedNodeId,
        requests: Resources,
        pods: u64,
        now: i64,
    ) {
        self.index.remove(&self.key(id));
        let (bucket, group) = self.home(id);
        let node = &mut self.nodes[id];
        node.pods -= pods;
        node.free = node.free.give_back(requests.times(pods));
        if node.pods == 0 {
            node.free = self.catalog.buckets()[bucket].allocatable;
            self.count_busy(id, now);
            self.groups[bucket][group].occupied -= 1;
        }
        if self.nodes[id].noticed == NEVER {
            self.index.insert(self.key(id));
            if self.nodes[id].pods == 0 {
                self.became_unneeded(id);
            }
        } else {
            self.groups[bucket][group].unusable += u64::from(self.nodes[id].pods == 0);
        }
        self.changes += 1;
        self.gains += 1;
    }

    /// Undoes a placement of alike pods of the same second. A node that was unneeded before the
    /// placement regains its idle count, so it remains unneeded since the earlier time.
    pub(crate) fn take_back(
        &mut self,
        id: SimulatedNodeId,
        requests: Resources,
        pods: u64,
        idle_count: u64,
        now: i64,
    ) {
        self.release(id, requests, pods, now);
        self.gains -= 1;
        if self.nodes[id].pods == 0 {
            self.nodes[id].idle_count = idle_count;
            self.newly_unneeded.pop();
        }
    }

    /// Preempts a placeholder and returns its node, which is then unneeded.
    ///
    /// The node is of the cheapest bucket that has placeholders and fits the pod; within the bucket
    /// it is the node that was requested first. If the pod must be in one group, it is the first
    /// node of that group.
    fn preempt(
        &mut self,
        requests: Resources,
        fits: &BucketSet,
        within: Option<GroupId>,
    ) -> Option<SimulatedNodeId> {
        let allows = |bucket: &&BucketId| {
            fits.contains(**bucket) && self.catalog.buckets()[**bucket].allocatable.fits(requests)
        };
        let first = |bucket: &BucketId| {
            let mut nodes = self.placeholders[*bucket].iter().copied();
            nodes.find(|id| within.is_none_or(|group| self.home(*id) == group))
        };
        let id = self.by_price.iter().filter(allows).find_map(first)?;
        let bucket = self.nodes[id].bucket;
        self.placeholders[bucket].remove(&id);
        let state = &mut self.groups[bucket][self.nodes[id].group];
        // In a cluster, the scheduling gate holds the replacement until the next decision, so it
        // does not count here.
        state.wanted -= 1;
        self.vacate(id);
        Some(id)
    }

    /// Undoes a preemption. The node must be unneeded again.
    pub(crate) fn restore(&mut self, id: SimulatedNodeId) {
        let (bucket, group) = self.home(id);
        self.groups[bucket][group].wanted += 1;
        self.occupy(id);
    }

    /// Sets the number of placeholders of a group. A decrease removes pending placeholders first,
    /// then those on the nodes that were requested last.
    pub(crate) fn want(&mut self, bucket: BucketId, group: usize, wanted: u64) {
        self.groups[bucket][group].wanted = wanted;
        while self.groups[bucket][group].placed > wanted {
            let mut youngest = self.placeholders[bucket].iter().rev();
            let Some(&id) = youngest.find(|id| self.nodes[**id].group == group) else { break };
            self.placeholders[bucket].remove(&id);
            self.vacate(id);
        }
    }

    /// Removes the placeholders that have neither a node nor a launching node.
    pub(crate) fn withdraw_placeholders(&mut self) {
        for state in self.groups.iter_mut().flatten() {
            state.wanted = state.wanted.min(state.placed + state.launching.len() as u64);
        }
    }

    /// Places pending placeholders on unneeded nodes of their group.
    pub(crate) fn settle_placeholders(&mut self) {
        for bucket in 0..self.groups.len() {
            for group in 0..self.groups[bucket].len() {
                while self.waiting(bucket, group) > 0 {
                    let Some(&id) = self.groups[bucket][group].unneeded.first() else { break };
                    self.occupy(id);
                }
            }
        }
    }

    /// The number of placeholders of a group that have no node.
    pub(crate) fn waiting(&self, bucket: BucketId, group: usize) -> u64 {
        let GroupState { wanted, placed, .. } = &self.groups[bucket][group];
        wanted.saturating_sub(*placed)
    }

    /// The number of placeholders of a group, both on nodes and pending.
    pub(crate) fn wanted(&self, bucket: BucketId, group: usize) -> u64 {
        self.groups[bucket][group].wanted
    }

    /// Whether any placeholder has no node.
    pub(crate) fn any_waiting(&self) -> bool {
        self.groups.iter().flatten().any(|GroupState { wanted, placed, .. }| wanted > placed)
    }

    /// The number of nodes that pods occupy, per bucket.
    pub(crate) fn occupied(&self) -> Vec<u64> {
        self.groups.iter().map(|groups| groups.iter().map(|group| group.occupied).sum()).collect()
    }

    /// The number of nodes of a group that are launching or ready.
    pub(crate) fn nodes_in(&self, bucket: BucketId, group: usize) -> u64 {
        self.groups[bucket][group].nodes
    }

    /// The number of ready nodes of a group.
    pub(crate) fn ready_in(&self, (bucket, group): GroupId) -> u64 {
        let GroupState { nodes, launching, .. } = &self.groups[bucket][group];
        nodes.saturating_sub(launching.len() as u64)
    }

    /// All groups, those of the cheapest bucket first.
    pub(crate) fn groups_by_price(&self) -> Vec<GroupId> {
        let groups = |bucket: &BucketId| {
            let bucket = *bucket;
            (0..self.groups[bucket].len()).map(move |group| (bucket, group))
        };
        self.by_price.iter().flat_map(groups).collect()
    }

    /// The ready nodes without a placeholder with their free room, in the scheduler's order.
    pub(crate) fn ready_nodes(&self) -> impl Iterator<Item = (SimulatedNodeId, Resources)> {
        self.index.iter().map(|&(_, free, id)| (id, free))
    }

    /// The launching nodes of a group, in the order of their requests.
    pub(crate) fn launching(
        &self,
        bucket: BucketId,
        group: usize,
    ) -> impl Iterator<Item = SimulatedNodeId> {
        self.groups[bucket][group].launching.iter().copied()
    }

    /// (placeholders, placeholders on nodes, nodes ready, nodes launching) of a bucket.
    pub(crate) fn counts(&self, bucket: BucketId) -> (u64, u64, u64, u64) {
        self.groups[bucket].iter().fold(
            (0, 0, 0, 0),
            |(wanted, placed, ready, launching), group| {
                let under_way = group.launching.len() as u64;
                (
                    wanted + group.wanted,
                    placed + group.placed,
                    ready + group.nodes - under_way,
                    launching + under_way,
                )
            },
        )
    }

    /// The standing placeholders and occupied nodes, in the form that a decision takes.
    pub(crate) fn standing(&self, backoff: impl Fn(BucketId, usize) -> bool) -> Standing {
        let group = |bucket, at, state: &GroupState| {
            let backoff = backoff(bucket, at);
            // While launches of a group fail, its pending placeholders do not count, because they
            // provide no headroom.
            let placeholders = if backoff { state.placed } else { state.wanted };
            let GroupState { occupied, unusable, .. } = *state;
            GroupStanding { placeholders, occupied, unusable, backoff, ..Default::default() }
        };
        let bucket = |(id, groups): (usize, &Vec<GroupState>)| {
            groups.iter().enumerate().map(|(at, state)| group(id, at, state)).collect()
        };
        let buckets = self.groups.iter().enumerate().map(bucket).collect();
        Standing { buckets, ..Standing::default() }
    }

    /// The free room of occupied nodes. Adjacent nodes with equal free room are merged.
    pub(crate) fn occupied_rooms(&self) -> Vec<Room> {
        let occupied = self.index.iter().filter(|(_, _, id)| self.nodes[*id].pods > 0);
        rooms(occupied.map(|&(_, free, id)| (self.nodes[id].bucket, free)))
    }

    /// The free room of occupied nodes if the pods that hold `freed` were gone, by node, in the
    /// order in which the scheduler would then prefer the nodes.
    pub(crate) fn occupied_rooms_with(
        &self,
        freed: &HashMap<SimulatedNodeId, Resources>,
    ) -> Vec<Room> {
        let occupied = self.index.iter().filter(|(_, _, id)| self.nodes[*id].pods > 0);
        let later = occupied.map(|&(_, free, id)| {
            self.key_with(id, free.give_back(freed.get(&id).copied().unwrap_or_default()))
        });
        let later: BTreeSet<Key> = later.collect();
        rooms(later.into_iter().map(|(_, free, id)| (self.nodes[id].bucket, free)))
    }

    /// The free room of all ready nodes without a placeholder, in the scheduler's order.
    pub(crate) fn ready_rooms(&self) -> Vec<Room> {
        rooms(self.index.iter().map(|&(_, free, id)| (self.nodes[id].bucket, free)))
    }

    /// Ends the busy time of all nodes and returns the node-seconds with pods, by bucket and by day
    /// of the window.
    pub(crate) fn close(&mut self, now: i64) -> Vec<Vec<i64>> {
        let busy = |id: &SimulatedNodeId| self.nodes[*id].busy_since != NEVER;
        let busy: Vec<SimulatedNodeId> = (0..self.nodes.len()).filter(busy).collect();
        for id in busy {
            self.count_busy(id, now);
        }
        std::mem::take(&mut self.busy_by_day)
    }

    /// Adds the busy time of a node that its last pod leaves.
    fn count_busy(&mut self, id: SimulatedNodeId, now: i64) {
        let node = &mut self.nodes[id];
        let since = std::mem::replace(&mut node.busy_since, NEVER);
        node.busy_seconds += within(self.window, since, now);
        let by_day = &mut self.busy_by_day[node.bucket];
        by_day.resize(days(self.window), 0);
        add_by_day(by_day, self.window, since, now);
    }

    pub(crate) fn home(&self, id: SimulatedNodeId) -> GroupId {
        (self.nodes[id].bucket, self.nodes[id].group)
    }

    fn became_unneeded(&mut self, id: SimulatedNodeId) {
        let (bucket, group) = self.home(id);
        self.nodes[id].idle_count += 1;
        self.groups[bucket][group].unneeded.insert(id);
        self.newly_unneeded.push(id);
    }

    /// Removes the placeholder from a node.
    fn vacate(&mut self, id: SimulatedNodeId) {
        let (bucket, group) = self.home(id);
        self.nodes[id].placeholder = false;
        self.groups[bucket][group].placed -= 1;
        self.index.insert(self.key(id));
        self.became_unneeded(id);
    }

    /// Places a placeholder on an unneeded node.
    fn occupy(&mut self, id: SimulatedNodeId) {
        let (bucket, group) = self.home(id);
        self.index.remove(&self.key(id));
        self.nodes[id].placeholder = true;
        self.nodes[id].idle_count += 1;
        let state = &mut self.groups[bucket][group];
        state.unneeded.remove(&id);
        state.placed += 1;
        self.placeholders[bucket].insert(id);
    }

    fn key(&self, id: SimulatedNodeId) -> Key {
        self.key_with(id, self.nodes[id].free)
    }

    /// The position of a node if it had this free room.
    fn key_with(&self, id: SimulatedNodeId, free: Resources) -> Key {
        let allocatable = self.catalog.buckets()[self.nodes[id].bucket].allocatable;
        match self.scheduler {
            SchedulerKind::Pack => (0, free, id),
            SchedulerKind::Spread => (fullness(free, allocatable), free, id),
        }
    }
}

/// The utilization of a node, in thousandths.
///
/// It is the mean share in use of accelerators, CPU and memory, as far as they are limited. This is
/// the score of Kubernetes' `LeastAllocated`, with accelerators counted like CPU and memory.
fn fullness(free: Resources, allocatable: Resources) -> u64 {
    let dims = free.components().into_iter().zip(allocatable.components()).take(3);
    let shares = dims.filter(|&(_, have)| have != UNLIMITED && have > 0);
    let (sum, n) = shares.fold((0_u128, 0_u128), |(sum, n), (free, have)| {
        (sum + u128::from(have.saturating_sub(free)) * 1_000 / u128::from(have), n + 1)
    });
    u64::try_from(sum / n.max(1)).unwrap_or(1_000)
}

fn rooms(nodes: impl Iterator<Item = (BucketId, Resources)>) -> Vec<Room> {
    let mut rooms: Vec<Room> = Vec::new();
    for (bucket, free) in nodes {
        match rooms.last_mut() {
            Some(last) if last.bucket == bucket && last.free == free => last.nodes += 1,
            _ => rooms.push(Room { bucket, free, nodes: 1 }),
        }
    }
    rooms
}
