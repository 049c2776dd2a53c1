//! Writes the placeholders of a plan, or removes them.

use placeholders::{Plan, Template};

use crate::cluster::settings::PolicySettings;
use crate::cluster::standing::Stands;
use crate::cluster::turn_input::TurnInput;
use crate::crd::Mode;
use crate::outcome::{Cause, Faults, MESSAGES_MAX};

/// Writes the changes that lead to the plan, and removes the placeholders of a policy in the mode
/// `Observe`. `blind` is whether the plan comes from an observation that is out of date.
/// `preempting` has, by bucket, whether pods may be preempting placeholders.
pub(super) async fn actuate(
    input: &TurnInput<'_>,
    stands: &Stands,
    settings: &PolicySettings,
    (plan, templates): (Option<&Plan>, &[Vec<Template>]),
    (blind, preempting): (bool, &[bool]),
) -> Faults {
    if settings.mode == Mode::Observe {
        return removed(input, stands).await;
    }
    let Some(plan) = plan else { return Faults::default() };
    let kind = settings.placeholders.kind;
    let state = (blind, preempting);
    failed(stands.follow(&input.writer(), plan, templates, kind, state, input.now).await)
}

/// Removes all placeholders of a policy, unless the turn is a dry run.
pub(super) async fn removed(input: &TurnInput<'_>, stands: &Stands) -> Faults {
    if !input.writes || stands.is_empty() {
        return Faults::default();
    }
    failed(stands.remove(&input.writer(), input.now).await)
}

/// The faults of failed writes: the first ones by name, so that the status stays small and does not
/// change with the order of responses.
fn failed(mut failed: Vec<String>) -> Faults {
    failed.sort_unstable();
    let more = failed.len().saturating_sub(MESSAGES_MAX);
    failed.truncate(MESSAGES_MAX);
    let mut faults = Faults::default();
    faults.add_all(Cause::WriteFailed, failed);
    if more > 0 {
        faults.add(Cause::WriteFailed, format!("{more} more writes failed"));
    }
    faults
}
