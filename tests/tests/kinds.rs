//! The kinds of other projects: objects that the API server accepts and refuses.

use tests::control_plane::{ControlPlane, Options};
use tests::crds;

const TAKEN: [&str; 14] = [
    "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: a}, spec: {minMember: 3}}",
    "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: a}, spec: {minMember: 3}}",
    "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a}, spec: {suspend: true, replicatedJobs: [
       {name: workers, replicas: 2, template: {spec: {parallelism: 4, template: {spec: {containers: []}}}}}]}}",
    "{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: a}, spec: {entrypoint: a}, status: {phase: Running}}",
    "{apiVersion: argoproj.io/v1alpha1, kind: CronWorkflow, metadata: {name: a}, spec: {schedules: ['0 9 * * *']}}",
    "{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, metadata: {name: a}, spec: {type: Scala}}",
    "{apiVersion: sparkoperator.k8s.io/v1beta2, kind: ScheduledSparkApplication, metadata: {name: a}, spec: {schedule: '@every 1h'}}",
    "{apiVersion: kueue.x-k8s.io/v1beta1, kind: Workload, metadata: {name: a}, spec: {podSets: [
       {name: main, count: 4, template: {spec: {containers: []}}}]}}",
    "{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: b}, spec: {queueName: q, podSets: []}}",
    "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: a}}",
    "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: b},
       spec: {nodeLabels: {team: red}, tolerations: [{operator: Exists}]}}",
    "{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: a},
       spec: {podTemplateRef: {name: t}, replicas: 0}}",
    "{apiVersion: autoscaling.x-k8s.io/v1alpha1, kind: CapacityBuffer, metadata: {name: b},
       spec: {podTemplateRef: {name: t}, limits: {cpu: 4, memory: 8Gi}}}",
    "{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {name: c},
       spec: {scalableRef: {apiGroup: apps, kind: Deployment, name: d}, percentage: 10}}",
];

const REFUSED: [(&str, &str); 6] = [
    ("{podTemplateRef: {name: t}}", "replicas or limits must be set"),
    ("{replicas: 1}", "exactly one of"),
    (
        "{podTemplateRef: {name: t}, scalableRef: {kind: Deployment, name: d}, replicas: 1}",
        "exactly one of",
    ),
    ("{podTemplateRef: {name: t}, replicas: -1}", "greater than or equal to 0"),
    ("{podTemplateRef: {name: t}, replicas: 1, percentage: -1}", "greater than or equal to 0"),
    ("{podTemplateRef: {name: t}, limits: {cpu: much}}", "should match"),
];

#[tokio::test]
async fn the_kinds_of_other_projects_are_served_and_validated() {
    let plane =
        ControlPlane::start_with(Options { kwok: false, ..Options::default() }).await.unwrap();
    for definition in crds::ALL {
        plane.apply_yaml(definition).await.unwrap();
    }
    for object in TAKEN {
        plane.apply_yaml(object).await.unwrap();
    }
    for (spec, reason) in REFUSED {
        let buffer = format!(
            "{{apiVersion: autoscaling.x-k8s.io/v1beta1, kind: CapacityBuffer, metadata: {{name: bad}}, spec: {spec}}}"
        );
        let error = format!("{:#}", plane.apply_yaml(&buffer).await.unwrap_err());
        assert!(error.contains(reason), "{spec} was refused with {error}");
    }
}
