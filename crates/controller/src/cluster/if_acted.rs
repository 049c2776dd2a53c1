//! What would have happened if a policy in the mode `Observe` had acted: the pods that its history
//! recorded, simulated with the autoscaler alone and under the policy.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use demand::forecast::Method;
use placeholders::OuterLimits;
use tokio::sync::Semaphore;

use super::acting::{ActingPolicy, RecordedPods};
use super::background_read::BackgroundRead;
use super::config::Config;
use super::history::{RECALLED, history_name};
use super::settings::PolicySettings;
use crate::crd::Mode;
use crate::observe::{Key, Shared};

/// The last simulation of a policy, and the one in progress.
#[derive(Default)]
pub(super) struct IfActedText {
    /// The policy that was simulated last, or that is being simulated.
    of: Option<ActingPolicy>,
    reading: Option<BackgroundRead<String>>,
    /// When the next simulation begins. `None` before the first one.
    due: Option<DateTime<Utc>>,
    /// The result, or the reason why there is none.
    text: Option<String>,
}

/// The time from the end of a simulation to the next one.
const PAUSE: TimeDelta = TimeDelta::hours(6);

/// The time until the next simulation if the history could not be read, or has no pod that ended.
const PAUSE_AFTER_FAILURE: TimeDelta = TimeDelta::minutes(10);

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
        let given = config.data.clone().zip(config.simulate_if_acted.clone());
        let Some((place, simulate)) = given.filter(|_| is_simulated) else {
            *self = Self::default();
            return None;
        };
        let of = acting(settings, config);
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
            let pods = RecordedPods { place, name: history_name(key), since: now - RECALLED };
            self.reading = Some(BackgroundRead::start(shared, async move |cancelled| {
                let text = simulate(pods, of, cancelled).await;
                drop(permit);
                text
            }));
        }
        self.text.clone()
    }
}

/// The policy for a simulation.
fn acting(settings: &PolicySettings, config: &Config) -> ActingPolicy {
    let mut policy = settings.policy.clone();
    // The placeholders of other policies and the pods that wait now do not concern the recorded
    // pods.
    policy.limits.outer =
        OuterLimits { operator: config.allowed.ceiling, ..OuterLimits::default() };
    ActingPolicy {
        method: settings.method,
        policy,
        ladder: settings.ladder.clone(),
        ladder_first: settings.ladder_first,
        expression: settings.expression.clone(),
        tiers: settings.workloads.tiers.clone(),
        warm_pool_max: settings.warm_pool.map(|pool| pool.max.into()),
        model: config.model.clone(),
        tick_seconds: settings.tick_seconds,
        launch_seconds: config.launch_seconds,
        unneeded_seconds: config.unneeded_seconds,
    }
}
