//! The rollout of one policy, from turn to turn.

use chrono::{DateTime, Utc};
use demand::record::History;
use embedder::{Catalog, MicroDollars};

use super::settings::PolicySettings;
use crate::crd::{Mode, OverprovisioningPolicy, RolloutStatus};
use crate::rollout::{Measured, Rollout, Step};

/// The present step of a policy's rollout.
#[derive(Default)]
pub(super) struct RolloutState {
    /// The UID of the policy. A policy that was deleted and created again has another one.
    uid: Option<String>,
    step: Option<Step>,
    /// Whether a later step than that of the policy's status may be known.
    is_ahead: bool,
    /// What was measured at the last tick.
    measured: Option<Measured>,
}

impl RolloutState {
    /// Returns the percentage of the placeholders that stands now. `None` if all of them do.
    ///
    /// The first call of a replica that leads (`leads` is true) takes the step from the policy's
    /// status, or begins. A replica that does not lead always takes it from there.
    pub(super) fn percent(
        &mut self,
        settings: &PolicySettings,
        policy: &OverprovisioningPolicy,
        leads: bool,
        now: DateTime<Utc>,
    ) -> Option<u8> {
        if self.uid != policy.metadata.uid {
            *self = Self { uid: policy.metadata.uid.clone(), ..Self::default() };
        }
        let Some(rollout) = rollout(settings) else {
            *self = Self { uid: self.uid.take(), is_ahead: leads, ..Self::default() };
            return None;
        };
        let recalled = policy.status.as_ref().and_then(|status| {
            Step::recalled(status.rollout.as_ref()?, status.observed_generation)
        });
        if let Some(known) = recalled.filter(|_| !leads || !self.is_ahead) {
            self.step = Some(known);
        }
        self.is_ahead = leads;
        let generation = policy.metadata.generation.unwrap_or(0);
        let step = self.step.get_or_insert_with(|| rollout.begin(generation, now));
        if let Some(resumed) = rollout.resume(step, generation, now) {
            *step = resumed;
        }
        step.generation = generation;
        rollout.percent(step, now)
    }

    /// Measures the step after a tick of a replica that leads, and goes on to the next one if it is
    /// time.
    pub(super) fn tick(
        &mut self,
        settings: &PolicySettings,
        history: &History,
        catalog: &Catalog,
        now: DateTime<Utc>,
    ) {
        let (Some(rollout), Some(step)) = (rollout(settings), &mut self.step) else { return };
        let hourly: Vec<MicroDollars> =
            catalog.buckets().iter().map(|bucket| bucket.hourly).collect();
        let measured = rollout.measure(step, history, &hourly);
        if let Some(next) = rollout.next(step, &measured, now) {
            *step = next;
            self.measured = None;
        } else {
            self.measured = Some(measured);
        }
    }

    /// Returns the status of the step. `None` without a rollout.
    pub(super) fn status(&self) -> Option<RolloutStatus> {
        Some(self.step.as_ref()?.status(self.measured.as_ref()))
    }
}

/// A policy that only observes has no placeholders to roll out.
fn rollout(settings: &PolicySettings) -> Option<&Rollout> {
    settings.rollout.as_ref().filter(|_| settings.mode == Mode::Act)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Allowed;
    use crate::crd::{OverprovisioningPolicyStatus, RolloutPhase};

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(60 * minute, 0).unwrap()
    }

    /// A policy whose rollout has three steps.
    fn policy(mode: &str) -> OverprovisioningPolicy {
        let limits = serde_json::json!({"placeholders": 9});
        let spec =
            serde_json::json!({"mode": mode, "limits": limits, "rollout": {"stepDuration": "1h"}});
        OverprovisioningPolicy::new("batch", serde_json::from_value(spec).unwrap())
    }

    fn percent(
        rolling: &mut RolloutState,
        policy: &OverprovisioningPolicy,
        leads: bool,
        minute: i64,
    ) -> Option<u8> {
        let settings = policy.spec.settings(&Allowed::default()).unwrap();
        rolling.percent(&settings, policy, leads, at(minute))
    }

    #[test]
    fn a_restart_goes_on_with_the_step_of_the_status() {
        let mut acts = policy("Act");
        assert_eq!(percent(&mut RolloutState::default(), &acts, true, 0), Some(25));
        let half =
            RolloutStatus { percent: 50, since: "1970-01-01T01:00:00Z".into(), ..<_>::default() };
        acts.status = Some(OverprovisioningPolicyStatus { rollout: Some(half), ..<_>::default() });
        assert_eq!(percent(&mut RolloutState::default(), &acts, true, 90), Some(50));
        // A leader has a newer step than a status that it has not written yet.
        let mut leading = RolloutState::default();
        assert_eq!(percent(&mut leading, &policy("Act"), true, 70), Some(25));
        assert_eq!(percent(&mut leading, &acts, true, 90), Some(25));
        assert_eq!(percent(&mut leading, &acts, false, 90), Some(50));
    }

    /// Only a change after the step back shows that somebody has seen it.
    #[test]
    fn a_change_during_a_step_does_not_end_a_later_step_back() {
        let (mut rolling, mut acts) = (RolloutState::default(), policy("Act"));
        let mut at_generation = |generation, minute| {
            acts.metadata.generation = Some(generation);
            percent(&mut rolling, &acts, true, minute)
        };
        assert_eq!(at_generation(1, 0), Some(25));
        assert_eq!(at_generation(2, 10), Some(25));
        rolling.step.as_mut().unwrap().phase = RolloutPhase::WentBack;
        let phase = |rolling: &RolloutState| rolling.status().unwrap().phase;
        acts.metadata.generation = Some(2);
        percent(&mut rolling, &acts, true, 20);
        assert_eq!(phase(&rolling), RolloutPhase::WentBack);
        acts.metadata.generation = Some(3);
        percent(&mut rolling, &acts, true, 30);
        assert_eq!(phase(&rolling), RolloutPhase::Progressing);
    }

    /// The controller may not see the deletion, if it and the creation are within one turn.
    #[test]
    fn a_policy_that_was_deleted_and_created_again_begins_anew() {
        let (mut rolling, mut acts) = (RolloutState::default(), policy("Act"));
        let mut with_uid = |uid: &str, minute| {
            acts.metadata.uid = Some(uid.to_owned());
            percent(&mut rolling, &acts, true, minute);
            rolling.status().unwrap().since
        };
        assert_eq!(with_uid("first", 0), "1970-01-01T00:00:00Z");
        assert_eq!(with_uid("first", 10), "1970-01-01T00:00:00Z");
        assert_eq!(with_uid("second", 20), "1970-01-01T00:20:00Z");
    }

    #[test]
    fn a_policy_that_observes_begins_anew_once_it_acts() {
        let mut rolling = RolloutState::default();
        assert_eq!(percent(&mut rolling, &policy("Act"), true, 0), Some(25));
        assert_eq!(percent(&mut rolling, &policy("Observe"), true, 10), None);
        assert_eq!(rolling.status(), None);
        assert_eq!(percent(&mut rolling, &policy("Act"), true, 20), Some(25));
        assert_eq!(rolling.status().unwrap().since, "1970-01-01T00:20:00Z");
    }
}
