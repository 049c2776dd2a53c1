//! `CustomResourceDefinitions` of other projects that no package registry has, reduced to the
//! fields that Prophet reads. [`apply_yaml`](crate::control_plane::ControlPlane::apply_yaml)
//! applies them.

/// `PodGroup` of the scheduler plugins, `scheduling.x-k8s.io/v1alpha1`.
pub const POD_GROUP: &str = include_str!("../crds/podgroups.scheduling.x-k8s.io.yaml");

/// `PodGroup` of Volcano, `scheduling.volcano.sh/v1beta1`.
pub const VOLCANO_POD_GROUP: &str = include_str!("../crds/podgroups.scheduling.volcano.sh.yaml");

/// `JobSet`, `jobset.x-k8s.io/v1alpha2`.
pub const JOB_SET: &str = include_str!("../crds/jobsets.jobset.x-k8s.io.yaml");

/// `Workload` of Kueue, `kueue.x-k8s.io/v1beta1` and `v1beta2`.
pub const WORKLOAD: &str = include_str!("../crds/workloads.kueue.x-k8s.io.yaml");

/// `ResourceFlavor` of Kueue, `kueue.x-k8s.io/v1beta1` and `v1beta2`.
pub const RESOURCE_FLAVOR: &str = include_str!("../crds/resourceflavors.kueue.x-k8s.io.yaml");

/// `Workflow` of Argo, `argoproj.io/v1alpha1`.
pub const WORKFLOW: &str = include_str!("../crds/workflows.argoproj.io.yaml");

/// `CronWorkflow` of Argo, `argoproj.io/v1alpha1`.
pub const CRON_WORKFLOW: &str = include_str!("../crds/cronworkflows.argoproj.io.yaml");

/// `SparkApplication`, `sparkoperator.k8s.io/v1beta2`.
pub const SPARK: &str = include_str!("../crds/sparkapplications.sparkoperator.k8s.io.yaml");

/// `ScheduledSparkApplication`, `sparkoperator.k8s.io/v1beta2`.
pub const SCHEDULED_SPARK: &str =
    include_str!("../crds/scheduledsparkapplications.sparkoperator.k8s.io.yaml");

/// `CapacityBuffer`, `autoscaling.x-k8s.io/v1beta1` and `v1alpha1`.
pub const CAPACITY_BUFFER: &str = include_str!("../crds/capacitybuffers.autoscaling.x-k8s.io.yaml");

/// `PodMetrics` of metrics-server, `metrics.k8s.io/v1beta1`.
pub const POD_METRICS: &str = include_str!("../crds/pods.metrics.k8s.io.yaml");

/// The definitions of kinds that the controller watches.
pub const ALL: [&str; 10] = [
    POD_GROUP,
    VOLCANO_POD_GROUP,
    JOB_SET,
    WORKLOAD,
    RESOURCE_FLAVOR,
    WORKFLOW,
    CRON_WORKFLOW,
    SPARK,
    SCHEDULED_SPARK,
    CAPACITY_BUFFER,
];
