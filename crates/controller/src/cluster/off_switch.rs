//! The off switch: while a ConfigMap exists, no policy holds placeholders.
//!
//! Every replica deletes the placeholders of all policies, whether it leads or not, in a task of
//! its own. So the switch works without a leader, for policies that are invalid, and while a turn
//! hangs.

use std::sync::Arc;
use std::time::Duration;

use base::clock;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::{Client, Error};

use crate::actuate::Actuator;
use crate::causes::chain;
use crate::observe::{OFF_SWITCH, Shared};

/// Sets the off switch of the controller in a namespace. Returns false if it was set already.
///
/// # Errors
/// The API server rejects the write or cannot be reached.
pub async fn switch_off(client: Client, namespace: &str) -> kube::Result<bool> {
    let since = clock::now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(OFF_SWITCH.into()), ..ObjectMeta::default() },
        data: Some([("since".to_owned(), since)].into()),
        ..ConfigMap::default()
    };
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    unless(409, maps.create(&PostParams::default(), &map).await.map(|_| ()))
}

/// Removes the off switch of the controller in a namespace. Returns false if it was not set.
///
/// # Errors
/// The API server rejects the write or cannot be reached.
pub async fn switch_on(client: Client, namespace: &str) -> kube::Result<bool> {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    unless(404, maps.delete(OFF_SWITCH, &DeleteParams::default()).await.map(|_| ()))
}

/// Whether a write changed something: not if the API server responds with this code.
fn unless(code: u16, written: kube::Result<()>) -> kube::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(Error::Api(status)) if status.code == code => Ok(false),
        Err(error) => Err(error),
    }
}

/// The pause between two looks at the switch while it is not set.
const LOOK: Duration = Duration::from_secs(1);

/// The pause between two deletions while it is set. A write that a leader sent before it saw the
/// switch is undone after this time.
const AGAIN: Duration = Duration::from_secs(5);

/// The time limit of the deletions in one namespace.
const LIMIT: Duration = Duration::from_secs(30);

/// Deletes the placeholders of all policies while the switch is set. Never returns.
pub(super) async fn follow_off_switch(
    client: Client,
    namespaces: Vec<String>,
    shared: Arc<Shared>,
) {
    loop {
        if !shared.world().is_off {
            tokio::time::sleep(LOOK).await;
            continue;
        }
        for namespace in &namespaces {
            let actuator = Actuator::new(client.clone(), namespace, Arc::new(|| true));
            match tokio::time::timeout(LIMIT, actuator.remove_all()).await {
                Ok(Ok(0)) => {}
                Ok(Ok(removed)) => {
                    tracing::info!(namespace, removed, "switched off: placeholders deleted");
                }
                Ok(Err(error)) => {
                    let error = chain(&error);
                    tracing::error!(namespace, error, "switched off: deletion failed");
                }
                Err(_) => {
                    tracing::error!(namespace, "switched off: the API server did not respond");
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
