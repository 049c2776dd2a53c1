//! Jobs from Prometheus' HTTP API: the pods that ended, as kube-state-metrics exports them.
//!
//! Each six hours are read by themselves, so that a response is of bounded size. A pod is known for
//! as long as the cluster keeps it after its end.

use std::collections::BTreeMap;

use embedder::{AcceleratorKind, Resources};
use traces::{Admits, JOBS_MAX, Job, Notes, Work};

use super::http_get::{Access, Address, HttpClient};
use super::prometheus::{LIMITS, STEP_SECONDS, Series, query};

/// The seconds of one query. With 100,000 pods, six hours have about 20 MB.
const CHUNK_SECONDS: i64 = 6 * 3_600;

const CREATED: &str = "max by (namespace, pod, uid) (max_over_time(kube_pod_created[6h]))";
const STARTED: &str =
    "min by (namespace, pod, uid) (min_over_time(kube_pod_container_state_started[6h]))";
const SCHEDULED: &str = "min by (namespace, pod, uid) (min_over_time(kube_pod_start_time[6h]))";
const ENDED: &str = "max by (namespace, pod, uid) (max_over_time(kube_pod_completion_time[6h]))";
const REQUESTS: &str = "sum by (namespace, pod, uid, resource) (max_over_time(kube_pod_container_resource_requests[6h]))";
const DAEMONS: &str = r#"max by (namespace, pod, uid) (max_over_time(kube_pod_info{created_by_kind=~"DaemonSet|Node"}[6h]))"#;

/// The names that kube-state-metrics gives to accelerators.
const ACCELERATORS: [(&str, &str); 5] = [
    ("nvidia_com_gpu", "nvidia.com/gpu"),
    ("amd_com_gpu", "amd.com/gpu"),
    ("habana_ai_gaudi", "habana.ai/gaudi"),
    ("aws_amazon_com_neuron", "aws.amazon.com/neuron"),
    ("google_com_tpu", "google.com/tpu"),
];

/// A pod: its namespace, its name and its identity, which old versions do not export.
type Key = (String, String, String);

#[derive(Default)]
struct Pod {
    created: Option<i64>,
    started: Option<i64>,
    scheduled: Option<i64>,
    ended: Option<i64>,
    is_daemon: bool,
    unit: Resources,
    accelerator_kind: AcceleratorKind,
}

/// Reads the pods that existed from `from` until `until`, in Unix seconds. Returns the jobs by
/// submission, and the numbers of pods that were left out.
pub(in crate::cli) fn read(
    (server, access): (&Address, Access),
    from: i64,
    until: i64,
) -> anyhow::Result<(Vec<Job>, Notes)> {
    let client = HttpClient::new(access, LIMITS)?;
    let mut pods: BTreeMap<Key, Pod> = BTreeMap::new();
    let mut end = from;
    while end < until {
        end = end.saturating_add(CHUNK_SECONDS).min(until);
        // One value: that of the end.
        let query = |text: &str| query(&client, server, text, (end - STEP_SECONDS, end));
        let mut each = |text: &str, note: &dyn Fn(&mut Pod, &Series, f64)| -> anyhow::Result<()> {
            for series in query(text)? {
                let Some((_, value)) = series.amounts().last() else { continue };
                let label = |name: &str| series.label(name);
                let key = (label("namespace"), label("pod"), label("uid"));
                note(pods.entry(key).or_default(), &series, value);
            }
            Ok(())
        };
        each(CREATED, &|pod, _, at| pod.created = Some(seconds(at)))?;
        each(STARTED, &|pod, _, at| _ = pod.started.get_or_insert(seconds(at)))?;
        each(SCHEDULED, &|pod, _, at| pod.scheduled = Some(seconds(at)))?;
        each(ENDED, &|pod, _, at| pod.ended = Some(seconds(at)))?;
        each(DAEMONS, &|pod, _, _| pod.is_daemon = true)?;
        each(REQUESTS, &|pod, series, amount| pod.request(&series.label("resource"), amount))?;
        anyhow::ensure!(
            pods.len() <= JOBS_MAX,
            "{server}: more than {JOBS_MAX} pods: give fewer --days"
        );
    }
    let mut notes = Notes::default();
    let jobs = pods.into_iter().filter_map(|(key, pod)| pod.job(key, &mut notes));
    let mut jobs: Vec<Job> = jobs.collect();
    jobs.sort_by_key(|job| job.submit);
    Ok((jobs, notes))
}

impl Pod {
    /// Notes the request for a resource, by the name that kube-state-metrics gives it.
    fn request(&mut self, resource: &str, amount: f64) {
        match resource {
            "cpu" => self.unit.cpu_millis = whole(amount * 1_000.0),
            "memory" => self.unit.memory_bytes = whole(amount),
            "ephemeral_storage" => self.unit.ephemeral_bytes = whole(amount),
            other => {
                let known = ACCELERATORS.iter().find(|(name, _)| *name == other);
                if let Some((_, kind)) = known {
                    self.unit.accelerators = whole(amount);
                    self.accelerator_kind = AcceleratorKind::new(kind);
                }
            }
        }
    }

    fn job(self, (namespace, name, _): Key, notes: &mut Notes) -> Option<Job> {
        let Self { created, started, scheduled, ended, is_daemon, unit, accelerator_kind } = self;
        let started = started.or(scheduled);
        let left_out = match (created, started, ended) {
            _ if is_daemon => &mut notes.not_jobs,
            (None, ..) | (_, None, _) => &mut notes.never_ran,
            (.., None) => &mut notes.unfinished,
            (_, Some(started), Some(ended)) if ended <= started => &mut notes.never_ran,
            _ if unit == Resources::default() => &mut notes.no_size,
            (Some(submit), Some(started), Some(ended)) => {
                let work =
                    Work { units: 1, unit, accelerator_kind, split: None, admits: Admits::Assumed };
                let (name, user) = (name.into(), namespace.into());
                let runtime = ended - started;
                return Some(Job { name, user, submit, runtime, priority: 0, work });
            }
        };
        *left_out += 1;
        None
    }
}

#[expect(clippy::cast_possible_truncation, reason = "values are below 10^15")]
fn seconds(value: f64) -> i64 {
    value as i64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are from 0 to 10^18"
)]
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}
