//! What would have happened if a policy in the mode `Observe` had acted: the pods that its history
//! recorded, simulated with the autoscaler alone and under the policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::config::Config;
use super::history::{RECALLED, history_name};
use super::reading::Reading;
use super::settings::PolicySettings;
use crate::clock::Stopwatch;
use crate::crd::Mode;
use crate::forecast::{Method, onnx};
use crate::observe::{Key, Shared};
use crate::record::store::Place;
use crate::simulate::{IfActed, NamedPolicy, SimulationSettings, recorded_since};
use crate::span::Span;

/// The last simulation of a policy, and the one in progress.
#[derive(Default)]
pub(super) struct InHindsight {
    reading: Option<Reading<String>>,
    /// When the next simulation begins. `None` before the first one.
    due: Option<DateTime<Utc>>,
    /// The result, or the reason why there is none.
    text: Option<String>,
}

/// The time between two simulations.
const PAUSE: TimeDelta = TimeDelta::hours(6);

/// The same after a failure, such as a history without pods that ended.
const PAUSE_AFTER_FAILURE: TimeDelta = TimeDelta::minutes(10);

/// The most pods that are simulated, so that a simulation takes tens of megabytes.
const PODS_MAX: usize = 50_000;

/// The longest simulation. It competes with the controller's loop for processors.
const SIMULATION_MAX: Duration = Duration::from_mins(5);

impl InHindsight {
    /// Returns the last result for a policy in the mode `Observe`, and begins a simulation in the
    /// background when the next one is due. Other policies have no result.
    pub(super) async fn text(
        &mut self,
        key: &Key,
        settings: &PolicySettings,
        config: &Config,
        shared: &Arc<Shared>,
        now: DateTime<Utc>,
    ) -> Option<String> {
        let place = config.data.clone();
        // The history has no announced demand, which is all that this method forecasts.
        let is_simulated = settings.mode == Mode::Observe && settings.method != Method::Scheduled;
        let Some(place) = place.filter(|_| is_simulated) else {
            *self = Self::default();
            return None;
        };
        if let Some(reading) = &mut self.reading
            && let Some(ended) = reading.ended(Duration::ZERO).await
        {
            self.reading = None;
            let pause = if ended.is_ok() { PAUSE } else { PAUSE_AFTER_FAILURE };
            self.due = Some(now + pause);
            self.text = Some(ended.unwrap_or_else(|error| format!("Not known yet: {error:#}.")));
        }
        if self.reading.is_none() && self.due.is_none_or(|due| due <= now) {
            let (name, of_policy) = (history_name(key), simulated(settings, config));
            let method = NamedPolicy::Forecast(settings.method, None);
            self.reading = Some(Reading::start(shared, async move |cancelled| {
                simulate(&place, &name, method, &of_policy, now, &cancelled).await
            }));
        }
        self.text.clone()
    }
}

/// The settings of a policy for a simulation.
fn simulated(settings: &PolicySettings, config: &Config) -> SimulationSettings {
    let mut policy = settings.policy.clone();
    // Recorded pods do not wait as the pods of now do.
    policy.limits.outer.yielding = None;
    let model = match &config.model {
        onnx::ModelSource::File(path) => Some(path.display().to_string()),
        _ => None,
    };
    SimulationSettings {
        policy,
        ladder: settings.ladder.clone(),
        tiers: settings.workloads.tiers.clone(),
        model,
        tick: Span::seconds(u32::try_from(settings.tick_seconds).unwrap_or(u32::MAX)),
        ..SimulationSettings::default()
    }
}

async fn simulate(
    place: &Place,
    policy: &str,
    named_policy: NamedPolicy,
    settings: &SimulationSettings,
    now: DateTime<Utc>,
    cancelled: &AtomicBool,
) -> anyhow::Result<String> {
    let recorded = recorded_since(place, policy, Some(now - RECALLED), PODS_MAX).await?;
    let begun = Stopwatch::now();
    let is_cancelled = || cancelled.load(Ordering::Relaxed) || begun.elapsed() > SIMULATION_MAX;
    let simulated = IfActed::simulate(&recorded, named_policy, settings, &is_cancelled);
    let too_long = || {
        format!(
            "Not known: to simulate {} pods takes more than {} minutes. prophet simulate --data has no limit.",
            recorded.jobs.len(),
            SIMULATION_MAX.as_secs() / 60
        )
    };
    Ok(simulated
        .map_err(anyhow::Error::msg)?
        .map_or_else(too_long, |simulated| simulated.to_string()))
}
