//! The real cluster-autoscaler over the emulated AWS.
//!
//! Its calls pass through a proxy, which counts what it requests; its metrics have the number of
//! scans. The joiner turns the instances that it requests into nodes.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::Api;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::counters::{Counters, Removal, ScaleUp, lock};
use super::flags;
use super::settings::AutoscalerSettings;
use crate::aws_proxy::{self, Call};
use crate::background::Background;
use crate::cluster_autoscaler::VARIABLE;
use crate::control_plane::{ControlPlane, connect};
use crate::http;
use crate::moto::{self, Moto};
use crate::ports::Port;
use crate::process::Process;

/// The pause between two reads of the metrics, short compared with a scan.
const PAUSE: Duration = Duration::from_millis(200);

/// The metric that counts completed scans.
const SCANS: &str = "cluster_autoscaler_function_duration_seconds_count{function=\"main\"}";

/// A running cluster-autoscaler, stopped on drop.
#[derive(Debug)]
pub(super) struct RealAutoscaler {
    _process: Process,
    _background: [Background; 2],
    _ports: [Port; 2],
}

impl RealAutoscaler {
    /// Starts the program at `path`. Its actions are counted in `counters`.
    ///
    /// # Errors
    /// There is no such file, or a thread cannot be created.
    pub(super) fn start(
        path: &Path,
        plane: &ControlPlane,
        moto: &Moto,
        settings: &AutoscalerSettings,
        counters: &Arc<Mutex<Counters>>,
    ) -> Result<Self> {
        ensure!(path.is_file(), "{VARIABLE}: there is no file {}", path.display());
        let (calls, metrics) = (Port::free()?, Port::free()?);
        let listen = format!("127.0.0.1:{metrics}");
        let config = plane.folder().join("cloud-config");
        std::fs::write(&config, flags::cloud_config(&format!("http://127.0.0.1:{calls}")))
            .context("failed to write the cloud config")?;
        let recorded = Background::start("aws-calls", {
            let (number, endpoint) = (calls.number(), moto.endpoint().to_owned());
            let (kubeconfig, counters) = (plane.kubeconfig(), Arc::clone(counters));
            async move || {
                let ended = record(number, &endpoint, &kubeconfig, &counters).await;
                let error = ended.err().map(|error| format!("{error:#}"));
                lock(&counters).errors.extend(error);
            }
        })?;
        let counted = Background::start("scans", {
            let (number, counters) = (metrics.number(), Arc::clone(counters));
            async move || count_scans(number, &counters).await
        })?;
        let mut command = Command::new(path);
        command
            .args(flags::arguments(settings, &plane.kubeconfig(), &config, &listen))
            .envs(moto.environment())
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{calls}"));
        let process = Process::start("cluster-autoscaler", &command, plane.folder())?;
        Ok(Self { _process: process, _background: [recorded, counted], _ports: [calls, metrics] })
    }
}

/// Counts the scans in the metrics of the program.
async fn count_scans(port: u16, counters: &Mutex<Counters>) {
    loop {
        if let Ok(metrics) = http::get(port, "/metrics").await {
            let line = metrics.lines().find_map(|line| line.strip_prefix(SCANS));
            if let Some(scans) = line.and_then(|count| count.trim().parse().ok()) {
                lock(counters).scans = scans;
            }
        }
        sleep(PAUSE).await;
    }
}

/// Forwards the program's calls to the emulator, and counts the changes among them.
async fn record(
    port: u16,
    endpoint: &str,
    kubeconfig: &Path,
    counters: &Arc<Mutex<Counters>>,
) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let recorder = Arc::new(Recorder {
        client: connect(kubeconfig).await?,
        autoscaling: aws_sdk_autoscaling::Client::new(&moto::configure(endpoint).await),
        counters: Arc::clone(counters),
    });
    let answer = move |call: Call| {
        let recorder = Arc::clone(&recorder);
        async move { recorder.answer(call).await }
    };
    aws_proxy::serve(listener, endpoint, answer).await
}

struct Recorder {
    client: Client,
    autoscaling: aws_sdk_autoscaling::Client,
    counters: Arc<Mutex<Counters>>,
}

impl Recorder {
    async fn answer(&self, call: Call) -> Result<Vec<u8>> {
        let group = call.parameter("AutoScalingGroupName").unwrap_or_default();
        let instance = call.parameter("InstanceId").unwrap_or_default();
        match call.action.as_str() {
            "autoscaling:SetDesiredCapacity" => {
                let wanted = call.parameter("DesiredCapacity").unwrap_or_default();
                let more = wanted.parse::<usize>()?.checked_sub(self.size(group).await?);
                let response = call.forward().await?;
                if let Some(by) = more.filter(|by| *by > 0 && is_success(&response)) {
                    let scale_up = ScaleUp { group: group.to_owned(), by, at: Instant::now() };
                    lock(&self.counters).scale_ups.push(scale_up);
                }
                Ok(response)
            }
            "autoscaling:TerminateInstanceInAutoScalingGroup" => {
                let group = self.group_of(instance).await?;
                let nodes: Api<Node> = Api::all(self.client.clone());
                let is_node = nodes.get_opt(instance).await?.is_some();
                let response = call.forward().await?;
                if is_success(&response) {
                    let removal =
                        Removal { group, instance: instance.to_owned(), at: Instant::now() };
                    let mut counters = lock(&self.counters);
                    if is_node {
                        counters.removed.push(removal);
                    } else {
                        counters.given_up.push(removal);
                    }
                }
                Ok(response)
            }
            _ => call.forward().await,
        }
    }

    /// The desired capacity of a group.
    async fn size(&self, group: &str) -> Result<usize> {
        let request = self.autoscaling.describe_auto_scaling_groups();
        let answer = request.auto_scaling_group_names(group).send().await?;
        let found = answer.auto_scaling_groups().first().context("there is no such group")?;
        Ok(usize::try_from(found.desired_capacity().unwrap_or_default())?)
    }

    /// The name of an instance's group; empty if the instance is in none.
    async fn group_of(&self, instance: &str) -> Result<String> {
        let request = self.autoscaling.describe_auto_scaling_instances();
        let answer = request.instance_ids(instance).send().await?;
        let found = answer.auto_scaling_instances().first();
        Ok(found.and_then(|found| found.auto_scaling_group_name()).unwrap_or_default().to_owned())
    }
}

fn is_success(response: &[u8]) -> bool {
    let line = response.split(|byte| *byte == b'\r').next().unwrap_or_default();
    String::from_utf8_lossy(line).split(' ').nth(1) == Some("200")
}
