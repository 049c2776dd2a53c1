//! Reads Prophet's usage table: CSV with a header and columns in any order.
//!
//! `docs/rightsizing.md` is its specification.

use usage::{
    ContainerKey, ContainerRequest, LADDER, MEMORY_UNIT_BYTES, OomTolerance, RequestOf, UsageRow,
    WorkloadClass,
};

use super::reader::{UsageNotes, UsageReader};
use crate::columns::Columns;
use crate::reader::{AMOUNT_MAX, TraceFault, name, number};
use crate::times::SameClock;

/// The names of all columns. Other columns are rejected.
pub(super) const COLUMNS: [&str; 10] = [
    "time",
    "owner",
    "container",
    "pod",
    "cpu_millis",
    "memory_bytes",
    "cpu_request_millis",
    "memory_request_bytes",
    "class",
    "oom_tolerance",
];

/// The columns that every table has.
pub(super) const REQUIRED: [&str; 2] = ["time", "owner"];

/// The columns of which every table has one.
pub(super) const MEASURED: [&str; 2] = ["cpu_millis", "memory_bytes"];

/// The largest usage, in thousandths of a core and in bytes: the last boundary of the histograms.
const CPU_MAX: f64 = LADDER[LADDER.len() - 1] as f64;
const MEMORY_MAX: f64 = CPU_MAX * MEMORY_UNIT_BYTES as f64;

pub(super) struct Table {
    columns: Columns,
    clock: SameClock,
}

impl Table {
    /// A reader for a file with this header, all of whose names are in [`COLUMNS`].
    pub(super) fn new(header: &[&str]) -> Self {
        Self { columns: Columns::new(&COLUMNS, header), clock: SameClock::default() }
    }
}

impl UsageReader for Table {
    fn row(
        &mut self,
        line: &str,
        line_number: u64,
        _: &mut UsageNotes,
    ) -> Result<Option<UsageRow>, TraceFault> {
        if line.trim().is_empty() {
            return Ok(None);
        }
        let Self { columns, clock } = self;
        let fields = columns.split(line)?;
        let get = |column| columns.get(&fields, column);
        let missing = |column| TraceFault::new(column, "is empty", "");
        let time = get("time")?.ok_or_else(|| missing("time"))?;
        let time = clock.time("time", time, line_number)?;
        let text = |column: &'static str| -> Result<Box<str>, TraceFault> {
            Ok(get(column)?.map(|text| name(column, text)).transpose()?.unwrap_or_default().into())
        };
        let owner = text("owner")?;
        if owner.is_empty() {
            return Err(missing("owner"));
        }
        let amount = |column: &'static str, most: f64| {
            get(column)?.map(|text| amount(column, text, most)).transpose()
        };
        let cpu = amount("cpu_millis", CPU_MAX)?;
        let memory_bytes = amount("memory_bytes", MEMORY_MAX)?;
        if cpu.is_none() && memory_bytes.is_none() {
            let [cpu, memory] = MEASURED;
            return Err(TraceFault::new("", format!("has neither {cpu} nor {memory}"), ""));
        }
        Ok(Some(UsageRow {
            time,
            key: ContainerKey { owner, container: text("container")? },
            pod: text("pod")?,
            cpu: cpu.map(|millis| (millis, 1.0)).into_iter().collect(),
            memory_bytes,
            request: ContainerRequest {
                cpu_millis: amount("cpu_request_millis", AMOUNT_MAX)?,
                memory_bytes: amount("memory_request_bytes", AMOUNT_MAX)?,
            },
            request_of: RequestOf::Container,
            class: get("class")?.map(class).transpose()?,
            oom_tolerance: get("oom_tolerance")?.map(oom_tolerance).transpose()?,
        }))
    }
}

/// Parses an amount from 0 to `most`, and rounds it up to a whole number.
fn amount(column: &'static str, text: &str, most: f64) -> Result<u64, TraceFault> {
    let value = number(column, text, most)?;
    if value < 0.0 {
        return Err(TraceFault::new(column, "expected a number from 0", text));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    Ok(value.ceil() as u64)
}

fn class(text: &str) -> Result<WorkloadClass, TraceFault> {
    let found = WorkloadClass::ALL.into_iter().find(|class| class.label() == text);
    found.ok_or_else(|| one_of("class", WorkloadClass::ALL.map(WorkloadClass::label), text))
}

fn oom_tolerance(text: &str) -> Result<OomTolerance, TraceFault> {
    let found = OomTolerance::ALL.into_iter().find(|tolerance| tolerance.label() == text);
    found.ok_or_else(|| one_of("oom_tolerance", OomTolerance::ALL.map(OomTolerance::label), text))
}

fn one_of(column: &'static str, [first, second, third]: [&str; 3], text: &str) -> TraceFault {
    TraceFault::new(column, format!("expected {first}, {second} or {third}"), text)
}
