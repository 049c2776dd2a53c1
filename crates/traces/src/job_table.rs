//! Reads and writes Prophet's job table: CSV with a header and columns in any order.
//!
//! `docs/trace-format.md` is its specification.

use std::borrow::Cow;
use std::io::{self, Write};

use embedder::{AcceleratorKind, Resources, Split};

use super::columns::Columns;
use super::job::{Admits, Job, Work};
use super::reader::{
    AMOUNT_MAX, Notes, Reader, Row, TraceFault, UNITS_MAX, count, name, number, seconds,
};
use super::times::SameClock;

/// The columns, in the order in which they are written.
pub(super) const COLUMNS: [&str; 15] = [
    "job",
    "submit",
    "runtime",
    "pods",
    "units",
    "split",
    "accelerators",
    "accelerator_kind",
    "cpu_millis",
    "memory_bytes",
    "ephemeral_bytes",
    "priority",
    "user",
    "interruptible",
    "after",
];

/// The columns that every table has.
pub(super) const REQUIRED: [&str; 2] = ["submit", "runtime"];

pub(super) struct Table {
    columns: Columns,
    /// The clock of the jobs.
    clock: SameClock,
}

impl Table {
    /// A reader for a file with this header, all of whose names are in [`COLUMNS`].
    pub(super) fn new(header: &[&str]) -> Self {
        Self { columns: Columns::new(&COLUMNS, header), clock: SameClock::default() }
    }
}

impl Reader for Table {
    fn row(&mut self, line: &str, line_number: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let Self { columns, clock } = self;
        let fields = columns.split(line)?;
        let get = |column| columns.get(&fields, column);
        let required = |column| get(column)?.ok_or_else(|| TraceFault::new(column, "is empty", ""));
        let text = required("submit")?;
        let submit = clock.time("submit", text, line_number)?;
        let runtime = seconds("runtime", required("runtime")?)?;
        let (units, split) = match (get("pods")?, get("units")?) {
            (Some(_), Some(units)) => {
                return Err(TraceFault::new("units", "give pods or units, not both", units));
            }
            (Some(pods), None) => (whole("pods", pods, UNITS_MAX)?, None),
            (None, Some(units)) => (whole("units", units, UNITS_MAX)?, Some(split(get("split")?)?)),
            (None, None) => (1, None),
        };
        let amount = |column| get(column)?.map_or(Ok(0), |text| whole(column, text, AMOUNT_MAX));
        let mut unit = Resources {
            devices: embedder::Devices::NONE,
            accelerators: amount("accelerators")?,
            cpu_millis: amount("cpu_millis")?,
            memory_bytes: amount("memory_bytes")?,
            ephemeral_bytes: amount("ephemeral_bytes")?,
            pods: 0,
        };
        if split.is_some() && unit == Resources::default() {
            unit.cpu_millis = 1_000;
        }
        let priority = get("priority")?.unwrap_or("0");
        let priority: i32 = priority.parse().map_err(|_| {
            let problem = format!("expected a whole number from {} to {}", i32::MIN, i32::MAX);
            TraceFault::new("priority", problem, priority)
        })?;
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        if units == 0 || unit == Resources::default() {
            return Ok(Row::NoSize);
        }
        let kind =
            get("accelerator_kind")?.map(|kind| name("accelerator_kind", kind)).transpose()?;
        let kind = kind.map_or_else(AcceleratorKind::default, AcceleratorKind::new);
        let job = get("job")?.map(|job| name("job", job)).transpose()?;
        let name = job.map_or_else(|| (line_number - 1).to_string().into(), Into::into);
        let admits = admits(get("interruptible")?)?;
        let after = get("after")?.map(|names| names.split(';').map(str::trim));
        let after = after.map(|names| names.filter(|name| !name.is_empty()));
        let user = get("user")?.map(|user| super::reader::name("user", user)).transpose()?;
        Ok(Row::Job(Job {
            name,
            user: user.unwrap_or_default().into(),
            submit,
            runtime,
            priority,
            work: Work { units, unit, accelerator_kind: kind, split, admits },
            after: after.into_iter().flatten().map(Into::into).collect(),
        }))
    }
}

/// Parses a whole number from 0 to `most`.
fn whole(column: &'static str, text: &str, most: f64) -> Result<u64, TraceFault> {
    let value = number(column, text, most)?;
    if value < 0.0 || value.fract() != 0.0 {
        return Err(TraceFault::new(column, "expected a whole number, 0 or more", text));
    }
    count(column, text, most)
}

fn admits(interruptible: Option<&str>) -> Result<Admits, TraceFault> {
    match interruptible {
        None | Some("false") => Ok(Admits::Assumed),
        Some("true") => Ok(Admits::Interruptible),
        Some(other) => Err(TraceFault::new("interruptible", "expected true or false", other)),
    }
}

fn split(text: Option<&str>) -> Result<Split, TraceFault> {
    match text {
        None | Some("full") => Ok(Split::Full),
        Some("even") => Ok(Split::Even),
        Some(other) => Err(TraceFault::new("split", "expected full or even", other)),
    }
}

/// Writes jobs as a job table. It has the column `after` only if a job waits for another.
///
/// # Errors
/// Returns the errors of the writer.
pub fn write(jobs: &[Job], to: &mut impl Write) -> io::Result<()> {
    let any_waits = jobs.iter().any(|job| !job.after.is_empty());
    let columns = COLUMNS.len() - usize::from(!any_waits);
    writeln!(to, "{}", COLUMNS[..columns].join(","))?;
    for Job { name, user, submit, runtime, priority, work, after } in jobs {
        let Work { units, unit, accelerator_kind, split, admits } = work;
        let interruptible = if *admits == Admits::Interruptible { "true" } else { "" };
        let Resources {
            devices: _,
            accelerators,
            cpu_millis,
            memory_bytes,
            ephemeral_bytes,
            pods: _,
        } = unit;
        let (pods, units, split) = match split {
            None => (units.to_string(), String::new(), ""),
            Some(Split::Full) => (String::new(), units.to_string(), "full"),
            Some(Split::Even) => (String::new(), units.to_string(), "even"),
        };
        let kind = if *accelerators > 0 { accelerator_kind.as_str() } else { "" };
        let (name, kind, user) = (quoted(name), quoted(kind), quoted(user));
        let after =
            if any_waits { format!(",{}", quoted(&after.join(";"))) } else { String::new() };
        writeln!(
            to,
            "{name},{submit},{runtime},{pods},{units},{split},{accelerators},{kind},{cpu_millis},{memory_bytes},{ephemeral_bytes},{priority},{user},{interruptible}{after}"
        )?;
    }
    Ok(())
}

/// A field in quotes, if it contains a comma or a quote.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"']) {
        return format!("\"{}\"", field.replace('"', "\"\"")).into();
    }
    field.into()
}
