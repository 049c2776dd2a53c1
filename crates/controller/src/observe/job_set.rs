//! The pods that JobSets announce.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::announced::{
    AnnouncedPods, Announcement, Held, JOB_NAME_LABELS, QUEUE_LABEL, pods_left, suspended_since,
    with_labels,
};
use super::objects::{
    DependsOn, JobSet, JobStatus, PodTemplate, ReplicatedJob, ReplicatedJobStatus, is_true,
};
use super::steps::{STEPS_MAX, SeenState, SeenStep, SeenWorkflow, template};

impl Announcement {
    /// Returns the pods with which a suspended JobSet starts, or the steps of a running one whose
    /// jobs depend on others. A JobSet with a Kueue queue announces none.
    pub fn of_job_set(metadata: &ObjectMeta, set: &JobSet) -> Option<Self> {
        let labels = metadata.labels.clone().unwrap_or_default();
        if labels.contains_key(QUEUE_LABEL) || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let ended = ["Completed", "Failed"];
        if ended.iter().any(|end| is_true(&set.status.conditions, end)) {
            return None;
        }
        let depends = |job: &&ReplicatedJob| !job.depends_on.is_empty();
        if !set.spec.suspend {
            return set.spec.replicated_jobs.iter().any(|job| depends(&job)).then(|| {
                let (workflow, pods) = steps(metadata, set);
                let workflow = Some(workflow);
                Self { gang: true, workflow, ..Self::new(Held::Created, labels, pods) }
            });
        }
        let pods = set.spec.replicated_jobs.iter().filter(|job| !depends(job)).map(|job| {
            let jobs = replicas(job).saturating_sub(status(set, job).succeeded);
            AnnouncedPods::of(&pod_template(metadata, job), metadata, pods_of(job, jobs))
        });
        let (held, pods) = (Held::Suspended, pods.collect());
        let since = suspended_since(&set.status.conditions, metadata);
        Some(Self { gang: true, since, ..Self::new(held, labels, pods) })
    }
}

fn replicas(job: &ReplicatedJob) -> u32 {
    job.replicas.unwrap_or(1)
}

fn status(set: &JobSet, job: &ReplicatedJob) -> ReplicatedJobStatus {
    let mut all = set.status.replicated_jobs_status.iter();
    all.find(|status| status.name == job.name).cloned().unwrap_or_default()
}

/// The template of the pods of a group, with the labels that the controllers of JobSets and Jobs
/// add. The names of jobs begin with those of the JobSet and the group.
fn pod_template(metadata: &ObjectMeta, job: &ReplicatedJob) -> PodTemplate {
    let set = metadata.name.clone().unwrap_or_default();
    let name = format!("{set}-{}", job.name);
    let [job_name, legacy_job_name] = JOB_NAME_LABELS.map(|key| (key, name.clone()));
    let labels = [
        ("jobset.sigs.k8s.io/jobset-name", set),
        ("jobset.sigs.k8s.io/replicatedjob-name", job.name.clone()),
        job_name,
        legacy_job_name,
    ];
    with_labels(&job.template.spec.template, labels)
}

/// The number of pods with which this many of the jobs start.
fn pods_of(job: &ReplicatedJob, jobs: u32) -> u64 {
    let each = pods_left(&job.template.spec, &JobStatus::default());
    u64::from(each).saturating_mul(jobs.into())
}

/// The steps of a JobSet, and the pods of its jobs.
///
/// A step is a group of equal jobs, which ends when all of them succeeded. Where others depend on a
/// group that is ready, its start is a step, too.
fn steps(metadata: &ObjectMeta, set: &JobSet) -> (SeenWorkflow, Vec<AnnouncedPods>) {
    let jobs = &set.spec.replicated_jobs[..set.spec.replicated_jobs.len().min(STEPS_MAX / 2)];
    let all_depend_on: Vec<&DependsOn> = jobs.iter().flat_map(|job| &job.depends_on).collect();
    let is_awaited = |job: &&ReplicatedJob| {
        all_depend_on.iter().any(|on| on.name == job.name && on.status == READY)
    };
    let starts: Vec<&ReplicatedJob> = jobs.iter().filter(is_awaited).collect();
    // The groups come first, then their starts. An unknown group has no place, so that what depends
    // on it never starts.
    let place = |DependsOn { name, status }: &DependsOn| {
        let among = jobs.iter().position(|job| job.name == *name);
        let among_starts = starts.iter().position(|job| job.name == *name);
        let at = if status == READY { among_starts.map(|at| jobs.len() + at) } else { among };
        at.unwrap_or(usize::MAX)
    };
    let step = |job: &ReplicatedJob, name: String, is_start: bool| {
        let ReplicatedJobStatus { ready, active, succeeded, failed, .. } = status(set, job);
        let done = if is_start { succeeded.saturating_add(ready) } else { succeeded };
        let state = if done >= replicas(job) {
            SeenState::Ended { ran: None, skipped: false }
        } else if ready.max(active).max(succeeded).max(failed) > 0 {
            SeenState::Running(None)
        } else {
            SeenState::Waiting
        };
        SeenStep { name, after: job.depends_on.iter().map(place).collect(), state, pods: None }
    };
    let pods = jobs.iter().map(|job| AnnouncedPods::of(&pod_template(metadata, job), metadata, 1));
    let groups = jobs.iter().enumerate().map(|(at, job)| {
        let count = pods_of(job, replicas(job));
        SeenStep { pods: Some((at, count)), ..step(job, job.name.clone(), false) }
    });
    let starts = starts.iter().map(|job| step(job, format!("{} ready", job.name), true));
    let steps = groups.chain(starts).collect();
    let template = template("JobSet", metadata, None);
    (SeenWorkflow { template, steps, parallelism: None }, pods.collect())
}

/// The status of a dependency on a group whose pods are ready. Others are on its end.
const READY: &str = "Ready";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn announced(suspend: bool, statuses: &serde_json::Value) -> Option<Announcement> {
        let job = |name: &str, replicas: u32, depends_on: serde_json::Value| {
            json!({"name": name, "replicas": replicas, "dependsOn": depends_on,
                "template": {"spec": {"parallelism": 3, "template": {"spec": {}}}}})
        };
        let set = json!({
            "spec": {"suspend": suspend, "replicatedJobs": [
                job("leader", 1, json!([])),
                job("workers", 2, json!([{"name": "leader", "status": "Ready"}])),
                job("report", 1, json!([{"name": "workers", "status": "Complete"}])),
            ]},
            "status": {"replicatedJobsStatus": statuses},
        });
        let metadata = ObjectMeta {
            name: Some("train-7".into()),
            namespace: Some("batch".into()),
            ..ObjectMeta::default()
        };
        Announcement::of_job_set(&metadata, &serde_json::from_value(set).unwrap())
    }

    /// Checks the steps of a JobSet, in a line each.
    #[track_caller]
    fn check(statuses: &serde_json::Value, expected: &[&str]) {
        let workflow = announced(false, statuses).unwrap().workflow.unwrap();
        assert_eq!(workflow.template, "JobSet batch/train");
        let line = |step: &SeenStep| {
            let state = match step.state {
                SeenState::Waiting => "waits",
                SeenState::Running(_) => "runs",
                SeenState::Ended { .. } => "ended",
            };
            let pods = step.pods.map_or(0, |(_, count)| count);
            format!("{} {state}, {pods} pods, after {:?}", step.name, step.after)
        };
        assert_eq!(workflow.steps.iter().map(line).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn jobs_that_depend_on_others_are_steps() {
        let running = json!([{"name": "leader", "active": 1}]);
        check(
            &running,
            &[
                "leader runs, 3 pods, after []",
                "workers waits, 6 pods, after [3]",
                "report waits, 3 pods, after [1]",
                "leader ready runs, 0 pods, after []",
            ],
        );
        let later = json!([
            {"name": "leader", "ready": 1, "active": 1},
            {"name": "workers", "succeeded": 2},
        ]);
        check(
            &later,
            &[
                "leader runs, 3 pods, after []",
                "workers ended, 6 pods, after [3]",
                "report waits, 3 pods, after [1]",
                "leader ready ended, 0 pods, after []",
            ],
        );
    }

    /// A JobSet starts with the jobs that depend on no other.
    #[test]
    fn a_suspended_job_set_announces_the_pods_that_start_first() {
        let announced = announced(true, &json!([])).unwrap();
        assert_eq!(announced.pods.iter().map(|pods| pods.count).collect::<Vec<_>>(), [3]);
        assert_eq!(announced.workflow, None);
    }
}
