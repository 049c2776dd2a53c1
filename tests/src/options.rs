//! The optional parts of a control plane.

/// The optional parts of a control plane.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each part is independent of the others")]
pub struct Options {
    /// Whether kwok runs. Without it, nodes and their pods stay as they were written. On by
    /// default.
    pub kwok: bool,
    /// Whether all requests are logged.
    /// [`ControlPlane::audit_log`](crate::control_plane::ControlPlane::audit_log) reads the log.
    pub audited: bool,
    /// Whether the API server supports streaming lists, which it does by default.
    pub streaming_lists: bool,
    /// Whether pods need their service account, as in any real cluster.
    pub service_accounts: bool,
    /// Whether the API server is configured as one of two. It then establishes a new definition
    /// after five seconds, so that other API servers can observe the definition.
    pub replicated: bool,
    /// Whether the API server has the admission plugins that add to pods and that are off by
    /// default: `ExtendedResourceToleration`, as in EKS, `PodNodeSelector` and
    /// `PodTolerationRestriction`.
    pub adds_to_pods: bool,
    /// Whether the scheduler knows PodGroups of Kubernetes, whose pods start together or not at
    /// all: the feature `GenericWorkload`, which is off by default.
    pub gangs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kwok: true,
            audited: false,
            streaming_lists: true,
            service_accounts: false,
            replicated: false,
            adds_to_pods: false,
            gangs: false,
        }
    }
}
