//! How the controller runs, whatever policies say.

use super::settings::Allowed;
use super::sources::GroupSource;
use crate::forecast::onnx;
use crate::observe::Scope;
use crate::record::store::Place;

/// How the controller runs, whatever policies say.
pub struct Config {
    /// Where policies count, and who else is asked.
    pub scope: Scope,
    /// Where the history lies; nothing lasts where there is none.
    pub data: Option<Place>,
    /// Where groups of nodes are read from.
    pub source: GroupSource,
    /// The label that tells placement groups apart.
    pub placement_group_label: String,
    /// The launch latency that is reckoned with until launches were seen, in seconds.
    pub launch_seconds: i64,
    /// cluster-autoscaler's `--expendable-pods-priority-cutoff`.
    pub priority_cutoff: i32,
    /// What policies may ask for.
    pub allowed: Allowed,
    /// The network that is heard.
    pub model: onnx::ModelSource,
}
