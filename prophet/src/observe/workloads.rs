//! Which pods are batch demand, and which pods to be are about to come: what a policy says of workloads.

use std::collections::BTreeMap;

use super::announced::{Announcement, Held};
use super::class::{PodClass, Role};
use super::constraints::meets;
use super::objects::Requirement;

/// Which workloads a policy is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workloads {
    /// Namespaces; all but `kube-system` where there is none.
    pub namespaces: Vec<String>,
    /// What their pods' labels must meet.
    pub selector: Vec<Requirement>,
    /// The lowest priority.
    pub priority_min: i32,
    /// The highest priority.
    pub priority_max: i32,
    /// Gates that are lifted within the launch latency.
    pub released_gates: Vec<String>,
    /// What the labels of a suspended job that is about to be released meet; `None`: none is.
    pub released_jobs: Option<Vec<Requirement>>,
}

/// Where a pod that waits stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitingState {
    /// Counts now.
    Pending,
    /// Counts as announced.
    Announced,
    /// Is not counted, for this reason.
    HeldBack(HeldBack),
}

/// Why pods that are announced are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldBack {
    /// A gate that the policy does not name.
    UnknownGate,
    /// A queue has no quota for them yet.
    NoQuota,
    /// A suspended job that the policy does not name.
    Suspended,
    /// A PodGroup fewer of whose pods are there than start together.
    PartOfGang,
}

impl HeldBack {
    /// The reason as it is spelled everywhere.
    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownGate => "unknown_gate",
            Self::NoQuota => "no_quota",
            Self::Suspended => "suspended",
            Self::PartOfGang => "part_of_gang",
        }
    }
}

impl Workloads {
    /// Whether pods of a class are batch demand.
    pub fn select(&self, class: &PodClass) -> bool {
        let Self { namespaces, selector, priority_min, priority_max, .. } = self;
        class.role == Role::Workload
            && (*priority_min..=*priority_max).contains(&class.priority)
            && if namespaces.is_empty() {
                class.namespace != "kube-system"
            } else {
                namespaces.contains(&class.namespace)
            }
            && all_met(selector, &class.labels)
    }

    /// Where pods of a class that are held by gates stand.
    pub fn gated(&self, class: &PodClass) -> WaitingState {
        if class.gates.iter().all(|gate| self.released_gates.contains(gate)) {
            WaitingState::Announced
        } else {
            WaitingState::HeldBack(HeldBack::UnknownGate)
        }
    }

    /// Where pods to be stand.
    pub fn announced(&self, announcement: &Announcement) -> WaitingState {
        match announcement.held {
            Held::QuotaReserved | Held::Scheduled => WaitingState::Announced,
            Held::NoQuota => WaitingState::HeldBack(HeldBack::NoQuota),
            Held::Suspended => match &self.released_jobs {
                Some(selector) if all_met(selector, &announcement.labels) => {
                    WaitingState::Announced
                }
                _ => WaitingState::HeldBack(HeldBack::Suspended),
            },
        }
    }

    /// The labels of pods that it reads.
    pub fn label_keys(&self) -> impl Iterator<Item = String> {
        self.selector.iter().map(|requirement| requirement.key.clone())
    }
}

fn all_met(selector: &[Requirement], labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|requirement| meets(requirement, labels))
}
