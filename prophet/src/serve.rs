//! Serves health, readiness and metrics over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::cluster::Health;
use crate::explain::Metrics;

/// The content type of OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/healthz`, `/readyz` and `/metrics`. Returns only on an error.
///
/// # Errors
/// The server cannot listen on the address.
pub async fn serve(
    address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
    let alive = Arc::clone(&health);
    let alive = move || async move {
        if alive.is_alive() {
            (StatusCode::OK, "alive")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "no progress for too long")
        }
    };
    let ready = move || async move {
        if health.is_ready() {
            (StatusCode::OK, "ready")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "watches have not listed all objects yet")
        }
    };
    let router = Router::new().route("/healthz", get(alive)).route("/readyz", get(ready)).route(
        "/metrics",
        get(move || async move { ([(header::CONTENT_TYPE, OPENMETRICS)], metrics.text()) }),
    );
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router).await
}
