//! Reads and writes Prophet's job table: CSV with a header and columns in any order.
//!
//! `docs/trace-format.md` is its specification.

use std::io::{self, Write};

use chrono::{DateTime, NaiveDateTime};
use embedder::{AcceleratorKind, Resources, Split};

use super::job::{Job, Work};
use super::reader::{
    AMOUNT_MAX, Notes, Reader, Row, SECONDS_MAX, TraceFault, UNITS_MAX, count, field, number,
    seconds,
};

/// The columns, in the order in which they are written.
const COLUMNS: [&str; 12] = [
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
];

pub(super) struct Table {
    /// The index in the file of each of [`COLUMNS`].
    places: [Option<usize>; COLUMNS.len()],
    /// The number of columns in the file.
    width: usize,
}

impl Table {
    /// A reader for a file with this header. Fails if a column is unknown or repeated.
    pub(super) fn new(header: &[&str]) -> Result<Self, TraceFault> {
        for (at, name) in header.iter().enumerate() {
            if !COLUMNS.contains(name) {
                return Err(TraceFault::new(
                    "(header)",
                    "unknown column (docs/trace-format.md lists them)",
                    name,
                ));
            }
            if header[..at].contains(name) {
                return Err(TraceFault::new("(header)", "the column occurs twice", name));
            }
        }
        let places = COLUMNS.map(|name| header.iter().position(|column| *column == name));
        Ok(Self { places, width: header.len() })
    }

    /// The field of a column, or `None` if the file does not have the column or the field is blank.
    fn get<'a>(
        &self,
        fields: &[&'a str],
        column: &'static str,
    ) -> Result<Option<&'a str>, TraceFault> {
        let place = COLUMNS.iter().position(|name| *name == column).and_then(|at| self.places[at]);
        let text = place.map(|at| field(fields, at, column)).transpose()?;
        Ok(text.filter(|text| !text.is_empty()))
    }
}

impl Reader for Table {
    fn row(&mut self, line: &str, line_number: u64, _: &mut Notes) -> Result<Row, TraceFault> {
        if line.trim().is_empty() {
            return Ok(Row::Blank);
        }
        let fields: Vec<&str> = line.split(',').collect();
        if let Some(surplus) = fields.get(self.width) {
            return Err(TraceFault::new(
                "(surplus)",
                "the line has more columns than the header",
                surplus,
            ));
        }
        let get = |column| self.get(&fields, column);
        let required =
            |column| get(column)?.ok_or_else(|| TraceFault::new(column, "is missing", ""));
        let submit = time(required("submit")?)?;
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
        let priority: i32 = priority
            .parse()
            .map_err(|_| TraceFault::new("priority", "expected a whole number", priority))?;
        if runtime <= 0 {
            return Ok(Row::NeverRan);
        }
        if units == 0 || unit == Resources::default() {
            return Ok(Row::NoSize);
        }
        let kind =
            get("accelerator_kind")?.map_or_else(AcceleratorKind::default, AcceleratorKind::new);
        let name = get("job")?.map_or_else(|| (line_number - 1).to_string().into(), Into::into);
        Ok(Row::Job(Job {
            name,
            submit,
            runtime,
            priority,
            work: Work { units, unit, accelerator_kind: kind, split },
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

/// Parses a number of seconds, or a time with or without its zone. A time without a zone is UTC.
fn time(text: &str) -> Result<i64, TraceFault> {
    let zoned = DateTime::parse_from_rfc3339(text).map(|time| time.timestamp());
    let plain = || {
        let formats = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"];
        formats
            .iter()
            .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
            .map(|t| t.and_utc().timestamp())
    };
    let time = zoned.ok().or_else(plain).filter(|time| (*time as f64).abs() <= SECONDS_MAX);
    time.map_or_else(
        || {
            seconds("submit", text).map_err(|_| {
                TraceFault::new("submit", "expected seconds or an RFC 3339 time", text)
            })
        },
        Ok,
    )
}

fn split(text: Option<&str>) -> Result<Split, TraceFault> {
    match text {
        None | Some("full") => Ok(Split::Full),
        Some("even") => Ok(Split::Even),
        Some(other) => Err(TraceFault::new("split", "expected full or even", other)),
    }
}

/// Writes jobs as a job table.
///
/// # Errors
/// Returns the errors of the writer.
pub fn write(jobs: &[Job], to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "{}", COLUMNS.join(","))?;
    for Job { name, submit, runtime, priority, work } in jobs {
        let Work { units, unit, accelerator_kind, split } = work;
        let Resources { accelerators, cpu_millis, memory_bytes, ephemeral_bytes, pods: _ } = unit;
        let (pods, units, split) = match split {
            None => (units.to_string(), String::new(), ""),
            Some(Split::Full) => (String::new(), units.to_string(), "full"),
            Some(Split::Even) => (String::new(), units.to_string(), "even"),
        };
        let kind = if *accelerators > 0 { accelerator_kind.as_str() } else { "" };
        writeln!(
            to,
            "{name},{submit},{runtime},{pods},{units},{split},{accelerators},{kind},{cpu_millis},{memory_bytes},{ephemeral_bytes},{priority}"
        )?;
    }
    Ok(())
}
