//! Reads Google's clusterdata-2011 (Reiss et al., "Google cluster-usage traces: format + schema"):
//! `task_events`, a comma-separated table without a header, in the order of time.
//!
//! A task is a job of one pod, from SUBMIT to FAIL, FINISH, KILL or LOST. The trace normalises
//! requests to the largest machine, for which this reader assumes the size of that of 2019.

use embedder::Resources;
use serde_json::Value;

use super::borg::{AFTER, CPU_MILLIS, MEMORY_BYTES, amount, check_time};
use super::fields::split;
use super::job::Job;
use super::reader::{Notes, Reader, Row, TraceFault, field, number};
use super::task_events::{EventKind, TaskEvents};

/// The number of columns.
const WIDTH: usize = 13;

#[derive(Default)]
pub(super) struct Google2011 {
    events: TaskEvents,
}

/// Whether a line is an event of this trace.
pub(super) fn is_event(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_number = |at: usize| fields[at].parse::<i64>().is_ok();
    fields.len() == WIDTH
        && [0, 2, 3, 5, 7, 8].into_iter().all(is_number)
        // The name of the user is a hash.
        && fields[6].parse::<f64>().is_err()
        && ["", "0", "1"].contains(&fields[12])
}

impl Reader for Google2011 {
    fn row(&mut self, line: &str, _: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let fields = split(line)?;
        if fields.len() != WIDTH {
            let problem = format!("expected {WIDTH} columns, got {}", fields.len());
            return Err(TraceFault::new("", problem, ""));
        }
        let integer = |at, column| {
            let text = field(&fields, at, column)?;
            let fault = || TraceFault::new(column, "expected a whole number", text);
            text.parse::<i64>().map_err(|_| fault())
        };
        let time = integer(0, "timestamp")?;
        if time == AFTER {
            return Ok(Row::Blank);
        }
        check_time("timestamp", time)?;
        let key = (integer(2, "job ID")?, integer(3, "task index")?);
        let kind = match integer(5, "event type")? {
            0 => EventKind::Submit,
            1 => EventKind::Schedule,
            3..=6 => EventKind::End,
            2 | 7 | 8 => EventKind::Other,
            other => {
                let problem = "expected an event type, 0 to 8";
                return Err(TraceFault::new("event type", problem, &other.to_string()));
            }
        };
        let share = |at, column, whole| {
            let share = match field(&fields, at, column)? {
                "" => Value::Null,
                text => number(column, text, f64::MAX)?.into(),
            };
            amount(column, Some(&share), whole)
        };
        let request = || {
            Ok(Resources {
                cpu_millis: share(9, "CPU request", CPU_MILLIS)?,
                memory_bytes: share(10, "memory request", MEMORY_BYTES)?,
                ..Resources::default()
            })
        };
        self.events.note(key, time, kind, integer(8, "priority")?, request)
    }

    fn open_jobs(&self) -> usize {
        self.events.open_tasks()
    }

    fn finish(&mut self) -> Vec<Job> {
        self.events.finish()
    }
}
