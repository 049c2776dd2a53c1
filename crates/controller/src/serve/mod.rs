//! Serves health, readiness, metrics and the dashboard over HTTP or HTTPS.
//!
//! ```text
//! tls.rs    TLS, with a certificate that is read again when its files change
//! guard.rs  which requests are answered: those whose token may read the path
//! ```

mod guard;
mod tls;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use dashboard::Dashboard;
use dashboard::http::{self, PLAIN, Request, Response};

use self::guard::Guard;
use crate::cluster::{Health, Reviewer};
use crate::explain::Metrics;

/// The content type of OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How the server is protected.
#[derive(Debug, Default)]
pub struct Protection {
    /// The PEM files of the certificate chain and of its key. Without them, there is no TLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What reviews the tokens of requests. Without it, every request is answered.
    pub reviewer: Option<Reviewer>,
}

/// Serves `/healthz`, `/readyz`, `/metrics` and the dashboard on threads of their own. Returns the
/// address. It must be called on a thread of a runtime, on which tokens are reviewed.
///
/// # Errors
/// The server cannot listen on the address, its certificate cannot be read, or its thread cannot be
/// started.
pub fn serve(
    address: SocketAddr,
    protection: Protection,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    dashboard: Arc<Dashboard>,
) -> anyhow::Result<SocketAddr> {
    let Protection { certificate, reviewer } = protection;
    let guard = reviewer.map(Guard::new);
    let probe = |is_well: bool, well: &str, problem: &str| {
        let (status, text) = if is_well { (200, well) } else { (503, problem) };
        Response::Text(status, PLAIN, text.into())
    };
    let read = move |request: &Request| {
        if let Some(refusal) = guard.as_ref().and_then(|guard| guard.refusal(request)) {
            return refusal;
        }
        match request.path.as_str() {
            "/metrics" => Response::Text(200, OPENMETRICS, metrics.text()),
            _ => dashboard::respond(&dashboard, request).unwrap_or_else(Response::not_found),
        }
    };
    let respond = move |request: &Request| match request.path.as_str() {
        // The kubelet sends no token.
        "/healthz" => probe(health.is_alive(), "alive", "no progress for too long"),
        "/readyz" => {
            let problem = "watches have not listed all objects yet";
            probe(health.is_ready(), "ready", problem)
        }
        _ => read(request),
    };
    let transport = match certificate {
        Some((certificate, key)) => tls::transport(certificate, key)?,
        None => http::plain(),
    };
    let listen = || {
        let listener = TcpListener::bind(address)?;
        let bound = listener.local_addr()?;
        http::serve(listener, transport, respond)?;
        Ok::<_, std::io::Error>(bound)
    };
    listen().with_context(|| format!("failed to serve on {address}"))
}
