//! The usage of all containers.

use std::collections::{BTreeSet, HashMap};

use super::ages::{AgeFigures, AgeSums};
use super::container::ContainerUsage;
use super::figures::{LimitFigures, LimitSums};
use super::model_set::ModelWeights;
use super::row::{
    ContainerKey, ContainerRequest, OomTolerance, RequestOf, UsageRow, WorkloadClass,
};
use super::sample::SAMPLE_SECONDS;

/// The most containers with a moving window. Each takes up to 10 kB, so this many take up to half a
/// gigabyte.
pub const CONTAINERS_MAX: usize = 50_000;

/// The most containers with models. Each takes 160 kB, so this many take 800 MB.
pub const CONTAINERS_WITH_MODELS_MAX: usize = 5_000;

/// The most pods whose last five minutes are in memory, of all containers: about 50 MB.
const OPEN_PODS_MAX: usize = 1_000_000;

/// How limits are recommended where the measurements do not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BookSettings {
    /// The class of containers whose rows have none.
    pub class: WorkloadClass,
    /// The tolerance; by the size of the workload if `None`.
    pub oom_tolerance: Option<OomTolerance>,
    /// The weights of the recommender by models; the one by a moving window if `None`.
    pub models: Option<ModelWeights>,
}

/// Why a row cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageFault {
    /// An earlier row has a later time.
    #[error(
        "an earlier row of the same owner and container has a later time: sort the rows by time"
    )]
    Order,
    /// There are too many containers.
    #[error("there are more than {} containers: give a part of them", .0)]
    TooManyContainers(usize),
    /// There are too many pods.
    #[error("there are more than {OPEN_PODS_MAX} pods within five minutes: give a part of them")]
    TooManyPods,
    /// The log has only the request of a pod, and the pod has several containers.
    #[error(
        "the pods of this owner have several containers, so give the requests of each: the log has only those of pods"
    )]
    NoRequests,
}

/// The usage of all containers, in the order of their first rows.
pub struct UsageBook<'a> {
    settings: BookSettings,
    /// The requests of the pods of an owner, as the job log has them.
    of_pods: Box<dyn Fn(&str) -> ContainerRequest + 'a>,
    places: HashMap<ContainerKey, usize>,
    containers: Vec<ContainerUsage>,
    /// The first container of each owner, and whether its request is that of the pod.
    owners: HashMap<Box<str>, (usize, bool)>,
    open_pods: usize,
    days: BTreeSet<i64>,
    times: Option<(i64, i64)>,
}

impl<'a> UsageBook<'a> {
    /// An empty book. `of_pods` returns the requests of the pods of an owner.
    pub fn new(settings: BookSettings, of_pods: impl Fn(&str) -> ContainerRequest + 'a) -> Self {
        Self {
            settings,
            of_pods: Box::new(of_pods),
            places: HashMap::new(),
            containers: Vec::new(),
            owners: HashMap::new(),
            open_pods: 0,
            days: BTreeSet::new(),
            times: None,
        }
    }

    /// Adds a row. The rows of each container are in the order of time, except within five minutes.
    ///
    /// # Errors
    /// The row is out of order, or there are too many containers or pods, or requests are missing.
    pub fn add(&mut self, row: &UsageRow) -> Result<(), UsageFault> {
        let at = match self.places.get(&row.key) {
            Some(at) => *at,
            None => self.open(row)?,
        };
        let BookSettings { class, oom_tolerance, .. } = self.settings;
        let container = &mut self.containers[at];
        let number = row.time.div_euclid(SAMPLE_SECONDS);
        if container.open_number().is_some_and(|open| number < open) {
            return Err(UsageFault::Order);
        }
        self.open_pods -= container.open_pods();
        container.add(row, class, oom_tolerance);
        self.open_pods += container.open_pods();
        if self.open_pods > OPEN_PODS_MAX {
            return Err(UsageFault::TooManyPods);
        }
        self.days.insert(row.time.div_euclid(86_400));
        let (first, last) = self.times.unwrap_or((row.time, row.time));
        self.times = Some((first.min(row.time), last.max(row.time)));
        Ok(())
    }

    /// Adds a container, and returns its index. A row without requests has those of the pod, so the
    /// container must be the only one.
    fn open(&mut self, row: &UsageRow) -> Result<usize, UsageFault> {
        let at = self.containers.len();
        let with_models = self.settings.models.is_some();
        let most = if with_models { CONTAINERS_WITH_MODELS_MAX } else { CONTAINERS_MAX };
        if at >= most {
            return Err(UsageFault::TooManyContainers(most));
        }
        let lacks_requests = row.request == ContainerRequest::default();
        let first = self.owners.entry(row.key.owner.clone()).or_insert((at, lacks_requests));
        if first.0 != at && (lacks_requests || first.1) {
            return Err(UsageFault::NoRequests);
        }
        let mut container = ContainerUsage::new(row.key.clone(), self.settings.models);
        if lacks_requests {
            container.request = (self.of_pods)(&row.key.owner);
            container.request_of = RequestOf::Pod;
        } else {
            container.request_of = row.request_of;
        }
        self.containers.push(container);
        self.places.insert(row.key.clone(), at);
        Ok(at)
    }

    /// Completes all samples.
    pub fn finish(self) -> RecordedUsage {
        let mut containers = self.containers;
        containers.iter_mut().for_each(ContainerUsage::close);
        RecordedUsage { containers, days: self.days.len() as u64, times: self.times }
    }
}

/// The usage of all containers, complete.
#[derive(Clone, Debug)]
pub struct RecordedUsage {
    /// The containers, in the order of their first rows.
    pub containers: Vec<ContainerUsage>,
    /// The number of days with a row.
    pub days: u64,
    /// The times of the first and the last row, in seconds.
    pub times: Option<(i64, i64)>,
}

impl RecordedUsage {
    /// The figures of all containers under their requests and under the recommendations.
    pub fn figures(&self) -> [LimitFigures; 2] {
        let mut all = [LimitSums::default(); 2];
        for container in &self.containers {
            for (all, one) in all.iter_mut().zip(container.sums()) {
                all.add_sums(one);
            }
        }
        all.map(|sums| sums.figures(self.days))
    }

    /// The figures of all containers under the recommendations, by their age, the youngest first.
    pub fn figures_by_age(&self) -> Vec<AgeFigures> {
        let mut all = AgeSums::default();
        self.containers.iter().for_each(|container| all.add_sums(container.sums_by_age()));
        all.figures()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn row(time: i64, owner: &str, container: &str, cpu: u64, mib: u64) -> UsageRow {
        UsageRow {
            time,
            key: ContainerKey { owner: owner.into(), container: container.into() },
            pod: "p".into(),
            cpu: vec![(cpu, 1.0)],
            memory_bytes: Some(mib * MIB),
            request: ContainerRequest::default(),
            request_of: RequestOf::Container,
            class: None,
            oom_tolerance: None,
        }
    }

    fn pods_request(cpu_millis: u64, mib: u64) -> ContainerRequest {
        ContainerRequest { cpu_millis: Some(cpu_millis), memory_bytes: Some(mib * MIB) }
    }

    /// Twelve samples of 500 millis and 100 MiB are the hour after which limits are recommended.
    /// The boundaries of the samples are 506 and 100, with their margins 582 and 115, and the next
    /// boundaries of these are 590 and 116. A sample of 200 MiB follows, which the limit kills and
    /// the request of 1,000 MiB does not. Its boundary is 204, with its margin 235, so the limit
    /// rises to 238.
    #[test]
    fn each_sample_runs_under_the_recommendation_before_it() {
        let mut book = UsageBook::new(BookSettings::default(), |_| pods_request(2_000, 1_000));
        for number in 0..12 {
            book.add(&row(number * 300, "a", "", 500, 100)).unwrap();
        }
        let before = book.containers[0].recommended();
        assert_eq!(before, ContainerRequest::default());
        book.add(&row(3_600, "a", "", 500, 200)).unwrap();
        let limit = book.containers[0].recommended();
        assert_eq!(limit, pods_request(590, 116));
        let usage = book.finish();
        let container = &usage.containers[0];
        assert_eq!((container.samples, container.days()), (13, (1, [0, 1])));
        assert_eq!(container.recommended(), pods_request(590, 238));
        let [requested, recommended] = usage.figures();
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got} {wanted}");
        near(requested.slack_cpu, 0.75);
        near(requested.slack_memory, 1.0 - (12.0 * 100.0 + 200.0) / 13_000.0);
        near(requested.changes_per_day, 0.0);
        // Twelve samples under the request, and one under the first recommendation.
        near(recommended.slack_cpu, 1.0 - 13.0 * 500.0 / (12.0 * 2_000.0 + 590.0));
        near(recommended.changes_per_day, 2.0);
        near(recommended.oom_day_share, 1.0);
        // The first hour ran under the request.
        let [hour, day, later] = [0, 1, 2].map(|at| usage.figures_by_age()[at]);
        near(hour.slack_cpu, 0.75);
        near(day.slack_cpu, 1.0 - 500.0 / 590.0);
        near(day.ooms_per_pod_day, 288.0);
        assert!(later.slack_cpu.is_nan() && later.age == "to a day");
    }

    #[test]
    fn the_peak_of_each_pod_counts_within_five_minutes() {
        let mut book = UsageBook::new(BookSettings::default(), |_| pods_request(1_000, 150));
        let pod = |time: i64, pod: &str, mib: u64| UsageRow {
            pod: pod.into(),
            ..row(time, "a", "", 100, mib)
        };
        // The rows of five minutes are in any order.
        for row in [pod(299, "p", 100), pod(0, "p", 200), pod(10, "q", 100), pod(20, "q", 120)] {
            book.add(&row).unwrap();
        }
        let usage = book.finish();
        let container = &usage.containers[0];
        assert_eq!((container.samples, container.pods_max), (1, 2));
        let [requested, _] = usage.figures();
        assert!((requested.slack_memory - (1.0 - 320.0 / 300.0)).abs() < 1e-9);
        // One of two pods was above 150 MiB, in one of 288 samples of a day.
        assert!((requested.ooms_per_pod_day - 144.0).abs() < 1e-9);
    }

    #[test]
    fn rows_out_of_order_and_containers_without_requests_are_faults() {
        let mut book = UsageBook::new(BookSettings::default(), |_| pods_request(1, 1));
        book.add(&row(600, "a", "x", 1, 1)).unwrap();
        assert_eq!(book.add(&row(599, "a", "x", 1, 1)), Err(UsageFault::Order));
        assert_eq!(book.add(&row(600, "a", "y", 1, 1)), Err(UsageFault::NoRequests));
        let with = |container: &str| UsageRow {
            request: pods_request(1, 1),
            ..row(0, "b", container, 1, 1)
        };
        assert_eq!([book.add(&with("x")), book.add(&with("y"))], [Ok(()), Ok(())]);
    }

    #[test]
    fn small_workloads_tolerate_no_kill() {
        let tolerance = |pods: usize, given: Option<OomTolerance>| {
            let settings = BookSettings { oom_tolerance: given, ..BookSettings::default() };
            let mut book = UsageBook::new(settings, |_| ContainerRequest::default());
            for pod in 0..pods {
                book.add(&UsageRow { pod: pod.to_string().into(), ..row(0, "a", "", 1, 1) })
                    .unwrap();
            }
            book.finish().containers[0].oom_tolerance()
        };
        assert_eq!(tolerance(10, None), OomTolerance::Minimal);
        assert_eq!(tolerance(11, None), OomTolerance::Low);
        assert_eq!(tolerance(1, Some(OomTolerance::Intermediate)), OomTolerance::Intermediate);
    }
}
