//! The trace in real time, through the real scheduler and the autoscaler of the tests.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tests::autoscaler::{Autoscaler, AutoscalerSettings};
use tests::installed::policy;
use tokio::time::{Instant, sleep, sleep_until};

use super::outcome::{Outcome, Times};
use super::trace::{Job, Trace};
use crate::world::{Plan, World, is_bound};

/// The pause between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a trace with or without the controller. Its first scan is this much later than a multiple
/// of the interval between scans.
pub(super) async fn observe(
    trace: &'static Trace,
    with_controller: bool,
    later: Duration,
) -> Outcome {
    let seconds = Duration::from_secs;
    let settings = AutoscalerSettings {
        scan_interval: seconds(trace.scan),
        unneeded_time: seconds(trace.unneeded),
        delay_after_add: seconds(trace.unneeded),
        max_node_provision_time: seconds(10 * trace.launch),
        ..AutoscalerSettings::default()
    };
    let plan = Plan { autoscaler: settings.clone(), ..Plan::of(trace.groups()) };
    let mut world = plan.start_alone().await;
    for group in ["small", "gpu"] {
        world.joiner.set_latency(group, seconds(trace.launch));
    }
    if with_controller {
        world = world.with_controller(&[], "").await;
    }
    // A policy has its ticks at multiples of ten seconds of the wall clock.
    sleep(until_multiple_of(trace.scan.max(10)) + later).await;
    let start = Instant::now();
    world.autoscaler = Autoscaler::start(&world.plane, &world.moto, settings).unwrap();
    if with_controller {
        world.apply(&policy("batch", &trace.policy())).await;
    }
    let observed =
        Run { world: &world, start, outcome: Outcome::default(), nodes: BTreeMap::new() };
    let mut outcome = observed.until_end(trace).await;
    outcome.end(trace.end as f64);
    let counters = world.autoscaler.counters();
    assert!(counters.errors.is_empty() && counters.given_up.is_empty(), "{counters:?}");
    outcome
}

/// The time until the next multiple of a number of seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "ticks are multiples of the wall clock's seconds")]
fn until_multiple_of(seconds: u64) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let multiple = u128::from(seconds) * 1_000_000_000;
    let passed = u64::try_from(now.as_nanos() % multiple).unwrap();
    Duration::from_secs(seconds).saturating_sub(Duration::from_nanos(passed))
}

/// A run in progress.
struct Run<'a> {
    world: &'a World,
    start: Instant,
    outcome: Outcome,
    /// Nodes by name: instance type, and when they became ready and were removed.
    nodes: BTreeMap<String, (String, Times)>,
}

impl Run<'_> {
    async fn until_end(mut self, trace: &'static Trace) -> Outcome {
        let mut next = trace.jobs.iter().peekable();
        let mut ended: Vec<&str> = Vec::new();
        while self.now() < trace.end as f64 {
            let look = Instant::now() + PAUSE;
            while let Some(job) = next.next_if(|job| job.submit as f64 <= self.now()) {
                self.world.apply(&job.manifest()).await;
                self.outcome.jobs.insert(job.name.to_owned(), (job.submit as f64, None));
            }
            self.look(trace).await;
            for job in trace.jobs.iter().filter(|job| self.is_over(job)) {
                if !ended.contains(&job.name) {
                    self.end(job).await;
                    ended.push(job.name);
                }
            }
            sleep_until(look).await;
        }
        for (instance_type, times) in self.nodes.into_values() {
            self.outcome.nodes.entry(instance_type).or_default().push(times);
        }
        self.outcome
    }

    /// The time of the trace.
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Notes the jobs whose pods are all on nodes, and the nodes that came and went.
    async fn look(&mut self, trace: &Trace) {
        let pods = self.world.pods("default").await.unwrap();
        let now = self.now();
        for job in trace.jobs {
            let bound = pods.iter().filter(|pod| is_of(pod, job) && is_bound(pod)).count();
            if let Some((_, start)) = self.outcome.jobs.get_mut(job.name)
                && bound == job.pods
            {
                start.get_or_insert(now);
            }
        }
        let nodes = self.world.nodes().await;
        let now = self.now();
        for node in &nodes {
            let instance_type = node.labels()["node.kubernetes.io/instance-type"].clone();
            self.nodes.entry(node.name_any()).or_insert((instance_type, (now, None)));
        }
        for (name, (_, (_, gone))) in &mut self.nodes {
            if !nodes.iter().any(|node: &Node| node.name_any() == *name) {
                gone.get_or_insert(now);
            }
        }
    }

    /// Whether a job has run for its whole time.
    fn is_over(&self, job: &Job) -> bool {
        let start = self.outcome.jobs.get(job.name).and_then(|(_, start)| *start);
        start.is_some_and(|start| start + job.runtime as f64 <= self.now())
    }

    /// Ends the pods of a job, as a kubelet would.
    async fn end(&self, job: &Job) {
        let api: Api<Pod> = Api::default_namespaced(self.world.plane.client());
        let status = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        for pod in self.world.pods("default").await.unwrap().iter().filter(|pod| is_of(pod, job)) {
            let (name, parameters) = (pod.name_any(), PatchParams::default());
            api.patch_status(&name, &parameters, &status).await.unwrap();
        }
    }
}

fn is_of(pod: &Pod, job: &Job) -> bool {
    pod.labels().get("job").is_some_and(|name| name == job.name)
}
