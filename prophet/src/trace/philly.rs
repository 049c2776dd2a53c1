//! Reads Microsoft Philly (Jeon et al., ATC '19): `timestamp,duration,num_gpus,gpu_time,cluster`.

use chrono::NaiveDateTime;
use embedder::{AcceleratorKind, Resources, Split};

use super::job::{Job, Work};
use super::reader::{Notes, Reader, Row, TraceFault, UNITS_MAX, count, field, place, seconds};

pub(super) struct Philly {
    timestamp: usize,
    duration: usize,
    gpus: usize,
}

impl Philly {
    pub(super) fn new(columns: &[&str]) -> Self {
        Self {
            timestamp: place(columns, "timestamp"),
            duration: place(columns, "duration"),
            gpus: place(columns, "num_gpus"),
        }
    }
}

impl Reader for Philly {
    fn row(&mut self, line: &str, number: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let fields: Vec<&str> = line.split(',').collect();
        let timestamp = field(&fields, self.timestamp, "timestamp")?;
        let submit = NaiveDateTime::parse_from_str(timestamp, "%Y-%m-%d %H:%M:%S")
            .map_err(|_| {
                TraceFault::new(
                    "timestamp",
                    "expected a time such as 2017-10-01 12:00:00",
                    timestamp,
                )
            })?
            .and_utc()
            .timestamp();
        let submit = seconds("timestamp", &submit.to_string())?;
        let runtime = seconds("duration", field(&fields, self.duration, "duration")?)?;
        let units = count("num_gpus", field(&fields, self.gpus, "num_gpus")?, UNITS_MAX)?;
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        if units == 0 {
            return Ok(Row::NoSize);
        }
        let work = Work {
            units,
            unit: Resources { accelerators: 1, ..Resources::default() },
            accelerator_kind: AcceleratorKind::default(),
            split: Some(Split::Full),
        };
        Ok(Row::Job(Job {
            name: (number - 1).to_string().into(),
            submit,
            runtime,
            priority: 0,
            work,
        }))
    }
}
