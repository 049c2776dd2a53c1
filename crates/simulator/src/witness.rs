//! A run whose every turn a witness sees, with the whole simulated cluster: the controller must
//! come to the same turns from the same cluster.

use std::collections::BTreeMap;

use control::{Observed, Turn};
use demand::forecast::Forecaster;
use demand::record::ShapeId;
use embedder::BucketId;

use super::forecasters::forecaster;
use super::input::SimulationInput;
use super::named_policy::NamedPolicy;
use super::oracle::Foreseen;
use super::paper::Counts;
use super::world::Simulation;
use crate::replay::PlacedPods;

/// The simulated cluster at a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WitnessedCluster {
    /// The nodes that are ready, by number.
    pub nodes: BTreeMap<usize, WitnessedNode>,
    /// By job and shape: the node of each pod, `None` while it waits.
    pub pods: BTreeMap<(usize, ShapeId), Vec<Option<usize>>>,
    /// By bucket and group: placeholders without a node.
    pub waiting: Vec<Vec<u64>>,
}

/// A node that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessedNode {
    /// The index of its bucket in the catalog.
    pub bucket: BucketId,
    /// Its group, by number in the bucket.
    pub group: usize,
    /// Whether a placeholder runs on the node.
    pub placeholder: bool,
}

/// Runs the jobs under a policy, and shows each turn to a witness: the cluster, what the policy
/// observed of it, and the results of the turn.
pub fn simulate_witnessed(
    world: SimulationInput<'_>,
    named_policy: NamedPolicy,
    mut witness: impl FnMut(&WitnessedCluster, &Observed, &Turn) + Send,
) {
    let mut run = Simulation::new(world, named_policy);
    run.start_minimum();
    run.witness =
        Some(Box::new(|run, observed, turn| witness(&WitnessedCluster::of(run), observed, turn)));
    while let Some(now) = run.next_moment() {
        run.moment(now);
    }
}

/// The forecaster of a policy that reads no data of the future and no pods of the simulation.
/// `None` for other policies.
pub fn forecaster_of(
    world: SimulationInput<'_>,
    named_policy: NamedPolicy,
) -> Option<Box<dyn Forecaster>> {
    forecaster(named_policy, world, &Foreseen::default(), &Counts::default())
}

impl WitnessedCluster {
    fn of(run: &Simulation<'_>) -> Self {
        let ready = run.cluster.nodes.iter().enumerate().filter(|(_, node)| node.is_ready());
        let nodes = ready.map(|(id, node)| {
            let placeholder = node.has_placeholder();
            (id, WitnessedNode { bucket: node.bucket, group: node.group, placeholder })
        });
        let mut pods: BTreeMap<(usize, ShapeId), Vec<Option<usize>>> = BTreeMap::new();
        let mut add = |job: usize, shape: ShapeId, node: Option<usize>, count: u64| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            pods.entry((job, shape)).or_default().extend(std::iter::repeat_n(node, count));
        };
        for (&job, placed) in run.placements.jobs() {
            for &PlacedPods { node, shape, pods } in placed {
                add(job, shape, Some(node), pods);
            }
        }
        for (job, class) in run.queue.entries() {
            for &(shape, count) in &run.workload.classes[class].pods {
                add(job, shape, None, count);
            }
        }
        let buckets = run.world.catalog.buckets().iter().enumerate();
        let waiting = buckets.map(|(bucket, of)| {
            (0..of.groups.len()).map(|group| run.cluster.waiting(bucket, group)).collect()
        });
        Self { nodes: nodes.collect(), pods, waiting: waiting.collect() }
    }
}
