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
        let next = match known {
            Some(known) if known.is_done(now) => plan.after(known.at, now),
            Some(_) => None,
            None => Some(plan.next(now).or_else(|| plan.last()).unwrap_or(NEVER)),
        };
        if let (Some(known), None) = (known, next) {
            return Self { shape, planned, ..known.clone() };
        }
        let mut at = next.unwrap_or(NEVER);
        // The nodes of one time are held until the next one at most.
        let mut following = plan.after(at, at);
        for _ in 0..STEPS_MAX {
            let Some(later) = following.filter(|later| *later <= now) else { break };
            (at, following) = (later, plan.after(later, later));
        }
        let end = following.unwrap_or(NEVER).min(plan.end(at));
        let recalled = announcement.recalled.filter(|of| of.at == at && known.is_none());
        let came = recalled.map_or(0, |recalled| recalled.came);
        Self { plan: plan.clone(), at, end, since, shape, planned, came, is_open: false }
    }

    /// Whether no more pods are expected at the time of the plan.
    fn is_done(&self, now: i64) -> bool {
        let all_came = !self.plan.for_duration && !self.is_open && self.came >= self.planned;
        now >= self.end || all_came
    }
}

/// The most times of a schedule that a turn passes over. Further ones are passed over in the next
/// turns, so that no schedule makes a turn long.
const STEPS_MAX: usize = 20;

/// The time of a plan that has none.
const NEVER: i64 = i64::MAX;
