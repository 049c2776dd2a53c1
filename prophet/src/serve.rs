//! Serves health, readiness, metrics and the dashboard over HTTP.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use crate::cluster::Health;
use crate::dashboard::{self, Dashboard};
use crate::explain::Metrics;
use crate::http::{self, PLAIN, Request, Response};

/// The content type of OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves `/healthz`, `/readyz`, `/metrics` and the dashboard on threads of their own. Returns the
/// address.
///
/// # Errors
/// The server cannot listen on the address, or its thread cannot be started.
pub fn serve(
    address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    dashboard: Arc<Dashboard>,
) -> std::io::Result<SocketAddr> {
    let probe = |is_well: bool, well: &str, problem: &str| {
        let (status, text) = if is_well { (200, well) } else { (503, problem) };
        Response::Text(status, PLAIN, text.into())
    };
    let respond = move |request: &Request| match request.path.as_str() {
        "/healthz" => probe(health.is_alive(), "alive", "no progress for too long"),
        "/readyz" => {
            let problem = "watches have not listed all objects yet";
            probe(health.is_ready(), "ready", problem)
        }
        "/metrics" => Response::Text(200, OPENMETRICS, metrics.text()),
        _ => dashboard::respond(&dashboard, request).unwrap_or_else(Response::not_found),
    };
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    http::serve(listener, http::plain(), respond)?;
    Ok(bound)
}
