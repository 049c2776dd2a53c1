//! Announced pods: the future pods of suspended jobs, queued workloads and CronJobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::admission::Admission;
use super::class::PodClass;
use super::constraints::cut;
use super::objects::{
    BatchJob, Condition, CronJob, JobSpec, JobStatus, KueueWorkload, PodTemplate, TopologyRequest,
    is_true,
};
use super::plan::{Plan, RecalledPlan};
use super::schedule::Schedule;
use super::steps::SeenWorkflow;

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
    /// Their CronJob has a schedule that cannot be read.
    Unscheduled,
}

/// The pods of one template that an object announces.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnouncedPods {
    /// The class of the pods as the API server would admit them, without what their flavors add.
    pub class: PodClass,
    /// The number of pods.
    pub count: u64,
    /// The template of the pods.
    template: Arc<PodTemplate>,
    /// The names of the flavors that Kueue has assigned.
    pub flavors: BTreeSet<String>,
}

/// Pods that one object announces together.
#[derive(Clone, Debug, PartialEq)]
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
    /// Since when the pods of a suspended Job or JobSet have been held, in Unix seconds.
    pub since: Option<i64>,
    /// When the pods come that a PlannedDemand announces.
    pub plan: Option<Plan>,
    /// What the status of a PlannedDemand has of the pods that came.
    pub recalled: Option<RecalledPlan>,
    /// The version of a PlannedDemand.
    pub resource_version: Option<String>,
    /// The steps of a workflow that runs.
    pub workflow: Option<SeenWorkflow>,
    /// The watch and the name of the object whose pods a Kueue Workload announces, if it is a Job
    /// or a JobSet.
    pub queued: Option<(&'static str, String)>,
}

/// How long the pods of a suspended Job or JobSet are announced: an hour. A job that should have
/// been released by then may never be.
pub(crate) const ANNOUNCED_SECONDS: i64 = 3_600;

/// The names of the watches of Jobs, JobSets and Kueue's Workloads.
pub(super) const JOBS: &str = "jobs";
pub(super) const JOB_SETS: &str = "jobsets";
pub(super) const WORKLOADS: &str = "workloads";

/// The name of the watch of CronJobs.
pub(super) const CRON_JOBS: &str = "cronjobs";

/// The maximum number of pods per template: a million. A larger number in an object is treated as a
/// mistake and lowered to this one.
pub const PODS_MAX: u64 = 1_000_000;

impl Announcement {
    /// Pods without a time, which are no gang.
    pub(super) fn new(
        held: Held,
        labels: BTreeMap<String, String>,
        pods: Vec<AnnouncedPods>,
    ) -> Self {
        Self {
            held,
            labels,
            pods,
            gang: false,
            indexed: false,
            schedule: None,
            fired: None,
            since: None,
            plan: None,
            recalled: None,
            resource_version: None,
            workflow: None,
            queued: None,
        }
    }

    /// Pods that are created by a schedule, which has a text, a time zone and the last time that
    /// was used.
    pub(super) fn scheduled(
        (text, zone, last): (&str, Option<&str>, Option<&Time>),
        metadata: &ObjectMeta,
        labels: BTreeMap<String, String>,
        pods: Vec<AnnouncedPods>,
    ) -> Self {
        let seconds = |time: &Time| time.0.as_second();
        let since = last.or(metadata.creation_timestamp.as_ref()).map_or(0, seconds);
        let schedule = Schedule::parse(text, zone, since);
        let held = if schedule.is_some() { Held::Scheduled } else { Held::Unscheduled };
        Self { schedule, fired: last.map(seconds), ..Self::new(held, labels, pods) }
    }

    /// Returns the pods that a suspended Job announces, or those of a running Job whose pods have
    /// indexes, because they may be a gang.
    ///
    /// A Job with a Kueue queue announces none, because its Workload announces them. Kueue may also
    /// manage Jobs without a queue ([`Announcement::queued`]).
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
        let pods = vec![AnnouncedPods::of_job(spec, status, metadata)];
        let since = suspended_since(&status.conditions, metadata);
        Some(Self { indexed, since, ..Self::new(held, labels, pods) })
    }

    /// Returns the pods of the next job of a CronJob.
    ///
    /// A CronJob announces none if it, or its next job, is suspended, if a Kueue queue will hold
    /// the job, or if a job still runs and the concurrency policy is `Forbid`. With `Replace`, a
    /// pod less for each job that runs is announced.
    pub fn of_cron_job(cron: &CronJob) -> Option<Self> {
        let CronJob { metadata, spec, status } = cron;
        let job = &spec.job_template;
        let idle = spec.suspend || job.spec.suspend || metadata.deletion_timestamp.is_some();
        if idle || job.metadata.labels.contains_key(QUEUE_LABEL) {
            return None;
        }
        let zone = spec.time_zone.as_deref();
        let times = (spec.schedule.as_str(), zone, status.last_schedule_time.as_ref());
        // Of the values, only the beginning is known: the name of the CronJob.
        let labels = JOB_NAME_LABELS.map(|key| (key, metadata.name.clone().unwrap_or_default()));
        let template = with_labels(&job.spec.template, labels);
        let left = pods_left(&job.spec, &JobStatus::default());
        let pods = vec![AnnouncedPods::of(&template, metadata, left.into())];
        let pods = beside_active(pods, &spec.concurrency_policy, status.active.len())?;
        let indexed = is_indexed(&job.spec);
        let labels = job.metadata.labels.clone();
        Some(Self { indexed, ..Self::scheduled(times, metadata, labels, pods) })
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
        let mut owners = metadata.owner_references.iter().flatten();
        let queued = owners.find_map(|owner| {
            let group = owner.api_version.split('/').next().unwrap_or_default();
            let source = match (group, owner.kind.as_str()) {
                ("batch", "Job") => JOBS,
                ("jobset.x-k8s.io", "JobSet") => JOB_SETS,
                _ => return None,
            };
            Some((source, owner.name.clone()))
        });
        // Kueue takes the labels of the Job's name out of the templates.
        let job = queued.as_ref().filter(|(source, _)| *source == JOBS);
        let named = |template: &PodTemplate| match &job {
            Some((_, name)) => {
                with_labels(template, JOB_NAME_LABELS.map(|key| (key, name.clone())))
            }
            None => template.clone(),
        };
        let pods = spec.pod_sets.iter().map(|set| {
            let assigned = assignments().find(|assignment| assignment.name == set.name);
            // Pods that are no longer needed have no quota.
            let ended = status.reclaimable_pods.iter().filter(|pods| pods.name == set.name);
            let left = ended.fold(set.count, |count, pods| count.saturating_sub(pods.count));
            let count = assigned.and_then(|assignment| assignment.count).unwrap_or(left).min(left);
            let flavors = assigned.into_iter().flat_map(|of| of.flavors.values().cloned());
            AnnouncedPods {
                flavors: flavors.collect(),
                ..AnnouncedPods::of(&named(&set.template), metadata, count.into())
            }
        });
        let (labels, pods) = (metadata.labels.clone().unwrap_or_default(), pods.collect());
        Some(Self { queued, ..Self::new(held, labels, pods) })
    }
}

/// The pods of the next run of a schedule with this concurrency policy, while `active` runs have
/// not ended. `None` if it does not start. Of a run that is replaced, at least one pod still runs,
/// whose node another pod takes; how many do is not known.
pub(super) fn beside_active(
    mut pods: Vec<AnnouncedPods>,
    concurrency_policy: &str,
    active: usize,
) -> Option<Vec<AnnouncedPods>> {
    if concurrency_policy == "Forbid" && active > 0 {
        return None;
    }
    let mut replaced = if concurrency_policy == "Replace" { active as u64 } else { 0 };
    for AnnouncedPods { count, .. } in &mut pods {
        let fewer = count.saturating_sub(replaced);
        replaced -= *count - fewer;
        *count = fewer;
    }
    Some(pods)
}

/// Since when a Job or a JobSet has been suspended, in Unix seconds.
pub(super) fn suspended_since(conditions: &[Condition], metadata: &ObjectMeta) -> Option<i64> {
    let suspended = conditions.iter().find(|condition| condition.type_ == "Suspended");
    let since = suspended.filter(|condition| condition.status == "True");
    let since = since.and_then(|condition| condition.last_transition_time.as_ref());
    since.or(metadata.creation_timestamp.as_ref()).map(|time| time.0.as_second())
}

impl AnnouncedPods {
    /// Returns the pods with which a job starts, or starts again.
    fn of_job(spec: &JobSpec, status: &JobStatus, metadata: &ObjectMeta) -> Self {
        Self::of(&spec.template, metadata, pods_left(spec, status).into())
    }

    /// Returns another number of the same pods.
    pub(super) fn with_count(&self, count: u64) -> Self {
        Self { count: count.min(PODS_MAX), ..self.clone() }
    }

    /// Returns a number of pods of a template.
    pub(super) fn of(template: &PodTemplate, metadata: &ObjectMeta, count: u64) -> Self {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let mut template = template.clone();
        cut(&mut template.spec);
        Self {
            class: PodClass::of_template(&template, namespace),
            count: count.min(PODS_MAX),
            template: Arc::new(template),
            flavors: BTreeSet::new(),
        }
    }
}

impl Announcement {
    /// Sets the classes of the pods to those that the API server would admit now.
    pub(super) fn admit(&mut self, admission: &Admission) {
        for AnnouncedPods { class, template, .. } in &mut self.pods {
            let spec = admission.admitted(&template.spec, &class.namespace);
            let admitted = PodTemplate { metadata: template.metadata.clone(), spec };
            *class = PodClass::of_template(&admitted, &class.namespace);
        }
    }
}

/// The number of pods that a job creates when it starts or is resumed: as many as run at once, or
/// those that are left to complete. Nothing is left of a job whose success or failure is decided,
/// and of one without a number of completions, once a pod has succeeded (Kubernetes, `manageJob`).
pub(super) fn pods_left(spec: &JobSpec, status: &JobStatus) -> u32 {
    let parallelism = spec.parallelism.unwrap_or(1);
    let decided = ["SuccessCriteriaMet", "FailureTarget"];
    if spec.suspend && decided.iter().any(|end| is_true(&status.conditions, end)) {
        return 0;
    }
    match spec.completions {
        Some(completions) => {
            let ended = status.succeeded.saturating_add(count_indexes(&status.failed_indexes));
            completions.saturating_sub(ended).min(parallelism)
        }
        None if status.succeeded > 0 => 0,
        None => parallelism,
    }
}

/// The number of indexes in a list of them, such as `1,3-5`. Parts that cannot be read count as
/// none.
fn count_indexes(indexes: &str) -> u32 {
    let count = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        Some(to.checked_sub(from)?.saturating_add(1))
    };
    indexes.split(',').filter_map(count).fold(0, u32::saturating_add)
}

/// Whether only topology-aware scheduling places the pods of a set.
fn requires_topology(request: &TopologyRequest) -> bool {
    let TopologyRequest { required, preferred, unconstrained } = request;
    required.is_some() || preferred.is_some() || *unconstrained == Some(true)
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// The labels of the pods of a Job with the name of the Job, which its controller adds (Kubernetes,
/// `JobNameLabel` and `LegacyJobNameLabel`). The template of a Job has them once it is created.
pub(super) const JOB_NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// A template with labels that a controller adds.
pub(super) fn with_labels<const N: usize>(
    template: &PodTemplate,
    labels: [(&str, String); N],
) -> PodTemplate {
    let mut template = template.clone();
    template.metadata.labels.extend(labels.map(|(key, value)| (key.to_owned(), value)));
    template
}

/// The label of objects that Kueue manages, with the name of their queue.
pub(super) const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

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

    /// Checks the number of pods of a suspended Job with this specification and status.
    #[track_caller]
    fn check_left(spec: serde_json::Value, status: &serde_json::Value, expected: u64) {
        let mut spec = spec;
        spec["suspend"] = json!(true);
        let job = serde_json::from_value(json!({"spec": spec, "status": status})).unwrap();
        assert_eq!(Announcement::of_job(&job).unwrap().pods[0].count, expected, "{spec} {status}");
    }

    #[test]
    fn a_job_that_is_resumed_has_the_pods_that_are_left() {
        let six = json!({"parallelism": 6, "completions": 6});
        check_left(six.clone(), &json!({}), 6);
        check_left(six.clone(), &json!({"succeeded": 5}), 1);
        check_left(six.clone(), &json!({"succeeded": 7}), 0);
        check_left(json!({"parallelism": 2, "completions": 9}), &json!({"succeeded": 3}), 2);
        let indexed = json!({"parallelism": 6, "completions": 6, "completionMode": "Indexed"});
        check_left(indexed.clone(), &json!({"succeeded": 1, "failedIndexes": "0,2-3"}), 2);
        check_left(indexed.clone(), &json!({"failedIndexes": "x,5-2,4294967295-0"}), 6);
        let met = json!([{"type": "SuccessCriteriaMet", "status": "True"}]);
        check_left(indexed, &json!({"succeeded": 1, "conditions": met}), 0);
        // A queue of work: no pod starts once one has succeeded.
        check_left(json!({"parallelism": 3}), &json!({}), 3);
        check_left(json!({"parallelism": 3}), &json!({"succeeded": 1}), 0);
    }

    #[test]
    fn the_pods_that_have_ended_are_not_announced_again() {
        let job = |name: &str| {
            json!({"name": name, "replicas": 3, "template": {"spec": {
                "parallelism": 4, "completions": 2, "template": {"spec": {}},
            }}})
        };
        let set = json!({
            "spec": {"suspend": true, "replicatedJobs": [job("a"), job("b")]},
            "status": {"replicatedJobsStatus": [{"name": "b", "succeeded": 1}]},
        });
        let set = serde_json::from_value(set).unwrap();
        let announced = Announcement::of_job_set(&ObjectMeta::default(), &set).unwrap();
        assert_eq!(announced.pods.iter().map(|pods| pods.count).collect::<Vec<_>>(), [6, 4]);
        let workload = json!({
            "spec": {"podSets": [{"name": "main", "count": 4, "template": {"spec": {}}}]},
            "status": {"reclaimablePods": [{"name": "main", "count": 3}]},
        });
        let workload = serde_json::from_value(workload).unwrap();
        let announced = Announcement::of_workload(&ObjectMeta::default(), &workload).unwrap();
        assert_eq!(announced.pods[0].count, 1);
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

    /// A policy that selects the pods of Jobs selects them before they exist, too.
    #[test]
    fn pods_of_a_cron_job_have_the_labels_of_their_job() {
        let cron = json!({
            "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": {}}}}},
        });
        let announced = Announcement::of_cron_job(&serde_json::from_value(cron).unwrap()).unwrap();
        let labels = JOB_NAME_LABELS.map(|key| (key.to_owned(), "nightly".to_owned()));
        assert_eq!(announced.pods[0].class.labels, labels.into());
    }

    /// At least one pod of each job that is replaced leaves its node to another one.
    #[test]
    fn a_cron_job_that_runs_announces_the_pods_that_come_beside_the_others() {
        let announced = |policy: &str, parallelism: u32, active: serde_json::Value| {
            let template = json!({"parallelism": parallelism, "completions": parallelism,
                "template": {"spec": {}}});
            let cron = json!({
                "spec": {"schedule": "0 3 * * *", "concurrencyPolicy": policy,
                    "jobTemplate": {"spec": template}},
                "status": {"active": active},
            });
            let announced = Announcement::of_cron_job(&serde_json::from_value(cron).unwrap());
            announced.map(|announced| announced.pods[0].count)
        };
        let all = ["Allow", "Forbid", "Replace"];
        assert_eq!(all.map(|policy| announced(policy, 5, json!([]))), [Some(5); 3]);
        assert_eq!(all.map(|of| announced(of, 5, json!([{}]))), [Some(5), None, Some(4)]);
        assert_eq!(announced("Replace", 1, json!([{}])), Some(0));
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
