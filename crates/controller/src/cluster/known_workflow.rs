//! What is known of the steps of a workflow between turns.

use std::collections::BTreeMap;
use std::mem::discriminant;

use control::StepState;
use demand::record::{KeptPlan, StepRun};
use embedder::Shape;

use crate::observe::{SeenState, SeenStep, SeenWorkflow};

/// How long a step that can start is expected, in seconds. A step that does not start by then waits
/// for something else, such as a lock.
const READY_SECONDS: i64 = 120;

/// What is known of the steps of a workflow between turns.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownWorkflow {
    /// The template of the workflow.
    pub(super) template: String,
    /// The steps by their names.
    pub(super) steps: BTreeMap<String, KnownStep>,
}

/// The pods of a step that are expected, or that are seen to come.
#[derive(Clone, Debug)]
pub(super) struct ExpectedPods {
    pub(super) namespace: String,
    /// With the number of pods that came, as far as nodes were held for them.
    pub(super) shapes: Vec<(Shape, u64)>,
    /// Until when they are seen to come, in Unix seconds. `None` while the step waits.
    pub(super) until: Option<i64>,
}

/// What is known of a step between turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownStep {
    state: SeenState,
    /// Since when it has been in this state, or seen in it, in Unix seconds.
    since: i64,
    /// Whether it was seen before it came into this state, so that `since` is when it did.
    is_followed: bool,
    /// Since when all its predecessors have ended, in Unix seconds. `None` while one has not.
    ready: Option<i64>,
    /// The number of its pods that the policy covers.
    pods: u64,
}

impl KnownWorkflow {
    /// What became of the steps that did not start before the workflow ended, although the steps
    /// before them had ended.
    pub(super) fn unstarted(&self) -> impl Iterator<Item = KeptPlan> {
        let ready = |step: &&KnownStep| step.is_waiting() && step.ready.is_some();
        let expected = self.steps.values().filter(ready).filter(|step| step.pods > 0);
        expected.map(|step| step.became(&self.template, 0))
    }
}

impl KnownStep {
    /// What is known of a step in this turn. `earlier` is what was known in the last one.
    pub(super) fn next(
        workflow: &SeenWorkflow,
        step: &SeenStep,
        earlier: Option<&Self>,
        pods: u64,
        now: i64,
    ) -> Self {
        let is_over = |at: &usize| {
            let state = workflow.steps.get(*at).map(|step| step.state);
            matches!(state, Some(SeenState::Ended { .. }))
        };
        let is_ready = step.after.iter().all(is_over);
        let waited = earlier.filter(|of| of.is_waiting());
        let ready = waited.and_then(|of| of.ready).or(Some(now)).filter(|_| is_ready);
        let same = |of: &&Self| discriminant(&of.state) == discriminant(&step.state);
        let (since, is_followed) = match (step.state, earlier.filter(same)) {
            (SeenState::Running(Some(started)), _) => (started, true),
            (_, Some(same)) => (same.since, same.is_followed),
            (_, None) => (now, earlier.is_some()),
        };
        Self { state: step.state, since, is_followed, ready, pods }
    }

    fn is_waiting(&self) -> bool {
        self.state == SeenState::Waiting
    }

    /// The state as the control reads it.
    pub(super) fn state(&self, now: i64) -> StepState {
        match self.state {
            SeenState::Waiting if self.ready.is_some_and(|since| now - since > READY_SECONDS) => {
                StepState::Blocked
            }
            SeenState::Waiting => StepState::Waiting,
            SeenState::Running(_) => StepState::Running(now.saturating_sub(self.since)),
            SeenState::Ended { .. } => StepState::Ended,
        }
    }

    /// How long the step took, if it ended since the turn in which this was known.
    pub(super) fn run(
        &self,
        workflow: &SeenWorkflow,
        step: &SeenStep,
        now: i64,
    ) -> Option<StepRun> {
        let SeenState::Ended { ran, skipped: false } = step.state else { return None };
        let seconds = match (ran, self.state) {
            (Some((started, ended)), SeenState::Waiting | SeenState::Running(_)) => {
                ended.saturating_sub(started)
            }
            (None, SeenState::Running(_)) if self.is_followed => now.saturating_sub(self.since),
            _ => return None,
        };
        let seconds = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
        Some(StepRun { template: format!("{}/{}", workflow.template, step.name), seconds })
    }

    /// What became of the pods of the step, if it waited in the turn in which this was known, and
    /// waits no more.
    pub(super) fn kept(&self, template: &str, now: &Self) -> Option<KeptPlan> {
        let is_skipped = matches!(now.state, SeenState::Ended { skipped: true, .. });
        let came = if is_skipped { 0 } else { self.pods };
        (self.is_waiting() && !now.is_waiting() && self.pods > 0)
            .then(|| self.became(template, came))
    }

    fn became(&self, template: &str, came: u64) -> KeptPlan {
        KeptPlan { author: template.into(), planned: self.pods, came }
    }
}

/// The template of a workflow or of its step with a hash in place of its names, and other texts as
/// they are: the history has no names of workloads unless the operator allows it.
///
/// The hash is FNV-1a of 64 bits, so that it is the same in each build.
pub(super) fn without_names(template: &mut String) {
    let Some((kind, names)) = template.split_once(' ') else { return };
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = names.bytes().fold(0xcbf2_9ce4_8422_2325, add);
    *template = format!("{kind} {hash:016x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_workflows_are_replaced_by_their_hash() {
        let check = |text: &str, expected: &str| {
            let mut template = text.to_owned();
            without_names(&mut template);
            assert_eq!(template, expected);
        };
        check("Workflow a", "Workflow af63dc4c8601ec8c");
        check("Workflow foobar", "Workflow 85944171f73967e8");
        check("team/label", "team/label");
    }
}
