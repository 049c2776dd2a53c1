//! A trace in real time with the autoscaler of the tests.

use std::time::Duration;

use tests::autoscaler::{Autoscaler, AutoscalerSettings};
use tests::installed::policy;

use super::observed::{observe, wait_for_start};
use super::outcome::Outcome;
use super::trace::Trace;
use crate::world::Plan;

/// Runs a trace with or without the controller. Its first scan is this much later than a multiple
/// of the interval between scans.
pub(super) async fn with_stand_in(
    trace: &'static Trace,
    with_controller: bool,
    later: Duration,
) -> Outcome {
    let seconds = Duration::from_secs;
    let settings = AutoscalerSettings {
        scan_interval: seconds(trace.scan),
        unneeded_time: seconds(trace.unneeded),
        delay_after_add: seconds(trace.delay_after_add),
        max_node_provision_time: seconds(10 * trace.launch),
        ..AutoscalerSettings::default()
    };
    let plan = Plan { autoscaler: settings.clone(), ..Plan::of(trace.groups()) };
    let mut world = plan.start_alone().await;
    for group in ["small", "gpu"] {
        world.joiner.set_latency(group, seconds(trace.launch));
    }
    if with_controller {
        world = world.with_controller(&[], "").await;
    }
    let start = wait_for_start(trace, later).await;
    world.autoscaler = Autoscaler::start(&world.plane, &world.moto, settings).unwrap();
    if with_controller {
        world.apply(&policy("batch", &trace.policy())).await;
    }
    let outcome = observe(&world.plane, trace, start).await;
    let counters = world.autoscaler.counters();
    assert!(counters.errors.is_empty() && counters.given_up.is_empty(), "{counters:?}");
    outcome
}
