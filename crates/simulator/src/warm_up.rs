//! Runs of a policy. Its replays share the part before the first decision.

use std::sync::{Mutex, PoisonError};

use super::input::{SimulationInput, first_decision};
use super::log::RunLog;
use super::named_policy::NamedPolicy;
use super::world::{Simulation, simulate};
use crate::replay::NEVER;

/// A run that has reached the first decision of its policy. The runs of all replays are equal until
/// then, because only submissions from the first decision on are moved, and launches before it are
/// drawn from the seed of the first replay. So each replay goes on from a copy.
pub(super) struct WarmUp<'a>(Mutex<Simulation<'a>>);

impl<'a> WarmUp<'a> {
    /// Runs the jobs before the first decision. Returns `None` if there are none, and if the policy
    /// cannot be copied.
    pub(super) fn of(
        world: SimulationInput<'a>,
        named_policy: NamedPolicy,
        reached: &dyn Fn(i64),
    ) -> Option<Self> {
        let until = first_decision(world.window);
        world.workload.jobs.first().filter(|job| job.submit < until)?;
        let mut run = Simulation::new(world, named_policy);
        // Without a copy, no replay could go on from this run.
        run.policy.copy()?;
        run.start_minimum();
        run.advance(until, reached);
        Some(Self(Mutex::new(run)))
    }

    /// Runs a replay from the first decision on.
    pub(super) fn replay(
        &self,
        world: SimulationInput<'a>,
        reached: &dyn Fn(i64),
    ) -> Option<RunLog> {
        let copy = self.0.lock().unwrap_or_else(PoisonError::into_inner).copy(world);
        let mut run = copy?;
        run.begin_replay();
        run.advance(NEVER, reached);
        Some(run.finish())
    }
}

/// Runs a policy: from the first decision on if there is a warm-up that can be copied, and
/// otherwise from the first job on. `advanced` is called with the share of the run that is done,
/// below 1.
pub(super) fn run<'a>(
    world: SimulationInput<'a>,
    named_policy: NamedPolicy,
    warm_up: Option<&WarmUp<'a>>,
    advanced: &dyn Fn(f64),
) -> RunLog {
    let until = world.window.1;
    let decision = first_decision(world.window);
    let copied = warm_up.and_then(|warm_up| {
        warm_up.replay(world, &|now| advanced(share_between(decision, until, now)))
    });
    copied.unwrap_or_else(|| {
        let first = world.workload.jobs.first().map_or(0, |job| job.submit);
        simulate(world, named_policy, &|now| advanced(share_between(first, until, now)))
    })
}

/// Returns the share of the time from `first` to `last` that is over at `now`, below 1.
pub(super) fn share_between(first: i64, last: i64, now: i64) -> f64 {
    ((now - first) as f64 / (last - first).max(1) as f64).clamp(0.0, 0.999)
}
