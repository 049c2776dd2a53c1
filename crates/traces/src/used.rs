//! Reads `instance_usage` of Google's clusterdata-2019 (Tirmazi et al., "Borg: the Next
//! Generation") as JSON lines, in any order: what jobs used on average.
//!
//! The reader follows the published format, version 3. It was tested with hand-written rows only,
//! because no real rows were available. `trace/usage/` reads the same file for recommendations,
//! which need distributions and peaks; here only `average_usage` counts. Rows of tasks inside an
//! alloc count, too, because the alloc itself has no usage.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::borg::{CPU_MILLIS, MEMORY_BYTES, amount, check_time, parsed, required};
use super::lines::Lines;
use super::machines::GIB;
use super::read::TraceError;
use super::reader::TraceFault;

/// What the jobs of one priority used within a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// CPU, in core-seconds.
    pub core_seconds: f64,
    /// Memory, in GiB-seconds.
    pub gib_seconds: f64,
}

#[derive(Deserialize)]
struct Measured {
    #[serde(default)]
    start_time: Value,
    #[serde(default)]
    end_time: Value,
    #[serde(default)]
    collection_id: Value,
    #[serde(default)]
    average_usage: Value,
}

/// Reads what jobs used in the seconds `[from, until)` from a file, plain or gzip, by priority.
/// `priority` returns that of a collection; `None` for collections that are not in the log.
///
/// # Errors
/// The file cannot be read, a line is malformed, or it has no line.
pub fn read_used(
    path: &Path,
    window: (i64, i64),
    priority: &dyn Fn(i64) -> Option<i32>,
) -> Result<BTreeMap<Option<i32>, Used>, TraceError> {
    let failed = |source| TraceError::Read { path: path.into(), source };
    let mut lines = Lines::open(path).map_err(failed)?;
    let (mut used, mut line) = (BTreeMap::<_, Used>::new(), String::new());
    while lines.next(&mut line).map_err(failed)? {
        if line.trim().is_empty() {
            continue;
        }
        let bad = |fault| TraceError::Line { path: path.into(), line: lines.number(), fault };
        let (collection, more) = row(&line, window).map_err(bad)?;
        let sum = used.entry(priority(collection)).or_default();
        sum.core_seconds += more.core_seconds;
        sum.gib_seconds += more.gib_seconds;
    }
    if used.is_empty() {
        return Err(TraceError::Blank { path: path.into() });
    }
    Ok(used)
}

/// The collection of a row, and what it used within a time.
fn row(line: &str, (from, until): (i64, i64)) -> Result<(i64, Used), TraceFault> {
    let row: Measured = parsed(line)?;
    let start = required("start_time", &row.start_time, line)?;
    check_time("start_time", start)?;
    let end = required("end_time", &row.end_time, line)?;
    check_time("end_time", end)?;
    let collection = required("collection_id", &row.collection_id, line)?;
    let micros = |seconds: i64| seconds.saturating_mul(1_000_000);
    let within = end.min(micros(until)).saturating_sub(start.max(micros(from))).max(0);
    let seconds = within as f64 / 1e6;
    let average = |name| row.average_usage.get(name);
    let cpu_millis = amount("average_usage.cpus", average("cpus"), CPU_MILLIS)?;
    let bytes = amount("average_usage.memory", average("memory"), MEMORY_BYTES)?;
    let used = Used {
        core_seconds: seconds * cpu_millis as f64 / 1_000.0,
        gib_seconds: seconds * bytes as f64 / GIB,
    };
    Ok((collection, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<BTreeMap<Option<i32>, Used>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        let priority = |collection| (collection == 7).then_some(200);
        let read = read_used(file.path(), (100, 200), &priority);
        read.map_err(|error| error.to_string().replace(&file.path().display().to_string(), "FILE"))
    }

    /// Of three rows of 100 s, one is within the time, one half, and one not at all.
    #[test]
    fn rows_count_by_their_length_within_the_time() {
        let row = |start: u64, collection: u64| {
            format!(
                "{{\"start_time\": \"{}\", \"end_time\": {}, \"collection_id\": {collection}, \"average_usage\": {{\"cpus\": 0.5, \"memory\": 0.25}}}}\n",
                start * 1_000_000,
                (start + 100) * 1_000_000,
            )
        };
        let used = read(&[row(100, 7), row(50, 7), row(900, 7), row(100, 8)].concat()).unwrap();
        let of = |seconds: f64| Used { core_seconds: seconds * 48.0, gib_seconds: seconds * 96.0 };
        assert_eq!(used, [(None, of(100.0)), (Some(200), of(150.0))].into());
    }

    #[test]
    fn a_bad_line_is_named() {
        let check = |lines: &str, expected: &str| {
            let error = read(lines).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("\n", "FILE: the file is empty");
        check("{}", "FILE:1: column start_time: is missing");
        check(r#"{"start_time": 1, "end_time": -1}"#, "column end_time: expected microseconds");
        let share = r#"{"start_time": 1, "end_time": 2, "collection_id": 1, "average_usage": {"cpus": "x"}}"#;
        check(share, "column average_usage.cpus: expected a share of a machine");
    }
}
