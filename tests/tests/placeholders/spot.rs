//! Spot and on-demand groups: which jobs get which, and where placeholders stand while launches of
//! spot instances fail.

use std::time::Duration;

use tests::autoscaler::{AutoscalerSettings, provision_time};
use tests::installed::policy;
use tests::node_group::NodeGroup;

use super::world::{Plan, job};

/// A job that a gate holds, with `more` in the spec of its pods.
fn gated(name: &str, pods: usize, more: &str) -> String {
    job(name, pods).replace(
        "template: {spec: {",
        &format!("template: {{spec: {{schedulingGates: [{{name: example.com/data}}], {more}"),
    )
}

/// Marks pods as interruptible, and lets them run on the tainted nodes of the spot group.
const TOLERATES: &str = "tolerations: [{key: example.com/spot, operator: Exists}], ";

#[tokio::test(flavor = "multi_thread")]
async fn interruptible_jobs_get_spot_headroom_and_on_demand_headroom_while_spot_backs_off() {
    let groups = [
        NodeGroup::new("spot", "m5.xlarge").spot().taint("example.com/spot", "", "NoSchedule"),
        NodeGroup::new("steady", "m5.xlarge").on_demand(),
    ];
    let autoscaler = AutoscalerSettings {
        max_node_provision_time: provision_time(Duration::from_secs(8)),
        backoff: Duration::from_secs(30),
        backoff_max: Duration::from_secs(30),
        ..AutoscalerSettings::default()
    };
    let spec = "{mode: Act, tick: 10s, forecast: {method: scheduled}, workloads: {releasedGates: [example.com/data]},
        buckets: {spotFor: {tolerations: [example.com/spot]}}}";
    let plan = Plan { autoscaler, ..Plan::of(groups) };
    let world = plan.start(&policy("batch", spec)).await;
    world.apply(&[gated("plain", 2, ""), gated("cheap", 3, TOLERATES)].concat()).await;
    world.wait_for_groups(&[("spot", 3), ("steady", 2)]).await;
    assert_eq!(world.launched_after_scans(3).await, 5, "{}", world.details());

    // The nodes of the next launches do not come, so the group backs off. Placeholders that have
    // nodes stay.
    world.joiner.fail("spot");
    world.apply(&gated("more", 2, TOLERATES)).await;
    world.wait_for_groups(&[("spot", 3), ("steady", 4)]).await;
    let moved = |status: &serde_json::Value| {
        let buckets = status["buckets"].as_array().cloned().unwrap_or_default();
        let of = |name: &str| buckets.iter().find(|bucket| bucket["name"] == name).cloned();
        let target = |name: &str| of(name).and_then(|bucket| bucket["target"].as_u64());
        let spot = buckets.iter().find(|b| b["name"].as_str().is_some_and(|n| n.contains("/spot")));
        spot.is_some_and(|spot| spot["groups"][0]["backoff"] == true)
            && target("m5.xlarge").is_some()
    };
    world.wait_for_status("batch", "the backoff of the spot group", moved).await;

    // After the backoff, the nodes on demand go as those of the spot group come.
    world.joiner.heal("spot");
    world.wait_for_groups(&[("spot", 5), ("steady", 2)]).await;
}
