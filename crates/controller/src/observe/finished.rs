//! Pods that ran on a node and ended.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use usage::PodUsage;

use super::class::{ClassId, PodClass};
use super::objects::{Pod, PodStatus, since, time};

/// A workload pod that ran on a node and ended. `C` identifies its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedPod<C = PodClass> {
    /// The class of the pod.
    pub class: C,
    /// The name of its node.
    pub node: Arc<str>,
    /// The UID of the object that controls the pod, or of the pod if none does.
    pub job: String,
    /// The kind of this object.
    pub owner_kind: String,
    /// The name of this object. Its namespace is that of the class.
    pub owner_name: String,
    /// When the pod was created, or when it started if a scheduling gate held it, because a pod
    /// does not have the time at which a gate is removed.
    pub submitted: DateTime<Utc>,
    /// When the pod was bound to the node.
    pub started: DateTime<Utc>,
    /// When its last container ended, or when its deletion is due. `None` if the pod has neither
    /// time.
    pub ended: Option<DateTime<Utc>>,
    /// What the pod used, as far as it was measured.
    pub usage: Option<PodUsage>,
}

impl FinishedPod<ClassId> {
    /// Reads a pod that was bound to `node`. `gated` is whether a gate ever held it. Returns
    /// `None` if the pod lacks the time at which it was created or bound.
    pub(super) fn of(pod: &Pod, class: ClassId, node: Arc<str>, gated: bool) -> Option<Self> {
        let Pod { metadata, status, .. } = pod;
        let created = metadata.creation_timestamp.as_ref().and_then(time)?;
        let started = since(&status.conditions, "PodScheduled")?;
        let owners = metadata.owner_references.iter().flatten();
        let owner = owners.clone().find(|owner| owner.controller == Some(true));
        let itself = || {
            let [uid, name] = [&metadata.uid, &metadata.name].map(Clone::clone);
            (uid.unwrap_or_default(), "Pod".to_owned(), name.unwrap_or_default())
        };
        let (job, owner_kind, owner_name) = owner.map_or_else(itself, |owner| {
            (owner.uid.clone(), owner.kind.clone(), owner.name.clone())
        });
        let deleted = metadata.deletion_timestamp.as_ref().and_then(time);
        Some(Self {
            class,
            node,
            job,
            owner_kind,
            owner_name,
            submitted: if gated { started } else { created },
            started,
            ended: ended(status).or(deleted),
            usage: None,
        })
    }

    /// The same pod with its class.
    pub(super) fn with_class(self, class: PodClass) -> FinishedPod {
        let Self { node, job, owner_kind, owner_name, submitted, started, ended, usage, .. } = self;
        FinishedPod { class, node, job, owner_kind, owner_name, submitted, started, ended, usage }
    }
}

/// When the last of the containers ended. `None` if one of them still runs, or if there is none.
fn ended(status: &PodStatus) -> Option<DateTime<Utc>> {
    let ends = status
        .container_statuses
        .iter()
        .map(|container| container.state.terminated.as_ref()?.finished_at.as_ref().and_then(time));
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}
