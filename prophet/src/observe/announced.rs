//! Announced pods: the future pods of suspended jobs, queued workloads and CronJobs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::class::{PodClass, Priority, may_preempt};
use super::objects::{
    BatchJob, CronJob, JobSet, JobSpec, KueueWorkload, PodSet, PodTemplate, is_true,
};
use super::schedule::Schedule;

/// A namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace; empty for objects without a namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Returns the key of an object.
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

/// The reason why announced pods do not exist yet or do not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Kueue has reserved quota for them, and admission follows soon.
    QuotaReserved,
    /// Kueue has reserved quota for them, but an admission check is not ready.
    AdmissionCheck,
    /// They wait for quota.
    NoQuota,
    /// Their job is suspended.
    Suspended,
    /// Their CronJob has not fired yet.
    Scheduled,
}

/// Pods that one object announces together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The reason why the pods are held.
    pub held: Held,
    /// The labels of the object that announces the pods.
    pub labels: BTreeMap<String, String>,
    /// The pods, as (class, number of pods).
    pub pods: Vec<(PodClass, u64)>,
    /// For each of `pods`, the names of the flavors that Kueue has assigned. Empty for other
    /// objects.
    pub flavors: Vec<BTreeSet<String>>,
    /// Whether all pods start at once or not at all.
    pub gang: bool,
    /// Whether the object is a Job, or a CronJob of Jobs, whose pods have indexes.
    pub indexed: bool,
    /// The schedule on which the pods are created, if there is one.
    pub schedule: Option<Schedule>,
    /// The last time of the schedule whose pods are created, in Unix seconds.
    pub fired: Option<i64>,
}

/// The maximum number of pods per template: a million. A larger number in an object is treated as a
/// mistake and lowered to this one.
const PODS_MAX: u64 = 1_000_000;

/// The context in which objects are read as announcements.
pub struct Reading<'a> {
    /// Priorities by the key of their PriorityClass.
    pub priorities: &'a BTreeMap<Key, Priority>,
}

impl Reading<'_> {
    /// Returns the pods that a suspended Job announces.
    ///
    /// A Job with a Kueue queue announces none, because its Workload announces them.
    pub fn job(&self, job: &BatchJob) -> Option<Announcement> {
        let BatchJob { metadata, spec } = job;
        let labels = metadata.labels.clone().unwrap_or_default();
        if !spec.suspend
            || labels.contains_key(QUEUE_LABEL)
            || metadata.deletion_timestamp.is_some()
        {
            return None;
        }
        // A JobSet announces the pods of all its jobs together.
        if metadata.owner_references.iter().flatten().any(|owner| owner.kind == "JobSet") {
            return None;
        }
        let pods = vec![self.job_pods(spec, metadata)];
        Some(Announcement {
            held: Held::Suspended,
            labels,
            pods,
            flavors: Vec::new(),
            gang: false,
            indexed: is_indexed(spec),
            schedule: None,
            fired: None,
        })
    }

    /// Returns the pods of the next job of a CronJob.
    ///
    /// A CronJob announces none if it, or its next job, is suspended, if a Kueue queue will hold
    /// the job, or if its concurrency policy is `Forbid` and a job still runs.
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
            flavors: Vec::new(),
            gang: false,
            indexed: is_indexed(&job.spec),
            schedule: Some(schedule),
            fired: status.last_schedule_time.as_ref().map(|time| time.0.as_second()),
        })
    }

    /// Returns the pods of all jobs of a suspended JobSet together. A JobSet with a Kueue queue
    /// announces none.
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
        Some(Announcement {
            held: Held::Suspended,
            labels,
            pods,
            flavors: Vec::new(),
            gang: true,
            indexed: false,
            schedule: None,
            fired: None,
        })
    }

    /// Returns the pods of a Kueue Workload that is neither admitted nor finished: of each set,
    /// those that have quota, or all while none have. They are a gang only if one of the sets
    /// requires a topology, because other pods need not run near each other.
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
        let checked = workload.status.admission_checks.iter().all(|check| check.state == "Ready");
        let held = match (is_true(conditions, "QuotaReserved"), checked) {
            (true, true) => Held::QuotaReserved,
            (true, false) => Held::AdmissionCheck,
            (false, _) => Held::NoQuota,
        };
        let sets = &workload.spec.pod_sets;
        let assigned = |set: &PodSet| {
            let mut assignments =
                workload.status.admission.iter().flat_map(|all| &all.pod_set_assignments);
            assignments.find(|assignment| assignment.name == set.name)
        };
        let pods = sets.iter().map(|set| {
            let count = assigned(set).and_then(|assignment| assignment.count).unwrap_or(set.count);
            self.pods(&set.template, metadata, count.into())
        });
        let pods = pods.collect();
        let flavors = sets.iter().map(|set| {
            let names =
                assigned(set).into_iter().flat_map(|assignment| assignment.flavors.values());
            names.cloned().collect()
        });
        let flavors = flavors.collect();
        let mut topologies = sets.iter().filter_map(|set| set.topology_request.as_ref());
        let gang = topologies.any(|topology| topology.required.is_some());
        let labels = metadata.labels.clone().unwrap_or_default();
        let indexed = false;
        Some(Announcement {
            held,
            labels,
            pods,
            flavors,
            gang,
            indexed,
            schedule: None,
            fired: None,
        })
    }

    /// Returns the pods with which a job starts.
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
        let mut priority = named.unwrap_or(Priority::NONE);
        priority.value = template.spec.priority.unwrap_or(priority.value);
        if let Some(policy) = &template.spec.preemption_policy {
            priority.may_preempt = may_preempt(Some(policy));
        }
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        (PodClass::of_template(template, namespace, priority), count.min(PODS_MAX))
    }
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// The label of objects that Kueue manages, with the name of their queue.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks why the pods of a Workload with quota are held, given the states of its admission
    /// checks. The status is written by hand: no Kueue runs here.
    #[track_caller]
    fn check(states: &[&str], expected: Held) {
        let checks = states.iter().map(|state| json!({"name": "check", "state": state}));
        let workload = json!({
            "spec": {"podSets": [{"name": "main", "count": 4, "template": {"spec": {}}}]},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True"}],
                "admissionChecks": checks.collect::<Vec<_>>(),
            },
        });
        let reading = Reading { priorities: &BTreeMap::new() };
        let workload = serde_json::from_value(workload).unwrap();
        let announcement = reading.workload(&ObjectMeta::default(), &workload).unwrap();
        assert_eq!((announcement.held, announcement.pods[0].1), (expected, 4));
    }

    /// Checks the number of announced pods of a Workload of four pods, and whether they are a gang.
    #[track_caller]
    fn check_sets(
        topology: &serde_json::Value,
        admission: &serde_json::Value,
        expected: (u64, bool),
    ) {
        let set = json!({"name": "main", "count": 4, "template": {"spec": {}}, "topologyRequest": topology});
        let workload = json!({"spec": {"podSets": [set]}, "status": {"admission": admission}});
        let reading = Reading { priorities: &BTreeMap::new() };
        let workload = serde_json::from_value(workload).unwrap();
        let announcement = reading.workload(&ObjectMeta::default(), &workload).unwrap();
        assert_eq!((announcement.pods[0].1, announcement.gang), expected);
    }

    #[test]
    fn a_workload_has_the_pods_with_quota_and_is_a_gang_if_it_requires_a_topology() {
        let rack = json!({"required": "cloud.provider.com/topology-rack"});
        let preferred = json!({"preferred": "cloud.provider.com/topology-rack"});
        let assigned = |name: &str, count: u32| json!({"podSetAssignments": [{"name": name, "flavors": {"cpu": "default"}, "count": count}]});
        check_sets(&json!(null), &json!(null), (4, false));
        check_sets(&rack, &json!({}), (4, true));
        check_sets(&preferred, &assigned("main", 4), (4, false));
        check_sets(&rack, &assigned("main", 3), (3, true));
        check_sets(&json!(null), &assigned("other", 3), (4, false));
    }

    /// A policy may read further labels after the object was observed.
    #[test]
    fn announced_pods_have_all_labels_of_their_template() {
        let template = json!({"metadata": {"labels": {"team": "a"}}, "spec": {}});
        let job = json!({"spec": {"suspend": true, "template": template}});
        let reading = Reading { priorities: &BTreeMap::new() };
        let announcement = reading.job(&serde_json::from_value(job).unwrap()).unwrap();
        assert_eq!(announcement.pods[0].0.labels, [("team".to_owned(), "a".to_owned())].into());
    }

    #[test]
    fn a_workload_waits_for_its_admission_checks() {
        check(&[], Held::QuotaReserved);
        check(&["Ready", "Ready"], Held::QuotaReserved);
        check(&["Ready", "Pending"], Held::AdmissionCheck);
        check(&["Retry"], Held::AdmissionCheck);
        check(&["Rejected"], Held::AdmissionCheck);
    }
}
