//! Places jobs on nodes.
//!
//! All pods of a gang are placed at once or not at all. Real pods preempt placeholders.

use std::collections::HashMap;

use demand::record::ShapeId;

use super::cluster::{GroupId, SimulatedCluster, SimulatedNodeId};
use super::queue::{Queue, Waiting};
use super::workload::{JobClass, JobClassId, Workload};

/// Pods of one shape on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedPods {
    pub(crate) node: SimulatedNodeId,
    pub(crate) shape: ShapeId,
    /// The number of pods, at least 1.
    pub(crate) pods: u64,
}

/// The nodes that the pods of each job run on.
#[derive(Clone, Default)]
pub(crate) struct Placements {
    by_job: HashMap<usize, Vec<PlacedPods>>,
    /// The classes that did not fit, with the value of [`SimulatedCluster::gains`] below which they
    /// cannot fit. Without it, a gang of thousands of pods would be tried at each node that becomes
    /// ready.
    refused: HashMap<JobClassId, u64>,
}

impl Placements {
    /// Returns the pods of a job, in the order in which they were placed.
    pub(crate) fn of(&self, job: usize) -> impl Iterator<Item = &PlacedPods> {
        self.by_job.get(&job).into_iter().flatten()
    }

    /// Returns the jobs that have pods on a node, ascending.
    pub(crate) fn on(&self, node: SimulatedNodeId) -> Vec<usize> {
        let jobs = self.by_job.iter();
        let on = jobs.filter(|(_, pods)| pods.iter().any(|placed| placed.node == node));
        let mut on: Vec<usize> = on.map(|(job, _)| *job).collect();
        on.sort_unstable();
        on
    }

    /// Returns a copy with the pods of the jobs for which `stays` holds.
    pub(crate) fn only(&self, stays: impl Fn(usize) -> bool) -> Self {
        let by_job = self.by_job.iter().filter(|(job, _)| stays(**job));
        let by_job = by_job.map(|(job, pods)| (*job, pods.clone())).collect();
        Self { by_job, refused: self.refused.clone() }
    }

    /// The placed pods by job.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (&usize, &Vec<PlacedPods>)> {
        self.by_job.iter()
    }
}

/// Placed pods of a gang, with the state to undo the placement if a later pod does not fit.
struct Taken {
    placed: PlacedPods,
    preempted: bool,
    /// The node's idle count before the placement.
    idle_count: u64,
}

/// Places all pending jobs that fit, in the order of the queue, and calls `placed` for each.
///
/// Each class is tried again only after a success, because a pass frees no room.
pub(crate) fn pass(
    queue: &mut Queue,
    cluster: &mut SimulatedCluster<'_>,
    placements: &mut Placements,
    workload: &Workload,
    now: i64,
    mut placed: impl FnMut(usize),
) {
    let mut cursor = None;
    while let Some((head, waiting)) = queue.after(cursor) {
        if place(waiting, cluster, placements, workload, now) {
            queue.pop(head);
            placed(waiting.job);
        }
        cursor = Some(head);
    }
}

/// Places all pods of a class at once, or none. Pods that must be in one group are placed in the
/// first group where all of them fit, those of the cheapest bucket first.
pub(crate) fn place(
    Waiting { job, class }: Waiting,
    cluster: &mut SimulatedCluster<'_>,
    placements: &mut Placements,
    workload: &Workload,
    now: i64,
) -> bool {
    // A gang that needs more nodes than the cluster has cannot fit.
    let gang = &workload.classes[class];
    if cluster.ready < gang.nodes_min
        || placements.refused.get(&class).is_some_and(|gains| cluster.gains < *gains)
    {
        return false;
    }
    let placed = if gang.one_group {
        let groups = cluster.groups_by_price().into_iter();
        first_place(groups.map(Some), gang, cluster, workload, now)
    } else {
        first_place([None].into_iter(), gang, cluster, workload, now)
    };
    match placed {
        Ok(taken) => {
            let pods = taken.into_iter().map(|step| step.placed);
            placements.by_job.entry(job).or_default().extend(pods);
            true
        }
        Err(gains) => {
            placements.refused.insert(class, cluster.gains.saturating_add(gains));
            false
        }
    }
}

/// Places all pods of a gang in the first of these groups where they fit, `None` being anywhere.
///
/// # Errors
/// They fit in none. The error is how often room must be gained before they can.
fn first_place(
    groups: impl Iterator<Item = Option<GroupId>>,
    gang: &JobClass,
    cluster: &mut SimulatedCluster<'_>,
    workload: &Workload,
    now: i64,
) -> Result<Vec<Taken>, u64> {
    let mut gains = u64::MAX;
    for within in groups {
        let ready = within.map_or(cluster.ready, |group| cluster.ready_in(group));
        if ready < gang.nodes_min {
            gains = gains.min(gang.nodes_min - ready);
            continue;
        }
        match place_within(within, gang, cluster, workload, now) {
            Ok(taken) => return Ok(taken),
            Err(needed) => gains = gains.min(needed),
        }
    }
    Err(gains)
}

fn place_within(
    within: Option<GroupId>,
    gang: &JobClass,
    cluster: &mut SimulatedCluster<'_>,
    workload: &Workload,
    now: i64,
) -> Result<Vec<Taken>, u64> {
    let mut taken: Vec<Taken> = Vec::new();
    for &(shape, count) in &gang.pods {
        let earlier = taken.iter().map(|step| step.placed.pods).sum();
        let (requests, fits) =
            (workload.shapes[shape as usize].requests, &workload.fits[shape as usize]);
        let mut search = cluster.search(requests);
        let mut left = count;
        while left > 0 {
            let found = cluster.node_for(requests, fits, within, &mut search);
            let Some((node, preempted)) = found else {
                undo(taken, cluster, workload, now);
                return Err(gains_needed(shape, left, earlier, cluster, workload));
            };
            let pods = cluster.pods_on_same_node(node, requests, left);
            let idle_count = cluster.nodes[node].idle_count;
            cluster.place(node, requests, pods, now);
            let placed = PlacedPods { node, shape, pods };
            taken.push(Taken { placed, preempted, idle_count });
            left -= pods;
        }
    }
    Ok(taken)
}

/// Returns how often room must be gained before `missing` further pods of a shape can fit, when
/// `earlier` pods of other shapes have taken room before them. It is a lower bound.
///
/// Each earlier pod has taken the room of at most as many pods as an instance holds, and each gain
/// adds at most this room.
fn gains_needed(
    shape: ShapeId,
    missing: u64,
    earlier: u64,
    cluster: &SimulatedCluster<'_>,
    workload: &Workload,
) -> u64 {
    let (requests, fits) =
        (workload.shapes[shape as usize].requests, &workload.fits[shape as usize]);
    let buckets = cluster.catalog.buckets().iter().enumerate();
    let fitting = buckets.filter(|(id, _)| fits.contains(*id));
    let most = fitting.map(|(_, bucket)| bucket.allocatable.holds(requests)).max().unwrap_or(0);
    missing.saturating_sub(earlier.saturating_mul(most)).div_ceil(most.max(1))
}

fn undo(taken: Vec<Taken>, cluster: &mut SimulatedCluster<'_>, workload: &Workload, now: i64) {
    for Taken { placed, preempted, idle_count } in taken.into_iter().rev() {
        let PlacedPods { node, shape, pods } = placed;
        cluster.take_back(node, workload.shapes[shape as usize].requests, pods, idle_count, now);
        if preempted {
            cluster.restore(node);
        }
    }
}

/// Removes the pods of a job from their nodes.
pub(crate) fn finish(
    job: usize,
    cluster: &mut SimulatedCluster<'_>,
    placements: &mut Placements,
    workload: &Workload,
    now: i64,
) {
    for PlacedPods { node, shape, pods } in placements.by_job.remove(&job).unwrap_or_default() {
        cluster.release(node, workload.shapes[shape as usize].requests, pods, now);
    }
}

/// Removes the pods of a job from one node, and returns their number by shape.
pub(crate) fn lose(
    job: usize,
    node: SimulatedNodeId,
    cluster: &mut SimulatedCluster<'_>,
    placements: &mut Placements,
    workload: &Workload,
    now: i64,
) -> Vec<(ShapeId, u64)> {
    let Some(all) = placements.by_job.get_mut(&job) else { return Vec::new() };
    let on_node = all.extract_if(.., |placed| placed.node == node);
    let lost: Vec<(ShapeId, u64)> = on_node.map(|placed| (placed.shape, placed.pods)).collect();
    for &(shape, pods) in &lost {
        cluster.release(node, workload.shapes[shape as usize].requests, pods, now);
    }
    lost
}

/// The number of nodes that the pods of a job run on.
pub(crate) fn instances(job: usize, placements: &Placements) -> usize {
    let Some(pods) = placements.by_job.get(&job) else { return 0 };
    let mut nodes: Vec<SimulatedNodeId> = pods.iter().map(|placed| placed.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len()
}

/// The pods of `jobs` jobs of a class, as requests to the embedder.
pub(crate) fn requests(
    class: JobClassId,
    jobs: u64,
    workload: &Workload,
) -> impl Iterator<Item = embedder::PodRequest> {
    workload.classes[class].pods.iter().map(move |&(shape, count)| embedder::PodRequest {
        shape: workload.shapes[shape as usize].clone(),
        count: count.saturating_mul(jobs),
    })
}

#[cfg(test)]
mod tests {
    use embedder::{Bucket, BucketSet, Catalog, Resources};
    use proptest::prelude::*;

    use super::*;
    use crate::replay::SchedulerKind;

    fn catalog() -> Catalog {
        let of = |name: &str, cpu_millis| {
            let bucket = testkit::bucket(name, cpu_millis, 0.0);
            let memory_bytes = 16_000;
            Bucket { allocatable: Resources { memory_bytes, ..bucket.allocatable }, ..bucket }
        };
        testkit::catalog_of([of("a", 8_000), of("b", 4_000)])
    }

    fn requests((cpu_millis, memory_bytes): (u64, u64)) -> Resources {
        Resources { cpu_millis, memory_bytes, ..Resources::default() }
    }

    /// The nodes of `count` alike pods, and whether each preempted a placeholder. `goes_on` is
    /// whether a search goes on from the pod before; otherwise each pod is searched anew.
    fn nodes(
        mut cluster: SimulatedCluster<'_>,
        (pod, within): (Resources, Option<GroupId>),
        count: usize,
        goes_on: bool,
    ) -> Vec<(SimulatedNodeId, bool)> {
        let (fits, mut nodes) = (BucketSet::all(), Vec::new());
        let mut search = cluster.search(pod);
        while nodes.len() < count {
            if !goes_on {
                search = cluster.search(pod);
            }
            let found = cluster.node_for(pod, &fits, within, &mut search);
            let Some((node, preempted)) = found else { break };
            let alike = if goes_on {
                cluster.pods_on_same_node(node, pod, (count - nodes.len()) as u64)
            } else {
                1
            };
            cluster.place(node, pod, alike, 0);
            nodes.push((node, preempted));
            nodes.extend((1..alike).map(|_| (node, false)));
        }
        nodes
    }

    proptest! {
        #[test]
        fn a_search_that_goes_on_finds_the_nodes_of_searches_anew(
            taken in prop::collection::vec((0_usize..2, 0_u64..8_000, 0_u64..16_000), 1..12),
            placeholders in 0_u64..4,
            pod in (0_u64..4_000, 0_u64..8_000),
            count in 1_usize..60,
            within in prop::option::of(0_usize..2),
            packs in any::<bool>(),
        ) {
            let catalog = catalog();
            let kind = if packs { SchedulerKind::Pack } else { SchedulerKind::Spread };
            let mut cluster = SimulatedCluster::new(&catalog, kind, (0, 1));
            for (bucket, cpu, memory) in taken {
                let node = cluster.launch(bucket, 0, false, 0);
                cluster.make_ready(node, 0);
                let other = requests((cpu, memory));
                if cluster.nodes[node].free().fits(other) && cpu > 0 {
                    cluster.place(node, other, 1, 0);
                }
            }
            cluster.want(0, 0, placeholders);
            cluster.settle_placeholders();
            let pod = (requests(pod), within.map(|bucket| (bucket, 0)));
            let anew = nodes(cluster.clone(), pod, count, false);
            prop_assert_eq!(nodes(cluster, pod, count, true), anew);
        }
    }
}
