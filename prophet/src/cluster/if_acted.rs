//! What would have happened if a policy in the mode `Observe` had acted: the pods that its history
//! recorded, simulated with the autoscaler alone and under the policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::clock::Stopwatch;
use base::span::Span;
use chrono::{DateTime, TimeDelta, Utc};
use demand::forecast::Method;
use history::Place;
use placeholders::OuterLimits;
use recorded::if_acted::IfActed;
use recorded::{RecordedError, recorded_since};
use simulator::{LaunchLatency, NamedPolicy, SimulationSettings};
use tokio::sync::Semaphore;

use super::config::Config;
use super::history::{RECALLED, history_name};
use super::reading::Reading;
use super::settings::PolicySettings;
use crate::crd::Mode;
use crate::observe::{Key, Shared};

/// The last simulation of a policy, and the one in progress.
#[derive(Default)]
pub(super) struct IfActedText {
    /// What is simulated.
    of: Option<(NamedPolicy, SimulationSettings)>,
    reading: Option<Reading<String>>,
    /// When the next simulation begins. `None` before the first one.
    due: Option<DateTime<Utc>>,
    /// The result, or the reason why there is none.
    text: Option<String>,
}

/// The time from the end of a simulation to the next one.
const PAUSE: TimeDelta = TimeDelta::hours(6);

/// The time until the next simulation if the history could not be read, or has no pod that ended.
const PAUSE_AFTER_FAILURE: TimeDelta = TimeDelta::minutes(10);

/// The most pods that are simulated, so that they take tens of megabytes.
const PODS_MAX: usize = 50_000;

/// The longest simulation. It competes with the controller's loop for processors.
const SIMULATION_MAX: Duration = Duration::from_mins(5);

/// One simulation at a time, over all policies.
static ONE: Semaphore = Semaphore::const_new(1);

impl IfActedText {
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
        // The history has no announced demand, which is all that the method `scheduled` forecasts.
        let is_simulated = settings.mode == Mode::Observe && settings.method != Method::Scheduled;
        let Some(place) = config.data.clone().filter(|_| is_simulated) else {
            *self = Self::default();
            return None;
        };
        let of = (NamedPolicy::Forecast(settings.method, None), simulated(settings, config));
        if self.of.as_ref() != Some(&of) {
            *self = Self { of: Some(of.clone()), ..Self::default() };
        }
        if let Some(reading) = &mut self.reading
            && let Some(ended) = reading.ended(Duration::ZERO).await
        {
            self.reading = None;
            self.due = Some(now + if ended.is_ok() { PAUSE } else { PAUSE_AFTER_FAILURE });
            match ended {
                Ok(text) => self.text = Some(text),
                // An earlier result stays.
                Err(error) => {
                    self.text.get_or_insert_with(|| format!("Not known yet: {error:#}."));
                }
            }
        }
        if self.reading.is_none()
            && self.due.is_none_or(|due| due <= now)
            && let Ok(permit) = ONE.try_acquire()
        {
            let name = history_name(key);
            self.reading = Some(Reading::start(shared, async move |cancelled| {
                let text = simulate(&place, &name, &of, now, &cancelled).await;
                drop(permit);
                text
            }));
        }
        self.text.clone()
    }
}

/// The settings of a policy for a simulation.
fn simulated(settings: &PolicySettings, config: &Config) -> SimulationSettings {
    let mut policy = settings.policy.clone();
    // What other policies hold, and the pods that wait now, say nothing of the recorded pods.
    policy.limits.outer =
        OuterLimits { operator: config.allowed.ceiling, ..OuterLimits::default() };
    let seconds = |seconds: i64| Span::seconds(u32::try_from(seconds).unwrap_or(u32::MAX));
    SimulationSettings {
        policy,
        ladder: settings.ladder.clone(),
        ladder_first: settings.ladder_first,
        expression: settings.expression.clone(),
        tiers: settings.workloads.tiers.clone(),
        model_in_use: Some(config.model.clone()),
        tick: seconds(settings.tick_seconds),
        // The history replaces it once it has launches.
        launch_latency: LaunchLatency::Constant(seconds(config.launch_seconds)),
        ..SimulationSettings::default()
    }
}

/// Simulates the last days of a history, and returns the result as a text.
async fn simulate(
    place: &Place,
    policy: &str,
    (named_policy, settings): &(NamedPolicy, SimulationSettings),
    now: DateTime<Utc>,
    cancelled: &AtomicBool,
) -> anyhow::Result<String> {
    let begun = Stopwatch::now();
    let is_over = || cancelled.load(Ordering::Relaxed) || begun.elapsed() > SIMULATION_MAX;
    let read = recorded_since(place, policy, Some(now - RECALLED), PODS_MAX, &is_over).await;
    let too_long = || {
        let minutes = SIMULATION_MAX.as_secs() / 60;
        format!(
            "Not known: the simulation takes more than {minutes} minutes. Use prophet simulate --data."
        )
    };
    let recorded = match read {
        Ok(recorded) => recorded,
        Err(RecordedError::Cancelled) => return Ok(too_long()),
        Err(RecordedError::TooManyPods(most)) => {
            return Ok(format!(
                "Not known: more than {most} pods ended in {} days. Use prophet simulate --data.",
                RECALLED.num_days()
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let simulated = IfActed::simulate(&recorded, *named_policy, settings, &is_over);
    let simulated = simulated.map_err(anyhow::Error::msg)?;
    Ok(simulated.map_or_else(too_long, |simulated| simulated.to_string()))
}
