//! One container: its open sample, its recommenders, and the figures of its limits.

use super::ages::AgeSums;
use super::figures::{LimitFigures, LimitSums, Limits, memory_bytes};
use super::learned::LearnedRecommender;
use super::model_set::ModelWeights;
use super::moving_window::{
    CPU_HALF_LIFE_SECONDS, CPU_KNEE, MEMORY_HALF_LIFE_SECONDS, MEMORY_KNEE, Statistic,
    WindowRecommender,
};
use super::row::{
    ContainerKey, ContainerRequest, OomTolerance, RequestOf, UsageRow, WorkloadClass,
};
use super::sample::{OpenSample, SAMPLE_SECONDS, UsageSample};

/// The fewest samples from which a limit is recommended: an hour of them, the time that a
/// recommendation holds. Until then the request stays.
const SAMPLES_MIN: u64 = 12;

/// The most pods of a small workload, whose default tolerance is minimal. In the paper, a small job
/// has limits of at most ten machines.
const SMALL_PODS: u64 = 10;

/// What the usage of one container leads to.
#[derive(Clone, Debug)]
pub struct ContainerUsage {
    /// The container.
    pub key: ContainerKey,
    /// The last known request.
    pub request: ContainerRequest,
    /// What the request is of.
    pub request_of: RequestOf,
    /// The class in the last row, or that of the settings if the row has none.
    pub class: WorkloadClass,
    /// The tolerance in the last row or the settings. If `None`, the number of pods decides.
    given_tolerance: Option<OomTolerance>,
    /// The number of complete samples.
    pub samples: u64,
    /// The most pods of a sample.
    pub pods_max: u64,
    /// The largest CPU of a sample, the mean of its measurements, in thousandths of a core.
    pub cpu_millis_max: f64,
    /// The largest peak of a pod's memory, in bytes.
    pub memory_bytes_max: u64,
    open: Option<OpenSample>,
    cpu: ResourceRecommender,
    memory: ResourceRecommender,
    /// The last recommendation.
    recommended: Limits,
    under_request: LimitSums,
    under_recommendation: LimitSums,
    by_age: AgeSums,
}

/// The recommender of CPU or of memory: by statistics of a moving window, or by models.
#[derive(Clone, Debug)]
enum ResourceRecommender {
    Window(Box<WindowRecommender>),
    Learned(Box<LearnedRecommender>),
}

impl ContainerUsage {
    /// A container without samples. `models` are the weights of the recommender by models; without
    /// them, it is the one by a moving window.
    pub(super) fn new(key: ContainerKey, models: Option<ModelWeights>) -> Self {
        let recommender = |half_life_seconds, knee| match models {
            Some(weights) => {
                ResourceRecommender::Learned(Box::new(LearnedRecommender::new(weights)))
            }
            None => ResourceRecommender::Window(Box::new(WindowRecommender::new(
                half_life_seconds,
                knee,
            ))),
        };
        Self {
            key,
            request: ContainerRequest::default(),
            request_of: RequestOf::default(),
            class: WorkloadClass::default(),
            given_tolerance: None,
            samples: 0,
            pods_max: 0,
            cpu_millis_max: 0.0,
            memory_bytes_max: 0,
            open: None,
            cpu: recommender(CPU_HALF_LIFE_SECONDS, CPU_KNEE),
            memory: recommender(MEMORY_HALF_LIFE_SECONDS, MEMORY_KNEE),
            recommended: Limits::default(),
            under_request: LimitSums::default(),
            under_recommendation: LimitSums::default(),
            by_age: AgeSums::default(),
        }
    }

    /// The number of the five minutes that the last row is in.
    pub(super) fn open_number(&self) -> Option<i64> {
        self.open.as_ref().map(OpenSample::number)
    }

    /// The pods that the open sample keeps in memory.
    pub(super) fn open_pods(&self) -> usize {
        self.open.as_ref().map_or(0, OpenSample::pods)
    }

    /// Whether there are too few samples for a recommendation.
    pub fn has_few_samples(&self) -> bool {
        self.samples < SAMPLES_MIN
    }

    /// Adds a row, which is not earlier than the open sample, and completes the sample before it.
    /// `class` and `tolerance` are used where the row has none.
    pub(super) fn add(
        &mut self,
        row: &UsageRow,
        class: WorkloadClass,
        tolerance: Option<OomTolerance>,
    ) {
        let number = row.time.div_euclid(SAMPLE_SECONDS);
        if self.open_number() != Some(number) {
            self.close();
            self.open = Some(OpenSample::new(number));
        }
        let ContainerRequest { cpu_millis, memory_bytes } = row.request;
        self.request.cpu_millis = cpu_millis.or(self.request.cpu_millis);
        self.request.memory_bytes = memory_bytes.or(self.request.memory_bytes);
        self.class = row.class.unwrap_or(class);
        self.given_tolerance = row.oom_tolerance.or(tolerance);
        if let Some(open) = &mut self.open {
            open.add(row);
        }
    }

    /// Completes the open sample.
    pub(super) fn close(&mut self) {
        let Some(sample) = self.open.take().map(OpenSample::close) else { return };
        let requested =
            Limits { cpu_millis: self.request.cpu_millis, memory_bytes: self.request.memory_bytes };
        self.under_request.add(&sample, requested);
        let recommended = Limits {
            cpu_millis: self.recommended.cpu_millis.or(requested.cpu_millis),
            memory_bytes: self.recommended.memory_bytes.or(requested.memory_bytes),
        };
        self.under_recommendation.add(&sample, recommended);
        self.by_age.add(&sample, recommended);
        self.samples += 1;
        self.pods_max = self.pods_max.max(sample.pods);
        self.cpu_millis_max = self.cpu_millis_max.max(sample.cpu_mean);
        let peak = sample.memory_peaks.iter().copied().max().unwrap_or(0);
        self.memory_bytes_max = self.memory_bytes_max.max(peak);
        self.learn(&sample);
    }

    fn learn(&mut self, sample: &UsageSample) {
        let [cpu, memory] = self.window_statistics();
        let enough = !self.has_few_samples();
        if !sample.cpu.is_empty() {
            let limit = self.cpu.learn(sample.number, &sample.cpu, cpu);
            self.recommended.cpu_millis = enough.then_some(limit);
        }
        if !sample.memory.is_empty() {
            let limit = self.memory.learn(sample.number, &sample.memory, memory);
            self.recommended.memory_bytes = enough.then_some(memory_bytes(limit));
        }
    }

    /// How the workload tolerates kills: as given, or by its size.
    pub fn oom_tolerance(&self) -> OomTolerance {
        let small = self.pods_max <= SMALL_PODS;
        let by_size = if small { OomTolerance::Minimal } else { OomTolerance::Low };
        self.given_tolerance.unwrap_or(by_size)
    }

    /// The statistics of CPU and of memory; `None` if models choose the limits.
    pub fn statistics(&self) -> [Option<Statistic>; 2] {
        let of_window = matches!(self.cpu, ResourceRecommender::Window(_));
        self.window_statistics().map(|statistic| of_window.then_some(statistic))
    }

    fn window_statistics(&self) -> [Statistic; 2] {
        [Statistic::of_cpu(self.class), Statistic::of_memory(self.oom_tolerance())]
    }

    /// The recommended request. `None` where there are too few samples, or none of the resource.
    pub fn recommended(&self) -> ContainerRequest {
        let Limits { cpu_millis, memory_bytes } = self.recommended;
        ContainerRequest { cpu_millis, memory_bytes }
    }

    /// The figures of the request and of the recommendations, over the days with a sample. Each
    /// sample ran under the recommendation before it.
    pub fn figures(&self) -> [LimitFigures; 2] {
        let days = self.under_request.job_days();
        [self.under_request, self.under_recommendation].map(|sums| sums.figures(days))
    }

    /// The days with a sample, and those with a kill under the request and the recommendations.
    pub fn days(&self) -> (u64, [u64; 2]) {
        let kills = [self.under_request, self.under_recommendation].map(|sums| sums.oom_days());
        (self.under_request.job_days(), kills)
    }

    /// The sums of the figures under the recommendations, by age.
    pub(super) fn sums_by_age(&self) -> &AgeSums {
        &self.by_age
    }

    /// The sums of the figures under the request and under the recommendations.
    pub(super) fn sums(&self) -> [&LimitSums; 2] {
        [&self.under_request, &self.under_recommendation]
    }
}

impl ResourceRecommender {
    fn learn(&mut self, number: i64, spread: &super::spread::Spread, statistic: Statistic) -> u64 {
        match self {
            Self::Window(window) => window.learn(number, spread, statistic),
            Self::Learned(learned) => learned.learn(spread),
        }
    }
}
