//! The autoscaler of the tests, over the real API server and the emulated Auto Scaling API: the
//! real cluster-autoscaler ([`real`]) if `PROPHET_CLUSTER_AUTOSCALER` has its path, else a small
//! stand-in.
//!
//! The stand-in has the behaviour of cluster-autoscaler that affects placeholders. It shares no
//! code with the project's simulator. A scan reads the cluster and the groups ([`observe`]), places
//! bound and pending pods ([`place`]), scales up ([`scale_up`]) and down ([`scale_down`]), and
//! writes the status ([`status`]) and Events ([`events`]). It does not implement anti-affinity
//! between pods, topology spread, volumes, the eviction of pods to empty a node, or the balancing
//! of similar groups.
//!
//! Its rules, the source of each in cluster-autoscaler 1.36 (below `cluster-autoscaler/`), and a
//! scenario of `tests/node_groups.rs` or `tests/placeholders` in which a wrong reading would show:
//!
//! - Pods below the cutoff launch and hold nothing:
//!   `core/podlistprocessor/filter_out_expendable.go`. Scenario:
//!   `expendable_gated_and_impossible_pods_launch_nothing`.
//! - Only pods that the scheduler calls unschedulable count; gated ones do not:
//!   `utils/kubernetes/listers.go`. Scenario:
//!   `expendable_gated_and_impossible_pods_launch_nothing`.
//! - A nominated pod is on its node: `core/podlistprocessor/filter_out_schedulable.go`. Scenario:
//!   `a_pod_that_preempts_launches_nothing`.
//! - A group without nodes has a node of its type's capacity or its tags, with a kube-proxy pod of
//!   100m: `cloudprovider/aws/aws_cloud_provider.go` (`TemplateNodeInfo`, `BuildKubeProxy`).
//!   Scenario: `the_template_of_a_group_is_its_type_and_later_a_node`.
//! - A template carries the DaemonSets that it admits: `simulator/node_info_utils.go`. Scenario:
//!   `the_template_of_a_group_is_its_type_and_later_a_node`.
//! - A node that has been ready for a minute is the template, and is remembered:
//!   `processors/nodeinfosprovider/mixed_nodeinfos_processor.go`. Scenario:
//!   `the_template_of_a_group_is_its_type_and_later_a_node`.
//! - Nodes that are requested and not ready have room: `clusterstate/clusterstate.go`
//!   (`GetUpcomingNodes`). Scenario:
//!   `a_group_grows_for_pending_pods_and_shrinks_when_they_are_gone`.
//! - Pods are packed first fit, the larger first: `estimator/binpacking_estimator.go`. Scenario:
//!   `a_group_grows_for_pending_pods_and_shrinks_when_they_are_gone`.
//! - The group with the least waste grows: `expander/waste/waste.go`. Scenario:
//!   `a_group_grows_for_pending_pods_and_shrinks_when_they_are_gone`.
//! - Groups that back off are left out, and their backoff doubles:
//!   `utils/backoff/exponential_backoff.go`. Scenario:
//!   `a_group_whose_nodes_do_not_come_backs_off_and_another_takes_its_pods`.
//! - An instance without a node is given up after the provision time: `core/static_autoscaler.go`
//!   (`removeOldUnregisteredNodes`). Scenario:
//!   `a_group_whose_nodes_do_not_come_backs_off_and_another_takes_its_pods`.
//! - The cluster grows to `--max-nodes-total`: `core/scaleup/orchestrator/orchestrator.go`.
//!   Scenario: `the_cluster_grows_to_its_limit_and_gpus_come_late`.
//! - A GPU node is not ready before its GPUs are: `processors/customresources/gpu_processor.go`.
//!   Scenario: `the_cluster_grows_to_its_limit_and_gpus_come_late`.
//! - `NotTriggerScaleUp` has a reason for each group:
//!   `processors/status/eventing_scale_up_processor.go`. Scenario:
//!   `the_template_of_a_group_is_its_type_and_later_a_node`.
//! - A node that no pod holds for the unneeded time goes: `core/scaledown/unneeded/nodes.go`.
//!   Scenario: `a_group_grows_for_pending_pods_and_shrinks_when_they_are_gone`.
//! - No node goes within `--scale-down-delay-after-add` of a scale-up: `core/static_autoscaler.go`
//!   (`isScaleDownInCooldown`). Scenario: `a_delay_after_a_scale_up_keeps_nodes`.
//! - A node is tainted, and checked again, before it goes: `core/scaledown/actuation/actuator.go`.
//!   Scenario: `a_group_grows_for_pending_pods_and_shrinks_when_they_are_gone`.
//! - A buffer's pods are pending pods: `capacitybuffer/`. Scenario:
//!   `a_capacity_buffer_keeps_nodes_without_pods`.

mod buffers;
mod counters;
mod events;
mod fit;
pub mod flags;
mod observe;
mod place;
mod real;
mod scale_down;
mod scale_up;
mod scan;
mod settings;
mod status;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::PodSpec;

use self::counters::lock;

pub use self::counters::{Counters, Removal, ScaleUp};
use self::real::RealAutoscaler;
pub use self::settings::AutoscalerSettings;
use crate::background::Background;
use crate::cluster_autoscaler::{self, VARIABLE};
use crate::control_plane::{ControlPlane, connect};
use crate::moto::{self, Moto};
use crate::wait;

/// A running autoscaler, stopped on drop.
#[derive(Debug)]
pub struct Autoscaler {
    counters: Arc<Mutex<Counters>>,
    scan_interval: Duration,
    _running: Running,
}

#[derive(Debug)]
#[expect(dead_code, reason = "the values are kept to be dropped")]
enum Running {
    Real(RealAutoscaler),
    StandIn(Background),
}

impl Autoscaler {
    /// Starts an autoscaler over all groups that [`NodeGroup`](crate::node_group::NodeGroup)
    /// created: the real one if the environment has its path, else the stand-in, with a note on
    /// standard error.
    ///
    /// # Errors
    /// The thread cannot be created, or the path is wrong.
    pub fn start(plane: &ControlPlane, moto: &Moto, settings: AutoscalerSettings) -> Result<Self> {
        match cluster_autoscaler::program() {
            Some(path) => Self::start_program(&path, plane, moto, &settings),
            None => Self::start_stand_in(plane, moto, settings),
        }
    }

    /// Starts the program at `path` as cluster-autoscaler.
    ///
    /// # Errors
    /// There is no such file, or a thread cannot be created.
    pub fn start_program(
        path: &Path,
        plane: &ControlPlane,
        moto: &Moto,
        settings: &AutoscalerSettings,
    ) -> Result<Self> {
        let counters = Arc::new(Mutex::new(Counters::default()));
        let real = RealAutoscaler::start(path, plane, moto, settings, &counters)?;
        let scan_interval = settings.scan_interval;
        Ok(Self { counters, scan_interval, _running: Running::Real(real) })
    }

    fn start_stand_in(
        plane: &ControlPlane,
        moto: &Moto,
        settings: AutoscalerSettings,
    ) -> Result<Self> {
        note_stand_in();
        let counters = Arc::new(Mutex::new(Counters::default()));
        let (kubeconfig, endpoint, shared) =
            (plane.kubeconfig(), moto.endpoint().to_owned(), Arc::clone(&counters));
        let scan_interval = settings.scan_interval;
        let work = async move || {
            let aws = moto::configure(&endpoint).await;
            match connect(&kubeconfig).await {
                Ok(client) => scan::Scanner::new(client, &aws, settings, shared).run().await,
                Err(error) => lock(&shared).errors.push(format!("{error:#}")),
            }
        };
        let running = Running::StandIn(Background::start("autoscaler", work)?);
        Ok(Self { counters, scan_interval, _running: running })
    }

    /// All actions so far.
    pub fn counters(&self) -> Counters {
        lock(&self.counters).clone()
    }

    /// Waits for this number of complete scans from now. Afterwards, a test can check that an
    /// earlier change caused no action.
    ///
    /// # Errors
    /// The scans do not complete in time.
    pub async fn wait_for_scans(&self, scans: u32) -> Result<()> {
        // The current scan may have read the cluster before the change, so one more is needed.
        let wanted = self.counters().scans + u64::from(scans) + 1;
        let deadline = (self.scan_interval + Duration::from_secs(5)) * (scans + 1);
        let what = format!("{scans} scans of the autoscaler");
        wait::until_true(&what, deadline, async || Ok(self.counters().scans >= wanted)).await
    }
}

/// The amounts that the scheduler counts for a pod, in thousandths, by resource.
///
/// # Errors
/// A quantity is invalid.
pub fn requests_of(spec: &PodSpec) -> Result<BTreeMap<String, i128>> {
    fit::requests(spec)
}

/// The provision time of a test, long enough for the real cluster-autoscaler, which reads its
/// groups once a minute: within a shorter time, it gives up nodes that do come.
pub fn provision_time(time: Duration) -> Duration {
    if cluster_autoscaler::program().is_some() { time.max(Duration::from_secs(75)) } else { time }
}

/// Writes, once in a process, that the tests use the stand-in.
fn note_stand_in() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let note =
            format!("note: {VARIABLE} is not set, so a stand-in for cluster-autoscaler runs\n");
        // Written directly, because the output of a test that passes is not shown.
        let _ = std::io::stderr().write_all(note.as_bytes());
    });
}
