//! Plans while the observed cluster is out of date: placeholders may be removed, and none is added.

use chrono::{DateTime, Utc};
use embedder::Catalog;

use crate::plan::{Plan, plan};
use crate::policy::{Behavior, Policy};
use crate::standing::Standing;
use crate::steady::Steady;
use crate::want::Want;

/// Plans at most the standing placeholders of each group, for `wants`, which has one element per
/// bucket of the catalog, in its order.
///
/// The limits of the policy apply. Its stabilisers and its rollout do not, because they work on
/// targets that a forecast gives.
pub fn shrink(
    wants: &[Want],
    standing: &Standing,
    catalog: &Catalog,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Plan {
    let capped = wants.iter().map(|want| {
        let stands = standing.placeholders(want.bucket);
        let (announced, headroom) = (want.announced.min(stands), want.headroom.min(stands));
        let (gangs, forecast_gangs) = (Vec::new(), Vec::new());
        Want { announced, gangs, forecast_gangs, headroom, ..want.clone() }
    });
    let capped: Vec<Want> = capped.collect();
    let mut policy = Policy { behavior: Behavior::default(), ..policy.clone() };
    policy.limits.outer.rollout_percent = None;
    let (mut plan, _) = plan(&capped, standing, catalog, &policy, &Steady::default(), now);
    for bucket in &mut plan.buckets {
        // A group that is above its maximum would pass its placeholders on to other groups.
        bucket.groups.iter_mut().for_each(|group| group.want = group.want.min(group.have));
        bucket.target = bucket.groups.iter().map(|group| group.want).sum();
        if let Some(step) = bucket.why.last_mut() {
            step.target = bucket.target;
        }
    }
    plan
}
