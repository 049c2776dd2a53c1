//! Observe: keeps the state of a cluster, as its watches report it, in one synchronous index, and
//! selects the part that a policy covers.
//!
//! ```text
//! objects.rs       the fields that Prophet reads of Kubernetes objects
//! requests.rs      the resources that a pod takes of a node
//! devices.rs       what a pod needs beyond the resources that every node has
//! admission.rs     what the API server adds to the pods of a template
//! taints.rs        taints that come and go with the state of a node
//! constraints.rs   the nodes on which a pod may run
//! class.rs         classes of identical pods, each stored once
//! obstacle.rs      whether a new node would help a waiting pod
//! held_back.rs     why pods do not count as demand
//! nodes.rs         nodes, and the pods on each
//! announced.rs     announced pods: those of suspended jobs, queued workloads and CronJobs
//! planned.rs       planned pods: those of PlannedDemands; plan.rs: when they come
//! steps.rs         the steps of workflows, before their pods exist; of which kind:
//! job_set.rs       JobSets; argo.rs: Workflows of Argo; spark.rs: SparkApplications
//! schedule.rs      the times at which a CronJob fires
//! measured.rs      what running pods used so far
//! finished.rs      pods that ran on a node and ended
//! index.rs         the index of pods and nodes, updated by events
//! workloads.rs     the workloads that a policy selects
//! scale_up_events.rs  why an autoscaler launches no node for a pod, as its Events report it
//! written.rs       how the pods of placeholders differ from their template
//! stored.rs        policies as they are stored, with fields that cannot be represented
//! world.rs         the index, and the few objects that are stored as they are
//! karpenter.rs     the fields of Karpenter's NodePools, NodeClaims and NodeOverlays
//! follow.rs        one watch: it applies the events of a kind to the world
//! usage.rs         reads what pods use from the metrics API
//! optional.rs      the watches of kinds that a cluster may lack
//! watch.rs         all watches
//! ```

mod admission;
mod announced;
mod argo;
mod class;
mod constraints;
mod devices;
mod finished;
mod follow;
mod held_back;
mod index;
mod job_set;
mod karpenter;
mod measured;
mod nodes;
mod objects;
mod obstacle;
mod optional;
mod plan;
mod planned;
mod requests;
mod scale_up_events;
mod schedule;
mod shortages;
mod spark;
mod steps;
mod stored;
mod taints;
mod usage;
mod watch;
mod workloads;
mod world;
mod written;

pub use admission::Admission;
pub(crate) use announced::ANNOUNCED_SECONDS;
pub use announced::{AnnouncedPods, Announcement, Held, PODS_MAX};
pub use base::quantity::{millis, units};
pub use class::{ClassId, Classes, PodClass, Priority, Role, Ties};
pub use constraints::{Choice, Constraints};
pub use devices::Device;
pub(crate) use devices::amounts;
pub use finished::FinishedPod;
pub use follow::{Shared, WATCH_SECONDS};
pub use held_back::HeldBack;
pub use index::{Daemon, Index, Occurred, PlaceholderPod, Preempted, SCAN_SECONDS};
pub use karpenter::{CAPACITY_LABEL, NodeClaim, NodeOverlay, NodePool, POOL_LABEL};
pub use measured::Measurement;
pub(crate) use nodes::OnNode;
pub use nodes::{INSTANCE_TYPE_LABEL, NodeFacts, NodeId, NodeSlot, Nodes, ZONE_LABEL};
pub use objects::{
    BatchJob, CronJob, DaemonSet, JobSet, Key, KueueWorkload, Node, Pod, PodSpec, Requirement,
    Taint,
};
pub use optional::WORKFLOW_KINDS;
pub use plan::{Plan, RecalledPlan};
pub use planned::PLANNED_DEMANDS;
pub use requests::{ACCELERATORS, PodRequests, kind_in, requests, resources};
pub use scale_up_events::{NoScaleUp, ScaleUpReports};
pub use schedule::Schedule;
pub use shortages::{Launches, Shortages};
pub use steps::{SeenState, SeenStep, SeenWorkflow};
pub use stored::StoredPolicy;
pub(crate) use taints::is_passing;
pub use watch::{Scope, Watches};
pub(crate) use workloads::all_met;
pub use workloads::{SpotFor, WaitingState, Workloads};
pub use world::{OFF_SWITCH, OwnedObject, ReadPrices, ReadReservations, World};
pub use written::Written;
