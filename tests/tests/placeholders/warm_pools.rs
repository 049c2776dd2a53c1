//! Warm pools of Auto Scaling groups: a policy sizes them from its forecast, and restores what was
//! there before.

use std::time::Duration;

use aws_sdk_autoscaling::types::WarmPoolState;
use serde_json::json;
use tests::installed::policy;
use tests::node_group::NodeGroup;
use tests::wait;

use super::forecasts::record;
use super::world::{Plan, World};

/// The longest wait for a pool: the controller reads and writes groups once a minute.
const POOL_DEADLINE: Duration = Duration::from_mins(3);

/// The pool of each group that has one, as its name, its size and its state. Both numbers of a pool
/// of Prophet are equal.
async fn pools(world: &World) -> anyhow::Result<Vec<(String, i32, i32, String)>> {
    let described = world.moto.autoscaling().describe_auto_scaling_groups().send().await?;
    let pools = described.auto_scaling_groups().iter().filter_map(|group| {
        let pool = group.warm_pool_configuration()?;
        let most = pool.max_group_prepared_capacity().unwrap_or(-1);
        let state = pool.pool_state()?.to_string();
        Some((group.auto_scaling_group_name()?.to_owned(), pool.min_size()?, most, state))
    });
    let mut pools: Vec<_> = pools.collect();
    pools.sort_unstable();
    Ok(pools)
}

async fn wait_for_pools(world: &World, expected: &[(&str, i32, i32, &str)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, least, most, state)| ((*name).into(), *least, *most, (*state).into()))
        .collect();
    let found = wait::until_true("the warm pools", POOL_DEADLINE, async || {
        Ok(pools(world).await? == expected)
    });
    if let Err(error) = found.await {
        panic!("{error:#}: {:?}\n{}", pools(world).await, world.details());
    }
}

/// The history needs two new nodes every 20 minutes. Stopped instances are cheap, so the pools have
/// them all the time, while placeholders come and go.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_sizes_warm_pools_and_restores_what_was_there_before() {
    let groups = [
        NodeGroup::new("bare", "m5.xlarge").on_demand(),
        NodeGroup::new("theirs", "m5.xlarge").on_demand(),
        NodeGroup::new("cheap", "m5.xlarge").spot(),
    ];
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 8, false).await;
    let plan = Plan::of(groups);
    let world = plan.start_alone().await;
    let put = world.moto.autoscaling().put_warm_pool().auto_scaling_group_name("theirs");
    put.min_size(1).pool_state(WarmPoolState::Running).send().await.unwrap();
    let before = [("theirs", 1, -1, "Running")];

    // The status of a policy in the mode Observe has the target, and no pool changes.
    let spec = "{mode: Observe, tick: 10s, warmPool: {max: 3}}";
    let data = format!("--data={}", folder.path().display());
    let world = world.with_controller(&[data], &policy("batch", spec)).await;
    let target = |status: &serde_json::Value| {
        let buckets = status["buckets"].as_array().cloned().unwrap_or_default();
        buckets.iter().find_map(|bucket| bucket["warmPool"]["target"].as_u64())
    };
    world.wait_for_status("batch", "a target", |status| target(status) == Some(2)).await;
    wait_for_pools(&world, &before).await;

    world.patch_policy("batch", json!({"mode": "Act"})).await;
    let sized = [("bare", 1, 1, "Stopped"), ("theirs", 1, 1, "Stopped")];
    wait_for_pools(&world, &sized).await;
    // The most instances are a limit over all groups.
    world.patch_policy("batch", json!({"warmPool": {"max": 1}})).await;
    world.wait_for_status("batch", "the limit", |status| target(status) == Some(1)).await;
    wait_for_pools(&world, &[("bare", 1, 1, "Stopped"), ("theirs", 0, 0, "Stopped")]).await;

    // A policy that is deleted has no pools.
    world.delete_policy("batch").await;
    wait_for_pools(&world, &before).await;
}
