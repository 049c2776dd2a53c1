//! AWS on loopback: moto emulates the Auto Scaling and EC2 APIs. An emulator starts without groups.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_autoscaling::config::Credentials;
use tempfile::TempDir;

use crate::built;
use crate::ports::Port;
use crate::process::Process;

/// The region of all resources.
pub const REGION: &str = "us-east-1";

/// The longest wait for moto to listen. Python starts slowly on a loaded machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// A running emulator, stopped on drop.
#[derive(Debug)]
pub struct Moto {
    process: Process,
    endpoint: String,
    config: SdkConfig,
    folder: TempDir,
    _port: Port,
}

impl Moto {
    /// Starts an emulator, and waits until it responds.
    ///
    /// # Errors
    /// `make control-plane` has not been run, or the emulator does not respond within a minute.
    pub async fn start() -> Result<Self> {
        // The future is boxed because it would make the futures of tests large.
        Box::pin(Self::start_and_probe()).await
    }

    async fn start_and_probe() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("prophet-moto-").tempdir()?;
        let port = Port::free()?;
        let mut command = Command::new(built::control_plane("python/bin/moto_server")?);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        let mut process = Process::start("moto", &command, folder.path())?;
        process.wait_for_port(&port, DEADLINE).await?;
        let endpoint = format!("http://127.0.0.1:{port}");
        let config = configure(&endpoint).await;
        let moto = Self { process, endpoint, config, folder, _port: port };
        // The first response takes a second, because the emulator loads its tables.
        moto.ec2().describe_availability_zones().send().await?;
        moto.autoscaling().describe_auto_scaling_groups().send().await?;
        Ok(moto)
    }

    /// The URL of the emulator, for `AWS_ENDPOINT_URL`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The environment variables with which a program uses this emulator, and no real AWS.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }

    /// A client of the Auto Scaling API.
    pub fn autoscaling(&self) -> aws_sdk_autoscaling::Client {
        aws_sdk_autoscaling::Client::new(&self.config)
    }

    /// A client of the EC2 API.
    pub fn ec2(&self) -> aws_sdk_ec2::Client {
        aws_sdk_ec2::Client::new(&self.config)
    }

    /// The temporary folder of the emulator, with its log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process of the emulator.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The configuration of clients for the emulator at `endpoint`.
pub(crate) async fn configure(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .load()
        .await
}
