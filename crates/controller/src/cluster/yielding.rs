//! Whether placeholders yield, because pods of workloads wait for nodes that do not come.
//!
//! A ceiling of the cluster, such as cluster-autoscaler's `--max-nodes-total` or a quota of the
//! cloud provider, counts the nodes of placeholders, too. When it is reached, a pod that needs a
//! node of another instance type waits for as long as placeholders hold theirs. So once pods have
//! waited for longer than a launch takes, and a group could still launch nodes for them, the
//! policies give up placeholders: as many as the pods need nodes, and twice as many every minute.
//! Doubling stops at half of the placeholders for each namespace, or at the cores of these nodes,
//! so that one pod that waits for something else does not remove the headroom of all others.
//! Afterwards no policy adds placeholders for a while.
//!
//! Only placeholders that share a ceiling with such a group yield ([`relief`]). A pod for whose
//! instance type the cloud provider has no capacity does not remove the placeholders of others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{
    BucketId, BucketSet, CapacityType, Cluster, Order, PodRequest, Room, embed, pack_within,
};

use super::gather::{by_type, free_room, place, shape_of, usable};
use crate::catalog::{LaunchedBy, Offer, Offers};
use crate::observe::{ClassId, Device, Index, NodeFacts, PodClass, Role};

/// How long placeholders yield to the same pods: 30 minutes, enough for cluster-autoscaler to
/// remove the empty nodes (after 10 minutes by default) and to launch others. Pods that still wait
/// then wait for something else.
const IN_VAIN: TimeDelta = TimeDelta::minutes(30);

/// How long placeholders do not yield again to pods to which they yielded in vain.
const EXEMPT: TimeDelta = TimeDelta::hours(12);

/// The first and the longest pause of growth after placeholders yielded, in minutes. Each time
/// doubles the pause.
const PAUSE_MINUTES: (i64, i64) = (5, 60);

/// How long after a pause the next one is the first again.
const CALM: TimeDelta = TimeDelta::hours(2);

/// The priority below which a pod gets no placeholder's node: that of placeholders is negative.
const PRIORITY_MIN: i32 = 0;

/// What placeholders do for waiting pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Yield {
    /// Placeholders follow the plan.
    #[default]
    No,
    /// Each policy gives up [`Shed::of`] the placeholders that it had in these groups at the
    /// beginning.
    Shed(Shed, Arc<BTreeSet<String>>),
    /// No policy adds placeholders in these groups.
    Hold(Arc<BTreeSet<String>>),
}

/// How many placeholders are given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shed {
    /// What the waiting pods of each namespace need.
    needed: Vec<Need>,
    /// How often the numbers are doubled.
    doublings: u32,
}

/// What waiting pods of one namespace need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// The number of nodes.
    pub(super) nodes: u64,
    /// The number of placeholders whose nodes have as many cores as these nodes. A quota counts
    /// cores.
    pub(super) placeholders: u64,
}

impl Shed {
    /// How many of `stood` placeholders are given up: for the pods of a namespace first as many as
    /// they need nodes. Doubled, the number is at most half of the placeholders, or as many as have
    /// the cores of these nodes.
    pub(super) fn of(&self, stood: u64) -> u64 {
        let factor = 2_u64.saturating_pow(self.doublings);
        let given = self.needed.iter().map(|&Need { nodes, placeholders }| {
            let most = (stood / 2).max(placeholders).max(nodes);
            nodes.saturating_mul(factor).min(most)
        });
        given.fold(0, u64::saturating_add).min(stood)
    }
}

/// What placeholders can do for waiting pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Relief {
    /// What the pods of each namespace need.
    pub(super) needed: Vec<Need>,
    /// The groups whose placeholders share a ceiling with groups that could launch these nodes.
    pub(super) groups: BTreeSet<String>,
}

/// The pods that wait for nodes, and how long placeholders have been yielding to them.
#[derive(Debug, Default)]
pub(super) struct Yielding {
    waiting: HashMap<ClassId, Waiting>,
    /// When placeholders began to yield.
    since: Option<DateTime<Utc>>,
    /// The groups whose placeholders yielded last. `groups_since` is since when these are the
    /// groups.
    groups: Arc<BTreeSet<String>>,
    groups_since: Option<DateTime<Utc>>,
    paused_until: Option<DateTime<Utc>>,
    pause_minutes: i64,
}

/// Pods of one class that wait for a node.
#[derive(Debug)]
struct Waiting {
    class: Arc<PodClass>,
    /// The number of pods of the class that had ceased to wait when it was last observed.
    left: u64,
    /// Since when no pod of the class has ceased to wait.
    since: DateTime<Utc>,
    /// Until when placeholders do not yield to the pods, because they did so in vain.
    in_vain_until: Option<DateTime<Utc>>,
}

impl Yielding {
    /// Records the waiting pods, and returns what placeholders do for those that have waited for
    /// longer than `patience`.
    ///
    /// `waits` is whether pods of a class wait for a node: they may wait for other reasons, for
    /// example if another scheduler holds them. `relief` returns what placeholders can do for pods
    /// of these classes.
    pub(super) fn note(
        &mut self,
        index: &Index,
        waits: &dyn Fn(&PodClass) -> bool,
        patience: TimeDelta,
        now: DateTime<Utc>,
        relief: impl FnOnce(&[(&PodClass, u64)]) -> Relief,
    ) -> Yield {
        self.follow(index, waits, now);
        let mut stuck: Vec<(ClassId, u64)> = Vec::new();
        for (&id, waiting) in &self.waiting {
            let exempt = waiting.in_vain_until.is_some_and(|until| now < until);
            if !exempt && now - waiting.since > patience {
                stuck.push((id, index.waiting(id)[0]));
            }
        }
        let classes = stuck.iter().map(|(id, pods)| (&*self.waiting[id].class, *pods));
        let classes: Vec<(&PodClass, u64)> = classes.collect();
        let Relief { needed, groups } =
            if classes.is_empty() { Relief::default() } else { relief(&classes) };
        if needed.iter().all(|need| need.nodes == 0) || groups.is_empty() {
            return self.rest(now);
        }
        if *self.groups != groups || self.since.is_none() {
            self.groups = Arc::new(groups);
            self.groups_since = Some(now);
        }
        let since = *self.since.get_or_insert(now);
        if now - since > IN_VAIN {
            for (id, _) in stuck {
                let until = Some(now + EXEMPT);
                self.waiting.entry(id).and_modify(|waiting| waiting.in_vain_until = until);
            }
            return self.rest(now);
        }
        let began = self.groups_since.unwrap_or(since);
        let doublings = u32::try_from((now - began).num_minutes()).unwrap_or(0);
        Yield::Shed(Shed { needed, doublings }, Arc::clone(&self.groups))
    }

    fn follow(&mut self, index: &Index, waits: &dyn Fn(&PodClass) -> bool, now: DateTime<Utc>) {
        let mut before = std::mem::take(&mut self.waiting);
        for (id, class) in index.classes().iter() {
            let real = class.role == Role::Workload && class.priority >= PRIORITY_MIN;
            if !real || index.waiting(id)[0] == 0 || !waits(class) {
                continue;
            }
            let left = index.ceased_to_wait(id);
            // The number of a class that is gone is used again.
            let known = before.remove(&id).filter(|known| Arc::ptr_eq(&known.class, class));
            let in_vain_until = known.as_ref().and_then(|known| known.in_vain_until);
            let since = known.filter(|known| known.left == left).map_or(now, |known| known.since);
            self.waiting
                .insert(id, Waiting { class: Arc::clone(class), left, since, in_vain_until });
        }
    }

    /// What placeholders do while no pods are stuck.
    fn rest(&mut self, now: DateTime<Utc>) -> Yield {
        if self.since.take().is_some() {
            let (first, most) = PAUSE_MINUTES;
            let calm = self.paused_until.is_none_or(|until| now - until > CALM);
            self.pause_minutes = if calm { first } else { (2 * self.pause_minutes).min(most) };
            self.paused_until = Some(now + TimeDelta::minutes(self.pause_minutes));
        }
        if self.paused_until.is_some_and(|until| now < until) {
            Yield::Hold(Arc::clone(&self.groups))
        } else {
            Yield::No
        }
    }
}

/// What placeholders can do for pods of these classes.
///
/// A pod that fits into free room waits for something else than a node. For the others, nodes are
/// counted of the groups that are below their maximum, that something launches, and that do not
/// back off. Their placeholders, and those of other groups with a common ceiling, yield.
/// `backs_off` is whether the launches of a group failed recently, by its name. `is_full` is
/// whether the autoscaler reports that the cluster has as many nodes as it may have.
pub(super) fn relief(
    waiting: &[(&PodClass, u64)],
    index: &Index,
    offers: &Offers,
    backs_off: &dyn Fn(&str, &Offer) -> bool,
    is_full: bool,
) -> Relief {
    let by_type = by_type(offers);
    let mut nodes: Vec<Vec<u64>> =
        offers.groups.iter().map(|groups| vec![0; groups.len()]).collect();
    let mut placed = Vec::new();
    for (_, slot, facts) in index.nodes().iter() {
        let Some((bucket, group)) = place(facts, offers, &by_type) else { continue };
        nodes[bucket][group] += 1;
        if facts.schedulable {
            let free = free_room(slot, facts, offers);
            placed.push((facts, Room { bucket, free, nodes: 1 }));
        }
    }
    let buckets = offers.catalog.buckets();
    let devices = |class: &PodClass| class.devices.keys().cloned().collect::<BTreeSet<Device>>();
    let may_use = |class: &PodClass, (bucket, group): Place| {
        usable(&class.constraints, &devices(class), &offers.groups[bucket][group])
    };
    let can_grow = |(bucket, at): Place| {
        let (group, offer) = (&buckets[bucket].groups[at], &offers.groups[bucket][at]);
        nodes[bucket][at] < group.max
            && offer.launched_by != LaunchedBy::Nothing
            && !backs_off(&group.name, offer)
    };
    let of_bucket = |bucket: BucketId| (0..nodes[bucket].len()).map(move |group| (bucket, group));
    let admitting = |admits: &dyn Fn(Place) -> bool| {
        BucketSet::only((0..buckets.len()).filter(|&bucket| of_bucket(bucket).any(admits)))
    };
    let mut growing: BTreeSet<Place> = BTreeSet::new();
    let mut pending: BTreeMap<&str, Vec<PodRequest>> = BTreeMap::new();
    for &(class, count) in waiting {
        let admits = |facts: &NodeFacts| class.constraints.admit(&facts.labels, &facts.taints);
        let rooms = placed.iter().filter(|(facts, _)| admits(facts)).map(|(_, room)| *room);
        let rooms: Vec<Room> = rooms.collect();
        let request = [PodRequest { shape: shape_of(class, offers, BucketSet::all()), count }];
        let none = BucketSet::none();
        let packed = pack_within(&request, &rooms, &offers.catalog, &none, Order::Increasing);
        let left = packed.unplaced.first().map_or(0, |unplaced| unplaced.count);
        if left == 0 {
            continue;
        }
        let open = |place: Place| can_grow(place) && may_use(class, place);
        let shape = shape_of(class, offers, admitting(&open));
        let Ok(fitting) = offers.catalog.buckets_for(&shape) else { continue };
        let fitting = (0..buckets.len()).filter(|id| fitting.contains(*id));
        growing.extend(fitting.flat_map(of_bucket).filter(|place| open(*place)));
        pending.entry(&class.namespace).or_default().push(PodRequest { shape, count: left });
    }
    let all = (0..buckets.len()).flat_map(of_bucket);
    let shares = |&(bucket, at): &Place| {
        let of = |(bucket, at): Place| (buckets[bucket].capacity_type, &offers.groups[bucket][at]);
        is_full || growing.iter().any(|place| share_a_ceiling(of(*place), of((bucket, at))))
    };
    let yielding: Vec<Place> = all.filter(shares).collect();
    let cores = |bucket: BucketId| buckets[bucket].allocatable.cpu_millis.max(1);
    let least = yielding.iter().map(|(bucket, _)| cores(*bucket)).min().unwrap_or(u64::MAX);
    // What is allocatable is less than what a quota counts, by a smaller part for larger nodes, so
    // the ratio is rounded to the nearest number.
    let placeholders = |bucket| (cores(bucket).saturating_add(least / 2) / least).max(1);
    let needed = pending.into_values().map(|pending| {
        let cluster = Cluster { pending, occupied: vec![0; buckets.len()], ..Cluster::default() };
        let demand = embed(&cluster, &offers.catalog);
        let counts = demand.present.iter().enumerate();
        counts.fold(Need::default(), |sum, (bucket, nodes)| Need {
            nodes: sum.nodes.saturating_add(*nodes),
            placeholders: sum
                .placeholders
                .saturating_add(nodes.saturating_mul(placeholders(bucket))),
        })
    });
    let needed = needed.collect();
    let groups =
        yielding.iter().flat_map(|&(bucket, at)| offers.groups[bucket][at].members.iter().cloned());
    Relief { needed, groups: groups.collect() }
}

/// A bucket, and a group of it.
type Place = (BucketId, usize);

/// Whether nodes of two groups count towards one ceiling other than that of the whole cluster: the
/// limits of a pool, or a quota of AWS.
fn share_a_ceiling(one: (CapacityType, &Offer), other: (CapacityType, &Offer)) -> bool {
    let pool = |offer: &Offer| {
        let limited = offer.pool.as_ref().filter(|pool| !pool.limits.is_empty());
        limited.map(|pool| pool.name.clone())
    };
    let ((bought, one), (other_bought, other)) = (one, other);
    if pool(one).is_some() && pool(one) == pool(other) {
        return true;
    }
    let quotas = |offer: &Offer| -> BTreeSet<&'static str> {
        offer.instance_types.iter().map(|name| quota(name)).collect()
    };
    bought == other_bought && !quotas(one).is_disjoint(&quotas(other))
}

/// The quota of AWS that counts the vCPUs of an instance type: one for the standard families
/// together, and one for each kind of special families, for on-demand and for spot instances each
/// (AWS, "Amazon EC2 service quotas").
fn quota(instance_type: &str) -> &'static str {
    let family = instance_type.split('.').next().unwrap_or_default();
    let letters = family.find(|c: char| c.is_ascii_digit()).unwrap_or(family.len());
    let category = family[..letters].split('-').next().unwrap_or_default();
    match category {
        "dl" => "DL",
        "f" => "F",
        "g" | "gr" | "vt" => "G and VT",
        "hpc" => "HPC",
        "inf" => "Inf",
        "p" => "P",
        "trn" => "Trn",
        "u" => "High Memory",
        "x" => "X",
        _ => "Standard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: TimeDelta = TimeDelta::seconds(100);

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    /// An index with pending pods of these names, all of one class.
    fn pending(names: &[&str]) -> Index {
        let mut index = Index::default();
        for name in names {
            index.apply_pod(&pod(name, ""));
        }
        index
    }

    fn pod(name: &str, node: &str) -> crate::observe::Pod {
        serde_json::from_value(testkit::pod("jobs", name, node)).unwrap()
    }

    fn groups() -> Arc<BTreeSet<String>> {
        Arc::new(["a".to_owned()].into())
    }

    fn need(nodes: u64) -> Need {
        Need { nodes, placeholders: nodes }
    }

    /// What is given up for pods of one namespace.
    fn shed(nodes: u64, doublings: u32) -> Yield {
        Yield::Shed(Shed { needed: vec![need(nodes)], doublings }, groups())
    }

    fn hold() -> Yield {
        Yield::Hold(groups())
    }

    /// The answer at a second, with a patience of 100 seconds and one node per waiting pod.
    #[track_caller]
    fn check(yielding: &mut Yielding, index: &Index, seconds: i64, expected: &Yield) {
        let relief = |stuck: &[(&PodClass, u64)]| Relief {
            needed: vec![need(stuck.iter().map(|(_, pods)| pods).sum())],
            groups: ["a".to_owned()].into(),
        };
        let answer = yielding.note(index, &|_| true, PATIENCE, at(seconds), relief);
        assert_eq!(answer, *expected, "{seconds}");
    }

    #[test]
    fn placeholders_yield_to_pods_that_wait_for_longer_than_a_launch() {
        let (mut yielding, mut index) = (Yielding::default(), pending(&["a", "b"]));
        check(&mut yielding, &index, 0, &Yield::No);
        check(&mut yielding, &index, 100, &Yield::No);
        check(&mut yielding, &index, 101, &shed(2, 0));
        check(&mut yielding, &index, 161, &shed(2, 1));
        check(&mut yielding, &index, 221, &shed(2, 2));
        // A pod that starts shows that nodes come.
        index.apply_pod(&pod("a", "n"));
        check(&mut yielding, &index, 230, &hold());
        check(&mut yielding, &index, 330, &hold());
        check(&mut yielding, &index, 331, &shed(1, 0));
        index.apply_pod(&pod("b", "n"));
        // The second pause is twice as long.
        check(&mut yielding, &index, 400, &hold());
        check(&mut yielding, &index, 999, &hold());
        check(&mut yielding, &index, 1_000, &Yield::No);
    }

    #[test]
    fn placeholders_that_yield_in_vain_return() {
        let (mut yielding, index) = (Yielding::default(), pending(&["a"]));
        check(&mut yielding, &index, 0, &Yield::No);
        check(&mut yielding, &index, 200, &shed(1, 0));
        check(&mut yielding, &index, 2_000, &shed(1, 30));
        check(&mut yielding, &index, 2_001, &hold());
        check(&mut yielding, &index, 2_301, &Yield::No);
        check(&mut yielding, &index, 40_000, &Yield::No);
    }

    /// Checks how many of 10 placeholders are given up, by the nodes that the pods of each
    /// namespace need, and after this many minutes.
    #[track_caller]
    fn check_shed(needed: &[u64], minutes: u32, expected: u64) {
        let shed = Shed { needed: needed.iter().copied().map(need).collect(), doublings: minutes };
        assert_eq!(shed.of(10), expected, "{shed:?}");
    }

    #[test]
    fn the_pods_of_a_namespace_remove_half_of_the_placeholders_or_as_many_as_they_need() {
        check_shed(&[1], 0, 1);
        check_shed(&[1], 2, 4);
        check_shed(&[1], 3, 5);
        check_shed(&[1], 200, 5);
        check_shed(&[7], 0, 7);
        check_shed(&[7], 9, 7);
        check_shed(&[20], 0, 10);
        check_shed(&[1, 1], 0, 2);
        check_shed(&[1, 1], 9, 10);
        check_shed(&[1, 8], 1, 10);
        check_shed(&[u64::MAX, u64::MAX], 70, 10);
        check_shed(&[], 70, 0);
        // A node of the size of eight placeholders.
        let large = Need { nodes: 1, placeholders: 8 };
        let of = |doublings| Shed { needed: vec![large], doublings }.of(10);
        assert_eq!([0, 1, 2, 3, 9].map(of), [1, 2, 4, 8, 8]);
    }

    #[test]
    fn pods_for_which_no_group_can_launch_a_node_change_nothing() {
        let (mut yielding, index) = (Yielding::default(), pending(&["a"]));
        for seconds in [0, 200, 2_000] {
            // Another scheduler may hold the pods for another reason.
            for (waits, nodes) in [(true, 0), (false, 1)] {
                let waits = |_: &PodClass| waits;
                let relief = |_: &[(&PodClass, u64)]| Relief {
                    needed: vec![need(nodes)],
                    groups: (*groups()).clone(),
                };
                let answer = yielding.note(&index, &waits, PATIENCE, at(seconds), relief);
                assert_eq!(answer, Yield::No);
            }
        }
    }

    #[track_caller]
    fn check_quota(instance_type: &str, expected: &str) {
        assert_eq!(quota(instance_type), expected, "{instance_type}");
    }

    #[test]
    fn an_instance_type_has_the_quota_of_its_family() {
        check_quota("m5.4xlarge", "Standard");
        check_quota("c7gn.large", "Standard");
        check_quota("z1d.large", "Standard");
        check_quota("g5.xlarge", "G and VT");
        check_quota("gr6.4xlarge", "G and VT");
        check_quota("p5.48xlarge", "P");
        check_quota("trn1n.32xlarge", "Trn");
        check_quota("x2gd.large", "X");
        check_quota("u-6tb1.metal", "High Memory");
        check_quota("hpc7a.96xlarge", "HPC");
        check_quota("", "Standard");
    }
}
