//! A run whose ticks an observer sees.

use std::ops::ControlFlow;

use control::Turn;

use super::input::SimulationInput;
use super::log::RunLog;
use super::named_policy::NamedPolicy;
use super::world::Simulation;

/// Runs the jobs under a policy, and shows each tick to an observer after the turn.
///
/// When the observer breaks, the run ends, and the window of its log ends at that tick.
pub fn simulate_observed(
    world: SimulationInput<'_>,
    named_policy: NamedPolicy,
    mut observe: impl FnMut(&Moment<'_>) -> ControlFlow<()>,
) -> RunLog {
    let mut run = Simulation::new(world, named_policy);
    run.start_minimum();
    while let Some(now) = run.next_moment() {
        let is_tick = now == run.next_tick;
        run.moment(now);
        let moment = Moment { time: now, turn: run.last_turn.as_ref(), run: &run };
        if is_tick && observe(&moment).is_break() {
            let (from, until) = run.world.window;
            run.world.window.1 = now.clamp(from, until);
            break;
        }
    }
    run.finish()
}

/// The state of a run at a tick, after its turn.
pub struct Moment<'a> {
    /// The time, in seconds of the log.
    pub time: i64,
    /// The turn. `None` for a policy that holds no placeholders, and while it only learns.
    pub turn: Option<&'a Turn>,
    run: &'a Simulation<'a>,
}

/// The nodes of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Placeholders, on nodes or waiting for one.
    pub placeholders: u64,
    /// Placeholders that run on a node, so without those that wait for one.
    pub placeholders_on_nodes: u64,
    /// Nodes that are ready.
    pub ready: u64,
    /// Nodes that are launching.
    pub launching: u64,
}

impl Moment<'_> {
    /// Present demand in nodes, by bucket.
    pub fn demand(&self) -> Vec<u64> {
        match self.turn {
            Some(turn) => turn.demand.present.clone(),
            None => self.run.demand(),
        }
    }

    /// The nodes of a bucket.
    pub fn nodes(&self, bucket: usize) -> NodeCounts {
        let (placeholders, placeholders_on_nodes, ready, launching) =
            self.run.cluster.counts(bucket);
        NodeCounts { placeholders, placeholders_on_nodes, ready, launching }
    }

    /// The jobs that are submitted and have not started.
    pub fn waiting_jobs(&self) -> u64 {
        self.run.waiting_jobs()
    }

    /// The weights of the ensemble's experts for a bucket, the largest first; empty for other
    /// policies.
    pub fn weights(&self, bucket: usize) -> Vec<(String, f64)> {
        self.run.weights(bucket)
    }

    /// The record of the run so far, without ticks.
    pub fn log(&self) -> RunLog {
        self.run.log_until(self.time.clamp(self.run.world.window.0, self.run.world.window.1))
    }
}
