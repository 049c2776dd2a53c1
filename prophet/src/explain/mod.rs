//! Explain: what was seen, expected and decided, to people and programs.
//!
//! ```text
//! status.rs    the policy's status, with its conditions
//! events.rs    what a person should know at once
//! metrics.rs   numbers over time
//! ```
//!
//! All use one spelling of each reason: [`placeholders::Reason::label`] and [`crate::outcome::Cause::label`].

mod events;
#[cfg(feature = "serve")]
mod metrics;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use self::events::Events;
#[cfg(feature = "serve")]
pub use self::metrics::{Metrics, Reaction};
pub use self::status::{shape_text, status};
use crate::crd::{OverprovisioningPolicy, OverprovisioningPolicyStatus};
use crate::observe::Key;
use crate::outcome::Outcome;

/// What programs ask about the controller itself.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
}

impl Health {
    /// Whether everything that decisions rest on is listed.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// Tells what came of turns.
pub struct Explain {
    client: Client,
    events: Events,
    health: Arc<Health>,
    #[cfg(feature = "serve")]
    metrics: Arc<Metrics>,
    told: BTreeMap<Key, OverprovisioningPolicyStatus>,
}

impl Explain {
    /// Nothing told yet.
    pub fn new(client: Client) -> Self {
        Self {
            events: Events::new(client.clone()),
            client,
            health: Arc::default(),
            #[cfg(feature = "serve")]
            metrics: Arc::default(),
            told: BTreeMap::new(),
        }
    }

    /// What programs ask about the controller itself.
    pub fn health(&self) -> Arc<Health> {
        Arc::clone(&self.health)
    }

    /// The numbers over time.
    #[cfg(feature = "serve")]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Whether all is listed.
    pub fn ready(&self, listed: bool) {
        self.health.ready.store(listed, Ordering::Relaxed);
    }

    /// A change was answered.
    pub fn reacted(&self, reaction: Reaction) {
        #[cfg(feature = "serve")]
        self.metrics.reacted(reaction);
        tracing::debug!(seconds = reaction.seconds, "change answered");
    }

    /// Forgets policies that are gone.
    pub fn keep(&mut self, keys: &BTreeSet<Key>) {
        self.told.retain(|key, _| keys.contains(key));
        #[cfg(feature = "serve")]
        self.metrics.keep(keys);
    }

    /// Tells what came of a policy's turn: log, metrics, events, status.
    pub async fn turn(
        &mut self,
        key: &Key,
        policy: &OverprovisioningPolicy,
        outcome: &Outcome,
        now: DateTime<Utc>,
    ) {
        let before =
            self.told.get(key).cloned().or_else(|| policy.status.clone()).unwrap_or_default();
        let status = status(policy, outcome, &before, now);
        log(&before, &status);
        #[cfg(feature = "serve")]
        self.metrics.turn(key, outcome, &status);
        self.events.turn(policy, outcome, &before, &status).await;
        if self.told.get(key) == Some(&status) {
            return;
        }
        match self.write(key, &status).await {
            Ok(()) => drop(self.told.insert(key.clone(), status)),
            Err(error) => tracing::warn!(policy = %key, %error, "status not written"),
        }
    }

    async fn write(&self, key: &Key, status: &OverprovisioningPolicyStatus) -> kube::Result<()> {
        let api: Api<OverprovisioningPolicy> = Api::namespaced(self.client.clone(), &key.namespace);
        let body = json!({
            "apiVersion": "prophet.dev/v1alpha1", "kind": "OverprovisioningPolicy",
            "metadata": {"name": key.name}, "status": status,
        });
        let parameters = PatchParams::apply("prophet").force();
        match api.patch_status(&key.name, &parameters, &Patch::Apply(&body)).await {
            // It was deleted meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            done => done.map(drop),
        }
    }
}

/// A line for each bucket of which something is new.
fn log(before: &OverprovisioningPolicyStatus, status: &OverprovisioningPolicyStatus) {
    for bucket in status.buckets.iter().filter(|bucket| !before.buckets.contains(bucket)) {
        tracing::info!(
            bucket = bucket.name,
            demand = bucket.demand,
            have = bucket.placeholders,
            want = bucket.target,
            reason = bucket.reason,
            "decided"
        );
    }
}
