//! By how much the placeholders of a group are smaller than its nodes, beyond the margin: by what
//! webhooks add to their pods, and by what is missing on the nodes that an autoscaler would launch.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, TimeDelta, Utc};
use embedder::{Resources, UNLIMITED};
use serde::{Deserialize, Serialize};

use crate::observe::{Key, NoScaleUp, OwnedObject, PlaceholderPod, ScaleUpReports, Written};

/// The first step by which placeholders shrink when an autoscaler launches no node for them, in
/// thousandths of a core and in bytes. The Event does not have the missing amount, so each further
/// step is twice as large.
const STEP: (u64, u64) = (50, 128 << 20);

/// The most steps of one resource. Eight are 12 cores and 32 GiB, so more would change nothing.
const STEPS_MAX: u32 = 8;

/// The share of a node's CPU and memory by which a placeholder shrinks at most, in percent. A
/// smaller one would leave room for pods beside it, and several would fit on one node.
const SHRINKS_PERCENT_MAX: u64 = 20;

/// How long after the last refusal a group counts as one in which nothing is missing: a day,
/// because its tags may have been corrected meanwhile.
const FORGOTTEN: TimeDelta = TimeDelta::hours(24);

/// The most groups for which something is remembered.
const GROUPS_MAX: usize = 1_000;

/// The most resources of a group that are not requested.
const NAMES_MAX: usize = 16;

/// By how much placeholders are smaller than their nodes.
///
/// What is missing is written into an annotation of each ReplicaSet, because an autoscaler reports
/// it once, and a restarted controller would write the placeholders in their full size again.
#[derive(Clone, Debug, Default)]
pub(super) struct Shrinking {
    /// The UID of the policy.
    policy: String,
    /// What webhooks add to the pods of the policy, at most.
    added: (Resources, BTreeMap<String, u64>),
    /// What is missing, by group.
    missing: BTreeMap<String, Missing>,
}

/// What is missing on the nodes of a group, as an autoscaler describes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Missing {
    /// The numbers of steps in CPU and in memory.
    steps: (u32, u32),
    /// The resources that are not requested, because the nodes that the autoscaler would launch
    /// have too little of them.
    without: BTreeSet<String>,
    /// Whether no device is requested, because Karpenter named none of the missing resources.
    without_devices: bool,
    /// The last ReplicaSet to whose placeholders a step responded. Those of the next one are
    /// smaller.
    answered: String,
    /// When a node was refused last.
    last: DateTime<Utc>,
}

/// What was observed of the placeholders of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// How pods differ from their template, one message for each group.
    pub(super) changed: Vec<String>,
    /// For which groups an autoscaler launches no node, one message each.
    pub(super) not_triggering: Vec<String>,
}

impl Shrinking {
    /// Takes over what the ReplicaSets of the policy with this UID have of groups for which nothing
    /// is known. Forgets what is known of another policy of the same name.
    pub(super) fn recall<'a>(
        &mut self,
        policy: &str,
        sets: impl Iterator<Item = &'a OwnedObject>,
        now: DateTime<Utc>,
    ) {
        if self.policy != policy {
            *self = Self { policy: policy.to_owned(), ..Self::default() };
        }
        let mut newest: BTreeMap<&String, Missing> = BTreeMap::new();
        for set in sets.filter(|set| !self.missing.contains_key(&set.group)) {
            let parsed = set.shrunk.as_ref().and_then(|text| serde_json::from_str(text).ok());
            let Some(missing) = parsed.and_then(|missing: Missing| missing.bounded(now)) else {
                continue;
            };
            let known = newest.entry(&set.group).or_default();
            if known.last <= missing.last {
                *known = missing;
            }
        }
        let left = GROUPS_MAX.saturating_sub(self.missing.len());
        let newest = newest.into_iter().take(left);
        self.missing.extend(newest.map(|(group, missing)| (group.clone(), missing)));
    }

    /// What the annotation of a ReplicaSet of a group has. `None` if nothing is missing.
    pub(super) fn written(&self, group: &str) -> Option<String> {
        serde_json::to_string(self.missing.get(group)?).ok()
    }

    /// Compares the pods of a policy with their templates, and takes over what autoscalers report.
    ///
    /// `set_of` returns a ReplicaSet of the policy by the key of a pod of it.
    pub(super) fn note<'a>(
        &mut self,
        placeholders: impl Iterator<Item = (&'a Key, &'a PlaceholderPod)>,
        set_of: impl Fn(&Key, &PlaceholderPod) -> Option<&'a OwnedObject>,
        reports: &ScaleUpReports,
        now: DateTime<Utc>,
    ) -> Noted {
        self.missing.retain(|_, missing| now - missing.last < FORGOTTEN);
        let mut noted = (BTreeMap::new(), BTreeMap::new());
        let mut added: Option<(Resources, BTreeMap<String, u64>)> = None;
        for (key, pod) in placeholders.filter(|(_, pod)| !pod.deleting) {
            let Some(set) = set_of(key, pod) else { continue };
            if let Some(template) = &set.written {
                let (resources, devices) = template.added(&pod.written);
                let sum = added.get_or_insert_default();
                sum.0 = sum.0.roof(resources);
                for (name, amount) in devices {
                    let most = sum.1.entry(name).or_default();
                    *most = amount.max(*most);
                }
                let differences = template.differences(&pod.written);
                if !differences.is_empty() {
                    noted.0.insert(set.group.clone(), differences.join(", "));
                }
            }
            if let Some(report) = refusal(key, pod, reports) {
                let has_devices = set.written.as_ref().is_some_and(Written::has_devices);
                self.step(&set.group, &pod.replica_set, (&report.message, has_devices), now);
                noted.1.insert(set.group.clone(), report.message.clone());
            }
        }
        if let Some(added) = added {
            // Without a pod, what webhooks add is not known, so what was seen last counts.
            self.added = added;
        }
        let message = |(group, text): (String, String)| format!("group {group}: {text}");
        Noted {
            changed: noted.0.into_iter().map(message).collect(),
            not_triggering: noted.1.into_iter().map(message).collect(),
        }
    }

    /// Makes the next placeholders of a group smaller, once for each ReplicaSet, if a message names
    /// what is missing.
    fn step(
        &mut self,
        group: &str,
        replica_set: &str,
        (message, has_devices): (&str, bool),
        now: DateTime<Utc>,
    ) {
        let lacks = Reading::of(message).lacks;
        if lacks == Lacks::Nothing {
            return;
        }
        if !self.missing.contains_key(group) && self.missing.len() >= GROUPS_MAX {
            return;
        }
        let missing = self.missing.entry(group.to_owned()).or_default();
        missing.last = now;
        if missing.answered != replica_set {
            replica_set.clone_into(&mut missing.answered);
            missing.step(lacks, has_devices);
        }
    }

    /// The requests of a placeholder of a group whose nodes have room for `room` and `devices`.
    pub(super) fn shrunk(
        &self,
        group: &str,
        room: Resources,
        devices: &BTreeMap<String, u64>,
        accelerators: &str,
    ) -> (Resources, BTreeMap<String, u64>) {
        let mut room = less(room, self.added.0);
        let mut devices = devices.clone();
        for (name, added) in &self.added.1 {
            if let Some(own) = devices.get_mut(name) {
                *own = own.saturating_sub(*added);
            }
        }
        if let Some(Missing { steps, without, without_devices, .. }) = self.missing.get(group) {
            let sum = |steps: u32, first: u64| first.saturating_mul((1 << steps.min(16)) - 1);
            let most = |have: u64| have / 100 * SHRINKS_PERCENT_MAX;
            let missing = Resources {
                cpu_millis: sum(steps.0, STEP.0).min(most(room.cpu_millis)),
                memory_bytes: sum(steps.1, STEP.1).min(most(room.memory_bytes)),
                ..Resources::default()
            };
            room = less(room, missing);
            if without.contains("ephemeral-storage") {
                room.ephemeral_bytes = 0;
            }
            if without.contains(accelerators) {
                room.accelerators = 0;
            }
            devices.retain(|name, _| !without_devices && !without.contains(name));
        }
        (room, devices)
    }
}

/// Subtracts from the components that have a limit. CPU and memory stay above 0, because a pod
/// without requests would be evicted first.
fn less(have: Resources, take: Resources) -> Resources {
    let part =
        |have: u64, take: u64| if have == UNLIMITED { have } else { have.saturating_sub(take) };
    Resources {
        cpu_millis: part(have.cpu_millis, take.cpu_millis).max(1),
        memory_bytes: part(have.memory_bytes, take.memory_bytes).max(1),
        ephemeral_bytes: part(have.ephemeral_bytes, take.ephemeral_bytes),
        ..have
    }
}

/// Why an autoscaler launches no node for a placeholder that waits for one: since its gate was
/// lifted, and other than because the group is at its maximum or backs off, which pass.
fn refusal<'a>(
    key: &Key,
    pod: &PlaceholderPod,
    reports: &'a ScaleUpReports,
) -> Option<&'a NoScaleUp> {
    let waits = pod.node.is_none() && !pod.is_held();
    let since: DateTime<Utc> = pod.lifted_at.filter(|_| waits)?;
    let report = reports.of(key, since)?;
    (!Reading::of(&report.message).passes).then_some(report)
}

/// What a message means in which an autoscaler reports that it launches no node for a placeholder.
#[derive(Debug, PartialEq, Eq)]
struct Reading<'a> {
    /// Whether what keeps it from launching one passes by itself: the group of the placeholder
    /// backs off, is full, or has no capacity. The plan follows that without the Event.
    passes: bool,
    lacks: Lacks<'a>,
}

/// What is missing on the nodes that an autoscaler would launch.
#[derive(Debug, PartialEq, Eq)]
enum Lacks<'a> {
    /// The message names no missing resource.
    Nothing,
    /// These resources, as cluster-autoscaler names them.
    These(Vec<&'a str>),
    /// A resource that Karpenter does not name.
    Something,
}

/// Reasons of an autoscaler for groups and pools that the placeholder does not select.
const OF_OTHERS: [&str; 6] = [
    "node affinity",
    "untolerated taint",
    "did not tolerate",
    "incompatible requirements",
    "met all requirements",
    "met the scheduling requirements or",
];

/// Reasons that pass. Those of Karpenter name a limit of the pool, or an offering, which it lacks
/// while the provider has no capacity.
const PASSING: [&str; 8] = [
    "in backoff",
    "max node group size reached",
    "not ready for scale-up",
    "max cluster",
    "max limit reached",
    "exceed limits for nodepool",
    "node limits have been exhausted",
    "offering",
];

/// The reasons of Karpenter in which an instance type has too little of a resource
/// (`InstanceTypeFilterError` of 1.13).
const TOO_LITTLE: [&str; 2] =
    ["no instance type has enough resources", "required offering had the required resources"];

impl<'a> Reading<'a> {
    /// Reads a message: of cluster-autoscaler, such as `pod didn't trigger scale-up: 2 Insufficient
    /// cpu, 1 in backoff after failed scale-up`, or of Karpenter, which has a part for each pool.
    fn of(message: &'a str) -> Self {
        let (reasons, is_karpenter): (Vec<&str>, bool) = match message.split_once("scale-up") {
            Some((_, list)) => {
                (list.split_once(": ").map_or(list, |(_, list)| list).split(", ").collect(), false)
            }
            None => (message.split("; ").collect(), true),
        };
        let has = |reason: &str, parts: &[&str]| parts.iter().any(|part| reason.contains(part));
        if is_karpenter && reasons.iter().any(|reason| has(reason, &TOO_LITTLE)) {
            return Self { passes: false, lacks: Lacks::Something };
        }
        let insufficient =
            |reason: &&'a str| Some(reason.split_once("Insufficient ")?.1.trim_end_matches('.'));
        let lacks: Vec<&str> = reasons.iter().filter_map(insufficient).collect();
        let own = reasons.iter().filter(|reason| !has(reason, &OF_OTHERS));
        let own: Vec<&&str> = own.collect();
        let passes = !own.is_empty() && own.iter().all(|reason| has(reason, &PASSING));
        let lacks = if lacks.is_empty() { Lacks::Nothing } else { Lacks::These(lacks) };
        Self { passes, lacks }
    }
}

impl Missing {
    /// The value, if it is not older than a day and within the bounds of what [`Missing::step`]
    /// makes. Whoever may write ReplicaSets in the namespace may change the annotation.
    fn bounded(self, now: DateTime<Utc>) -> Option<Self> {
        let Self { steps, without, last, .. } = &self;
        let age = now - *last;
        let recent = TimeDelta::zero() <= age && age < FORGOTTEN;
        let few = steps.0.max(steps.1) <= STEPS_MAX && without.len() <= NAMES_MAX;
        (recent && few).then_some(self)
    }

    fn step(&mut self, lacks: Lacks<'_>, has_devices: bool) {
        let more = |steps: u32| (steps + 1).min(STEPS_MAX);
        match lacks {
            Lacks::Nothing => {}
            // The missing resource may be a device that nodes offer and that Karpenter does not
            // expect.
            Lacks::Something if has_devices => self.without_devices = true,
            Lacks::Something => self.steps = (more(self.steps.0), more(self.steps.1)),
            Lacks::These(names) => {
                for name in names {
                    match name {
                        "cpu" => self.steps.0 = more(self.steps.0),
                        "memory" => self.steps.1 = more(self.steps.1),
                        _ if self.without.len() >= NAMES_MAX => {}
                        _ => _ = self.without.insert(name.to_owned()),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Resources = Resources {
        accelerators: 1,
        devices: embedder::Devices::NONE,
        cpu_millis: 3_900,
        memory_bytes: 14 << 30,
        ephemeral_bytes: 100 << 30,
        pods: 10,
    };

    /// Checks the requests of a placeholder after these messages, each about the placeholders of
    /// another ReplicaSet: CPU, memory in MiB, accelerators, and whether it requests local disk and
    /// EFA.
    #[track_caller]
    fn check(messages: &[&str], expected: (u64, u64, u64, bool, bool)) {
        let mut shrinking = Shrinking::default();
        let efa: BTreeMap<String, u64> = [("vpc.amazonaws.com/efa".to_owned(), 1)].into();
        let shrunk = |of: &Shrinking| of.shrunk("a", ROOM, &efa, "nvidia.com/gpu");
        for (at, message) in messages.iter().enumerate() {
            let has_devices = !shrunk(&shrinking).1.is_empty();
            for _ in 0..2 {
                let set = format!("set-{at}");
                shrinking.step("a", &set, (message, has_devices), DateTime::default());
            }
        }
        let (room, devices) = shrunk(&shrinking);
        let (disk, devices) = (room.ephemeral_bytes > 0, !devices.is_empty());
        let found = (room.cpu_millis, room.memory_bytes >> 20, room.accelerators, disk, devices);
        assert_eq!(found, expected, "{messages:?}");
        assert_eq!(shrinking.shrunk("b", ROOM, &efa, "nvidia.com/gpu"), (ROOM, efa));
    }

    const KARPENTER: &str = "Failed to schedule pod, incompatible with nodepool \"a\", daemonset overhead={\"cpu\":\"100m\"}, ";

    #[test]
    fn the_next_placeholder_is_smaller_by_what_is_missing() {
        let message = |list: &str| format!("pod didn't trigger scale-up: {list}");
        let cpu =
            message("1 Insufficient cpu, 3 node(s) didn't match Pod's node affinity/selector");
        check(&[], (3_900, 14_336, 1, true, true));
        check(&[&cpu], (3_850, 14_336, 1, true, true));
        check(&[&cpu, &cpu], (3_750, 14_336, 1, true, true));
        check(&[&message("1 Insufficient memory")], (3_900, 14_208, 1, true, true));
        let others =
            message("1 Insufficient ephemeral-storage, 1 Insufficient vpc.amazonaws.com/efa");
        check(&[&others], (3_900, 14_336, 1, false, false));
        check(&[&message("1 Insufficient nvidia.com/gpu")], (3_900, 14_336, 0, true, true));
        let resources = format!(
            "{KARPENTER}no instance type which met the scheduling requirements and the required offering had the required resources, requirements=x"
        );
        check(&[&resources], (3_900, 14_336, 1, true, false));
        check(&[&resources, &resources], (3_850, 14_208, 1, true, false));
        // A fifth of the node at most.
        check(&vec![cpu.as_str(); 99], (3_120, 14_336, 1, true, true));
    }

    #[test]
    fn a_shortage_of_capacity_shrinks_no_placeholder() {
        let same = (3_900, 14_336, 1, true, true);
        check(&[&format!("{KARPENTER}no instance type has the required offering")], same);
        check(&[&format!("{KARPENTER}no instance type met all requirements")], same);
        check(&["pod didn't trigger scale-up: 1 in backoff after failed scale-up"], same);
    }

    /// Checks whether a message is a fault.
    #[track_caller]
    fn check_fault(message: &str, expected: bool) {
        assert_eq!(!Reading::of(message).passes, expected, "{message}");
    }

    #[test]
    fn a_group_that_backs_off_is_full_or_has_no_capacity_is_no_fault() {
        let of_autoscaler = |list: &str, expected| {
            check_fault(&format!("pod didn't trigger scale-up: {list}"), expected);
        };
        of_autoscaler(
            "1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector",
            true,
        );
        of_autoscaler("3 node(s) didn't match Pod's node affinity/selector", true);
        of_autoscaler(
            "2 node(s) had untolerated taint {a: b}, 1 in backoff after failed scale-up",
            false,
        );
        of_autoscaler("1 max node group size reached", false);
        of_autoscaler("1 not ready for scale-up", false);
        check_fault(
            "Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=a)",
            false,
        );
        check_fault(
            "Failed to schedule pod, node limits have been exhausted for nodepool (NodePool=a)",
            false,
        );
        check_fault(&format!("{KARPENTER}no instance type has the required offering"), false);
        check_fault(&format!("{KARPENTER}no instance type has enough resources"), true);
        check_fault(
            "Failed to schedule pod, incompatible with nodepool \"a\", did not tolerate taint a=b:NoSchedule; all available instance types exceed limits for nodepool",
            false,
        );
    }

    #[test]
    fn what_is_missing_is_forgotten_a_day_after_the_last_refusal() {
        let mut shrinking = Shrinking::default();
        let message = "pod didn't trigger scale-up: 1 Insufficient cpu";
        shrinking.step("a", "set", (message, false), DateTime::default());
        let mut after = |hours: i64| {
            let now = DateTime::default() + TimeDelta::hours(hours);
            shrinking.note(std::iter::empty(), |_, _| None, &ScaleUpReports::default(), now);
            shrinking.missing.len()
        };
        assert_eq!((after(23), after(24)), (1, 0));
    }

    /// A ReplicaSet of group `a` with this annotation.
    fn set(shrunk: Option<String>) -> OwnedObject {
        OwnedObject {
            policy: "batch".into(),
            owner: "uid".into(),
            bucket: "m5.xlarge".into(),
            group: "a".into(),
            resource_version: "1".into(),
            replicas: 1,
            refused: None,
            written: None,
            shrunk,
        }
    }

    #[test]
    fn a_restart_recalls_what_is_missing_and_another_policy_does_not() {
        let now = DateTime::default();
        let mut before = Shrinking::default();
        before.recall("uid", std::iter::empty(), now);
        let message = "pod didn't trigger scale-up: 1 Insufficient cpu, 1 Insufficient a.b/c";
        before.step("a", "set", (message, false), now);
        let set_of_group = set(before.written("a"));
        assert_eq!(
            set_of_group.shrunk.as_deref(),
            Some(
                r#"{"steps":[1,0],"without":["a.b/c"],"withoutDevices":false,"answered":"set","last":"1970-01-01T00:00:00Z"}"#
            )
        );
        let recalled = |text: &Option<String>, hours: i64| {
            let mut after = Shrinking::default();
            let now = now + TimeDelta::hours(hours);
            after.recall("uid", [&set(text.clone())].into_iter(), now);
            after.missing
        };
        let text = &set_of_group.shrunk;
        assert_eq!(recalled(text, 23), before.missing);
        // Too old, of the future, and damaged.
        for (text, hours) in [(text, 24), (text, -1), (&Some("{".into()), 0), (&None, 0)] {
            assert_eq!(recalled(text, hours), BTreeMap::new(), "{text:?} after {hours} h");
        }
        // Of several ReplicaSets of a group, the last one counts.
        let newer = text
            .as_ref()
            .map(|text| text.replace("[1,0]", "[2,0]").replace("1970-01-01T00", "1970-01-01T01"));
        for order in [[text, &newer], [&newer, text]] {
            let sets = order.map(|text| set(text.clone()));
            let mut after = Shrinking::default();
            after.recall("uid", sets.iter(), now + TimeDelta::hours(2));
            assert_eq!(after.missing["a"].steps, (2, 0));
        }
        let large = text.as_ref().map(|text| text.replace("[1,0]", "[4000000000,0]"));
        assert_eq!(recalled(&large, 0), BTreeMap::new());
        before.recall("another UID", std::iter::empty(), now);
        assert_eq!((before.written("a"), before.missing.len()), (None, 0));
    }
}
