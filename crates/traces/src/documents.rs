//! Reads logs that are JSON documents: lists, arrays, or documents one after the other, such as
//! those of a watch. Each element is read by itself, so the memory is that of the jobs.
//!
//! What the elements are is seen from the elements: pods and Jobs of Kubernetes
//! (`kubernetes.rs`), jobs of Slurm and of Philly (`scheduler_json.rs`).

use std::io::Read;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::kubernetes::Objects;
use super::reader::{Notes, Row, TraceFault, json_problem};
use super::scheduler_json;

/// What the elements of documents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Kubernetes,
    Slurm,
    Philly,
}

/// The jobs of documents, and what was left out.
#[derive(Default)]
pub(super) struct Documents {
    pub(super) kind: Option<Kind>,
    pub(super) notes: Notes,
    pub(super) jobs: Vec<super::job::Job>,
    objects: Objects,
    /// The number of elements so far.
    count: u64,
    lenient: bool,
    most: usize,
}

/// Why documents cannot be read.
#[derive(Debug)]
pub(super) enum DocumentFault {
    /// The text is no JSON, or ends early.
    Json(serde_json::Error),
    /// An element, by its number from 1, is faulty.
    Element(u64, TraceFault),
    /// The documents have no jobs of a known form.
    Unknown(String),
    /// There are more jobs than the limit.
    TooMany,
}

impl Documents {
    /// Reads documents with at most `most` jobs.
    pub(super) fn read(from: impl Read, most: usize, lenient: bool) -> Result<Self, DocumentFault> {
        let mut documents = Self { lenient, most, ..Self::default() };
        let mut fault = None;
        let mut parser = serde_json::Deserializer::from_reader(from);
        // More documents may follow.
        while parser.end().is_err() {
            let element =
                &mut |value| documents.element(&value).map_err(|found| fault = Some(found));
            let read = Document(element).deserialize(&mut parser);
            if let Some(fault) = fault {
                return Err(fault);
            }
            match read {
                // What was read before the end, such as the events of a watch that was stopped.
                Err(error) if error.is_eof() && lenient && documents.count > 0 => {
                    documents.notes.bad_lines += 1;
                    documents.notes.first_bad.get_or_insert_with(|| "the JSON ends early".into());
                    break;
                }
                read => read.map_err(DocumentFault::Json)?,
            }
        }
        for row in std::mem::take(&mut documents.objects).into_rows() {
            documents.add(row);
        }
        if documents.kind.is_none() {
            let problem = if documents.count == 0 { EMPTY } else { UNKNOWN };
            return Err(DocumentFault::Unknown(problem.to_owned()));
        }
        Ok(documents)
    }

    fn element(&mut self, value: &Value) -> Result<(), DocumentFault> {
        // Several lists in an array.
        if let Some(list) = LISTS.iter().find_map(|field| value.get(field)?.as_array()) {
            return list.iter().try_for_each(|value| self.element(value));
        }
        self.count += 1;
        // An event of a watch.
        let value = value.get("object").filter(|object| object.is_object()).unwrap_or(value);
        let Some(kind) = kind(value) else {
            return match self.kind {
                // A document may have others beside the jobs, such as bookmarks.
                Some(_) => {
                    self.notes.not_jobs += 1;
                    Ok(())
                }
                None => Err(DocumentFault::Unknown(hint(value).to_owned())),
            };
        };
        self.kind.get_or_insert(kind);
        let row = match kind {
            Kind::Kubernetes => self.objects.note(value).map(|()| None),
            Kind::Slurm => scheduler_json::slurm(value).map(Some),
            Kind::Philly => scheduler_json::philly(value).map(Some),
        };
        match row {
            Ok(row) => row.into_iter().for_each(|row| self.add(row)),
            Err(fault) if self.lenient => {
                self.notes.bad_lines += 1;
                let text = format!("element {}: {fault}", self.count);
                self.notes.first_bad.get_or_insert(text);
            }
            Err(fault) => return Err(DocumentFault::Element(self.count, fault)),
        }
        if self.jobs.len() + self.objects.len() > self.most {
            return Err(DocumentFault::TooMany);
        }
        Ok(())
    }

    fn add(&mut self, row: Row) {
        self.jobs.extend(self.notes.count(row));
    }
}

/// What an element is. `None` if it is no job of a known form.
fn kind(value: &Value) -> Option<Kind> {
    let has = |path: &str| value.pointer(path).is_some();
    let is_list = |path: &str| value.pointer(path).is_some_and(Value::is_array);
    let of_kind = |kind: &str| value.get("kind").is_none_or(|own| own == kind);
    if (of_kind("Pod") && is_list("/spec/containers"))
        || (of_kind("Job") && is_list("/spec/template/spec/containers"))
    {
        Some(Kind::Kubernetes)
    } else if has("/job_id") && has("/time") {
        Some(Kind::Slurm)
    } else if has("/jobid") && has("/attempts") {
        Some(Kind::Philly)
    } else {
        None
    }
}

const UNKNOWN: &str = "the JSON has no jobs of a known form: pods (kubectl get pods --all-namespaces --output json), jobs of Slurm (sacct --json), Philly's job log, or Borg 2019 events, one per line; map the columns of a delimited file with --columns (docs/logs.md)";

const EMPTY: &str = "the list is empty: no jobs were found where it was printed";

/// What a user who has this element needs.
fn hint(value: &Value) -> &'static str {
    let has = |path: &str| value.pointer(path).is_some();
    if has("/resultType") || value.get("status").is_some_and(|status| status == "success") {
        "an answer of Prometheus has one metric of the several that a job needs: prophet trace fetch --prometheus URL reads them (docs/logs.md)"
    } else if has("/status/resourcesDuration") || has("/spec/templates") {
        "a list of Argo workflows has no requests: print their pods with kubectl get pods --all-namespaces --selector workflows.argoproj.io/workflow --output json (docs/logs.md)"
    } else if has("/metadata") && has("/spec") {
        "the objects are neither pods nor Jobs: print the pods with kubectl get pods --all-namespaces --output json (docs/logs.md)"
    } else {
        UNKNOWN
    }
}

/// Parses a document, and gives each of its elements to a function.
struct Document<'a, F>(&'a mut F);

/// The lists of documents that have the elements: those of Kubernetes, and of Slurm.
const LISTS: [&str; 2] = ["items", "jobs"];

/// The fields that decide what an element is, where it is a document by itself. Others may be
/// large.
const FIELDS: [&str; 16] = [
    "kind",
    "metadata",
    "spec",
    "status",
    "object",
    "job_id",
    "time",
    "jobid",
    "attempts",
    "user",
    "submitted_time",
    "vc",
    "tres",
    "required",
    "allocation_nodes",
    "association",
];

impl<'de, F: FnMut(Value) -> Result<(), ()>> DeserializeSeed<'de> for Document<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<(), ()>> Visitor<'de> for Document<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            // The fault is noted.
            (self.0)(element).map_err(|()| A::Error::custom(""))?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut own = Map::new();
        let mut has_list = false;
        while let Some(key) = fields.next_key::<String>()? {
            if LISTS.contains(&key.as_str()) {
                has_list = true;
                fields.next_value_seed(Document(&mut *self.0))?;
            } else if FIELDS.contains(&key.as_str()) {
                own.insert(key, fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        if has_list {
            return Ok(());
        }
        (self.0)(Value::Object(own)).map_err(|()| A::Error::custom(""))
    }
}

impl std::fmt::Display for DocumentFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(error) if error.is_eof() => f.write_str(
                "the JSON ends early: print it again, or read what there is with --lenient",
            ),
            Self::Json(error) => write!(f, "no JSON: {}", json_problem(error)),
            Self::Element(number, fault) => write!(f, "element {number}: {fault}"),
            Self::Unknown(problem) => f.write_str(problem),
            Self::TooMany => f.write_str("too many jobs"),
        }
    }
}
