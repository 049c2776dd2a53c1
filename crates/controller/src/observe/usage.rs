//! Reads what pods use from the metrics API (`metrics.k8s.io`), which metrics-server implements.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ListParams};

use super::follow::Shared;
use super::measured::Measurement;
use super::objects::PodMetrics;

/// How often usage is read: metrics-server measures it once a minute or more often.
const INTERVAL: Duration = Duration::from_mins(1);

/// Reads the usage of all pods once a minute, until its task is aborted. An error is logged when it
/// is new, and the next read follows a minute later.
pub(super) async fn follow_usage(client: Client, shared: Arc<Shared>) {
    let api: Api<PodMetrics> = Api::all(client);
    let mut failing: Option<String> = None;
    loop {
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                // The world is locked for a short time only, so the list is read before.
                let pods = list.items.iter().filter_map(Measurement::of).collect();
                shared.world().index.measure(Some(pods));
                tracing::trace!(pods = list.items.len(), "usage measured");
                if failing.take().is_some() {
                    tracing::info!("usage is measured again");
                }
            }
            Err(error) => {
                shared.world().index.measure(None);
                let error = error.to_string();
                if failing.as_ref() != Some(&error) {
                    tracing::warn!(error, "usage not measured: the metrics API cannot be read");
                    failing = Some(error);
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
