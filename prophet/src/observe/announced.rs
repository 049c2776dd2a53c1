//! Announced pods: the future pods of suspended jobs, queued workloads and CronJobs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::class::PodClass;
use super::objects::{
    BatchJob, CronJob, JobSet, JobSpec, KueueWorkload, PodTemplate, TopologyRequest, is_true,
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

/// The state of announced pods: why they do not exist yet, do not start, or no longer need the
/// announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Their job runs: its controller has created them or creates them now.
    Created,
    /// Kueue has reserved quota for them, and admission follows soon.
    QuotaReserved,
    /// Kueue has reserved quota for them, but an admission check is not ready.
    AdmissionCheck,
    /// They wait for quota.
    NoQuota,
    /// Kueue assigns their nodes, by the free capacity beside placeholders.
    Topology,
    /// Their job is suspended.
    Suspended,
    /// Their CronJob has not fired yet.
    Scheduled,
}

/// The pods of one template that an object announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncedPods {
    /// The class of the pods, without what their PriorityClass and their flavors add.
    pub class: PodClass,
    /// The number of pods.
    pub count: u64,
    /// The name of their PriorityClass.
    pub priority_class: Option<String>,
    /// The names of the flavors that Kueue has assigned.
    pub flavors: BTreeSet<String>,
}

/// Pods that one object announces together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The state of the pods.
    pub held: Held,
    /// The labels of the object that announces the pods.
    pub labels: BTreeMap<String, String>,
    /// The pods, by template.
    pub pods: Vec<AnnouncedPods>,
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

impl Announcement {
    /// Returns the pods that a suspended Job announces, or those of a running Job whose pods have
    /// indexes, because they may be a gang.
    ///
    /// A Job with a Kueue queue announces none, because its Workload announces them.
    pub fn of_job(job: &BatchJob) -> Option<Self> {
        let BatchJob { metadata, spec, status } = job;
        let labels = metadata.labels.clone().unwrap_or_default();
        let indexed = is_indexed(spec);
        let has_ended = ["Complete", "Failed"].iter().any(|end| is_true(&status.conditions, end));
        if !(spec.suspend || indexed && !has_ended)
            || labels.contains_key(QUEUE_LABEL)
            || metadata.deletion_timestamp.is_some()
        {
            return None;
        }
        // A JobSet announces the pods of all its jobs together.
        if metadata.owner_references.iter().flatten().any(|owner| owner.kind == "JobSet") {
            return None;
        }
        let held = if spec.suspend { Held::Suspended } else { Held::Created };
        let pods = vec![AnnouncedPods::of_job(spec, metadata)];
        Some(Self { held, labels, pods, gang: false, indexed, schedule: None, fired: None })
    }

    /// Returns the pods of the next job of a CronJob.
    ///
    /// A CronJob announces none if it, or its next job, is suspended, if a Kueue queue will hold
    /// the job, or if its concurrency policy is `Forbid` and a job still runs.
    pub fn of_cron_job(cron: &CronJob) -> Option<Self> {
        let CronJob { metadata, spec, status } = cron;
        let job = &spec.job_template;
        let idle = spec.suspend || job.spec.suspend || metadata.deletion_timestamp.is_some();
        let forbidden = spec.concurrency_policy == "Forbid" && !status.active.is_empty();
        if idle || forbidden || job.metadata.labels.contains_key(QUEUE_LABEL) {
            return None;
        }
        Some(Self {
            held: Held::Scheduled,
            labels: job.metadata.labels.clone(),
            pods: vec![AnnouncedPods::of_job(&job.spec, metadata)],
            gang: false,
            indexed: is_indexed(&job.spec),
            schedule: Some(Schedule::parse(&spec.schedule, spec.time_zone.as_deref())?),
            fired: status.last_schedule_time.as_ref().map(|time| time.0.as_second()),
        })
    }

    /// Returns the pods of all jobs of a suspended JobSet together. A JobSet with a Kueue queue
    /// announces none.
    pub fn of_job_set(metadata: &ObjectMeta, set: &JobSet) -> Option<Self> {
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
            AnnouncedPods::of(&job.template.spec.template, metadata, count)
        });
        let (held, pods) = (Held::Suspended, pods.collect());
        let (gang, indexed) = (true, false);
        Some(Self { held, labels, pods, gang, indexed, schedule: None, fired: None })
    }

    /// Returns the pods of a Kueue Workload that is neither admitted nor finished: of each set,
    /// those that have quota, or all while none have.
    ///
    /// They are no gang: either they may run on any nodes, or topology-aware scheduling assigns
    /// their nodes.
    pub fn of_workload(metadata: &ObjectMeta, workload: &KueueWorkload) -> Option<Self> {
        let KueueWorkload { spec, status } = workload;
        let conditions = &status.conditions;
        if is_true(conditions, "Admitted")
            || is_true(conditions, "Finished")
            || metadata.deletion_timestamp.is_some()
        {
            return None;
        }
        let checked = status.admission_checks.iter().all(|check| check.state == "Ready");
        let assignments = || status.admission.iter().flat_map(|all| &all.pod_set_assignments);
        let has_topology = spec
            .pod_sets
            .iter()
            .filter_map(|set| set.topology_request.as_ref())
            .any(requires_topology)
            || assignments().any(|of| {
                of.topology_assignment.is_some() || of.delayed_topology_request.is_some()
            });
        let held = match (is_true(conditions, "QuotaReserved"), checked) {
            _ if has_topology => Held::Topology,
            (true, true) => Held::QuotaReserved,
            (true, false) => Held::AdmissionCheck,
            (false, _) => Held::NoQuota,
        };
        let pods = spec.pod_sets.iter().map(|set| {
            let assigned = assignments().find(|assignment| assignment.name == set.name);
            let count = assigned.and_then(|assignment| assignment.count).unwrap_or(set.count);
            let flavors = assigned.into_iter().flat_map(|of| of.flavors.values().cloned());
            AnnouncedPods {
                flavors: flavors.collect(),
                ..AnnouncedPods::of(&set.template, metadata, count.into())
            }
        });
        let (labels, pods) = (metadata.labels.clone().unwrap_or_default(), pods.collect());
        let (gang, indexed) = (false, false);
        Some(Self { held, labels, pods, gang, indexed, schedule: None, fired: None })
    }
}

impl AnnouncedPods {
    /// Returns the pods with which a job starts.
    fn of_job(spec: &JobSpec, metadata: &ObjectMeta) -> Self {
        let parallelism = spec.parallelism.unwrap_or(1);
        let count =
            spec.completions.map_or(parallelism, |completions| completions.min(parallelism));
        Self::of(&spec.template, metadata, count.into())
    }

    fn of(template: &PodTemplate, metadata: &ObjectMeta, count: u64) -> Self {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Self {
            class: PodClass::of_template(template, namespace),
            count: count.min(PODS_MAX),
            priority_class: template.spec.priority_class_name.clone(),
            flavors: BTreeSet::new(),
        }
    }
}

/// Whether only topology-aware scheduling places the pods of a set.
fn requires_topology(request: &TopologyRequest) -> bool {
    let TopologyRequest { required, preferred, unconstrained } = request;
    required.is_some() || preferred.is_some() || *unconstrained == Some(true)
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
        let workload = serde_json::from_value(workload).unwrap();
        let announcement = Announcement::of_workload(&ObjectMeta::default(), &workload).unwrap();
        assert_eq!((announcement.held, announcement.pods[0].count), (expected, 4));
    }

    /// Checks the state and the number of the announced pods of a Workload of four pods.
    #[track_caller]
    fn check_sets(
        topology: &serde_json::Value,
        admission: &serde_json::Value,
        expected: (Held, u64),
    ) {
        let set = json!({"name": "main", "count": 4, "template": {"spec": {}}, "topologyRequest": topology});
        let workload = json!({"spec": {"podSets": [set]}, "status": {"admission": admission}});
        let workload = serde_json::from_value(workload).unwrap();
        let announcement = Announcement::of_workload(&ObjectMeta::default(), &workload).unwrap();
        assert_eq!((announcement.held, announcement.pods[0].count), expected);
    }

    #[test]
    fn a_workload_has_the_pods_with_quota() {
        let assigned = |name: &str, count: u32| json!({"podSetAssignments": [{"name": name, "flavors": {"cpu": "default"}, "count": count}]});
        check_sets(&json!(null), &json!(null), (Held::NoQuota, 4));
        check_sets(&json!({}), &assigned("main", 3), (Held::NoQuota, 3));
        check_sets(&json!(null), &assigned("other", 3), (Held::NoQuota, 4));
    }

    /// Kueue subtracts the requests of placeholders from the free capacity of a node.
    #[test]
    fn kueue_assigns_the_nodes_of_a_workload_with_a_topology() {
        let rack = "cloud.provider.com/topology-rack";
        check_sets(&json!({"required": rack}), &json!({}), (Held::Topology, 4));
        check_sets(&json!({"preferred": rack}), &json!(null), (Held::Topology, 4));
        check_sets(&json!({"unconstrained": true}), &json!(null), (Held::Topology, 4));
        check_sets(&json!({"unconstrained": false}), &json!(null), (Held::NoQuota, 4));
        let assigned = |more: &str, value: serde_json::Value| json!({"podSetAssignments": [{"name": "main", "count": 3, more: value}]});
        let levels = json!({"levels": ["kubernetes.io/hostname"], "domains": []});
        check_sets(&json!(null), &assigned("topologyAssignment", levels), (Held::Topology, 3));
        let delayed = assigned("delayedTopologyRequest", json!("Pending"));
        check_sets(&json!(null), &delayed, (Held::Topology, 3));
    }

    /// Checks whether a Job with `more` in its spec and this condition announces pods.
    #[track_caller]
    fn check_job(more: &serde_json::Value, ended: Option<&str>, expected: Option<Held>) {
        let mut spec = json!({"template": {"spec": {}}});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let conditions = ended.map(|end| json!([{"type": end, "status": "True"}]));
        let job = json!({"spec": spec, "status": {"conditions": conditions.unwrap_or(json!([]))}});
        let announcement = Announcement::of_job(&serde_json::from_value(job).unwrap());
        assert_eq!(announcement.map(|announcement| announcement.held), expected);
    }

    #[test]
    fn a_job_is_announced_while_it_is_suspended_or_its_pods_have_indexes() {
        let indexed = json!({"completionMode": "Indexed"});
        check_job(&json!({}), None, None);
        check_job(&json!({"suspend": true}), None, Some(Held::Suspended));
        check_job(&indexed, None, Some(Held::Created));
        check_job(&indexed, Some("SuccessCriteriaMet"), Some(Held::Created));
        check_job(&indexed, Some("Complete"), None);
        check_job(&indexed, Some("Failed"), None);
    }

    /// A policy may read further labels after the object was observed.
    #[test]
    fn announced_pods_have_all_labels_of_their_template() {
        let template = json!({"metadata": {"labels": {"team": "a"}}, "spec": {}});
        let job = json!({"spec": {"suspend": true, "template": template}});
        let announcement = Announcement::of_job(&serde_json::from_value(job).unwrap()).unwrap();
        assert_eq!(announcement.pods[0].class.labels, [("team".to_owned(), "a".to_owned())].into());
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
