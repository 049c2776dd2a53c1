//! The simulation that the controller runs for policies in the mode `Observe`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::span::Span;
use controller::cluster::{ActingPolicy, RecordedPods};
use demand::forecast::Method;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use recorded::if_acted::if_acted;
use simulator::{LaunchLatency, NamedPolicy, SimulationSettings};

/// Simulates recorded pods under a policy, and returns the result as a text.
pub(super) fn simulate(
    pods: RecordedPods,
    of: ActingPolicy,
    cancelled: Arc<AtomicBool>,
) -> LocalBoxFuture<'static, anyhow::Result<String>> {
    // The simulator has warm pools beside the default method only.
    let has_warm_pools = of.warm_pool_max.is_some() && of.method == Method::Ensemble;
    let policy = (NamedPolicy::Forecast(of.method, None), has_warm_pools);
    let settings = settings(of);
    async move {
        let RecordedPods { place, name, since } = &pods;
        if_acted((place, name, *since), policy, &settings, &cancelled).await
    }
    .boxed_local()
}

fn settings(of: ActingPolicy) -> SimulationSettings {
    let seconds = |seconds: i64| Span::seconds(u32::try_from(seconds).unwrap_or(u32::MAX));
    SimulationSettings {
        policy: of.policy,
        ladder: of.ladder,
        ladder_first: of.ladder_first,
        expression: of.expression,
        tiers: of.tiers,
        model_in_use: Some(of.model),
        tick: seconds(of.tick_seconds),
        // The history replaces it once it has launches.
        launch_latency: LaunchLatency::Constant(seconds(of.launch_seconds)),
        scale_down_unneeded_time: seconds(of.unneeded_seconds),
        warm_max: of.warm_pool_max,
        ..SimulationSettings::default()
    }
}
