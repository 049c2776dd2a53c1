//! The cluster side of control. At ticks and changes it runs a turn of each policy and writes the
//! result.
//!
//! ```text
//! mod.rs                the loop
//! turn/                 one policy's turn, with a file for each stage
//! turn_input.rs         what a turn of a policy reads
//! history.rs            one policy's history: reads it, and appends the line of each tick
//! closing.rs            closes the days of the history in the background
//! config.rs             the controller's settings
//! control_config.rs     the configuration of a policy's control
//! bounds.rs             the ranges of the numbers of a policy
//! settings.rs           a policy's settings, checked
//! election.rs           leader election: of several replicas, one writes
//! health.rs             the health of the controller, for its probes
//! gather.rs             a policy's view of the cluster
//! known_plan.rs         what is known of a PlannedDemand between turns
//! known_workflow.rs     what is known of the steps of a workflow between turns
//! checks.rs             a policy's prerequisites in the cluster
//! blindness.rs          how long watches have been failing, and the headroom that stays
//! stale.rs              announcements that are out of date, because their watch fails
//! standing.rs           the standing placeholders, and the writes that change them to the plan
//! sources.rs            the source of the groups of nodes
//! price_reads.rs        reads the prices of AWS, and keeps them over restarts
//! pod_sizes.rs          the size classes that pods need of pools that list no instance types
//! templates.rs          the templates of placeholders
//! shrinking.rs          by how much placeholders are smaller than their nodes
//! launch_tracker.rs     detects launches that ended
//! launch_latencies.rs   launch latencies and backoffs of groups
//! backoff.rs            whether a group launches no nodes at present
//! off_switch.rs         the off switch of all policies
//! preempting.rs         the buckets in which pods may be preempting placeholders
//! preemptions.rs        the pods that took the nodes of preempted placeholders
//! yielding.rs           whether placeholders yield to pods that wait for nodes
//! background_read.rs    a read of the history on a thread of its own
//! retry.rs              when the history is read again after a failure
//! reviews.rs            reviews of the tokens of requests to the controller's server
//! rollout_state.rs      the rollout of one policy, from turn to turn
//! finished.rs           pods that ended and are not in the history yet
//! acting.rs             what the program simulates for if_acted.rs
//! if_acted.rs           what would have happened if a policy that observes had acted
//! trusted_clock.rs      a wall clock that leaps is not followed at once
//! unlearnt_arrivals.rs  pods and gangs that no control could learn yet
//! unwritten.rs          lines of the history that could not be written yet
//! remote_model.rs       an ONNX model in an object store
//! ```
//!
//! When a watch, the catalog or the history fails, the standing placeholders stay, and a condition
//! of the policy reports the failure. While a watch fails, nothing is learnt or recorded, and after
//! a lead time headroom shrinks to announced demand.

mod acting;
mod announced_share;
mod background_read;
mod backoff;
mod blindness;
mod bounds;
mod checks;
mod closing;
mod config;
mod control_config;
mod election;
mod finished;
mod gather;
mod health;
mod history;
mod if_acted;
mod known_plan;
mod known_workflow;
mod launch_latencies;
mod launch_tracker;
mod off_switch;
mod pod_sizes;
mod preempting;
mod preemptions;
mod price_reads;
mod remote_model;
mod retry;
mod reviews;
mod rollout_state;
#[cfg(test)]
mod scenarios;
mod settings;
mod shrinking;
mod sources;
mod stale;
mod standing;
mod templates;
mod trusted_clock;
mod turn;
mod turn_input;
mod unlearnt_arrivals;
mod unwritten;
mod yielding;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::clock;
use chrono::{DateTime, TimeDelta, Utc};
use kube::{Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::catalog::{self, Offer, Offers, WantedPools, label_of_part, named_parts};

pub use self::acting::{ActingPolicy, RecordedPods, SimulateIfActed};
use self::backoff::backoff;
pub use self::config::Config;
use self::config::Distinctions;
pub use self::election::{Election, LEASE_NAME, Leadership};
use self::gather::unread_reservations;
pub use self::gather::{Places, Seen, View};
pub use self::health::Health;
pub use self::launch_latencies::LaunchLatencies;
pub use self::launch_tracker::LaunchTracker;
use self::off_switch::follow_off_switch;
pub use self::off_switch::{switch_off, switch_on};
use self::pod_sizes::PodSizes;
pub use self::price_reads::PriceReader;
use self::price_reads::{Kept, follow_prices, follow_reservations};
pub use self::remote_model::RemoteModel;
pub use self::reviews::{Access, Reviewer};
pub use self::settings::{Allowed, BucketSelection, PolicySettings};
use self::sources::{EVERY_SECONDS, follow_groups};
pub use self::sources::{GroupSource, Groups};
use self::stale::Stale;
pub use self::templates::{PRIORITIES, priority_class};
use self::trusted_clock::{Now, TrustedClock};
pub use self::turn::PolicyController;
use self::turn_input::{TurnContext, TurnInput};
use self::yielding::{Relief, Yield, Yielding, relief};
use crate::crd::{Mode, OverprovisioningPolicy};
use crate::explain::{Explain, Reaction};
use crate::observe::{Key, PodClass, Shared, Watches, Workloads, World};
use crate::outcome::{Outcome, Unread};
use crate::writes::Writes;

/// The result of one turn of one policy.
pub struct Looked {
    /// The policy's namespace and name.
    pub key: Key,
    /// The policy object that the turn read.
    pub policy: Arc<OverprovisioningPolicy>,
    /// The outcome of the turn.
    pub outcome: Outcome,
    /// The time of the turn.
    pub time: DateTime<Utc>,
}

/// How long changes are collected before a turn, so that a burst of changes causes one turn.
const COALESCE: Duration = Duration::from_millis(250);

/// How long all turns wait for the first reads of histories. The names of the buckets of each
/// history decide which labels of nodes distinguish buckets, for all policies.
const FIRST_READ: Duration = Duration::from_secs(20);

/// How long a command that only looks waits for the prices of AWS.
const FIRST_PRICES: Duration = Duration::from_secs(20);

/// How long a turn waits for a replay of a history that begins. A longer replay goes on while other
/// policies have their turns.
const REPLAY: Duration = Duration::from_secs(2);

/// The controller of all policies: it watches the cluster and runs the turns of each policy.
pub struct Controller {
    client: Client,
    leadership: Arc<Leadership>,
    config: Config,
    shared: Arc<Shared>,
    watches: Watches,
    groups: watch::Receiver<Arc<Groups>>,
    /// The warm pools that the policies want. `None` until that is decided, and while another
    /// replica leads.
    wanted_pools: watch::Sender<Option<WantedPools>>,
    /// The instance types on offer, whose prices are read from AWS.
    types_on_offer: watch::Sender<BTreeSet<String>>,
    known: Distinctions,
    /// The size classes of pools without a list of instance types.
    sizes: PodSizes,
    runs: BTreeMap<Key, PolicyController>,
    yielding: Yielding,
    stale: Stale,
    /// Runs since the controller was created.
    started: clock::Stopwatch,
    clock: TrustedClock,
    health: Arc<Health>,
    /// How long a turn waits for a replay of the history that begins.
    patience: Duration,
    writes: Writes,
    explain: Explain,
}

impl Controller {
    /// Creates the controller and starts its watches. While another replica leads, it observes and
    /// learns, and writes nothing.
    pub fn new(
        client: Client,
        config: Config,
        source: GroupSource,
        explain: Explain,
        leadership: Arc<Leadership>,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let label = config.placement_group_label.clone();
        let (wanted_pools, wanted) = watch::channel(None);
        let groups =
            follow_groups(source, label, Arc::clone(&shared), (wanted, Arc::clone(&leadership)));
        let watches = Watches::start(client.clone(), Arc::clone(&shared), &config.scope);
        let writes = Writes::new(config.writes_per_minute);
        let health = Arc::new(Health::new(config.stuck_after));
        Self {
            client,
            leadership,
            config,
            shared,
            watches,
            groups,
            wanted_pools,
            types_on_offer: <_>::default(),
            known: Distinctions::default(),
            sizes: PodSizes::default(),
            runs: BTreeMap::new(),
            yielding: Yielding::default(),
            stale: Stale::default(),
            started: clock::Stopwatch::now(),
            clock: TrustedClock::default(),
            health,
            patience: REPLAY,
            writes,
            explain,
        }
    }

    /// The health of the controller, for its probes.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    /// Runs until `stop` completes. A turn that has begun is finished first.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        self.follow_aws(Some(Arc::clone(&self.leadership)));
        let mut stop = std::pin::pin!(stop);
        let namespaces = self.config.scope.namespaces.clone();
        let mut switch = JoinSet::new();
        switch.spawn(follow_off_switch(self.client.clone(), namespaces, Arc::clone(&self.shared)));
        let mut changed_at = None;
        loop {
            let due = self.writes.until_due();
            let wait = due.map_or_else(|| self.until_tick(), |due| due.min(self.until_tick()));
            tokio::select! {
                () = &mut stop => return,
                () = tokio::time::sleep(wait) => {}
                () = self.leadership.won() => {}
                () = self.shared.changed() => {
                    changed_at = Some(clock::Stopwatch::now());
                    tokio::time::sleep(COALESCE).await;
                }
            }
            self.health.beat();
            let is_read = self.groups.borrow().is_read() && self.has_tried_reservations();
            if self.is_listed() && is_read && !self.read_labels() {
                let leads = self.leadership.leads();
                self.explain.leads(leads);
                self.turn(leads).await;
                self.explain.wrote(&self.writes.take_counts());
                self.explain.measured(self.shared.world().index.measured_pods());
                if let Some(at) = changed_at.take() {
                    self.explain.reacted(Reaction { seconds: at.elapsed().as_secs_f64() });
                }
            }
        }
    }

    /// Runs one turn of every policy without writing anything (a dry run). Waits until all watches
    /// have listed their objects.
    pub async fn look(&mut self) -> Vec<Looked> {
        self.patience = Duration::MAX;
        self.wait().await;
        if self.read_labels() {
            self.wait().await;
        }
        self.follow_aws(None);
        self.wait_for_aws().await;
        self.turn(false).await
    }

    /// The buckets on offer in the cluster, regardless of which buckets the policies select.
    ///
    /// # Errors
    /// The groups cannot be read, or there are none.
    pub async fn catalog(&mut self) -> anyhow::Result<Offers> {
        self.wait().await;
        self.follow_aws(None);
        self.wait_for_aws().await;
        let groups = self.groups();
        let mut offers = self.all_offers(&groups)?;
        offers.problems.extend(groups.problems.iter().cloned());
        Ok(offers)
    }

    /// The buckets of all groups, with the size classes and labels that the pods of the policies
    /// need.
    fn all_offers(&mut self, groups: &Groups) -> anyhow::Result<Offers> {
        let policies = self.policies();
        self.read_distinctions(&policies, groups);
        let world = self.shared.world();
        let comparison = self.config.comparison(&self.known);
        groups.offers(&world, &comparison, &self.config.pricing(&world))
    }

    /// Starts to read the prices of AWS, and the capacity reservations that the operator's prices
    /// name, if that is configured. `writer` keeps the prices while it leads.
    fn follow_aws(&self, writer: Option<Arc<Leadership>>) {
        if let Some(reader) = self.config.price_reader.clone() {
            let kept = Kept { place: self.config.data.clone(), writer };
            let wanted = self.types_on_offer.subscribe();
            if self.config.reads_reservations() {
                let rules = self.config.prices.clone();
                follow_reservations(reader.clone(), rules, &self.shared);
            }
            follow_prices(reader, wanted, Arc::clone(&self.shared), kept);
        }
    }

    /// Waits for what is read from AWS, prices and capacity reservations, for a while.
    async fn wait_for_aws(&mut self) {
        if self.config.price_reader.is_none() {
            return;
        }
        if let Ok(offers) = self.all_offers(&self.groups()) {
            note_types(&self.types_on_offer, [&offers]);
            let is_read = || {
                let prices = self.shared.world().aws_prices.clone();
                prices.is_some_and(|read| read.is_tried) && self.has_tried_reservations()
            };
            let read = async {
                while !is_read() {
                    self.shared.changed().await;
                }
            };
            let _ = tokio::time::timeout(FIRST_PRICES, read).await;
        }
    }

    /// Whether the capacity reservations that the operator's prices name were read, or could not
    /// be. Before that, placeholders in them would be given up.
    fn has_tried_reservations(&self) -> bool {
        !self.config.reads_reservations() || self.shared.world().reservations.is_some()
    }

    async fn wait(&self) {
        while !self.is_listed() {
            self.shared.changed().await;
        }
        // The sender lives as long as this process.
        let _ = self.groups.clone().wait_for(|groups| groups.is_read()).await;
        // Each list that completes notifies separately, so wait for the others.
        tokio::time::sleep(COALESCE).await;
    }

    /// The errors of the watches that fail, one message each.
    pub fn failing(&self) -> Vec<String> {
        let world = self.shared.world();
        world.failing.iter().map(|(name, error)| format!("{name}: {error}")).collect()
    }

    fn is_listed(&self) -> bool {
        let listed = self.shared.world().is_listed();
        self.health.ready(listed);
        listed
    }

    fn until_tick(&self) -> Duration {
        let now = self.clock.between_turns(clock::now(), self.started.elapsed());
        let ticks = self.runs.values().filter_map(PolicyController::tick_seconds);
        let tick = clock::until_next(now, ticks.min().unwrap_or(EVERY_SECONDS).min(EVERY_SECONDS));
        let removals = self.runs.values().filter_map(|run| run.removal_due(now));
        let removal = removals.min().and_then(|due| (due - now).to_std().ok());
        removal.map_or(tick, |removal| removal.min(tick))
    }

    async fn turn(&mut self, writes: bool) -> Vec<Looked> {
        let now = self.clock.now(clock::now(), self.started.elapsed());
        self.turn_at(&now, writes).await
    }

    /// One turn of every policy. Without `writes` it writes nothing anywhere (a dry run).
    async fn turn_at(
        &mut self,
        &Now { time: now, fault: ref clock_fault, leapt }: &Now,
        writes: bool,
    ) -> Vec<Looked> {
        if let Some(fault) = clock_fault {
            tracing::warn!(fault, "the clock leapt");
        }
        if leapt {
            // Ticks, pauses and attempts of all kinds have times of the other clock, and lines of
            // the history may have been passed over. So the controller goes on as after a restart,
            // and learns from the history.
            tracing::warn!("the clock leapt, so the policies are learnt from the history again");
            for run in self.runs.values_mut() {
                *run = std::mem::take(run).restarted();
            }
            (self.yielding, self.stale) = (Yielding::default(), Stale::default());
        }
        let groups = self.groups();
        let policies = self.policies();
        self.runs.retain(|key, _| policies.iter().any(|(known, _)| known == key));
        self.explain.keep(&policies.iter().map(|(key, _)| key.clone()).collect());
        let dashboard = self.explain.dashboard();
        dashboard.keep(|name| policies.iter().any(|(key, _)| key.to_string() == name));
        for (key, policy) in &policies {
            let run = self.runs.entry(key.clone()).or_default();
            run.recall_nodes(policy);
            let shown = (&dashboard, policy.spec.tick_seconds());
            run.begin_recall(key, &self.config, &self.shared, shown, now);
        }
        for run in self.runs.values_mut() {
            run.recall(FIRST_READ.max(self.patience), now).await;
            self.health.beat();
        }
        self.read_distinctions(&policies, &groups);
        let many_not_ready = {
            let mut world = self.shared.world();
            let stale = self.stale.note(world.failing.keys(), now);
            world.index.set_stale(stale);
            world.index.expect_nodes_back(now)
        };
        let (occurred, is_off, unread) = {
            let mut world = self.shared.world();
            let unread = self.unread(&world);
            (world.index.take_occurred(now.timestamp()), world.is_off, unread)
        };
        let yielding = self.yield_to_waiting_pods(&groups, now);
        let (mut taken, mut left) = (BTreeSet::new(), self.config.allowed.ceiling);
        let mut prepaid_taken = BTreeMap::new();
        let mut outcomes = Vec::new();
        let mut named = BTreeSet::new();
        let namespaces = self.config.scope.namespaces.iter().cloned().collect();
        let mut wanted_pools = WantedPools { namespaces, ..WantedPools::default() };
        for (key, policy) in policies {
            self.health.beat();
            let run = self.runs.entry(key.clone()).or_default();
            let context = TurnContext {
                client: &self.client,
                leadership: &self.leadership,
                config: &self.config,
                shared: &self.shared,
                groups: &groups,
                patience: self.patience,
                writes: &self.writes,
                known: &self.known,
                taken: &taken,
                left,
                prepaid_taken: &prepaid_taken,
                yielding: yielding.clone(),
                occurred: &occurred,
                clock_fault: clock_fault.as_deref(),
                many_not_ready,
                is_off,
                unread: &unread,
            };
            let span = tracing::info_span!("turn", policy = %key);
            let input = TurnInput::new(&key, &policy, &context, now, writes);
            let mut outcome = run.turn(&input).instrument(span.clone()).await;
            let buckets = outcome.offers.iter().flat_map(|offers| offers.catalog.buckets());
            named.extend(buckets.flat_map(|bucket| named_parts(&bucket.name)));
            let (mode, uid) = (input.mode(), input.owner.uid.clone());
            let pools = groups.warm_pools().of_policy(&uid);
            outcome.warm_pools.held = outcome.warm_pools.held.max(pools);
            // The placeholders of an invalid policy stand, unless its mode is `Observe`.
            if mode == Mode::Act {
                taken.extend(outcome.groups());
                wanted_pools.add(&uid, outcome.groups(), outcome.warm_pools.wanted.as_ref());
                outcome.note_types_held(&mut prepaid_taken);
                let (held, hourly) = outcome.holds();
                left = left.less(held, hourly);
            }
            let shown = (policy.spec.mode, policy.spec.tick_seconds());
            self.explain.show(&key, shown, &outcome, now);
            if writes && self.leadership.leads() {
                let reported = self.explain.turn(&key, &policy, &outcome, &self.writes, now);
                reported.instrument(span).await;
            }
            outcomes.push(Looked { key, policy, outcome, time: now });
        }
        self.wanted_pools.send_replace(writes.then_some(wanted_pools));
        self.known.named_parts.extend(named);
        let offers = outcomes.iter().filter_map(|looked| looked.outcome.offers.as_deref());
        note_types(&self.types_on_offer, offers);
        let since = outcomes.iter().filter_map(|looked| looked.outcome.account.since).min();
        self.explain.show_since(since, self.leadership.leads());
        outcomes
    }

    /// The groups of the last read.
    fn groups(&self) -> Arc<Groups> {
        Arc::clone(&self.groups.borrow())
    }

    /// The policies, oldest first, because the older of two policies that select a bucket uses it.
    fn policies(&self) -> Vec<(Key, Arc<OverprovisioningPolicy>)> {
        let world = self.shared.world();
        let mut policies: Vec<_> = world
            .policies
            .iter()
            .map(|(key, policy)| (key.clone(), Arc::new(policy.clone())))
            .collect();
        policies.sort_by_key(|(key, policy)| {
            (policy.creation_timestamp().map(|time| time.0), key.clone())
        });
        policies
    }

    /// What could not be read from AWS.
    fn unread(&self, world: &World) -> Unread {
        let prices = world.aws_prices.as_ref().map(|read| read.failing.clone());
        Unread {
            prices: prices.unwrap_or_default(),
            reservations: unread_reservations(&self.config.prices, world.reservations.as_ref()),
        }
    }

    /// What placeholders do for pods that have waited for longer than the lead time, although a
    /// group could still launch nodes for them.
    fn yield_to_waiting_pods(&mut self, groups: &Groups, now: DateTime<Utc>) -> Yield {
        let leads = self.runs.values().filter_map(PolicyController::lead_seconds);
        let Some(patience) = leads.max() else { return Yield::No };
        let world = self.shared.world();
        let comparison = self.config.comparison(&self.known);
        let allowed = &self.config.allowed;
        // A pod that cannot take a placeholder's node still needs a node of its own.
        let waits = |class: &PodClass| class.waits_for_node(|of| allowed.preempts(of));
        let backs_off = |group: &str, offer: &Offer| {
            let launches = self.runs.values().map(PolicyController::launch_latencies);
            backoff((group, offer), (&world, groups), launches, now).is_some()
        };
        let is_full = world.scale_ups_reported.is_full(now);
        let patience = TimeDelta::seconds(patience);
        self.yielding.note(&world.index, &waits, patience, now, |waiting| {
            let all = groups.offers(&world, &comparison, &self.config.pricing(&world));
            all.map_or_else(
                |_| Relief::default(),
                |all| relief(waiting, &world.index, &all, &backs_off, is_full),
            )
        })
    }

    /// Reads the startup taints of pools, and adds the labels by which pods select nodes: those of
    /// the history's buckets, and those that the constraints of selected pods name.
    ///
    /// Labels are never removed, because buckets would change whenever the last pod with a selector
    /// ends.
    fn read_distinctions(
        &mut self,
        policies: &[(Key, Arc<OverprovisioningPolicy>)],
        groups: &Groups,
    ) {
        let Distinctions { selected_labels, named_parts, startup_taints } = &mut self.known;
        for run in self.runs.values() {
            let labels = run.recalled_parts().filter_map(|part| label_of_part(part));
            selected_labels.extend(labels.map(str::to_owned));
            named_parts.extend(run.recalled_parts().cloned());
            selected_labels.extend(run.known_labels().cloned());
        }
        let world = self.shared.world();
        *startup_taints = self.config.startup_taints.clone();
        startup_taints.extend(catalog::startup_taints(world.node_pools.values()));
        let settings = policies
            .iter()
            .filter_map(|(_, policy)| policy.spec.settings(&self.config.allowed).ok());
        let workloads: Vec<Workloads> = settings.map(|settings| settings.workloads).collect();
        let index = &world.index;
        let announcements = index.announcements();
        let announced = announcements.flat_map(|(_, announced)| index.announced_pods(announced));
        let classes = index.classes().iter().map(|(_, class)| Cow::Borrowed(&**class));
        let classes = classes.chain(announced.map(|(class, _)| class));
        let batch = classes.filter(|class| workloads.iter().any(|batch| batch.select(class)));
        let mut new = BTreeSet::new();
        self.sizes.refresh(world.node_pools.values());
        let daemons = index.daemons();
        for class in batch {
            self.sizes.add(&class, &daemons, named_parts);
            let named = class.constraints.label_keys();
            let unknown = named.filter(|key| !selected_labels.contains(*key));
            let unknown = unknown.filter(|key| groups.have(key, &world));
            new.extend(unknown.map(str::to_owned));
        }
        selected_labels.extend(new);
    }

    /// Lists the pods again if a policy selects by labels that the index did not keep. Returns
    /// whether it does. No decision is possible then until the list is complete, because the pods
    /// in the index lack the labels.
    fn read_labels(&mut self) -> bool {
        let policies = self.policies();
        let settings = policies
            .iter()
            .filter_map(|(_, policy)| policy.spec.settings(&self.config.allowed).ok());
        let keys: Vec<String> = settings
            .flat_map(|settings| settings.workloads.label_keys().collect::<Vec<_>>())
            .collect();
        let anew = self.shared.world().index.read_labels(keys);
        if anew {
            self.watches.restart_pods();
        }
        anew
    }
}

/// Makes the instance types of buckets those whose prices are read.
fn note_types<'a>(
    types_on_offer: &watch::Sender<BTreeSet<String>>,
    offers: impl IntoIterator<Item = &'a Offers>,
) {
    let groups = offers.into_iter().flat_map(|offers| offers.groups.iter().flatten());
    let types: BTreeSet<String> =
        groups.flat_map(|offer| offer.instance_types.iter().cloned()).collect();
    // Without buckets, those of before count.
    types_on_offer.send_if_modified(|known| {
        let changed = !types.is_empty() && *known != types;
        if changed {
            *known = types;
        }
        changed
    });
}
