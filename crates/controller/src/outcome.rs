//! The outcome of a policy's turn, with the problems of the policy and of the cluster.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use base::span::Span;
use chrono::{DateTime, TimeDelta, Utc};
use control::{Observed, Turn};
use embedder::{MicroDollars, Shape, Unfit};
use history::{EndedLaunch, LaunchEnd, UsedLaunch};
use placeholders::Objective;

use crate::account::Account;
use crate::catalog::{Offers, Sizes, WantedPool};
use crate::crd::{RolloutStatus, WarmPoolStatus};
use crate::observe::{Device, HeldBack, Key};

/// What could not be read from AWS, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Why prices could not be read, one message for each action.
    pub prices: Vec<String>,
    /// Why capacity reservations of the operator's prices do not count, one message for each rule,
    /// or why none could be read.
    pub reservations: Vec<String>,
}

/// The outcome of a turn.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The problems, worst first.
    pub faults: Faults,
    /// The buckets on offer to the policy.
    pub offers: Option<Arc<Offers>>,
    /// What could not be read from AWS.
    pub unread: Unread,
    /// What is known of the nodes of groups.
    pub known: Sizes,
    /// The policy's view of the cluster. Empty where no bucket is on offer.
    pub observation: Observation,
    /// The objective of the policy.
    pub objective: Objective,
    /// The decision. `None` if none was possible.
    pub decision: Option<Decision>,
    /// The number of placeholders of the policy's objects, also where no decision was possible.
    pub stands: u64,
    /// The warm pools of the policy's groups.
    pub warm_pools: WarmPoolsOutcome,
    /// The placeholders that no decision can change, because the policy is invalid.
    pub kept: KeptPlaceholders,
    /// What the placeholders achieved and cost since a date.
    pub account: Account,
    /// The present step of the policy's rollout.
    pub rollout: Option<RolloutStatus>,
    /// What would have happened if the policy had acted, as a text. Only in the mode `Observe`,
    /// and once it is known.
    pub if_acted: Option<String>,
}

/// The warm pools of a policy's groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarmPoolsOutcome {
    /// The pools that the policy wants, by the name of the group. `None` if it decided nothing, so
    /// that its pools stay as they are.
    pub wanted: Option<BTreeMap<String, WantedPool>>,
    /// By bucket, what the status has. `None` where no pool is possible.
    pub buckets: Vec<Option<WarmPoolStatus>>,
    /// The number of instances that count towards the limits of the operator: those that are
    /// wanted, or those that stand if they are more.
    pub held: u64,
    /// The price of these instances per hour while they are stopped.
    pub hourly: MicroDollars,
}

/// A policy's view of the cluster in a turn, and what happened since the last one.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Whether a watch that decisions depend on fails, so that the observed cluster is out of date.
    /// The standing placeholders then stay for a lead time, and their number shrinks afterwards.
    pub blind: bool,
    /// What the control reads.
    pub observed: Observed,
    /// The number of placeholders on nodes, by bucket and then by group.
    pub ready: Vec<Vec<u64>>,
    /// The pods of each tier of the policy, by the name of the tier.
    pub tiers: BTreeMap<String, TierPods>,
    /// The number of waiting and announced pods that are not counted, by reason.
    pub held_back: BTreeMap<HeldBack, u64>,
    /// Pods that fit in no bucket of the cluster: shape, number of pods, and reason.
    pub unfit: Vec<(Shape, u64, NoBucket)>,
    /// The PlannedDemands that the policy covers.
    pub plans: Vec<PlanSeen>,
    /// The PlannedDemands that are to be deleted, because they ended long ago, with their versions.
    pub expired: Vec<(Key, Option<String>)>,
    /// Launches that ended since the last turn.
    pub launches: Vec<EndedLaunch>,
    /// The nodes launched for placeholders to which the first batch pod came since the last turn.
    pub used: Vec<UsedLaunch>,
    /// The assumed launch latency in seconds, by bucket and then by group.
    pub launch_seconds: Vec<Vec<i64>>,
    /// The groups that launch no nodes at present, by bucket and then by group.
    pub backoffs: Vec<Vec<Option<Backoff>>>,
    /// The time of placeholders whose nodes batch pods took since the last turn.
    pub charges: Vec<Charge>,
    /// The names of nodes that pods outside batch demand took from placeholders since the last
    /// turn.
    pub taken_by_other_workload: Vec<String>,
}

impl Observation {
    /// The number of placeholders on nodes that are paid whether they run or not, by bucket.
    pub fn prepaid(&self) -> Vec<u64> {
        self.observed.standing.prepaid(&self.ready)
    }
}

/// A plan in a turn, for its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSeen {
    /// The PlannedDemand.
    pub key: Key,
    /// As in [`control::PlannedPods::plan`].
    pub plan: String,
    /// Who planned the pods.
    pub author: String,
    /// The time at which the pods come, or came last, in Unix seconds.
    pub at: i64,
    /// The end of the time for which nodes are held, in Unix seconds.
    pub end: i64,
    /// The pods that came.
    pub came: u64,
    /// Whether pods are expected now.
    pub is_open: bool,
    /// Whether no pods are expected any more.
    pub is_over: bool,
}

/// A group that launches no nodes at present, because launches failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Whether placeholders that wait may still get a node, because only a report of the last
    /// minutes closed the group. Launches that began before may succeed.
    pub may_still_launch: bool,
    /// When it is tried again. `None` if only cluster-autoscaler knows.
    pub until: Option<DateTime<Utc>>,
}

/// The decision of a turn.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What was forecast and planned.
    pub turn: Turn,
    /// The lead time of the forecast in seconds, by bucket.
    pub lead_seconds: Vec<i64>,
    /// The weights of the ensemble's experts by bucket, the largest first. Empty for a decision
    /// from an observation that is out of date.
    pub weights: Vec<Vec<(String, f64)>>,
    /// By the author of a plan: the mean share of the pods that were planned before and that came,
    /// in [0, 1].
    pub kept: BTreeMap<String, f64>,
}

/// The placeholders that an invalid policy keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPlaceholders {
    /// The names of their groups.
    pub groups: Vec<String>,
    /// Their cost per hour.
    pub hourly: MicroDollars,
}

/// The most messages of one cause that a status lists.
pub(crate) const MESSAGES_MAX: usize = 5;

/// The problems that a stage of a turn found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(Vec<PolicyFault>);

impl Faults {
    /// Adds a problem.
    pub(crate) fn add(&mut self, cause: Cause, message: impl Into<String>) {
        self.0.push(PolicyFault { cause, message: message.into() });
    }

    /// Adds a problem of the same cause for each message.
    pub(crate) fn add_all<M: Into<String>>(
        &mut self,
        cause: Cause,
        messages: impl IntoIterator<Item = M>,
    ) {
        messages.into_iter().for_each(|message| self.add(cause, message));
    }

    /// Adds the problems of another stage.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Puts the worst problem first. Those of one cause keep their order.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|fault| fault.cause);
    }

    /// Whether there is a problem of this kind.
    pub(crate) fn has(&self, cause: Cause) -> bool {
        self.0.iter().any(|fault| fault.cause == cause)
    }
}

impl Deref for Faults {
    type Target = [PolicyFault];

    fn deref(&self) -> &[PolicyFault] {
        &self.0
    }
}

/// The time for which a placeholder held a node, until a batch pod preempted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The namespace of the batch pod.
    pub namespace: String,
    /// The bucket of the node.
    pub bucket: String,
    /// The time, at least 0.
    pub held: TimeDelta,
}

impl Outcome {
    /// What was forecast and planned. `None` if no decision was possible.
    pub fn turn(&self) -> Option<&Turn> {
        self.decision.as_ref().map(|decision| &decision.turn)
    }

    /// The names of the groups that the policy uses: those on offer to it, or those that it keeps.
    pub fn groups(&self) -> impl Iterator<Item = String> + '_ {
        let groups = self.offers.iter().flat_map(|offers| offers.groups.iter().flatten());
        let offered = groups.flat_map(|offer| offer.members.iter());
        offered.chain(&self.kept.groups).cloned()
    }

    /// The number and the hourly cost of what counts towards the limits of the operator: the
    /// placeholders that the policy holds, and the instances of its warm pools.
    pub fn holds(&self) -> (u64, MicroDollars) {
        let (placeholders, hourly) = self.placeholders_held();
        let pools = &self.warm_pools;
        (
            placeholders.saturating_add(pools.held),
            MicroDollars(hourly.0.saturating_add(pools.hourly.0)),
        )
    }

    /// The placeholders of each bucket and group: those of the plan, or those that stand if they
    /// are more.
    fn held_by_group(&self) -> Vec<Vec<u64>> {
        let planned = |bucket: usize, at: usize| {
            let groups = &self.turn()?.plan.buckets.get(bucket)?.groups;
            groups.get(at).map(|group| group.want)
        };
        let buckets = self.observation.observed.standing.buckets.iter().enumerate();
        let held = buckets.map(|(bucket, groups)| {
            let groups = groups.iter().enumerate();
            let most =
                groups.map(|(at, group)| planned(bucket, at).unwrap_or(0).max(group.placeholders));
            most.collect()
        });
        held.collect()
    }

    /// Adds the placeholders of groups of one instance type to their number by type.
    pub fn note_types_held(&self, types: &mut BTreeMap<String, u64>) {
        let Some(offers) = &self.offers else { return };
        for (groups, held) in offers.groups.iter().zip(self.held_by_group()) {
            for (offer, held) in groups.iter().zip(held) {
                if let (Some(name), 1) = (offer.instance_types.first(), offer.instance_types.len())
                {
                    let sum = types.entry(name.clone()).or_default();
                    *sum = sum.saturating_add(held);
                }
            }
        }
    }

    /// The number and the hourly cost of the placeholders that the policy holds: in each bucket
    /// those of its plan, or those that stand if they are more, and those that it keeps. The cost
    /// has only those of groups that still exist.
    pub fn placeholders_held(&self) -> (u64, MicroDollars) {
        let buckets = self.offers.iter().flat_map(|offers| offers.catalog.buckets()).enumerate();
        let standing = &self.observation.observed.standing;
        let held = self.held_by_group();
        let free = standing.prepaid(&held);
        let (mut placeholders, mut hourly) = (0_u64, self.kept.hourly.0);
        for (id, bucket) in buckets {
            let held = held
                .get(id)
                .map_or(0, |groups| groups.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)));
            let stranded = standing.stranded(&[id]);
            let paid = (held - free.get(id).copied().unwrap_or(0)).saturating_add(stranded);
            placeholders = placeholders.saturating_add(held).saturating_add(stranded);
            hourly = hourly.saturating_add(bucket.hourly.times(paid).0);
        }
        (placeholders.max(self.stands), MicroDollars(hourly))
    }
}

/// The pods of a tier in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierPods {
    /// The pods without a node.
    pub waiting: u64,
    /// The pods on nodes.
    pub running: u64,
}

/// Why pods fit in no bucket of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoBucket {
    /// No bucket admits their shape.
    Unfit(Unfit),
    /// Only spot buckets would fit, and the pods do not tolerate interruption.
    OnlySpot,
    /// No bucket that would fit offers this.
    NotOffered(Device),
    /// The labels and taints of the nodes of this group are unknown, so they may admit the pods.
    Undescribed(String),
}

impl NoBucket {
    /// The spelling of the reason in status and messages.
    pub fn label(&self) -> String {
        match self {
            Self::Unfit(unfit) => unfit.label().into(),
            Self::OnlySpot => "only_spot_buckets".into(),
            Self::NotOffered(device) => format!("no_bucket_offers: {device}"),
            Self::Undescribed(group) => format!("labels_unknown_of: {group}"),
        }
    }
}

/// A problem of a policy, or of the cluster that affects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    /// The kind of problem.
    pub cause: Cause,
    /// A message for people.
    pub message: String,
}

/// Why a policy is degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The off switch stops all policies.
    SwitchedOff,
    /// Fields of the policy are invalid.
    InvalidPolicy,
    /// A PriorityClass of the placeholders is missing, or its value is unsuitable.
    PriorityClass,
    /// A write to the API server failed.
    WriteFailed,
    /// The API server refuses the pods of placeholders, because of a quota, a level of Pod
    /// Security or a webhook.
    PlaceholdersRefused,
    /// The pods of placeholders differ from their template, because a webhook changed them.
    PlaceholdersChanged,
    /// An autoscaler launches no node for placeholders.
    PlaceholderNotTriggering,
    /// The clock of the machine leapt.
    ClockLeapt,
    /// A watch of the API server fails.
    WatchFailed,
    /// Groups of nodes could not be read.
    CatalogFailed,
    /// The policy's buckets select no group of nodes.
    NoBuckets,
    /// The cluster does not serve CapacityBuffers.
    NoCapacityBuffers,
    /// The history is being read, so no decision is possible yet.
    ReadingHistory,
    /// The history cannot be read or written.
    HistoryFailed,
    /// An older policy uses some of the policy's buckets.
    OverlappingBuckets,
    /// Some groups of nodes have problems.
    Groups,
    /// A warm pool is not as it is wanted.
    WarmPools,
    /// The ONNX model cannot be run, or its output is invalid.
    Model,
    /// The pods have more different sizes than are learnt.
    ShapesFull,
}

impl Cause {
    /// All causes, in their order.
    pub const ALL: [Self; 19] = [
        Self::SwitchedOff,
        Self::InvalidPolicy,
        Self::PriorityClass,
        Self::WriteFailed,
        Self::PlaceholdersRefused,
        Self::PlaceholdersChanged,
        Self::PlaceholderNotTriggering,
        Self::ClockLeapt,
        Self::WatchFailed,
        Self::CatalogFailed,
        Self::NoBuckets,
        Self::NoCapacityBuffers,
        Self::ReadingHistory,
        Self::HistoryFailed,
        Self::OverlappingBuckets,
        Self::Groups,
        Self::WarmPools,
        Self::Model,
        Self::ShapesFull,
    ];

    /// The cause's spelling in conditions, Events and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SwitchedOff => "SwitchedOff",
            Self::InvalidPolicy => "InvalidPolicy",
            Self::PriorityClass => "PriorityClass",
            Self::WriteFailed => "WriteFailed",
            Self::PlaceholdersRefused => "PlaceholdersRefused",
            Self::PlaceholdersChanged => "PlaceholdersChanged",
            Self::PlaceholderNotTriggering => "PlaceholderNotTriggering",
            Self::ClockLeapt => "ClockLeapt",
            Self::WatchFailed => "WatchFailed",
            Self::CatalogFailed => "CatalogFailed",
            Self::NoBuckets => "NoBuckets",
            Self::NoCapacityBuffers => "NoCapacityBuffers",
            Self::ReadingHistory => "ReadingHistory",
            Self::HistoryFailed => "HistoryFailed",
            Self::OverlappingBuckets => "OverlappingBuckets",
            Self::Groups => "Groups",
            Self::WarmPools => "WarmPools",
            Self::Model => "Model",
            Self::ShapesFull => "ShapesFull",
        }
    }

    /// Explains what to do about the problem.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::SwitchedOff => {
                "Run `prophet on` once placeholders may stand again. The policies observe and learn meanwhile."
            }
            Self::InvalidPolicy => {
                "Correct the fields of the policy. Its standing placeholders stay until then."
            }
            Self::PriorityClass => {
                "Apply the PriorityClasses that `prophet crd` prints, or name another class in the policy."
            }
            Self::WriteFailed => {
                "Compare the permissions of the service account with docs/permissions.md. Each write is tried again at the next turn."
            }
            Self::PlaceholdersRefused => {
                "Raise the quota of the namespace, or exempt placeholders from the webhook or the Pod Security level."
            }
            Self::PlaceholdersChanged => {
                "Exempt the namespace of the policy from the webhook. Until then, the next placeholders are smaller by what it adds."
            }
            Self::PlaceholderNotTriggering => {
                "Compare the labels, taints and resources that the autoscaler assumes for the group with `prophet catalog`. The next placeholders are smaller by the resources that the message names."
            }
            Self::ClockLeapt => {
                "Check the time synchronisation of the node. Time goes on evenly meanwhile. After ten minutes, the new time is taken over."
            }
            Self::WatchFailed => {
                "Check that the API server responds, and that the service account may list and watch the kind."
            }
            Self::CatalogFailed => {
                "Check the credentials, the tags and the network path to the source of the node groups."
            }
            Self::NoBuckets => {
                "Compare `spec.buckets` of the policy with the output of `prophet catalog`."
            }
            Self::NoCapacityBuffers => {
                "Install the kind CapacityBuffer, or select ReplicaSets as placeholders."
            }
            Self::ReadingHistory => {
                "Wait: the standing placeholders stay meanwhile. If it takes minutes, check the place that --data names."
            }
            Self::HistoryFailed => {
                "Check the space and the permissions of the place that --data names. A damaged file can be moved away."
            }
            Self::OverlappingBuckets => {
                "Let only one of the policies select these groups in `spec.buckets`."
            }
            Self::Groups => "Correct the labels or tags of the named groups of nodes.",
            Self::WarmPools => {
                "Compare the permissions in AWS with docs/permissions-aws.md, and the groups with the limitations in docs/warm-pools.md."
            }
            Self::Model => {
                "Check the model with `prophet model check`. The other methods work without it."
            }
            Self::ShapesFull => {
                "Give the pods of a job equal requests. Pods of sizes that are known are still learnt."
            }
        }
    }
}

/// The message for people of a launch that failed. `None` for any other launch.
pub(crate) fn failure(launch: &EndedLaunch) -> Option<String> {
    match launch.end {
        LaunchEnd::Failed(at) => {
            let waited = (at - launch.requested).min(base::GIVE_UP).num_seconds();
            let waited = Span::seconds(u32::try_from(waited).unwrap_or(0));
            let EndedLaunch { bucket, group, .. } = launch;
            Some(format!("no node of bucket {bucket} came up in group {group} within {waited}"))
        }
        LaunchEnd::Ready(_) | LaunchEnd::WaitedFor(_) => None,
    }
}
