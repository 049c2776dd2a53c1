//! Reads `instance_usage` of Google's clusterdata-2019 (Tirmazi et al., "Borg: the Next
//! Generation") as JSON lines, in the order of time for each collection.
//!
//! The reader follows the published format, version 3. It was tested with hand-written rows only,
//! because no real rows were available. A row is five minutes of one instance. Its distribution of
//! CPU has 11 values from the minimum to the maximum in steps of ten percent, and its tail the
//! percentiles 91 to 99. Each part of the distribution counts as its upper end. The peak of memory
//! is `maximum_usage`. Usage is normalised like requests, to a machine of [`CPU_MILLIS`] and
//! [`MEMORY_BYTES`]. Instances inside an alloc use the resources of the alloc, so they are omitted,
//! as the reader of events omits them.

use serde::Deserialize;
use serde_json::Value;
use usage::{ContainerKey, ContainerRequest, RequestOf, UsageRow};

use super::reader::{UsageNotes, UsageReader};
use crate::borg::{CPU_MILLIS, MEMORY_BYTES, amount, check_time, integer, parsed, required};
use crate::reader::{TraceFault, json_problem};

/// The values of a distribution: the minimum, then the ends of ten parts.
const PARTS: usize = 11;
/// The values of the tail: the percentiles 91 to 99.
const TAIL: usize = 9;

#[derive(Deserialize)]
struct Measured {
    #[serde(default)]
    start_time: Value,
    #[serde(default)]
    collection_id: Value,
    #[serde(default)]
    instance_index: Value,
    #[serde(default)]
    alloc_collection_id: Value,
    #[serde(default)]
    average_usage: Value,
    #[serde(default)]
    maximum_usage: Value,
    #[serde(default)]
    cpu_usage_distribution: Value,
    #[serde(default)]
    tail_cpu_usage_distribution: Value,
}

pub(super) struct Borg;

/// A reader for a file with this first line.
///
/// # Errors
/// The line is no JSON object, or has no field of a measurement.
pub(super) fn detect(first: &str) -> Result<Borg, String> {
    const FIELDS: [&str; 4] = ["start_time", "average_usage", "maximum_usage", "sample_rate"];
    let other = "JSON is read as Borg 2019 instance_usage, one row per line; convert other usage to a table (docs/rightsizing.md)";
    let row = serde_json::from_str::<Value>(first).map_err(|error| {
        format!("the first line is no whole JSON value ({}). {other}", json_problem(&error))
    })?;
    if FIELDS.iter().any(|name| row.get(name).is_some()) {
        return Ok(Borg);
    }
    Err(format!("the first line has no field of usage ({}). {other}", FIELDS.join(", ")))
}

impl UsageReader for Borg {
    fn row(
        &mut self,
        line: &str,
        _: u64,
        notes: &mut UsageNotes,
    ) -> Result<Option<UsageRow>, TraceFault> {
        if line.trim().is_empty() {
            return Ok(None);
        }
        let row: Measured = parsed(line)?;
        if integer("alloc_collection_id", &row.alloc_collection_id)?.is_some_and(|id| id != 0) {
            notes.in_allocs += 1;
            return Ok(None);
        }
        let time = required("start_time", &row.start_time, line)?;
        check_time("start_time", time)?;
        let owner = required("collection_id", &row.collection_id, line)?;
        let pod = required("instance_index", &row.instance_index, line)?;
        let peak = row.maximum_usage.get("memory").filter(|peak| !peak.is_null());
        let (column, peak) = match peak {
            Some(_) => ("maximum_usage.memory", peak),
            None => ("average_usage.memory", row.average_usage.get("memory")),
        };
        let peak = peak.map(|_| amount(column, peak, MEMORY_BYTES)).transpose()?;
        Ok(Some(UsageRow {
            time: time / 1_000_000,
            key: ContainerKey { owner: owner.to_string().into(), container: Box::default() },
            pod: pod.to_string().into(),
            cpu: cpu(&row)?,
            memory_bytes: peak,
            request: ContainerRequest::default(),
            request_of: RequestOf::Container,
            class: None,
            oom_tolerance: None,
        }))
    }
}

/// The distribution of CPU, or its average if the row has none.
fn cpu(row: &Measured) -> Result<Vec<(u64, f64)>, TraceFault> {
    let parts = distribution("cpu_usage_distribution", &row.cpu_usage_distribution, PARTS)?;
    let tail = distribution("tail_cpu_usage_distribution", &row.tail_cpu_usage_distribution, TAIL)?;
    if parts.is_empty() {
        let average = row.average_usage.get("cpus").filter(|average| !average.is_null());
        let average = average.map(|_| amount("average_usage.cpus", average, CPU_MILLIS));
        return Ok(average.transpose()?.map(|millis| (millis, 1.0)).into_iter().collect());
    }
    // The last tenth is in hundredths if the row has a tail.
    let last = if tail.is_empty() { 0.1 } else { 0.01 };
    let nine = parts[1..PARTS - 1].iter().map(|millis| (*millis, 0.1));
    let tail = tail.iter().map(|millis| (*millis, 0.01));
    Ok(nine.chain(tail).chain([(parts[PARTS - 1], last)]).collect())
}

/// The values of a distribution, in thousandths of a core. Empty if the row has none.
fn distribution(
    column: &'static str,
    value: &Value,
    length: usize,
) -> Result<Vec<u64>, TraceFault> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(values) if values.is_empty() => Ok(Vec::new()),
        Value::Array(values) if values.len() == length => {
            values.iter().map(|value| amount(column, Some(value), CPU_MILLIS)).collect()
        }
        _ => {
            let problem = format!("expected a list of {length} numbers");
            Err(TraceFault::new(column, problem, &value.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<UsageRow>, String> {
        let row = Borg.row(line, 1, &mut UsageNotes::default());
        row.map_err(|fault| fault.to_string())
    }

    /// The distribution rises by a tenth of a hundredth of a machine, 0.96 cores. In its last tenth
    /// it rises to 10 % of a machine.
    #[test]
    fn a_row_is_the_distribution_of_cpu_and_the_peak_of_memory() {
        let line = r#"{"start_time":"300000000","end_time":"600000000","collection_id":"7","instance_index":"3",
            "average_usage":{"cpus":0.01,"memory":0.1},"maximum_usage":{"cpus":0.1,"memory":0.25},
            "cpu_usage_distribution":[0,0.01,0.01,0.01,0.01,0.01,0.01,0.01,0.01,0.02,0.1],
            "tail_cpu_usage_distribution":[0.02,0.02,0.02,0.02,0.02,0.02,0.02,0.02,0.05]}"#;
        let row = read(line).unwrap().unwrap();
        assert_eq!((row.time, row.key.to_string().as_str(), &*row.pod), (300, "7", "3"));
        assert_eq!(row.memory_bytes, Some(96 << 30));
        let expected = [[(960, 0.1)].repeat(8), vec![(1_920, 0.1)], [(1_920, 0.01)].repeat(8)];
        let expected = [expected.concat(), vec![(4_800, 0.01), (9_600, 0.01)]].concat();
        assert_eq!(row.cpu, expected);
        let weight: f64 = row.cpu.iter().map(|(_, weight)| weight).sum();
        assert!((weight - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_row_without_a_distribution_has_its_average() {
        let line = r#"{"start_time":0,"collection_id":7,"instance_index":0,"average_usage":{"cpus":0.5,"memory":0.5}}"#;
        let row = read(line).unwrap().unwrap();
        assert_eq!((row.cpu, row.memory_bytes), (vec![(48_000, 1.0)], Some(192 << 30)));
    }

    #[test]
    fn an_instance_inside_an_alloc_is_left_out() {
        let mut notes = UsageNotes::default();
        let line =
            r#"{"start_time":0,"collection_id":7,"instance_index":0,"alloc_collection_id":"9"}"#;
        assert_eq!(Borg.row(line, 1, &mut notes).unwrap(), None);
        assert_eq!(notes.in_allocs, 1);
        let line =
            r#"{"start_time":0,"collection_id":7,"instance_index":0,"cpu_usage_distribution":[1]}"#;
        let fault = r#"column cpu_usage_distribution: expected a list of 11 numbers, got "[1]""#;
        assert_eq!(read(line), Err(fault.into()));
    }
}
