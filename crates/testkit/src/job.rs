//! Jobs of a log.

use embedder::{AcceleratorKind, Resources};
use traces::{Admits, Job, Work};

/// A job of one pod, submitted at second `submit`, which runs for `runtime` seconds. It has no
/// user, and the priority 0.
pub fn job(name: &str, submit: i64, runtime: i64, requests: Resources) -> Job {
    let work = Work {
        units: 1,
        unit: requests,
        accelerator_kind: AcceleratorKind::default(),
        split: None,
        admits: Admits::Assumed,
    };
    Job::new(name, "", submit, runtime, work)
}
