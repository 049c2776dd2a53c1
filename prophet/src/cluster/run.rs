//! One policy's turn: gather what it sees, decide, record, write.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use embedder::CatalogError;
use kube::{Client, Resource as _};
use placeholders::{Actuator, Owner, Template};

use super::Config;
use super::checks::{check_surroundings, taken_by_others};
use super::outcome::{Cause, Outcome};
use super::sources::Groups;
use super::standing::Stands;
use super::templates::templates;
use crate::catalog::{Offers, Sizes, offers};
use crate::control::{Control, GIVE_UP, Now, lead};
use crate::crd::{Kind, Mode, OverprovisioningPolicy, Settings};
use crate::forecast::{Basis, Method, onnx};
use crate::observe::{Daemon, Key, Launching, PodClass, Preempted, Shared, View};
use crate::record::{Appended, Journal, Launch, LaunchEnd, Launches};

/// One policy's state between turns. All of it can be made anew from the history and the cluster.
#[derive(Default)]
pub struct Run {
    settings: Option<Settings>,
    offers: Option<Arc<Offers>>,
    sizes: Sizes,
    control: Option<Control>,
    journal: Option<Journal>,
    view: View,
    launching: Launching,
    launches: Launches,
    /// Launches that are not in the history yet.
    unrecorded: Vec<Launch>,
    /// The day before which all days of the history are closed.
    closed: Option<NaiveDate>,
}

/// What a turn goes by beside the policy.
pub(super) struct Surroundings<'a> {
    pub(super) client: &'a Client,
    pub(super) config: &'a Config,
    pub(super) shared: &'a Shared,
    pub(super) groups: &'a Groups,
    /// Buckets that an older policy has.
    pub(super) taken: &'a BTreeSet<String>,
    /// Pods of workloads that came since the last turn.
    pub(super) arrivals: &'a [(PodClass, u64)],
    /// Placeholders that were preempted since the last turn.
    pub(super) preempted: &'a [Preempted],
}

/// Histories older than this say nothing any more.
const RECALLED: TimeDelta = TimeDelta::days(14);

/// The half-life by which experts' costs are forgotten: a restart need not take longer.
const JUDGED: TimeDelta = TimeDelta::days(7);

impl Run {
    /// Seconds between the policy's ticks.
    pub(super) fn tick_seconds(&self) -> Option<i64> {
        self.settings.as_ref().map(|settings| settings.tick_seconds)
    }

    /// One turn; without `writes` nothing is written anywhere.
    pub(super) async fn turn(
        &mut self,
        key: &Key,
        policy: &OverprovisioningPolicy,
        around: &Surroundings<'_>,
        now: DateTime<Utc>,
        writes: bool,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        // What cannot be understood changes nothing: what stands keeps standing.
        let settings = match policy.spec.settings(&around.config.allowed) {
            Ok(settings) => settings,
            Err(faults) => {
                for fault in faults {
                    outcome.fault(Cause::InvalidPolicy, fault);
                }
                return outcome;
            }
        };
        self.settings = Some(settings.clone());
        let owner = owner(key, policy);
        let actuator = Actuator::new(around.client.clone(), &key.namespace);
        self.refresh_offers(&settings, around, &mut outcome);
        let Some(offers) = self.offers.clone() else {
            if settings.mode == Mode::Observe && writes {
                let stands = Stands::of(&around.shared.world(), key, &owner.uid);
                refused(stands.remove(&actuator, now).await, &mut outcome);
            }
            return outcome;
        };
        outcome.offers = Some(Arc::clone(&offers));
        if let Err(error) = self.prepare(key, &settings, &offers, around.config, now).await {
            outcome.fault(Cause::HistoryFailed, format!("{error:#}"));
        }
        let made = templates(&owner, &offers, &settings.placeholders);
        let stands = self.look(key, &owner.uid, &settings, &offers, around, now, &mut outcome);
        check_surroundings(&settings, &offers, around, &mut outcome);
        self.decide(key, &settings, around.config, now, &mut outcome);
        if writes {
            if let Err(error) = self.record(now, &mut outcome).await {
                outcome.fault(Cause::HistoryFailed, format!("{error:#}"));
            }
            act(&stands, &actuator, &settings, &made, now, &mut outcome).await;
        }
        outcome.faults.sort_by_key(|fault| fault.cause);
        outcome
    }

    /// The buckets on offer, made anew where what they rest on has changed.
    fn refresh_offers(&mut self, settings: &Settings, around: &Surroundings<'_>, outcome: &mut Outcome) {
        let Surroundings { config, shared, groups, taken, .. } = around;
        let world = shared.world();
        let nodes = world.index.nodes();
        let Some(mut all) = groups.with(&config.source, &world, &config.placement_group_label) else {
            let why = groups.failing.clone().unwrap_or_else(|| "not read yet".into());
            return outcome.fault(Cause::CatalogFailed, why);
        };
        all.retain(|group| settings.buckets.select(&group.instance_type, group.capacity_type));
        let daemons: Vec<Daemon> = world.index.daemons().cloned().collect();
        let made = offers(&all, nodes, &daemons, &config.placement_group_label, &mut self.sizes);
        drop(world);
        let made = made.map(|offers| without(offers, taken, outcome));
        match made {
            Ok(Some(made)) => {
                if self.offers.as_deref() != Some(&made) {
                    self.offers = Some(Arc::new(made));
                }
            }
            Ok(None) => self.offers = None,
            Err(CatalogError::Empty) => {
                self.offers = None;
                outcome.fault(Cause::NoBuckets, "no group of nodes is what the policy's buckets select");
            }
            Err(error) => outcome.fault(Cause::Groups, error.to_string()),
        }
    }

    /// Makes control anew where what it rests on has changed, and recalls the history.
    async fn prepare(
        &mut self,
        key: &Key,
        settings: &Settings,
        offers: &Offers,
        config: &Config,
        now: DateTime<Utc>,
    ) -> anyhow::Result<()> {
        let name = history_name(key);
        if self.journal.is_none()
            && let Some(place) = &config.data
        {
            self.journal =
                Some(Journal::open(place.clone(), &name).await.context("failed to open the history")?);
        }
        if self.control.is_none()
            && let Some(journal) = &self.journal
        {
            // Latencies first: what forecasts look over depends on them.
            let mut replay = journal.replay(Some(now - RECALLED)).await?;
            while let Some(line) = replay.next().await? {
                line.launches.iter().for_each(|launch| self.launches.learn(launch));
            }
        }
        let basis = self.basis(settings, offers, config);
        if self.control.as_ref().is_some_and(|control| *control.basis() == basis) {
            return Ok(());
        }
        let mut control = Control::new(basis, now - JUDGED);
        let mut recalled = 0_u64;
        if let Some(journal) = &self.journal {
            let mut replay = journal.replay(Some(now - RECALLED)).await?;
            while let Some(line) = replay.next().await? {
                control.recall(&line);
                recalled += 1;
            }
            for fault in &replay.report().faults {
                tracing::warn!(%fault, "line of the history passed over");
            }
        }
        tracing::info!(recalled, "history recalled");
        self.control = Some(control);
        Ok(())
    }

    fn basis(&self, settings: &Settings, offers: &Offers, config: &Config) -> Basis {
        let groups = offers.catalog.buckets().iter().flat_map(|bucket| &bucket.groups);
        let seen = groups.filter_map(|group| self.launches.latency_seconds(&group.name)).max();
        // In steps, so that not every launch makes control anew.
        let latency = seen.map_or(config.launch_seconds, |seconds| (seconds + 9) / 10 * 10);
        Basis {
            catalog: offers.catalog.clone(),
            method: settings.method,
            ladder: settings.ladder.clone(),
            lead: lead(latency, settings.tick_seconds),
            objective: settings.policy.objective,
            network: config.network.clone(),
        }
    }

    /// Reads the world: what the policy sees, what stands, launches that ended, nodes that others took.
    #[expect(clippy::too_many_arguments, reason = "each is a part of what is read, and none belong together")]
    fn look(
        &mut self,
        key: &Key,
        uid: &str,
        settings: &Settings,
        offers: &Arc<Offers>,
        around: &Surroundings<'_>,
        now: DateTime<Utc>,
        outcome: &mut Outcome,
    ) -> Stands {
        let world = around.shared.world();
        let stands = Stands::of(&world, key, uid);
        let places = stands.places(&key.namespace, offers);
        let mut ended =
            self.launching.ended(&world.index, &places, (offers, &settings.workloads), GIVE_UP, now);
        if settings.placeholders.kind == Kind::CapacityBuffer {
            // Of the nodes that buffers had up in time nothing is told: those that were waited for would seem to be all.
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
        let lead = self.control.as_ref().map_or(0, |control| control.basis().lead.seconds);
        let window = (now.timestamp(), lead);
        let (index, workloads) = (&world.index, &settings.workloads);
        outcome.seen = self.view.gather(index, offers, workloads, &places, &backs_off, window);
        if settings.placeholders.kind == Kind::CapacityBuffer {
            for ((bucket, group), nodes) in stands.buffered(offers) {
                outcome.seen.standing.buckets[bucket][group].placeholders += nodes;
            }
        }
        self.arrivals(around.arrivals, settings, offers);
        outcome.taken_by_other_workload = taken_by_others(&world, around.preempted, settings, &places);
        self.unrecorded.extend(ended.iter().cloned());
        outcome.launches = ended;
        let latency = |group: &embedder::Group| {
            self.launches.latency_seconds(&group.name).unwrap_or(around.config.launch_seconds)
        };
        outcome.launch_seconds =
            buckets.iter().map(|bucket| bucket.groups.iter().map(latency).collect()).collect();
        outcome.blind = world.is_blind();
        for (name, error) in &world.failing {
            outcome.fault(Cause::WatchFailed, format!("{name}: {error}"));
        }
        stands
    }

    fn arrivals(&mut self, arrivals: &[(PodClass, u64)], settings: &Settings, offers: &Offers) {
        let Some(control) = &mut self.control else { return };
        for (class, count) in arrivals.iter().filter(|(class, _)| settings.workloads.select(class)) {
            control.arrived(&self.view.shape(class, offers), *count);
        }
    }

    fn decide(
        &mut self,
        key: &Key,
        settings: &Settings,
        config: &Config,
        now: DateTime<Utc>,
        outcome: &mut Outcome,
    ) {
        let Some(control) = &mut self.control else { return };
        let launches = if control.is_due(now, settings.tick_seconds) {
            std::mem::take(&mut self.unrecorded)
        } else {
            Vec::new()
        };
        let now = Now {
            name: &history_name(key),
            policy: &settings.policy,
            tick_seconds: settings.tick_seconds,
            launches,
            time: now,
        };
        outcome.turn = Some(control.turn(&outcome.seen, now));
        // That the shipped network does not suit a policy's ticks is no fault of a policy that did not ask for one.
        let asked_for = config.network != onnx::Source::Pretrained || settings.method == Method::Onnx;
        for fault in control.faults().into_iter().filter(|_| asked_for) {
            outcome.fault(Cause::Network, format!("something is wrong with the network: {fault}"));
        }
    }

    /// Appends the tick's line, and closes yesterday.
    async fn record(&mut self, now: DateTime<Utc>, outcome: &mut Outcome) -> anyhow::Result<()> {
        let line = outcome.turn.as_ref().and_then(|turn| turn.line.as_ref());
        let (Some(line), Some(journal)) = (line, &mut self.journal) else { return Ok(()) };
        match journal.append(line).await.context("failed to write the history")? {
            Appended::Written { cut: Some(fault) } => tracing::warn!(%fault, "torn line cut off"),
            Appended::NotLater { last } => tracing::warn!(%last, "tick dropped: the clock went back"),
            Appended::Written { cut: None } => {}
        }
        if self.closed != Some(now.date_naive()) {
            journal.compact(now.date_naive()).await.context("failed to close the history's last day")?;
            self.closed = Some(now.date_naive());
        }
        Ok(())
    }
}

/// The policy's name in the history.
fn history_name(key: &Key) -> String {
    format!("{}.{}", key.namespace, key.name)
}

fn owner(key: &Key, policy: &OverprovisioningPolicy) -> Owner {
    Owner {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: policy.meta().uid.clone().unwrap_or_default(),
    }
}

/// Offers without the buckets that an older policy has; `None` where that leaves none.
fn without(offers: Offers, taken: &BTreeSet<String>, outcome: &mut Outcome) -> Option<Offers> {
    let theirs: Vec<&str> = offers
        .catalog
        .buckets()
        .iter()
        .filter(|bucket| taken.contains(&bucket.name))
        .map(|bucket| bucket.name.as_str())
        .collect();
    if theirs.is_empty() {
        return Some(offers);
    }
    outcome.fault(Cause::OverlappingBuckets, format!("an older policy has {}", theirs.join(", ")));
    offers.without(taken)
}

async fn act(
    stands: &Stands,
    actuator: &Actuator,
    settings: &Settings,
    templates: &[Vec<Template>],
    now: DateTime<Utc>,
    outcome: &mut Outcome,
) {
    if settings.mode == Mode::Observe {
        if !stands.is_empty() {
            refused(stands.remove(actuator, now).await, outcome);
        }
        return;
    }
    let kind = settings.placeholders.kind;
    let unfit = outcome
        .faults
        .iter()
        .any(|fault| matches!(fault.cause, Cause::PriorityClass | Cause::NoCapacityBuffers));
    let Some(turn) = outcome.turn.as_ref().filter(|_| !unfit && !outcome.blind) else { return };
    let failed = stands.lead(actuator, &turn.plan, templates, kind, now).await;
    refused(failed, outcome);
}

fn refused(failed: Vec<String>, outcome: &mut Outcome) {
    for error in failed {
        outcome.fault(Cause::WriteFailed, error);
    }
}
