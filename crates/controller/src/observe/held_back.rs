//! Why pods do not count as demand.

/// Why pods do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldBack {
    /// A gate holds them that the policy does not name.
    UnknownGate,
    /// An admission check of their queue is not ready.
    AdmissionCheck,
    /// Their queue has no quota for them yet.
    NoQuota,
    /// Their job is suspended, and the policy does not select it.
    Suspended,
    /// Their PodGroup has fewer pods than must start together, or was not seen yet.
    PartOfGang,
    /// Their preemption policy, their scheduler or Kueue's topology-aware scheduling does not
    /// preempt. They could not take the node of a placeholder.
    CannotPreempt,
    /// Other pods, or their volumes, may forbid the node of a placeholder.
    OwnConstraints,
    /// The flavor that Kueue has assigned to them is not known.
    UnknownFlavor,
    /// Their scheduler reports an obstacle that a new node would not remove.
    OtherObstacle,
    /// The schedule of their CronJob cannot be read.
    UnknownSchedule,
    /// The last Job of their CronJob has created no pods.
    NoPodsBefore,
    /// Their job has been suspended for too long.
    Expired,
    /// Their constraints on nodes are too large.
    TooLarge,
    /// Their namespace has announced as much as one namespace may.
    NamespaceShare,
}

impl HeldBack {
    /// All reasons, in their order.
    pub const ALL: [Self; 14] = [
        Self::UnknownGate,
        Self::AdmissionCheck,
        Self::NoQuota,
        Self::Suspended,
        Self::PartOfGang,
        Self::CannotPreempt,
        Self::OwnConstraints,
        Self::UnknownFlavor,
        Self::OtherObstacle,
        Self::UnknownSchedule,
        Self::NoPodsBefore,
        Self::Expired,
        Self::TooLarge,
        Self::NamespaceShare,
    ];

    /// The spelling of the reason in metrics, events, status and messages.
    pub const fn label(self) -> &'static str {
        match self {
            Self::UnknownGate => "unknown_gate",
            Self::AdmissionCheck => "admission_check",
            Self::NoQuota => "no_quota",
            Self::Suspended => "suspended",
            Self::PartOfGang => "part_of_gang",
            Self::CannotPreempt => "cannot_preempt",
            Self::OwnConstraints => "own_constraints",
            Self::UnknownFlavor => "unknown_flavor",
            Self::OtherObstacle => "other_obstacle",
            Self::UnknownSchedule => "unknown_schedule",
            Self::NoPodsBefore => "no_pods_before",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::NamespaceShare => "namespace_share",
        }
    }

    /// Explains the reason, as a sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::UnknownGate => {
                "A scheduling gate holds them that `workloads.releasedGates` does not name."
            }
            Self::AdmissionCheck => "An admission check of their queue is not ready.",
            Self::NoQuota => "Their queue has no quota for them yet.",
            Self::Suspended => {
                "Their job is suspended, and `workloads.releasedJobs` does not select it."
            }
            Self::PartOfGang => {
                "Their PodGroup has fewer pods than must start together, or was not seen yet."
            }
            Self::CannotPreempt => {
                "Their preemption policy, their scheduler or Kueue's topology-aware scheduling does not preempt placeholders."
            }
            Self::UnknownFlavor => {
                "Kueue has assigned a ResourceFlavor to them that the controller has not read."
            }
            Self::OtherObstacle => {
                "Their scheduler reports an obstacle that a new node would not remove, such as a PersistentVolumeClaim that does not exist or a volume in another zone."
            }
            Self::UnknownSchedule => {
                "The schedule or the time zone of their CronJob cannot be read."
            }
            Self::NoPodsBefore => {
                "The last Job of their CronJob has created no pods, because of a quota or a webhook."
            }
            Self::Expired => "Their job was announced for an hour, and was not released.",
            Self::TooLarge => {
                "Their node selector, node affinity and tolerations have more than 8 KiB."
            }
            Self::NamespaceShare => {
                "The announced pods of their namespace fill the share of the limits that `workloads.namespaceShare` leaves to one namespace."
            }
            Self::OwnConstraints => {
                "Other pods may forbid them the node of a placeholder (pod affinity, or anti-affinity or topology spread between zones), or a PersistentVolumeClaim may, unless `workloads.volumesInAnyZone` is true."
            }
        }
    }
}
