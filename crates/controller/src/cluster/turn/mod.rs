//! One policy's turn, in stages. Each stage returns what it found, and its faults.
//!
//! ```text
//! offer.rs    the buckets on offer
//! observe.rs  the policy's view of the cluster, and what happened since the last turn
//! decide.rs   embed, record, forecast, plan
//! actuate.rs  write the placeholders of the plan, or remove them
//! warm_pools.rs  the warm pools that the policy wants
//! kept.rs     the placeholders that an invalid policy keeps
//! ```
//!
//! The settings are read before these stages (`settings.rs`), and the line of a tick is appended to
//! the history after them (`history.rs`).

mod actuate;
mod decide;
mod kept;
mod observe;
mod offer;
mod warm_pools;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use control::Control;
use dashboard::Dashboard;
use demand::record::{KeptPlan, StepRun};
use placeholders::{OuterLimits, exceeded};

use self::actuate::{actuate, removed};
use self::kept::kept;
use self::warm_pools::warm_pools;
use super::blindness::Blindness;
use super::checks::check_prerequisites;
use super::config::Config;
use super::control_config::ControlConfig;
use super::gather::View;
use super::history::{PolicyHistory, Record};
use super::if_acted::IfActedText;
use super::launch_latencies::LaunchLatencies;
use super::launch_tracker::LaunchTracker;
use super::preempting::{Preempting, held};
use super::preemptions::Preemptions;
use super::rollout_state::RolloutState;
use super::settings::PolicySettings;
use super::shrinking::Shrinking;
use super::templates::templates;
use super::turn_input::TurnInput;
use super::unlearnt_arrivals::UnlearntArrivals;
use crate::account::Account;
use crate::catalog::{Offers, Sizes, is_capacity_label};
use crate::crd::{Mode, OverprovisioningPolicy};
use crate::explain::recalled;
use crate::observe::{Key, OFF_SWITCH, Shared};
use crate::outcome::{
    Cause, Decision, Faults, KeptPlaceholders, MESSAGES_MAX, Outcome, WarmPoolsOutcome,
};

/// One policy's state between turns. All of it can be rebuilt from the history and the cluster.
#[derive(Default)]
pub struct PolicyController {
    settings: Option<PolicySettings>,
    offers: Option<Arc<Offers>>,
    /// What is known of the nodes of groups. `None` until the policy's status is read.
    sizes: Option<Sizes>,
    /// The control, and the configuration from which it was built.
    control: Option<(ControlConfig, Control)>,
    history: PolicyHistory,
    if_acted: IfActedText,
    view: View,
    launch_tracker: LaunchTracker,
    launch_latencies: LaunchLatencies,
    preemptions: Preemptions,
    preempting: Preempting,
    unlearnt_arrivals: UnlearntArrivals,
    /// What became of plans, and what no control could learn yet.
    ended_plans: Vec<KeptPlan>,
    /// Steps of workflows that ended, and from which no control could learn yet.
    ended_steps: Vec<StepRun>,
    blindness: Blindness,
    rollout_state: RolloutState,
    shrinking: Shrinking,
    /// The groups whose placeholders yield to waiting pods, and the number that the policy had
    /// there when they began to.
    stood: Option<(Arc<BTreeSet<String>>, u64)>,
    account: Account,
}

impl PolicyController {
    /// Seconds between the policy's ticks.
    pub(super) fn tick_seconds(&self) -> Option<i64> {
        self.settings.as_ref().map(|settings| settings.tick_seconds)
    }

    /// The keys of the labels by which pods selected nodes, and that only nodes showed.
    pub(super) fn known_labels(&self) -> impl Iterator<Item = &String> {
        let known = self.sizes.iter().flat_map(Sizes::values);
        known.flat_map(|known| known.labels.keys()).filter(|key| !is_capacity_label(key))
    }

    /// Reads what the policy's status has of the nodes of groups. Does nothing once that is done.
    pub(super) fn recall_nodes(&mut self, policy: &OverprovisioningPolicy) {
        let status = policy.status.as_ref();
        self.sizes.get_or_insert_with(|| {
            status.map(|status| recalled(&status.nodes)).unwrap_or_default()
        });
    }

    /// The parts in the names of the buckets of the history.
    pub(super) fn recalled_parts(&self) -> impl Iterator<Item = &String> {
        self.history.parts()
    }

    /// Starts to read from the history what later steps need before the first turn: the names of
    /// buckets, and launch latencies. Does nothing once that is done or in progress.
    pub(super) fn begin_recall(
        &mut self,
        key: &Key,
        config: &Config,
        shared: &Arc<Shared>,
        (dashboard, tick_seconds): (&Arc<Dashboard>, i64),
        now: DateTime<Utc>,
    ) {
        self.history.begin(key, config, shared, (dashboard, tick_seconds), now);
    }

    /// Waits for what [`PolicyController::begin_recall`] started, until `limit` after its start.
    pub(super) async fn recall(&mut self, limit: Duration, now: DateTime<Utc>) {
        let read = self.history.read(limit, now).await;
        if let Some((launches, account)) = read {
            for launch in &launches {
                self.launch_latencies.learn(launch);
            }
            self.account = account;
        }
    }

    /// The longest lead time of the policy's forecasts, in seconds.
    pub(super) fn lead_seconds(&self) -> Option<i64> {
        self.control.as_ref().map(|(config, _)| config.forecaster.longest_lead_seconds())
    }

    /// The state after a restart of the controller.
    pub(super) fn restarted(self) -> Self {
        Self { history: self.history.restarted(), ..Self::default() }
    }

    /// When the placeholders of a bucket may be removed again.
    pub(super) fn removal_due(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.preempting.ends(now)
    }

    /// What the launches for the policy's placeholders showed.
    pub(super) fn launch_latencies(&self) -> &LaunchLatencies {
        &self.launch_latencies
    }

    /// Runs one turn.
    pub(super) async fn turn(&mut self, input: &TurnInput<'_>) -> Outcome {
        let mut outcome = match input.policy.spec.settings(&input.context.config.allowed) {
            Ok(settings) => self.valid(input, settings).await,
            Err(problems) => self.invalid(input, problems).await,
        };
        outcome.faults.add_all(Cause::ClockLeapt, input.context.clock_fault);
        if input.context.is_off {
            let message = format!("the ConfigMap {OFF_SWITCH} switches all policies off");
            outcome.faults.add(Cause::SwitchedOff, message);
        }
        outcome.faults.sort();
        outcome
    }

    /// An invalid policy changes nothing: its standing placeholders stay. The mode `Observe`
    /// removes them all the same, because it is how people stop a policy.
    async fn invalid(&self, input: &TurnInput<'_>, problems: Vec<String>) -> Outcome {
        let mut faults = Faults::default();
        faults.add_all(Cause::InvalidPolicy, problems);
        let stands = input.stands();
        let kept = if input.mode() == Mode::Observe {
            faults.append(removed(input, &stands).await);
            KeptPlaceholders::default()
        } else {
            kept(&stands, input.context)
        };
        let (account, stands) = (self.account.clone(), stands.replicas());
        Outcome { faults, stands, kept, account, ..Outcome::default() }
    }

    async fn valid(&mut self, input: &TurnInput<'_>, mut settings: PolicySettings) -> Outcome {
        self.settings = Some(settings.clone());
        let TurnInput { policy, now, writes, .. } = *input;
        let rollout_percent = self.rollout_state.percent(&settings, policy, writes, now);
        // The off switch ends no rollout. While it is set, no pod waits because of the policy.
        let rollout_percent = if input.context.is_off { Some(0) } else { rollout_percent };
        settings.mode = input.mode();
        let mut faults = self.refresh_offers(&settings, input.context);
        if let Some(offers) = self.offers.clone() {
            return self.with_offers(input, settings, rollout_percent, &offers, faults).await;
        }
        let stands = input.stands();
        if settings.mode == Mode::Observe || faults.has(Cause::OverlappingBuckets) {
            faults.append(removed(input, &stands).await);
        }
        let (account, stands) = (self.account.clone(), stands.replicas());
        Outcome {
            faults,
            stands,
            account,
            rollout: self.rollout_state.status(),
            ..Outcome::default()
        }
    }

    async fn with_offers(
        &mut self,
        input: &TurnInput<'_>,
        mut settings: PolicySettings,
        rollout_percent: Option<u8>,
        offers: &Arc<Offers>,
        mut faults: Faults,
    ) -> Outcome {
        let TurnInput { key, context, now, writes, .. } = *input;
        faults.append(self.prepare(&settings, offers, input).await);
        let (observation, stands, found) = self.observe(input, &settings, offers);
        faults.append(found);
        faults.append(check_prerequisites(&settings, offers, context));
        let refusals = stands.refusals().into_iter().take(MESSAGES_MAX);
        faults.add_all(Cause::PlaceholdersRefused, refusals);

        settings.policy.limits.outer = OuterLimits {
            operator: context.left,
            yielding: self.cap(&context.yielding, offers, &observation.observed.standing),
            unpriced: offers.unpriced(),
            rollout_percent,
            adds_none: context.many_not_ready,
        };
        let (decision, found) = self.decide(&settings, context.config, offers, &observation);
        faults.append(found);
        let is_tick = decision.as_ref().is_some_and(|decision| decision.turn.tick.is_some())
            && !context.is_off;
        if let Some((_, control)) = self.control.as_ref().filter(|_| is_tick && writes) {
            self.rollout_state.tick(&settings, control.history(), &offers.catalog, now);
        }
        let mut if_acted = None;
        if writes {
            let preempting = self.preempting(decision.as_ref(), offers, now);
            let made = templates(&input.owner, offers, &settings.placeholders, &self.shrinking);
            let plan = decision.as_ref().map(|decision| {
                let planned = &decision.turn.plan;
                let on_nodes = |bucket: usize, group: usize| stands.on_nodes(&made[bucket][group]);
                let held = held(planned, &preempting, on_nodes);
                let standing = &observation.observed.standing;
                let over = exceeded(&held, standing, &offers.catalog, &settings.policy);
                if over.is_empty() { held } else { planned.clone() }
            });
            let unfit = faults.has(Cause::PriorityClass) || faults.has(Cause::NoCapacityBuffers);
            let plan = plan.as_ref().filter(|_| !unfit);
            let state = (observation.blind, preempting.as_slice());
            faults.append(actuate(input, &stands, &settings, (plan, &made), state).await);
            let (config, shared) = (context.config, context.shared);
            if_acted = self.if_acted.text(key, &settings, config, shared, now).await;
        }
        // A slow history must not delay the placeholders.
        let control = self.control.as_ref().map(|(_, control)| control);
        let standing = &observation.observed.standing;
        let prepaid = observation.prepaid();
        let record = control.zip(decision.as_ref());
        let objective = settings.policy.objective;
        let record = record.map(|(control, decision)| Record {
            control,
            turn: &decision.turn,
            offers,
            standing,
            prepaid: &prepaid,
            objective,
        });
        faults.append(self.history.record(input, record).await);
        if !writes && context.config.own_history {
            // The status has only the faults of the replica that leads.
            for fault in faults.iter().filter(|fault| fault.cause == Cause::HistoryFailed) {
                tracing::warn!(fault = fault.message, "the history of this standby fails");
            }
        }
        let names = offers.catalog.buckets().iter().map(|bucket| bucket.name.as_str());
        let ready = observation.ready.iter().map(|groups| groups.iter().sum::<u64>());
        let paid = ready.zip(&prepaid).map(|(ready, prepaid)| ready - prepaid);
        self.account.add(now, names.zip(paid), &observation.launches, &observation.used);
        let mut outcome = Outcome {
            faults,
            offers: Some(Arc::clone(offers)),
            unread: context.unread.clone(),
            known: self.sizes.clone().unwrap_or_default(),
            observation,
            objective,
            decision,
            stands: stands.replicas(),
            warm_pools: WarmPoolsOutcome::default(),
            kept: KeptPlaceholders::default(),
            account: self.account.clone(),
            rollout: self.rollout_state.status(),
            if_acted,
        };
        let (placeholders, hourly) = outcome.placeholders_held();
        let left = context.left.less(placeholders, hourly);
        let decision = outcome.decision.as_ref();
        let (wanted, found) = warm_pools(input, &settings, offers, decision, left);
        outcome.warm_pools = wanted;
        outcome.faults.append(found);
        outcome
    }

    /// Whether pods may be preempting placeholders, by bucket.
    fn preempting(
        &mut self,
        decision: Option<&Decision>,
        offers: &Offers,
        now: DateTime<Utc>,
    ) -> Vec<bool> {
        let names = offers.catalog.buckets().iter().map(|bucket| bucket.name.as_str());
        let demand = decision.map(|decision| &decision.turn.demand);
        demand.map(|demand| self.preempting.note(names, demand, now)).unwrap_or_default()
    }

    /// Whether there is a control, and it has the buckets on offer.
    fn has_control_of(&self, offers: &Offers) -> bool {
        self.control.as_ref().is_some_and(|(of, _)| of.forecaster.catalog == offers.catalog)
    }
}
