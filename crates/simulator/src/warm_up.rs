//! The part of a run before the first decision, which the replays of a policy share.

use std::sync::{Mutex, PoisonError};

use super::input::{SimulationInput, first_decision};
use super::log::RunLog;
use super::named_policy::NamedPolicy;
use super::world::Simulation;
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
