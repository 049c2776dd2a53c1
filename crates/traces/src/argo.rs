//! Reads workflows of Argo, as `kubectl get workflows --output json` prints them.
//!
//! A workflow has no requests. Argo notes what its pods held over time (`resourcesDuration`:
//! core-seconds, and seconds of 100 MiB), so the requests of a pod are that divided by the time
//! for which the pod ran.

use embedder::{AcceleratorKind, Resources};
use serde_json::Value;

use super::job::{Admits, Job, Work};
use super::kubernetes::{is_accelerator, time};
use super::reader::{AMOUNT_MAX, Notes, Row, TraceFault, name};

/// The bytes of which `resourcesDuration` counts seconds.
const MEMORY_UNIT: f64 = 100.0 * 1_048_576.0;
const EPHEMERAL_UNIT: f64 = 10.0 * 1_073_741_824.0;

/// Reads the pods of a workflow. A workflow without a list of its pods is one pod.
pub(super) fn workflow(object: &Value, notes: &mut Notes) -> Result<Vec<Row>, TraceFault> {
    let text = |value: &Value, path: &str| {
        value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let namespace = text(object, "/metadata/namespace");
    let status = &object["status"];
    let steps = status["nodes"].as_object().into_iter().flatten();
    let pods: Vec<(String, &Value)> = steps
        .filter(|(_, node)| node["type"] == "Pod")
        .map(|(id, node)| (id.clone(), node))
        .collect();
    let all = if pods.is_empty() { vec![(text(object, "/metadata/name"), status)] } else { pods };
    all.iter().map(|(own, ran)| row(own, &namespace, ran, notes)).collect()
}

fn row(own: &str, namespace: &str, ran: &Value, notes: &mut Notes) -> Result<Row, TraceFault> {
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
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked"
        )]
        let mean = (seconds * unit / runtime as f64).min(AMOUNT_MAX).ceil() as u64;
        mean
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
    if unit == Resources::default() {
        return Ok(Row::NoSize);
    }
    notes.estimated += 1;
    Ok(Row::Job(Job {
        name: name("metadata.name", own)?.into(),
        user: name("metadata.namespace", namespace)?.into(),
        submit,
        runtime,
        priority: 0,
        work: Work {
            units: 1,
            unit,
            accelerator_kind: kind
                .map_or_else(AcceleratorKind::default, |k| AcceleratorKind::new(k)),
            split: None,
            admits: Admits::Assumed,
        },
    }))
}
