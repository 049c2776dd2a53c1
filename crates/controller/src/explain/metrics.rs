//! Metrics for Prometheus. Labels are policies, buckets and reasons. A gauge is removed once a
//! turn no longer sets it, or its policy is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use history::LaunchEnd;
use instances::Price;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::reaction::Reaction;
use crate::crd::{OverprovisioningPolicyStatus, TierStatus, WarmPoolStatus};
use crate::observe::Key;
use crate::outcome::{Charge, Outcome};
use crate::writes::{DEFERRED, SENT, WriteCounts, WriteKind};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfPolicy {
    policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfBucket {
    policy: String,
    bucket: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfNamespace {
    policy: String,
    bucket: String,
    namespace: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfReason {
    policy: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfTier {
    policy: String,
    tier: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfPrice {
    policy: String,
    bucket: String,
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfWrites {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct OfDeferral {
    kind: &'static str,
    reason: &'static str,
}

/// The metrics, and the registry that encodes them.
pub struct Metrics {
    registry: Registry,
    demand: Family<OfBucket, Gauge>,
    announced: Family<OfBucket, Gauge>,
    target: Family<OfBucket, Gauge>,
    placeholders: Family<OfBucket, Gauge>,
    ready: Family<OfBucket, Gauge>,
    warm_pool_target: Family<OfBucket, Gauge>,
    warm_pool_prepared: Family<OfBucket, Gauge>,
    held_back: Family<OfReason, Gauge>,
    tiers: Family<OfTier, Gauge>,
    degraded: Family<OfReason, Gauge>,
    unplaced: Family<OfPolicy, Gauge>,
    reasons: Family<OfReason, Gauge>,
    dollars: Family<OfBucket, Gauge<f64, AtomicU64>>,
    prices: Family<OfPrice, Gauge<f64, AtomicU64>>,
    tick: Family<OfPolicy, Gauge>,
    last_tick: Family<OfPolicy, Gauge>,
    last_decision: Family<OfPolicy, Gauge>,
    launches_used: Family<OfPolicy, Counter>,
    avoided_wait: Family<OfPolicy, Counter<f64, AtomicU64>>,
    launches: Family<OfReason, Counter>,
    pods_started: Family<OfReason, Counter>,
    taken: Family<OfPolicy, Counter>,
    charged: Family<OfNamespace, Counter<f64, AtomicU64>>,
    writes: Family<OfWrites, Counter>,
    deferred: Family<OfDeferral, Counter>,
    launch_seconds: Histogram,
    reaction_seconds: Histogram,
    leader: Gauge,
    measured: Gauge,
    /// The labels that the last turn of each policy set.
    set: Mutex<BTreeSet<Labels>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Labels {
    Bucket(OfBucket),
    HeldBack(OfReason),
    Tier(OfTier),
    Price(OfPrice),
    Degraded(OfReason),
    Reason(OfReason),
    Policy(OfPolicy),
}

impl Labels {
    fn policy(&self) -> &str {
        match self {
            Self::Bucket(of) => &of.policy,
            Self::HeldBack(of) | Self::Degraded(of) | Self::Reason(of) => &of.policy,
            Self::Tier(of) => &of.policy,
            Self::Price(of) => &of.policy,
            Self::Policy(of) => &of.policy,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("prophet");
        let metrics = Self {
            registry: Registry::default(),
            demand: Family::default(),
            announced: Family::default(),
            target: Family::default(),
            placeholders: Family::default(),
            ready: Family::default(),
            warm_pool_target: Family::default(),
            warm_pool_prepared: Family::default(),
            held_back: Family::default(),
            tiers: Family::default(),
            degraded: Family::default(),
            unplaced: Family::default(),
            reasons: Family::default(),
            dollars: Family::default(),
            prices: Family::default(),
            tick: Family::default(),
            last_tick: Family::default(),
            last_decision: Family::default(),
            launches_used: Family::default(),
            avoided_wait: Family::default(),
            launches: Family::default(),
            pods_started: Family::default(),
            taken: Family::default(),
            charged: Family::default(),
            writes: Family::default(),
            deferred: Family::default(),
            launch_seconds: Histogram::new(exponential_buckets(5.0, 2.0, 10)),
            reaction_seconds: Histogram::new(exponential_buckets(0.05, 2.0, 10)),
            leader: Gauge::default(),
            measured: Gauge::default(),
            set: Mutex::default(),
        };
        metrics.register_gauges(&mut registry);
        registry.register("launches", "Launches that ended, by result", metrics.launches.clone());
        registry.register(
            "pods_started",
            "Batch pods that started: hidden, within one scan of the autoscaler, or waited, later",
            metrics.pods_started.clone(),
        );
        registry.register(
            "launches_used",
            "Nodes launched for placeholders to which a batch pod came",
            metrics.launches_used.clone(),
        );
        registry.register_with_unit(
            "avoided_wait",
            "Time by which launches for placeholders shortened the waiting of the first pod of each node",
            Unit::Seconds,
            metrics.avoided_wait.clone(),
        );
        registry.register(
            "taken_by_other_workload",
            "Nodes that pods outside batch demand took from placeholders",
            metrics.taken.clone(),
        );
        registry.register_with_unit(
            "charged_placeholder",
            "Time for which placeholders held nodes until batch pods of a namespace preempted them",
            Unit::Seconds,
            metrics.charged.clone(),
        );
        registry.register(
            "writes",
            "Writes to the API server, by kind and result: written, refused, or outdated if the object had changed",
            metrics.writes.clone(),
        );
        registry.register(
            "writes_deferred",
            "Turns that left out a write, by kind and reason: backoff after a write that failed, or budget",
            metrics.deferred.clone(),
        );
        registry.register(
            "leader",
            "1 on the replica that writes, 0 on the others",
            metrics.leader.clone(),
        );
        registry.register(
            "measured_pods",
            "Pods whose usage was in the last response of the metrics API; 0 without --record-usage, and if the last read failed",
            metrics.measured.clone(),
        );
        let (launch, reaction) = (metrics.launch_seconds.clone(), metrics.reaction_seconds.clone());
        registry.register_with_unit(
            "launch",
            "Time from a lifted gate to a placeholder on a new node",
            Unit::Seconds,
            launch,
        );
        registry.register_with_unit(
            "reaction",
            "Time from a change to the last write in response",
            Unit::Seconds,
            reaction,
        );
        metrics.begin_writes();
        Self { registry, ..metrics }
    }
}

impl Metrics {
    fn register_gauges(&self, registry: &mut Registry) {
        registry.register(
            "demand_nodes",
            "Nodes that batch pods occupy or wait for",
            self.demand.clone(),
        );
        registry.register(
            "announced_nodes",
            "Further nodes for pods that will be released within the launch latency",
            self.announced.clone(),
        );
        registry.register(
            "target_placeholders",
            "Target number of placeholders",
            self.target.clone(),
        );
        registry.register(
            "placeholders",
            "Placeholders on nodes or waiting for a node",
            self.placeholders.clone(),
        );
        registry.register("ready_placeholders", "Placeholders on nodes", self.ready.clone());
        registry.register(
            "warm_pool_target_instances",
            "Target number of instances in the warm pools of a bucket, for policies with warm pools",
            self.warm_pool_target.clone(),
        );
        registry.register(
            "warm_pool_prepared_instances",
            "Prepared instances in the warm pools of a bucket",
            self.warm_pool_prepared.clone(),
        );
        registry.register(
            "held_back_pods",
            "Waiting and announced pods that are not counted, by reason",
            self.held_back.clone(),
        );
        registry.register(
            "tier_pods",
            "Pods of each tier of a policy, waiting for a node or running",
            self.tiers.clone(),
        );
        registry.register(
            "degraded",
            "1 while the policy is degraded, by cause",
            self.degraded.clone(),
        );
        registry.register("unplaced_pods", "Pods that fit in no bucket", self.unplaced.clone());
        registry.register(
            "buckets",
            "Buckets, by the reason of their target",
            self.reasons.clone(),
        );
        registry.register(
            "placeholder_dollars_per_hour",
            "Price of the nodes that placeholders hold, less those that are paid anyway; 0 where it is unknown",
            self.dollars.clone(),
        );
        registry.register(
            "instance_dollars_per_hour",
            "Price of an instance, by the source of the price",
            self.prices.clone(),
        );
        for (name, help, family) in [
            ("tick", "Time between two ticks of the policy", &self.tick),
            (
                "last_tick_timestamp",
                "Unix time of the last tick that was learnt, or of the first turn",
                &self.last_tick,
            ),
            (
                "last_decision_timestamp",
                "Unix time of the last decision, or of the first turn",
                &self.last_decision,
            ),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, family.clone());
        }
    }

    /// Creates the series of all writes, because the function `increase` of Prometheus misses the
    /// first event of a series that does not exist before it.
    fn begin_writes(&self) {
        for kind in WriteKind::ALL.map(WriteKind::label) {
            for result in SENT {
                drop(self.writes.get_or_create(&OfWrites { kind, result }));
            }
            for reason in DEFERRED {
                drop(self.deferred.get_or_create(&OfDeferral { kind, reason }));
            }
        }
    }

    /// All metrics in the text format of OpenMetrics.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// All metrics in the text format of OpenMetrics, each with one series at least. The labels of
    /// policies are empty.
    pub fn described() -> String {
        let metrics = Self::default();
        let Self {
            registry: _,
            demand,
            announced,
            target,
            placeholders,
            ready,
            warm_pool_target,
            warm_pool_prepared,
            held_back,
            tiers,
            degraded,
            unplaced,
            reasons,
            dollars,
            prices,
            tick,
            last_tick,
            last_decision,
            launches_used,
            avoided_wait,
            launches,
            pods_started,
            taken,
            charged,
            writes: _,
            deferred: _,
            launch_seconds: _,
            reaction_seconds: _,
            leader: _,
            measured: _,
            set: _,
        } = &metrics;
        let policy = String::new;
        let of_pools = [warm_pool_target, warm_pool_prepared];
        for family in [demand, announced, target, placeholders, ready].into_iter().chain(of_pools) {
            drop(family.get_or_create(&OfBucket { policy: policy(), bucket: String::new() }));
        }
        drop(dollars.get_or_create(&OfBucket { policy: policy(), bucket: String::new() }));
        let (bucket, source) = (String::new(), "");
        drop(prices.get_or_create(&OfPrice { policy: policy(), bucket, source }));
        for family in [tick, last_tick, last_decision, unplaced] {
            drop(family.get_or_create(&OfPolicy { policy: policy() }));
        }
        drop(launches_used.get_or_create(&OfPolicy { policy: policy() }));
        drop(avoided_wait.get_or_create(&OfPolicy { policy: policy() }));
        for family in [held_back, degraded, reasons] {
            drop(family.get_or_create(&OfReason { policy: policy(), reason: String::new() }));
        }
        for family in [launches, pods_started] {
            drop(family.get_or_create(&OfReason { policy: policy(), reason: String::new() }));
        }
        drop(tiers.get_or_create(&OfTier { policy: policy(), tier: String::new(), state: "" }));
        drop(taken.get_or_create(&OfPolicy { policy: policy() }));
        let (bucket, namespace) = (String::new(), String::new());
        drop(charged.get_or_create(&OfNamespace { policy: policy(), bucket, namespace }));
        metrics.text()
    }

    pub(super) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(super) fn measured(&self, pods: usize) {
        self.measured.set(i64::try_from(pods).unwrap_or(i64::MAX));
    }

    pub(super) fn wrote(&self, counts: &WriteCounts) {
        for ((kind, what), count) in counts {
            let (kind, result) = (kind.label(), *what);
            if DEFERRED.contains(&result) {
                let of = OfDeferral { kind, reason: result };
                self.deferred.get_or_create(&of).inc_by(*count);
            } else {
                self.writes.get_or_create(&OfWrites { kind, result }).inc_by(*count);
            }
        }
    }

    pub(super) fn reacted(&self, reaction: Reaction) {
        self.reaction_seconds.observe(reaction.seconds);
    }

    /// Sets the gauges of a policy with this length of a tick, and adds to its counters.
    pub(super) fn turn(
        &self,
        (key, tick_seconds): (&Key, i64),
        outcome: &Outcome,
        status: &OverprovisioningPolicyStatus,
        now: DateTime<Utc>,
    ) {
        let policy = key.to_string();
        let mut set = BTreeSet::new();
        let mut by_reason: BTreeMap<&str, i64> = BTreeMap::new();
        let (offers, prepaid) = (outcome.offers.as_ref(), outcome.observation.prepaid());
        for bucket in &status.buckets {
            let of = OfBucket { policy: policy.clone(), bucket: bucket.name.clone() };
            for (family, value) in [
                (&self.demand, bucket.demand),
                (&self.announced, bucket.announced),
                (&self.target, bucket.target),
                (&self.placeholders, bucket.placeholders),
                (&self.ready, bucket.ready),
            ] {
                family.get_or_create(&of).set(gauge(value));
            }
            if let Some(WarmPoolStatus { target, prepared, preparing: _ }) = bucket.warm_pool {
                self.warm_pool_target.get_or_create(&of).set(gauge(target));
                self.warm_pool_prepared.get_or_create(&of).set(gauge(prepared));
            } else {
                self.warm_pool_target.remove(&of);
                self.warm_pool_prepared.remove(&of);
            }
            let price = offers.and_then(|offers| offers.price(&bucket.name));
            let dollars = price.map_or(0.0, |price| price.hourly.dollars());
            let id = offers.and_then(|offers| {
                offers.catalog.buckets().iter().position(|known| known.name == bucket.name)
            });
            let prepaid = id.and_then(|id| prepaid.get(id)).copied().unwrap_or(0);
            let paid = bucket.ready.saturating_sub(prepaid);
            self.dollars.get_or_create(&of).set(dollars * paid as f64);
            if let Some(Price { source, .. }) = price {
                let (bucket, source) = (bucket.name.clone(), source.label());
                let of = OfPrice { policy: policy.clone(), bucket, source };
                self.prices.get_or_create(&of).set(dollars);
                set.insert(Labels::Price(of));
            }
            set.insert(Labels::Bucket(of));
            *by_reason.entry(&bucket.reason).or_default() += 1;
        }
        for (reason, buckets) in by_reason {
            let of = OfReason { policy: policy.clone(), reason: reason.into() };
            self.reasons.get_or_create(&of).set(buckets);
            set.insert(Labels::Reason(of));
        }
        for (reason, pods) in &status.held_back {
            let of = OfReason { policy: policy.clone(), reason: reason.clone() };
            self.held_back.get_or_create(&of).set(gauge(*pods));
            set.insert(Labels::HeldBack(of));
        }
        for TierStatus { name, waiting, running } in &status.tiers {
            for (state, pods) in [("waiting", waiting), ("running", running)] {
                let of = OfTier { policy: policy.clone(), tier: name.clone(), state };
                self.tiers.get_or_create(&of).set(gauge(*pods));
                set.insert(Labels::Tier(of));
            }
        }
        for fault in outcome.faults.iter() {
            let of = OfReason { policy: policy.clone(), reason: fault.cause.label().into() };
            self.degraded.get_or_create(&of).set(1);
            set.insert(Labels::Degraded(of));
        }
        let of = OfPolicy { policy: policy.clone() };
        self.unplaced
            .get_or_create(&of)
            .set(gauge(status.unplaced.iter().map(|unplaced| unplaced.pods).sum()));
        self.tick.get_or_create(&of).set(tick_seconds);
        let decision = outcome.decision.as_ref();
        let ticked = decision.is_some_and(|decision| decision.turn.tick.is_some());
        for (family, happened) in
            [(&self.last_tick, ticked), (&self.last_decision, decision.is_some())]
        {
            let gauge = family.get_or_create(&of);
            if happened || gauge.get() == 0 {
                gauge.set(now.timestamp());
            }
        }
        set.insert(Labels::Policy(of));
        self.count(&policy, outcome);
        self.replace(&set, |labels| labels.policy() == policy);
    }

    /// Adds what happened in a policy's turn to its counters.
    ///
    /// The series of all reasons begin at 0 in the first turn, because the function `increase` of
    /// Prometheus misses the first event of a series that does not exist before it.
    fn count(&self, policy: &str, outcome: &Outcome) {
        let of = |reason: &str| OfReason { policy: policy.to_owned(), reason: reason.to_owned() };
        let taken =
            u64::try_from(outcome.observation.taken_by_other_workload.len()).unwrap_or(u64::MAX);
        let of_policy = OfPolicy { policy: policy.to_owned() };
        self.taken.get_or_create(&of_policy).inc_by(taken);
        let used = &outcome.observation.used;
        let count = u64::try_from(used.len()).unwrap_or(u64::MAX);
        self.launches_used.get_or_create(&of_policy).inc_by(count);
        let avoided: f64 = used.iter().map(|used| used.saved_seconds() as f64).sum();
        self.avoided_wait.get_or_create(&of_policy).inc_by(avoided);
        for Charge { namespace, bucket, held } in &outcome.observation.charges {
            let (bucket, namespace) = (bucket.clone(), namespace.clone());
            let of = OfNamespace { policy: policy.to_owned(), bucket, namespace };
            self.charged.get_or_create(&of).inc_by(held.as_seconds_f64());
        }
        for reason in ["ready", "waited_for", "failed"] {
            drop(self.launches.get_or_create(&of(reason)));
        }
        for launch in &outcome.observation.launches {
            let reason = match launch.end {
                LaunchEnd::Ready(at) => {
                    self.launch_seconds.observe((at - launch.requested).as_seconds_f64());
                    "ready"
                }
                LaunchEnd::WaitedFor(_) => "waited_for",
                LaunchEnd::Failed(_) => "failed",
            };
            self.launches.get_or_create(&of(reason)).inc();
        }
        let starts = || outcome.observation.observed.starts.iter().map(|(_, starts)| *starts);
        let hidden = starts().map(|starts| starts.hidden).sum();
        let waited = starts().map(|starts| starts.waited).sum();
        for (reason, pods) in [("hidden", hidden), ("waited", waited)] {
            self.pods_started.get_or_create(&of(reason)).inc_by(pods);
        }
    }

    /// Removes the gauges of policies that are not in `keys`.
    pub(super) fn keep(&self, keys: &BTreeSet<Key>) {
        let known: BTreeSet<String> = keys.iter().map(ToString::to_string).collect();
        self.replace(&BTreeSet::new(), |labels| !known.contains(labels.policy()));
    }

    /// Replaces the labels that `of` selects by `new`, and removes the series of the others.
    fn replace(&self, new: &BTreeSet<Labels>, of: impl Fn(&Labels) -> bool) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in set.iter().filter(|labels| of(labels) && !new.contains(labels)) {
            match gone {
                Labels::Bucket(of) => {
                    for family in [
                        &self.demand,
                        &self.announced,
                        &self.target,
                        &self.placeholders,
                        &self.ready,
                        &self.warm_pool_target,
                        &self.warm_pool_prepared,
                    ] {
                        family.remove(of);
                    }
                    self.dollars.remove(of);
                }
                Labels::HeldBack(of) => drop(self.held_back.remove(of)),
                Labels::Tier(of) => drop(self.tiers.remove(of)),
                Labels::Price(of) => drop(self.prices.remove(of)),
                Labels::Degraded(of) => drop(self.degraded.remove(of)),
                Labels::Reason(of) => drop(self.reasons.remove(of)),
                Labels::Policy(of) => {
                    for family in [&self.unplaced, &self.tick, &self.last_tick, &self.last_decision]
                    {
                        family.remove(of);
                    }
                }
            }
        }
        set.retain(|labels| !of(labels));
        set.extend(new.iter().cloned());
    }
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
