//! A small stand-in for cluster-autoscaler over the real API server and the Auto Scaling API, faithful in what matters to
//! placeholders. It shares no code with the simulator of the project.
//!
//! A scan reads the cluster and the groups ([`observe`]), places what is placed or fits ([`place`]), scales up
//! ([`scale_up`]) and down ([`scale_down`]), and writes its status ([`status`]). Left out: anti-affinity between pods,
//! topology spread, volumes, moving pods to empty a node, and balancing of similar groups.

mod buffers;
mod fit;
mod observe;
mod place;
mod scale_down;
mod scale_up;
mod scan;
mod status;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::background::Background;
use crate::control_plane::{ControlPlane, connect};
use crate::moto::{self, Moto};
use crate::wait;

/// The flags of cluster-autoscaler that tests turn; the defaults are quicker than its own.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `--scan-interval`, there 10 s.
    pub scan_interval: Duration,
    /// `--expendable-pods-priority-cutoff`: pods below trigger nothing and hold nothing.
    pub expendable_cutoff: i32,
    /// `--max-nodes-total`, of the whole cluster.
    pub max_nodes_total: Option<usize>,
    /// `--max-node-provision-time`, there 15 m: an instance that is no node by then is given up.
    pub max_node_provision_time: Duration,
    /// `--initial-node-group-backoff-duration`, there 5 m; doubled by each further failure.
    pub backoff: Duration,
    /// `--max-node-group-backoff-duration`, there 30 m.
    pub backoff_max: Duration,
    /// `--scale-down-unneeded-time`, there 10 m.
    pub unneeded_time: Duration,
    /// `--scale-down-delay-after-add`, there 10 m.
    pub delay_after_add: Duration,
    /// `--scale-down-delay-type-local`: a scale-up delays the removal of its own group's nodes only.
    pub delay_type_local: bool,
    /// `--capacity-buffer-controller-enabled` and `--capacity-buffer-pod-injection-enabled`.
    pub capacity_buffers: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scan_interval: Duration::from_secs(1),
            expendable_cutoff: -10,
            max_nodes_total: None,
            max_node_provision_time: Duration::from_mins(1),
            backoff: Duration::from_mins(1),
            backoff_max: Duration::from_mins(5),
            unneeded_time: Duration::from_secs(5),
            delay_after_add: Duration::from_secs(5),
            delay_type_local: false,
            capacity_buffers: false,
        }
    }
}

/// A group was told to grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleUp {
    /// The group.
    pub group: String,
    /// By how many nodes.
    pub by: usize,
    /// When.
    pub at: Instant,
}

/// A node was taken away, or an instance that never became one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// Its group.
    pub group: String,
    /// The instance, by whose id its node is named.
    pub instance: String,
    /// When.
    pub at: Instant,
}

/// All that it did so far.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// Scans that came to their end.
    pub scans: u64,
    /// Each time a group was told to grow.
    pub scale_ups: Vec<ScaleUp>,
    /// Each node that it removed because nothing needed it.
    pub removed: Vec<Removal>,
    /// Each instance that it gave up.
    pub given_up: Vec<Removal>,
    /// What went wrong and was tried again.
    pub errors: Vec<String>,
}

impl Counters {
    /// The nodes asked for, over all groups.
    pub fn launched(&self) -> usize {
        self.scale_ups.iter().map(|up| up.by).sum()
    }

    /// The nodes asked for, of one group.
    pub fn launched_in(&self, group: &str) -> usize {
        self.scale_ups.iter().filter(|up| up.group == group).map(|up| up.by).sum()
    }
}

/// Works until it is dropped.
#[derive(Debug)]
pub struct Autoscaler {
    counters: Arc<Mutex<Counters>>,
    scan_interval: Duration,
    _background: Background,
}

impl Autoscaler {
    /// Starts it over all groups that [`NodeGroup`](crate::node_group::NodeGroup) tagged.
    ///
    /// # Errors
    /// Where there is no thread for it.
    pub fn start(plane: &ControlPlane, moto: &Moto, settings: Settings) -> Result<Self> {
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
        Ok(Self { counters, scan_interval, _background: Background::start("autoscaler", work)? })
    }

    /// All that it did so far.
    pub fn counters(&self) -> Counters {
        lock(&self.counters).clone()
    }

    /// Waits for that many whole scans from now: what they do not do, a change before now does not cause.
    ///
    /// # Errors
    /// Where they do not come.
    pub async fn wait_for_scans(&self, scans: u32) -> Result<()> {
        // The scan that runs now may have looked before.
        let wanted = self.counters().scans + u64::from(scans) + 1;
        let deadline = (self.scan_interval + Duration::from_secs(5)) * (scans + 1);
        let what = format!("{scans} scans of the autoscaler");
        wait::until_true(&what, deadline, async || Ok(self.counters().scans >= wanted)).await
    }
}

fn lock(counters: &Mutex<Counters>) -> MutexGuard<'_, Counters> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}
