//! Warm pools: reads those that Prophet sizes, and sets and restores them.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_autoscaling::types::{
    AutoScalingGroup, InstanceReusePolicy, LifecycleState, WarmPoolConfiguration,
};
use chrono::{DateTime, TimeDelta, Utc};
use futures::{StreamExt as _, stream};

use super::calls::Clients;
use super::pool_steps::{Mark, PoolFacts, PoolSettings, WARM_POOL_TAG};
use crate::catalog::{StandingPool, StandingPools, WantedPools};
use crate::causes::chain;

/// How long an instance that left its pool is known to be from it. A start takes minutes.
const KNOWN: TimeDelta = TimeDelta::hours(1);

/// Concurrent reads of the instances of pools: four, as for launch templates.
const POOLS_AT_ONCE: usize = 4;

/// The groups with what was read of their pools.
pub(super) type Pools = BTreeMap<String, PoolFacts>;

/// Reads what the description of an Auto Scaling group has of its warm pool.
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

/// Takes the steps from the pools that stand to those that are wanted, one group after the other,
/// each within `write_limit`, until that is zero. Returns why the pools of groups are not as they
/// are wanted.
pub(super) async fn follow(
    clients: &Clients,
    pools: &mut Pools,
    wanted: &WantedPools,
    write_limit: &(dyn Fn() -> Duration + Sync),
) -> BTreeMap<String, String> {
    let mut faults = BTreeMap::new();
    for (group, facts) in pools {
        let steps = match facts.steps(group, wanted) {
            Ok(steps) => steps,
            Err(fault) => {
                faults.insert(group.clone(), fault);
                continue;
            }
        };
        for step in steps {
            let limit = write_limit();
            if limit.is_zero() {
                return faults;
            }
            tracing::info!(group, ?step, "warm pool");
            let fault = match tokio::time::timeout(limit, clients.pool_step(group, &step)).await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(chain(&error)),
                Err(_) => Some(format!("no response of AWS within {} s", limit.as_secs())),
            };
            if let Some(fault) = fault {
                faults.insert(group.clone(), fault);
                break;
            }
            facts.take(step);
        }
    }
    faults
}

/// The pools that Prophet sizes, before their instances are read. `before` is what stood at the
/// last call.
pub(super) fn standing(pools: &Pools, before: &StandingPools, now: DateTime<Utc>) -> StandingPools {
    let pool = |(group, facts): (&String, &PoolFacts)| {
        let policy = facts.tag.as_deref()?.parse::<Mark>().ok()?.policy;
        let size = u64::try_from(facts.settings.as_ref()?.min_size).unwrap_or(0);
        let known = before.pools.get(group).filter(|known| known.policy == policy);
        let (prepared, preparing) = known.map_or((0, 0), |pool| (pool.prepared, pool.preparing));
        Some((group.clone(), StandingPool { policy, size, prepared, preparing }))
    };
    let instances = before.instances.iter().filter(|(_, seen)| now - **seen < KNOWN);
    StandingPools {
        pools: pools.iter().filter_map(pool).collect(),
        faults: BTreeMap::new(),
        instances: instances.map(|(id, seen)| (id.clone(), *seen)).collect(),
    }
}

/// Reads the instances of the pools in `standing`. Those of a pool that cannot be read stay as they
/// were, with a fault.
pub(super) async fn read(clients: &Clients, standing: &mut StandingPools, now: DateTime<Utc>) {
    let groups: Vec<String> = standing.pools.keys().cloned().collect();
    let read = |group: String| async move { (clients.pool_instances(&group).await, group) };
    let mut answers = stream::iter(groups).map(read).buffer_unordered(POOLS_AT_ONCE);
    while let Some((answer, group)) = answers.next().await {
        let Some(pool) = standing.pools.get_mut(&group) else { continue };
        let instances = match answer {
            Ok(instances) => instances,
            Err(error) => {
                standing.faults.entry(group).or_insert_with(|| chain(&error));
                continue;
            }
        };
        (pool.prepared, pool.preparing) = (0, 0);
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
}
