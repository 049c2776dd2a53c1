//! Detects which pods took the nodes of preempted placeholders. The time of a placeholder is
//! charged to the namespace of the batch pod that took its node.

use chrono::{DateTime, TimeDelta, Utc};

use crate::observe::{Index, Key, NodeSlot, OnNode, PodClass, Preempted, Workloads};
use crate::outcome::Charge;

/// How long after a preemption a pod on the node counts as the one that took it. A pod that is
/// bound later is probably not the one that preempted the placeholder.
const BOUND_WITHIN: TimeDelta = TimeDelta::minutes(2);

/// The preempted placeholders whose nodes have no pod yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Preemptions {
    open: Vec<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    node: String,
    bucket: String,
    /// How long the placeholder was on the node.
    held: TimeDelta,
    since: DateTime<Utc>,
}

/// The nodes that pods took since the last call.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Taken {
    /// The charges for the nodes that batch pods took.
    pub(super) charges: Vec<Charge>,
    /// The nodes that only pods outside batch demand took.
    pub(super) by_others: Vec<String>,
}

impl Preemptions {
    /// Adds placeholders that were preempted since the last call, and returns the nodes that pods
    /// took. `bucket_of` has the bucket of each ReplicaSet of the policy.
    pub(super) fn taken(
        &mut self,
        preempted: &[Preempted],
        bucket_of: impl Fn(&Key) -> Option<String>,
        index: &Index,
        workloads: &Workloads,
        now: DateTime<Utc>,
    ) -> Taken {
        for Preempted { pod, replica_set, node, scheduled_at, .. } in preempted {
            let set = Key { namespace: pod.namespace.clone(), name: replica_set.clone() };
            let held =
                scheduled_at.map_or(TimeDelta::zero(), |at| (now - at).max(TimeDelta::zero()));
            let open = |bucket| Open { node: node.clone(), bucket, held, since: now };
            self.open.extend(bucket_of(&set).map(open));
        }
        let mut taken = Taken::default();
        self.open.retain(|Open { node, bucket, held, since }| {
            let slot = index.nodes().by_name(node).filter(|slot| !slot.pods.is_empty());
            let Some(slot) = slot else { return now - since <= BOUND_WITHIN };
            match batch_class(index, slot, workloads) {
                Some(PodClass { namespace, .. }) => taken.charges.push(Charge {
                    namespace: namespace.clone(),
                    bucket: bucket.clone(),
                    held: *held,
                }),
                None => taken.by_others.push(node.clone()),
            }
            false
        });
        taken
    }
}

/// The class of the batch pods on a node; of several, that of the oldest pod.
fn batch_class<'a>(
    index: &'a Index,
    slot: &NodeSlot,
    workloads: &Workloads,
) -> Option<&'a PodClass> {
    let class = |on: &OnNode| Some((on.oldest, &**index.classes().get(on.class)?));
    let batch = slot.pods.iter().filter_map(class).filter(|(_, class)| workloads.select(class));
    batch.min_by_key(|(oldest, _)| *oldest).map(|(_, class)| class)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    /// What is reported at the second `later` of node `n`, from which a placeholder was preempted
    /// at second 3,600, if pods of these namespaces are bound to it.
    fn taken(namespaces: &[&str], later: i64) -> Taken {
        let mut index = Index::default();
        let mut preemptions = Preemptions::default();
        let workloads = Workloads {
            namespaces: vec!["team-a".into(), "team-b".into()],
            priority_min: i32::MIN,
            priority_max: i32::MAX,
            ..Workloads::default()
        };
        let key = |name: &str| Key { namespace: "prophet".into(), name: name.into() };
        let placeholder = |replica_set: &str| Preempted {
            pod: key("p"),
            policy: "batch".into(),
            replica_set: replica_set.into(),
            node: "n".into(),
            scheduled_at: Some(at(0)),
        };
        let bucket_of = |set: &Key| (set.name == "ours").then(|| "small".to_owned());
        let both = [placeholder("ours"), placeholder("of-another-policy")];
        let first = preemptions.taken(&both, bucket_of, &index, &workloads, at(3_600));
        assert_eq!(first, Taken::default());
        for (made, namespace) in (0..).zip(namespaces) {
            let mut pod = testkit::pod(namespace, "x", "n");
            pod["metadata"]["creationTimestamp"] = json!(at(made));
            index.apply_pod(&serde_json::from_value(pod).unwrap());
        }
        let taken = preemptions.taken(&[], bucket_of, &index, &workloads, at(later));
        let again = preemptions.taken(&[], bucket_of, &index, &workloads, at(later));
        assert_eq!(again, Taken::default());
        taken
    }

    #[test]
    fn the_time_of_a_placeholder_is_charged_to_the_namespace_of_the_pod_that_took_its_node() {
        let charged = |namespace: &str| Taken {
            charges: vec![Charge {
                namespace: namespace.into(),
                bucket: "small".into(),
                held: TimeDelta::hours(1),
            }],
            by_others: vec![],
        };
        assert_eq!(taken(&["team-b", "team-a"], 3_610), charged("team-b"));
        assert_eq!(taken(&["web", "team-a"], 3_610), charged("team-a"));
        assert_eq!(taken(&["web"], 3_610).by_others, ["n"]);
        assert_eq!(taken(&[], 3_721), Taken::default());
    }
}
