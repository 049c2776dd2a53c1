//! What came of a policy's turn, and what is wrong with it or around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use embedder::{Shape, Unfit};
use placeholders::Objective;

use crate::catalog::Offers;
use crate::control::{Observed, Turn};
use crate::observe::HeldBack;
use crate::record::store::{EndedLaunch, LaunchEnd};

/// What came of a turn.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What is wrong, worst first.
    pub faults: Vec<PolicyFault>,
    /// The buckets on offer to the policy.
    pub offers: Option<Arc<Offers>>,
    /// What was observed.
    pub observed: Observed,
    /// By bucket, then by group: placeholders on nodes.
    pub ready: Vec<Vec<u64>>,
    /// Pods that are announced and not counted.
    pub held_back: BTreeMap<HeldBack, u64>,
    /// Pods that no bucket of the cluster takes.
    pub unfit: Vec<(Shape, u64, Unfit)>,
    /// Whether a watch that decisions rest on fails: it shows a world of the past, and what stands keeps standing.
    pub blind: bool,
    /// What the decision aimed for.
    pub objective: Objective,
    /// What was decided; `None` where nothing could be.
    pub turn: Option<Turn>,
    /// Launches that ended since the last turn.
    pub launches: Vec<EndedLaunch>,
    /// The launch latency that is reckoned with, in seconds, by bucket and group.
    pub launch_seconds: Vec<Vec<i64>>,
    /// Nodes that pods of others took from placeholders since the last turn.
    pub taken_by_other_workload: Vec<String>,
}

impl Outcome {
    /// The names of the buckets on offer to the policy.
    pub fn buckets(&self) -> impl Iterator<Item = String> + '_ {
        self.offers
            .iter()
            .flat_map(|offers| offers.catalog.buckets())
            .map(|bucket| bucket.name.clone())
    }

    pub(crate) fn fault(&mut self, cause: Cause, message: impl Into<String>) {
        self.faults.push(PolicyFault { cause, message: message.into() });
    }
}

/// Something wrong with a policy or around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
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
}

/// A launch that failed, for a person.
pub(crate) fn failure(launch: &EndedLaunch) -> Option<String> {
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

/// After so long without a node, a launch has failed: cluster-autoscaler's `--max-node-provision-time`.
pub const GIVE_UP: TimeDelta = TimeDelta::minutes(15);
