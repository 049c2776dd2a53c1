//! The Helm chart: what its values render to, which values it refuses, whether the API server
//! accepts the objects, whether each version of Kubernetes has their fields, and the alerts and the
//! dashboard. `placeholders/chart.rs` installs it.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod monitoring;
mod refusals;
mod rendering;
mod schemas;
mod server;
