//! The executors of SparkApplications, and the pods of ScheduledSparkApplications.
//!
//! The driver of an application creates its executors some seconds after it started. While it waits
//! for a node, nothing else in the cluster knows that executors follow.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde_json::Value;

use super::announced::{AnnouncedPods, Announcement, Held, beside_active};
use super::objects::{Affinity, Container, ContainerResources, PodTemplate, Toleration};
use super::steps::{SeenState, SeenStep, SeenWorkflow, template};

/// A SparkApplication, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SparkApplication {
    spec: SparkSpec,
    status: SparkStatus,
}

/// A ScheduledSparkApplication, reduced to the fields that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScheduledSpark {
    spec: ScheduledSpec,
    status: ScheduledStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScheduledSpec {
    schedule: String,
    time_zone: Option<String>,
    suspend: bool,
    concurrency_policy: String,
    template: SparkSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScheduledStatus {
    last_run: Option<Time>,
    last_run_name: String,
    past_successful_run_names: Vec<String>,
    past_failed_run_names: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SparkSpec {
    #[serde(rename = "type")]
    language: String,
    suspend: bool,
    driver: SparkPod,
    executor: SparkPod,
    node_selector: BTreeMap<String, String>,
    memory_overhead_factor: Option<String>,
    batch_scheduler: Option<String>,
    dynamic_allocation: Option<DynamicAllocation>,
    /// Settings of Spark. A field precedes the setting of the same meaning, and a setting of the
    /// driver or of the executors precedes one for both.
    spark_conf: BTreeMap<String, String>,
}

/// What a driver or an executor requests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SparkPod {
    instances: Option<u64>,
    cores: Option<u64>,
    core_request: Option<String>,
    memory: Option<String>,
    memory_overhead: Option<String>,
    gpu: Option<SparkGpu>,
    labels: BTreeMap<String, String>,
    node_selector: BTreeMap<String, String>,
    tolerations: Vec<Toleration>,
    affinity: Option<Affinity>,
    priority_class_name: Option<String>,
    scheduler_name: Option<String>,
    /// The pod that Spark completes.
    template: Option<PodTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SparkGpu {
    name: String,
    quantity: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DynamicAllocation {
    enabled: bool,
    initial_executors: Option<u64>,
    min_executors: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SparkStatus {
    application_state: ApplicationState,
    /// The state of each executor, by the name of its pod.
    executor_state: BTreeMap<String, Value>,
    last_submission_attempt_time: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ApplicationState {
    state: String,
}

impl Announcement {
    /// Returns the steps of a SparkApplication: the start of its driver, and its executors, as many
    /// as it starts with.
    pub(super) fn of_spark(metadata: &ObjectMeta, spark: &SparkApplication) -> Option<Self> {
        let SparkApplication { spec, status } = spark;
        let running = match status.application_state.state.as_str() {
            "" | "SUBMITTED" => false,
            "RUNNING" => true,
            _ => return None,
        };
        if spec.suspend || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let seconds = |time: &Time| time.0.as_second();
        let submitted = status.last_submission_attempt_time.as_ref();
        let submitted = submitted.or(metadata.creation_timestamp.as_ref()).map(seconds);
        let has_executors = !status.executor_state.is_empty();
        let driver = SeenStep {
            name: "driver starts".into(),
            after: Vec::new(),
            state: if running || has_executors {
                SeenState::Ended { ran: None, skipped: false }
            } else {
                SeenState::Running(submitted)
            },
            pods: None,
        };
        let executors = SeenStep {
            name: "executors".into(),
            after: vec![0],
            state: if has_executors { SeenState::Running(None) } else { SeenState::Waiting },
            pods: Some((0, spec.executors())),
        };
        let name = metadata.name.clone().unwrap_or_default();
        let template = template("SparkApplication", metadata, None);
        let workflow =
            Some(SeenWorkflow { template, steps: vec![driver, executors], parallelism: None });
        let pods = vec![AnnouncedPods::of(&spec.pod("executor", &name), metadata, 1)];
        let labels = metadata.labels.clone().unwrap_or_default();
        Some(Self { workflow, ..Self::new(Held::Created, labels, pods) })
    }

    /// Returns the pods of the next application of a ScheduledSparkApplication.
    pub(super) fn of_scheduled_spark(
        metadata: &ObjectMeta,
        ScheduledSpark { spec, status }: &ScheduledSpark,
    ) -> Option<Self> {
        let past = [&status.past_successful_run_names, &status.past_failed_run_names];
        let has_ended = past.iter().any(|names| names.contains(&status.last_run_name));
        let runs = !status.last_run_name.is_empty() && !has_ended;
        if spec.suspend || spec.template.suspend || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let name = metadata.name.clone().unwrap_or_default();
        let pods = [("driver", 1), ("executor", spec.template.executors())];
        let pods = pods.into_iter().map(|(role, count)| {
            AnnouncedPods::of(&spec.template.pod(role, &name), metadata, count)
        });
        let pods = beside_active(pods.collect(), &spec.concurrency_policy, usize::from(runs))?;
        let times = (spec.schedule.as_str(), spec.time_zone.as_deref(), status.last_run.as_ref());
        let labels = metadata.labels.clone().unwrap_or_default();
        Some(Self::scheduled(times, metadata, labels, pods))
    }
}

impl SparkSpec {
    fn conf(&self, key: &str) -> Option<&String> {
        self.spark_conf.get(key)
    }

    fn conf_number(&self, key: &str) -> Option<u64> {
        self.conf(key)?.trim().parse().ok()
    }

    /// The settings whose names begin with a prefix, by the rest of the name.
    fn conf_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
        let named = move |(key, value): (&String, &String)| {
            Some((key.strip_prefix(prefix)?.to_owned(), value.clone()))
        };
        self.spark_conf.iter().filter_map(named)
    }

    /// The number of executors with which an application starts.
    fn executors(&self) -> u64 {
        let fixed =
            self.executor.instances.or_else(|| self.conf_number("spark.executor.instances"));
        let dynamic = self.dynamic_allocation.clone().unwrap_or_default();
        let by_conf = self.conf("spark.dynamicAllocation.enabled").is_some_and(|on| on == "true");
        if !dynamic.enabled && !by_conf {
            return fixed.unwrap_or(1);
        }
        let conf = |key: &str| self.conf_number(&format!("spark.dynamicAllocation.{key}"));
        let DynamicAllocation { initial_executors, min_executors, .. } = dynamic;
        let initial = initial_executors.or_else(|| conf("initialExecutors"));
        let fewest = min_executors.or_else(|| conf("minExecutors"));
        [fixed, initial, fewest].into_iter().flatten().max().unwrap_or(0)
    }

    /// The template of the driver or of the executors of an application, as Spark makes it.
    fn pod(&self, role: &str, application: &str) -> PodTemplate {
        let of = if role == "driver" { &self.driver } else { &self.executor };
        let mut template = of.template.clone().unwrap_or_default();
        let labels = &mut template.metadata.labels;
        labels.extend(self.conf_with(&format!("spark.kubernetes.{role}.label.")));
        labels.extend(of.labels.clone());
        labels.insert("spark-role".into(), role.into());
        labels.insert("sparkoperator.k8s.io/app-name".into(), application.into());
        labels.insert("sparkoperator.k8s.io/launched-by-spark-operator".into(), "true".into());
        let spec = &mut template.spec;
        spec.node_selector.extend(self.conf_with("spark.kubernetes.node.selector."));
        spec.node_selector.extend(self.node_selector.clone());
        let of_role = format!("spark.kubernetes.{role}.node.selector.");
        spec.node_selector.extend(self.conf_with(&of_role));
        spec.node_selector.extend(of.node_selector.clone());
        spec.tolerations.extend(of.tolerations.iter().cloned());
        spec.affinity = of.affinity.clone().unwrap_or_else(|| spec.affinity.clone());
        spec.priority_class_name =
            of.priority_class_name.clone().or(spec.priority_class_name.take());
        let named = |name: &&String| !name.is_empty();
        let of_role = format!("spark.kubernetes.{role}.scheduler.name");
        let by_conf = self.conf(&of_role).or_else(|| self.conf("spark.kubernetes.scheduler.name"));
        let fields = [of.scheduler_name.as_ref(), self.batch_scheduler.as_ref(), by_conf];
        let scheduler = fields.into_iter().flatten().find(named);
        spec.scheduler_name = scheduler.cloned().or(spec.scheduler_name.take());
        let mut requests = BTreeMap::new();
        let request = format!("spark.kubernetes.{role}.request.cores");
        let request = of.core_request.as_ref().or_else(|| self.conf(&request)).cloned();
        let cores = || of.cores.or_else(|| self.conf_number(&format!("spark.{role}.cores")));
        requests
            .insert("cpu".to_owned(), request.unwrap_or_else(|| cores().unwrap_or(1).to_string()));
        requests.insert("memory".to_owned(), format!("{}Mi", self.memory_mebibytes(of, role)));
        let gpus = format!("spark.{role}.resource.gpu");
        if let Some(SparkGpu { name, quantity }) = &of.gpu {
            requests.insert(name.clone(), quantity.to_string());
        } else if let Some(quantity) = self.conf(&format!("{gpus}.amount")) {
            let vendor = self.conf(&format!("{gpus}.vendor")).map_or("nvidia.com", String::as_str);
            requests.insert(format!("{vendor}/gpu"), quantity.clone());
        }
        let resources = ContainerResources { limits: requests.clone(), requests };
        match spec.containers.first_mut() {
            Some(first) => first.resources = resources,
            None => spec.containers.push(Container { resources, ..Container::default() }),
        }
        template
    }

    /// The memory that Spark requests, in MiB: that of the process, and an overhead.
    fn memory_mebibytes(&self, of: &SparkPod, role: &str) -> u64 {
        let conf = |key: &str| self.conf(&format!("spark.{role}.{key}"));
        let memory = of.memory.as_ref().or_else(|| conf("memory"));
        let memory = memory.and_then(|text| mebibytes(text)).unwrap_or(MEMORY_MEBIBYTES);
        let is_jvm = !["Python", "R"].contains(&self.language.as_str());
        let usual = if is_jvm { 0.1 } else { 0.4 };
        let factor = conf("memoryOverheadFactor")
            .or(self.memory_overhead_factor.as_ref())
            .or_else(|| self.conf("spark.kubernetes.memoryOverheadFactor"));
        let factor = factor.and_then(|text| text.parse().ok());
        let factor: f64 =
            factor.filter(|factor: &f64| (0.0..=10.0).contains(factor)).unwrap_or(usual);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a factor in 0 to 10 of a memory, saturating"
        )]
        let by_factor = (memory as f64 * factor) as u64;
        let overhead = of.memory_overhead.as_ref().or_else(|| conf("memoryOverhead"));
        let overhead = overhead.and_then(|text| mebibytes(text));
        memory.saturating_add(overhead.unwrap_or(by_factor.max(OVERHEAD_MEBIBYTES_MIN)))
    }
}

/// The memory of a process whose memory is not given, in MiB (Spark, `spark.executor.memory`).
const MEMORY_MEBIBYTES: u64 = 1_024;

/// The least overhead in MiB, where only a factor gives it (Spark,
/// `spark.executor.minMemoryOverhead`).
const OVERHEAD_MEBIBYTES_MIN: u64 = 384;

/// Reads a memory of Java, such as `512m` or `4g`, in MiB, rounded down. A number without a unit is
/// in MiB. `None` if it is invalid.
fn mebibytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.trim_end_matches('b').trim_end_matches('i');
    let digits = text.trim_end_matches(|at: char| at.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "" | "m" => Some(number),
        "k" => Some(number / 1_024),
        "g" => number.checked_mul(1_024),
        "t" => number.checked_mul(1_024 * 1_024),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks the state of the driver's start and of the executors, and the executors' number,
    /// millicores and MiB.
    #[track_caller]
    fn check(spec: &Value, status: &Value, expected: Option<(&str, &str, (u64, u64, u64))>) {
        let spark = serde_json::from_value(json!({"spec": spec, "status": status})).unwrap();
        let metadata = ObjectMeta { name: Some("etl-12".into()), ..ObjectMeta::default() };
        let found = Announcement::of_spark(&metadata, &spark).map(|announced| {
            let workflow = announced.workflow.unwrap();
            let state = |at: usize| match workflow.steps[at].state {
                SeenState::Waiting => "waits",
                SeenState::Running(_) => "runs",
                SeenState::Ended { .. } => "ended",
            };
            let requests = announced.pods[0].class.requests;
            let count = workflow.steps[1].pods.unwrap().1;
            (state(0), state(1), (count, requests.cpu_millis, requests.memory_bytes >> 20))
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn executors_follow_when_the_driver_started() {
        let spec = json!({"type": "Scala", "driver": {"cores": 1},
            "executor": {"instances": 8, "cores": 4, "memory": "8g"}});
        let state = |state: &str| json!({"applicationState": {"state": state}});
        let pods = (8, 4_000, 8_192 + 819);
        check(&spec, &json!({}), Some(("runs", "waits", pods)));
        check(&spec, &state("SUBMITTED"), Some(("runs", "waits", pods)));
        check(&spec, &state("RUNNING"), Some(("ended", "waits", pods)));
        let mut running = state("RUNNING");
        running["executorState"] = json!({"etl-exec-1": "RUNNING"});
        check(&spec, &running, Some(("ended", "runs", pods)));
        check(&spec, &state("COMPLETED"), None);
        check(&spec, &state("FAILED"), None);
    }

    #[test]
    fn executors_request_what_spark_gives_them() {
        let of = |spec: Value, pods| check(&spec, &json!({}), Some(("runs", "waits", pods)));
        of(json!({"executor": {}}), (1, 1_000, 1_024 + 384));
        of(json!({"type": "Python", "executor": {"memory": "10240m"}}), (1, 1_000, 10_240 + 4_096));
        let own = json!({"coreRequest": "500m", "memory": "2g", "memoryOverhead": "1g"});
        of(json!({"executor": own}), (1, 500, 3_072));
        of(json!({"memoryOverheadFactor": "0.5", "executor": {"memory": "4g"}}), (1, 1_000, 6_144));
        let dynamic = json!({"enabled": true, "initialExecutors": 6, "maxExecutors": 50});
        of(json!({"dynamicAllocation": dynamic, "executor": {"instances": 2}}), (6, 1_000, 1_408));
        of(json!({"dynamicAllocation": {"enabled": true}, "executor": {}}), (0, 1_000, 1_408));
        of(json!({"executor": {"memory": "much"}}), (1, 1_000, 1_408));
    }

    /// The operator gives Spark the settings first and then the fields, so the fields precede.
    #[test]
    fn settings_of_spark_count_where_fields_give_nothing() {
        let of = |mut spec: Value, conf: Value, pods| {
            spec["sparkConf"] = conf;
            check(&spec, &json!({}), Some(("runs", "waits", pods)));
        };
        let instances = json!({"spark.executor.instances": "8"});
        of(json!({}), instances.clone(), (8, 1_000, 1_408));
        of(json!({"executor": {"instances": 2}}), instances, (2, 1_000, 1_408));
        let dynamic = json!({"spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": "8",
            "spark.dynamicAllocation.minExecutors": "3"});
        of(json!({"executor": {"instances": 2}}), dynamic, (8, 1_000, 1_408));
        let request = json!({"spark.kubernetes.executor.request.cores": "500m",
            "spark.executor.cores": "4", "spark.executor.memory": "2g",
            "spark.executor.memoryOverhead": "1g"});
        of(json!({"executor": {"cores": 2}}), request.clone(), (1, 500, 3_072));
        of(json!({"executor": {"coreRequest": "2", "memory": "4g"}}), request, (1, 2_000, 5_120));
        let factor = json!({"spark.kubernetes.memoryOverheadFactor": "0.5",
            "spark.executor.cores": "4", "spark.executor.memory": "4g"});
        of(json!({}), factor, (1, 4_000, 6_144));
        let selector = json!({"sparkConf": {
            "spark.kubernetes.executor.node.selector.pool": "batch",
            "spark.kubernetes.executor.label.team": "a",
            "spark.executor.resource.gpu.amount": "1"}});
        let spec: SparkSpec = serde_json::from_value(selector).unwrap();
        let PodTemplate { metadata, spec } = spec.pod("executor", "etl");
        assert_eq!((&*spec.node_selector["pool"], &*metadata.labels["team"]), ("batch", "a"));
        assert_eq!(spec.containers[0].resources.requests["nvidia.com/gpu"], "1");
    }

    /// Pods of another scheduler may be unable to preempt placeholders.
    #[test]
    fn the_scheduler_of_executors_is_that_of_the_application() {
        let of = |spec: Value| {
            let spark = serde_json::from_value(json!({"spec": spec})).unwrap();
            let announced = Announcement::of_spark(&ObjectMeta::default(), &spark).unwrap();
            announced.pods[0].class.scheduler.clone()
        };
        assert_eq!(of(json!({"executor": {}})), None);
        let all = json!({"batchScheduler": "volcano", "executor": {}});
        assert_eq!(of(all.clone()).as_deref(), Some("volcano"));
        let mut own = all;
        own["executor"]["schedulerName"] = json!("default-scheduler");
        assert_eq!(of(own), None);
    }

    #[test]
    fn a_scheduled_application_announces_driver_and_executors() {
        let mut scheduled = json!({"spec": {"schedule": "@every 10m", "concurrencyPolicy": "Forbid",
            "template": {"driver": {"cores": 2}, "executor": {"instances": 3}}}});
        let of = |scheduled: &Value| {
            let scheduled = serde_json::from_value(scheduled.clone()).unwrap();
            Announcement::of_scheduled_spark(&ObjectMeta::default(), &scheduled)
        };
        let announced = of(&scheduled).unwrap();
        assert_eq!(announced.pods.iter().map(|pods| pods.count).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(announced.schedule.unwrap().next(1), Some(600));
        scheduled["status"] = json!({"lastRunName": "etl-1"});
        assert!(of(&scheduled).is_none());
        scheduled["status"]["pastSuccessfulRunNames"] = json!(["etl-1"]);
        assert!(of(&scheduled).is_some());
    }

    #[test]
    fn memory_has_the_units_of_java() {
        let all = [
            "512m",
            "4g",
            "2048k",
            "1t",
            "512",
            "1Gi",
            "8gb",
            "",
            "g",
            "1.5g",
            "99999999999999999999g",
        ];
        let expected =
            [Some(512), Some(4_096), Some(2), Some(1_048_576), Some(512), Some(1_024), Some(8_192)];
        let found = all.map(mebibytes);
        assert_eq!(found[..7], expected);
        assert!(found[7..].iter().all(Option::is_none), "{found:?}");
    }
}
