//! Taints that follow the state of one node. They come and go, so they are no property of the
//! node's group.

/// Prefixes of the keys of taints that come and go: those of Kubernetes, of cloud providers, of
/// cluster-autoscaler for startup and status, of Karpenter and of the AWS node termination handler.
const PASSING_PREFIXES: [&str; 7] = [
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    INTERRUPTION_PREFIX,
];

/// The prefix of the taints of the AWS node termination handler.
const INTERRUPTION_PREFIX: &str = "aws-node-termination-handler/";

/// The key of cluster-autoscaler's taint on nodes that it may remove soon. The node stays usable.
const CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";

/// The keys of the taints of nodes that will be gone soon: an autoscaler removes them, or their
/// instance is interrupted or shut down.
const LEAVING: [&str; 6] = [
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
];

/// The keys of the taints with which Kubernetes keeps new pods off a node while it lacks a
/// resource.
const PROBLEMS: [&str; 3] = [
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
];

/// Whether a taint keeps new pods off a node because it lacks a resource.
pub(super) fn is_problem(key: &str) -> bool {
    PROBLEMS.contains(&key)
}

/// Whether a taint comes and goes with the state of its node.
pub(crate) fn is_passing(key: &str) -> bool {
    key == CANDIDATE
        || is_leaving(key)
        || PASSING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// Whether a taint marks a node that will be gone soon.
pub(super) fn is_leaving(key: &str) -> bool {
    LEAVING.contains(&key) || key.starts_with(INTERRUPTION_PREFIX)
}
