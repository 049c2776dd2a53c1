//! A small stand-in for cluster-autoscaler over the real API server and the Auto Scaling API.
//!
//! It has the behaviour of cluster-autoscaler that affects placeholders. It shares no code with the
//! project's simulator. A scan reads the cluster and the groups ([`observe`]), places bound and
//! pending pods ([`place`]), scales up ([`scale_up`]) and down ([`scale_down`]), and writes the
//! status ([`status`]). It does not implement anti-affinity between pods, topology spread, volumes,
//! the eviction of pods to empty a node, or the balancing of similar groups.

mod buffers;
mod counters;
mod fit;
mod observe;
mod place;
mod scale_down;
mod scale_up;
mod scan;
mod settings;
mod status;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;

use self::counters::lock;
pub use self::counters::{Counters, Removal, ScaleUp};
pub use self::settings::AutoscalerSettings;
use crate::background::Background;
use crate::control_plane::{ControlPlane, connect};
use crate::moto::{self, Moto};
use crate::wait;

/// A running autoscaler, stopped on drop.
#[derive(Debug)]
pub struct Autoscaler {
    counters: Arc<Mutex<Counters>>,
    scan_interval: Duration,
    _background: Background,
}

impl Autoscaler {
    /// Starts an autoscaler over all groups that [`NodeGroup`](crate::node_group::NodeGroup)
    /// created.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(plane: &ControlPlane, moto: &Moto, settings: AutoscalerSettings) -> Result<Self> {
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
