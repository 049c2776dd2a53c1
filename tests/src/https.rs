//! Requests over TLS on loopback, by the client of Kubernetes.

use std::path::Path;

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::{ListParams, Request};
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;

/// The status and the text of the response to a GET request. The server must have a certificate
/// that `certificate`, a PEM file, verifies.
///
/// # Errors
/// The server does not answer, or its certificate is another one.
pub async fn get(
    port: u16,
    path: &str,
    certificate: &Path,
    token: Option<&str>,
) -> Result<(u16, String)> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "server", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority": certificate,
        }}],
        "users": [{"name": "user", "user": token.map_or(json!({}), |token| json!({"token": token}))}],
        "contexts": [{"name": "server", "context": {"cluster": "server", "user": "user"}}],
        "current-context": "server",
    });
    let config = Kubeconfig::from_yaml(&config.to_string())?;
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    let request = Request::new(path).list(&ListParams::default())?;
    let response = Client::try_from(config)?.send(request.map(Body::from)).await?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.context("failed to read the body")?;
    Ok((status, String::from_utf8(bytes.to_vec())?))
}
