//! Launches that ended, as our placeholders tell of them: from the moment their gate was lifted until they stood on a node
//! that was not there before, or until nobody waits for it any more.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Map;

use super::announced::Key;
use super::gather::Places;
use super::index::{Index, PlaceholderPod};
use crate::catalog::Offers;
use crate::record::{Launch, LaunchEnd};

/// Placeholders whose launch has been told of.
#[derive(Clone, Debug, Default)]
pub struct Launching {
    told: BTreeMap<Key, Told>,
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
        offers: &Offers,
        give_up: TimeDelta,
        now: DateTime<Utc>,
    ) -> Vec<Launch> {
        let mut launches = Vec::new();
        let mut alive = BTreeMap::new();
        for (key, pod) in index.placeholders() {
            let set = Key { namespace: key.namespace.clone(), name: pod.replica_set.clone() };
            let (Some(&(bucket, group)), Some(requested)) = (places.get(&set), pod.lifted_at) else {
                continue;
            };
            let told = self.told.get(key).copied();
            let (end, told) = end(index, pod, requested, give_up, now, told);
            alive.extend(told.map(|told| (key.clone(), told)));
            if let Some(end) = end {
                let bucket = &offers.catalog.buckets()[bucket];
                let (bucket, group) = (bucket.name.clone(), bucket.groups[group].name.clone());
                launches.push(Launch { bucket, group, requested, end, rest: Map::new() });
            }
        }
        self.told = alive;
        launches
    }
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
