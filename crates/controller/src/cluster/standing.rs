//! The standing placeholders of a policy, and the writes that change them to the policy's plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, SecondsFormat, Utc};
use embedder::BucketId;
use futures::StreamExt as _;
use placeholders::{Binding, Change, Plan, StandingPod, StandingSet, Template, changes};

use super::election::Leadership;
use super::gather::Places;
use crate::actuate::{ActuateError, Actuator};
use crate::catalog::Offers;
use crate::causes::chain;
use crate::crd::PlaceholderKind;
use crate::observe::{Key, OwnedObject, World};
use crate::writes::{Admission, REQUEST, WriteKind, Writes, Written};

/// The standing placeholders of one policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Stands {
    /// ReplicaSets by name.
    sets: BTreeMap<String, (OwnedObject, StandingSet)>,
    /// CapacityBuffers by name.
    buffers: BTreeMap<String, OwnedObject>,
}

/// The most writes in progress at once.
const WRITES_AT_ONCE: usize = 8;

impl Stands {
    /// Collects the standing placeholders of a policy from the watched objects.
    pub(super) fn of(world: &World, key: &Key, uid: &str) -> Self {
        let ours = |(at, object): &(&Key, &OwnedObject)| {
            at.namespace == key.namespace && object.owner == uid
        };
        let mut sets: BTreeMap<String, (OwnedObject, StandingSet)> = world
            .sets
            .iter()
            .filter(ours)
            .map(|(at, object)| (at.name.clone(), (object.clone(), standing_set(&at.name, object))))
            .collect();
        for (at, pod) in world.index.placeholders().filter(|(at, _)| at.namespace == key.namespace)
        {
            let Some((_, set)) = sets.get_mut(&pod.replica_set) else { continue };
            set.pods.push(StandingPod {
                name: at.name.clone(),
                resource_version: pod.resource_version.clone(),
                gates: pod.gates.clone(),
                held: pod.is_held(),
                binding: match pod.node {
                    None => Binding::Unbound,
                    Some(_) if world.index.is_stranded(pod) => Binding::Stranded,
                    Some(_) => Binding::Bound,
                },
                deleting: pod.deleting,
            });
        }
        let buffers = world.buffers.iter().flatten().filter(ours);
        let buffers = buffers.map(|(at, object)| (at.name.clone(), object.clone())).collect();
        Self { sets, buffers }
    }

    /// The bucket and group of each ReplicaSet whose group is on offer.
    pub(super) fn places(&self, namespace: &str, offers: &Offers) -> Places {
        let groups = by_group(offers);
        let place = |(name, (object, _)): (&String, &(OwnedObject, StandingSet))| {
            let place = groups.get(&(object.bucket.as_str(), object.group.as_str()))?;
            Some((Key { namespace: namespace.into(), name: name.clone() }, *place))
        };
        self.sets.iter().filter_map(place).collect()
    }

    /// The number of nodes that each CapacityBuffer requests, with its bucket and group.
    pub(super) fn buffered(&self, offers: &Offers) -> Vec<((BucketId, usize), u64)> {
        let groups = by_group(offers);
        let one = |object: &OwnedObject| {
            let place = groups.get(&(object.bucket.as_str(), object.group.as_str()))?;
            Some((*place, object.replicas))
        };
        self.buffers.values().filter_map(one).collect()
    }

    /// The number of placeholders that the policy's objects request.
    pub(super) fn replicas(&self) -> u64 {
        let sets = self.sets.values().map(|(object, _)| object.replicas);
        let all = sets.chain(self.buffers.values().map(|object| object.replicas));
        all.fold(0, u64::saturating_add)
    }

    /// The groups in which the policy has placeholders, with their number.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&str, u64)> {
        let sets = self.sets.values().map(|(object, _)| object);
        let all = sets.chain(self.buffers.values()).filter(|object| object.replicas > 0);
        all.map(|object| (object.group.as_str(), object.replicas))
    }

    /// Why pods of the policy's ReplicaSets cannot be created, without repetitions.
    pub(super) fn refusals(&self) -> BTreeSet<&str> {
        self.sets.values().filter_map(|(object, _)| object.refused.as_deref()).collect()
    }

    /// Whether the policy has no placeholders.
    pub(super) fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.buffers.is_empty()
    }

    /// Writes the changes that lead to a plan. Returns a message for each write that failed.
    ///
    /// Placeholders whose group is no longer on offer are deleted unless `outdated` is set, because
    /// in an outdated state the group may only seem to be gone. `preempting` has, by bucket,
    /// whether pods may be preempting placeholders. Then none on a node is replaced by one of
    /// another template.
    pub(super) async fn follow(
        &self,
        sender: &Writer<'_>,
        plan: &Plan,
        templates: &[Vec<Template>],
        kind: PlaceholderKind,
        (outdated, preempting): (bool, &[bool]),
        now: DateTime<Utc>,
    ) -> Vec<String> {
        let mut writes = Vec::new();
        let mut known = BTreeSet::new();
        for (bucket, templates) in plan.buckets.iter().zip(templates) {
            let why = bucket.why.last().map_or("", |step| step.reason.label());
            let preempting = preempting.get(bucket.bucket).is_some_and(|&preempting| preempting);
            for (group, template) in bucket.groups.iter().zip(templates) {
                known.insert((template.bucket.as_str(), template.group.as_str()));
                match kind {
                    PlaceholderKind::ReplicaSet => {
                        let sets = self.of_group(template);
                        let old = sets.iter().filter(|set| set.name != template.name());
                        if preempting && group.want > 0 && on_nodes(old) > 0 {
                            continue;
                        }
                        let changes = changes(template, group.want, &sets);
                        writes.extend(changes.into_iter().map(|change| Write::Change(change, why)));
                    }
                    PlaceholderKind::CapacityBuffer => {
                        writes.extend(self.buffer(template, group.want));
                    }
                }
            }
        }
        if !outdated {
            writes.extend(self.leftovers(&known, kind));
        }
        sender.write(writes, now).await
    }

    /// The number of placeholders on nodes that provide headroom, of the group of a template.
    pub(super) fn on_nodes(&self, template: &Template) -> u64 {
        on_nodes(self.of_group(template).iter())
    }

    /// Deletes all placeholders of the policy. Returns a message for each write that failed.
    pub(super) async fn remove(&self, sender: &Writer<'_>, now: DateTime<Utc>) -> Vec<String> {
        let sets = self.sets.values().map(|(_, set)| Write::Change(delete(set), ""));
        let buffers = self.buffers.iter().map(|(name, object)| delete_buffer(name, object));
        sender.write(sets.chain(buffers).collect(), now).await
    }

    fn of_group(&self, template: &Template) -> Vec<StandingSet> {
        let same = |object: &OwnedObject| {
            object.bucket == template.bucket && object.group == template.group
        };
        self.sets.values().filter(|(object, _)| same(object)).map(|(_, set)| set.clone()).collect()
    }

    fn buffer<'a>(&self, template: &Template, want: u64) -> Vec<Write<'a>> {
        let name = template.name();
        let present = self.buffers.get(&name);
        let mut writes = Vec::new();
        if present.map_or(want > 0, |object| object.replicas != want) {
            let resource_version = present.map(|object| object.resource_version.clone());
            writes.push(Write::Buffer {
                template: Box::new(template.clone()),
                replicas: want,
                resource_version,
            });
        }
        let same = |object: &OwnedObject| {
            object.bucket == template.bucket && object.group == template.group
        };
        let older = self.buffers.iter().filter(|(other, object)| **other != name && same(object));
        writes.extend(older.map(|(name, object)| delete_buffer(name, object)));
        writes
    }

    /// Deletes placeholders whose group is no longer on offer, or that are of the other kind.
    fn leftovers<'a>(
        &self,
        known: &BTreeSet<(&str, &str)>,
        kind: PlaceholderKind,
    ) -> Vec<Write<'a>> {
        let gone = |object: &OwnedObject, of: PlaceholderKind| {
            of != kind || !known.contains(&(object.bucket.as_str(), object.group.as_str()))
        };
        let sets =
            self.sets.values().filter(|(object, _)| gone(object, PlaceholderKind::ReplicaSet));
        let sets = sets.map(|(_, set)| Write::Change(delete(set), ""));
        let buffers =
            self.buffers.iter().filter(|(_, object)| gone(object, PlaceholderKind::CapacityBuffer));
        sets.chain(buffers.map(|(name, object)| delete_buffer(name, object))).collect()
    }
}

enum Write<'a> {
    Change(Change, &'a str),
    Buffer { template: Box<Template>, replicas: u64, resource_version: Option<String> },
    DeleteBuffer { name: String, resource_version: String },
}

impl Write<'_> {
    /// The kind and the name of the object.
    fn object(&self) -> (&'static str, String) {
        match self {
            Self::Change(
                Change::Apply { set, .. } | Change::Scale { set, .. } | Change::Delete { set, .. },
                _,
            ) => ("ReplicaSet", set.clone()),
            Self::Change(Change::Lift { pod, .. }, _) => ("Pod", pod.clone()),
            Self::Buffer { template, .. } => ("CapacityBuffer", template.name()),
            Self::DeleteBuffer { name, .. } => ("CapacityBuffer", name.clone()),
        }
    }

    /// The number of requests. A CapacityBuffer has a PodTemplate.
    fn requests(&self) -> u32 {
        match self {
            Self::Change(..) => 1,
            Self::Buffer { .. } | Self::DeleteBuffer { .. } => 2,
        }
    }
}

/// Writes the placeholders of one namespace, within the limit of write requests.
pub(super) struct Writer<'a> {
    pub(super) actuator: Actuator,
    pub(super) leadership: &'a Leadership,
    pub(super) namespace: &'a str,
    pub(super) writes: &'a Writes,
}

impl Writer<'_> {
    /// Sends the writes that may be sent now. Returns a message for each write that failed, also
    /// for those that are not repeated yet.
    ///
    /// Once a write got no response in time, the next turn sends those that are left. Otherwise
    /// hundreds of them would delay the turn for minutes.
    async fn write(&self, writes: Vec<Write<'_>>, now: DateTime<Utc>) -> Vec<String> {
        let now = now.to_rfc3339_opts(SecondsFormat::Millis, true);
        let silent = AtomicBool::new(false);
        let one = |write| self.one(write, &now, &silent);
        let failures = futures::stream::iter(writes.iter().map(one));
        let failed = failures.buffer_unordered(WRITES_AT_ONCE).filter_map(std::future::ready);
        failed.collect().await
    }

    /// `silent` is whether a write of this turn got no response in time.
    async fn one(&self, write: &Write<'_>, now: &str, silent: &AtomicBool) -> Option<String> {
        if silent.load(Ordering::Relaxed) {
            self.writes.postpone(WriteKind::Placeholders);
            return None;
        }
        let (kind, name) = write.object();
        let object = format!("{kind} {}/{name}", self.namespace);
        match self.writes.admit(WriteKind::Placeholders, &object, write.requests()) {
            Admission::Granted => {}
            Admission::BackedOff(error) => return error,
            Admission::Spent => {
                tracing::debug!(object, "write deferred, because the budget is used up");
                return None;
            }
        }
        let limit = self.leadership.write_limit().min(REQUEST);
        let written = match tokio::time::timeout(limit, self.send(write, now)).await {
            Ok(Ok(())) => Written::Accepted,
            Ok(Err(error)) => {
                tracing::debug!(error = chain(&error), stale = error.is_stale(), "write failed");
                if error.is_stale() { Written::Outdated } else { Written::Refused(chain(&error)) }
            }
            Err(_) => {
                silent.store(true, Ordering::Relaxed);
                let seconds = limit.as_secs();
                Written::Refused(format!("no response to a write of {object} within {seconds}s"))
            }
        };
        self.writes.note(WriteKind::Placeholders, &object, written.clone());
        match written {
            Written::Refused(error) => Some(error),
            Written::Accepted | Written::Outdated => None,
        }
    }

    async fn send(&self, write: &Write<'_>, now: &str) -> Result<(), ActuateError> {
        match write {
            Write::Change(change, why) => self.actuator.change(change, now, why).await,
            Write::Buffer { template, replicas, resource_version } => {
                self.actuator.buffer(template, *replicas, resource_version.as_deref()).await
            }
            Write::DeleteBuffer { name, resource_version } => {
                self.actuator.delete_buffer(name, resource_version).await
            }
        }
    }
}

fn standing_set(name: &str, object: &OwnedObject) -> StandingSet {
    StandingSet {
        name: name.into(),
        resource_version: object.resource_version.clone(),
        replicas: object.replicas,
        pods: Vec::new(),
    }
}

/// The number of placeholders that provide headroom on nodes.
fn on_nodes<'a>(sets: impl Iterator<Item = &'a StandingSet>) -> u64 {
    let pods = sets.flat_map(|set| &set.pods);
    pods.filter(|pod| pod.binding == Binding::Bound && !pod.deleting).count() as u64
}

fn delete(set: &StandingSet) -> Change {
    Change::Delete { set: set.name.clone(), resource_version: set.resource_version.clone() }
}

fn delete_buffer<'a>(name: &str, object: &OwnedObject) -> Write<'a> {
    Write::DeleteBuffer { name: name.into(), resource_version: object.resource_version.clone() }
}

fn by_group(offers: &Offers) -> BTreeMap<(&str, &str), (BucketId, usize)> {
    let buckets = offers.catalog.buckets().iter().enumerate();
    let groups = buckets.flat_map(|(id, bucket)| {
        bucket
            .groups
            .iter()
            .enumerate()
            .map(move |(at, group)| ((bucket.name.as_str(), group.name.as_str()), (id, at)))
    });
    groups.collect()
}
