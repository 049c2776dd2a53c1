//! What is known of the plan of a PlannedDemand between turns.

use demand::record::KeptPlan;
use embedder::Shape;

use crate::observe::{Announcement, Key, Plan};

/// What is known of a plan between turns.
#[derive(Clone, Debug)]
pub(super) struct KnownPlan {
    pub(super) plan: Plan,
    /// The time at which the pods come, in Unix seconds.
    pub(super) at: i64,
    /// The end of the time for which nodes are held, in Unix seconds.
    pub(super) end: i64,
    /// Since when the plan is known, in Unix seconds.
    pub(super) since: i64,
    /// The shape of the pods.
    pub(super) shape: Shape,
    /// The number of planned pods.
    pub(super) planned: u64,
    /// The pods that came.
    pub(super) came: u64,
    /// The pods for which nodes were held at the last decision, and that did not come since.
    pub(super) held: u64,
    /// Whether pods are expected: from a lead time before `at` on, until all came.
    pub(super) is_open: bool,
}

impl KnownPlan {
    /// What became of the plan so far.
    pub(super) fn kept(&self) -> KeptPlan {
        let came = self.came.min(self.planned);
        KeptPlan { author: self.plan.author.clone(), planned: self.planned, came }
    }

    /// Identifies the plan at one of its times.
    pub(super) fn name(&self, key: &Key) -> String {
        format!("{key}@{}", self.at)
    }

    /// What is known of a plan at the next of its times, or at the last one if there is no next
    /// one. `since` is from when the plan is known if it is new.
    pub(super) fn next(
        plan: &Plan,
        known: Option<&Self>,
        announcement: &Announcement,
        (shape, planned): (&Shape, u64),
        (now, since): (i64, i64),
    ) -> Self {
        let shape = shape.clone();
        let is_done = |known: &&Self| {
            let all_came = !plan.for_duration && !known.is_open && known.came >= known.planned;
            now >= known.end || all_came
        };
        let next = match known.filter(is_done) {
            None if known.is_some() => None,
            Some(known) => plan.after(known.at, now),
            None => Some(plan.next(now).or_else(|| plan.last()).unwrap_or(NEVER)),
        };
        match (known, next) {
            (Some(known), None) => Self { shape, planned, ..known.clone() },
            (_, next) => {
                let at = next.unwrap_or(NEVER);
                let recalled = announcement.recalled.filter(|of| of.at == at && known.is_none());
                let came = recalled.map_or(0, |recalled| recalled.came);
                // The nodes of one time are held until the next one at most.
                let end = plan.after(at, at).unwrap_or(NEVER).min(plan.end(at));
                let (plan, is_open, held) = (plan.clone(), false, 0);
                Self { plan, at, end, since, shape, planned, came, held, is_open }
            }
        }
    }
}

/// The time of a plan that has none.
const NEVER: i64 = i64::MAX;
