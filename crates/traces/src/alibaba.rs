//! Reads the batch tasks of Alibaba's cluster-trace-v2017 and cluster-trace-v2018 (Fuxi).
//!
//! A row is a task of a job: a number of instances that request equal CPU and memory. A task is
//! read as a job with a pod for each instance. The published files have no header, and a status
//! such as `Terminated` marks the format. The recorded times include the wait for machines, because
//! a task is created when its inputs exist.
//!
//! CPU is in hundredths of a core. Memory is a share of the largest machine, which this reader
//! assumes to have [`MEMORY_BYTES`]. The reader of 2018 follows the published schema and was tested
//! with hand-written rows only. Its tasks have the numbers of those that they wait for in their
//! names.

use std::collections::HashMap;

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
        let (_, before) = numbers(task).unwrap_or_default();
        let after = before.iter().map(|number| format!("{job}/{number}").into()).collect();
        let name = format!("{job}/{task}").into();
        Ok(Row::Job(Job { name, user: job.into(), submit, runtime, priority: 0, work, after }))
    }
}

/// The number of a task of a DAG, and those of the tasks that it waits for. The trace of 2018 has
/// them in the names of tasks: `R3_1_2` is the third task, which waits for the first two. `None`
/// for other names.
fn numbers(task: &str) -> Option<(u64, Vec<u64>)> {
    let numbers = task.trim_start_matches(|at: char| at.is_ascii_alphabetic());
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|at| at.is_ascii_digit());
    // `task_` begins the names of tasks without a number, and what follows means nothing.
    let mut parts = numbers.split('_').take_while(is_number).map(str::parse);
    let own = parts.next()?.ok().filter(|_| numbers.len() < task.len())?;
    Some((own, parts.collect::<Result<_, _>>().ok()?))
}

/// Replaces the numbers of the tasks that others wait for by their names.
pub(super) fn name_predecessors(jobs: &mut [Job]) {
    if jobs.iter().all(|job| job.after.is_empty()) {
        return;
    }
    let mut names: HashMap<String, Box<str>> = HashMap::new();
    for Job { name, user, .. } in &*jobs {
        let task = name.strip_prefix(&**user).and_then(|rest| rest.strip_prefix('/'));
        if let Some((number, _)) = task.and_then(numbers) {
            names.insert(format!("{user}/{number}"), name.clone());
        }
    }
    for job in jobs.iter_mut().filter(|job| !job.after.is_empty()) {
        let before = job.after.iter().filter_map(|number| names.get(&**number).cloned());
        job.after = before.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tasks_have_the_numbers_of_those_before() {
        let check = |task: &str, expected: Option<(u64, &[u64])>| {
            let found = numbers(task);
            let found = found.as_ref().map(|(own, before)| (*own, before.as_slice()));
            assert_eq!(found, expected, "{task}");
        };
        check("M1", Some((1, &[])));
        check("R2_1", Some((2, &[1])));
        check("J30_1_29", Some((30, &[1, 29])));
        // What follows the numbers is the name of a stage.
        check("R2_1_Stg5", Some((2, &[1])));
        check("task_NzQ4OTk2", None);
        check("MergeTask", None);
        check("7_1", None);
        check("R99999999999999999999", None);
    }
}
