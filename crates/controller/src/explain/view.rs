//! The outcome of a turn as a view of the dashboard.

use chrono::{DateTime, Utc};
use dashboard::{Acting, BucketView, Captions, Curve, FaultView, Figure, PolicyView, Range, Unit};
use instances::Price;
use placeholders::Prices;

use super::plans::{PLANS_MAX, plan_status};
use super::status::expected;
use crate::account::Account;
use crate::crd::{ExpectedStatus, Mode, PlannedDemandStatus};
use crate::observe::Key;
use crate::outcome::{Decision, Outcome, PlanSeen, PolicyFault};

/// The texts of the dashboard of the controller.
pub(super) const CAPTIONS: Captions = Captions {
    title: "Prophet",
    lead: "Demand, forecasts and placeholders of each policy of this cluster. The page only reads.",
    curves: [
        Curve { title: "Batch pods waiting for a node", unit: "pods" },
        Curve { title: "Placeholders", unit: "placeholders" },
        Curve { title: "Nodes in use or held", unit: "nodes" },
        Curve { title: "Dollars spent on placeholders so far", unit: "dollars" },
    ],
    nodes: "Demand is the number of nodes that batch pods occupy or wait for, and the band on top of it the forecast of new nodes, since the controller started. Ready are the nodes that batch pods occupy or placeholders hold; launching are those that they wait for.",
    range: Range::Hour,
};

/// Returns the view of a policy in this mode after a turn.
pub(super) fn view(
    key: &Key,
    mode: Mode,
    tick_seconds: i64,
    outcome: &Outcome,
    now: DateTime<Utc>,
) -> PolicyView {
    let buckets = buckets(outcome);
    // Without a turn, as while a policy is invalid, the counts are unknown, not 0.
    let known = |count: u64| if outcome.turn().is_some() { count as f64 } else { f64::NAN };
    let sum = |of: fn(&BucketView) -> u64| known(buckets.iter().map(of).sum());
    let waiting: u64 =
        outcome.observation.observed.cluster.pending.iter().map(|request| request.count).sum();
    let fault = |fault: &PolicyFault| FaultView {
        cause: fault.cause.label(),
        message: fault.message.clone(),
        remedy: fault.cause.remedy(),
    };
    PolicyView {
        name: key.to_string(),
        acting: Some(match mode {
            Mode::Observe => Acting::Observes,
            Mode::Act => Acting::Acts,
        }),
        time: now.timestamp(),
        tick_seconds,
        curves: [
            known(waiting),
            sum(|bucket| bucket.placeholders),
            sum(|bucket| bucket.ready),
            spent(outcome),
        ],
        figures: figures(outcome),
        if_acted: outcome.if_acted.clone(),
        planned: planned(key, outcome),
        buckets,
        faults: outcome.faults.iter().map(fault).collect(),
    }
}

/// The plans that the policy covers, the earliest ones, and the steps of workflows that are
/// expected, each with its name and a sentence.
fn planned(key: &Key, outcome: &Outcome) -> Vec<(String, String)> {
    let mut plans: Vec<&PlanSeen> = outcome.observation.plans.iter().collect();
    plans.sort_by_key(|plan| (plan.at, &plan.key));
    let sentence = |plan: &PlanSeen| {
        let PlannedDemandStatus { next, kept, message, .. } = plan_status(plan, key, outcome);
        let kept = kept.map_or(String::new(), |kept| {
            format!(" Of the pods that {} planned before, {kept} came.", plan.author)
        });
        (plan.key.to_string(), format!("{}: {message}.{kept}", next.unwrap_or_default()))
    };
    let step = |ExpectedStatus { name, chance, pods, held }: ExpectedStatus| {
        let text = format!(
            "{pods} pods with a chance of {chance} within a launch; {held} count as demand"
        );
        (name, text)
    };
    let steps = expected(outcome).into_iter().map(step);
    plans.into_iter().take(PLANS_MAX).map(sentence).chain(steps).collect()
}

/// Returns the buckets; none where no decision was possible.
fn buckets(outcome: &Outcome) -> Vec<BucketView> {
    let (Some(offers), Some(decision)) = (&outcome.offers, &outcome.decision) else {
        return Vec::new();
    };
    let Decision { turn, weights, .. } = decision;
    let prices = Prices::new(outcome.objective, &offers.catalog);
    let bucket = |id: usize| {
        let occupied = outcome.observation.observed.cluster.occupied.get(id).copied().unwrap_or(0);
        let on_nodes: u64 =
            outcome.observation.ready.get(id).map_or(0, |groups| groups.iter().sum());
        let standing = outcome.observation.observed.standing.placeholders(id);
        let missing =
            turn.demand.present.get(id).map_or(0, |demand| demand.saturating_sub(occupied));
        let price = offers.price(&offers.catalog.buckets()[id].name);
        let price = price.map(|Price { hourly, source }| {
            format!("${} an hour, from {}", hourly.dollars(), source.in_words())
        });
        let view = BucketView {
            price: price.unwrap_or_default(),
            placeholders: standing,
            ready: occupied + on_nodes,
            launching: missing + standing.saturating_sub(on_nodes),
            weights: weights.get(id).cloned().unwrap_or_default(),
            ..BucketView::default()
        };
        view.with_turn(turn, id, &offers.catalog, &prices)
    };
    (0..turn.plan.buckets.len()).map(bucket).collect()
}

/// The dollars of the nodes that placeholders held. Buckets that are no longer on offer are left
/// out, because their price is unknown. NaN where no bucket is on offer.
fn spent(outcome: &Outcome) -> f64 {
    let Some(offers) = &outcome.offers else { return f64::NAN };
    let buckets = offers.catalog.buckets().iter();
    let dollars = buckets.map(|bucket| {
        let seconds = outcome.account.held_seconds.get(&bucket.name).copied().unwrap_or(0.0);
        seconds / 3_600.0 * bucket.hourly.dollars()
    });
    dollars.sum()
}

fn figures(outcome: &Outcome) -> Vec<Figure> {
    let Account { launched, used, hidden, waited_for, failed, saved_seconds, .. } =
        &outcome.account;
    let count = |name, meaning, value: u64| Figure {
        name,
        meaning,
        unit: Unit::Count,
        value: value as f64,
    };
    let minutes = *saved_seconds as f64 / 60.0;
    let wait = outcome
        .offers
        .as_ref()
        .map_or(f64::NAN, |offers| Prices::new(outcome.objective, &offers.catalog).wait());
    vec![
        count(
            "launches hidden",
            "nodes that placeholders launched, and that a pod used without waiting for them",
            *hidden,
        ),
        count(
            "launches not used",
            "nodes that placeholders launched, and that no pod has used so far",
            launched.saturating_sub(*used),
        ),
        count("launches waited for", "nodes that pods waited for", *waited_for),
        count("launches failed", "placeholders without a node in time", *failed),
        Figure {
            name: "waiting avoided",
            meaning: "the launch latencies of the used launches, less the time that their first pods waited",
            unit: Unit::Minutes,
            value: minutes,
        },
        Figure {
            name: "spent",
            meaning: "the nodes that placeholders held, at the prices of their buckets",
            unit: Unit::Dollars,
            value: spent(outcome),
        },
        Figure {
            name: "waiting avoided, priced",
            meaning: "at the policy's price of a pending pod-hour",
            unit: Unit::Dollars,
            value: minutes / 60.0 * wait,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_without_a_decision_has_no_counts() {
        let key = Key { namespace: "a".into(), name: "b".into() };
        let view = view(&key, Mode::Observe, 60, &Outcome::default(), DateTime::UNIX_EPOCH);
        assert!(view.curves.iter().all(|value| value.is_nan()), "{:?}", view.curves);
    }
}
