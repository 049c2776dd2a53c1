//! The supported formats, and the detection of a format from the first line of a log.

use base::input::header_faults;
use serde_json::Value;

use super::columns::header;
use super::reader::{Reader, json_problem};
use super::{alibaba, borg, job_table, openb, philly, swf};

/// The supported formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Microsoft Philly: `timestamp,duration,num_gpus,gpu_time,cluster`.
    Philly,
    /// The Standard Workload Format, version 2.2.
    Swf,
    /// Alibaba's cluster-trace-gpu-v2023 pods.
    Openb,
    /// The batch tasks of Alibaba's cluster-trace-v2017 and v2018.
    AlibabaTasks,
    /// Google's clusterdata-2019 event tables as JSON lines.
    Borg,
    /// Prophet's job table. `docs/trace-format.md` specifies it.
    Table,
    /// The finished pods of a history of Prophet. They are not in a file of jobs.
    History,
}

impl Format {
    /// The name of the format in reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Philly => "Philly CSV",
            Self::Swf => "Standard Workload Format",
            Self::Openb => "Alibaba openb pods",
            Self::AlibabaTasks => "Alibaba batch tasks",
            Self::Borg => "Borg 2019 events",
            Self::Table => "job table",
            Self::History => "history of Prophet",
        }
    }
}

/// A format, its reader, and whether the first line is a header.
pub(super) type Detected = (Format, Box<dyn Reader>, bool);

/// Detects the format of a log from its first line that is not blank.
///
/// # Errors
/// The format is unknown, or the header of a known format is faulty. The message describes what to
/// change.
pub(super) fn detect(first: &str) -> Result<Detected, String> {
    if first.trim_start().starts_with(['{', '[']) {
        return borg_events(first);
    }
    if is_swf(first) {
        return Ok((Format::Swf, Box::new(swf::Swf::default()), false));
    }
    let header = header(first, &job_table::COLUMNS)?;
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let has = |columns: &[&str]| columns.iter().all(|name| names.contains(name));
    let lacks = |columns: &[&str]| header_faults(&names, columns, &names);
    // Each of these columns is in one format only.
    if has(&["num_gpus"]) || has(&["gpu_time"]) {
        if let Some(faults) = lacks(&philly::COLUMNS) {
            return Err(format!("{faults} of a Philly CSV"));
        }
        return Ok((Format::Philly, Box::new(philly::Philly::new(&names)), true));
    }
    if has(&["cpu_milli", "memory_mib"]) {
        if let Some(faults) = lacks(&openb::COLUMNS) {
            return Err(format!("{faults} of openb pods"));
        }
        return Ok((Format::Openb, Box::new(openb::Openb::new(&names)), true));
    }
    if let Some((tasks, header)) = alibaba::Tasks::of(&names) {
        return Ok((Format::AlibabaTasks, Box::new(tasks), header));
    }
    // A header has several names, each of which starts with a letter.
    let is_header =
        names.len() > 1 && names.iter().all(|name| name.starts_with(char::is_alphabetic));
    if !is_header && !names.iter().any(|name| job_table::COLUMNS.contains(name)) {
        return Err(format!(
            "not a known format; the first line is {:?}. Known formats are Philly CSV, SWF, Alibaba openb pods, Alibaba batch tasks, Borg 2019 events (JSON lines) and the job table, whose first line has the names of its columns (docs/trace-format.md)",
            start_of(first)
        ));
    }
    if let Some(faults) = header_faults(&names, &job_table::REQUIRED, &job_table::COLUMNS) {
        return Err(format!("{faults} (docs/trace-format.md lists the columns of a job table)"));
    }
    Ok((Format::Table, Box::new(job_table::Table::new(&names)), true))
}

fn borg_events(first: &str) -> Result<Detected, String> {
    const FIELDS: [&str; 4] = ["time", "type", "collection_id", "instance_index"];
    let other = "JSON is read as Borg 2019 events, one per line; convert another log to a job table (docs/trace-format.md)";
    let event = serde_json::from_str::<Value>(first).map_err(|error| {
        format!("the first line is no whole JSON value ({}). {other}", json_problem(&error))
    })?;
    if FIELDS.iter().any(|name| event.get(name).is_some()) {
        return Ok((Format::Borg, Box::new(borg::Borg::default()), false));
    }
    Err(format!("the first line has no field of an event ({}). {other}", FIELDS.join(", ")))
}

fn is_swf(first: &str) -> bool {
    let fields = first.split_whitespace();
    let numbers = fields.clone().filter(|field| field.parse::<f64>().is_ok()).count();
    first.trim_start().starts_with(';') || numbers == 18 && fields.count() == 18
}

/// The start of a text, short enough for a message.
fn start_of(text: &str) -> String {
    text.chars().take(80).collect()
}
