//! Reads Google's clusterdata-2019 (Tirmazi et al., "Borg: the Next Generation").
//!
//! The input is `instance_events`, with or without `collection_events` among them, as JSON lines in
//! the order of time. The reader follows the published format, version 3. It was tested with
//! hand-written rows only, because no real rows were available.
//!
//! A task is a job of one pod. Its demand lasts from SUBMIT (ENABLE, if it was queued) to FINISH,
//! KILL, FAIL or LOST. An evicted task is resubmitted and does not count as a new job. Tasks inside
//! an alloc use the resources of the alloc, so they are omitted. The trace normalises requests to
//! the largest machine, which this reader assumes to have [`CPU_MILLIS`] and [`MEMORY_BYTES`].

use embedder::Resources;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::job::Job;
use super::reader::{Notes, Reader, Row, TraceFault, json_problem, rounded_up};
use super::task_events::{EventKind, TaskEvents};

/// A request of 1.0 processors, in thousandths of a core: 96 cores. This is an assumption, because
/// the trace does not disclose the true size.
pub(super) const CPU_MILLIS: f64 = 96_000.0;
/// A request of 1.0 memory, in bytes: 384 GiB, an assumption for the same reason.
pub(super) const MEMORY_BYTES: f64 = 384.0 * 1_073_741_824.0;
/// The greatest valid time, in microseconds: a thousand years. The trace covers a month, so a
/// greater time is an error in the log.
const TIME_MAX: i64 = 1_000 * 366 * 86_400 * 1_000_000;
/// The time of events after the end of the trace.
pub(super) const AFTER: i64 = i64::MAX;

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    time: Value,
    #[serde(rename = "type", default)]
    kind: Value,
    #[serde(default)]
    collection_id: Value,
    #[serde(default)]
    instance_index: Value,
    #[serde(default)]
    alloc_collection_id: Value,
    #[serde(default)]
    priority: Value,
    #[serde(default)]
    resource_request: Value,
}

/// The events of instances, and a line for each.
#[derive(Default)]
pub(super) struct Borg {
    events: TaskEvents,
}

impl Reader for Borg {
    fn row(&mut self, line: &str, _: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let event: Event = parsed(line)?;
        let Some(index) = integer("instance_index", &event.instance_index)? else {
            // A row of collection_events has no request.
            return Ok(Row::NotAJob);
        };
        if integer("alloc_collection_id", &event.alloc_collection_id)?.is_some_and(|id| id != 0) {
            return Ok(Row::NotAJob);
        }
        let time = required("time", &event.time, line)?;
        let id = required("collection_id", &event.collection_id, line)?;
        if time == AFTER {
            return Ok(Row::Blank);
        }
        check_time("time", time)?;
        let priority = integer("priority", &event.priority)?.unwrap_or(0);
        let request = || request(&event.resource_request);
        self.events.note((id, index), time, kind(&event.kind)?, priority, request)
    }

    fn open_jobs(&self) -> usize {
        self.events.open_tasks()
    }

    fn finish(&mut self) -> Vec<Job> {
        self.events.finish()
    }
}

fn kind(value: &Value) -> Result<EventKind, TraceFault> {
    let kind = match value {
        Value::String(name) => name.as_str(),
        _ => "",
    };
    match (kind, integer("type", value).ok().flatten()) {
        ("SUBMIT", _) | (_, Some(0)) => Ok(EventKind::Submit),
        ("ENABLE", _) | (_, Some(2)) => Ok(EventKind::Enable),
        ("FAIL" | "FINISH" | "KILL" | "LOST", _) | (_, Some(5..=8)) => Ok(EventKind::End),
        ("SCHEDULE", _) | (_, Some(3)) => Ok(EventKind::Schedule),
        ("QUEUE" | "EVICT" | "UPDATE_PENDING" | "UPDATE_RUNNING", _)
        | (_, Some(1 | 4 | 9 | 10)) => Ok(EventKind::Other),
        _ => Err(TraceFault::new(
            "type",
            "expected an event type, 0 to 10 or its name",
            &value.to_string(),
        )),
    }
}

/// Parses a line of the trace, a JSON object.
pub(super) fn parsed<T: DeserializeOwned>(line: &str) -> Result<T, TraceFault> {
    serde_json::from_str(line).map_err(|error| {
        let problem = format!("expected a JSON object ({})", json_problem(&error));
        TraceFault::new("", problem, line)
    })
}

/// Parses an integer that a line must have.
pub(super) fn required(column: &'static str, value: &Value, line: &str) -> Result<i64, TraceFault> {
    integer(column, value)?.ok_or_else(|| TraceFault::new(column, "is missing", line))
}

/// Checks a time, in microseconds.
pub(super) fn check_time(column: &'static str, time: i64) -> Result<(), TraceFault> {
    if (0..=TIME_MAX).contains(&time) {
        return Ok(());
    }
    let problem = "expected microseconds from the start of the trace";
    Err(TraceFault::new(column, problem, &time.to_string()))
}

/// Parses an integer. The trace writes 64-bit integers as numbers or as strings.
pub(super) fn integer(column: &'static str, value: &Value) -> Result<Option<i64>, TraceFault> {
    let parsed = match value {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    parsed
        .map(Some)
        .ok_or_else(|| TraceFault::new(column, "expected an integer", &value.to_string()))
}

/// The amount of a share of the largest machine.
pub(super) fn amount(
    column: &'static str,
    share: Option<&Value>,
    whole: f64,
) -> Result<u64, TraceFault> {
    let share = share.filter(|share| !share.is_null());
    let number = share.map_or(Some(0.0), Value::as_f64);
    let number = number.filter(|number| (0.0..=1e3).contains(number)).ok_or_else(|| {
        let value = share.map_or(String::new(), ToString::to_string);
        TraceFault::new(column, "expected a share of a machine, a number from 0", &value)
    })?;
    Ok(rounded_up(number * whole))
}

fn request(request: &Value) -> Result<Resources, TraceFault> {
    Ok(Resources {
        cpu_millis: amount("resource_request.cpus", request.get("cpus"), CPU_MILLIS)?,
        memory_bytes: amount("resource_request.memory", request.get("memory"), MEMORY_BYTES)?,
        ..Resources::default()
    })
}
