//! Reads the pods of Alibaba's cluster-trace-gpu-v2023 ("openb").
//!
//! The pods request CPU, memory and GPUs; times are relative seconds. A pod that requests a share
//! of a GPU counts as a pod that requests a whole one.

use embedder::{AcceleratorKind, Resources};

use super::fields::split;
use super::job::{Admits, Job, Work};
use super::reader::{
    AMOUNT_MAX, Notes, Reader, Row, TraceFault, count, field, index, name, seconds, submission,
};

/// The columns that are read.
pub(super) const COLUMNS: [&str; 8] = [
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];

pub(super) struct Openb {
    name: usize,
    cpu: usize,
    memory: usize,
    gpus: usize,
    gpu_milli: usize,
    created: usize,
    deleted: usize,
    scheduled: usize,
}

impl Openb {
    pub(super) fn new(columns: &[&str]) -> Self {
        Self {
            name: index(columns, "name"),
            cpu: index(columns, "cpu_milli"),
            memory: index(columns, "memory_mib"),
            gpus: index(columns, "num_gpu"),
            gpu_milli: index(columns, "gpu_milli"),
            created: index(columns, "creation_time"),
            deleted: index(columns, "deletion_time"),
            scheduled: index(columns, "scheduled_time"),
        }
    }
}

impl Reader for Openb {
    fn row(&mut self, line: &str, _: u64, notes: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let fields = split(line)?;
        let amount =
            |at, column| count(column, field(&fields, at, column)?, AMOUNT_MAX / 1_048_576.0);
        let unit = Resources {
            accelerators: amount(self.gpus, "num_gpu")?,
            cpu_millis: amount(self.cpu, "cpu_milli")?,
            memory_bytes: amount(self.memory, "memory_mib")? << 20,
            ..Resources::default()
        };
        let share = amount(self.gpu_milli, "gpu_milli")?;
        let submit = submission("creation_time", field(&fields, self.created, "creation_time")?)?;
        let scheduled = field(&fields, self.scheduled, "scheduled_time")?;
        let deleted = field(&fields, self.deleted, "deletion_time")?;
        if scheduled.is_empty() || deleted.is_empty() {
            return Ok(Row::NeverRan);
        }
        let runtime = seconds("deletion_time", deleted)? - seconds("scheduled_time", scheduled)?;
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        if unit == Resources::default() {
            return Ok(Row::NoSize);
        }
        notes.rounded_up += u64::from(unit.accelerators == 1 && share > 0 && share < 1_000);
        let work = Work {
            units: 1,
            unit,
            accelerator_kind: AcceleratorKind::default(),
            split: None,
            admits: Admits::Assumed,
        };
        let name = name("name", field(&fields, self.name, "name")?)?;
        Ok(Row::Job(Job::new(name, "", submit, runtime, work)))
    }
}
