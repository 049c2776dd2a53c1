//! Reads the pods of Alibaba's cluster-trace-gpu-v2023 ("openb").
//!
//! The pods request CPU, memory and GPUs; times are relative seconds. A pod that requests a share
//! of a GPU counts as a pod that requests a whole one.

use embedder::{AcceleratorKind, Resources};

use super::job::{Job, Work};
use super::reader::{AMOUNT_MAX, Notes, Reader, Row, TraceFault, count, field, place, seconds};

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
            name: place(columns, "name"),
            cpu: place(columns, "cpu_milli"),
            memory: place(columns, "memory_mib"),
            gpus: place(columns, "num_gpu"),
            gpu_milli: place(columns, "gpu_milli"),
            created: place(columns, "creation_time"),
            deleted: place(columns, "deletion_time"),
            scheduled: place(columns, "scheduled_time"),
        }
    }
}

impl Reader for Openb {
    fn row(&mut self, line: &str, _: u64, notes: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let fields: Vec<&str> = line.split(',').collect();
        let amount =
            |at, column| count(column, field(&fields, at, column)?, AMOUNT_MAX / 1_048_576.0);
        let unit = Resources {
            accelerators: amount(self.gpus, "num_gpu")?,
            cpu_millis: amount(self.cpu, "cpu_milli")?,
            memory_bytes: amount(self.memory, "memory_mib")? << 20,
            ..Resources::default()
        };
        let share = amount(self.gpu_milli, "gpu_milli")?;
        let submit = seconds("creation_time", field(&fields, self.created, "creation_time")?)?;
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
        let work =
            Work { units: 1, unit, accelerator_kind: AcceleratorKind::default(), split: None };
        let name = field(&fields, self.name, "name")?.into();
        Ok(Row::Job(Job { name, submit, runtime, priority: 0, work }))
    }
}
