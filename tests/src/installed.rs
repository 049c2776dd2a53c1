//! The controller, installed as by its chart: the chart's objects are in the API server, and the
//! binary runs as a process with the permissions of the chart's service account.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::control_plane::ControlPlane;
use crate::ports::Port;
use crate::process::Process;
use crate::{apply, helm, http, prophet, wait};

pub use crate::helm::NAMESPACE;

/// The longest wait for the controller, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A running controller, killed on drop.
#[derive(Debug)]
pub struct Prophet {
    process: Process,
    port: Port,
}

impl Prophet {
    /// Applies all objects of the chart except the workload, whose containers the tests run.
    ///
    /// # Errors
    /// The API server refuses an object.
    pub async fn apply_chart(plane: &ControlPlane) -> Result<()> {
        Self::apply_chart_with(plane, &[]).await
    }

    /// Applies the chart with these values, as `KEY=JSON`.
    ///
    /// # Errors
    /// As [`Prophet::apply_chart`].
    pub async fn apply_chart_with(plane: &ControlPlane, values: &[&str]) -> Result<()> {
        let namespace =
            format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}");
        plane.apply_yaml(&namespace).await?;
        for object in
            helm::rendered(values)?.into_iter().filter(|object| workload(object).is_none())
        {
            apply::object(&plane.client(), object).await?;
        }
        Ok(())
    }

    /// Applies the chart, and starts the binary with the permissions of the chart's service
    /// account.
    ///
    /// # Errors
    /// The API server refuses a manifest, or the controller is not ready in time.
    pub async fn install(
        plane: &ControlPlane,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        Self::apply_chart(plane).await?;
        Self::start(plane, arguments, environment).await
    }

    /// Starts the binary with the permissions of the chart's service account. The chart must
    /// already be applied.
    ///
    /// # Errors
    /// The controller is not ready in time.
    pub async fn start(
        plane: &ControlPlane,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let all = [&["run", "--namespace", NAMESPACE], arguments].concat();
        let log = ("PROPHET_LOG", "info,controller=debug".to_owned());
        Self::spawn(plane, "prophet", &all, &[&[log], environment].concat()).await
    }

    async fn spawn(
        plane: &ControlPlane,
        name: &str,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let kubeconfig = plane.kubeconfig_for(NAMESPACE, "prophet").await?;
        let mut command = prophet(arguments);
        // With the arguments of the chart, a policy in the mode Act needs a limit.
        command.env("PROPHET_MAX_PLACEHOLDERS", "1000");
        command.env("KUBECONFIG", kubeconfig).envs(environment.iter().cloned());
        Self::of_command(plane, name, command).await
    }

    /// Starts a command that runs the controller, with the flag `--listen` in addition.
    ///
    /// # Errors
    /// The controller is not ready in time.
    pub async fn of_command(
        plane: &ControlPlane,
        name: &str,
        mut command: Command,
    ) -> Result<Self> {
        let port = Port::free()?;
        command.arg(format!("--listen=127.0.0.1:{}", port.number()));
        let mut process = Process::start(name, &command, plane.folder())?;
        let number = port.number();
        process
            .wait_until("the controller to be ready", DEADLINE, async || {
                Ok(http::get(number, "/readyz").await.is_ok_and(|answer| answer.contains("200 OK")))
            })
            .await?;
        Ok(Self { process, port })
    }

    /// Starts the binary as a replica: with the arguments, environment and service account of a
    /// container that the API server stored. Only the listen address and the path of its volume
    /// differ.
    ///
    /// # Errors
    /// The container has no arguments, or the controller is not ready in time.
    pub async fn of_container(
        plane: &ControlPlane,
        container: &Value,
        replica: &str,
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let data = format!("--data={}", volume(plane, replica).display());
        let given = container["args"].as_array().context("the container has no arguments")?;
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
        let pod = ("HOSTNAME", replica.to_owned());
        let environment: Vec<(&str, String)> =
            named.chain([pod]).chain(environment.iter().cloned()).collect();
        Self::spawn(plane, replica, &arguments, &environment).await
    }

    /// The log so far.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn log(&self) -> Result<String> {
        self.process.log()
    }

    /// The resident set of the process, in bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).context("no VmRSS")?;
        Ok(kilobytes.parse::<u64>()? * 1024)
    }

    /// The number of files and connections that the process has open.
    ///
    /// # Errors
    /// The process has ended.
    pub fn open_files(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.process.id()))?.count())
    }

    /// The address that it serves on.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number())
    }

    /// Whether the liveness probe succeeds.
    ///
    /// # Errors
    /// The controller does not respond.
    pub async fn is_alive(&self) -> Result<bool> {
        Ok(http::get(self.port.number(), "/healthz").await?.contains("200 OK"))
    }

    /// The HTTP response of the metrics endpoint.
    ///
    /// # Errors
    /// The controller does not respond.
    pub async fn metrics(&self) -> Result<String> {
        http::get(self.port.number(), "/metrics").await
    }

    /// The HTTP response of the dashboard.
    ///
    /// # Errors
    /// The controller does not respond.
    pub async fn dashboard(&self) -> Result<String> {
        http::get(self.port.number(), "/").await
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops the process without its knowledge (SIGSTOP), until [`Prophet::resume`].
    ///
    /// # Errors
    /// The process has ended.
    pub fn pause(&self) -> Result<()> {
        self.process.signal("STOP")
    }

    /// Lets a paused process go on (SIGCONT).
    ///
    /// # Errors
    /// The process has ended.
    pub fn resume(&self) -> Result<()> {
        self.process.signal("CONT")
    }

    /// Stops the controller with SIGTERM, and waits until it has ended.
    ///
    /// # Errors
    /// The controller does not end in time, or its exit status is not success.
    pub async fn stop(self) -> Result<()> {
        let status = self.process.terminate(DEADLINE).await?;
        ensure!(status.success(), "the controller ended with {status}");
        Ok(())
    }
}

/// The folder that stands for the volume of a replica.
pub fn volume(plane: &ControlPlane, replica: &str) -> PathBuf {
    plane.folder().join(format!("volume-{replica}"))
}

/// The template of the pods, if the object is the controller's `Deployment` or `StatefulSet`.
pub fn workload(object: &Value) -> Option<&Value> {
    let kind = object["kind"].as_str()?;
    matches!(kind, "Deployment" | "StatefulSet").then(|| &object["spec"]["template"])
}

/// The YAML document of a policy with this `spec`, which is YAML in flow style.
pub fn policy(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: prophet.dev/v1alpha1, kind: OverprovisioningPolicy, metadata: {{name: {name}, namespace: {NAMESPACE}}}, spec: {spec}}}\n---\n"
    )
}

/// The status of a policy; null if it has none yet.
///
/// # Errors
/// The policy does not exist within a minute.
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
