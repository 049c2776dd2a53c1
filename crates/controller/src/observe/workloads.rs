//! The workloads that a policy selects: which pods are batch demand, and which announced pods
//! count.

use std::collections::{BTreeMap, BTreeSet};

use base::tier::Tiers;
use placeholders::LimitShare;

use super::announced::{Announcement, Held};
use super::class::{PodClass, Role};
use super::constraints::meets;
use super::held_back::HeldBack;
use super::index::Index;
use super::objects::Requirement;

/// The workloads that a policy covers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workloads {
    /// The namespaces. If empty, all namespaces except `kube-system`.
    pub namespaces: Vec<String>,
    /// The requirements on the labels of the pods.
    pub selector: Vec<Requirement>,
    /// The lowest priority, inclusive.
    pub priority_min: i32,
    /// The highest priority, inclusive.
    pub priority_max: i32,
    /// The tiers of the pods.
    pub tiers: Tiers,
    /// Whether the pods can use their volumes in every zone.
    pub volumes_in_any_zone: bool,
    /// The schedulers that preempt, beyond the default scheduler.
    pub preempting_schedulers: BTreeSet<String>,
    /// The scheduling gates that are removed within the launch latency.
    pub released_gates: Vec<String>,
    /// The requirements on the labels of suspended jobs that will be released within the launch
    /// latency. `None` means that no suspended job counts.
    pub released_jobs: Option<Vec<Requirement>>,
    /// The requirements on the labels of Jobs with indexes whose pods start together. `None` means
    /// that no such Job is a gang.
    pub gang_jobs: Option<Vec<Requirement>>,
    /// The pods that tolerate interruption.
    pub spot_for: SpotFor,
    /// Whether the pods of certain plans are held, however many of earlier plans came.
    pub certain_plans: bool,
    /// The most announced demand of one namespace, while several have batch pods. `None` means that
    /// all counts.
    pub announced_most: Option<LimitShare>,
}

/// The pods that tolerate interruption: those that meet one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpotFor {
    /// The keys of tolerations.
    pub tolerations: Vec<String>,
    /// The labels of nodes that pods select, each as key and value.
    pub node_labels: Vec<(String, String)>,
    /// The requirements on the labels of the pods. `None` means that no pod meets them.
    pub selector: Option<Vec<Requirement>>,
}

impl SpotFor {
    fn select(&self, class: &PodClass) -> bool {
        let Self { tolerations, node_labels, selector } = self;
        tolerations.iter().any(|key| class.constraints.names_toleration(key))
            || node_labels.iter().any(|(key, value)| class.constraints.selects(key, value))
            || selector.as_ref().is_some_and(|selector| all_met(selector, &class.labels))
    }
}

/// Whether and how a waiting pod counts as demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitingState {
    /// The pod counts as present demand.
    Pending,
    /// The pod counts as announced demand.
    Announced,
    /// The pod does not count, for this reason.
    HeldBack(HeldBack),
}

impl Workloads {
    /// Whether the pods of a class are batch demand: the policy covers them, and they can take the
    /// node of a placeholder.
    pub fn select(&self, class: &PodClass) -> bool {
        self.cover(class) && self.obstacle(class).is_none()
    }

    /// Why the pods of a class that the policy covers cannot take the node of a placeholder. `None`
    /// if they can, or if the policy does not cover them.
    pub fn missed(&self, class: &PodClass) -> Option<HeldBack> {
        self.obstacle(class).filter(|_| self.cover(class))
    }

    fn obstacle(&self, class: &PodClass) -> Option<HeldBack> {
        let preempts =
            |name: Option<&str>| name.is_none_or(|name| self.preempting_schedulers.contains(name));
        class.obstacle(preempts, self.volumes_in_any_zone)
    }

    /// The name of the tier of a class that the policy selects.
    pub fn tier(&self, class: &PodClass) -> Option<&str> {
        let tier = self.tiers.of(class.priority)?;
        self.select(class).then_some(tier.name.as_str())
    }

    fn cover(&self, class: &PodClass) -> bool {
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

    /// Whether the pods of a class tolerate interruption, so that spot buckets admit them.
    pub fn may_be_interrupted(&self, class: &PodClass) -> bool {
        self.spot_for.select(class)
    }

    /// Returns how pods of a class that gates hold count.
    pub fn gated(&self, class: &PodClass) -> WaitingState {
        if class.gates.iter().all(|gate| self.released_gates.contains(gate)) {
            WaitingState::Announced
        } else {
            WaitingState::HeldBack(HeldBack::UnknownGate)
        }
    }

    /// Returns how announced pods count.
    pub fn announced(&self, announcement: &Announcement) -> WaitingState {
        match announcement.held {
            Held::Created => WaitingState::Pending,
            Held::QuotaReserved | Held::Scheduled => WaitingState::Announced,
            Held::Topology => WaitingState::HeldBack(HeldBack::CannotPreempt),
            // A check may need the very nodes on which placeholders would stand.
            Held::AdmissionCheck => WaitingState::HeldBack(HeldBack::AdmissionCheck),
            Held::NoQuota => WaitingState::HeldBack(HeldBack::NoQuota),
            Held::Unscheduled => WaitingState::HeldBack(HeldBack::UnknownSchedule),
            Held::Suspended => match &self.released_jobs {
                Some(selector) if all_met(selector, &announcement.labels) => {
                    WaitingState::Announced
                }
                _ => WaitingState::HeldBack(HeldBack::Suspended),
            },
        }
    }

    /// Whether the pods of an announced Job are a gang because the policy's `gang_jobs` select the
    /// Job.
    pub fn is_gang_of_job(&self, announcement: &Announcement) -> bool {
        let Some(selector) = &self.gang_jobs else { return false };
        announcement.indexed && all_met(selector, &announcement.labels)
    }

    /// The most announced demand of each namespace, if several have pods that the policy selects.
    pub fn announced_most(&self, index: &Index) -> Option<&LimitShare> {
        let limit = self.announced_most.as_ref()?;
        let mut first: Option<&str> = None;
        let mut is_other = |namespace| *first.get_or_insert(namespace) != namespace;
        let waits_or_runs = index
            .classes()
            .iter()
            .any(|(_, class)| self.select(class) && is_other(class.namespace.as_str()));
        let several = waits_or_runs
            || index.announcements().any(|(_, announcement)| {
                let mut pods = announcement.pods.iter();
                pods.any(|pods| self.select(&pods.class) && is_other(pods.class.namespace.as_str()))
            });
        several.then_some(limit)
    }

    /// Iterates over the keys of the pod labels that the policy reads.
    pub fn label_keys(&self) -> impl Iterator<Item = String> {
        let interruptible = self.spot_for.selector.iter().flatten();
        self.selector.iter().chain(interruptible).map(|requirement| requirement.key.clone())
    }
}

/// Whether labels meet all requirements.
pub(crate) fn all_met(selector: &[Requirement], labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|requirement| meets(requirement, labels))
}
