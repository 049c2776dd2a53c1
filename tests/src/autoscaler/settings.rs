//! The flags of the autoscaler.

use std::time::Duration;

/// The flags of cluster-autoscaler that tests set. The default times are shorter than those of
/// cluster-autoscaler.
#[derive(Debug, Clone)]
pub struct AutoscalerSettings {
    /// `--scan-interval`, in cluster-autoscaler 10 s.
    pub scan_interval: Duration,
    /// `--expendable-pods-priority-cutoff`: pods of a lower priority trigger no scale-up and keep
    /// no node.
    pub expendable_cutoff: i32,
    /// `--max-nodes-total`: the largest number of nodes of the whole cluster.
    pub max_nodes_total: Option<usize>,
    /// `--max-node-provision-time`, in cluster-autoscaler 15 min. An instance without a node after
    /// this time is terminated.
    pub max_node_provision_time: Duration,
    /// `--initial-node-group-backoff-duration`, in cluster-autoscaler 5 min. Each further failure
    /// doubles the backoff.
    pub backoff: Duration,
    /// `--max-node-group-backoff-duration`, in cluster-autoscaler 30 min.
    pub backoff_max: Duration,
    /// `--scale-down-unneeded-time`, in cluster-autoscaler 10 min.
    pub unneeded_time: Duration,
    /// `--scale-down-delay-after-add`, in cluster-autoscaler 10 min.
    pub delay_after_add: Duration,
    /// `--scale-down-delay-type-local`: a scale-up delays the removal of nodes only in its own
    /// group.
    pub delay_type_local: bool,
    /// `--capacity-buffer-controller-enabled` and `--capacity-buffer-pod-injection-enabled`.
    pub capacity_buffers: bool,
}

impl Default for AutoscalerSettings {
    fn default() -> Self {
        Self {
            scan_interval: Duration::from_secs(1),
            expendable_cutoff: -10,
            max_nodes_total: None,
            max_node_provision_time: Duration::from_mins(1),
            backoff: Duration::from_mins(1),
            backoff_max: Duration::from_mins(5),
            unneeded_time: Duration::from_secs(5),
            delay_after_add: Duration::from_secs(5),
            delay_type_local: false,
            capacity_buffers: false,
        }
    }
}
