//! The jobs of a log, by owner.

use traces::Job;
use usage::{ContainerRequest, ContainerUsage, RequestOf};

/// The jobs of a log in the order of their names, and in that of their stems.
///
/// The stem of a name is the part before its last `-` or `/`. Kubernetes adds a suffix to the names
/// of what a CronJob or a JobSet creates, and the reader of Borg's events adds the index of an
/// instance to the collection.
pub struct JobsByOwner<'a> {
    jobs: &'a [Job],
    /// The owner of a job by its name.
    owner: fn(&str) -> &str,
    /// Indices of jobs, by owner.
    by_name: Vec<u32>,
    /// Indices of jobs whose name has a stem, by stem.
    by_stem: Vec<u32>,
}

fn stem(name: &str) -> Option<&str> {
    name.rfind(['-', '/']).map(|at| &name[..at])
}

impl<'a> JobsByOwner<'a> {
    /// Sorts jobs, which are in the order of their submission.
    pub fn new(jobs: &'a [Job]) -> Self {
        Self::by(jobs, |name| name)
    }

    /// Sorts the jobs of a history, in which an owner is a name without a number at its end.
    pub fn of_history(jobs: &'a [Job]) -> Self {
        Self::by(jobs, recurring)
    }

    fn by(jobs: &'a [Job], owner: fn(&str) -> &str) -> Self {
        let name = |at: &u32| &*jobs[*at as usize].name;
        let all = 0..u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        let mut by_name: Vec<u32> = all.clone().collect();
        by_name.sort_by_key(|at| owner(name(at)));
        let mut by_stem: Vec<u32> = all.filter(|at| stem(name(at)).is_some()).collect();
        by_stem.sort_by_key(|at| stem(name(at)));
        Self { jobs, owner, by_name, by_stem }
    }

    /// The indices of the jobs of an owner in the order of submission: those with its name, or, if
    /// there is none, those whose stem it is.
    pub fn of(&self, owner: &str) -> impl Iterator<Item = usize> {
        let name = |at: u32| &*self.jobs[at as usize].name;
        let named = range(&self.by_name, |at| (self.owner)(name(at)).cmp(owner));
        let stemmed = || range(&self.by_stem, |at| stem(name(at)).cmp(&Some(owner)));
        let found = if named.is_empty() { stemmed() } else { named };
        found.iter().map(|at| *at as usize)
    }

    /// The indices of the jobs that have a container.
    pub(super) fn of_container(&self, container: &ContainerUsage) -> impl Iterator<Item = usize> {
        let has = |at: &usize| {
            container.request_of != RequestOf::PodsWithThisRequest
                || ContainerRequest::of(self.jobs[*at].work.unit) == container.request
        };
        self.of(&container.key.owner).filter(has)
    }

    /// The requests of a pod of the owner's last job.
    pub fn request(&self, owner: &str) -> ContainerRequest {
        let last = self.of(owner).last();
        last.map(|at| ContainerRequest::of(self.jobs[at].work.unit)).unwrap_or_default()
    }
}

/// The part of a sorted list that compares as equal.
fn range(sorted: &[u32], order: impl Fn(u32) -> std::cmp::Ordering) -> &[u32] {
    let start = sorted.partition_point(|at| order(*at).is_lt());
    let end = sorted.partition_point(|at| order(*at).is_le());
    &sorted[start..end]
}

/// The name of an owner without a number at its end: the Jobs of a CronJob and other repeated Jobs
/// differ in it, and count as one workload.
pub fn recurring(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let cut = name.rsplit_once('-').filter(|(name, number)| !name.is_empty() && is_number(number));
    cut.map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, submit: i64, cpu_millis: u64) -> Job {
        testkit::job(name, submit, 60, testkit::cpus(cpu_millis))
    }

    #[test]
    fn an_owner_has_the_jobs_of_its_name_or_else_of_its_stem() {
        let names = ["ns/train", "ns/train-1", "7/0", "ns/train-2", "7/1", "ns/eval-1", "7"];
        let jobs: Vec<Job> = names.iter().zip(0..).map(|(name, at)| job(name, at, 1)).collect();
        let owners = JobsByOwner::new(&jobs);
        let check = |owner: &str, expected: &[usize]| {
            assert_eq!(owners.of(owner).collect::<Vec<_>>(), expected, "{owner}");
        };
        check("ns/train", &[0]);
        check("ns/eval", &[5]);
        check("ns/train-2", &[3]);
        check("7", &[6]);
        check("ns", &[0]);
        check("other", &[]);
    }

    #[test]
    fn owners_of_repeated_jobs_have_one_name() {
        assert_eq!(
            ["nightly-28412345", "train", "a-1b", "-1", "x-", "ns/nightly-2"].map(recurring),
            ["nightly", "train", "a-1b", "-1", "x-", "ns/nightly"]
        );
    }

    #[test]
    fn an_owner_of_a_history_has_the_jobs_whose_name_differs_in_a_number() {
        let names = ["ns/train-1", "ns/train-eval", "ns/train", "ns/train-2", "ns/load-x2c4z"];
        let jobs: Vec<Job> = names.iter().zip(0..).map(|(name, at)| job(name, at, 1)).collect();
        let owners = JobsByOwner::of_history(&jobs);
        let check = |owner: &str, expected: &[usize]| {
            assert_eq!(owners.of(owner).collect::<Vec<_>>(), expected, "{owner}");
        };
        check("ns/train", &[0, 2, 3]);
        check("ns/train-eval", &[1]);
        // Prometheus has the pod of no controller without its suffix.
        check("ns/load", &[4]);
    }

    #[test]
    fn the_request_is_that_of_the_last_job() {
        let jobs = [job("a-1", 0, 100), job("a-2", 1, 300), job("b", 2, 500)];
        let request = |owner: &str| JobsByOwner::new(&jobs).request(owner).cpu_millis;
        assert_eq!([request("a"), request("b"), request("c")], [Some(300), Some(500), None]);
    }
}
