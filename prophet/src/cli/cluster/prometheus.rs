//! Usage from Prometheus' HTTP API, as the kubelet's cAdvisor and kube-state-metrics export it.
//!
//! Each hour is read by itself, so that a response is of bounded size. A row is one minute of one
//! container of one pod. CPU is the rate over three minutes, and memory the peak of the working set
//! over two, because scrapes are up to a minute apart.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use anyhow::Context as _;
use rightsize::recurring;
use serde::Deserialize;
use usage::{ContainerKey, ContainerRequest, RequestOf, UsageRow};

use super::http_get::{Access, Address, GetLimits, HttpClient};

/// The seconds of one query. With 5,000 containers, an hour of minutes has about 10 MB.
const CHUNK_SECONDS: i64 = 3_600;

/// The seconds between two values.
pub(super) const STEP_SECONDS: i64 = 60;

/// The limits of a response. Prometheus ends a query after two minutes by default.
pub(super) const LIMITS: GetLimits = GetLimits { time: Duration::from_mins(2), bytes: 256 << 20 };

const CPU: &str = r#"sum by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{container!="",container!="POD"}[3m]))"#;
const MEMORY: &str = r#"max by (namespace, pod, container) (max_over_time(container_memory_working_set_bytes{container!="",container!="POD"}[2m]))"#;
const REQUESTS: &str = r#"max by (namespace, pod, container, resource) (kube_pod_container_resource_requests{resource=~"cpu|memory"})"#;
const OWNERS: &str =
    r#"max by (namespace, pod, owner_name) (kube_pod_owner{owner_name!="",owner_kind!="<none>"})"#;

#[derive(Deserialize)]
struct Answer {
    data: Matrix,
}

#[derive(Deserialize)]
struct Matrix {
    result: Vec<Series>,
}

/// A series: its labels, and its values by second. Prometheus writes values as texts.
#[derive(Deserialize)]
pub(super) struct Series {
    metric: HashMap<String, String>,
    values: Vec<(f64, String)>,
}

/// The labels of a container of a pod.
type Labels = (String, String, String);

impl Series {
    pub(super) fn label(&self, name: &str) -> String {
        self.metric.get(name).cloned().unwrap_or_default()
    }

    fn labels(&self) -> Labels {
        (self.label("namespace"), self.label("pod"), self.label("container"))
    }

    /// The values that are amounts, by second.
    pub(super) fn amounts(&self) -> impl Iterator<Item = (i64, f64)> {
        let parsed = self.values.iter().filter_map(|(time, value)| {
            let value: f64 = value.parse().ok()?;
            #[expect(clippy::cast_possible_truncation, reason = "times are those of the query")]
            Some((time.round() as i64, value))
        });
        parsed.filter(|(_, value)| (0.0..1e15).contains(value))
    }
}

/// Reads the usage from `from` until `until`, in Unix seconds, and hands each row to `take`, in the
/// order of time. Returns the number of rows.
pub(in crate::cli) fn read(
    (server, access): (&Address, Access),
    from: i64,
    until: i64,
    take: &mut dyn FnMut(UsageRow) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let client = HttpClient::new(access, LIMITS)?;
    let mut rows = 0;
    // A query of less than a minute would end before it starts.
    let until = until.div_euclid(STEP_SECONDS) * STEP_SECONDS;
    let mut start = from.div_euclid(STEP_SECONDS) * STEP_SECONDS;
    while start < until {
        let end = start.saturating_add(CHUNK_SECONDS).min(until);
        for row in chunk(&client, server, start, end)? {
            take(row)?;
            rows += 1;
        }
        start = end;
    }
    Ok(rows)
}

/// The rows of one query of each kind.
fn chunk(
    client: &HttpClient,
    server: &Address,
    start: i64,
    end: i64,
) -> anyhow::Result<Vec<UsageRow>> {
    let query = |text: &str| query(client, server, text, (start, end));
    let mut requests: HashMap<Labels, ContainerRequest> = HashMap::new();
    for series in query(REQUESTS)? {
        let Some((_, value)) = series.amounts().last() else { continue };
        let request = requests.entry(series.labels()).or_default();
        match series.label("resource").as_str() {
            "cpu" => request.cpu_millis = Some(whole(1_000.0 * value)),
            _ => request.memory_bytes = Some(whole(value)),
        }
    }
    let owners: HashMap<(String, String), String> = query(OWNERS)?
        .into_iter()
        .map(|series| {
            ((series.label("namespace"), series.label("pod")), series.label("owner_name"))
        })
        .collect();
    let mut measured: BTreeMap<(i64, Labels), (Option<u64>, Option<u64>)> = BTreeMap::new();
    for series in query(CPU)? {
        for (time, cores) in series.amounts() {
            measured.entry((time, series.labels())).or_default().0 = Some(whole(1_000.0 * cores));
        }
    }
    for series in query(MEMORY)? {
        for (time, bytes) in series.amounts() {
            measured.entry((time, series.labels())).or_default().1 = Some(whole(bytes));
        }
    }
    let row = |((time, labels), (cpu, memory_bytes)): ((i64, Labels), _)| {
        let request = requests.get(&labels).copied().unwrap_or_default();
        let (namespace, pod, container) = labels;
        let place = (namespace, pod);
        let owner = owners.get(&place).map_or_else(|| without_suffix(&place.1), String::as_str);
        let cpu: Option<u64> = cpu;
        UsageRow {
            time: time - STEP_SECONDS,
            key: ContainerKey {
                owner: format!("{}/{}", place.0, recurring(owner)).into(),
                container: container.into(),
            },
            cpu: cpu.map(|millis| (millis, 1.0)).into_iter().collect(),
            memory_bytes,
            request,
            request_of: RequestOf::Container,
            class: None,
            oom_tolerance: None,
            pod: place.1.into(),
        }
    };
    Ok(measured.into_iter().map(row).collect())
}

/// The name of a pod without the suffix that its controller added.
fn without_suffix(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(name, _)| name)
}

fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    let whole = value.ceil() as u64;
    whole
}

/// The series of a query over the minutes after `start` until `end`.
pub(super) fn query(
    client: &HttpClient,
    server: &Address,
    text: &str,
    (start, end): (i64, i64),
) -> anyhow::Result<Vec<Series>> {
    let (first, end) = ((start + STEP_SECONDS).to_string(), end.to_string());
    let step = STEP_SECONDS.to_string();
    let parameters = [("query", text), ("start", &first), ("end", &end), ("step", &step)];
    let address = server.query("api/v1/query_range", &parameters);
    let answer = client.get(&address).with_context(|| server.to_string())?;
    let answer: Answer = serde_json::from_str(&answer)
        .with_context(|| format!("{server}: the response is not of Prometheus' API"))?;
    Ok(answer.data.result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_an_owner_has_its_name_without_its_suffix() {
        assert_eq!(["train-7-x2c4z", "single"].map(without_suffix), ["train-7", "single"]);
    }
}
