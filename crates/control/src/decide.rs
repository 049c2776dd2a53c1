//! Decides how many placeholders should exist. All state is an argument, and the time is `now`.

use chrono::{DateTime, Utc};
use demand::forecast::{BucketOutlook, Outlook};
use embedder::{Catalog, Demand};
use placeholders::{Ceiling, Plan, Policy, Prices, Standing, Steady, Want, plan, shrink};

/// Returns the planned placeholders of each group, and the state of the stabilisers after the
/// decision. Headroom is measured from present demand. `planned` has, by bucket, the nodes of
/// announced demand beside which the headroom is held, because no forecast has them.
pub fn decide(
    outlook: &Outlook,
    (demand, planned): (&Demand, &[u64]),
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
    steady: &Steady,
    now: DateTime<Utc>,
) -> (Plan, Steady) {
    let wants = wants(outlook, demand, planned, catalog, policy);
    plan(&wants, standing, catalog, policy, steady, now)
}

/// Returns how many of the standing placeholders stay while the observed cluster is out of date. No
/// placeholder is added in any group.
pub fn retain(
    outlook: &Outlook,
    demand: &Demand,
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Plan {
    shrink(&wants(outlook, demand, &[], catalog, policy), standing, catalog, policy, now)
}

fn wants(
    outlook: &Outlook,
    demand: &Demand,
    planned: &[u64],
    catalog: &Catalog,
    policy: &Policy,
) -> Vec<Want> {
    // Chances decide which buckets get fewer placeholders under a limit over all buckets, so they
    // are computed only if there is such a limit.
    let outer = &policy.limits.outer;
    let capped = policy.limits.total.is_some()
        || policy.limits.dollars_per_hour.is_some()
        || outer.yielding.is_some()
        || outer.operator != Ceiling::default();
    let weighed = if capped { CHANCES_MAX } else { 0 };
    let prices = Prices::new(policy.objective, catalog);
    let planned = |bucket: usize| planned.get(bucket).copied().unwrap_or(0);
    let chances = |bucket: usize, outlook: &BucketOutlook| {
        let certain = usize::try_from(planned(bucket).min(weighed)).unwrap_or_default();
        let mut chances = vec![1.0; certain];
        chances.extend(outlook.new_nodes.chances(weighed));
        chances
    };
    let wants = outlook.buckets.iter().enumerate().map(|(bucket, outlook)| Want {
        bucket,
        announced: demand.announced.get(bucket).copied().unwrap_or(0),
        gangs: demand
            .gangs
            .iter()
            .filter(|gang| gang.bucket == bucket)
            .map(|gang| gang.instances)
            .collect(),
        forecast_gangs: outlook.gangs(prices.quantile(bucket)),
        headroom: beside(planned(bucket), outlook.headroom(prices.quantile(bucket))),
        reason: outlook.reason,
        chances: chances(bucket, outlook),
    });
    wants.collect()
}

/// The headroom with the planned nodes beside which it is held. Without headroom it is 0, because
/// the planned nodes are announced demand.
fn beside(planned: u64, headroom: u64) -> u64 {
    if headroom == 0 { 0 } else { headroom.saturating_add(planned) }
}

/// The most chances of a want: the chance that a bucket needs at least n nodes, for n from 1. No
/// limit admits so many placeholders that a further chance would change what it leaves out.
const CHANCES_MAX: u64 = 1_000;

#[cfg(test)]
mod tests {
    use demand::forecast::{Method, Present, sample};
    use demand::record::History;
    use placeholders::{GroupStanding, Objective};

    use super::*;

    #[track_caller]
    fn check(method: Method, announced: u64, placeholders: u64) {
        let catalog = sample::catalog();
        let forecaster =
            sample::config(method, Objective::default()).forecaster(DateTime::UNIX_EPOCH);
        let demand = Demand { present: vec![5], announced: vec![announced], ..Demand::default() };
        let now = DateTime::UNIX_EPOCH;
        let outlook = forecaster.forecast(&History::new(&catalog), &Present::at_tick(now, &demand));
        let standing =
            Standing { buckets: vec![vec![GroupStanding::default()]], ..Standing::default() };
        let (policy, steady) = (Policy::default(), Steady::default());
        let (plan, _) =
            decide(&outlook, (&demand, &[]), &standing, &catalog, &policy, &steady, now);
        assert_eq!(plan.buckets[0].target, placeholders, "{method:?}");
    }

    /// At five nodes the ladder holds one placeholder.
    #[test]
    fn scheduled_holds_announced_demand_only() {
        check(Method::Scheduled, 0, 0);
        check(Method::Scheduled, 3, 3);
        check(Method::Ladder, 0, 1);
        check(Method::Ladder, 3, 3);
    }
}
