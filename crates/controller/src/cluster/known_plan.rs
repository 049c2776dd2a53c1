//! What is known of the plan of a PlannedDemand between turns.

use demand::record::KeptPlan;
use embedder::Shape;

use crate::observe::{Announcement, Plan};

/// What is known of a plan between turns.
#[derive(Clone, Debug)]
pub(super) struct KnownPlan {
    pub(super) plan: Plan,
    /// The time at which the pods come, in Unix seconds.
    pub(super) at: i64,
    /// The shape of the pods.
    pub(super) shape: Shape,
    /// The number of planned pods.
    pub(super) planned: u64,
    /// The pods that came.
    pub(super) came: u64,
    /// Whether pods are expected: from a lead time before `at` on, until all came.
    pub(super) is_open: bool,
}

impl KnownPlan {
    /// What became of the plan so far.
    pub(super) fn kept(&self) -> KeptPlan {
        let came = self.came.min(self.planned);
        KeptPlan { author: self.plan.author.clone(), planned: self.planned, came }
    }

    /// What is known of a plan at the next of its times. `None` after the last one.
    pub(super) fn next(
        plan: &Plan,
        known: Option<&Self>,
        announcement: &Announcement,
        (shape, planned): (&Shape, u64),
        now: i64,
    ) -> Option<Self> {
        let shape = shape.clone();
        if let Some(known) = known.filter(|known| now < plan.end(known.at)) {
            return Some(Self { shape, planned, ..known.clone() });
        }
        let at = plan.next(now)?;
        let recalled = announcement.recalled.filter(|of| of.at == at && known.is_none());
        let came = recalled.map_or(0, |recalled| recalled.came);
        Some(Self { plan: plan.clone(), at, shape, planned, came, is_open: false })
    }
}
