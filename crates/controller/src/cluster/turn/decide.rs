//! Runs the control of a policy: embed, record, forecast, plan.

use std::sync::Arc;

use base::GIVE_UP;
use chrono::{DateTime, Utc};
use control::{Control, WARM_SHARE, WARM_START_SECONDS, WarmTerms};
use demand::forecast::{ForecasterConfig, Lead};
use embedder::{Bucket, BucketId};
use placeholders::{Standing, Yielding};

use super::PolicyController;
use crate::catalog::{Offer, Offers, StandingPools};
use crate::cluster::config::Config;
use crate::cluster::control_config::{ControlConfig, WarmPoolsConfig};
use crate::cluster::settings::PolicySettings;
use crate::cluster::turn_input::{TurnContext, TurnInput};
use crate::cluster::yielding::Yield;
use crate::observe::SCAN_SECONDS;
use crate::outcome::{Cause, Decision, Faults, Observation};

impl PolicyController {
    /// Rebuilds the control from the history if its configuration changed. Until that is done, the
    /// present control stays.
    pub(super) async fn prepare(
        &mut self,
        settings: &PolicySettings,
        offers: &Offers,
        input: &TurnInput<'_>,
    ) -> Faults {
        let now = input.now;
        if !self.history.is_reading() && self.history.is_due(now) {
            let rebuilt = self.rebuild(settings, offers, input).await;
            self.history.note(rebuilt, now);
        }
        let mut faults = Faults::default();
        if self.history.is_busy() && !self.has_control_of(offers) {
            faults.add(Cause::ReadingHistory, "the history is being read");
        }
        faults.add_all(Cause::HistoryFailed, self.history.faults(now));
        faults
    }

    async fn rebuild(
        &mut self,
        settings: &PolicySettings,
        offers: &Offers,
        TurnInput { context, now, .. }: &TurnInput<'_>,
    ) -> anyhow::Result<()> {
        let config = self.config(settings, offers, context);
        if self.control.as_ref().is_some_and(|(of, _)| *of == config) {
            return Ok(());
        }
        let rebuilt = self.history.rebuilt(&config, context.shared, context.patience, *now).await?;
        let Some(mut control) = rebuilt else { return Ok(()) };
        match &self.control {
            Some((_, predecessor)) => control.succeed(predecessor),
            // After a restart, the pools that stand were wanted a moment ago.
            None => resume(&mut control, offers, context.groups.warm_pools(), *now),
        }
        self.control = Some((config, control));
        Ok(())
    }

    fn config(
        &self,
        settings: &PolicySettings,
        offers: &Offers,
        context: &TurnContext<'_>,
    ) -> ControlConfig {
        let (config, launches) = (context.config, &self.launch_latencies);
        // The latency is rounded up to 10 s, so that not every launch rebuilds the control. A
        // launch that took longer than the limit counts as the limit, so that one shortage does not
        // stretch the lead time of all buckets to hours.
        let rounded = |seconds: i64| (seconds.min(GIVE_UP.num_seconds()) + 9) / 10 * 10;
        let slowest = |bucket: &Bucket, latency: &dyn Fn(&str) -> Option<i64>, unknown| {
            let seen = bucket.groups.iter().filter_map(|group| latency(&group.name)).max();
            seen.map_or(unknown, rounded)
        };
        let leads = |latency: &dyn Fn(&str) -> Option<i64>| {
            let lead = |bucket| {
                let latency = slowest(bucket, latency, config.launch_seconds);
                Lead::covering(latency, settings.tick_seconds, SCAN_SECONDS)
            };
            Lead::at_most_three(offers.catalog.buckets().iter().map(lead).collect())
        };
        let forecaster = ForecasterConfig {
            leads: leads(&|group| launches.latency_seconds(group)),
            unneeded_seconds: offers.groups.iter().map(|groups| unneeded(groups, config)).collect(),
            catalog: offers.catalog.clone(),
            method: settings.method,
            ladder: settings.ladder.clone(),
            ladder_first: settings.ladder_first,
            expression: settings.expression.clone(),
            tiers: settings.workloads.tiers.clone(),
            objective: settings.policy.objective,
            model: config.model.clone(),
            patient: false,
        };
        let of_new = |group: &str| launches.new_instance_seconds(group);
        let warm_pools = settings.warm_pool.map(|_| {
            let terms = |(bucket, groups): (&Bucket, &Vec<Offer>)| {
                let mut members = groups.iter().flat_map(|offer| &offer.members);
                let has_room = |group| context.groups.warm_pool_room(group).is_some();
                members.any(|group| has_room(group)).then(|| WarmTerms {
                    launch_seconds: slowest(bucket, &of_new, config.launch_seconds),
                    start_seconds: slowest(
                        bucket,
                        &|group| launches.start_seconds(group),
                        WARM_START_SECONDS,
                    ),
                    share: WARM_SHARE,
                })
            };
            let buckets = offers.catalog.buckets().iter().zip(&offers.groups);
            WarmPoolsConfig { leads: leads(&of_new), terms: buckets.map(terms).collect() }
        });
        ControlConfig { forecaster, tick_seconds: settings.tick_seconds, warm_pools }
    }

    /// The most placeholders that the policy may hold while placeholders yield to waiting pods.
    pub(super) fn cap(
        &mut self,
        yielding: &Yield,
        offers: &Offers,
        standing: &Standing,
    ) -> Option<Yielding> {
        let groups = match yielding {
            Yield::No => {
                self.stood = None;
                return None;
            }
            Yield::Hold(groups) | Yield::Shed(_, groups) => groups,
        };
        let yields = |&bucket: &BucketId| {
            let mut members = offers.groups[bucket].iter().flat_map(|offer| &offer.members);
            members.any(|member| groups.contains(member))
        };
        let buckets: Vec<BucketId> = (0..offers.groups.len()).filter(yields).collect();
        let stands =
            buckets.iter().fold(0, |sum: u64, id| sum.saturating_add(standing.placeholders(*id)));
        let most = match yielding {
            Yield::Shed(shed, groups) => {
                let before = self.stood.take().filter(|(of, _)| of == groups);
                let (_, stood) = self.stood.insert(before.unwrap_or((Arc::clone(groups), stands)));
                stood.saturating_sub(shed.of(*stood)).min(stands)
            }
            Yield::Hold(_) | Yield::No => {
                self.stood = None;
                stands
            }
        };
        (!buckets.is_empty()).then_some(Yielding { most, buckets })
    }

    /// Runs the control's turn. `None` while no control has the buckets on offer, and while all
    /// placeholders stay because watches fail and no limit is below what stands.
    pub(super) fn decide(
        &mut self,
        settings: &PolicySettings,
        config: &Config,
        offers: &Offers,
        observation: &Observation,
    ) -> (Option<Decision>, Faults) {
        let mut faults = Faults::default();
        // A control of other buckets remains if the history could not be read to rebuild it. Its
        // plan would be for the wrong buckets, so the standing placeholders stay.
        let control =
            self.control.as_mut().filter(|(of, _)| of.forecaster.catalog == offers.catalog);
        let Some((ControlConfig { forecaster: of, .. }, control)) = control else {
            return (None, faults);
        };
        let observed = &observation.observed;
        let decision = |control: &Control, turn, weights| Decision {
            turn,
            lead_seconds: of.leads.iter().map(|lead| lead.seconds).collect(),
            weights,
            kept: {
                let authors = observation.plans.iter().map(|plan| &plan.author);
                let kept = |author: &String| Some((author.clone(), control.kept(author)?));
                authors.filter_map(kept).collect()
            },
        };
        if observation.blind {
            let names = of.catalog.buckets().iter().map(|bucket| bucket.name.as_str());
            let lead_seconds = of.longest_lead_seconds();
            let stays = self.blindness.headroom(names, lead_seconds, observed.time);
            let stands = || {
                let buckets = 0..of.catalog.len();
                buckets.map(|bucket| observed.standing.placeholders(bucket)).collect()
            };
            let shrinks = stays.is_some();
            let headroom = stays.unwrap_or_else(stands);
            let mut policy = settings.policy.clone();
            // Which pods wait is out of date, too.
            policy.limits.outer.yielding = policy.limits.outer.yielding.filter(|_| shrinks);
            let turn = control.outdated_turn(observed, &policy, &headroom);
            let outdated = (shrinks || !turn.plan.is_empty()).then_some(turn);
            return (outdated.map(|turn| decision(control, turn, Vec::new())), faults);
        }
        let turn = control.turn(observed, &settings.policy);
        let weights = (0..of.catalog.len()).map(|bucket| control.weights(bucket)).collect();
        if control.shapes().is_full() {
            let sizes = control.shapes().len();
            faults.add(
                Cause::ShapesFull,
                format!(
                    "pods have {sizes} different sizes; pods of further sizes are not learnt, so give the pods of a job equal requests"
                ),
            );
        }
        for fault in control.faults() {
            faults.add(Cause::Model, format!("{} is not used: {fault}", config.model));
        }
        (Some(decision(control, turn, weights)), faults)
    }
}

/// How long a node of a bucket must be unneeded before the autoscaler removes it, in seconds: the
/// longest time of its groups. The setting of the controller counts for groups whose source does
/// not have it.
fn unneeded(groups: &[Offer], config: &Config) -> i64 {
    let setting = config.unneeded_seconds;
    let times = groups.iter().map(|offer| offer.unneeded_seconds.unwrap_or(setting));
    times.max().unwrap_or(setting)
}

/// Takes the warm pools that stand as those that are wanted at `now`.
fn resume(control: &mut Control, offers: &Offers, pools: &StandingPools, now: DateTime<Utc>) {
    let Some(warm_pools) = control.warm_pools_mut() else { return };
    for (bucket, groups) in offers.groups.iter().enumerate() {
        let members = groups.iter().flat_map(|offer| &offer.members);
        let standing = members.filter_map(|group| pools.pools.get(group));
        let size = standing.fold(0, |sum: u64, pool| sum.saturating_add(pool.held()));
        warm_pools.resume(bucket, size, now);
    }
}
