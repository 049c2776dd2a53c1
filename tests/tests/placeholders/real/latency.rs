//! How long a pod waits for its container to start: with free room, and by the preemption of a
//! placeholder. `make real` runs it.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use tests::node_group::NodeGroup;
use tests::wait;
use tokio::time::Instant;

use super::super::world::{DEADLINE, World};
use super::{Images, PAUSE, SHELL, TYPE, is_running};

/// The number of pods of each kind.
const RUNS: usize = 50;

/// A wait in seconds beyond which a pod was left alone after its preemption: the scheduler
/// considers such a pod again only after a pause.
const LEFT_ALONE: f64 = 5.0;

const CLASS: &str = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: placeholder}, value: -10}";

/// A pod with one CPU and this image. With `more` in its spec.
fn pod(name: &str, image: &str, command: &str, more: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default}}, spec: {{{more} restartPolicy: Never,
           containers: [{{name: work, image: '{image}', {command} resources: {{requests: {{cpu: '1'}}}}}}]}}}}"
    )
}

impl World {
    async fn delete_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.plane.client());
        // A pod that was preempted may be gone.
        let _ = pods.delete(name, &DeleteParams::default().grace_period(0)).await;
        let gone = async || Ok(pods.get_opt(name).await?.is_none());
        wait::until_true("a pod to be gone", DEADLINE, gone).await.unwrap();
    }

    /// Applies a pod named `work`; returns the seconds until its container runs.
    async fn seconds_to_run(&self) -> f64 {
        let begin = Instant::now();
        let more = "terminationGracePeriodSeconds: 0,";
        self.apply(&pod("work", SHELL, "command: [sleep, '600'],", more)).await;
        self.wait_for_pod("work", "runs", is_running).await;
        let seconds = begin.elapsed().as_secs_f64();
        self.delete_pod("work").await;
        seconds
    }
}

/// The median, the largest, and the number of pods that were left alone.
fn summary(mut seconds: Vec<f64>) -> (f64, f64, usize) {
    seconds.sort_by(f64::total_cmp);
    let alone = seconds.iter().filter(|seconds| **seconds > LEFT_ALONE).count();
    (seconds[seconds.len() / 2], seconds[seconds.len() - 1], alone)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of several minutes; run by make real"]
async fn a_placeholder_that_is_preempted_costs_a_fraction_of_a_second() {
    let Some(images) = Images::where_permitted() else { return };
    let world = images.plan([NodeGroup::new("small", TYPE).sizes(1, 1)]).start_alone().await;
    world.wait_for_ready_nodes(1).await;
    world.apply(CLASS).await;
    let class = "priorityClassName: placeholder,";
    let cases = [
        ("free room", None),
        ("preemption, terminationGracePeriodSeconds: 0", Some("terminationGracePeriodSeconds: 0,")),
        (
            "preemption, terminationGracePeriodSeconds: 30",
            Some("terminationGracePeriodSeconds: 30,"),
        ),
    ];
    println!("| case | median s | largest s | left alone of {RUNS} |");
    for (name, placeholder) in cases {
        let mut seconds = Vec::new();
        for _ in 0..RUNS {
            if let Some(more) = placeholder {
                world.apply(&pod("placeholder", PAUSE, "", &format!("{class} {more}"))).await;
                world.wait_for_pod("placeholder", "runs", is_running).await;
            }
            seconds.push(world.seconds_to_run().await);
            world.delete_pod("placeholder").await;
        }
        let (median, largest, alone) = summary(seconds);
        println!("| {name} | {median:.2} | {largest:.2} | {alone} |");
        assert!(median < 3.0, "{name}: {median}");
    }
}
