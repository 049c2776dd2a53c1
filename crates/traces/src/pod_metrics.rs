//! Pods from the metrics of kube-state-metrics: a job is a pod that ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use embedder::{AcceleratorKind, Resources};
use serde_json::Value;

use super::job::{Job, Work};
use super::reader::{Notes, Row, TraceFault, name, rounded_up};

/// The starts of the names that kube-state-metrics gives to accelerators, and the start of the
/// resource. The rest is the same, with dashes for the characters that a metric cannot have.
const ACCELERATORS: [(&str, &str); 7] = [
    ("nvidia_com_gpu", "nvidia.com/gpu"),
    ("nvidia_com_mig_", "nvidia.com/mig-"),
    ("amd_com_gpu", "amd.com/gpu"),
    ("gpu_intel_com_", "gpu.intel.com/"),
    ("habana_ai_gaudi", "habana.ai/gaudi"),
    ("aws_amazon_com_neuron", "aws.amazon.com/neuron"),
    ("google_com_tpu", "google.com/tpu"),
];

/// A metric of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodMetric {
    /// `kube_pod_created`, in Unix seconds.
    Created,
    /// `kube_pod_container_state_started`, in Unix seconds.
    Started,
    /// `kube_pod_start_time`, in Unix seconds.
    Scheduled,
    /// `kube_pod_completion_time`, in Unix seconds.
    Ended,
    /// `kube_pod_info` of a pod that runs on each node.
    Daemon,
    /// `kube_pod_container_resource_requests`, of the resource in the label `resource`.
    Requests,
}

impl PodMetric {
    const NAMES: [(&str, Self); 6] = [
        ("kube_pod_created", Self::Created),
        ("kube_pod_container_state_started", Self::Started),
        ("kube_pod_start_time", Self::Scheduled),
        ("kube_pod_completion_time", Self::Ended),
        ("kube_pod_info", Self::Daemon),
        ("kube_pod_container_resource_requests", Self::Requests),
    ];
}

/// A pod: its namespace, its name and its identity, which old versions do not export.
type Key = (String, String, String);

/// The pods, by their metrics.
#[derive(Default)]
pub struct PodMetrics {
    pods: BTreeMap<Key, Pod>,
    /// Which metrics there were.
    found: Vec<PodMetric>,
    /// The number of series, of any metric.
    series: u64,
    /// The requests of all pods.
    requests: usize,
}

#[derive(Default)]
struct Pod {
    created: Option<i64>,
    started: Option<i64>,
    scheduled: Option<i64>,
    ended: Option<i64>,
    is_daemon: bool,
    /// By container and resource.
    requests: BTreeMap<(String, String), f64>,
}

impl PodMetrics {
    /// The number of pods and of their requests.
    #[expect(clippy::len_without_is_empty, reason = "only the number is of use")]
    pub fn len(&self) -> usize {
        self.pods.len().max(self.requests)
    }

    /// Notes a value of a metric. `label` gives the labels of its series, or an empty text.
    pub fn note(&mut self, metric: PodMetric, label: &dyn Fn(&str) -> String, value: f64) {
        if !self.found.contains(&metric) {
            self.found.push(metric);
        }
        if !(0.0..1e15).contains(&value) {
            return;
        }
        let key = (label("namespace"), label("pod"), label("uid"));
        let pod = self.pods.entry(key).or_default();
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
        let at = value as i64;
        match metric {
            PodMetric::Created => pod.created = Some(at),
            // A container that could not start began at 0.
            PodMetric::Started if at == 0 => {}
            PodMetric::Started => pod.started = Some(pod.started.map_or(at, |known| known.min(at))),
            PodMetric::Scheduled => pod.scheduled = Some(at),
            PodMetric::Ended => pod.ended = pod.ended.max(Some(at)),
            PodMetric::Daemon => pod.is_daemon = true,
            PodMetric::Requests => {
                let known = pod.requests.entry((label("container"), label("resource")));
                self.requests += usize::from(matches!(known, Entry::Vacant(_)));
                let known = known.or_default();
                *known = known.max(value);
            }
        }
    }

    /// Notes a series of an answer of Prometheus: its labels, and its values or its value.
    pub(super) fn note_series(&mut self, series: &Value) -> Result<(), TraceFault> {
        // Where Prometheus keeps its own labels of the target, those of the pod have a prefix.
        let label = |name: &str| {
            let exported = series["metric"].get(format!("exported_{name}"));
            let own = exported.unwrap_or(&series["metric"][name]);
            own.as_str().unwrap_or_default().to_owned()
        };
        self.series += 1;
        for column in ["namespace", "pod", "uid", "container", "resource"] {
            name(column, &label(column))?;
        }
        let own = label("__name__");
        let metric = PodMetric::NAMES.iter().find(|(name, _)| *name == own).map(|(_, of)| *of);
        let Some(metric) = metric else { return Ok(()) };
        let of_daemon = ["DaemonSet", "Node"].contains(&label("created_by_kind").as_str());
        if metric == PodMetric::Daemon && !of_daemon {
            return Ok(());
        }
        let values = series["values"].as_array().into_iter().flatten();
        for pair in values.chain(series.get("value")) {
            let text = pair[1].as_str().unwrap_or_default();
            let fault =
                || TraceFault::new("values", "expected [TIME, \"NUMBER\"]", &pair.to_string());
            self.note(metric, &label, text.parse().map_err(|_| fault())?);
        }
        Ok(())
    }

    /// Checks that the metrics without which there are no jobs were there.
    ///
    /// # Errors
    /// One of them was not. The text names those that were.
    pub(super) fn lacks(&self) -> Result<(), String> {
        let has = |metric| self.found.contains(&metric);
        let names = |wanted: &dyn Fn(PodMetric) -> bool| {
            let names = PodMetric::NAMES.iter().filter(|(_, metric)| wanted(*metric));
            names.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        };
        let complete = has(PodMetric::Created)
            && (has(PodMetric::Started) || has(PodMetric::Scheduled))
            && has(PodMetric::Ended)
            && has(PodMetric::Requests);
        if self.series == 0 || complete {
            return Ok(());
        }
        if self.found.is_empty() {
            return Err("the answers of Prometheus have no metric of a pod under its name: query kube_pod_created and others without an aggregation, which removes the name, or read them with prophet trace fetch --prometheus URL (docs/logs.md)".into());
        }
        Err(format!(
            "the answers of Prometheus have {}, and a job needs {}: put their answers into one file, or read them with prophet trace fetch --prometheus URL (docs/logs.md)",
            names(&has),
            names(&|metric| !has(metric)
                && metric != PodMetric::Daemon
                && metric != PodMetric::Started),
        ))
    }

    /// The pods, each as a job or as the reason why it is left out.
    pub(super) fn into_rows(self) -> impl Iterator<Item = Row> {
        self.pods.into_iter().map(|(key, pod)| pod.row(key))
    }

    /// The jobs by submission. Notes what was left out.
    pub fn into_jobs(self, notes: &mut Notes) -> Vec<Job> {
        let mut jobs: Vec<Job> = self.into_rows().filter_map(|row| notes.count(row)).collect();
        jobs.sort_by_key(|job| job.submit);
        jobs
    }
}

impl Pod {
    fn row(self, (namespace, name, _): Key) -> Row {
        let (unit, accelerator_kind) = self.unit();
        let Self { created, started, scheduled, ended, is_daemon, .. } = self;
        match (created, started.or(scheduled), ended) {
            _ if is_daemon => Row::NotAJob,
            (None, ..) | (_, None, _) => Row::NeverRan,
            (.., None) => Row::Unfinished,
            (Some(submit), Some(started), Some(ended)) => {
                let work = Work::of_pod(unit, accelerator_kind);
                let runtime = ended - started;
                Row::of(Job::new(name, namespace, submit, runtime, work))
            }
        }
    }

    /// The requests of all containers.
    fn unit(&self) -> (Resources, AcceleratorKind) {
        let sum = |of: &str| {
            let all = self.requests.iter().filter(|((_, resource), _)| resource == of);
            all.map(|(_, amount)| amount).sum::<f64>()
        };
        let accelerator = self.requests.keys().find_map(|(_, resource)| {
            let of = |(known, kind): &(&str, &str)| {
                let rest = resource.strip_prefix(known)?;
                Some((resource.clone(), format!("{kind}{}", rest.replace('_', "-"))))
            };
            ACCELERATORS.iter().find_map(of).filter(|_| sum(resource) > 0.0)
        });
        let unit = Resources {
            accelerators: accelerator.as_ref().map_or(0, |(resource, _)| rounded_up(sum(resource))),
            cpu_millis: rounded_up(sum("cpu") * 1_000.0),
            memory_bytes: rounded_up(sum("memory")),
            ephemeral_bytes: rounded_up(sum("ephemeral_storage")),
            ..Resources::default()
        };
        let kind = accelerator
            .map_or_else(AcceleratorKind::default, |(_, kind)| AcceleratorKind::new(&kind));
        (unit, kind)
    }
}
