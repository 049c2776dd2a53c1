//! Whether a new node would help a waiting pod, as far as its scheduler reports it.

use super::objects::Pod;

/// What a waiting pod waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waits {
    /// For a node, or its scheduler has not tried to place it yet.
    #[default]
    Node,
    /// For a node, but some of the nodes are ruled out by what a new one may have, too.
    SomeNode,
    /// For something that a new node does not bring, such as a PersistentVolumeClaim.
    Other,
}

/// The scheduler whose reasons are read.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Parts of the reasons for which kube-scheduler rules out a node, each of which a new node may not
/// have: a resource, or a property of the nodes that there are. It joins the reasons of all nodes
/// in one message, such as `0/4 nodes are available: 3 Insufficient cpu, 1 node(s) had volume node
/// affinity conflict.`
///
/// What is left out names the pod's volumes, their number on a node, or its claims (Kubernetes,
/// the `ErrReason` constants of `pkg/scheduler/framework/plugins`).
const NODE_HELPS: [&str; 13] = [
    "Insufficient ",
    "Too many pods",
    "no nodes available to schedule pods",
    "0/0 nodes",
    "didn't match Pod's node affinity",
    "untolerated taint",
    "were unschedulable",
    "didn't have free ports",
    "didn't match pod anti-affinity rules",
    "didn't satisfy existing pods anti-affinity rules",
    "didn't match pod affinity rules",
    "didn't match pod topology spread constraints",
    "pods from a gang",
];

/// Returns what a pod waits for. A pod on a node waits for nothing, and counts as one that waits
/// for a node.
pub(super) fn waits(pod: &Pod) -> Waits {
    let named = |name: &Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
    if named(&pod.spec.node_name) || named(&pod.status.nominated_node_name) {
        return Waits::Node;
    }
    // The reasons of other schedulers have other words.
    if pod.spec.scheduler_name.as_deref().is_some_and(|name| name != DEFAULT_SCHEDULER) {
        return Waits::Node;
    }
    let mut conditions = pod.status.conditions.iter();
    let tried = conditions.find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason == "Unschedulable"
    });
    // What follows is about the pods that it could preempt.
    let reasons = |message: &str| message.split(" preemption:").next().map(str::to_owned);
    match tried.and_then(|condition| reasons(&condition.message)) {
        Some(reasons) if reasons.is_empty() => Waits::Node,
        Some(reasons) => {
            // The reasons follow the number of nodes that they rule out.
            let list = reasons.split_once("are available: ").map_or(&*reasons, |(_, list)| list);
            let helps = |reason: &str| NODE_HELPS.iter().any(|part| reason.contains(part));
            if !helps(&reasons) {
                Waits::Other
            } else if list.split(", ").all(helps) {
                Waits::Node
            } else {
                Waits::SomeNode
            }
        }
        None => Waits::Node,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(reason: &str, message: &str, expected: Waits) {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
        });
        let pod = json!({"metadata": {}, "status": {"conditions": [condition]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(waits(&pod), expected, "{message}");
    }

    /// Such a pod cannot take a placeholder's node, so it needs one of its own.
    #[test]
    fn a_pod_that_cannot_preempt_or_has_a_volume_waits_for_a_node() {
        let waits = |spec: &str, message: &str| {
            let spec: serde_json::Value = serde_json::from_str(spec).unwrap();
            let condition = json!({"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": message});
            let pod = json!({"metadata": {}, "spec": spec, "status": {"conditions": [condition]}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let class = crate::observe::PodClass::of(&pod, &<_>::default());
            class.waits_for_node(|scheduler| scheduler.is_none())
        };
        let claims = r#"{"volumes": [{"persistentVolumeClaim": {"claimName": "a"}}]}"#;
        assert!(waits(claims, "0/1 nodes are available: 1 Insufficient cpu."));
        assert!(!waits(claims, "0/1 nodes are available: persistentvolumeclaim \"a\" not found."));
        assert!(!waits(
            claims,
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) had volume node affinity conflict."
        ));
        let near = r#"{"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": "kubernetes.io/hostname"}]}}}"#;
        assert!(!waits(near, "0/1 nodes are available: 1 Insufficient cpu."));
        let spread = r#"{"topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule"}]}"#;
        assert!(waits(spread, "0/1 nodes are available: 1 Insufficient cpu."));
        assert!(waits(r#"{"preemptionPolicy": "Never"}"#, ""));
        assert!(!waits(r#"{"schedulerName": "volcano"}"#, ""));
    }

    #[test]
    fn a_pod_waits_for_a_node_if_a_new_one_may_lack_what_rules_out_the_others() {
        use Waits::{Node, Other, SomeNode};
        let check_tried = |message: &str, expected| check("Unschedulable", message, expected);
        check_tried("", Node);
        check_tried("no nodes available to schedule pods", Node);
        check_tried("waiting for minCount pods from a gang to be scheduled", Node);
        check_tried(
            "0/4 nodes are available: 4 Insufficient cpu. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod.",
            Node,
        );
        check_tried(
            "0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint {gpu: }.",
            Node,
        );
        check_tried(
            "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.",
            Node,
        );
        check_tried(
            "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
            Node,
        );
        check_tried(
            "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had volume node affinity conflict.",
            SomeNode,
        );
        check_tried(
            "0/4 nodes are available: persistentvolumeclaim \"gone\" not found. not found",
            Other,
        );
        check_tried(
            "0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
            Other,
        );
        check_tried("0/2 nodes are available: 2 node(s) had volume node affinity conflict.", Other);
        check_tried("0/2 nodes are available: 2 node(s) exceed max volume count.", Other);
        check_tried(
            "0/2 nodes are available: 2 cannot allocate all claims. preemption: Insufficient cpu",
            Other,
        );
        check("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", Node);
    }
}
