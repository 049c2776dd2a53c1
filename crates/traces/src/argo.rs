//! Reads workflows of Argo, as `kubectl get workflows --output json` prints them.
//!
//! A workflow has no requests. Argo notes what its pods held over time (`resourcesDuration`:
//! core-seconds, and seconds of 100 MiB), so the requests of a pod are that divided by the time
//! from its creation to its end. They are too small for a pod that waited for a node.

use std::collections::BTreeMap;

use embedder::{AcceleratorKind, Resources};
use serde_json::Value;

use super::job::{Job, Work};
use super::kubernetes::{is_accelerator, time};
use super::reader::{AMOUNT_MAX, Notes, Row, TraceFault, name, rounded_up};

/// The bytes of which `resourcesDuration` counts seconds.
const MEMORY_UNIT: f64 = 100.0 * 1_048_576.0;
const EPHEMERAL_UNIT: f64 = 10.0 * 1_073_741_824.0;

/// A pod: the identity of its workflow, and its own.
type Key = (String, String);

/// The pods of the workflows of a log. Of a pod that several snapshots or events of a watch have,
/// the last one counts.
#[derive(Default)]
pub(super) struct Workflows(BTreeMap<Key, Row>);

impl Workflows {
    /// The number of pods.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Notes the pods of a workflow. A workflow without a list of its pods is one pod.
    pub(super) fn note(&mut self, object: &Value) -> Result<(), TraceFault> {
        let text = |path: &str| {
            object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, own) = (text("/metadata/namespace"), text("/metadata/name"));
        let uid = match text("/metadata/uid") {
            uid if uid.is_empty() => format!("{namespace} {own}"),
            uid => uid,
        };
        let status = &object["status"];
        for (field, of) in [
            ("compressedNodes", "status.compressedNodes"),
            ("offloadNodeStatusVersion", "status.offloadNodeStatusVersion"),
        ] {
            if status[field].as_str().is_some_and(|text| !text.is_empty()) {
                let problem = "the workflow is too large to list its pods: print it with argo get --output json, or the pods with kubectl get pods --all-namespaces --output json";
                return Err(TraceFault::new(of, problem, ""));
            }
        }
        let steps = status["nodes"].as_object().into_iter().flatten();
        let pods: Vec<(&str, &Value)> = steps
            .filter(|(_, step)| step["type"] == "Pod")
            .map(|(id, step)| (id.as_str(), step))
            .collect();
        if pods.is_empty() {
            self.0.insert((uid, String::new()), row(&own, &namespace, status)?);
            return Ok(());
        }
        self.0.remove(&(uid.clone(), String::new()));
        for (id, ran) in pods {
            self.0.insert((uid.clone(), id.to_owned()), row(id, &namespace, ran)?);
        }
        Ok(())
    }

    /// The pods, each as a job or as the reason why it is left out.
    pub(super) fn into_rows(self, notes: &mut Notes) -> Vec<Row> {
        let rows: Vec<Row> = self.0.into_values().collect();
        notes.estimated += rows.iter().filter(|row| matches!(row, Row::Job(_))).count() as u64;
        rows
    }
}

fn row(own: &str, namespace: &str, ran: &Value) -> Result<Row, TraceFault> {
    let (start, end) = (time(ran, "/startedAt")?, time(ran, "/finishedAt")?);
    let Some(submit) = start else { return Ok(Row::NeverRan) };
    let Some(end) = end else { return Ok(Row::Unfinished) };
    let runtime = end.saturating_sub(submit);
    if runtime <= 0 {
        return Ok(Row::NeverRan);
    }
    let held = &ran["resourcesDuration"];
    let mean = |resource: &str, unit: f64| {
        let seconds = held[resource].as_f64().unwrap_or(0.0).max(0.0);
        rounded_up((seconds * unit / runtime as f64).min(AMOUNT_MAX))
    };
    let kinds = held.as_object().into_iter().flatten().map(|(resource, _)| resource);
    let kind = kinds.into_iter().find(|resource| is_accelerator(resource));
    let unit = Resources {
        accelerators: kind.map_or(0, |kind| mean(kind, 1.0)),
        cpu_millis: mean("cpu", 1_000.0),
        memory_bytes: mean("memory", MEMORY_UNIT),
        ephemeral_bytes: mean("ephemeral-storage", EPHEMERAL_UNIT),
        ..Resources::default()
    };
    let accelerator_kind =
        kind.map_or_else(AcceleratorKind::default, |kind| AcceleratorKind::new(kind));
    Ok(Row::of(Job::new(
        name("metadata.name", own)?,
        name("metadata.namespace", namespace)?,
        submit,
        runtime,
        Work::of_pod(unit, accelerator_kind),
    )))
}
