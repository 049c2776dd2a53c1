//! Instance types of which the cloud provider had no capacity, as Karpenter reports it.
//!
//! Karpenter writes an Event on the NodeClaim that it could not launch, and deletes the claim. For
//! three minutes, it tries none of the instance types again that it tried for the claim: on AWS the
//! 60 cheapest, of one capacity type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chrono::{DateTime, TimeDelta, Utc};
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use super::constraints::Choice;
use super::karpenter::{CAPACITY_LABEL, POOL_LABEL, requirements};
use super::nodes::{INSTANCE_TYPE_LABEL, ZONE_LABEL};
use super::objects::{Event, InvolvedObject};

/// The selector of the Events, as fields of Events.
pub(super) const SELECTOR: &str = "reason=InsufficientCapacityError,involvedObject.kind=NodeClaim";

/// The namespace of the Events of objects that have none.
pub(super) const NAMESPACE: &str = "default";

/// How long Karpenter tries no instance type again of which there was no capacity.
const CLOSED: TimeDelta = TimeDelta::minutes(3);

/// The capacity types, in the order in which Karpenter tries them.
const CAPACITY_TYPES: [&str; 3] = ["reserved", "spot", "on-demand"];

/// The most instance types that Karpenter tries for a claim. Which of more it tried is not known.
const TRIED_MAX: usize = 60;

/// The most claims that are remembered, and the most reports. A claim is deleted when its launch
/// fails, and the Event may arrive later than that.
const CLAIMS_MAX: usize = 1_000;

/// What Karpenter asked for: any of these instance types.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    pool: String,
    /// The capacity type that was tried: the first that the claim allows.
    capacity_type: &'static str,
    choices: BTreeMap<String, Choice>,
}

/// What a group of nodes launches.
#[derive(Clone, Copy, Debug)]
pub struct Launches<'a> {
    /// The instance types of which one comes.
    pub instance_types: &'a BTreeSet<String>,
    /// The labels of a new node.
    pub labels: &'a BTreeMap<String, String>,
    /// The values that its other labels may have.
    pub choices: &'a BTreeMap<String, Choice>,
}

/// The claims that Karpenter made, and those for which there was no capacity.
#[derive(Clone, Debug, Default)]
pub struct Shortages {
    /// The newest claims, oldest first.
    claims: VecDeque<(String, Claim)>,
    /// The claims whose launch failed, oldest first, with the times.
    reported: VecDeque<(DateTime<Utc>, Claim)>,
    /// The names of claims whose Event came before the claim, with the times.
    unknown: VecDeque<(DateTime<Utc>, String)>,
}

impl Shortages {
    /// Notes a NodeClaim.
    pub(super) fn note_claim(&mut self, object: &DynamicObject) {
        let name = object.name_any();
        if self.claims.iter().any(|(known, _)| *known == name) {
            return;
        }
        let Some(pool) = object.labels().get(POOL_LABEL).cloned() else { return };
        let choices = object.data.pointer("/spec/requirements").and_then(requirements);
        let choices = choices.unwrap_or_default();
        let types = choices.get(INSTANCE_TYPE_LABEL).and_then(Choice::values);
        let allows = |value: &&str| {
            choices.get(CAPACITY_LABEL).is_none_or(|choice| choice.allows(&(*value).to_owned()))
        };
        let bought = CAPACITY_TYPES.into_iter().find(allows);
        let (Some(capacity_type), true) =
            (bought, types.is_none_or(|all| all.count() <= TRIED_MAX))
        else {
            return;
        };
        let claim = Claim { pool, capacity_type, choices };
        if let Some(at) = self.unknown.iter().position(|(_, known)| *known == name)
            && let Some((at, _)) = self.unknown.remove(at)
        {
            push(&mut self.reported, (at, claim.clone()));
        }
        push(&mut self.claims, (name, claim));
    }

    /// Notes an Event on a NodeClaim.
    pub(super) fn note(&mut self, event: &Event) {
        let InvolvedObject { kind, name, .. } = &event.involved_object;
        let Some(at) = event.at().filter(|_| kind == "NodeClaim") else { return };
        match self.claims.iter().find(|(known, _)| known == name) {
            Some((_, claim)) => push(&mut self.reported, (at, claim.clone())),
            None => push(&mut self.unknown, (at, name.clone())),
        }
    }

    /// Until when Karpenter launches no node of a group, if it reported so in time: claims of the
    /// same pool, whose instance types together are all of the group's, failed in all zones of the
    /// group.
    pub fn closed_until(&self, group: &Launches<'_>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let pool = group.labels.get(POOL_LABEL)?;
        let bought = group.labels.get(CAPACITY_LABEL);
        let mut until = None;
        for name in group.instance_types {
            let failed = self.reported.iter().rev().find(|(at, claim)| {
                let can_be = |key: &str, value: Option<&String>| {
                    let choice = claim.choices.get(key);
                    choice.is_none_or(|choice| value.is_some_and(|value| choice.allows(value)))
                };
                *at + CLOSED > now
                    && claim.pool == *pool
                    && can_be(INSTANCE_TYPE_LABEL, Some(name))
                    && bought.is_some_and(|bought| bought == claim.capacity_type)
                    && claim.tried_zones_of(group)
            });
            let open = failed?.0 + CLOSED;
            until = Some(until.map_or(open, |until: DateTime<Utc>| until.min(open)));
        }
        until
    }
}

impl Claim {
    /// Whether the claim was for all zones in which the group starts nodes.
    fn tried_zones_of(&self, group: &Launches<'_>) -> bool {
        let Some(tried) = self.choices.get(ZONE_LABEL).filter(|choice| choice.values().is_some())
        else {
            return true;
        };
        if let Some(zone) = group.labels.get(ZONE_LABEL) {
            return tried.allows(zone);
        }
        let zones = group.choices.get(ZONE_LABEL).and_then(Choice::values);
        zones.is_some_and(|mut zones| zones.all(|zone| tried.allows(zone)))
    }
}

/// Adds an element. The oldest one is forgotten if there are too many.
fn push<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() >= CLAIMS_MAX {
        all.pop_front();
    }
    all.push_back(one);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn start() -> DateTime<Utc> {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn claim(name: &str, requirements: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {POOL_LABEL: "batch"}},
            "spec": {"requirements": requirements},
        }))
        .unwrap()
    }

    fn event(claim: &str, minute: i64) -> Event {
        serde_json::from_value(json!({
            "metadata": {"name": claim, "namespace": "default"},
            "involvedObject": {"kind": "NodeClaim", "name": claim},
            "lastTimestamp": start() + TimeDelta::minutes(minute),
        }))
        .unwrap()
    }

    /// When a group of these instance types opens again at 00:02, as the minute.
    fn closed_until(
        shortages: &Shortages,
        types: &[&str],
        bought: &str,
        zones: &[&str],
    ) -> Option<i64> {
        let zone = requirements(&json!([{"key": ZONE_LABEL, "operator": "In", "values": zones}]));
        let (labels, types) = (
            [(POOL_LABEL, "batch"), (CAPACITY_LABEL, bought)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            types.iter().map(ToString::to_string).collect(),
        );
        let choices = if zones.is_empty() { BTreeMap::new() } else { zone.unwrap() };
        let group = Launches { instance_types: &types, labels: &labels, choices: &choices };
        let until = shortages.closed_until(&group, start() + TimeDelta::minutes(2));
        until.map(|until| (until - start()).num_minutes())
    }

    #[test]
    fn a_group_is_closed_if_none_of_its_types_can_be_had() {
        let types =
            |names: &[&str]| json!({"key": INSTANCE_TYPE_LABEL, "operator": "In", "values": names});
        let bought = |of: &str| json!({"key": CAPACITY_LABEL, "operator": "In", "values": [of]});
        let mut shortages = Shortages::default();
        shortages
            .note_claim(&claim("a", &json!([types(&["m5.xlarge", "m6i.xlarge"]), bought("spot")])));
        shortages.note_claim(&claim("b", &json!([types(&["m7i.xlarge"]), bought("spot")])));
        let of =
            |shortages: &Shortages, types: &[&str]| closed_until(shortages, types, "spot", &[]);
        assert_eq!(of(&shortages, &["m5.xlarge"]), None);
        shortages.note(&event("a", 1));
        assert_eq!(of(&shortages, &["m5.xlarge"]), Some(4));
        assert_eq!(of(&shortages, &["m5.xlarge", "m7i.xlarge"]), None);
        assert_eq!(closed_until(&shortages, &["m5.xlarge"], "on-demand", &[]), None);
        // Of several capacity types, spot is tried first.
        let both =
            json!({"key": CAPACITY_LABEL, "operator": "In", "values": ["spot", "on-demand"]});
        shortages.note_claim(&claim("both", &json!([types(&["r5.xlarge"]), both])));
        shortages.note(&event("both", 1));
        assert_eq!(of(&shortages, &["r5.xlarge"]), Some(4));
        assert_eq!(closed_until(&shortages, &["r5.xlarge"], "on-demand", &[]), None);
        // The Event of another claim has the other type.
        shortages.note(&event("b", 0));
        assert_eq!(of(&shortages, &["m5.xlarge", "m7i.xlarge"]), Some(3));
        assert_eq!(of(&shortages, &["c5.xlarge"]), None);
    }

    #[test]
    fn an_event_may_come_before_its_claim() {
        let mut shortages = Shortages::default();
        shortages.note(&event("a", 1));
        shortages.note_claim(&claim(
            "a",
            &json!([{"key": CAPACITY_LABEL, "operator": "In", "values": ["spot"]}]),
        ));
        assert_eq!(closed_until(&shortages, &["m5.xlarge"], "spot", &[]), Some(4));
        // A report of three minutes ago does not count.
        let mut old = Shortages::default();
        old.note_claim(&claim(
            "a",
            &json!([{"key": CAPACITY_LABEL, "operator": "In", "values": ["spot"]}]),
        ));
        old.note(&event("a", -1));
        assert_eq!(closed_until(&old, &["m5.xlarge"], "spot", &[]), None);
    }

    #[test]
    fn a_claim_for_one_zone_closes_only_groups_of_that_zone() {
        let mut shortages = Shortages::default();
        let zone = json!([
            {"key": ZONE_LABEL, "operator": "In", "values": ["a", "b"]},
            {"key": CAPACITY_LABEL, "operator": "In", "values": ["spot"]},
        ]);
        shortages.note_claim(&claim("c", &zone));
        shortages.note(&event("c", 1));
        let of = |zones: &[&str]| closed_until(&shortages, &["m5.xlarge"], "spot", zones);
        assert_eq!(of(&["a", "b"]), Some(4));
        assert_eq!(of(&["a"]), Some(4));
        assert_eq!(of(&["a", "c"]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_limited_number_of_claims_is_kept() {
        let mut shortages = Shortages::default();
        for name in 0..CLAIMS_MAX + 9 {
            shortages.note_claim(&claim(
                &name.to_string(),
                &json!([{"key": CAPACITY_LABEL, "operator": "In", "values": ["spot"]}]),
            ));
            shortages.note(&event(&name.to_string(), 1));
            shortages.note(&event("other", 1));
        }
        let Shortages { claims, reported, unknown } = shortages;
        let lengths = [claims.len(), reported.len(), unknown.len()];
        assert_eq!(lengths, [CLAIMS_MAX; 3]);
    }
}
