//! Builds a policy's status: observations, forecasts, decisions and problems.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use embedder::{Resource, Shape, Unplaced};
use instances::PriceSource;
use placeholders::{Prices, Reason};

use super::nodes::nodes;
use super::plans::{PLANS_MAX, plan_status};
use super::rfc3339::rfc3339;
use crate::catalog::Offers;
use crate::crd::{
    BucketStatus, ExpectedStatus, GroupStatus, OverprovisioningPolicy,
    OverprovisioningPolicyStatus, PlanStatus, PlannedDemandStatus, StatusCondition, StepStatus,
    TierStatus, UnplacedStatus,
};
use crate::observe::Key;
use crate::outcome::{Cause, Decision, Outcome, PlanSeen, TierPods, Unread};

/// The most shapes of unplaced pods in a status.
const UNPLACED_MAX: usize = 20;

/// Builds the status of an outcome. `before` is the previous status.
pub fn status(
    policy: &OverprovisioningPolicy,
    outcome: &Outcome,
    before: &OverprovisioningPolicyStatus,
    now: DateTime<Utc>,
) -> OverprovisioningPolicyStatus {
    let generation = policy.metadata.generation.unwrap_or(0);
    // Without a decision, the buckets of the previous status stay.
    let buckets = match &outcome.decision {
        Some(decision) => buckets(outcome, decision, before, now),
        None => before.buckets.clone(),
    };
    let sum = |of: fn(&BucketStatus) -> u64| buckets.iter().map(of).sum();
    OverprovisioningPolicyStatus {
        observed_generation: generation,
        conditions: conditions(outcome, before, generation, now),
        demand: sum(|bucket| bucket.demand),
        target: sum(|bucket| bucket.target),
        placeholders: sum(|bucket| bucket.placeholders),
        tiers: outcome.observation.tiers.iter().map(tier).collect(),
        planned: plans(policy, outcome),
        expected: expected(outcome),
        // An invalid policy has no step, and goes on with the one before once it is corrected.
        rollout: outcome.rollout.clone().or_else(|| {
            let invalid = outcome.faults.has(Cause::InvalidPolicy);
            before.rollout.clone().filter(|_| invalid)
        }),
        held_back: outcome
            .observation
            .held_back
            .iter()
            .map(|(why, n)| (why.label().to_owned(), *n))
            .collect(),
        unplaced: unplaced(outcome),
        nodes: match &outcome.offers {
            Some(offers) => nodes(&outcome.known, offers),
            None => before.nodes.clone(),
        },
        buckets,
    }
}

fn tier((name, pods): (&String, &TierPods)) -> TierStatus {
    let TierPods { waiting, running } = *pods;
    TierStatus { name: name.clone(), waiting, running }
}

fn buckets(
    outcome: &Outcome,
    Decision { turn, lead_seconds, .. }: &Decision,
    before: &OverprovisioningPolicyStatus,
    now: DateTime<Utc>,
) -> Vec<BucketStatus> {
    let Some(offers) = &outcome.offers else { return Vec::new() };
    let prices = Prices::new(outcome.objective, &offers.catalog);
    let one = |bucket: &placeholders::BucketPlan| {
        let id = bucket.bucket;
        let (standing, ready) =
            (&outcome.observation.observed.standing.buckets[id], &outcome.observation.ready[id]);
        let outlook = &turn.outlook.buckets[id];
        let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
        let quantiles = quantiles.map(|(name, q)| (name.to_owned(), outlook.new_nodes.quantile(q)));
        let held = ("held".to_owned(), outlook.headroom(prices.quantile(id)));
        let groups =
            offers.catalog.buckets()[id].groups.iter().enumerate().map(|(at, group)| GroupStatus {
                name: group.name.clone(),
                target: bucket.groups[at].want,
                placeholders: standing[at].placeholders,
                ready: ready[at],
                backoff: standing[at].backoff,
                backoff_until: outcome.observation.backoffs[id][at]
                    .and_then(|backoff| backoff.until)
                    .map(rfc3339),
                launch_seconds: u64::try_from(outcome.observation.launch_seconds[id][at])
                    .unwrap_or(0),
            });
        let steps = bucket
            .why
            .iter()
            .map(|step| StepStatus { reason: step.reason.label().into(), target: step.target });
        let name = &offers.catalog.buckets()[id].name;
        let known = before.buckets.iter().find(|known| known.name == *name);
        let since = known.and_then(|known| known.forecast_since.clone());
        let since = match outlook.reason {
            Reason::TooLittleHistory => None,
            Reason::Expression => since,
            _ => Some(since.unwrap_or_else(|| rfc3339(now))),
        };
        let price = offers.price(name);
        BucketStatus {
            name: name.clone(),
            price_per_hour: price.map(|price| price.hourly.dollars().to_string()),
            price_source: price.map(|price| price.source.label().into()),
            demand: turn.demand.present.get(id).copied().unwrap_or(0),
            announced: turn.demand.announced.get(id).copied().unwrap_or(0),
            outlook: quantiles.into_iter().chain([held]).collect(),
            lead_seconds: lead_seconds
                .get(id)
                .and_then(|seconds| u64::try_from(*seconds).ok())
                .unwrap_or(0),
            forecast_since: since,
            expert: outlook.carrier.map(|carrier| carrier.to_string()).unwrap_or_default(),
            target: bucket.target,
            placeholders: standing.iter().map(|group| group.placeholders).sum(),
            ready: ready.iter().sum(),
            reason: bucket.why.last().map_or("", |step| step.reason.label()).into(),
            steps: steps.collect(),
            groups: groups.collect(),
            warm_pool: outcome.warm_pools.buckets.get(id).copied().flatten(),
        }
    };
    turn.plan.buckets.iter().map(one).collect()
}

/// The plans that the policy covers, the earliest ones.
/// The steps of workflows that are expected, the most probable ones first.
pub(super) fn expected(outcome: &Outcome) -> Vec<ExpectedStatus> {
    let Some(turn) = outcome.turn() else { return Vec::new() };
    let mut steps: Vec<&control::Expected> = turn.expected.iter().collect();
    steps.sort_by(|a, b| b.chance.total_cmp(&a.chance).then_with(|| a.plan.cmp(&b.plan)));
    let status = |step: &control::Expected| {
        let held = turn.planned.iter().find(|(plan, _)| *plan == step.plan);
        ExpectedStatus {
            name: step.plan.clone(),
            chance: format!("{:.0}%", 10.0 * (10.0 * step.chance).round()),
            pods: step.pods,
            held: held.map_or(0, |(_, pods)| *pods),
        }
    };
    steps.into_iter().take(PLANS_MAX).map(status).collect()
}

fn plans(policy: &OverprovisioningPolicy, outcome: &Outcome) -> Vec<PlanStatus> {
    let mut plans: Vec<&PlanSeen> = outcome.observation.plans.iter().collect();
    plans.sort_by_key(|plan| (plan.at, &plan.key));
    let key = Key::of(&policy.metadata);
    let status = |plan: &PlanSeen| PlanStatus {
        name: plan.key.to_string(),
        // It is the policy whose status has the plan.
        status: PlannedDemandStatus { policy: None, ..plan_status(plan, &key, outcome) },
    };
    plans.into_iter().take(PLANS_MAX).map(status).collect()
}

fn unplaced(outcome: &Outcome) -> Vec<UnplacedStatus> {
    let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (shape, pods, reason) in &outcome.observation.unfit {
        *all.entry((shape_text(shape), reason.label())).or_default() += pods;
    }
    let packed = outcome.turn().into_iter().flat_map(|turn| &turn.demand.unplaced);
    for Unplaced { request, count, reason } in packed {
        if let Some(request) = outcome.observation.observed.cluster.pending.get(*request) {
            let key = (shape_text(&request.shape), reason.label().to_owned());
            *all.entry(key).or_default() += count;
        }
    }
    let mut all: Vec<UnplacedStatus> = all
        .into_iter()
        .map(|((shape, reason), pods)| UnplacedStatus { shape, pods, reason })
        .collect();
    all.sort_by(|a, b| b.pods.cmp(&a.pods).then_with(|| a.shape.cmp(&b.shape)));
    all.truncate(UNPLACED_MAX);
    all
}

/// A shape's requests as text, such as `accelerators=8, cpu_millis=4000`.
pub fn shape_text(shape: &Shape) -> String {
    let requests = Resource::ALL.into_iter().zip(shape.requests.components());
    let parts = requests.filter(|(resource, amount)| *amount > 0 && *resource != Resource::Pods);
    let parts: Vec<String> =
        parts.map(|(resource, amount)| format!("{}={amount}", resource.label())).collect();
    if parts.is_empty() { "nothing".into() } else { parts.join(", ") }
}

/// Builds the conditions. `Ready`: the policy is applied. `Degraded`: there is a problem, even if
/// the policy is applied. [`PRICES_KNOWN`]: each bucket has the price of its instance type in the
/// region of the cluster, and the prices of AWS can be read, if that is configured.
fn conditions(
    outcome: &Outcome,
    before: &OverprovisioningPolicyStatus,
    generation: i64,
    now: DateTime<Utc>,
) -> Vec<StatusCondition> {
    let worst = outcome.faults.first();
    let stops = outcome
        .faults
        .iter()
        .find(|fault| stops(fault.cause, outcome.observation.blind))
        .or(worst.filter(|_| outcome.turn().is_none()));
    let messages: Vec<&str> = outcome.faults.iter().map(|fault| fault.message.as_str()).collect();
    let ready = match stops {
        None => ("True", "Working", "the policy is applied".to_owned()),
        Some(fault) => ("False", fault.cause.label(), fault.message.clone()),
    };
    let degraded = match worst {
        None => ("False", "AllWell", "no problems".to_owned()),
        Some(fault) => ("True", fault.cause.label(), messages.join("; ")),
    };
    let prices =
        outcome.offers.as_ref().map(|offers| (PRICES_KNOWN, prices_known(offers, &outcome.unread)));
    [("Ready", ready), ("Degraded", degraded)]
        .into_iter()
        .chain(prices)
        .map(|(type_, (status, reason, message))| {
            let known = before
                .conditions
                .iter()
                .find(|known| known.type_ == type_ && known.status == status);
            let since =
                known.map_or_else(|| rfc3339(now), |known| known.last_transition_time.clone());
            StatusCondition {
                type_: type_.into(),
                status: status.into(),
                reason: reason.into(),
                message,
                last_transition_time: since,
                observed_generation: generation,
            }
        })
        .collect()
}

/// The type of the condition about prices.
pub(super) const PRICES_KNOWN: &str = "PricesKnown";

/// Status, reason and message of the condition about prices. `unread` are the failures to read them
/// from AWS.
fn prices_known(offers: &Offers, unread: &Unread) -> (&'static str, &'static str, String) {
    let named = |source: PriceSource| -> Vec<&str> {
        let all = offers.catalog.buckets().iter().zip(&offers.prices);
        all.filter(|(_, found)| **found == source).map(|(bucket, _)| bucket.name.as_str()).collect()
    };
    let (estimated, elsewhere) = (named(PriceSource::Estimate), named(PriceSource::OtherRegion));
    let give = "give them with --prices, or as prices of the chart";
    if !unread.reservations.is_empty() {
        ("False", "ReservationsNotRead", unread.reservations.join("; "))
    } else if !estimated.is_empty() {
        let message =
            format!("the prices of {} are estimates from their size: {give}", estimated.join(", "));
        ("False", "Estimated", message)
    } else if !elsewhere.is_empty() {
        let message = format!(
            "the prices of {} are those of another region, because the table does not have those of the cluster's region: {give}",
            elsewhere.join(", ")
        );
        ("False", "OtherRegion", message)
    } else if !unread.prices.is_empty()
        && offers.prices.iter().any(|of| of.is_listed() || of.is_of_aws())
    {
        let message = format!(
            "prices were not read from AWS, so the last ones, or else those of the built-in table, count: {}",
            unread.prices.join("; ")
        );
        ("False", "NotRead", message)
    } else {
        ("True", "Listed", "the price of each bucket is known".into())
    }
}

/// Whether a cause keeps the policy from being applied. `blind` is whether a watch fails that the
/// policy's decisions need.
fn stops(cause: Cause, blind: bool) -> bool {
    matches!(
        cause,
        Cause::InvalidPolicy | Cause::PriorityClass | Cause::NoBuckets | Cause::NoCapacityBuffers
    ) || (cause == Cause::WatchFailed && blind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status and the reason of `PricesKnown` for a bucket whose price has this source.
    #[track_caller]
    fn check(source: PriceSource, prices: &[&str], reservations: &[&str], expected: (&str, &str)) {
        let of = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        let unread = Unread { prices: of(prices), reservations: of(reservations) };
        let offers = Offers {
            catalog: testkit::catalog([("a", 4_000, 0.2)]),
            groups: vec![Vec::new()],
            prices: vec![source],
            ranking: Vec::new(),
            problems: Vec::new(),
        };
        let (status, reason, message) = prices_known(&offers, &unread);
        assert_eq!((status, reason), expected, "{message}");
        for part in prices.iter().chain(reservations).filter(|_| reason.ends_with("NotRead")) {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_price_that_is_a_guess_or_could_not_be_read_is_said() {
        use PriceSource::{Estimate, Operator, OtherRegion, PriceList, Table};
        check(Table, &[], &[], ("True", "Listed"));
        check(Estimate, &[], &[], ("False", "Estimated"));
        check(OtherRegion, &[], &[], ("False", "OtherRegion"));
        check(Table, &["denied"], &[], ("False", "NotRead"));
        check(PriceList, &["denied"], &[], ("False", "NotRead"));
        // The operator's own prices need no others.
        check(Operator, &["denied"], &[], ("True", "Listed"));
        check(Operator, &[], &["no cr-1"], ("False", "ReservationsNotRead"));
    }
}
