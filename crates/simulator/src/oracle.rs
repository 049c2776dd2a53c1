//! The oracle knows the jobs of the future and when each job ends.
//!
//! At each decision, it continues the run for one lead time without further decisions, with
//! launches that take no time. The scheduler and the autoscaler are those of the run, so jobs are
//! packed in the order of time onto the nodes that exist. The headroom is the number of nodes that
//! jobs of the future use and that are empty or missing now. With less headroom, a job would wait.
//! With more, a node would be idle. A job that comes in the second in which another one ends takes
//! its room, and the oracle holds no node for it; a job after it can wait for that reason.
//!
//! The references `jobs:active` and `jobs:others` know the jobs of some users only, and continue
//! the run with these.

use std::sync::{Arc, Mutex, PoisonError};

use demand::forecast::{Forecaster, Outlook, Present};
use demand::record::History;

/// The new nodes of each bucket that the next decision needs. The event loop writes them, and the
/// forecaster of the oracle reads them.
#[derive(Clone, Default)]
pub(super) struct Foreseen(Arc<Mutex<Vec<u64>>>);

impl Foreseen {
    pub(super) fn set(&self, new_nodes: Vec<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = new_nodes;
    }
}

/// The forecaster of the oracle.
pub(super) struct Oracle(pub(super) Foreseen);

impl Forecaster for Oracle {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        let new_nodes = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        Outlook::certain(now.demand.present.len(), |id| {
            new_nodes.get(id).copied().unwrap_or_default()
        })
    }
}
