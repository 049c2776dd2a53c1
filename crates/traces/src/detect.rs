//! The supported formats, and the detection of a format from the first line of a log.

use base::input::header_faults;
use serde_json::Value;

use super::columns::header;
use super::documents::DocumentKind;
use super::known_formats::KnownFormat;
use super::mapped::Mapped;
use super::mapping::Mapping;
use super::reader::Reader;
use super::{alibaba, borg, google_2011, job_table, openb, philly, swf};

/// The supported formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Jobs of Microsoft Philly in the table of Sia's artifact:
    /// `timestamp,duration,num_gpus,gpu_time,cluster`.
    Philly,
    /// The Standard Workload Format, version 2.2.
    Swf,
    /// Alibaba's cluster-trace-gpu-v2023 pods.
    Openb,
    /// The batch tasks of Alibaba's cluster-trace-v2017 and v2018.
    AlibabaTasks,
    /// Google's clusterdata-2019 event tables as JSON lines.
    Borg,
    /// The task events of Google's clusterdata-2011.
    Google2011,
    /// Prophet's job table. `docs/trace-format.md` specifies it.
    Table,
    /// JSON documents.
    Documents(DocumentKind),
    /// A delimited file, by the mapping of its columns: its name if it is a known one.
    Mapped(Option<&'static str>),
    /// The finished pods of a history of Prophet. They are not in a file of jobs.
    History,
}

impl Format {
    /// The name of the format in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Philly => "Philly CSV of Sia",
            Self::Swf => "Standard Workload Format",
            Self::Openb => "Alibaba openb pods",
            Self::AlibabaTasks => "Alibaba batch tasks",
            Self::Borg => "Borg 2019 events",
            Self::Google2011 => "Google 2011 task events",
            Self::Table => "job table",
            Self::Documents(kind) => kind.label(),
            Self::Mapped(name) => name.unwrap_or("columns of --columns"),
            Self::History => "history of Prophet",
        }
    }
}

/// A format, its reader, and whether the first line is a header.
pub(super) type Detected = (Format, Box<dyn Reader>, bool);

/// Detects the format of a log from its first line that is not blank. A `mapping` gives the columns
/// of any delimited file.
///
/// # Errors
/// The format is unknown, or the header of a known format is faulty. The message describes what to
/// change.
pub(super) fn detect(first: &str, mapping: Option<&Mapping>) -> Result<Detected, String> {
    if let Some(mapping) = mapping {
        let (reader, header) = Mapped::new(mapping.clone(), first, true)?;
        return Ok((Format::Mapped(None), Box::new(reader), header));
    }
    if is_event(first) {
        return Ok((Format::Borg, Box::new(borg::Borg::default()), false));
    }
    if google_2011::is_event(first) {
        return Ok((Format::Google2011, Box::new(google_2011::Google2011::default()), false));
    }
    if is_swf(first) {
        return Ok((Format::Swf, Box::new(swf::Swf::default()), false));
    }
    if let Some(known) = KnownFormat::of(first) {
        let (mut reader, header) = Mapped::new(known.mapping(), first, false)?;
        if known.once {
            reader = reader.once();
        }
        return Ok((Format::Mapped(Some(&known.name)), Box::new(reader), header));
    }
    if let Some(hint) = table_for_people(first) {
        return Err(hint.into());
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
            "not a known format; the first line is {:?}. Known formats are those of docs/logs.md, such as kubectl's JSON, sacct and SWF, and the job table, whose first line has the names of its columns (docs/trace-format.md); map the columns of another file with --columns",
            start_of(first)
        ));
    }
    if let Some(faults) = header_faults(&names, &job_table::REQUIRED, &job_table::COLUMNS) {
        return Err(format!(
            "{faults} (docs/trace-format.md lists the columns of a job table); map the columns of another file with --columns (docs/logs.md)"
        ));
    }
    Ok((Format::Table, Box::new(job_table::Table::new(&names)), true))
}

/// The fields of a Borg event.
const EVENT: [&str; 4] = ["time", "type", "collection_id", "instance_index"];

/// Whether a log with this first line is one or more JSON documents. Borg events are one per line.
pub(super) fn is_document(first: &str) -> bool {
    first.trim_start().starts_with(['{', '[']) && !is_event(first)
}

/// Whether a line is a Borg event. An event of a watch has a type, too, and the object.
fn is_event(line: &str) -> bool {
    let event = serde_json::from_str::<Value>(line).ok();
    event.is_some_and(|event| {
        event.get("object").is_none()
            && EVENT.iter().any(|name| event.get(name).is_some())
            && event.get("job_id").is_none()
    })
}

/// What gives a usable file, if the first line is that of a table for people.
fn table_for_people(first: &str) -> Option<&'static str> {
    let words: Vec<&str> = first.split_whitespace().collect();
    let has = |names: &[&str]| names.iter().all(|name| words.contains(name));
    let sacct = first.split('|').any(|name| ["JobID", "JobIDRaw", "AllocCPUS"].contains(&name));
    if first.contains('|') && sacct {
        Some(
            "the columns of sacct lack the submission, the runtime or the size: print them with sacct --allusers --parsable2 --starttime=now-14days --format=JobID,User,Submit,Start,End,ElapsedRaw,NNodes,NCPUS,AllocTRES,ReqTRES,ReqMem,State (docs/logs.md)",
        )
    } else if first.contains(',') {
        None
    } else if has(&["JOBID", "PARTITION"]) {
        Some(
            "squeue lists the jobs of this moment: print those that ended with sacct --allusers --parsable2 --starttime=now-14days --format=JobID,User,Submit,Start,End,ElapsedRaw,AllocTRES,ReqTRES,State (docs/logs.md)",
        )
    } else if has(&["JobID"]) {
        Some(
            "the columns of sacct are cut to a width: print them with sacct --parsable2 (docs/logs.md)",
        )
    } else if has(&["NAME", "READY", "STATUS"]) || has(&["NAME", "COMPLETIONS", "DURATION"]) {
        Some(
            "kubectl printed a table for people: print JSON with kubectl get pods --all-namespaces --output json (docs/logs.md)",
        )
    } else {
        None
    }
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
