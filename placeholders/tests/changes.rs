//! Tests of the writes that lead from the standing placeholders to the planned ones.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};

use embedder::Resources;
use placeholders::{
    Binding, Change, HOLD_GATE, Owner, StandingPod, StandingSet, Template, changes,
};
use proptest::prelude::*;

fn template(image: &str) -> Template {
    Template {
        devices: std::collections::BTreeMap::new(),
        owner: Owner { namespace: "prophet".into(), name: "batch".into(), uid: "1".into() },
        bucket: "m5.xlarge".into(),
        group: "a".into(),
        requests: Resources { cpu_millis: 3_900, pods: 1, ..Resources::default() },
        accelerator_kind: "nvidia.com/gpu".into(),
        pins: BTreeMap::new(),
        instance_types: BTreeSet::new(),
        taints: Vec::new(),
        priority_class: "prophet-placeholder-10".into(),
        image: image.into(),
        warm: Vec::new(),
        shrunk: None,
    }
}

/// Returns a ReplicaSet with one pod per character: `b` on a node, `p` pending, `h` held by
/// Prophet's gate, `s` stranded on a node that other pods cannot use.
fn set(template: &Template, pods: &str) -> StandingSet {
    let pod = |(at, kind)| StandingPod {
        name: format!("{}-{at}", template.name()),
        gates: if kind == 'h' { vec![HOLD_GATE.into()] } else { Vec::new() },
        held: kind == 'h',
        binding: match kind {
            'b' => Binding::Bound,
            's' => Binding::Stranded,
            _ => Binding::Unbound,
        },
        ..StandingPod::default()
    };
    let pods: Vec<StandingPod> = pods.chars().enumerate().map(pod).collect();
    StandingSet {
        name: template.name(),
        replicas: pods.len() as u64,
        pods,
        ..StandingSet::default()
    }
}

/// Describes the changes as text, with `new` and `old` for the ReplicaSets.
fn described(changes: &[Change], new: &Template) -> Vec<String> {
    let which = |set: &str| if set == new.name() { "new" } else { "old" };
    let one = |change: &Change| match change {
        Change::Apply { set, body } => format!("{} to {}", which(set), body["spec"]["replicas"]),
        Change::Scale { set, replicas, .. } => format!("{} to {replicas}", which(set)),
        Change::Lift { .. } => "lift".into(),
        Change::Delete { set, .. } => format!("delete {}", which(set)),
    };
    changes.iter().map(one).collect()
}

#[track_caller]
fn check(want: u64, new_pods: Option<&str>, old_pods: Option<&str>, expected: &[&str]) {
    let (new, old) = (template("new"), template("old"));
    let sets = new_pods
        .map(|pods| set(&new, pods))
        .into_iter()
        .chain(old_pods.map(|pods| set(&old, pods)));
    assert_eq!(described(&changes(&new, want, &sets.collect::<Vec<_>>()), &new), expected);
}

#[test]
fn the_changes_lead_to_the_plan() {
    check(0, None, None, &[]);
    check(3, None, None, &["new to 3"]);
    check(3, Some("hhh"), None, &["lift", "lift", "lift"]);
    check(3, Some("bpp"), None, &[]);
    check(1, Some("bbb"), None, &["new to 1"]);
    // The ReplicaSet recreated a preempted placeholder. If the plan needs it, its gate is removed;
    // otherwise it is deleted.
    check(2, Some("bh"), None, &["lift"]);
    check(1, Some("bh"), None, &["new to 1"]);
}

#[test]
fn a_stranded_placeholder_is_replaced_and_stays_until_its_node_goes() {
    check(2, Some("bs"), None, &["new to 3"]);
    check(2, Some("bsh"), None, &["lift"]);
    check(2, Some("bsb"), None, &[]);
    // The node is gone, and the ReplicaSet has recreated the pod.
    check(2, Some("bbh"), None, &["new to 2"]);
    // The node is usable again.
    check(2, Some("bbb"), None, &["new to 2"]);
    check(0, Some("s"), None, &["new to 0"]);
    check(1, None, Some("bs"), &["old to 0"]);
    check(4, None, Some("bbbs"), &["new to 1"]);
}

#[test]
fn old_placeholders_are_deleted_before_new_ones_are_created() {
    check(4, None, Some("bbbb"), &["old to 2"]);
    check(4, None, Some("bb"), &["new to 2"]);
    // The next step starts only after the new placeholders of the last step are on nodes.
    check(4, Some("pp"), Some("bb"), &[]);
    check(4, Some("bb"), Some("bb"), &["old to 0"]);
    check(4, Some("bbbb"), Some(""), &["delete old"]);
    check(4, Some("bb"), Some("bbbb"), &["old to 0"]);
    // A pending placeholder of the old template occupies no node, so it is removed at once.
    check(4, None, Some("bppp"), &["old to 0"]);
    check(1, None, Some("bbb"), &["old to 0"]);
}

#[test]
fn of_two_old_templates_as_many_stay_as_of_one() {
    let (new, older, oldest) = (template("new"), template("older"), template("oldest"));
    let sets = [set(&older, "bbb"), set(&oldest, "bbb")];
    let changes = changes(&new, 4, &sets);
    let scaled: Vec<String> = described(&changes, &new);
    // Four stay but for the two that are replaced at once.
    assert_eq!(scaled, ["old to 2", "old to 0"]);
}

#[test]
fn an_old_replica_set_is_deleted_once_it_wants_no_pods_and_has_none() {
    let (new, old) = (template("new"), template("old"));
    let is_being_made = StandingSet { replicas: 2, ..set(&old, "") };
    assert_eq!(described(&changes(&new, 0, &[is_being_made]), &new), ["old to 0"]);
    let ends = StandingSet { replicas: 0, ..set(&old, "b") };
    assert_eq!(described(&changes(&new, 0, &[ends]), &new), [""; 0]);
    let gone = StandingSet { replicas: 0, ..set(&old, "") };
    assert_eq!(described(&changes(&new, 0, &[gone]), &new), ["delete old"]);
}

#[test]
fn only_the_gate_of_prophet_is_lifted() {
    let new = template("new");
    let mut standing = set(&new, "h");
    standing.pods[0].gates.push("example.com/other".into());
    let changes = changes(&new, 1, &[standing]);
    let [Change::Lift { gates, .. }] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(*gates, ["example.com/other"]);
}

/// Applies changes as the controllers of Kubernetes would.
///
/// A ReplicaSet has as many pods as `spec.replicas`; it creates them with the gate, and deletes
/// pods that are not on nodes first. The scheduler binds every pod without a gate to a node.
fn apply(sets: &mut BTreeMap<String, String>, changes: &[Change], new: &Template) {
    for change in changes {
        match change {
            Change::Apply { set, body } => {
                resize(
                    sets.entry(set.clone()).or_default(),
                    body["spec"]["replicas"].as_u64().unwrap(),
                );
            }
            Change::Scale { set, replicas, .. } => resize(sets.get_mut(set).unwrap(), *replicas),
            Change::Lift { .. } => {
                let pods = sets.get_mut(&new.name()).unwrap();
                *pods = pods.replacen('h', "p", 1);
            }
            Change::Delete { set, .. } => drop(sets.remove(set)),
        }
    }
}

fn resize(pods: &mut String, replicas: u64) {
    let replicas = usize::try_from(replicas).unwrap();
    let mut sorted: Vec<char> = pods.chars().collect();
    // Pods on nodes come first, because they are kept.
    sorted.sort_unstable();
    sorted.sort_by_key(|kind| "bph".find(*kind));
    sorted.resize(replicas, 'h');
    *pods = sorted.into_iter().collect();
}

fn lifted(sets: &BTreeMap<String, String>) -> usize {
    sets.values().map(|pods| pods.chars().filter(|kind| *kind != 'h').count()).sum()
}

proptest! {
    /// The changes lead from any standing placeholders to the plan.
    ///
    /// The number of pods without a gate never exceeds the larger of the planned and the initial
    /// number. Unless there are too many, at most two pods on nodes are removed at once. The
    /// changes end with the planned placeholders, after which no change is left.
    #[test]
    fn the_changes_lead_from_any_state_to_the_plan(want in 0_u64..8, new_pods in "[bph]{0,6}", old_pods in "[bph]{0,6}") {
        let (new, old) = (template("new"), template("old"));
        let mut sets = BTreeMap::from([(new.name(), new_pods), (old.name(), old_pods)]);
        let most = lifted(&sets).max(usize::try_from(want).unwrap());
        for step in 0.. {
            prop_assert!(step < 40, "the changes do not end: {sets:?}");
            let standing: Vec<StandingSet> = sets
                .iter()
                .map(|(name, pods)| set(if *name == new.name() { &new } else { &old }, pods))
                .collect();
            let bound = |sets: &BTreeMap<String, String>| {
                sets.values().flat_map(|pods| pods.chars()).filter(|kind| *kind == 'b').count()
            };
            let (before, too_many) = (bound(&sets), lifted(&sets) as u64 > want);
            let next = changes(&new, want, &standing);
            apply(&mut sets, &next, &new);
            prop_assert!(lifted(&sets) <= most, "{sets:?} after {:?}", described(&next, &new));
            prop_assert!(too_many || bound(&sets) + 2 >= before, "{sets:?}");
            let pending = sets.values().any(|pods| pods.contains('p'));
            for pods in sets.values_mut() {
                *pods = pods.replace('p', "b");
            }
            if next.is_empty() && !pending {
                break;
            }
        }
        let pods = sets.get(&new.name()).cloned().unwrap_or_default();
        prop_assert_eq!(pods, "b".repeat(usize::try_from(want).unwrap()));
        prop_assert!(!sets.contains_key(&old.name()), "{:?}", sets);
    }
}
