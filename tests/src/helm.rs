//! The chart, rendered and installed by a real helm.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::built;
use crate::control_plane::ControlPlane;

/// The namespace of the controller and of the tests' policies.
pub const NAMESPACE: &str = "prophet";

/// The path of the chart.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/prophet")
}

/// Runs helm without a cluster; returns its standard output.
///
/// # Errors
/// `make control-plane` has not been run, or helm fails.
pub fn offline(arguments: &[&str]) -> Result<String> {
    output(Command::new(built::control_plane("bin/helm")?).args(arguments))
}

/// Runs helm on a cluster, as its administrator; returns its standard output.
///
/// # Errors
/// `make control-plane` has not been run, or helm fails.
pub fn online(plane: &ControlPlane, arguments: &[&str]) -> Result<String> {
    let mut helm = Command::new(built::control_plane("bin/helm")?);
    helm.args(arguments).args(["--namespace", NAMESPACE]).env("KUBECONFIG", plane.kubeconfig());
    let home = plane.folder().join("helm");
    helm.env("HELM_CACHE_HOME", &home).env("HELM_CONFIG_HOME", &home).env("HELM_DATA_HOME", &home);
    output(&mut helm)
}

fn output(helm: &mut Command) -> Result<String> {
    let output = helm.output().context("failed to run helm")?;
    ensure!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The objects of the chart without its hooks, with these values as `KEY=JSON`, such as
/// `history.s3="s3://bucket/history"`.
///
/// # Errors
/// Helm refuses the values.
pub fn rendered(values: &[&str]) -> Result<Vec<Value>> {
    objects(&["--no-hooks"], values)
}

/// As [`rendered`], with the hooks.
///
/// # Errors
/// Helm refuses the values.
pub fn rendered_with_hooks(values: &[&str]) -> Result<Vec<Value>> {
    objects(&[], values)
}

fn objects(options: &[&str], values: &[&str]) -> Result<Vec<Value>> {
    let chart = chart();
    let chart = chart.to_str().context("the path of the chart is not UTF-8")?;
    let mut arguments = vec!["template", "prophet", chart, "--namespace", NAMESPACE];
    arguments.extend(options);
    arguments.extend(values.iter().flat_map(|value| ["--set-json", value]));
    let documents: Vec<Value> = serde_saphyr::from_multiple(&offline(&arguments)?)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}
