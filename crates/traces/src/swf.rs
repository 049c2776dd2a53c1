//! Reads the Standard Workload Format, version 2.2, of the Parallel Workloads Archive.
//!
//! The format has 18 columns, `;` before header lines, and -1 for unknown values. Each processor
//! counts as one core. The size of a job is its requested processors, or, if they are unknown, its
//! allocated processors, with the requested memory for each.

use embedder::{AcceleratorKind, Resources, Split};

use super::job::{Admits, Job, Work};
use super::reader::{
    AMOUNT_MAX, Notes, Reader, Row, TraceFault, UNITS_MAX, count, field, name, seconds, submission,
};

// The indices of the columns that are read, from 0.
const SUBMIT: usize = 1;
const RUNTIME: usize = 3;
const ALLOCATED: usize = 4;
const REQUESTED: usize = 7;
const MEMORY: usize = 9;
const STATUS: usize = 10;
const USER: usize = 11;
const PRECEDING: usize = 16;

#[derive(Default)]
pub(super) struct Swf {
    /// The Unix time of the log's zero, from the header.
    start: i64,
}

impl Reader for Swf {
    fn row(&mut self, line: &str, _: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        let line = line.trim();
        if let Some(header) = line.strip_prefix(';') {
            if let Some((_, start)) =
                header.split_once(':').filter(|(key, _)| key.trim() == "UnixStartTime")
            {
                self.start = seconds("UnixStartTime", start.trim())?.max(0);
            }
            return Ok(Row::Blank);
        }
        if line.is_empty() {
            return Ok(Row::Blank);
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let submit = submission("2 (submit time)", field(&fields, SUBMIT, "2 (submit time)")?)?;
        let runtime = seconds("4 (run time)", field(&fields, RUNTIME, "4 (run time)")?)?;
        let processors = |at, column| count(column, field(&fields, at, column)?, UNITS_MAX);
        let allocated = processors(ALLOCATED, "5 (allocated processors)")?;
        let requested = processors(REQUESTED, "8 (requested processors)")?;
        let kilobytes = count(
            "10 (requested memory)",
            field(&fields, MEMORY, "10 (requested memory)")?,
            AMOUNT_MAX / 1024.0,
        )?;
        let status = seconds("11 (status)", field(&fields, STATUS, "11 (status)")?)?;
        // The statuses 2, 3 and 4 are parts of a job that was swapped out. Another line has the
        // whole job.
        if (2..=4).contains(&status) {
            return Ok(Row::NotAJob);
        }
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        let units = if requested > 0 { requested } else { allocated };
        if units == 0 {
            return Ok(Row::NoSize);
        }
        let unit = Resources {
            cpu_millis: 1_000,
            memory_bytes: kilobytes * 1_024,
            ..Resources::default()
        };
        // -1 means that the user is unknown.
        let user = fields.get(USER).filter(|user| **user != "-1");
        let user = user.map(|user| name("12 (user)", user)).transpose()?.unwrap_or_default().into();
        // -1 means that the job waits for no other.
        let preceding = fields.get(PRECEDING).filter(|job| !job.starts_with('-') && **job != "0");
        let preceding = preceding.map(|job| name("17 (preceding job number)", job)).transpose()?;
        let work = Work {
            units,
            unit,
            accelerator_kind: AcceleratorKind::default(),
            split: Some(Split::Full),
            admits: Admits::Assumed,
        };
        Ok(Row::Job(Job {
            user,
            name: name("1 (job number)", field(&fields, 0, "1 (job number)")?)?.into(),
            submit: self.start + submit,
            runtime,
            priority: 0,
            work,
            after: preceding.into_iter().map(Into::into).collect(),
        }))
    }
}
