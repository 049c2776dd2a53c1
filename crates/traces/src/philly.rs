//! Reads jobs of Microsoft Philly (Jeon et al., ATC '19) in the table that the artifact of Sia
//! (Jayaram Subramanya et al., SOSP '23) has: `timestamp,duration,num_gpus,gpu_time,cluster`.

use chrono::NaiveDateTime;
use embedder::{AcceleratorKind, Resources, Split};

use super::fields::split;
use super::job::{Admits, Job, Work};
use super::reader::{
    Notes, Reader, Row, TraceFault, UNITS_MAX, count, field, index, name, seconds,
};

/// The columns that are read.
pub(super) const COLUMNS: [&str; 3] = ["timestamp", "duration", "num_gpus"];

pub(super) struct Philly {
    /// The virtual cluster, or the user where the log has that column.
    user: Option<usize>,
    timestamp: usize,
    duration: usize,
    gpus: usize,
}

impl Philly {
    pub(super) fn new(columns: &[&str]) -> Self {
        let column = |name| columns.iter().position(|column| *column == name);
        Self {
            user: column("user").or_else(|| column("cluster")),
            timestamp: index(columns, "timestamp"),
            duration: index(columns, "duration"),
            gpus: index(columns, "num_gpus"),
        }
    }
}

impl Reader for Philly {
    fn row(&mut self, line: &str, number: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let fields = split(line)?;
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
        if submit < 0 {
            return Err(TraceFault::new("timestamp", "expected a time from 1970 on", timestamp));
        }
        let runtime = seconds("duration", field(&fields, self.duration, "duration")?)?;
        let units = count("num_gpus", field(&fields, self.gpus, "num_gpus")?, UNITS_MAX)?;
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        if units == 0 {
            return Ok(Row::NoSize);
        }
        let user = self.user.map(|at| name("user", field(&fields, at, "user")?)).transpose()?;
        let user = user.unwrap_or_default();
        let work = Work {
            units,
            unit: Resources { accelerators: 1, ..Resources::default() },
            accelerator_kind: AcceleratorKind::default(),
            split: Some(Split::Full),
            admits: Admits::Assumed,
        };
        Ok(Row::Job(Job::new((number - 1).to_string(), user, submit, runtime, work)))
    }
}
