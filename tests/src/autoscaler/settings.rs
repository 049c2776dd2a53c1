//! The flags of the autoscaler.

use std::time::Duration;

/// The flags of cluster-autoscaler that tests turn; the defaults are quicker than its own.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `--scan-interval`, there 10 s.
    pub scan_interval: Duration,
    /// `--expendable-pods-priority-cutoff`: pods below trigger nothing and hold nothing.
    pub expendable_cutoff: i32,
    /// `--max-nodes-total`, of the whole cluster.
    pub max_nodes_total: Option<usize>,
    /// `--max-node-provision-time`, there 15 m: an instance that is no node by then is given up.
    pub max_node_provision_time: Duration,
    /// `--initial-node-group-backoff-duration`, there 5 m; doubled by each further failure.
    pub backoff: Duration,
    /// `--max-node-group-backoff-duration`, there 30 m.
    pub backoff_max: Duration,
    /// `--scale-down-unneeded-time`, there 10 m.
    pub unneeded_time: Duration,
    /// `--scale-down-delay-after-add`, there 10 m.
    pub delay_after_add: Duration,
    /// `--scale-down-delay-type-local`: a scale-up delays the removal of its own group's nodes only.
    pub delay_type_local: bool,
    /// `--capacity-buffer-controller-enabled` and `--capacity-buffer-pod-injection-enabled`.
    pub capacity_buffers: bool,
}

impl Default for Settings {
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
