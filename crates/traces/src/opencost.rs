//! Reads the allocations of `OpenCost` by pod, as its API answers them
//! (`/allocation?aggregate=pod`).
//!
//! A pod that several windows have is one job, from its first start to its last end.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use embedder::{AcceleratorKind, Resources};
use serde_json::Value;

use super::job::{Job, Work};
use super::kubernetes::time;
use super::reader::{Notes, Row, TraceFault, amount, name};

/// A pod: its cluster, its namespace and its name.
type Key = [String; 3];

/// The pods of all windows.
#[derive(Default)]
pub(super) struct Allocations {
    pods: BTreeMap<Key, Seen>,
    /// The last end of a pod. A pod that still runs has the end of the last measurement.
    until: i64,
    /// The containers of all pods.
    containers: u64,
    /// Allocations that are no pod, and pods that run on each node.
    others: u64,
}

struct Seen {
    start: i64,
    end: i64,
    /// By container; one without a name if the answer is by pod.
    units: BTreeMap<String, Resources>,
}

/// Pods that end this close to the last end, in seconds, still ran: the longest resolution that is
/// in use.
const RESOLUTION: i64 = 300;

/// Whether a value is the allocation of something.
pub(super) fn is_allocation(value: &Value) -> bool {
    ["properties", "minutes", "start", "end"].iter().all(|field| value.get(field).is_some())
}

/// Whether a value has allocations by name.
pub(super) fn is_window(value: &Value) -> bool {
    let first = value.as_object().and_then(|all| all.values().next());
    first.is_some_and(is_allocation)
}

impl Allocations {
    /// The number of containers.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.containers).unwrap_or(usize::MAX)
    }

    /// Whether some of the allocations are those of pods.
    pub(super) fn are_of_pods(&self) -> bool {
        self.until > 0
    }

    /// Notes the allocation of a pod in a window.
    pub(super) fn note(&mut self, value: &Value, notes: &mut Notes) -> Result<(), TraceFault> {
        let property = |field: &str| value["properties"][field].as_str().unwrap_or_default();
        let (start, end) = (time(value, "/start")?, time(value, "/end")?);
        let (Some(start), Some(end)) = (start, end) else { return Ok(()) };
        let is_pod = !property("pod").is_empty();
        if is_pod {
            self.until = self.until.max(end);
        }
        if !is_pod || property("controllerKind").eq_ignore_ascii_case("daemonset") {
            self.others += 1;
            return Ok(());
        }
        for (column, field) in [
            ("properties.cluster", "cluster"),
            ("properties.namespace", "namespace"),
            ("properties.pod", "pod"),
            ("properties.container", "container"),
        ] {
            name(column, property(field))?;
        }
        let unit = Resources {
            accelerators: amount(value, "gpuCount", 1.0)?,
            cpu_millis: amount(value, "cpuCoreRequestAverage", 1_000.0)?,
            memory_bytes: amount(value, "ramByteRequestAverage", 1.0)?,
            ..Resources::default()
        };
        let key = [property("cluster"), property("namespace"), property("pod")];
        let known = self.pods.entry(key.map(str::to_owned));
        let known = known.or_insert(Seen { start, end, units: BTreeMap::new() });
        known.start = known.start.min(start);
        known.end = known.end.max(end);
        let container = known.units.entry(property("container").to_owned());
        if matches!(container, Entry::Vacant(_)) {
            self.containers += 1;
            let gpus = value["gpuCount"].as_f64().unwrap_or(0.0);
            notes.rounded_up += u64::from(gpus.fract() > 0.0);
        }
        let container = container.or_default();
        *container = container.roof(unit);
        Ok(())
    }

    /// The jobs, and the pods that ran until the last measurement.
    pub(super) fn into_rows(self) -> Vec<Row> {
        let Self { pods, until, others, .. } = self;
        let row = |([_, namespace, pod], Seen { start, end, units }): (Key, Seen)| {
            let unit = units.into_values().fold(Resources::default(), Resources::give_back);
            let runtime = end.saturating_sub(start);
            if end >= until.saturating_sub(RESOLUTION) {
                return Row::Unfinished;
            }
            let accelerator_kind = match unit.accelerators {
                0 => AcceleratorKind::default(),
                _ => AcceleratorKind::new("nvidia.com/gpu"),
            };
            let work = Work::of_pod(unit, accelerator_kind);
            Row::of(Job::new(pod, namespace, start, runtime, work))
        };
        let mut rows: Vec<Row> = pods.into_iter().map(row).collect();
        rows.extend((0..others).map(|_| Row::NotAJob));
        rows
    }
}
