//! Detects launches that ended.
//!
//! The launch of a placeholder's node starts when the placeholder's gate is lifted. It ends when
//! the placeholder is on a node that did not exist before, or fails when no node comes in time. A
//! placeholder that replaces another while the node is launched inherits the start of the launch.
//! Every other launch is detected by its node: a pod on it was created before the node was ready,
//! so the pod waited for the node.
//!
//! The node of a placeholder is used once a batch pod comes to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::GIVE_UP;
use chrono::{DateTime, TimeDelta, Utc};
use history::{EndedLaunch, LaunchEnd, UsedLaunch};
use serde_json::Map;

use super::gather::{Places, by_type, place};
use crate::catalog::Offers;
use crate::observe::Key;
use crate::observe::Workloads;
use crate::observe::{Index, PlaceholderPod};
use crate::observe::{NodeFacts, NodeSlot, OnNode};

/// The placeholders and nodes whose launch has been reported, so that each is reported once.
#[derive(Clone, Debug, Default)]
pub struct LaunchTracker {
    reported: BTreeMap<Key, Reported>,
    /// Nodes whose launch has been reported because of a pod, or on which a placeholder was
    /// observed.
    nodes: BTreeSet<Arc<str>>,
    /// The nodes that were launched for placeholders, and whether a batch pod came to each. After a
    /// restart, it has only the nodes on which the placeholder still is.
    launched: BTreeMap<String, Launched>,
    /// The requests of the placeholders that had no node at the last call.
    waiting: BTreeMap<Key, Request>,
    /// The requests whose placeholders were removed before they had a node.
    abandoned: Vec<Request>,
    /// The placeholders that replaced others, with the times at which their nodes were requested.
    inherited: BTreeMap<Key, DateTime<Utc>>,
    /// The time of the first call. Launches that ended before were reported by an earlier process.
    since: Option<DateTime<Utc>>,
}

/// What other sources than pods know of launches.
#[derive(Clone, Copy, Debug)]
pub struct LaunchSources<'a> {
    /// The beginning of the last scale-up of each group, as far as it is known.
    pub scale_ups: &'a BTreeMap<String, DateTime<Utc>>,
    /// The IDs of instances that are or were in a warm pool.
    pub warm_instances: &'a BTreeMap<String, DateTime<Utc>>,
}

impl LaunchSources<'_> {
    /// Whether the instance of a node was prepared in a warm pool.
    fn is_from_warm_pool(&self, node: &NodeFacts) -> bool {
        node.instance.as_deref().is_some_and(|id| self.warm_instances.contains_key(id))
    }
}

/// The request for a placeholder's node.
#[derive(Clone, Debug)]
struct Request {
    group: String,
    at: DateTime<Utc>,
}

/// A node that was launched for a placeholder.
#[derive(Clone, Debug)]
struct Launched {
    bucket: String,
    group: String,
    requested: DateTime<Utc>,
    ready: DateTime<Utc>,
    is_used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    Ended,
    Failed,
}

/// The most by which a node can seem to be created before its placeholder's gate was lifted,
/// because of rounding and of differences between clocks.
const SLACK: TimeDelta = TimeDelta::seconds(2);

impl LaunchTracker {
    /// Returns the launches that ended since the last call. The launch of a placeholder that waits
    /// for `give_up` or longer, by bucket and group, has failed.
    pub fn ended(
        &mut self,
        index: &Index,
        places: &Places,
        (offers, workloads): (&Offers, &Workloads),
        sources: &LaunchSources<'_>,
        give_up: &dyn Fn(usize, usize) -> TimeDelta,
        now: DateTime<Utc>,
    ) -> Vec<EndedLaunch> {
        let since = *self.since.get_or_insert(now);
        self.inherit(index, places, offers, GIVE_UP, now);
        let mut launches = Vec::new();
        let mut alive = BTreeMap::new();
        for (key, pod) in index.placeholders() {
            let set = replica_set(key, pod);
            let (Some(&at), Some(requested)) = (places.get(&set), self.requested(key, pod)) else {
                continue;
            };
            let before = self.reported.get(key).copied();
            let give_up = give_up(at.0, at.1);
            let (end, reported) = end(index, pod, requested, give_up, now, before);
            let is_known = pod.scheduled_at.is_some_and(|at| at < since)
                || pod.node.as_deref().is_some_and(|node| self.nodes.contains(node));
            let end = end.filter(|_| !is_known);
            alive.extend(reported.map(|reported| (key.clone(), reported)));
            let node = pod.node.as_deref().and_then(|node| index.nodes().by_name(node));
            let node = node.and_then(|slot| slot.facts.as_ref());
            let from_warm_pool = node.is_some_and(|node| sources.is_from_warm_pool(node));
            let ended = |end| EndedLaunch { from_warm_pool, ..launch(offers, at, requested, end) };
            launches.extend(end.map(ended));
        }
        self.reported = alive;
        launches.extend(self.waited_for(index, offers, workloads, sources, since));
        launches
    }

    /// Returns the nodes of placeholders to which the first batch pod came since the last call.
    pub fn used(
        &mut self,
        index: &Index,
        places: &Places,
        (offers, workloads): (&Offers, &Workloads),
        now: DateTime<Utc>,
    ) -> Vec<UsedLaunch> {
        for (key, pod) in index.placeholders() {
            let set = replica_set(key, pod);
            if let (Some(&at), Some(requested), Some(node)) =
                (places.get(&set), self.requested(key, pod), &pod.node)
                && is_launched(index, node, requested)
            {
                let (bucket, group) = names(offers, at);
                let ready = pod.scheduled_at.unwrap_or(now).max(requested);
                let launched = Launched { bucket, group, requested, ready, is_used: false };
                self.launched.entry(node.clone()).or_insert(launched);
            }
        }
        let slot = |node: &str| index.nodes().by_name(node).filter(|slot| slot.facts.is_some());
        self.launched.retain(|node, _| slot(node).is_some());
        let mut used = Vec::new();
        for (node, launched) in self.launched.iter_mut().filter(|(_, launched)| !launched.is_used) {
            let Some(submitted) = slot(node).and_then(|slot| oldest(index, slot, workloads)) else {
                continue;
            };
            launched.is_used = true;
            let Launched { bucket, group, requested, ready, .. } = launched.clone();
            used.push(UsedLaunch { bucket, group, requested, ready, submitted, rest: Map::new() });
        }
        used
    }

    /// The time at which the node of a placeholder was requested.
    fn requested(&self, key: &Key, pod: &PlaceholderPod) -> Option<DateTime<Utc>> {
        self.inherited.get(key).copied().or(pod.lifted_at)
    }

    /// Finds the placeholders that replaced others while a node was launched for these, for example
    /// because the node's size became known. Each inherits the earliest abandoned request of its
    /// group. Otherwise its launch would seem to take no time.
    fn inherit(
        &mut self,
        index: &Index,
        places: &Places,
        offers: &Offers,
        give_up: TimeDelta,
        now: DateTime<Utc>,
    ) {
        let (mut waiting, mut present) = (BTreeMap::new(), BTreeSet::new());
        let mut on_nodes = Vec::new();
        for (key, pod) in index.placeholders() {
            present.insert(key);
            let set = replica_set(key, pod);
            let (Some(&at), Some(lifted)) = (places.get(&set), pod.lifted_at) else { continue };
            let request = Request { group: names(offers, at).1, at: lifted };
            match &pod.node {
                None => _ = waiting.insert(key.clone(), request),
                Some(node) if !self.reported.contains_key(key) => {
                    on_nodes.push((key, request, node));
                }
                Some(_) => {}
            }
        }
        let before = std::mem::replace(&mut self.waiting, waiting);
        let gone = before.into_iter().filter(|(key, _)| !present.contains(key));
        self.abandoned.extend(gone.map(|(_, request)| request));
        self.abandoned.retain(|request| now - request.at < give_up);
        self.inherited.retain(|key, _| present.contains(key));
        for (key, request, node) in on_nodes {
            let created = created(index, node).filter(|created| *created <= request.at);
            let Some(created) = created.filter(|created| *created + SLACK >= request.at) else {
                continue;
            };
            let earlier = self.abandoned.iter().enumerate();
            let earlier = earlier.filter(|(_, one)| one.group == request.group && one.at < created);
            if let Some((place, _)) = earlier.min_by_key(|(_, one)| one.at) {
                self.inherited.insert(key.clone(), self.abandoned.swap_remove(place).at);
            }
        }
    }

    /// Returns the launches of nodes that were created since the first call and that run a batch
    /// pod that was created before the node was ready.
    fn waited_for(
        &mut self,
        index: &Index,
        offers: &Offers,
        workloads: &Workloads,
        sources: &LaunchSources<'_>,
        since: DateTime<Utc>,
    ) -> Vec<EndedLaunch> {
        let (mut launches, mut reported) = (Vec::new(), BTreeSet::new());
        for (_, slot, facts) in index.nodes().iter() {
            let Some(created) = facts.created.filter(|created| *created >= since) else { continue };
            let ready = facts.ready_since.unwrap_or(created);
            let is_known = slot.placeholders > 0 || self.nodes.contains(&slot.name);
            let oldest = || oldest(index, slot, workloads).filter(|oldest| *oldest <= ready);
            let waited = if is_known { None } else { oldest() };
            if let Some(oldest) = waited
                && let Some(at) = place(facts, offers, &by_type(offers))
            {
                // A pod may have waited long before its group could grow.
                let began = offers.groups[at.0][at.1].members.iter();
                let began = began.filter_map(|member| sources.scale_ups.get(member).copied());
                let requested = began.filter(|began| *began <= created + SLACK).max();
                let requested = requested.map_or(oldest, |began| began.max(oldest).min(ready));
                let launch = launch(offers, at, requested, LaunchEnd::WaitedFor(ready));
                let from_warm_pool = sources.is_from_warm_pool(facts);
                launches.push(EndedLaunch { from_warm_pool, ..launch });
            }
            if is_known || waited.is_some() {
                reported.insert(Arc::clone(&slot.name));
            }
        }
        self.nodes = reported;
        launches
    }
}

/// The key of the ReplicaSet of a placeholder.
fn replica_set(key: &Key, pod: &PlaceholderPod) -> Key {
    Key { namespace: key.namespace.clone(), name: pod.replica_set.clone() }
}

/// The creation time of the oldest batch pod on a node.
fn oldest(index: &Index, slot: &NodeSlot, workloads: &Workloads) -> Option<DateTime<Utc>> {
    let is_batch = |pods: &&OnNode| {
        index.classes().get(pods.class).is_some_and(|class| workloads.select(class))
    };
    slot.pods.iter().filter(is_batch).filter_map(|pods| pods.oldest).min()
}

/// Whether a node was created for the placeholder that was requested at this time.
fn is_launched(index: &Index, node: &str, requested: DateTime<Utc>) -> bool {
    created(index, node).is_some_and(|created| created + SLACK >= requested)
}

/// The creation time of a node.
fn created(index: &Index, node: &str) -> Option<DateTime<Utc>> {
    index.nodes().by_name(node).and_then(|slot| slot.facts.as_ref()?.created)
}

/// The names of a bucket and of its group.
fn names(offers: &Offers, (bucket, group): (usize, usize)) -> (String, String) {
    let bucket = &offers.catalog.buckets()[bucket];
    (bucket.name.clone(), bucket.groups[group].name.clone())
}

fn launch(
    offers: &Offers,
    at: (usize, usize),
    requested: DateTime<Utc>,
    end: LaunchEnd,
) -> EndedLaunch {
    let (bucket, group) = names(offers, at);
    EndedLaunch { bucket, group, requested, end, from_warm_pool: false, rest: Map::new() }
}

/// The end of a placeholder's launch, if it must be reported now, and the state of its reports
/// after that.
fn end(
    index: &Index,
    pod: &PlaceholderPod,
    requested: DateTime<Utc>,
    give_up: TimeDelta,
    now: DateTime<Utc>,
    reported: Option<Reported>,
) -> (Option<LaunchEnd>, Option<Reported>) {
    match (&pod.node, reported) {
        (_, Some(Reported::Ended)) => (None, reported),
        (Some(node), _) => {
            let launched = is_launched(index, node, requested);
            let ready = pod.scheduled_at.unwrap_or(now).max(requested);
            (launched.then_some(LaunchEnd::Ready(ready)), Some(Reported::Ended))
        }
        (None, None) if now - requested >= give_up => {
            (Some(LaunchEnd::Failed(now)), Some(Reported::Failed))
        }
        (None, _) => (None, reported),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::catalog::Offer;

    fn offers() -> Offers {
        let offer = Offer {
            instance_types: ["one".to_owned()].into(),
            members: vec!["one-a".into()],
            labels: BTreeMap::new(),
            taints: vec![],
            unneeded_seconds: None,
            described: true,
            disk_known: true,
            devices: BTreeMap::new(),
            choices: BTreeMap::new(),
            pool: None,
            launched_by: crate::catalog::LaunchedBy::ClusterAutoscaler,
            requested_devices: BTreeMap::new(),
            pins: BTreeMap::new(),
        };
        Offers {
            catalog: testkit::catalog([("one", 8_000, 0.0)]),
            groups: vec![vec![offer]],
            prices: vec![instances::PriceSource::CatalogFile],
            ranking: Vec::new(),
            problems: vec![],
        }
    }

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    fn conditions(type_: &str, since: i64) -> Value {
        json!([{"type": type_, "status": "True", "lastTransitionTime": at(since)}])
    }

    fn workloads() -> Workloads {
        Workloads {
            namespaces: vec!["jobs".into()],
            priority_min: i32::MIN,
            priority_max: i32::MAX,
            ..Workloads::default()
        }
    }

    fn places() -> Places {
        let set = Key { namespace: "prophet".into(), name: "set".into() };
        Places::from([(set, (0, 0))])
    }

    struct World {
        index: Index,
        launch_tracker: LaunchTracker,
        scale_ups: BTreeMap<String, DateTime<Utc>>,
        warm_instances: BTreeMap<String, DateTime<Utc>>,
    }

    impl World {
        /// A world whose first observation is at second 100.
        fn new() -> Self {
            let mut world = Self {
                index: Index::default(),
                launch_tracker: LaunchTracker::default(),
                scale_ups: BTreeMap::new(),
                warm_instances: BTreeMap::new(),
            };
            assert_eq!(world.observe(100), []);
            world
        }

        fn node(&mut self, made: i64, ready: i64) {
            let node = json!({
                "metadata": {"name": "n", "creationTimestamp": at(made), "labels": {"node.kubernetes.io/instance-type": "one"}},
                "spec": {"providerID": "aws:///us-east-1a/i-1"},
                "status": {"conditions": conditions("Ready", ready)},
            });
            self.index.apply_node(&serde_json::from_value(node).unwrap());
        }

        fn pod(&mut self, namespace: &str, made: i64) {
            let name = format!("{namespace}-{made}");
            let mut pod = testkit::pod(namespace, &name, "n");
            pod["metadata"]["creationTimestamp"] = json!(at(made));
            self.index.apply_pod(&serde_json::from_value(pod).unwrap());
        }

        fn placeholder(&mut self, lifted: i64, scheduled: i64) {
            let status = json!({"conditions": conditions("PodScheduled", scheduled)});
            self.apply_placeholder("p", lifted, &json!({"nodeName": "n"}), &status);
        }

        fn waiting_placeholder(&mut self, name: &str, lifted: i64) {
            self.apply_placeholder(name, lifted, &json!({}), &json!({}));
        }

        fn remove_placeholder(&mut self, name: &str) {
            let pod = json!({"metadata": {"name": name, "namespace": "prophet"}});
            self.index.delete_pod(&serde_json::from_value(pod).unwrap());
        }

        fn apply_placeholder(&mut self, name: &str, lifted: i64, spec: &Value, status: &Value) {
            let mut pod = testkit::placeholder(name, "set", "");
            pod["metadata"]["annotations"] = json!({placeholders::LIFTED_AT: at(lifted)});
            pod["spec"] = spec.clone();
            pod["status"] = status.clone();
            self.index.apply_pod(&serde_json::from_value(pod).unwrap());
        }

        fn observe(&mut self, now: i64) -> Vec<LaunchEnd> {
            self.launches(now).into_iter().map(|launch| launch.end).collect()
        }

        /// The times of the used launches: requested, ready, and submitted.
        fn used(&mut self, now: i64) -> Vec<(DateTime<Utc>, DateTime<Utc>, DateTime<Utc>)> {
            let (workloads, places) = (workloads(), places());
            let used =
                self.launch_tracker.used(&self.index, &places, (&offers(), &workloads), at(now));
            let times = |used: UsedLaunch| (used.requested, used.ready, used.submitted);
            used.into_iter().map(times).collect()
        }

        fn launches(&mut self, now: i64) -> Vec<EndedLaunch> {
            let (workloads, places) = (workloads(), places());
            let give_up = |_: usize, _: usize| TimeDelta::minutes(15);
            self.launch_tracker.ended(
                &self.index,
                &places,
                (&offers(), &workloads),
                &LaunchSources { scale_ups: &self.scale_ups, warm_instances: &self.warm_instances },
                &give_up,
                at(now),
            )
        }
    }

    /// Whether a pod, created at second `pod`, counts as having waited for a node created and ready
    /// at these seconds.
    #[track_caller]
    fn check((made, ready): (i64, i64), pod: i64, waited: bool) {
        let mut world = World::new();
        world.node(made, ready);
        assert_eq!(world.observe(200), []);
        world.pod("jobs", pod);
        let expected = if waited { vec![LaunchEnd::WaitedFor(at(ready))] } else { vec![] };
        assert_eq!(world.observe(210), expected);
        world.pod("jobs", pod - 1);
        assert_eq!(world.observe(220), [], "reported once");
    }

    #[test]
    fn a_pod_created_before_its_node_was_ready_waited_for_it() {
        check((150, 180), 120, true);
        check((150, 180), 170, true);
        check((150, 180), 190, false);
        check((90, 180), 80, false);
    }

    /// A pod waits from second 110 on, for a node that is created at 150 and ready at 180.
    #[test]
    fn a_launch_begins_at_the_scale_up_of_its_group() {
        let requested = |group: &str, began: i64| {
            let mut world = World::new();
            world.scale_ups.insert(group.into(), at(began));
            world.node(150, 180);
            world.pod("jobs", 110);
            world.launches(190)[0].requested
        };
        assert_eq!(requested("one-a", 140), at(140));
        // Another scale-up, before the pod existed or after the node was created.
        assert_eq!(requested("one-a", 50), at(110));
        assert_eq!(requested("one-a", 170), at(110));
        assert_eq!(requested("two-a", 140), at(110));
    }

    #[test]
    fn pods_outside_batch_demand_do_not_report_a_launch() {
        let mut world = World::new();
        world.node(150, 180);
        world.pod("web", 120);
        world.pod("jobs", 190);
        assert_eq!(world.observe(200), []);
    }

    /// The size of the group becomes known with its first node, so a placeholder of another size
    /// replaces the one for which the node was launched.
    #[test]
    fn a_placeholder_that_replaces_another_inherits_the_time_of_the_request() {
        let mut world = World::new();
        world.waiting_placeholder("old", 120);
        assert_eq!(world.observe(130), []);
        world.node(180, 181);
        world.remove_placeholder("old");
        world.placeholder(181, 182);
        assert_eq!(world.launches(182)[0].requested, at(120));
        assert_eq!(world.used(182), []);
        world.pod("jobs", 200);
        assert_eq!(world.used(210), [(at(120), at(182), at(200))]);
    }

    #[test]
    fn a_node_with_a_placeholder_is_hidden_and_reported_once() {
        let mut world = World::new();
        world.node(150, 180);
        world.placeholder(120, 181);
        assert_eq!(world.observe(190), [LaunchEnd::Ready(at(181))]);
        world.pod("jobs", 130);
        assert_eq!(world.observe(200), []);
        // A new process observes the same cluster.
        world.launch_tracker = LaunchTracker::default();
        assert_eq!(world.observe(300), []);
    }

    #[test]
    fn the_node_of_a_placeholder_is_used_once_when_a_batch_pod_comes() {
        let mut world = World::new();
        world.node(150, 180);
        world.placeholder(120, 181);
        assert_eq!(world.used(190), []);
        world.pod("web", 195);
        assert_eq!(world.used(200), []);
        // A new process finds the node by its placeholder.
        world.launch_tracker = LaunchTracker::default();
        assert_eq!(world.used(250), []);
        world.pod("jobs", 300);
        assert_eq!(world.used(310), [(at(120), at(181), at(300))]);
        world.pod("jobs", 301);
        assert_eq!(world.used(320), []);
    }

    #[test]
    fn a_node_that_was_there_before_its_placeholder_is_not_used() {
        let mut world = World::new();
        world.node(105, 110);
        world.placeholder(120, 121);
        world.pod("jobs", 300);
        assert_eq!(world.used(310), []);
    }

    #[test]
    fn a_node_for_which_a_pod_waited_is_reported_once() {
        let mut world = World::new();
        world.node(150, 180);
        world.pod("jobs", 120);
        assert_eq!(world.observe(190), [LaunchEnd::WaitedFor(at(180))]);
        world.placeholder(140, 195);
        assert_eq!(world.observe(200), []);
    }
}
