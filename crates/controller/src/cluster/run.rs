//! One policy's turn: gather the policy's view of the cluster, decide, record, write.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::GIVE_UP;
use chrono::{DateTime, Utc};
use control::{Control, Observed, TierArrival};
use dashboard::Dashboard;
use demand::forecast::{ForecasterConfig, Lead, Method, onnx};
use demand::record::{PodStarts, ShapeId};
use embedder::{
    Bucket, BucketId, CatalogError, Gang, MicroDollars, PodRequest, VirtualInstance,
    virtual_instance,
};
use history::LaunchEnd;
use kube::Resource as _;
use placeholders::{OuterLimits, Owner, Standing, Template, Yielding};

use super::blindness::Blindness;
use super::checks::{check_surroundings, check_watches};
use super::config::Config;
use super::gather::{Seen, View, by_type, place};
use super::history::PolicyHistory;
use super::if_acted::IfActedText;
use super::launches::Launches;
use super::launching::Launching;
use super::preempting::Preempting;
use super::preemptions::{Preemptions, Taken};
use super::rolling::Rolling;
use super::settings::PolicySettings;
use super::shrinking::Shrinking;
use super::standing::{Stands, Writer};
use super::surroundings::Surroundings;
use super::templates::templates;
use super::unlearnt::{Arrived, Lesson, Unlearnt};
use super::yielding::Yield;
use crate::account::Account;
use crate::actuate::Actuator;
use crate::catalog::{Offers, Sizes, is_capacity_label, offers};
use crate::crd::{Mode, OverprovisioningPolicy, PlaceholderKind};
use crate::explain::recalled;
use crate::observe::{Index, Key, PlaceholderPod, PodClass, SCAN_SECONDS, Shared, World};
use crate::outcome::{Cause, Outcome};

/// One policy's state between turns. All of it can be rebuilt from the history and the cluster.
#[derive(Default)]
pub struct PolicyController {
    settings: Option<PolicySettings>,
    offers: Option<Arc<Offers>>,
    /// What is known of the nodes of groups. `None` until the policy's status is read.
    sizes: Option<Sizes>,
    /// The control, and the configuration from which its forecaster was built.
    control: Option<(ForecasterConfig, Control)>,
    history: PolicyHistory,
    if_acted: IfActedText,
    view: View,
    launching: Launching,
    launches: Launches,
    preemptions: Preemptions,
    preempting: Preempting,
    unlearnt: Unlearnt,
    blindness: Blindness,
    rolling: Rolling,
    shrinking: Shrinking,
    /// The groups whose placeholders yield to waiting pods, and the number that the policy had
    /// there when they began to.
    stood: Option<(Arc<BTreeSet<String>>, u64)>,
    account: Account,
}

/// The most refusals of placeholder pods, and the most failed writes, that a status lists.
const REFUSALS_MAX: usize = 5;

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
                self.launches.learn(launch);
            }
            self.account = account;
        }
    }

    /// The longest lead time of the policy's forecasts, in seconds.
    pub(super) fn lead_seconds(&self) -> Option<i64> {
        self.control.as_ref().map(|(config, _)| config.longest_lead_seconds())
    }

    /// When the placeholders of a bucket may be removed again.
    pub(super) fn removal_due(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.preempting.ends(now)
    }

    /// Whether launches of a group failed recently, as the policy's placeholders show.
    pub(super) fn backs_off(&self, group: &str, now: DateTime<Utc>) -> bool {
        self.launches.backs_off(group, now)
    }

    /// Runs one turn. Without `writes` it writes nothing anywhere (a dry run).
    pub(super) async fn turn(
        &mut self,
        key: &Key,
        policy: &OverprovisioningPolicy,
        around: &Surroundings<'_>,
        now: DateTime<Utc>,
        writes: bool,
    ) -> Outcome {
        let mut outcome = self.steps(key, policy, around, now, writes).await;
        outcome.faults.sort_by_key(|fault| fault.cause);
        outcome
    }

    /// The steps of a turn. The faults are in the order of the steps.
    async fn steps(
        &mut self,
        key: &Key,
        policy: &OverprovisioningPolicy,
        around: &Surroundings<'_>,
        now: DateTime<Utc>,
        writes: bool,
    ) -> Outcome {
        let mut outcome = Outcome { account: self.account.clone(), ..Outcome::default() };
        if let Some(fault) = around.clock_fault {
            outcome.fault(Cause::ClockLeapt, fault.to_owned());
        }
        let owner = owner(key, policy);
        let leadership = Arc::clone(around.leadership);
        let may_write = Arc::new(move || leadership.leads());
        let actuator = Actuator::new(around.client.clone(), &key.namespace, may_write);
        let sender = Writer { actuator, namespace: &key.namespace, writes: around.writes };
        let stands = || Stands::of(&around.shared.world(), key, &owner.uid);
        // An invalid policy changes nothing: its standing placeholders stay. The mode `Observe`
        // removes them all the same, because it is how people stop a policy.
        let mut settings = match policy.spec.settings(&around.config.allowed) {
            Ok(settings) => settings,
            Err(faults) => {
                for fault in faults {
                    outcome.fault(Cause::InvalidPolicy, fault);
                }
                let stands = stands();
                outcome.stands = stands.replicas();
                if policy.spec.mode == Mode::Observe {
                    if writes {
                        refused(stands.remove(&sender, now).await, &mut outcome);
                    }
                    return outcome;
                }
                keep_groups(&stands, around, &mut outcome);
                return outcome;
            }
        };
        self.settings = Some(settings.clone());
        let rollout_percent = self.rolling.percent(&settings, policy, writes, now);
        outcome.rollout = self.rolling.status();
        self.refresh_offers(&settings, around, &mut outcome);
        let Some(offers) = self.offers.clone() else {
            let all_taken = outcome.has(Cause::OverlappingBuckets);
            let stands = stands();
            outcome.stands = stands.replicas();
            if (settings.mode == Mode::Observe || all_taken) && writes {
                refused(stands.remove(&sender, now).await, &mut outcome);
            }
            return outcome;
        };
        outcome.offers = Some(Arc::clone(&offers));
        outcome.known = self.sizes.clone().unwrap_or_default();

        if !self.history.is_reading() && self.history.is_due(now) {
            let prepared = self.prepare(&settings, &offers, around, now).await;
            self.history.note(prepared, now);
        }
        if self.history.is_busy() && !self.has_control_of(&offers) {
            outcome.fault(Cause::ReadingHistory, "the history is being read");
        }
        for fault in self.history.faults(now) {
            outcome.fault(Cause::HistoryFailed, fault);
        }
        let stands = self.observe(key, &owner.uid, &settings, &offers, around, now, &mut outcome);
        outcome.stands = stands.replicas();
        check_surroundings(&settings, &offers, around, &mut outcome);
        for refusal in stands.refusals().into_iter().take(REFUSALS_MAX) {
            outcome.fault(Cause::PlaceholdersRefused, refusal);
        }

        settings.policy.limits.outer = OuterLimits {
            operator: around.left,
            yielding: self.cap(&around.yielding, &offers, &outcome.observed.standing),
            unpriced: offers.unpriced.clone(),
            rollout_percent,
        };
        // Embed, record, forecast, plan.
        self.run_control(&settings, around.config, &mut outcome);
        let is_tick = outcome.turn.as_ref().is_some_and(|turn| turn.tick.is_some());
        if let Some((_, control)) = self.control.as_ref().filter(|_| is_tick && writes) {
            self.rolling.tick(&settings, control.history(), &offers.catalog, now);
        }
        outcome.rollout = self.rolling.status();
        if writes {
            let made = templates(&owner, &offers, &settings.placeholders, &self.shrinking);
            let demand = outcome.turn.as_ref().map(|turn| &turn.demand);
            let names = offers.catalog.buckets().iter().map(|bucket| bucket.name.as_str());
            let preempting = demand.map(|demand| self.preempting.note(names, demand, now));
            let preempting = preempting.unwrap_or_default();
            actuate(&stands, &sender, &settings, (&made, &preempting), now, &mut outcome).await;
            let Surroundings { config, shared, .. } = around;
            outcome.if_acted = self.if_acted.text(key, &settings, config, shared, now).await;
        }
        // A slow history must not delay the placeholders.
        if (writes && around.leadership.leads()) || around.config.own_history {
            let control = self.control.as_ref().map(|(_, control)| control);
            self.history.write(key, control, around.config, now, &mut outcome).await;
        } else if !writes {
            // The replica that leads records them.
            self.history.forget();
        }
        if !writes && around.config.own_history {
            // The status has only the faults of the replica that leads.
            for fault in outcome.faults.iter().filter(|fault| fault.cause == Cause::HistoryFailed) {
                tracing::warn!(fault = fault.message, "the history of this standby fails");
            }
        }
        let names = offers.catalog.buckets().iter().map(|bucket| bucket.name.as_str());
        let ready = outcome.ready.iter().map(|groups| groups.iter().sum());
        self.account.add(now, names.zip(ready), &outcome.launches, &outcome.used);
        outcome.account = self.account.clone();
        outcome
    }

    /// The most placeholders that the policy may hold while placeholders yield to waiting pods.
    fn cap(&mut self, yielding: &Yield, offers: &Offers, standing: &Standing) -> Option<Yielding> {
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
            Yield::Shed(nodes, groups) => {
                let before = self.stood.take().filter(|(of, _)| of == groups);
                let (_, stood) = self.stood.insert(before.unwrap_or((Arc::clone(groups), stands)));
                stood.saturating_sub(*nodes).min(stands)
            }
            Yield::Hold(_) | Yield::No => {
                self.stood = None;
                stands
            }
        };
        (!buckets.is_empty()).then_some(Yielding { most, buckets })
    }

    /// Rebuilds the buckets on offer, and replaces them if they changed.
    fn refresh_offers(
        &mut self,
        settings: &PolicySettings,
        around: &Surroundings<'_>,
        outcome: &mut Outcome,
    ) {
        let Surroundings { config, shared, groups, selected_labels, taken, .. } = around;
        let world = shared.world();
        let nodes = world.index.nodes();
        let comparison = config.comparison(selected_labels, around.named_parts);
        let sizes = self.sizes.get_or_insert_default();
        let Some(mut all) = groups.with(&world, &comparison, sizes) else {
            let why = groups.failing.clone().unwrap_or_else(|| "no groups read yet".into());
            return outcome.fault(Cause::CatalogFailed, why);
        };
        let allowed = &config.allowed;
        all.retain(|group| settings.buckets.select(group) && allowed.allow(group));
        let (theirs, ours): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|group| taken.contains(&group.name));
        if !theirs.is_empty() {
            let names: Vec<&str> = theirs.iter().map(|group| group.name.as_str()).collect();
            let message = format!("an older policy uses the groups {}", names.join(", "));
            outcome.fault(Cause::OverlappingBuckets, message);
        }
        let daemons = world.index.daemons();
        let made = offers(&ours, nodes, &daemons, &comparison, sizes);
        drop(world);
        match made {
            Ok(made) => {
                if self.offers.as_deref() != Some(&made) {
                    self.offers = Some(Arc::new(made));
                }
            }
            Err(CatalogError::Empty) => {
                self.offers = None;
                if theirs.is_empty() {
                    let message = "the policy's buckets select no group of nodes";
                    outcome.fault(Cause::NoBuckets, message);
                }
            }
            Err(error) => outcome.fault(Cause::Groups, error.to_string()),
        }
    }

    /// Rebuilds the control from the history if its configuration changed. Until that is done, the
    /// present control stays.
    async fn prepare(
        &mut self,
        settings: &PolicySettings,
        offers: &Offers,
        around: &Surroundings<'_>,
        now: DateTime<Utc>,
    ) -> anyhow::Result<()> {
        let config = self.config(settings, offers, around.config);
        if self.control.as_ref().is_some_and(|(of, _)| *of == config) {
            return Ok(());
        }
        let rebuilt = self
            .history
            .rebuilt(&config, settings.tick_seconds, around.shared, around.patience, now)
            .await?;
        let Some(mut control) = rebuilt else { return Ok(()) };
        if let Some((_, predecessor)) = &self.control {
            control.succeed(predecessor);
        }
        self.control = Some((config, control));
        Ok(())
    }

    fn config(
        &self,
        settings: &PolicySettings,
        offers: &Offers,
        config: &Config,
    ) -> ForecasterConfig {
        // The latency is rounded up to 10 s, so that not every launch rebuilds the control. A
        // launch that took longer than the limit counts as the limit, so that one shortage does not
        // stretch the lead time of all buckets to hours.
        let rounded = |seconds: i64| (seconds.min(GIVE_UP.num_seconds()) + 9) / 10 * 10;
        let lead = |bucket: &Bucket| {
            let groups = bucket.groups.iter();
            let seen = groups.filter_map(|group| self.launches.latency_seconds(&group.name)).max();
            let latency = seen.map_or(config.launch_seconds, rounded);
            Lead::covering(latency, settings.tick_seconds, SCAN_SECONDS)
        };
        ForecasterConfig {
            leads: Lead::at_most_three(offers.catalog.buckets().iter().map(lead).collect()),
            catalog: offers.catalog.clone(),
            method: settings.method,
            ladder: settings.ladder.clone(),
            ladder_first: settings.ladder_first,
            expression: settings.expression.clone(),
            tiers: settings.workloads.tiers.clone(),
            objective: settings.policy.objective,
            model: config.model.clone(),
            patient: false,
        }
    }

    /// Reads the watched objects: the policy's view of the cluster, its standing placeholders, the
    /// launches that ended, and the nodes that other workloads took.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a separate input, and no two of them belong together"
    )]
    fn observe(
        &mut self,
        key: &Key,
        uid: &str,
        settings: &PolicySettings,
        offers: &Arc<Offers>,
        around: &Surroundings<'_>,
        now: DateTime<Utc>,
        outcome: &mut Outcome,
    ) -> Stands {
        let world = around.shared.world();
        let karpenter = around.config.scope.karpenter;
        outcome.blind = check_watches(&world, key, settings, karpenter, outcome);
        let stands = Stands::of(&world, key, uid);
        self.note_placeholders(&world, key, uid, now, outcome);
        let places = stands.places(&key.namespace, offers);
        let mut ended = if outcome.blind {
            // A launch may have ended without an event.
            Vec::new()
        } else {
            let (index, workloads) = (&world.index, &settings.workloads);
            let scale_ups = &world.scale_ups;
            self.launching.ended(index, &places, (offers, workloads), scale_ups, GIVE_UP, now)
        };
        if settings.placeholders.kind == PlaceholderKind::CapacityBuffer {
            // The nodes that CapacityBuffers launched in time are not reported, so the nodes that
            // pods waited for would seem to be all launches.
            ended.retain(|launch| !matches!(launch.end, LaunchEnd::WaitedFor(_)));
        }
        for launch in &ended {
            self.launches.learn(launch);
        }
        let buckets = offers.catalog.buckets();
        let backs_off = |bucket: usize, group: usize| {
            let members = &offers.groups[bucket][group].members;
            members.iter().all(|member| world.backoff.contains(member))
                || self.launches.backs_off(&buckets[bucket].groups[group].name, now)
        };
        let control = self.control.as_ref();
        let leads = control.map_or_else(Vec::new, |(config, _)| {
            config.leads.iter().map(|lead| lead.seconds).collect()
        });
        let window = (now.timestamp(), leads.as_slice());
        let (index, workloads) = (&world.index, &settings.workloads);
        let seen = self.view.gather(index, offers, workloads, &places, &backs_off, window);
        let Seen { cluster, announced_first, mut standing, ready, tiers, held_back, unfit } = seen;
        if settings.placeholders.kind == PlaceholderKind::CapacityBuffer {
            for ((bucket, group), nodes) in stands.buffered(offers) {
                standing.buckets[bucket][group].placeholders += nodes;
            }
        }
        let ready_in_buckets = ready.iter().map(|groups| groups.iter().sum()).collect();
        self.blindness.note(outcome.blind, now, || {
            let bucket = |(id, bucket): (BucketId, &Bucket)| {
                (bucket.name.clone(), standing.placeholders(id))
            };
            buckets.iter().enumerate().map(bucket).collect()
        });
        let can_learn = !outcome.blind && self.has_control_of(offers);
        let arrived = match self.unlearnt.turn(around, can_learn, settings.tick_seconds, now) {
            Lesson::Learn(arrived) => Some(arrived),
            // An announced gang has not arrived yet, so it can be learnt later even if arrivals are
            // dropped.
            Lesson::Later | Lesson::Drop => {
                self.view.postpone(&announced_first);
                None
            }
        };
        let (mut arrivals, mut of_tiers, mut gangs) = <_>::default();
        if let Some(Arrived { pods, gangs: formed }) = arrived {
            (arrivals, of_tiers) = self.arrivals(&pods, settings, offers);
            let announced_first = announced_first.into_iter().map(|(_, gang)| gang).collect();
            gangs = self.gangs(announced_first, &formed, settings, offers);
        }
        let starts =
            if outcome.blind { Vec::new() } else { starts(index, offers, settings, around) };
        if around.config.data.is_some() {
            self.history.finished.note(around, (index, offers, workloads), &mut self.view, now);
        }
        outcome.observed = Observed {
            time: now,
            cluster,
            rooms: None,
            standing,
            ready: ready_in_buckets,
            arrivals,
            tiers: of_tiers,
            gangs,
            starts,
        };
        (outcome.ready, outcome.tiers) = (ready, tiers);
        (outcome.held_back, outcome.unfit) = (held_back, unfit);
        let bucket_of = |set: &Key| {
            places.get(set).map(|&(bucket, _)| offers.catalog.buckets()[bucket].name.clone())
        };
        let Taken { charges, by_others } =
            self.preemptions.taken(&around.occurred.preempted, bucket_of, index, workloads, now);
        (outcome.charges, outcome.taken_by_other_workload) = (charges, by_others);
        let used = self.launching.used(index, &places, (offers, workloads), now);
        self.history.ended(&ended, &used);
        (outcome.launches, outcome.used) = (ended, used);
        let latency = |group: &embedder::Group| {
            self.launches.latency_seconds(&group.name).unwrap_or(around.config.launch_seconds)
        };
        outcome.launch_seconds =
            buckets.iter().map(|bucket| bucket.groups.iter().map(latency).collect()).collect();
        stands
    }

    /// Compares the policy's placeholders with their templates, and adds a fault for those that
    /// differ and for those for which an autoscaler launches no node.
    fn note_placeholders(
        &mut self,
        world: &World,
        key: &Key,
        uid: &str,
        now: DateTime<Utc>,
        outcome: &mut Outcome,
    ) {
        let placeholders =
            world.index.placeholders().filter(|(pod, _)| pod.namespace == key.namespace);
        let set_of = |pod: &Key, placeholder: &PlaceholderPod| {
            let name = placeholder.replica_set.clone();
            let set = world.sets.get(&Key { namespace: pod.namespace.clone(), name })?;
            (set.owner == uid).then_some(set)
        };
        let sets = world.sets.values().filter(|set| set.owner == uid);
        self.shrinking.recall(uid, sets, now);
        let noted = self.shrinking.note(placeholders, set_of, &world.scale_ups_reported, now);
        let faults = [
            (Cause::PlaceholdersChanged, noted.changed),
            (Cause::PlaceholderNotTriggering, noted.not_triggering),
        ];
        for (cause, messages) in faults {
            for message in messages.into_iter().take(REFUSALS_MAX) {
                outcome.fault(cause, message);
            }
        }
    }

    /// Whether there is a control, and it has the buckets on offer.
    fn has_control_of(&self, offers: &Offers) -> bool {
        self.control.as_ref().is_some_and(|(of, _)| of.catalog == offers.catalog)
    }

    /// The number of arrived batch pods by shape, and of those that belong to a tier, by tier and
    /// shape. Assigns a number to each new shape.
    fn arrivals(
        &mut self,
        arrivals: &[(PodClass, u64)],
        settings: &PolicySettings,
        offers: &Offers,
    ) -> (Vec<(ShapeId, u64)>, Vec<TierArrival>) {
        let (mut all, mut of_tiers) = (Vec::new(), Vec::new());
        let Some((_, control)) = &mut self.control else { return (all, of_tiers) };
        let workloads = &settings.workloads;
        for (class, count) in arrivals.iter().filter(|(class, _)| workloads.select(class)) {
            let shape = self.view.shape(class, offers, workloads);
            if let Some(id) = control.intern(&shape) {
                all.push((id, *count));
                of_tiers.extend(workloads.tier(class).map(|name| (name.to_owned(), id, *count)));
            }
        }
        (all, of_tiers)
    }

    /// The virtual instances of the gangs that arrived, of those that are larger than an instance.
    fn gangs(
        &mut self,
        mut gangs: Vec<Gang>,
        arrived: &[Vec<(PodClass, u64)>],
        settings: &PolicySettings,
        offers: &Offers,
    ) -> Vec<VirtualInstance> {
        for pods in arrived {
            let ours = pods.iter().filter(|(class, _)| settings.workloads.select(class));
            let requests = ours.map(|(class, count)| PodRequest {
                shape: self.view.shape(class, offers, &settings.workloads),
                count: *count,
            });
            gangs.push(Gang { requests: requests.collect() });
        }
        let needs = gangs.iter().filter_map(|gang| virtual_instance(gang, &offers.catalog).ok());
        needs.filter(|gang| gang.instances > 1).collect()
    }

    /// Runs the control's turn: embed, record, forecast, plan.
    fn run_control(&mut self, settings: &PolicySettings, config: &Config, outcome: &mut Outcome) {
        let Some((of, control)) = &mut self.control else { return };
        // A control of other buckets remains if the history could not be read to rebuild it. Its
        // plan would be for the wrong buckets, so the standing placeholders stay.
        if outcome.offers.as_ref().is_none_or(|offers| offers.catalog != of.catalog) {
            return;
        }
        outcome.objective = settings.policy.objective;
        outcome.lead_seconds = of.leads.iter().map(|lead| lead.seconds).collect();
        if outcome.blind {
            let names = of.catalog.buckets().iter().map(|bucket| bucket.name.as_str());
            let now = outcome.observed.time;
            let headroom = self.blindness.headroom(names, of.longest_lead_seconds(), now);
            outcome.turn = headroom.map(|headroom| {
                control.outdated_turn(&outcome.observed, &settings.policy, &headroom)
            });
            return;
        }
        outcome.turn = Some(control.turn(&outcome.observed, &settings.policy));
        outcome.weights = (0..of.catalog.len()).map(|bucket| control.weights(bucket)).collect();
        // A shipped model that does not fit the policy's ticks is no fault if neither the operator
        // nor the policy selected a model.
        let asked_for =
            config.model != onnx::ModelSource::Pretrained || settings.method == Method::Onnx;
        for fault in control.faults().into_iter().filter(|_| asked_for) {
            outcome.fault(Cause::Model, format!("{} is not used: {fault}", config.model));
        }
    }
}

/// Keeps the groups of standing placeholders from younger policies, and counts their cost, while
/// the policy is invalid.
fn keep_groups(stands: &Stands, around: &Surroundings<'_>, outcome: &mut Outcome) {
    let comparison = around.config.comparison(around.selected_labels, around.named_parts);
    let offers = around.groups.offers(&around.shared.world(), &comparison).ok();
    for (name, replicas) in stands.groups() {
        let buckets = offers.iter().flat_map(|offers| {
            offers.catalog.buckets().iter().zip(&offers.groups).flat_map(|(bucket, groups)| {
                let groups = bucket.groups.iter().zip(groups);
                groups.map(|(group, offer)| (bucket.hourly, &group.name, &offer.members))
            })
        });
        match buckets.into_iter().find(|(_, group, _)| *group == name) {
            Some((hourly, _, members)) => {
                outcome.kept_groups.extend(members.iter().cloned());
                let cost = outcome.kept_hourly.0.saturating_add(hourly.times(replicas).0);
                outcome.kept_hourly = MicroDollars(cost);
            }
            None => outcome.kept_groups.push(name.into()),
        }
    }
}

/// The batch pods that started since the last turn, by bucket. Pods on nodes outside the buckets,
/// and those of a tier with the weight 0, are left out.
fn starts(
    index: &Index,
    offers: &Offers,
    settings: &PolicySettings,
    around: &Surroundings<'_>,
) -> Vec<(BucketId, PodStarts)> {
    let by_type = by_type(offers);
    let workloads = &settings.workloads;
    let counts =
        |class: &PodClass| workloads.select(class) && workloads.tiers.count(class.priority);
    let of_batch = around.occurred.starts.iter().filter(|(class, ..)| counts(class));
    let in_bucket = of_batch.filter_map(|(_, node, starts)| {
        let facts = index.nodes().by_name(node)?.facts.as_ref()?;
        let (bucket, _) = place(facts, offers, &by_type)?;
        Some((bucket, *starts))
    });
    in_bucket.collect()
}

fn owner(key: &Key, policy: &OverprovisioningPolicy) -> Owner {
    Owner {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: policy.meta().uid.clone().unwrap_or_default(),
    }
}

async fn actuate(
    stands: &Stands,
    sender: &Writer<'_>,
    settings: &PolicySettings,
    (templates, preempting): (&[Vec<Template>], &[bool]),
    now: DateTime<Utc>,
    outcome: &mut Outcome,
) {
    if settings.mode == Mode::Observe {
        if !stands.is_empty() {
            refused(stands.remove(sender, now).await, outcome);
        }
        return;
    }
    let kind = settings.placeholders.kind;
    let unfit = outcome
        .faults
        .iter()
        .any(|fault| matches!(fault.cause, Cause::PriorityClass | Cause::NoCapacityBuffers));
    let Some(turn) = outcome.turn.as_ref().filter(|_| !unfit) else { return };
    let state = (outcome.blind, preempting);
    let failed = stands.lead(sender, &turn.plan, templates, kind, state, now).await;
    refused(failed, outcome);
}

/// Adds failed writes to the faults: the first ones by name, so that the status stays small and
/// does not change with the order of responses.
fn refused(mut failed: Vec<String>, outcome: &mut Outcome) {
    failed.sort_unstable();
    let more = failed.len().saturating_sub(REFUSALS_MAX);
    failed.truncate(REFUSALS_MAX);
    for error in failed {
        outcome.fault(Cause::WriteFailed, error);
    }
    if more > 0 {
        outcome.fault(Cause::WriteFailed, format!("{more} more writes failed"));
    }
}
