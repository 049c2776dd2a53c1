//! The jobs of a log.

use embedder::{AcceleratorKind, Resources, Split};

/// A job of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name in the log, or its row.
    pub name: Box<str>,
    /// When it was submitted, in seconds: Unix time where the log has it, else since the log's zero.
    pub submit: i64,
    /// How long it ran, in seconds, above 0.
    pub runtime: i64,
    /// Higher is placed first.
    pub priority: i32,
    /// What it asks for.
    pub work: Work,
}

/// What a job asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// How many units; above 0.
    pub units: u64,
    /// What each asks for.
    pub unit: Resources,
    /// The kind of the accelerators, where it asks for any.
    pub accelerator_kind: AcceleratorKind,
    /// How units become pods: `None` makes each unit a pod; else as many units as an instance holds share one.
    pub split: Option<Split>,
}
