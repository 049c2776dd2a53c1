//! Pods to be: what suspended jobs, queued workloads and CronJobs say of the pods that they will have.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::class::PodClass;
use super::objects::{BatchJob, CronJob, JobSet, JobSpec, KueueWorkload, PodTemplate, is_true};
use super::schedule::Schedule;

/// A namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for what has none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// That of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What holds pods to be back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Nothing for long: quota is reserved, admission follows.
    QuotaReserved,
    /// They wait for quota.
    NoQuota,
    /// Someone suspended them.
    Suspended,
    /// The time: their CronJob has yet to fire.
    Scheduled,
}

/// Pods that will come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// What holds them.
    pub held: Held,
    /// The labels of the object that announces them.
    pub labels: BTreeMap<String, String>,
    /// How many of each class.
    pub pods: Vec<(PodClass, u64)>,
    /// Whether they start all at once or not at all.
    pub gang: bool,
    /// When they come, where it is known.
    pub schedule: Option<Schedule>,
}

/// No object announces more pods than this; one that says so is mistaken.
const PODS_MAX: u64 = 1_000_000;

/// What a reader of announcements needs to know of the cluster.
pub struct Reading<'a> {
    /// Labels of pods that policies read.
    pub label_keys: &'a BTreeSet<String>,
    /// Priorities by their class.
    pub priorities: &'a BTreeMap<Key, i32>,
}

impl Reading<'_> {
    /// What a Job announces: its pods, when it is suspended and no queue holds it, which announces them itself.
    pub fn job(&self, job: &BatchJob) -> Option<Announcement> {
        let BatchJob { metadata, spec } = job;
        let labels = metadata.labels.clone().unwrap_or_default();
        if !spec.suspend
            || labels.contains_key(QUEUE_LABEL)
            || metadata.deletion_timestamp.is_some()
        {
            return None;
        }
        // A JobSet announces its jobs together.
        if metadata.owner_references.iter().flatten().any(|owner| owner.kind == "JobSet") {
            return None;
        }
        let pods = vec![self.job_pods(spec, metadata)];
        Some(Announcement { held: Held::Suspended, labels, pods, gang: false, schedule: None })
    }

    /// What a CronJob announces: the pods of its next job, unless that will be suspended, or a queue will hold it.
    pub fn cron_job(&self, cron: &CronJob) -> Option<Announcement> {
        let CronJob { metadata, spec, status } = cron;
        let job = &spec.job_template;
        let idle = spec.suspend || job.spec.suspend || metadata.deletion_timestamp.is_some();
        let forbidden = spec.concurrency_policy == "Forbid" && !status.active.is_empty();
        if idle || forbidden || job.metadata.labels.contains_key(QUEUE_LABEL) {
            return None;
        }
        let schedule = Schedule::parse(&spec.schedule, spec.time_zone.as_deref())?;
        let (labels, pods) =
            (job.metadata.labels.clone(), vec![self.job_pods(&job.spec, metadata)]);
        Some(Announcement {
            held: Held::Scheduled,
            labels,
            pods,
            gang: false,
            schedule: Some(schedule),
        })
    }

    /// What a JobSet announces: the pods of all its jobs together.
    pub fn job_set(&self, metadata: &ObjectMeta, set: &JobSet) -> Option<Announcement> {
        let labels = metadata.labels.clone().unwrap_or_default();
        if !set.spec.suspend
            || labels.contains_key(QUEUE_LABEL)
            || metadata.deletion_timestamp.is_some()
        {
            return None;
        }
        let pods = set.spec.replicated_jobs.iter().map(|job| {
            let parallelism = u64::from(job.template.spec.parallelism.unwrap_or(1));
            let count = parallelism.saturating_mul(job.replicas.unwrap_or(1).into());
            self.pods(&job.template.spec.template, metadata, count)
        });
        let pods = pods.collect();
        Some(Announcement { held: Held::Suspended, labels, pods, gang: true, schedule: None })
    }

    /// What a Kueue Workload announces: its pods, until they are admitted.
    pub fn workload(
        &self,
        metadata: &ObjectMeta,
        workload: &KueueWorkload,
    ) -> Option<Announcement> {
        let conditions = &workload.status.conditions;
        if is_true(conditions, "Admitted")
            || is_true(conditions, "Finished")
            || metadata.deletion_timestamp.is_some()
        {
            return None;
        }
        let held =
            if is_true(conditions, "QuotaReserved") { Held::QuotaReserved } else { Held::NoQuota };
        let sets = &workload.spec.pod_sets;
        let pods =
            sets.iter().map(|set| self.pods(&set.template, metadata, set.count.into())).collect();
        let labels = metadata.labels.clone().unwrap_or_default();
        Some(Announcement { held, labels, pods, gang: true, schedule: None })
    }

    /// The pods that a job starts with.
    fn job_pods(&self, spec: &JobSpec, metadata: &ObjectMeta) -> (PodClass, u64) {
        let parallelism = spec.parallelism.unwrap_or(1);
        let count =
            spec.completions.map_or(parallelism, |completions| completions.min(parallelism));
        self.pods(&spec.template, metadata, count.into())
    }

    fn pods(&self, template: &PodTemplate, metadata: &ObjectMeta, count: u64) -> (PodClass, u64) {
        let named = template.spec.priority_class_name.as_ref().and_then(|name| {
            self.priorities.get(&Key { namespace: String::new(), name: name.clone() }).copied()
        });
        let priority = template.spec.priority.or(named).unwrap_or(0);
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        (PodClass::of_template(template, namespace, priority, self.label_keys), count.min(PODS_MAX))
    }
}

/// Kueue manages what carries it.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
