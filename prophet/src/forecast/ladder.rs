//! A step function of running cores and nodes: the paper's initial stage, in the format that operators know from
//! cluster-proportional-autoscaler.

use embedder::Catalog;
use serde::{Deserialize, Serialize};

use super::{Forecaster, Outlook, Present, each};
use crate::record::History;

/// Steps of (at least so many cores or nodes, placeholders); the larger of the two counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ladder {
    /// By cores of the nodes in demand.
    #[serde(default)]
    pub cores_to_replicas: Vec<(u64, u64)>,
    /// By nodes in demand.
    #[serde(default)]
    pub nodes_to_replicas: Vec<(u64, u64)>,
}

impl Default for Ladder {
    /// One spare node to begin with, a tenth at ten, less than that in a large cluster, whose jobs come more evenly.
    fn default() -> Self {
        Self {
            cores_to_replicas: Vec::new(),
            nodes_to_replicas: vec![(0, 1), (10, 2), (40, 3), (100, 4), (400, 8)],
        }
    }
}

impl Ladder {
    /// Placeholders for so many cores and nodes.
    pub fn replicas(&self, cores: u64, nodes: u64) -> u64 {
        let step = |steps: &[(u64, u64)], have: u64| {
            let reached = steps.iter().filter(|(at, _)| *at <= have);
            reached.max_by_key(|(at, _)| *at).map_or(0, |&(_, replicas)| replicas)
        };
        step(&self.cores_to_replicas, cores).max(step(&self.nodes_to_replicas, nodes))
    }
}

/// Answers with the ladder's step for each bucket by itself.
#[derive(Clone, Debug)]
pub struct LadderForecaster {
    ladder: Ladder,
    cores: Vec<u64>,
}

impl LadderForecaster {
    /// For the buckets of a catalog.
    pub fn new(ladder: Ladder, catalog: &Catalog) -> Self {
        Self { ladder, cores: cores(catalog) }
    }
}

impl Forecaster for LadderForecaster {
    fn learn(&mut self, _: &History) {}

    fn forecast(&self, _: &History, now: &Present<'_>) -> Outlook {
        each(self.cores.len(), |id| {
            let nodes = now.demand.present[id];
            self.ladder.replicas(nodes.saturating_mul(self.cores[id]), nodes)
        })
    }
}

/// Cores of a node of each bucket, in whole numbers; 0 where CPU is unlimited.
fn cores(catalog: &Catalog) -> Vec<u64> {
    let cores = |millis: u64| if millis == embedder::UNLIMITED { 0 } else { millis / 1_000 };
    catalog.buckets().iter().map(|bucket| cores(bucket.allocatable.cpu_millis)).collect()
}

#[cfg(test)]
mod tests {
    use super::Ladder;

    #[test]
    fn the_larger_of_the_two_steps_counts() {
        let ladder =
            Ladder { cores_to_replicas: vec![(1, 1), (64, 3)], nodes_to_replicas: vec![(0, 0), (6, 1)] };
        let check =
            |cores, nodes, replicas| assert_eq!(ladder.replicas(cores, nodes), replicas, "{cores}, {nodes}");
        check(0, 0, 0);
        check(1, 1, 1);
        check(63, 6, 1);
        check(64, 6, 3);
        check(0, 9, 1);
    }
}
