//! The jobs of a log.

use std::sync::Arc;

use embedder::{AcceleratorKind, Resources, Split};

/// A job of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The name in the log, or the number of the row.
    pub name: Box<str>,
    /// The user, or another group of jobs that depend on each other; empty if the log has none.
    pub user: Box<str>,
    /// The time of submission, in seconds: Unix time if the log has it, otherwise since the log's
    /// zero.
    pub submit: i64,
    /// The runtime in seconds, above 0.
    pub runtime: i64,
    /// The priority. Jobs with a higher number are placed first.
    pub priority: i32,
    /// The units of the job, and what each of them requests.
    pub work: Work,
    /// The names of the jobs of the log that it waits for: it is submitted when they ended. Empty
    /// if it waits for none, and if the log does not say it.
    pub after: Box<[Box<str>]>,
}

impl Job {
    /// A job of the priority 0 that waits for no other. `submit` and `runtime` are in seconds.
    pub fn new(
        name: impl Into<Box<str>>,
        user: impl Into<Box<str>>,
        submit: i64,
        runtime: i64,
        work: Work,
    ) -> Self {
        let (name, user) = (name.into(), user.into());
        Self { name, user, submit, runtime, priority: 0, work, after: Box::default() }
    }
}

/// The units of a job, and what each of them requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// The number of units, above 0.
    pub units: u64,
    /// The requests of each unit.
    pub unit: Resources,
    /// The kind of the accelerators. It has no meaning if the unit requests none.
    pub accelerator_kind: AcceleratorKind,
    /// How units are grouped into pods. `None` makes each unit a pod; otherwise, as many units as
    /// an instance holds share a pod.
    pub split: Option<Split>,
    /// The buckets that admit the pods.
    pub admits: Admits,
}

impl Work {
    /// One pod with these requests.
    pub(super) fn of_pod(unit: Resources, accelerator_kind: AcceleratorKind) -> Self {
        Self { units: 1, unit, accelerator_kind, split: None, admits: Admits::Assumed }
    }
}

/// The buckets that admit the pods of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Admits {
    /// The log does not have them. They are assumed from the requests.
    #[default]
    Assumed,
    /// Like [`Admits::Assumed`], and the job tolerates interruption, so spot buckets admit it, too.
    Interruptible,
    /// All buckets.
    All,
    /// The buckets with these names.
    Only(Arc<[Box<str>]>),
}
