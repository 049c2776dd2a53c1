//! A trace in real time, through the real scheduler and an autoscaler that already runs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use tests::control_plane::ControlPlane;
use tokio::time::{Instant, sleep, sleep_until};

use super::outcome::{Outcome, Times};
use super::trace::{Job, Trace};
use crate::world::is_bound;

/// The pause between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits for a multiple of the interval between scans (of ten seconds, if these are longer) on the
/// wall clock, and then for `later`. Returns the time 0 of the trace, which is now.
///
/// A policy has its ticks at multiples of ten seconds.
pub(super) async fn wait_for_start(trace: &Trace, later: Duration) -> Instant {
    sleep(until_multiple_of(trace.scan.max(10)) + later).await;
    Instant::now()
}

/// Submits the jobs of a trace, and returns what happens to them and to the nodes.
pub(super) async fn observe(
    plane: &ControlPlane,
    trace: &'static Trace,
    start: Instant,
) -> Outcome {
    let client = plane.client();
    let run = Run {
        plane,
        pods: Api::default_namespaced(client.clone()),
        all_nodes: Api::all(client),
        start,
        outcome: Outcome::default(),
        nodes: BTreeMap::new(),
    };
    let mut outcome = run.until_end(trace).await;
    outcome.end(trace.end as f64);
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
    plane: &'a ControlPlane,
    /// The pods of the jobs.
    pods: Api<Pod>,
    all_nodes: Api<Node>,
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
                self.plane.apply_yaml(&job.manifest()).await.unwrap();
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
        let pods = self.pods.list(&ListParams::default()).await.unwrap().items;
        let now = self.now();
        for job in trace.jobs {
            let bound = pods.iter().filter(|pod| is_of(pod, job) && is_bound(pod)).count();
            if let Some((_, start)) = self.outcome.jobs.get_mut(job.name)
                && bound == job.pods
            {
                start.get_or_insert(now);
            }
        }
        let nodes = self.all_nodes.list(&ListParams::default()).await.unwrap().items;
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
        let status = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        let pods = self.pods.list(&ListParams::default()).await.unwrap();
        for pod in pods.iter().filter(|pod| is_of(pod, job)) {
            let (name, parameters) = (pod.name_any(), PatchParams::default());
            self.pods.patch_status(&name, &parameters, &status).await.unwrap();
        }
    }
}

fn is_of(pod: &Pod, job: &Job) -> bool {
    pod.labels().get("job").is_some_and(|name| name == job.name)
}
