//! Jobs from Prometheus' HTTP API: the pods that ended, as kube-state-metrics exports them.
//!
//! Each six hours are read by themselves, so that a response is of bounded size. A pod is known for
//! as long as the cluster keeps it after its end.

use traces::{JOBS_MAX, Job, Notes, PodMetric, PodMetrics};

use super::http_get::{Access, Address, HttpClient};
use super::prometheus::{LIMITS, STEP_SECONDS, query};

/// The seconds of one query. With 100,000 pods, six hours have about 20 MB.
const CHUNK_SECONDS: i64 = 6 * 3_600;

/// What is asked of each six hours. A pod that was bound meanwhile, or whose metrics another
/// kube-state-metrics exported, has several series of one container, of which the largest counts.
/// A container that could not start began at 0.
const QUERIES: [(PodMetric, &str); 6] = [
    (PodMetric::Created, "max by (namespace, pod, uid) (max_over_time(kube_pod_created[6h]))"),
    (
        PodMetric::Started,
        "min by (namespace, pod, uid) (min_over_time(kube_pod_container_state_started[6h]) > 0)",
    ),
    (PodMetric::Scheduled, "min by (namespace, pod, uid) (min_over_time(kube_pod_start_time[6h]))"),
    (
        PodMetric::Ended,
        "max by (namespace, pod, uid) (max_over_time(kube_pod_completion_time[6h]))",
    ),
    (
        PodMetric::Daemon,
        r#"max by (namespace, pod, uid) (max_over_time(kube_pod_info{created_by_kind=~"DaemonSet|Node"}[6h]))"#,
    ),
    (
        PodMetric::Requests,
        "sum by (namespace, pod, uid, resource) (max by (namespace, pod, uid, container, resource) (max_over_time(kube_pod_container_resource_requests[6h])))",
    ),
];

/// Reads the pods that existed from `from` until `until`, in Unix seconds. Returns the jobs by
/// submission, and the numbers of pods that were left out.
pub(in crate::cli) fn read(
    (server, access): (&Address, Access),
    from: i64,
    until: i64,
) -> anyhow::Result<(Vec<Job>, Notes)> {
    let client = HttpClient::new(access, LIMITS)?;
    let mut pods = PodMetrics::default();
    let mut end = from;
    while end < until {
        end = end.saturating_add(CHUNK_SECONDS).min(until);
        for (metric, text) in QUERIES {
            // One value: that of the end.
            for series in query(&client, server, text, (end - STEP_SECONDS, end))? {
                if let Some((_, value)) = series.amounts().last() {
                    pods.note(metric, &|name| series.label(name), value);
                }
            }
        }
        anyhow::ensure!(
            pods.len() <= JOBS_MAX,
            "{server}: more than {JOBS_MAX} pods: give fewer --days"
        );
    }
    let mut notes = Notes::default();
    Ok((pods.into_jobs(&mut notes), notes))
}
