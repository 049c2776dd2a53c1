//! Reads `machine_events` of Google's clusterdata-2019 (Tirmazi et al., "Borg: the Next
//! Generation") as JSON lines in the order of time: the capacity of a cluster.
//!
//! The reader follows the published format, version 3. It was tested with hand-written rows only,
//! because no real rows were available. Capacities are normalised like requests, to a machine of
//! [`CPU_MILLIS`] and [`MEMORY_BYTES`].

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::borg::{AFTER, CPU_MILLIS, MEMORY_BYTES, amount, check_time, integer, parsed, required};
use super::lines::Lines;
use super::read::TraceError;
use super::reader::TraceFault;

/// The most machines that are up at the same time. Each takes about a hundred bytes.
const MACHINES_MAX: usize = 1_000_000;

/// What a cluster has, or a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Capacity {
    /// The number of machines.
    pub machines: f64,
    /// The CPU of all machines, in cores.
    pub cores: f64,
    /// Memory in GiB.
    pub gib: f64,
}

/// The capacity of a cluster over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machines {
    /// The capacity from each second on, in the order of time.
    steps: Vec<(i64, Capacity)>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    time: Value,
    #[serde(default)]
    machine_id: Value,
    #[serde(rename = "type", default)]
    kind: Value,
    #[serde(default)]
    capacity: Value,
}

/// The machines that are up.
#[derive(Default)]
struct Up {
    machines: HashMap<i64, Capacity>,
    total: Capacity,
}

impl Machines {
    /// Reads a file, plain or gzip.
    ///
    /// # Errors
    /// The file cannot be read, a line is malformed or earlier than the line before it, or no
    /// machine is added.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Read { path: path.into(), source };
        let mut lines = Lines::open(path).map_err(failed)?;
        let (mut machines, mut up, mut line) = (Self::default(), Up::default(), String::new());
        while lines.next(&mut line).map_err(failed)? {
            if line.trim().is_empty() {
                continue;
            }
            let bad = |fault| TraceError::Line { path: path.into(), line: lines.number(), fault };
            machines.event(&line, &mut up).map_err(bad)?;
        }
        if machines.steps.is_empty() {
            return Err(TraceError::Blank { path: path.into() });
        }
        Ok(machines)
    }

    fn event(&mut self, line: &str, up: &mut Up) -> Result<(), TraceFault> {
        let event: Event = parsed(line)?;
        let time = required("time", &event.time, line)?;
        if time == AFTER {
            return Ok(());
        }
        check_time("time", time)?;
        let second = time / 1_000_000;
        if self.steps.last().is_some_and(|(before, _)| second < *before) {
            let problem = "an earlier line has a later time: sort the lines by time";
            return Err(TraceFault::new("time", problem, &time.to_string()));
        }
        let id = required("machine_id", &event.machine_id, line)?;
        up.remove(id);
        if !is_removal(&event.kind)? {
            let Event { capacity, .. } = &event;
            let cpu_millis = amount("capacity.cpus", capacity.get("cpus"), CPU_MILLIS)?;
            let bytes = amount("capacity.memory", capacity.get("memory"), MEMORY_BYTES)?;
            if up.machines.len() >= MACHINES_MAX {
                let problem = format!("there are more than {MACHINES_MAX} machines");
                return Err(TraceFault::new("machine_id", problem, &id.to_string()));
            }
            let cores = cpu_millis as f64 / 1_000.0;
            up.add(id, Capacity { machines: 1.0, cores, gib: bytes as f64 / GIB });
        }
        match self.steps.last_mut().filter(|(before, _)| *before == second) {
            Some((_, capacity)) => *capacity = up.total,
            None => self.steps.push((second, up.total)),
        }
        Ok(())
    }

    /// The mean capacity from one second until another. NaN if the time is empty.
    pub fn mean(&self, from: i64, until: i64) -> Capacity {
        let ends = self.steps.iter().skip(1).map(|(start, _)| *start).chain([i64::MAX]);
        let mut sum = Capacity::default();
        for ((start, capacity), end) in self.steps.iter().zip(ends) {
            let seconds = end.min(until).saturating_sub((*start).max(from)).max(0) as f64;
            sum = sum.plus(*capacity, seconds);
        }
        let length = until.saturating_sub(from).max(0) as f64;
        Capacity {
            machines: sum.machines / length,
            cores: sum.cores / length,
            gib: sum.gib / length,
        }
    }
}

/// The bytes of a GiB.
pub(super) const GIB: f64 = 1_073_741_824.0;

impl Capacity {
    /// The sum of both, the other one multiplied by a factor.
    fn plus(self, other: Self, factor: f64) -> Self {
        Self {
            machines: self.machines + factor * other.machines,
            cores: self.cores + factor * other.cores,
            gib: self.gib + factor * other.gib,
        }
    }
}

impl Up {
    fn add(&mut self, id: i64, capacity: Capacity) {
        self.machines.insert(id, capacity);
        self.total = self.total.plus(capacity, 1.0);
    }

    fn remove(&mut self, id: i64) {
        if let Some(capacity) = self.machines.remove(&id) {
            self.total = self.total.plus(capacity, -1.0);
        }
    }
}

/// Whether an event removes a machine. The others add one or change its capacity.
fn is_removal(value: &Value) -> Result<bool, TraceFault> {
    match (value.as_str().unwrap_or_default(), integer("type", value).ok().flatten()) {
        ("REMOVE", _) | (_, Some(2)) => Ok(true),
        ("ADD" | "UPDATE", _) | (_, Some(1 | 3)) => Ok(false),
        _ => {
            let problem = "expected an event type, 1 to 3 or its name";
            Err(TraceFault::new("type", problem, &value.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> Result<Machines, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), lines).unwrap();
        let read = Machines::read(file.path());
        read.map_err(|error| error.to_string().replace(&file.path().display().to_string(), "FILE"))
    }

    /// Two machines, of which one is updated to half of its capacity and then removed.
    const EVENTS: &str = r#"{"time": "0", "machine_id": "7", "type": 1, "capacity": {"cpus": 1.0, "memory": 0.5}, "platform_id": "a"}
{"time": 0, "machine_id": 8, "type": "ADD", "capacity": {"cpus": 0.5, "memory": 1.0}}

{"time": 10000000, "machine_id": 7, "type": "UPDATE", "capacity": {"cpus": 0.5, "memory": 0.25}}
{"time": 20000000, "machine_id": 7, "type": "REMOVE"}
{"time": 9223372036854775807, "machine_id": 8, "type": 2}"#;

    #[test]
    fn the_mean_capacity_is_weighted_by_time() {
        let machines = read(EVENTS).unwrap();
        let all = Capacity { machines: 2.0, cores: 96.0 * 1.5, gib: 384.0 * 1.5 };
        assert_eq!(machines.mean(0, 10), all);
        let mean = machines.mean(5, 25);
        let cores = 96.0 * (5.0 * 1.5 + 10.0 * 1.0 + 5.0 * 0.5) / 20.0;
        assert_eq!((mean.machines, mean.cores), ((15.0 * 2.0 + 5.0) / 20.0, cores));
        assert!(machines.mean(5, 5).machines.is_nan());
    }

    #[test]
    fn a_bad_line_is_named() {
        let check = |lines: &str, expected: &str| {
            let error = read(lines).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("", "FILE: the file is empty");
        check("{}", "FILE:1: column time: is missing");
        check(r#"{"time": 1, "machine_id": 1, "type": 4}"#, "column type: expected an event type");
        check(r#"{"time": -1, "machine_id": 1, "type": 1}"#, "expected microseconds");
        let sorted = "{\"time\": 5000000, \"machine_id\": 1, \"type\": 1}\n{\"time\": 1, \"machine_id\": 1, \"type\": 2}";
        check(sorted, "FILE:2: column time: an earlier line has a later time");
    }
}
