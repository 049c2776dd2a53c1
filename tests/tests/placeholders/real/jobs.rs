//! Jobs that run, and placeholders that they preempt.

use tests::installed::policy;
use tests::node_group::NodeGroup;
use tokio::time::Instant;

use super::{Images, TYPE, end, holding, is_running, job};

/// A job takes the node of a placeholder, whose container ends, and runs. The placeholder comes
/// back after the job.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_preempts_a_placeholder_that_runs_and_ends_by_itself() {
    let Some(images) = Images::where_permitted() else { return };
    let plan = images.plan([NodeGroup::new("small", TYPE)]);
    let world = plan.start(&policy("batch", &holding(1))).await;
    world.wait_for_running_placeholders(1).await;
    world.wait_for_measured_placeholders(1).await;

    let begin = Instant::now();
    world.apply(&job("work", "command: [sh, -c, 'sleep 3; exit 7']")).await;
    world.wait_for_pod("work", "runs", is_running).await;
    println!("the container of the job ran after {:.1} s", begin.elapsed().as_secs_f64());
    let ended = world.wait_for_pod("work", "has ended", |pod| end(pod).is_some()).await;
    assert_eq!(end(&ended), Some(("Error", 7)));
    world.wait_for_running_placeholders(1).await;

    // A job that takes more memory than it may is killed, and is no demand afterwards.
    let limits = "command: [tail, /dev/zero], resources: {limits: {memory: 64Mi, cpu: '1'}}";
    world.apply(&job("greedy", limits).replace("resources: {requests: {cpu: '1'}}, ", "")).await;
    let ended = world.wait_for_pod("greedy", "has ended", |pod| end(pod).is_some()).await;
    assert_eq!(end(&ended), Some(("OOMKilled", 137)));
    world.wait_for_running_placeholders(1).await;
    assert_eq!(world.autoscaler.counters().launched(), 1, "{}", world.details());
}
