//! Reads the batch tasks of Alibaba's cluster-trace-v2017 and cluster-trace-v2018 (Fuxi).
//!
//! A row is a task of a job: a number of instances that request equal CPU and memory. A task is
//! read as a job with a pod for each instance. The published files have no header, and a status
//! such as `Terminated` marks the format. The recorded times include the wait for machines, because
//! a task is created when its inputs exist.
//!
//! CPU is in hundredths of a core. Memory is a share of the largest machine, which this reader
//! assumes to have [`MEMORY_BYTES`]. The reader of 2018 follows the published schema and was tested
//! with hand-written rows only.

use embedder::{AcceleratorKind, Resources};

use super::fields::split;
use super::job::{Admits, Job, Work};
use super::reader::{
    AMOUNT_MAX, Notes, Reader, Row, TraceFault, UNITS_MAX, count, field, name, number, rounded_up,
    seconds,
};

/// A request of all memory of the largest machine, in bytes: 384 GiB. This is an assumption,
/// because the trace does not disclose the true size.
const MEMORY_BYTES: f64 = 384.0 * 1_073_741_824.0;

/// The places of the columns in a row, from 0, and their names in messages.
#[derive(Clone, Copy)]
struct Columns {
    job: (usize, &'static str),
    task: (usize, &'static str),
    instances: (usize, &'static str),
    status: (usize, &'static str),
    created: (usize, &'static str),
    ended: (usize, &'static str),
    cpu: (usize, &'static str),
    memory: (usize, &'static str),
    /// The value of the column `memory` that is the memory of the largest machine.
    whole_memory: f64,
    /// The number of columns.
    count: usize,
}

const V2017: Columns = Columns {
    created: (0, "create_timestamp"),
    ended: (1, "modify_timestamp"),
    job: (2, "job_id"),
    task: (3, "task_id"),
    instances: (4, "instance_num"),
    status: (5, "status"),
    cpu: (6, "plan_cpu"),
    memory: (7, "plan_mem"),
    whole_memory: 1.0,
    count: 8,
};

const V2018: Columns = Columns {
    task: (0, "task_name"),
    instances: (1, "instance_num"),
    job: (2, "job_name"),
    status: (4, "status"),
    created: (5, "start_time"),
    ended: (6, "end_time"),
    cpu: (7, "plan_cpu"),
    memory: (8, "plan_mem"),
    whole_memory: 100.0,
    count: 9,
};

/// The values of the column `status`, as the traces spell them.
const STATUSES: [&str; 7] =
    ["Terminated", "Failed", "Running", "Waiting", "Ready", "Cancelled", "Interupted"];

pub(super) struct Tasks(Columns);

impl Tasks {
    /// The reader for a first line of these fields, and whether the line is a header. Returns
    /// `None` if the line is of another format.
    pub(super) fn of(fields: &[&str]) -> Option<(Self, bool)> {
        // Copies of 2017 differ in the names of the other columns.
        let named = |columns: &Columns| {
            let starts = |(at, name): (usize, &str)| fields[at].starts_with(name);
            fields.len() == columns.count && starts(columns.status) && starts(columns.task)
        };
        let is_row = |columns: &Columns| {
            let status = fields.get(columns.status.0);
            fields.len() == columns.count
                && status.is_some_and(|word| {
                    STATUSES.iter().any(|status| status.eq_ignore_ascii_case(word))
                })
        };
        let of = |is: &dyn Fn(&Columns) -> bool| [V2017, V2018].into_iter().find(is);
        let header = of(&named).map(|columns| (Self(columns), true));
        header.or_else(|| of(&is_row).map(|columns| (Self(columns), false)))
    }
}

impl Reader for Tasks {
    fn row(&mut self, line: &str, _: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let Self(columns) = self;
        let fields = split(line)?;
        let text = |(at, column): (usize, &'static str)| field(&fields, at, column);
        let (job, task) = (name("job", text(columns.job)?)?, name("task", text(columns.task)?)?);
        if text(columns.status)? != "Terminated" {
            return Ok(Row::NeverRan);
        }
        // A task that was created before the first second counts from there on.
        let submit = seconds(columns.created.1, text(columns.created)?)?.max(0);
        let runtime = seconds(columns.ended.1, text(columns.ended)?)? - submit;
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        let units = count(columns.instances.1, text(columns.instances)?, UNITS_MAX)?;
        let requested = |(at, column): (usize, &'static str), whole: f64, scale: f64| {
            let value = text((at, column))?;
            if value.is_empty() {
                return Ok(0);
            }
            Ok(rounded_up(number(column, value, whole)? * scale))
        };
        let unit = Resources {
            cpu_millis: requested(columns.cpu, AMOUNT_MAX / 10.0, 10.0)?,
            memory_bytes: requested(
                columns.memory,
                columns.whole_memory,
                MEMORY_BYTES / columns.whole_memory,
            )?,
            ..Resources::default()
        };
        if units == 0 || unit == Resources::default() {
            return Ok(Row::NoSize);
        }
        let work = Work {
            units,
            unit,
            accelerator_kind: AcceleratorKind::default(),
            split: None,
            admits: Admits::Assumed,
        };
        let name = format!("{job}/{task}").into();
        Ok(Row::Job(Job { name, user: job.into(), submit, runtime, priority: 0, work }))
    }
}
