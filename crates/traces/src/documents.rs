//! Reads logs that are JSON documents: lists, arrays, or documents one after the other, such as
//! those of a watch. Each element is read by itself, so the memory is that of the jobs.
//!
//! What the elements are is seen from the elements: pods and Jobs of Kubernetes
//! (`kubernetes.rs`), series of Prometheus (`pod_metrics.rs`), allocations of `OpenCost`
//! (`opencost.rs`), workflows of Argo (`argo.rs`), and jobs of Slurm, Ray and Philly
//! (`scheduler_json.rs`).

use std::collections::HashSet;
use std::io::Read;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::argo::Workflows;
use super::kubernetes::Objects;
use super::opencost::{self, Allocations};
use super::pod_metrics::PodMetrics;
use super::reader::{Notes, Row, TraceFault, json_problem};
use super::scheduler_json;

/// What the elements of JSON documents are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DocumentKind {
    /// Pods or Jobs of Kubernetes, as `kubectl get --output json` prints them.
    #[default]
    Kubernetes,
    /// Answers of Prometheus with the metrics of kube-state-metrics.
    Prometheus,
    /// The allocations of `OpenCost` by pod.
    OpenCost,
    /// Workflows of Argo.
    Argo,
    /// The jobs of `sacct --json`.
    Slurm,
    /// The tasks of `ray list tasks --detail --format json`.
    Ray,
    /// The job log of Microsoft Philly.
    Philly,
}

impl DocumentKind {
    /// The name of the format in reports.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Kubernetes => "Kubernetes objects",
            Self::Prometheus => "Prometheus query_range",
            Self::OpenCost => "OpenCost allocations",
            Self::Argo => "Argo workflows",
            Self::Slurm => "Slurm sacct JSON",
            Self::Ray => "Ray tasks",
            Self::Philly => "Philly job log",
        }
    }
}

/// The jobs of documents, and what was left out.
#[derive(Default)]
pub(super) struct Documents {
    pub(super) kind: Option<DocumentKind>,
    pub(super) notes: Notes,
    pub(super) jobs: Vec<super::job::Job>,
    objects: Objects,
    metrics: PodMetrics,
    allocations: Allocations,
    workflows: Workflows,
    /// The runs of Slurm's jobs, which overlapping exports list again.
    runs: HashSet<String>,
    /// What a user who has only the other objects needs.
    hint: Option<String>,
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
                read => _ = read.map_err(DocumentFault::Json)?,
            }
        }
        documents.metrics.lacks().map_err(DocumentFault::Unknown)?;
        if documents.kind == Some(DocumentKind::OpenCost) && !documents.allocations.are_of_pods() {
            return Err(DocumentFault::Unknown(NOT_BY_POD.into()));
        }
        let mut rows = std::mem::take(&mut documents.objects).into_rows();
        rows.extend(std::mem::take(&mut documents.metrics).into_rows());
        rows.extend(std::mem::take(&mut documents.allocations).into_rows());
        rows.extend(std::mem::take(&mut documents.workflows).into_rows(&mut documents.notes));
        for row in rows {
            documents.add(row);
        }
        if documents.kind.is_none() {
            let problem = if documents.count == 0 { EMPTY } else { UNKNOWN };
            let problem = documents.hint.unwrap_or_else(|| problem.to_owned());
            return Err(DocumentFault::Unknown(problem));
        }
        Ok(documents)
    }

    fn element(&mut self, value: &Value) -> Result<(), DocumentFault> {
        // Several lists in an array.
        if let Some(list) = LISTS.iter().find_map(|field| value.get(field)?.as_array()) {
            return list.iter().try_for_each(|value| self.element(value));
        }
        // The allocations of a window, by name.
        if opencost::is_window(value) {
            let all = value.as_object().into_iter().flatten();
            return all.into_iter().try_for_each(|(_, value)| self.element(value));
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
                // Jobs may follow other objects of Kubernetes.
                None if value.get("kind").is_some() && value.get("metadata").is_some() => {
                    self.hint.get_or_insert_with(|| hint(value));
                    self.notes.not_jobs += 1;
                    Ok(())
                }
                None => Err(DocumentFault::Unknown(hint(value))),
            };
        };
        self.kind.get_or_insert(kind);
        let row = match kind {
            DocumentKind::Kubernetes => self.objects.note(value).map(|()| None),
            DocumentKind::Prometheus => self.metrics.note_series(value).map(|()| None),
            DocumentKind::OpenCost => self.allocations.note(value, &mut self.notes).map(|()| None),
            DocumentKind::Argo => self.workflows.note(value).map(|()| None),
            DocumentKind::Slurm => {
                let run = ["/job_id", "/time/submission", "/time/start"];
                let run = run.map(|path| value.pointer(path).unwrap_or(&Value::Null).to_string());
                scheduler_json::slurm(value).map(|row| {
                    let is_job = matches!(row, Row::Job(_));
                    let is_known = is_job && !self.runs.insert(run.join(" "));
                    Some(if is_known { Row::NotAJob } else { row })
                })
            }
            DocumentKind::Ray => scheduler_json::ray(value, &mut self.notes).map(Some),
            DocumentKind::Philly => scheduler_json::philly(value).map(Some),
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
        let open =
            [self.objects.len(), self.metrics.len(), self.allocations.len(), self.workflows.len()];
        if self.jobs.len() + open.iter().sum::<usize>() > self.most {
            return Err(DocumentFault::TooMany);
        }
        Ok(())
    }

    fn add(&mut self, row: Row) {
        self.jobs.extend(self.notes.count(row));
    }
}

/// What an element is. `None` if it is no job of a known form.
fn kind(value: &Value) -> Option<DocumentKind> {
    let has = |path: &str| value.pointer(path).is_some();
    let is_list = |path: &str| value.pointer(path).is_some_and(Value::is_array);
    let of_kind = |kind: &str| value.get("kind").is_none_or(|own| own == kind);
    if (of_kind("Pod") && is_list("/spec/containers"))
        || (of_kind("Job") && is_list("/spec/template/spec/containers"))
    {
        Some(DocumentKind::Kubernetes)
    } else if has("/metric") && (is_list("/values") || is_list("/value")) {
        Some(DocumentKind::Prometheus)
    } else if has("/status/nodes")
        || has("/status/resourcesDuration")
        || value["kind"] == "Workflow"
    {
        Some(DocumentKind::Argo)
    } else if opencost::is_allocation(value) {
        Some(DocumentKind::OpenCost)
    } else if has("/job_id") && has("/time") {
        Some(DocumentKind::Slurm)
    } else if has("/required_resources") && has("/creation_time_ms") {
        Some(DocumentKind::Ray)
    } else if has("/jobid") && has("/attempts") {
        Some(DocumentKind::Philly)
    } else {
        None
    }
}

const UNKNOWN: &str = "the JSON has no jobs of a known form: pods (kubectl get pods --all-namespaces --output json), metrics of Prometheus, allocations of OpenCost, workflows of Argo, jobs of Slurm (sacct --json), tasks of Ray, Philly's job log, or Borg 2019 events, one per line; map the columns of a delimited file with --columns (docs/logs.md)";

const NOT_BY_POD: &str = "the allocations of OpenCost are not those of pods: ask for aggregate=pod, or for no aggregation (docs/logs.md)";

const EMPTY: &str = "the list is empty: no jobs were found where it was printed";

/// What a user who has this element needs.
fn hint(value: &Value) -> String {
    let has = |path: &str| value.pointer(path).is_some();
    if let (Some("error"), Some(error)) = (value["status"].as_str(), value["error"].as_str()) {
        let error: String = error.chars().take(200).collect();
        return format!("Prometheus answered with an error: {error}");
    }
    let hint = if has("/spec/templates") || has("/spec/workflowSpec") {
        "a template of Argo has no run: print the workflows with kubectl get workflows.argoproj.io --all-namespaces --output json, or their pods (docs/logs.md)"
    } else if has("/submission_id") && has("/entrypoint") {
        "a job of Ray does not list what its tasks request: print them with ray list tasks --detail --format json (docs/logs.md)"
    } else if has("/metadata") && has("/spec") {
        "the objects are neither pods nor Jobs: print the pods with kubectl get pods --all-namespaces --output json (docs/logs.md)"
    } else {
        UNKNOWN
    };
    hint.to_owned()
}

/// Parses a document, and gives each of its elements to a function.
struct Document<'a, F>(&'a mut F);

/// The lists of documents that have the elements: those of Kubernetes, of Slurm, and of Prometheus
/// and `OpenCost`.
const LISTS: [&str; 4] = ["items", "jobs", "data", "result"];

/// The fields that decide what an element is, where it is a document by itself. Others may be
/// large.
const FIELDS: [&str; 36] = [
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
    // Of Ray, Prometheus and OpenCost.
    "task_id",
    "type",
    "required_resources",
    "creation_time_ms",
    "start_time_ms",
    "end_time_ms",
    "submission_id",
    "entrypoint",
    "metric",
    "values",
    "value",
    "properties",
    "window",
    "start",
    "end",
    "minutes",
    "cpuCoreRequestAverage",
    "ramByteRequestAverage",
    "state",
    "error",
];

impl<'de, F: FnMut(Value) -> Result<(), ()>> DeserializeSeed<'de> for Document<'_, F> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<(), ()>> Visitor<'de> for Document<'_, F> {
    /// Whether the value may have elements.
    type Value = bool;

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> Result<bool, E> {
        Ok(false)
    }

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<bool, A::Error> {
        while let Some(element) = elements.next_element::<Value>()? {
            // A window without allocations.
            if element.is_null() || element.as_object().is_some_and(Map::is_empty) {
                continue;
            }
            // The fault is noted.
            (self.0)(element).map_err(|()| A::Error::custom(""))?;
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let mut own = Map::new();
        let mut has_list = false;
        while let Some(key) = fields.next_key::<String>()? {
            if LISTS.contains(&key.as_str()) {
                has_list |= fields.next_value_seed(Document(&mut *self.0))?;
            } else if FIELDS.contains(&key.as_str()) {
                own.insert(key, fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        if has_list {
            return Ok(true);
        }
        (self.0)(Value::Object(own)).map_err(|()| A::Error::custom(""))?;
        Ok(true)
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
