//! A step function of running cores and nodes, which is the paper's initial stage.
//!
//! The format of the steps is that of the ladder mode of cluster-proportional-autoscaler.

use embedder::Catalog;
use serde::{Deserialize, Serialize};

use crate::forecast::cache::Copied;
use crate::forecast::question::{DemandForecaster, Forecaster, Outlook, Present};
use crate::record::History;

/// Steps from running cores or nodes to placeholders.
///
/// A step is a pair (smallest number of cores or nodes, placeholders). The larger result of the two
/// lists is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ladder {
    /// Steps by the cores of the nodes in demand.
    #[serde(default)]
    pub cores_to_replicas: Vec<(u64, u64)>,
    /// Steps by the nodes in demand.
    #[serde(default)]
    pub nodes_to_replicas: Vec<(u64, u64)>,
}

impl Default for Ladder {
    /// One placeholder in a small cluster, two at ten nodes and relatively fewer in a large
    /// cluster, because jobs arrive more evenly there.
    fn default() -> Self {
        Self {
            cores_to_replicas: Vec::new(),
            nodes_to_replicas: vec![(0, 1), (10, 2), (40, 3), (100, 4), (400, 8)],
        }
    }
}

impl Ladder {
    /// Returns the placeholders for the given numbers of cores and nodes.
    pub fn replicas(&self, cores: u64, nodes: u64) -> u64 {
        let step = |steps: &[(u64, u64)], have: u64| {
            let reached = steps.iter().filter(|(at, _)| *at <= have);
            reached.max_by_key(|(at, _)| *at).map_or(0, |&(_, replicas)| replicas)
        };
        step(&self.cores_to_replicas, cores).max(step(&self.nodes_to_replicas, nodes))
    }
}

/// Forecasts the step of the ladder for each bucket separately.
#[derive(Clone, Debug)]
pub struct LadderForecaster {
    ladder: Ladder,
    cores: Vec<u64>,
}

impl LadderForecaster {
    /// A forecaster for the buckets of `catalog`.
    pub fn new(ladder: Ladder, catalog: &Catalog) -> Self {
        Self { ladder, cores: cores(catalog) }
    }
}

impl Forecaster for LadderForecaster {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        Outlook::certain(self.cores.len(), |id| {
            let nodes = now.demand.present[id];
            self.ladder.replicas(nodes.saturating_mul(self.cores[id]), nodes)
        })
    }

    fn copy(&self, _: &mut Copied) -> Option<Box<dyn DemandForecaster>> {
        Some(Box::new(self.clone()))
    }
}

impl DemandForecaster for LadderForecaster {}

/// Returns the cores of a node of each bucket, rounded down. It is 0 where CPU is unlimited.
fn cores(catalog: &Catalog) -> Vec<u64> {
    let cores = |millis: u64| if millis == embedder::UNLIMITED { 0 } else { millis / 1_000 };
    catalog.buckets().iter().map(|bucket| cores(bucket.allocatable.cpu_millis)).collect()
}

#[cfg(test)]
mod tests {
    use super::Ladder;

    #[test]
    fn the_larger_of_the_two_steps_is_used() {
        let ladder = Ladder {
            cores_to_replicas: vec![(1, 1), (64, 3)],
            nodes_to_replicas: vec![(0, 0), (6, 1)],
        };
        let check = |cores, nodes, replicas| {
            assert_eq!(ladder.replicas(cores, nodes), replicas, "{cores}, {nodes}");
        };
        check(0, 0, 0);
        check(1, 1, 1);
        check(63, 6, 1);
        check(64, 6, 3);
        check(0, 9, 1);
    }
}
