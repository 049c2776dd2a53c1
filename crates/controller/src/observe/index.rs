//! The state of the cluster as one synchronous index of pods, nodes and announced pods.
//!
//! Watch events update the index, each in a few microseconds, and a turn reads it. Identical pods
//! share one class, so a further pod of a known class costs one map entry. The module has no clock
//! and no client.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use demand::record::PodStarts;
use embedder::Resources;
use placeholders::{HOLD_GATE, LIFTED_AT, POLICY_LABEL};

use super::admission::Admission;
use super::announced::{AnnouncedPods, Announcement, CRON_JOBS, WORKLOADS};
use super::class::{ClassId, Classes, PodClass, Priority, Role, pod_group};
use super::constraints::{Constraints, cut};
use super::finished::FinishedPod;
use super::measured::{MeasuredPods, Measurement};
use super::nodes::{NodeId, Nodes};
use super::objects::time;
use super::objects::{BatchJob, DaemonSet, FlavorSpec, Key, Node, Pod, PodSpec, is_true, since};
use super::requests::requests;
use super::written::Written;

/// What occurred since the last observation.
#[derive(Debug, Default)]
pub struct Occurred {
    /// Workload pods that arrived, by class.
    pub arrivals: Vec<(PodClass, u64)>,
    /// PodGroups that arrived, each with its pods by class.
    pub gangs: Vec<Vec<(PodClass, u64)>>,
    /// Workload pods that started, by class and by the name of the node.
    pub starts: Vec<(PodClass, Arc<str>, PodStarts)>,
    /// Workload pods that ended on a node.
    pub finished: Vec<FinishedPod>,
    /// Placeholders that were preempted.
    pub preempted: Vec<Preempted>,
}

/// The observed pods, nodes and announced pods.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// The labels of pods that policies read.
    label_keys: BTreeSet<String>,
    classes: Classes,
    pods: HashMap<u128, Entry>,
    nodes: Nodes,
    /// The number of waiting pods by class: those without a gate, and those that a gate holds.
    waiting: Vec<[u64; 2]>,
    /// The number of pods by class that ceased to wait: they got a node, or are gone.
    ceased: Vec<u64>,
    /// The placeholders, each with the generation in which it was last observed.
    placeholders: BTreeMap<Key, (u8, PlaceholderPod)>,
    daemons: BTreeMap<Key, DaemonSetSpec>,
    /// What admission adds to pods.
    admission: Admission,
    announcements: BTreeMap<(&'static str, Key), Announcement>,
    /// The Jobs and JobSets whose pods Workloads of Kueue announce.
    queued: BTreeSet<(&'static str, Key)>,
    /// By CronJob: its last Job.
    releases: BTreeMap<Key, Release>,
    /// The sources whose announcements do not count, because they are out of date.
    stale: BTreeSet<String>,
    /// PodGroups, with the minimum number of pods that start together.
    gangs: [BTreeMap<Key, u64>; GANG_KINDS],
    /// The flavors of Kueue.
    flavors: BTreeMap<Key, FlavorSpec>,
    /// The workload pods that wait and do not count as arrivals yet.
    fresh: HashMap<u128, Fresh>,
    /// The number of workload pods that arrived since arrivals were last taken, by class.
    arrivals: HashMap<ClassId, u64>,
    /// By PodGroup: the workload pods that arrived since as many as start together were last taken.
    forming: BTreeMap<Key, HashMap<ClassId, u64>>,
    /// The PodGroups that were taken. A pod that replaces one of theirs is no part of a new gang.
    formed: BTreeSet<Key>,
    /// The numbers of workload pods that started since starts were last taken, by class and by the
    /// name of the node.
    starts: HashMap<(ClassId, Arc<str>), PodStarts>,
    /// The workload pods that ended on a node since they were last taken.
    finished: Vec<FinishedPod<ClassId>>,
    /// The usage of running pods, if it is measured.
    measured: MeasuredPods,
    /// Placeholders that were preempted from a node since they were last taken.
    preempted: Vec<Preempted>,
    generation: u8,
    /// Whether the first list of pods is complete.
    listed: bool,
    /// A number that changes with every change that could affect a decision.
    pub version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    class: ClassId,
    /// The node of the pod, or [`NOWHERE`] while the pod waits.
    node: NodeId,
    /// Whether the pod is bound to the node, and not only nominated.
    bound: bool,
    /// Whether a gate ever held the pod.
    gated: bool,
    generation: u8,
    /// Whether the pod is a workload's and is being deleted.
    ends: bool,
}

/// A workload pod that arrives once it is bound, or once an autoscaler could have launched a node
/// for it.
#[derive(Clone, Debug)]
struct Fresh {
    /// The PodGroup of the pod.
    group: Option<Key>,
    /// When a turn first saw it, in Unix seconds. `None` before that turn.
    since: Option<i64>,
}

/// The last Job of a CronJob.
#[derive(Clone, Copy, Debug)]
struct Release {
    /// When the Job was created, in Unix seconds.
    created: i64,
    /// Whether a pod of the Job was ever created.
    has_pods: bool,
}

/// The maximum number of CronJobs whose last Job is known: 10,000. The Jobs of others count as Jobs
/// with pods.
const RELEASES_MAX: usize = 10_000;

/// How long after its creation a Job without pods is one that cannot create them.
const NO_PODS_SECONDS: i64 = 60;

/// Seconds between two scans of cluster-autoscaler: the default of its flag `--scan-interval`. A
/// pod that waits longer waited for a node. A pod that is deleted sooner, and that was not bound,
/// hardly had one launched.
pub const SCAN_SECONDS: i64 = 10;

/// The maximum number of classes and nodes whose starts are kept until a turn takes them: 100,000.
/// The limit is reached only if no turn takes them.
const STARTS_MAX: usize = 100_000;

/// The maximum number of ended pods that are kept until a turn takes them: 100,000. The limit is
/// reached only if no turn takes them.
const FINISHED_MAX: usize = 100_000;

/// The number of kinds of PodGroups: those of Kubernetes, of the scheduler plugins and of Volcano.
pub(super) const GANG_KINDS: usize = 3;

/// The maximum number of PodGroups whose arrived pods are kept until all that start together
/// arrived: 10,000.
const FORMING_MAX: usize = 10_000;

const NOWHERE: NodeId = NodeId::MAX;

/// The maximum number of preempted placeholders that are kept until a turn takes them: 10,000. The
/// limit is reached only if no turn takes them.
const PREEMPTED_MAX: usize = 10_000;

/// The specification of the pods of a DaemonSet.
#[derive(Clone, Debug, PartialEq)]
struct DaemonSetSpec {
    /// As the DaemonSet has it.
    template: PodSpec,
    /// As the API server would admit it.
    admitted: Daemon,
}

impl DaemonSetSpec {
    fn new(mut template: PodSpec, key: &Key, admission: &Admission) -> Self {
        cut(&mut template);
        let spec = admission.admitted(&template, &key.namespace);
        let admitted = Daemon {
            name: key.to_string(),
            constraints: Constraints::of_daemon(&spec),
            requests: requests(&spec).resources,
        };
        Self { template, admitted }
    }
}

/// The pods of a DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// The DaemonSet, as NAMESPACE/NAME.
    pub name: String,
    /// The constraints on the nodes of the pods.
    pub constraints: Constraints,
    /// The requests of each pod: the larger of those that its template gets when it is admitted,
    /// and of those that live pods have, for example because a webhook raised them.
    pub requests: Resources,
}

/// A placeholder pod of Prophet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceholderPod {
    /// The `resourceVersion` that a write must carry.
    pub resource_version: String,
    /// The name of its ReplicaSet.
    pub replica_set: String,
    /// The name of its policy.
    pub policy: String,
    /// The scheduling gates that hold the pod.
    pub gates: Vec<String>,
    /// The name of the node to which the pod is bound, if any.
    pub node: Option<String>,
    /// Whether the pod is being deleted.
    pub deleting: bool,
    /// The time at which its gate was removed.
    pub lifted_at: Option<DateTime<Utc>>,
    /// The time at which the pod was bound to a node.
    pub scheduled_at: Option<DateTime<Utc>>,
    /// What decides where the pod may run.
    pub written: Written,
}

impl PlaceholderPod {
    /// Whether Prophet's gate holds the pod.
    pub fn is_held(&self) -> bool {
        self.gates.iter().any(|gate| gate == HOLD_GATE)
    }
}

/// A placeholder that was preempted from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preempted {
    /// The namespace and name of the pod.
    pub pod: Key,
    /// The name of its policy.
    pub policy: String,
    /// The name of its ReplicaSet.
    pub replica_set: String,
    /// The name of the node from which the pod was preempted.
    pub node: String,
    /// The time at which the pod was bound to the node.
    pub scheduled_at: Option<DateTime<Utc>>,
}

impl Index {
    /// Creates an index that keeps these labels of pods.
    pub fn new(label_keys: BTreeSet<String>) -> Self {
        Self { label_keys, ..Self::default() }
    }

    /// Adds labels of pods to keep. Returns whether any of them is new, in which case all pods must
    /// be listed again.
    pub fn read_labels(&mut self, keys: impl IntoIterator<Item = String>) -> bool {
        let before = self.label_keys.len();
        self.label_keys.extend(keys);
        self.label_keys.len() != before
    }

    /// Begins a new list of all pods.
    pub fn begin_pods(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Ends the list of pods. Pods that were not in it are removed.
    pub fn end_pods(&mut self) {
        let generation = self.generation;
        let gone: Vec<u128> = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.generation != generation)
            .map(|(&key, _)| key)
            .collect();
        for key in gone {
            self.fresh.remove(&key);
            self.remove(key);
        }
        self.placeholders.retain(|_, (seen, _)| *seen == generation);
        self.listed = true;
        self.version += 1;
    }

    /// Whether a node is lost and not expected back.
    fn is_given_up(&self, node: &str) -> bool {
        let facts = self.nodes.by_name(node).and_then(|slot| slot.facts.as_ref());
        facts.and_then(|facts| facts.lost).is_some_and(|lost| !lost.expected_back)
    }

    /// Records the current state of a pod.
    pub fn apply_pod(&mut self, pod: &Pod) {
        let phase = pod.status.phase.as_deref().unwrap_or("");
        if phase == "Succeeded" || phase == "Failed" {
            return self.delete_pod(pod);
        }
        let (key, class) = (key(pod), PodClass::of(pod, &self.label_keys));
        let bound_to = pod.spec.node_name.as_deref().filter(|name| !name.is_empty());
        let goes = pod.metadata.deletion_timestamp.is_some() && class.role == Role::Workload;
        if goes && bound_to.is_none_or(|node| self.is_given_up(node)) {
            // It never runs, or its kubelet does not report its end.
            return self.delete_pod(pod);
        }
        let node = bound_to.or(pod.status.nominated_node_name.as_deref());
        let node = node.filter(|name| !name.is_empty()).map_or(NOWHERE, |name| self.nodes.id(name));
        if class.role == Role::Placeholder {
            self.note_placeholder(pod);
        }
        let generation = self.generation;
        let bound = bound_to.is_some();
        let before = self.pods.get(&key).copied();
        let gated = !class.gates.is_empty() || before.is_some_and(|entry| entry.gated);
        let new = before.is_none() && !goes;
        if bound && !gated && (new || before.is_some_and(|entry| !entry.bound)) {
            self.note_start(pod, &class, node);
        }
        if let Some(entry) = self.pods.get_mut(&key) {
            let same = self.classes.get(entry.class).is_some_and(|known| **known == class);
            let is_same = same && entry.node == node && entry.bound == bound;
            entry.generation = generation;
            entry.ends = goes;
            if is_same {
                return;
            }
            self.remove(key);
        } else {
            if !self.measured.is_empty() {
                // A pod that was not known before begins anew, because the measurements may be
                // those of an earlier pod of this name.
                drop(self.measured.take(&name(pod)));
            }
            if class.role == Role::Workload && self.listed && new {
                let group = pod_group(pod);
                let group = group.map(|name| Key { namespace: class.namespace.clone(), name });
                self.fresh.insert(key, Fresh { group, since: None });
            }
        }
        if bound && let Some(fresh) = self.fresh.remove(&key) {
            self.note_arrival(&class, fresh);
        }
        let id = self.classes.take(class);
        let Some(class) = self.classes.get(id) else { return };
        if node == NOWHERE {
            self.waiting.resize(self.classes.len().max(self.waiting.len()), [0; 2]);
            self.waiting[id as usize][usize::from(!class.gates.is_empty())] += 1;
        } else {
            let created = pod.metadata.creation_timestamp.as_ref().and_then(time);
            // A pod that a gate held did not only wait for its node.
            self.nodes.bind(node, (id, class), bound, created.filter(|_| !gated));
        }
        self.pods.insert(key, Entry { class: id, node, bound, gated, generation, ends: goes });
        self.version += 1;
    }

    /// Removes a pod.
    pub fn delete_pod(&mut self, pod: &Pod) {
        self.note_end(pod);
        self.forget_placeholder(pod);
        self.fresh.remove(&key(pod));
        self.remove(key(pod));
    }

    fn remove(&mut self, key: u128) {
        let Some(Entry { class: id, node, bound, .. }) = self.pods.remove(&key) else { return };
        if let Some(class) = self.classes.get(id) {
            if node == NOWHERE {
                let count = &mut self.waiting[id as usize][usize::from(!class.gates.is_empty())];
                *count = count.saturating_sub(1);
                self.ceased.resize(self.waiting.len(), 0);
                self.ceased[id as usize] += 1;
            } else {
                self.nodes.unbind(node, (id, class), bound);
            }
        }
        self.classes.release(id);
        self.version += 1;
    }

    /// Counts a workload pod that arrived, also for its PodGroup.
    fn note_arrival(&mut self, class: &PodClass, fresh: Fresh) {
        count(&mut self.arrivals, &mut self.classes, class);
        let Some(group) = fresh.group else { return };
        if self.formed.contains(&group) {
            return;
        }
        if self.forming.len() < FORMING_MAX || self.forming.contains_key(&group) {
            count(self.forming.entry(group).or_default(), &mut self.classes, class);
        }
    }

    /// Counts a workload pod that was bound to a node since the last observation. Pods that were
    /// bound before the first list started before this process. Pods that a gate held are left out,
    /// because they waited for the gate, too.
    fn note_start(&mut self, pod: &Pod, class: &PodClass, node: NodeId) {
        let created = pod.metadata.creation_timestamp.as_ref().and_then(time);
        let bound = since(&pod.status.conditions, "PodScheduled");
        let (Some(created), Some(bound)) = (created, bound) else { return };
        if class.role != Role::Workload || !self.listed || self.starts.len() >= STARTS_MAX {
            return;
        }
        let key = (self.classes.take(class.clone()), self.nodes.name(node));
        let known = self.starts.get_mut(&key);
        if known.is_some() {
            self.classes.release(key.0);
        }
        let started = self.starts.entry(key).or_default();
        if (bound - created).num_seconds() <= SCAN_SECONDS {
            started.hidden += 1;
        } else {
            started.waited += 1;
        }
    }

    /// Keeps a workload pod that ran on a node, and that ended or is deleted. Pods that had ended
    /// before they were first observed are left out, because an earlier process may have kept them.
    fn note_end(&mut self, pod: &Pod) {
        let usage = self.measured.take(&name(pod));
        let Some(&Entry { class: id, node, bound, gated, .. }) = self.pods.get(&key(pod)) else {
            return;
        };
        let is_workload = self.classes.get(id).is_some_and(|class| class.role == Role::Workload);
        if !bound || !is_workload || self.finished.len() >= FINISHED_MAX {
            return;
        }
        if let Some(finished) = FinishedPod::of(pod, id, self.nodes.name(node), gated) {
            self.classes.retain(id);
            self.finished.push(FinishedPod { usage, ..finished });
        }
    }

    /// Records what pods use at the moment; `None` if the metrics API cannot be read.
    pub fn measure(&mut self, pods: Option<Vec<Measurement>>) {
        match pods {
            Some(pods) => self.measured.add(pods),
            None => self.measured.no_list(),
        }
    }

    /// Returns the number of pods in the last list of what pods use.
    pub fn measured_pods(&self) -> usize {
        self.measured.listed()
    }

    fn note_placeholder(&mut self, pod: &Pod) {
        let Pod { metadata, spec, status } = pod;
        let owner =
            metadata.owner_references.iter().flatten().find(|owner| owner.kind == "ReplicaSet");
        let lifted = metadata.annotations.as_ref().and_then(|all| all.get(LIFTED_AT));
        let placeholder = PlaceholderPod {
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            replica_set: owner.map(|owner| owner.name.clone()).unwrap_or_default(),
            policy: label(pod, POLICY_LABEL),
            gates: spec.scheduling_gates.iter().map(|gate| gate.name.clone()).collect(),
            node: spec.node_name.clone().filter(|name| !name.is_empty()),
            deleting: metadata.deletion_timestamp.is_some(),
            lifted_at: lifted.and_then(|text| text.parse().ok()),
            scheduled_at: since(&status.conditions, "PodScheduled"),
            written: Written::of(spec),
        };
        let known = self.placeholders.insert(name(pod), (self.generation, placeholder.clone()));
        if known.is_none_or(|(_, known)| known != placeholder) {
            self.version += 1;
        }
    }

    fn forget_placeholder(&mut self, pod: &Pod) {
        let Some((_, known)) = self.placeholders.remove(&name(pod)) else { return };
        let PlaceholderPod { policy, replica_set, node, scheduled_at, .. } = known;
        self.version += 1;
        let preempted = is_true(&pod.status.conditions, "DisruptionTarget");
        if let (true, Some(node), true) = (preempted, node, self.preempted.len() < PREEMPTED_MAX) {
            let pod = name(pod);
            self.preempted.push(Preempted { pod, policy, replica_set, node, scheduled_at });
        }
    }

    /// Records the current state of a node.
    pub fn apply_node(&mut self, node: &Node) {
        if self.nodes.apply(node) {
            self.version += 1;
        }
    }

    /// Removes a node.
    pub fn delete_node(&mut self, node: &Node) {
        self.nodes.delete(node.metadata.name.as_deref().unwrap_or_default());
        self.version += 1;
    }

    /// Begins a new list of all nodes.
    pub fn begin_nodes(&mut self) {
        self.nodes.begin();
    }

    /// Ends the list of nodes. Nodes that were not in it are removed.
    pub fn end_nodes(&mut self) {
        self.nodes.end();
        self.version += 1;
    }

    /// Records the current state of a DaemonSet.
    pub fn apply_daemon(&mut self, daemon: &DaemonSet) {
        let key = Key::of(&daemon.metadata);
        let spec = daemon.spec.template.spec.clone();
        let known = DaemonSetSpec::new(spec, &key, &self.admission);
        if self.daemons.get(&key) != Some(&known) {
            self.daemons.insert(key, known);
            self.version += 1;
        }
    }

    /// Removes a DaemonSet.
    pub fn delete_daemon(&mut self, key: &Key) {
        if self.daemons.remove(key).is_some() {
            self.version += 1;
        }
    }

    /// Records the pods that the object `key` of the kind `source` announces, or removes them if
    /// `announcement` is `None`.
    pub fn announce(&mut self, source: &'static str, key: Key, announcement: Option<Announcement>) {
        let of = (source, key);
        let admitted = announcement.map(|mut announcement| {
            announcement.admit(&self.admission);
            announcement
        });
        let before = self.announcements.remove(&of);
        self.note_queued(&of.1, [before.as_ref(), admitted.as_ref()]);
        let is_same = admitted.is_some() && before == admitted;
        self.announcements.extend(admitted.map(|announcement| (of, announcement)));
        self.version += u64::from(!is_same);
    }

    /// Records whether a Job of a CronJob has created pods. A Job that is not to have pods now
    /// shows nothing.
    pub fn note_release(&mut self, job: &BatchJob) {
        let BatchJob { metadata, spec, status } = job;
        if spec.suspend || spec.parallelism == Some(0) {
            return;
        }
        let mut owners = metadata.owner_references.iter().flatten();
        let Some(owner) = owners.find(|owner| owner.kind == "CronJob") else { return };
        let Some(created) = metadata.creation_timestamp.as_ref() else { return };
        let created = created.0.as_second();
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let key = Key { namespace, name: owner.name.clone() };
        let is_known = self.releases.contains_key(&key);
        if !is_known && self.releases.len() >= RELEASES_MAX {
            return;
        }
        let has_pods = status.active > 0 || status.succeeded > 0 || status.failed > 0;
        let release = self.releases.entry(key).or_insert(Release { created, has_pods });
        if release.created < created {
            *release = Release { created, has_pods };
        } else if release.created == created && has_pods {
            release.has_pods = true;
        }
    }

    /// Whether the last Job of a CronJob has created no pods for a minute, because of a quota or a
    /// webhook. `now` is in Unix seconds.
    pub fn creates_no_pods(&self, cron_job: &Key, now: i64) -> bool {
        let last = self.releases.get(cron_job);
        last.is_some_and(|last| !last.has_pods && last.created + NO_PODS_SECONDS <= now)
    }

    /// What admission adds to pods. After a change, call [`Index::readmit`].
    pub(crate) fn admission(&mut self) -> &mut Admission {
        &mut self.admission
    }

    /// Admits announced pods and DaemonSets again, because what admission adds has changed: those
    /// of a namespace, or all.
    pub(crate) fn readmit(&mut self, namespace: Option<&str>) {
        let within = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        for ((_, key), announcement) in &mut self.announcements {
            if within(key) {
                announcement.admit(&self.admission);
            }
        }
        for (key, daemon) in self.daemons.iter_mut().filter(|(key, _)| within(key)) {
            *daemon = DaemonSetSpec::new(daemon.template.clone(), key, &self.admission);
        }
        self.version += 1;
    }

    /// Keeps only these announcements of one source, at the end of a list.
    pub fn retain_announced(&mut self, source: &'static str, keys: &BTreeSet<Key>) {
        let is_gone = |(from, key): &(&'static str, Key)| *from == source && !keys.contains(key);
        let gone = self.announcements.extract_if(.., |of, _| is_gone(of));
        for ((_, key), announcement) in gone.collect::<Vec<_>>() {
            self.note_queued(&key, [Some(&announcement), None]);
        }
        if source == CRON_JOBS {
            self.releases.retain(|key, _| keys.contains(key));
        }
        self.version += 1;
    }

    /// Keeps only these DaemonSets, at the end of a list.
    pub fn retain_daemons(&mut self, keys: &BTreeSet<Key>) {
        self.daemons.retain(|key, _| keys.contains(key));
        self.version += 1;
    }

    /// Returns what occurred since the last call. `now` is a Unix time.
    pub fn take_occurred(&mut self, now: i64) -> Occurred {
        Occurred {
            arrivals: self.take_arrivals(now),
            gangs: self.take_gangs(),
            starts: self.take_starts(),
            finished: self.take_finished(),
            preempted: self.take_preempted(),
        }
    }

    /// Returns the workload pods that arrived since the last call, by class. A waiting pod arrives
    /// when it has waited for longer than the autoscaler needs to see it.
    fn take_arrivals(&mut self, now: i64) -> Vec<(PodClass, u64)> {
        for fresh in self.fresh.values_mut() {
            fresh.since.get_or_insert(now);
        }
        let waited = |fresh: &Fresh| {
            fresh.since.is_some_and(|since| now.saturating_sub(since) >= SCAN_SECONDS)
        };
        let arrived: Vec<(u128, Fresh)> = self.fresh.extract_if(|_, fresh| waited(fresh)).collect();
        for (key, fresh) in arrived {
            let class = self.pods.get(&key).and_then(|entry| self.classes.get(entry.class));
            if let Some(class) = class.map(|class| PodClass::clone(class)) {
                self.note_arrival(&class, fresh);
            }
        }
        let arrivals = std::mem::take(&mut self.arrivals);
        let mut taken = Vec::with_capacity(arrivals.len());
        for (id, count) in arrivals {
            if let Some(class) = self.classes.get(id) {
                taken.push((PodClass::clone(class), count));
            }
            self.classes.release(id);
        }
        taken.sort_by(|(a, _), (b, _)| {
            (&a.namespace, a.requests, a.priority).cmp(&(&b.namespace, b.requests, b.priority))
        });
        taken
    }

    /// Returns the gangs that arrived since the last call: for each PodGroup of which as many pods
    /// arrived as start together, these pods, by class. Pods of other PodGroups are forgotten.
    fn take_gangs(&mut self) -> Vec<Vec<(PodClass, u64)>> {
        let mut gangs = Vec::new();
        let mut formed = std::mem::take(&mut self.formed);
        formed.retain(|group| self.gang_min(group).is_some());
        for (group, pods) in std::mem::take(&mut self.forming) {
            let Some(fewest) = self.gang_min(&group) else {
                for id in pods.into_keys() {
                    self.classes.release(id);
                }
                continue;
            };
            if pods.values().fold(0, |sum: u64, count| sum.saturating_add(*count)) < fewest {
                self.forming.insert(group, pods);
                continue;
            }
            let mut gang = Vec::with_capacity(pods.len());
            for (id, count) in pods {
                gang.extend(self.classes.get(id).map(|class| (PodClass::clone(class), count)));
                self.classes.release(id);
            }
            gangs.push(gang);
            formed.insert(group);
        }
        self.formed = formed;
        gangs
    }

    /// Returns the workload pods that started since the last call, by class and node.
    fn take_starts(&mut self) -> Vec<(PodClass, Arc<str>, PodStarts)> {
        let starts = std::mem::take(&mut self.starts);
        let mut taken = Vec::with_capacity(starts.len());
        for ((id, node), started) in starts {
            if let Some(class) = self.classes.get(id) {
                taken.push((PodClass::clone(class), node, started));
            }
            self.classes.release(id);
        }
        taken
    }

    /// Returns the workload pods that ended on a node since the last call.
    fn take_finished(&mut self) -> Vec<FinishedPod> {
        let finished = std::mem::take(&mut self.finished);
        let mut taken = Vec::with_capacity(finished.len());
        for pod in finished {
            let id = pod.class;
            if let Some(class) = self.classes.get(id) {
                taken.push(pod.with_class(PodClass::clone(class)));
            }
            self.classes.release(id);
        }
        taken
    }

    /// Returns the placeholders that were preempted since the last call.
    fn take_preempted(&mut self) -> Vec<Preempted> {
        std::mem::take(&mut self.preempted)
    }

    /// Returns the classes in use.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Returns the nodes that were listed or that pods refer to, by index and by name.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns the number of waiting pods of a class: those without a gate, and those that a gate
    /// holds.
    pub fn waiting(&self, id: ClassId) -> [u64; 2] {
        self.waiting.get(id as usize).copied().unwrap_or_default()
    }

    /// The number of pods of a class that ceased to wait, because they got a node or are gone.
    pub fn ceased_to_wait(&self, id: ClassId) -> u64 {
        self.ceased.get(id as usize).copied().unwrap_or(0)
    }

    /// Iterates over the placeholders.
    pub fn placeholders(&self) -> impl Iterator<Item = (&Key, &PlaceholderPod)> {
        self.placeholders.iter().map(|(key, (_, pod))| (key, pod))
    }

    /// Whether a placeholder is stranded: it is bound to a node to which no other pod may be bound,
    /// because the node is cordoned, not ready, or will be gone soon. Such a node is no headroom.
    pub fn is_stranded(&self, pod: &PlaceholderPod) -> bool {
        let node = pod.node.as_deref().and_then(|name| self.nodes.by_name(name));
        node.and_then(|slot| slot.facts.as_ref()).is_some_and(|facts| !facts.is_headroom())
    }

    /// Decides which of the nodes that are not ready are expected to be ready again. Returns
    /// whether so many of them are not ready that a fault of the network or of the control plane is
    /// likely.
    ///
    /// Pods that are being deleted on a node that is not expected back are forgotten, because its
    /// kubelet does not report their end. Mostly their controllers have created others.
    pub fn expect_nodes_back(&mut self, now: DateTime<Utc>) -> bool {
        let (many, given_up) = self.nodes.expect_back(now);
        if !given_up.is_empty() {
            let ends = |entry: &Entry| entry.ends && given_up.contains(&entry.node);
            let ending = self.pods.iter().filter(|(_, entry)| ends(entry));
            for key in ending.map(|(key, _)| *key).collect::<Vec<u128>>() {
                self.remove(key);
            }
            self.version += 1;
        }
        many
    }

    /// Returns the DaemonSets.
    pub fn daemons(&self) -> Vec<Daemon> {
        let mut live: BTreeMap<(&str, &str), Resources> = BTreeMap::new();
        for (_, class) in self.classes.iter() {
            if let Some(name) = &class.daemon {
                let most = live.entry((&class.namespace, name)).or_default();
                *most = most.roof(coarse(class.requests));
            }
        }
        let one = |(key, daemon): (&Key, &DaemonSetSpec)| {
            let live = live.get(&(key.namespace.as_str(), key.name.as_str()));
            let admitted = daemon.admitted.clone();
            let (known, most) = (admitted.requests, live.copied().unwrap_or_default());
            // A pod that was rounded up is not larger than the template.
            let requests = if coarse(known).fits(most) { known } else { known.roof(most) };
            Daemon { requests, ..admitted }
        };
        self.daemons.iter().map(one).collect()
    }

    /// Iterates over the announcements that count. A Job or a JobSet is left out if a Workload of
    /// Kueue announces its pods.
    pub fn announcements(&self) -> impl Iterator<Item = (&Key, &Announcement)> {
        let reads_queued = !self.queued.is_empty() && !self.is_stale(WORKLOADS);
        let counts = move |(of, _): &(&(&'static str, Key), &Announcement)| {
            let is_queued = reads_queued && self.queued.contains(*of);
            !is_queued && !self.is_stale(of.0)
        };
        let current = self.announcements.iter().filter(counts);
        current.map(|((_, key), announcement)| (key, announcement))
    }

    /// Notes which Job or JobSet a Workload announces in place of the one before.
    fn note_queued(&mut self, key: &Key, [before, now]: [Option<&Announcement>; 2]) {
        let queued = |of: &Announcement| {
            let (source, name) = of.queued.clone()?;
            Some((source, Key { namespace: key.namespace.clone(), name }))
        };
        if let Some(before) = before.and_then(queued) {
            self.queued.remove(&before);
        }
        self.queued.extend(now.and_then(queued));
    }

    /// Sets the sources whose announcements do not count, because they are out of date.
    pub fn set_stale(&mut self, sources: BTreeSet<String>) {
        if self.stale != sources {
            self.stale = sources;
            self.version += 1;
        }
    }

    /// Whether the announcements of a source do not count.
    pub fn is_stale(&self, source: &str) -> bool {
        self.stale.contains(source)
    }

    /// The pods that an object announces, with the constraints of their flavors.
    /// Pods of a flavor that is not known are left out: their nodes are not known. When the
    /// controller starts, it may list the workloads of Kueue before the flavors.
    pub fn announced_pods<'a>(
        &'a self,
        announcement: &'a Announcement,
    ) -> impl Iterator<Item = (Cow<'a, PodClass>, u64)> {
        announcement.pods.iter().filter(|pods| !self.lacks_flavor(pods)).map(|pods| {
            let AnnouncedPods { class, count, flavors, .. } = pods;
            let mut class = Cow::Borrowed(class);
            let flavors = flavors.iter().filter_map(|name| self.flavors.get(&unbound(name)));
            flavors.for_each(|flavor| class.to_mut().constraints.add_flavor(flavor));
            (class, *count)
        })
    }

    /// Whether a flavor that Kueue has assigned to the pods is not known.
    pub fn lacks_flavor(&self, pods: &AnnouncedPods) -> bool {
        pods.flavors.iter().any(|name| !self.flavors.contains_key(&unbound(name)))
    }

    /// Returns the priority of a PriorityClass.
    pub fn priority(&self, class: &str) -> Option<Priority> {
        self.admission.priorities.get(&unbound(class)).copied()
    }

    /// The flavors of Kueue, which have no namespace.
    pub(crate) fn flavors(&mut self) -> &mut BTreeMap<Key, FlavorSpec> {
        self.version += 1;
        &mut self.flavors
    }

    /// Returns the PodGroups of one kind, with the minimum number of pods that start together; it
    /// is at most 1 for a PodGroup that is no gang.
    pub(crate) fn gangs(&mut self, kind: usize) -> &mut BTreeMap<Key, u64> {
        &mut self.gangs[kind.min(GANG_KINDS - 1)]
    }

    /// Returns the minimum number of pods of a PodGroup that start, or `None` if it is no gang.
    pub fn gang_min(&self, group: &Key) -> Option<u64> {
        self.gangs.iter().find_map(|gangs| gangs.get(group).copied()).filter(|least| *least > 1)
    }

    /// Whether a PodGroup was seen.
    pub fn knows_group(&self, group: &Key) -> bool {
        self.gangs.iter().any(|gangs| gangs.contains_key(group))
    }

    /// The number of pods.
    pub fn pods(&self) -> usize {
        self.pods.len()
    }
}

/// The requests of a DaemonSet's live pod, rounded up to 50m of CPU and 64 MiB of memory. Otherwise
/// each small change of a pod's requests would replace the placeholders of all groups.
fn coarse(requests: Resources) -> Resources {
    let up = |amount: u64, step: u64| amount.div_ceil(step).saturating_mul(step);
    Resources {
        cpu_millis: up(requests.cpu_millis, 50),
        memory_bytes: up(requests.memory_bytes, 64 << 20),
        ..requests
    }
}

/// The key of an object without a namespace.
fn unbound(name: &str) -> Key {
    Key { namespace: String::new(), name: name.into() }
}

fn name(pod: &Pod) -> Key {
    Key::of(&pod.metadata)
}

fn label(pod: &Pod, key: &str) -> String {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
}

/// Returns the UID of a pod as a number, or a hash of its UID, namespace and name if the UID is not
/// hexadecimal.
fn key(pod: &Pod) -> u128 {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let digits: String = uid.chars().filter(|c| *c != '-').collect();
    if let (32, Ok(number)) = (digits.len(), u128::from_str_radix(&digits, 16)) {
        return number;
    }
    let mut hasher = DefaultHasher::new();
    (uid, &pod.metadata.namespace, &pod.metadata.name).hash(&mut hasher);
    hasher.finish().into()
}

/// Counts a pod of a class. Each counted class has one user, until the counts are taken.
fn count(counts: &mut HashMap<ClassId, u64>, classes: &mut Classes, class: &PodClass) {
    let id = classes.take(class.clone());
    if let Some(count) = counts.get_mut(&id) {
        classes.release(id);
        *count += 1;
    } else {
        counts.insert(id, 1);
    }
}

#[cfg(test)]
mod tests;
