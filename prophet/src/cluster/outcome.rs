//! What came of a policy's turn, and what is wrong with it or around it.

use std::sync::Arc;

use crate::catalog::Offers;
use crate::control::{GIVE_UP, Turn};
use crate::observe::Seen;
use crate::record::{Launch, LaunchEnd};

/// What came of a turn.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What is wrong, worst first.
    pub faults: Vec<Fault>,
    /// The buckets on offer to the policy.
    pub offers: Option<Arc<Offers>>,
    /// What was seen.
    pub seen: Seen,
    /// Whether a watch that decisions rest on fails: it shows a world of the past, and what stands keeps standing.
    pub blind: bool,
    /// What was decided; `None` where nothing could be.
    pub turn: Option<Turn>,
    /// Launches that ended since the last turn.
    pub launches: Vec<Launch>,
    /// The launch latency that is reckoned with, in seconds, by bucket and group.
    pub launch_seconds: Vec<Vec<i64>>,
    /// Nodes that pods of others took from placeholders since the last turn.
    pub taken_by_other_workload: Vec<String>,
}

impl Outcome {
    /// The names of the buckets on offer to the policy.
    pub fn buckets(&self) -> impl Iterator<Item = String> + '_ {
        self.offers.iter().flat_map(|offers| offers.catalog.buckets()).map(|bucket| bucket.name.clone())
    }

    pub(super) fn fault(&mut self, cause: Cause, message: impl Into<String>) {
        self.faults.push(Fault { cause, message: message.into() });
    }
}

/// Something wrong with a policy or around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of thing.
    pub cause: Cause,
    /// For a person.
    pub message: String,
}

/// Why a policy is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Fields of the policy make no sense.
    InvalidPolicy,
    /// Its priority class is missing, or of no use.
    PriorityClass,
    /// A write was refused.
    WriteFailed,
    /// A watch fails.
    WatchFailed,
    /// Groups of nodes could not be read.
    CatalogFailed,
    /// There is no bucket.
    NoBuckets,
    /// The cluster has no CapacityBuffers.
    NoCapacityBuffers,
    /// The history cannot be read or written.
    HistoryFailed,
    /// An older policy has some of its buckets.
    OverlappingBuckets,
    /// Something about groups of nodes.
    Groups,
    /// The network that forecasts hear cannot be run, or answers nonsense.
    Network,
}

impl Cause {
    /// The cause as it is spelled everywhere.
    pub const fn label(self) -> &'static str {
        match self {
            Self::InvalidPolicy => "InvalidPolicy",
            Self::PriorityClass => "PriorityClass",
            Self::WriteFailed => "WriteFailed",
            Self::WatchFailed => "WatchFailed",
            Self::CatalogFailed => "CatalogFailed",
            Self::NoBuckets => "NoBuckets",
            Self::NoCapacityBuffers => "NoCapacityBuffers",
            Self::HistoryFailed => "HistoryFailed",
            Self::OverlappingBuckets => "OverlappingBuckets",
            Self::Groups => "Groups",
            Self::Network => "Network",
        }
    }

    /// Whether the policy does its work all the same.
    pub const fn is_remark(self) -> bool {
        matches!(self, Self::Groups | Self::Network)
    }
}

/// A launch that failed, for a person.
pub(crate) fn failure(launch: &Launch) -> Option<String> {
    match launch.end {
        LaunchEnd::Failed(_) => Some(format!(
            "no node of {} in group {} within {} minutes",
            launch.bucket,
            launch.group,
            GIVE_UP.num_minutes()
        )),
        LaunchEnd::Ready(_) | LaunchEnd::WaitedFor(_) => None,
    }
}
