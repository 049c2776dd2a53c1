//! The parts of a control plane that a test can choose.

/// What a control plane is to have beyond the least.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// kwok, without which nodes and their pods stay as they were written. On by default.
    pub kwok: bool,
    /// A log of all requests, read by [`ControlPlane::audit_log`].
    pub audited: bool,
    /// Pods need their service account, as in any real cluster.
    pub service_accounts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { kwok: true, audited: false, service_accounts: false }
    }
}
