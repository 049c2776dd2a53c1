//! The controller beside a cluster, as its chart installs it: the chart's objects in the API server, and the binary as a
//! process under the chart's service account.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::control_plane::ControlPlane;
use crate::ports::Port;
use crate::process::Process;
use crate::{built, prophet, wait};

/// The namespace that it is installed into, where the tests' policies are.
pub const NAMESPACE: &str = "prophet";

/// Long enough for a machine that does something else, too.
const DEADLINE: Duration = Duration::from_mins(1);

/// The chart's folder.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/prophet")
}

/// What the chart renders, with these values.
///
/// # Errors
/// Where there is no helm, or it refuses the values.
pub fn rendered(values: &[&str]) -> Result<String> {
    let mut helm = Command::new(built::control_plane("bin/helm")?);
    helm.args(["template", "prophet"]).arg(chart()).args(["--namespace", NAMESPACE]);
    for value in values {
        helm.args(["--set", value]);
    }
    let output = helm.output().context("failed to run helm")?;
    ensure!(output.status.success(), "helm: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The running controller.
#[derive(Debug)]
pub struct Prophet {
    process: Process,
    port: Port,
}

impl Prophet {
    /// Applies all that the chart renders but the Deployment.
    ///
    /// # Errors
    /// Where the API server refuses it.
    pub async fn apply_chart(plane: &ControlPlane) -> Result<()> {
        let namespace =
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}");
        plane.apply_yaml(&namespace).await?;
        let all = rendered(&[])?;
        let without: Vec<&str> =
            all.split("\n---").filter(|part| !part.contains("kind: Deployment")).collect();
        plane.apply_yaml(&without.join("\n---")).await
    }

    /// Applies the chart, and runs the binary with the chart's permissions.
    ///
    /// # Errors
    /// Where the API server refuses the chart, or the controller is not ready in time.
    pub async fn install(
        plane: &ControlPlane,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        Self::apply_chart(plane).await?;
        Self::start(plane, arguments, environment).await
    }

    /// Runs the binary with the permissions of a chart that is installed already.
    ///
    /// # Errors
    /// Where the controller is not ready in time.
    pub async fn start(
        plane: &ControlPlane,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let all = [&["run", "--namespace", NAMESPACE], arguments].concat();
        let log = ("PROPHET_LOG", "info,prophet=debug".to_owned());
        Self::spawn(plane, &all, &[&[log], environment].concat()).await
    }

    async fn spawn(
        plane: &ControlPlane,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let port = Port::free()?;
        let kubeconfig = plane.kubeconfig_for(NAMESPACE, "prophet").await?;
        let mut command = prophet(arguments);
        command.arg(format!("--listen=127.0.0.1:{}", port.number()));
        command.env("KUBECONFIG", kubeconfig).envs(environment.iter().cloned());
        let mut process = Process::start("prophet", &command, plane.folder())?;
        let number = port.number();
        process
            .wait_until("the controller to be ready", DEADLINE, async || {
                Ok(get(number, "/readyz").await.is_ok_and(|answer| answer.contains("200 OK")))
            })
            .await?;
        Ok(Self { process, port })
    }

    /// Runs the binary with the arguments, environment and service account of a container that the API server stored:
    /// only where it listens, and where its volume is mounted, are others.
    ///
    /// # Errors
    /// Where it asks for what this machine has not, or the controller is not ready in time.
    pub async fn of_container(
        plane: &ControlPlane,
        container: &Value,
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let data = format!("--data={}", plane.folder().join("history").display());
        let given = container["args"].as_array().context("a container without arguments")?;
        let given = given.iter().filter_map(Value::as_str).map(|argument| match argument {
            "--listen=0.0.0.0:8080" => None,
            "--data=/var/lib/prophet" => Some(data.as_str()),
            other => Some(other),
        });
        let arguments: Vec<&str> = given.flatten().collect();
        let named = container["env"].as_array().into_iter().flatten();
        let named = named.filter_map(|entry| {
            Some((entry["name"].as_str()?, entry["value"].as_str()?.to_owned()))
        });
        let environment: Vec<(&str, String)> = named.chain(environment.iter().cloned()).collect();
        Self::spawn(plane, &arguments, &environment).await
    }

    /// What it logged.
    ///
    /// # Errors
    /// Where the log cannot be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }

    /// The bytes that it holds in memory.
    ///
    /// # Errors
    /// Where it has ended.
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).context("no VmRSS")?;
        Ok(kilobytes.parse::<u64>()? * 1024)
    }

    /// Its metrics.
    ///
    /// # Errors
    /// Where it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        get(self.port.number(), "/metrics").await
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Errors
    /// Where it does not, or ends badly.
    pub async fn stop(self) -> Result<()> {
        let status = self.process.terminate(DEADLINE).await?;
        ensure!(status.success(), "the controller ended with {status}");
        Ok(())
    }
}

async fn get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A policy, of what stands below `spec`.
pub fn policy(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: prophet.dev/v1alpha1, kind: OverprovisioningPolicy, metadata: {{name: {name}, namespace: {NAMESPACE}}}, spec: {spec}}}\n---\n"
    )
}

/// The status of a policy.
///
/// # Errors
/// Where there is no such policy.
pub async fn status(plane: &ControlPlane, name: &str) -> Result<Value> {
    let resource = kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
        "prophet.dev",
        "v1alpha1",
        "OverprovisioningPolicy",
    ));
    let api: kube::Api<kube::core::DynamicObject> =
        kube::Api::namespaced_with(plane.client(), NAMESPACE, &resource);
    wait::until("the policy", DEADLINE, async || Ok(api.get_opt(name).await?))
        .await
        .map(|policy| policy.data.get("status").cloned().unwrap_or_default())
}
