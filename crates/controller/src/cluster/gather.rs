//! Collects a policy's view of the cluster at one moment, which is the input of the later stages.

mod announced;
mod planned;
mod prepaid;
mod workflows;

pub(super) use self::prepaid::unread_reservations;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use control::{PlannedPods, Workflow};
use demand::record::{KeptPlan, StepRun};
use embedder::{
    BucketId, BucketSet, CapacityType, Cluster, Devices, Gang, PodRequest, Resources, Room, Shape,
    Unfit,
};
use placeholders::{GroupStanding, SharedLimit, Standing as PlaceholdersStanding};

use super::announced_share::AnnouncedShare;
use super::known_plan::KnownPlan;
use super::known_workflow::{ExpectedPods, KnownWorkflow};
use crate::catalog::{LaunchedBy, Offer, Offers, Pool};
use crate::observe::PodClass;
use crate::observe::Schedule;
use crate::observe::{Constraints, Device};
use crate::observe::{HeldBack, WaitingState, Workloads};
use crate::observe::{Index, PlaceholderPod};
use crate::observe::{Key, POOL_LABEL};
use crate::observe::{NodeFacts, NodeSlot, OnNode, units};
use crate::outcome::{Backoff, NoBucket, PlanSeen, TierPods};

/// A policy's view of the cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Batch pods, and the nodes that they occupy.
    pub cluster: Cluster,
    /// The gangs that are announced for the first time, or whose job runs without an announcement,
    /// by the object that announces them.
    pub announced_first: Vec<(Key, Gang)>,
    /// The standing placeholders.
    pub standing: PlaceholdersStanding,
    /// The number of placeholders on nodes, by bucket and then by group.
    pub ready: Vec<Vec<u64>>,
    /// The pods of each tier, by the name of the tier.
    pub tiers: BTreeMap<String, TierPods>,
    /// The number of waiting and announced pods that are not counted, by reason.
    pub held_back: BTreeMap<HeldBack, u64>,
    /// Pods that fit in no bucket of the cluster, by shape.
    pub unfit: Vec<(Shape, u64, NoBucket)>,
    /// The planned pods that are still to come.
    pub planned: Vec<PlannedPods>,
    /// The plans, for their status.
    pub plans: Vec<PlanSeen>,
    /// The plans whose objects are to be deleted, with the versions of these objects.
    pub expired: Vec<(Key, Option<String>)>,
    /// What became of the plans that ended, and of steps of workflows that were expected.
    pub ended: Vec<KeptPlan>,
    /// The workflows that run.
    pub workflows: Vec<Workflow>,
    /// The steps of workflows that ended.
    pub runs: Vec<StepRun>,
}

impl Seen {
    /// The templates of workflows and of their steps, and the authors of plans.
    pub fn templates_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let of_workflows = self.workflows.iter_mut().flat_map(|workflow| {
            let steps = workflow.steps.iter_mut().map(|step| &mut step.template);
            std::iter::once(&mut workflow.author).chain(steps)
        });
        let runs = self.runs.iter_mut().map(|run| &mut run.template);
        of_workflows.chain(runs).chain(self.ended.iter_mut().map(|kept| &mut kept.author))
    }
}

/// Intermediate results that are kept between turns, so that a turn recomputes only what changed.
#[derive(Default)]
pub struct View {
    /// The version of the nodes, and the offers, from which the other fields were computed.
    of: (u64, Option<Arc<Offers>>),
    /// By constraints, devices, and whether the pods tolerate interruption.
    admits: HashMap<(Constraints, BTreeSet<Device>, bool), BucketSet>,
    /// The bucket and group of each node.
    places: Vec<Option<(BucketId, usize)>>,
    /// The next firing of each CronJob, in Unix seconds.
    firings: HashMap<Key, (Schedule, Option<i64>)>,
    /// Waiting PodGroups that once had all pods that start together. They count even when only some
    /// of their pods still wait.
    whole: BTreeSet<Key>,
    /// The PodGroups of waiting pods that were not seen yet, and since when pods have them, in Unix
    /// seconds.
    unseen_groups: BTreeMap<Key, i64>,
    /// The gangs that are announced, or whose job runs. `None` before the first turn, in which no
    /// gang is new.
    announced: Option<BTreeSet<Key>>,
    /// The plans of PlannedDemands.
    plans: BTreeMap<Key, KnownPlan>,
    /// The workflows that run, by kind, namespace and name.
    workflows: BTreeMap<String, KnownWorkflow>,
    /// The steps of workflows whose pods are expected, by the names of the workflow and the step.
    expected: BTreeMap<String, ExpectedPods>,
}

/// The bucket and group of each ReplicaSet of placeholders, by namespace and name.
pub type Places = BTreeMap<Key, (BucketId, usize)>;

impl View {
    /// Collects the policy's view of the cluster.
    ///
    /// A CronJob counts if it fires within the lead time of the bucket of its pods, after `now`, a
    /// Unix time. `lead_seconds` has these lead times, by bucket. `replica_sets`
    /// gives the bucket and group of the policy's own placeholders, and `backoff` the groups whose
    /// launches failed recently.
    pub fn gather(
        &mut self,
        index: &Index,
        offers: &Arc<Offers>,
        workloads: &Workloads,
        replica_sets: &Places,
        backoff: &dyn Fn(BucketId, usize) -> Option<Backoff>,
        (now, lead_seconds): (i64, &[i64]),
    ) -> Seen {
        self.refresh(index, offers);
        let mut seen =
            Seen { standing: standing(index, offers, replica_sets, backoff), ..Seen::default() };
        seen.ready = ready(index, offers, replica_sets);
        let batch: Vec<bool> = selected(index, workloads);
        self.occupancy(index, offers, &batch, &mut seen);
        seen.standing.shared = self.shared_limits(index, offers, &seen.standing);
        let mut admitted = AnnouncedShare::new(workloads.announced_most(index), &offers.catalog);
        self.waiting(index, offers, workloads, (&batch, &mut admitted, now), &mut seen);
        let window = (now, lead_seconds);
        self.announced(index, offers, workloads, (window, &mut admitted), &mut seen);
        self.planned(index, offers, workloads, (window, &mut admitted), &mut seen);
        self.workflows(index, offers, workloads, (window, &mut admitted), &mut seen);
        seen.unfit.sort();
        seen.tiers = tiers(index, workloads);
        seen
    }

    /// The shape of a pod class: its requests, and the buckets on offer that admit it. Spot buckets
    /// admit only pods that tolerate interruption.
    pub fn shape(&mut self, class: &PodClass, offers: &Offers, workloads: &Workloads) -> Shape {
        let spot = workloads.may_be_interrupted(class);
        let devices: BTreeSet<Device> = class.devices.keys().cloned().collect();
        let key = (class.constraints.clone(), devices, spot);
        let admits = if let Some(admits) = self.admits.get(&key) {
            admits.clone()
        } else {
            let admits = admits(&class.constraints, &key.1, spot, offers);
            self.admits.insert(key, admits.clone());
            admits
        };
        shape_of(class, offers, admits)
    }

    /// Reports gangs as announced for the first time again in the next turn.
    pub fn postpone(&mut self, announced_first: &[(Key, Gang)]) {
        for (key, _) in announced_first {
            self.announced.iter_mut().for_each(|known| _ = known.remove(key));
        }
    }

    fn refresh(&mut self, index: &Index, offers: &Arc<Offers>) {
        let same_offers = self.of.1.as_ref().is_some_and(|of| Arc::ptr_eq(of, offers));
        if !same_offers || self.admits.len() > 4 * index.classes().len().max(1_000) {
            self.admits.clear();
        }
        if self.firings.len() > 2 * index.announcements().count() {
            self.firings.clear();
        }
        let nodes = index.nodes();
        if !same_offers || self.of.0 != nodes.version {
            self.places = vec![None; nodes.len()];
            let by_type = by_type(offers);
            for (id, _, facts) in nodes.iter() {
                self.places[id] = place(facts, offers, &by_type);
            }
            self.of = (nodes.version, Some(Arc::clone(offers)));
        }
    }

    fn occupancy(&self, index: &Index, offers: &Offers, batch: &[bool], seen: &mut Seen) {
        let is_batch = |pods: &OnNode| batch.get(pods.class as usize).copied().unwrap_or(false);
        seen.cluster.occupied = vec![0; offers.catalog.len()];
        let mut free = Vec::new();
        for (id, slot, facts) in index.nodes().iter() {
            let Some(Some((bucket, group))) = self.places.get(id).copied() else { continue };
            if slot.placeholders > 0 || !slot.pods.iter().any(is_batch) {
                let unusable = u64::from(is_unusable(slot, facts));
                seen.standing.buckets[bucket][group].unusable += unusable;
                continue;
            }
            seen.cluster.occupied[bucket] += 1;
            seen.standing.buckets[bucket][group].occupied += 1;
            // Somebody keeps pods off the node, unless its own pods tolerate the taint: then the
            // kubelet may have given it.
            let own = &offers.groups[bucket][group];
            let is_kept_free = own.own_taints(facts).any(|taint| {
                let classes = slot.pods.iter().filter(|pods| is_batch(pods));
                let mut classes = classes.filter_map(|pods| index.classes().get(pods.class));
                classes.any(|class| !class.constraints.tolerate(taint))
            });
            if facts.schedulable && !is_kept_free {
                free.push((bucket, free_room(slot, facts, offers)));
            }
        }
        free.sort_unstable();
        for (bucket, free) in free {
            match seen.cluster.rooms.last_mut() {
                Some(room) if room.bucket == bucket && room.free == free => room.nodes += 1,
                _ => seen.cluster.rooms.push(Room { bucket, free, nodes: 1 }),
            }
        }
    }

    /// The limits of pools, less what nodes have that placeholders cannot use.
    fn shared_limits(
        &self,
        index: &Index,
        offers: &Offers,
        standing: &PlaceholdersStanding,
    ) -> Vec<SharedLimit> {
        let mut pools: BTreeMap<&str, (&Pool, SharedLimit)> = BTreeMap::new();
        let groups = offers.groups.iter().enumerate().flat_map(|(bucket, groups)| {
            groups.iter().enumerate().map(move |(at, offer)| ((bucket, at), offer))
        });
        for ((bucket, at), offer) in groups {
            let Some(own) = offer.pool.as_ref().filter(|pool| !pool.limits.is_empty()) else {
                continue;
            };
            let new = || {
                let left = own.limits.values().copied().collect();
                (own, SharedLimit { left, groups: BTreeMap::new() })
            };
            let (pool, limit) = pools.entry(&own.name).or_insert_with(new);
            let each = |name: &String| own.of_node.get(name).copied().unwrap_or(0);
            let each: Vec<u64> = pool.limits.keys().map(each).collect();
            let GroupStanding { occupied, unusable, .. } = standing.buckets[bucket][at];
            let used = occupied.saturating_add(unusable);
            for (left, each) in limit.left.iter_mut().zip(&each) {
                *left = left.saturating_sub(each.saturating_mul(used));
            }
            limit.groups.insert((bucket, at), each);
        }
        // The nodes of the pools that are in no group on offer to the policy.
        let outside = index.nodes().iter().filter(|(id, ..)| self.places[*id].is_none());
        for (_, _, facts) in outside {
            let pool = facts.labels.get(POOL_LABEL).and_then(|name| pools.get_mut(name.as_str()));
            let Some((pool, limit)) = pool else { continue };
            for (name, left) in pool.limits.keys().zip(&mut limit.left) {
                *left = left.saturating_sub(amount_of(facts, name));
            }
        }
        pools.into_values().map(|(_, limit)| limit).collect()
    }

    fn waiting(
        &mut self,
        index: &Index,
        offers: &Offers,
        workloads: &Workloads,
        (batch, admitted, now): (&[bool], &mut AnnouncedShare<'_>, i64),
        seen: &mut Seen,
    ) {
        let unseen = std::mem::take(&mut self.unseen_groups);
        // All objects are listed before the first turn.
        let is_later = self.announced.is_some();
        let mut gangs: BTreeMap<(Key, u64), Vec<PodRequest>> = BTreeMap::new();
        let nominated = index.nodes().nominated_to_none();
        for (id, class) in index.classes().iter() {
            let [pending, gated] = index.waiting(id);
            let pending = pending.saturating_add(nominated.get(&id).copied().unwrap_or(0));
            if pending + gated == 0 {
                continue;
            }
            if let Some(reason) = workloads.missed(class) {
                seen.hold_back(reason, pending + gated);
            }
            if !batch[id as usize] {
                continue;
            }
            let shape = self.shape(class, offers, workloads);
            let unfit =
                offers.catalog.buckets_for(&shape).err().map(|unfit| {
                    no_bucket(class, workloads.may_be_interrupted(class), offers, unfit)
                });
            if pending > 0 {
                let shape = shape.clone();
                match unfit.clone() {
                    None => seen.cluster.pending.push(PodRequest { shape, count: pending }),
                    Some(why) => seen.unfit.push((shape, pending, why)),
                }
            }
            if gated > 0 {
                if let WaitingState::HeldBack(reason) = workloads.gated(class) {
                    seen.hold_back(reason, gated);
                    continue;
                }
                if is_later && let Some(group) = group(class).filter(|of| !index.knows_group(of)) {
                    let since = unseen.get(&group).copied().unwrap_or(now);
                    self.unseen_groups.insert(group, since);
                    if now.saturating_sub(since) < UNSEEN_SECONDS {
                        seen.hold_back(HeldBack::PartOfGang, gated);
                        continue;
                    }
                }
                let request = PodRequest { shape: shape.clone(), count: gated };
                match (gang(index, class), unfit) {
                    (Some(gang), _) => gangs.entry(gang).or_default().push(request),
                    (None, None) => seen.announce(&class.namespace, request, admitted),
                    (None, Some(why)) => seen.unfit.push((shape, gated, why)),
                }
            }
        }
        self.gangs(gangs, admitted, seen);
        // Classes that differ only in what the scheduler does not read, such as the namespace, have
        // one shape.
        let pending = &mut seen.cluster.pending;
        pending.sort_by(|a, b| a.shape.cmp(&b.shape));
        pending.dedup_by(|next, sum| {
            let is_equal = next.shape == sum.shape;
            sum.count = if is_equal { sum.count.saturating_add(next.count) } else { sum.count };
            is_equal
        });
    }
}

/// The amount of a resource that a node has, in the units of [`Pool`].
fn amount_of(facts: &NodeFacts, name: &str) -> u64 {
    let Resources { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods, .. } =
        facts.allocatable;
    match name {
        "nodes" => 1,
        "cpu" => cpu_millis,
        "memory" => memory_bytes,
        "ephemeral-storage" => ephemeral_bytes,
        "pods" => pods,
        _ if facts.accelerator_kind.as_ref().is_some_and(|kind| kind.as_str() == name) => {
            accelerators
        }
        _ => facts.devices.get(name).copied().unwrap_or(0),
    }
}

/// Whether placeholders cannot use a node on which no batch pods run alone.
///
/// A node that is not ready and has no pods is usable: it may have just joined, for a placeholder
/// that waits for it.
fn is_unusable(slot: &NodeSlot, facts: &NodeFacts) -> bool {
    if slot.placeholders > 0 {
        return !facts.is_headroom();
    }
    !slot.pods.is_empty() || (facts.ready && !facts.schedulable)
}

/// How long gated pods are held back whose PodGroup was not seen yet, in seconds. Pods and
/// PodGroups come by different watches, in any order. The pods of a gang that count one by one
/// would order nodes in groups that have no room for all of them.
const UNSEEN_SECONDS: i64 = 10;

/// The PodGroup of the pods of a class.
fn group(class: &PodClass) -> Option<Key> {
    Some(Key { namespace: class.namespace.clone(), name: class.pod_group.clone()? })
}

/// The gang to which pods of a class belong, and the minimum number of its pods that start
/// together.
fn gang(index: &Index, class: &PodClass) -> Option<(Key, u64)> {
    let gang = group(class)?;
    let fewest = index.gang_min(&gang)?;
    Some((gang, fewest))
}

fn standing(
    index: &Index,
    offers: &Offers,
    replica_sets: &Places,
    backoff: &dyn Fn(BucketId, usize) -> Option<Backoff>,
) -> PlaceholdersStanding {
    let buckets = offers.groups.iter().enumerate().map(|(bucket, groups)| {
        let one = |(group, offer): (usize, &Offer)| GroupStanding {
            backoff: backoff(bucket, group).is_some(),
            fixed: offer.launched_by == LaunchedBy::Nothing,
            ..GroupStanding::default()
        };
        groups.iter().enumerate().map(one).collect()
    });
    let mut standing =
        PlaceholdersStanding { buckets: buckets.collect(), ..PlaceholdersStanding::default() };
    for (pod, (bucket, group)) in ours(index, replica_sets).filter(|(pod, _)| !pod.is_held()) {
        let may_still_launch = backoff(bucket, group).is_some_and(|of| of.may_still_launch);
        let group = &mut standing.buckets[bucket][group];
        if index.is_stranded(pod) {
            group.stranded += 1;
            continue;
        }
        // A placeholder that waits for a node of a group in backoff is no headroom: the plan puts
        // another one elsewhere.
        let counts = pod.node.is_some() || !group.backoff || may_still_launch;
        group.placeholders += u64::from(counts);
    }
    standing
}

/// The policy's placeholders that are not being deleted, with their bucket and group.
fn ours<'a>(
    index: &'a Index,
    replica_sets: &'a Places,
) -> impl Iterator<Item = (&'a PlaceholderPod, (BucketId, usize))> {
    index.placeholders().filter(|(_, pod)| !pod.deleting).filter_map(|(key, pod)| {
        let set = Key { namespace: key.namespace.clone(), name: pod.replica_set.clone() };
        Some((pod, *replica_sets.get(&set)?))
    })
}

fn ready(index: &Index, offers: &Offers, replica_sets: &Places) -> Vec<Vec<u64>> {
    let mut ready: Vec<Vec<u64>> =
        offers.groups.iter().map(|groups| vec![0; groups.len()]).collect();
    let on_nodes =
        ours(index, replica_sets).filter(|(pod, _)| pod.node.is_some() && !index.is_stranded(pod));
    for (_, (bucket, group)) in on_nodes {
        ready[bucket][group] += 1;
    }
    ready
}

/// The waiting and the running pods of each tier.
fn tiers(index: &Index, workloads: &Workloads) -> BTreeMap<String, TierPods> {
    let mut tiers: BTreeMap<String, TierPods> =
        workloads.tiers.iter().map(|tier| (tier.name.clone(), TierPods::default())).collect();
    if tiers.is_empty() {
        return tiers;
    }
    let mut of_class: Vec<Option<&str>> = vec![None; index.classes().len()];
    for (id, class) in index.classes().iter() {
        of_class[id as usize] = workloads.tier(class);
        let [pending, gated] = index.waiting(id);
        if let Some(pods) = of_class[id as usize].and_then(|name| tiers.get_mut(name)) {
            pods.waiting += pending + gated;
        }
    }
    for pods in index.nodes().iter().flat_map(|(_, slot, _)| &slot.pods) {
        let name = of_class.get(pods.class as usize).copied().flatten();
        if let Some(of_tier) = name.and_then(|name| tiers.get_mut(name)) {
            of_tier.running += u64::from(pods.count);
        }
    }
    tiers
}

/// Whether the pods of each class are batch demand.
fn selected(index: &Index, workloads: &Workloads) -> Vec<bool> {
    let mut batch = vec![false; index.classes().len()];
    for (id, class) in index.classes().iter() {
        batch[id as usize] = workloads.select(class);
    }
    batch
}

/// The number of units in which a device is counted: huge pages in pages, others in whole units. A
/// part of a page is rounded up if `up` is set.
fn counted(name: &str, amount: u64, up: bool) -> u64 {
    let size = name.strip_prefix("hugepages-").and_then(units).filter(|size| *size > 0);
    match size {
        Some(size) if up => amount.div_ceil(size),
        Some(size) => amount / size,
        None => amount,
    }
}

/// The shape of pods of a class that these buckets admit.
pub(super) fn shape_of(class: &PodClass, offers: &Offers, admits: BucketSet) -> Shape {
    let devices = class.device_amounts();
    let devices = devices.map(|(name, amount)| (name.as_str(), counted(name, amount, true)));
    let devices = by_place(devices, offers);
    Shape {
        requests: Resources { devices, ..class.requests },
        accelerator_kind: class.accelerator_kind.clone(),
        admits,
    }
}

/// What the pods of a node leave free, placeholders not counted.
pub(super) fn free_room(slot: &NodeSlot, facts: &NodeFacts, offers: &Offers) -> Resources {
    let free = facts.devices.iter().map(|(name, amount)| {
        let used = slot.devices_used.get(name).copied().unwrap_or(0);
        (name.as_str(), counted(name, amount.saturating_sub(used), false))
    });
    Resources { devices: by_place(free, offers), ..facts.allocatable.less(slot.used) }
}

/// The amounts of devices by their place in the catalog. Those without a place are left out.
fn by_place<'a>(amounts: impl Iterator<Item = (&'a str, u64)>, offers: &Offers) -> Devices {
    let names = offers.catalog.devices();
    let mut devices = Devices::NONE;
    for (name, amount) in amounts {
        if let Some(at) = names.iter().position(|known| known == name) {
            devices.set(at, amount);
        }
    }
    devices
}

/// The buckets that admit pods, as far as their size allows it. `spot` is whether the pods tolerate
/// interruption.
fn admits(
    constraints: &Constraints,
    devices: &BTreeSet<Device>,
    spot: bool,
    offers: &Offers,
) -> BucketSet {
    let buckets = offers.catalog.buckets().iter().zip(&offers.groups).enumerate();
    let admitting = buckets.filter(|(_, (bucket, groups))| {
        (spot || bucket.capacity_type == CapacityType::OnDemand)
            && groups.iter().any(|offer| usable(constraints, devices, offer))
    });
    let admitting: Vec<BucketId> = admitting.map(|(id, _)| id).collect();
    if admitting.len() == offers.groups.len() {
        BucketSet::all()
    } else {
        BucketSet::only(admitting)
    }
}

/// Whether pods can use the nodes of a group, as far as their size allows it.
pub(super) fn usable(constraints: &Constraints, devices: &BTreeSet<Device>, offer: &Offer) -> bool {
    offer.admits(constraints) && devices.iter().all(|device| has(offer, device))
}

/// Whether the nodes of a group offer a device.
fn has(offer: &Offer, device: &Device) -> bool {
    match device {
        Device::Resource(name) => offer.devices.contains_key(name),
        Device::Claim(_) => false,
    }
}

/// Why a class fits in no bucket: `unfit`, unless only its devices keep it out, or only that its
/// pods do not tolerate interruption. `spot` is whether they do.
fn no_bucket(class: &PodClass, spot: bool, offers: &Offers, unfit: Unfit) -> NoBucket {
    let devices: BTreeSet<Device> = class.devices.keys().cloned().collect();
    let fits = |devices: &BTreeSet<Device>, spot: bool| {
        let mut shape = shape_of(class, offers, admits(&class.constraints, devices, spot, offers));
        if devices.is_empty() {
            shape.requests.devices = Devices::NONE;
        }
        offers.catalog.buckets_for(&shape).is_ok()
    };
    if !spot && fits(&devices, true) {
        return NoBucket::OnlySpot;
    }
    if unfit != Unfit::NoBucketAdmits || !fits(&BTreeSet::new(), spot) {
        let undescribed = undescribed(class, offers).map(NoBucket::Undescribed);
        return undescribed.unwrap_or(NoBucket::Unfit(unfit));
    }
    let nowhere =
        |device: &&Device| !offers.groups.iter().flatten().any(|offer| has(offer, device));
    let missing = devices.iter().find(nowhere).or_else(|| devices.first());
    missing.map_or(NoBucket::Unfit(unfit), |device| NoBucket::NotOffered(device.clone()))
}

/// The first group that may admit a class, because the labels and taints of its nodes are unknown.
fn undescribed(class: &PodClass, offers: &Offers) -> Option<String> {
    let buckets = offers.catalog.buckets().iter().zip(&offers.groups).enumerate();
    let groups = buckets.flat_map(|(id, (bucket, groups))| {
        bucket.groups.iter().zip(groups).map(move |(group, offer)| (id, group, offer))
    });
    let mut fitting = groups.filter(|(id, _, offer)| {
        let shape = shape_of(class, offers, BucketSet::only([*id]));
        !offer.described
            && class.constraints.could_admit(&offer.labels)
            && offers.catalog.buckets_for(&shape).is_ok()
    });
    fitting.next().map(|(_, group, _)| group.name.clone())
}

pub(super) fn by_type(offers: &Offers) -> HashMap<&str, Vec<(BucketId, usize)>> {
    let mut by_type: HashMap<&str, Vec<(BucketId, usize)>> = HashMap::new();
    for (bucket, groups) in offers.groups.iter().enumerate() {
        for (group, offer) in groups.iter().enumerate() {
            for instance_type in &offer.instance_types {
                by_type.entry(instance_type).or_default().push((bucket, group));
            }
        }
    }
    by_type
}

/// The bucket and group of a node: among the groups whose pins it meets, the one with the most
/// pins, and then the one with the most taints that the node has.
pub(super) fn place(
    facts: &NodeFacts,
    offers: &Offers,
    by_type: &HashMap<&str, Vec<(BucketId, usize)>>,
) -> Option<(BucketId, usize)> {
    let instance_type = facts.labels.get(crate::catalog::INSTANCE_TYPE_LABEL)?;
    let candidates = by_type.get(instance_type.as_str())?.iter().copied();
    let owning = candidates.filter(|&(bucket, group)| offers.groups[bucket][group].owns(facts));
    owning.max_by_key(|&(bucket, group)| {
        let offer = &offers.groups[bucket][group];
        (offer.pins.len(), offer.taints_on(facts), std::cmp::Reverse((bucket, group)))
    })
}

#[cfg(test)]
mod tests;
