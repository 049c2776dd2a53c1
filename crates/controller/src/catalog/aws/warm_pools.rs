//! Warm pools: reads those that Prophet sizes, and sets and restores them.

use std::collections::BTreeMap;

use aws_sdk_autoscaling::types::{
    AutoScalingGroup, InstanceReusePolicy, LifecycleState, WarmPoolConfiguration,
};
use chrono::{DateTime, TimeDelta, Utc};

use super::calls::Clients;
use super::pool_steps::{Mark, PoolFacts, PoolSettings, WARM_POOL_TAG};
use crate::catalog::{StandingPool, StandingPools, WantedPools};
use crate::causes::chain;

/// How long an instance that left its pool is known to be from it. A start takes minutes.
const KNOWN: TimeDelta = TimeDelta::hours(1);

/// The groups with what was read of their pools.
pub(super) type Pools = BTreeMap<String, PoolFacts>;

/// What an Auto Scaling group says of its warm pool.
pub(super) fn facts(group: &AutoScalingGroup) -> PoolFacts {
    let pool = group.warm_pool_configuration();
    let tag = group.tags().iter().find(|tag| tag.key() == Some(WARM_POOL_TAG));
    PoolFacts {
        settings: pool.map(settings),
        is_being_deleted: pool.is_some_and(|pool| pool.status().is_some()),
        tag: tag.map(|tag| tag.value().unwrap_or_default().to_owned()),
    }
}

fn settings(pool: &WarmPoolConfiguration) -> PoolSettings {
    let reuse = pool.instance_reuse_policy().and_then(InstanceReusePolicy::reuse_on_scale_in);
    PoolSettings {
        min_size: pool.min_size().unwrap_or(0),
        max_prepared: pool.max_group_prepared_capacity().unwrap_or(-1),
        state: pool.pool_state().map_or("Stopped", |state| state.as_str()).to_owned(),
        reuse: reuse.unwrap_or(false),
    }
}

/// Takes the steps from the pools that stand to those that are wanted, one group after the other.
/// Without `wanted`, because it is not decided yet or another replica leads, nothing is changed.
/// Returns what stands; `before` is what stood at the last call.
pub(super) async fn follow(
    clients: &Clients,
    pools: &mut Pools,
    wanted: Option<&WantedPools>,
    before: &StandingPools,
    now: DateTime<Utc>,
) -> StandingPools {
    let mut standing = StandingPools { instances: before.instances.clone(), ..<_>::default() };
    standing.instances.retain(|_, seen| now - *seen < KNOWN);
    for (group, facts) in pools {
        let steps = wanted.map_or_else(
            || Ok(Vec::new()),
            |wanted| facts.steps(wanted.pools.get(group), &wanted.kept),
        );
        let fault = match steps {
            Ok(steps) => {
                let mut fault = None;
                for step in steps {
                    tracing::info!(group, ?step, "warm pool");
                    if let Err(error) = clients.pool_step(group, &step).await {
                        fault = Some(chain(&error));
                        break;
                    }
                    facts.take(step);
                }
                fault
            }
            Err(fault) => Some(fault),
        };
        standing.faults.extend(fault.map(|fault| (group.clone(), fault)));
        let mark = facts.tag.as_deref().and_then(|tag| tag.parse::<Mark>().ok());
        let (Some(mark), Some(_)) = (mark, &facts.settings) else { continue };
        let mut pool = StandingPool { policy: mark.policy, ..StandingPool::default() };
        match clients.pool_instances(group).await {
            Ok(instances) => {
                for (id, state) in instances {
                    match state {
                        LifecycleState::WarmedStopped
                        | LifecycleState::WarmedHibernated
                        | LifecycleState::WarmedRunning => pool.prepared += 1,
                        LifecycleState::WarmedPending
                        | LifecycleState::WarmedPendingWait
                        | LifecycleState::WarmedPendingProceed => pool.preparing += 1,
                        _ => continue,
                    }
                    standing.instances.insert(id, now);
                }
            }
            Err(error) => {
                let known = before.pools.get(group).filter(|known| known.policy == pool.policy);
                pool = known.cloned().unwrap_or(pool);
                standing.faults.entry(group.clone()).or_insert_with(|| chain(&error));
            }
        }
        standing.pools.insert(group.clone(), pool);
    }
    standing
}
