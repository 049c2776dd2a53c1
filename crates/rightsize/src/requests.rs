//! The requests of jobs after the recommendations.

use std::collections::BTreeMap;

use traces::Job;
use usage::{ContainerRequest, ContainerUsage, RequestOf};

use super::owners::JobsByOwner;

/// The jobs with right-sized requests, and the number of jobs that have recommendations.
///
/// A resource that a job does not request stays at 0, because the log does not have it. Containers
/// without a recommendation, and those without a measurement, keep their requests.
pub(super) fn right_sized(
    jobs: &[Job],
    owners: &JobsByOwner<'_>,
    containers: &[ContainerUsage],
) -> (Vec<Job>, usize) {
    let mut by_pod: BTreeMap<(&str, Option<ContainerRequest>), Vec<&ContainerUsage>> =
        BTreeMap::new();
    for container in containers {
        let only = container.request_of == RequestOf::PodsWithThisRequest;
        let pod = (&*container.key.owner, only.then_some(container.request));
        by_pod.entry(pod).or_default().push(container);
    }
    let mut sized = jobs.to_vec();
    let mut touched = vec![false; jobs.len()];
    for containers in by_pod.into_values() {
        let cpu = Change::of(&containers, |container| {
            (container.request.cpu_millis, container.recommended().cpu_millis)
        });
        let memory = Change::of(&containers, |container| {
            (container.request.memory_bytes, container.recommended().memory_bytes)
        });
        if cpu.is_none() && memory.is_none() {
            continue;
        }
        for at in containers.first().into_iter().flat_map(|first| owners.of_container(first)) {
            let unit = &mut sized[at].work.unit;
            unit.cpu_millis = Change::apply(cpu, unit.cpu_millis);
            unit.memory_bytes = Change::apply(memory, unit.memory_bytes);
            touched[at] = true;
        }
    }
    (sized, touched.into_iter().filter(|touched| *touched).count())
}

/// The change of one resource of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The single container of the pod requests this much.
    To(u64),
    /// Some containers of the pod, which request `from`, request `to`.
    Of { from: u64, to: u64 },
}

impl Change {
    /// The change by the (request, recommendation) of containers. `None` if no container has both,
    /// and, for a whole pod, no recommendation.
    fn of(
        containers: &[&ContainerUsage],
        resource: impl Fn(&ContainerUsage) -> (Option<u64>, Option<u64>),
    ) -> Option<Self> {
        if let [only] = containers
            && only.request_of != RequestOf::Container
        {
            return resource(only).1.map(Self::To);
        }
        let known = containers.iter().map(|container| resource(container));
        let known = known.filter_map(|(from, to)| from.zip(to));
        known
            .reduce(|one, other| (one.0.saturating_add(other.0), one.1.saturating_add(other.1)))
            .map(|(from, to)| Self::Of { from, to })
    }

    /// The request of a pod after a change.
    fn apply(change: Option<Self>, request: u64) -> u64 {
        match change {
            None => request,
            Some(_) if request == 0 => 0,
            Some(Self::To(to)) => to,
            Some(Self::Of { from, to }) => request.saturating_sub(from).saturating_add(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use usage::{BookSettings, ContainerKey, UsageBook, UsageRow};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn job(name: &str, cpu_millis: u64, mib: u64) -> Job {
        let cpu = testkit::cpus(cpu_millis);
        testkit::job(name, 0, 60, embedder::Resources { memory_bytes: mib * MIB, ..cpu })
    }

    /// An hour of a container that uses 100 millis and 50 MiB. Limits are 100 + 15, which is 115 or
    /// the next boundary 116, and 50 + 8 = 58.
    fn hour(book: &mut UsageBook<'_>, owner: &str, container: &str, request: ContainerRequest) {
        for number in 0..12 {
            let row = UsageRow {
                time: 300 * number,
                key: ContainerKey { owner: owner.into(), container: container.into() },
                pod: "p".into(),
                cpu: vec![(100, 1.0)],
                memory_bytes: Some(50 * MIB),
                request,
                request_of: RequestOf::Container,
                class: None,
                oom_tolerance: None,
            };
            book.add(&row).unwrap();
        }
    }

    #[test]
    fn containers_with_recommendations_change_the_request_of_their_pod() {
        let jobs = [
            job("one", 1_000, 500),
            job("two", 3_000, 0),
            job("plain", 700, 70),
            job("one-more", 1, 1),
        ];
        let owners = JobsByOwner::new(&jobs);
        let mut book = UsageBook::new(BookSettings::default(), |owner| owners.request(owner));
        hour(&mut book, "one", "", ContainerRequest::default());
        let request =
            |cpu_millis: u64| ContainerRequest { cpu_millis: Some(cpu_millis), memory_bytes: None };
        hour(&mut book, "two", "a", request(1_000));
        hour(&mut book, "two", "b", request(500));
        let containers = book.finish().containers;
        let (sized, count) = right_sized(&jobs, &owners, &containers);
        let units: Vec<(u64, u64)> = sized
            .iter()
            .map(|job| (job.work.unit.cpu_millis, job.work.unit.memory_bytes / MIB))
            .collect();
        // The rest of the pod of `two`, 1,500 millis, belongs to containers without measurements.
        assert_eq!(units, [(116, 58), (1_500 + 2 * 116, 0), (700, 70), (1, 1)]);
        assert_eq!(count, 2);
    }
}
