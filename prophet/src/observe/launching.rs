//! Launches that ended. Our placeholders tell of theirs: from the moment their gate was lifted until they stood on a node
//! that was not there before, or until nobody waits for it any more. Of others a node tells on which a pod is that is older than it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Map;

use super::announced::Key;
use super::class::ClassId;
use super::gather::{Places, by_type, place, selected};
use super::index::{Index, PlaceholderPod};
use super::workloads::Workloads;
use crate::catalog::Offers;
use crate::record::{Launch, LaunchEnd};

/// Placeholders and nodes whose launch has been told of.
#[derive(Clone, Debug, Default)]
pub struct Launching {
    told: BTreeMap<Key, Told>,
    nodes: BTreeSet<Arc<str>>,
    /// The first look: of older nodes it is not known who came first.
    since: Option<DateTime<Utc>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Ended,
    Failed,
}

/// A node is made a moment before its pod is seen to wait for it: clocks and rounding differ by this much.
const SLACK: TimeDelta = TimeDelta::seconds(2);

impl Launching {
    /// Launches that ended since the last call. A placeholder that waits for longer than `give_up` has failed.
    pub fn ended(
        &mut self,
        index: &Index,
        places: &Places,
        (offers, workloads): (&Offers, &Workloads),
        give_up: TimeDelta,
        now: DateTime<Utc>,
    ) -> Vec<Launch> {
        let mut launches = Vec::new();
        let mut alive = BTreeMap::new();
        for (key, pod) in index.placeholders() {
            let set = Key { namespace: key.namespace.clone(), name: pod.replica_set.clone() };
            let (Some(&at), Some(requested)) = (places.get(&set), pod.lifted_at) else {
                continue;
            };
            let told = self.told.get(key).copied();
            let (end, told) = end(index, pod, requested, give_up, now, told);
            alive.extend(told.map(|told| (key.clone(), told)));
            launches.extend(end.map(|end| launch(offers, at, requested, end)));
        }
        self.told = alive;
        launches.extend(self.waited_for(index, offers, workloads, now));
        launches
    }

    /// Of nodes that were made since the first look, those on which a pod is that is older: it waited for one.
    fn waited_for(
        &mut self,
        index: &Index,
        offers: &Offers,
        workloads: &Workloads,
        now: DateTime<Utc>,
    ) -> Vec<Launch> {
        let since = *self.since.get_or_insert(now);
        let batch = selected(index, workloads);
        let by_type = by_type(offers);
        let (mut launches, mut told) = (Vec::new(), BTreeSet::new());
        for (_, slot, facts) in index.nodes().iter() {
            let Some(created) = facts.created.filter(|created| *created >= since) else { continue };
            let is_told = slot.placeholders > 0 || self.nodes.contains(&slot.name);
            let is_batch = |(class, _): &(ClassId, u32)| batch.get(*class as usize) == Some(&true);
            let waited = slot.oldest.filter(|oldest| *oldest <= created && slot.pods.iter().any(is_batch));
            if !is_told
                && let Some(requested) = waited
                && let Some(at) = place(facts, offers, &by_type)
            {
                launches.push(launch(offers, at, requested, LaunchEnd::WaitedFor(now)));
            }
            if is_told || waited.is_some() {
                told.insert(Arc::clone(&slot.name));
            }
        }
        self.nodes = told;
        launches
    }
}

fn launch(
    offers: &Offers,
    (bucket, group): (usize, usize),
    requested: DateTime<Utc>,
    end: LaunchEnd,
) -> Launch {
    let bucket = &offers.catalog.buckets()[bucket];
    let (bucket, group) = (bucket.name.clone(), bucket.groups[group].name.clone());
    Launch { bucket, group, requested, end, rest: Map::new() }
}

/// What is to be told of a placeholder, and what has been told then.
fn end(
    index: &Index,
    pod: &PlaceholderPod,
    requested: DateTime<Utc>,
    give_up: TimeDelta,
    now: DateTime<Utc>,
    told: Option<Told>,
) -> (Option<LaunchEnd>, Option<Told>) {
    match (&pod.node, told) {
        (_, Some(Told::Ended)) => (None, told),
        (Some(node), _) => {
            let made = index.nodes().by_name(node).and_then(|slot| slot.facts.as_ref()?.created);
            let launched = made.is_some_and(|made| made + SLACK >= requested);
            let ready = pod.scheduled_at.unwrap_or(now).max(requested);
            (launched.then_some(LaunchEnd::Ready(ready)), Some(Told::Ended))
        }
        (None, None) if now - requested >= give_up => (Some(LaunchEnd::Failed(now)), Some(Told::Failed)),
        (None, _) => (None, told),
    }
}
