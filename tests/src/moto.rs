//! AWS on loopback: moto serves the Auto Scaling and EC2 APIs, with nothing in it at first.

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

/// The region of everything.
pub const REGION: &str = "us-east-1";

/// Python on a loaded machine takes its time.
const DEADLINE: Duration = Duration::from_mins(1);

/// A running emulator, gone when dropped.
#[derive(Debug)]
pub struct Moto {
    process: Process,
    endpoint: String,
    config: SdkConfig,
    folder: TempDir,
    _port: Port,
}

impl Moto {
    /// Starts one that answers.
    ///
    /// # Errors
    /// Where `make control-plane` has not been run, or it does not answer in a minute.
    pub async fn start() -> Result<Self> {
        // Boxed, or the futures of tests become large.
        Box::pin(Self::start_and_ask()).await
    }

    async fn start_and_ask() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("prophet-moto-").tempdir()?;
        let port = Port::free()?;
        let mut command = Command::new(built::control_plane("python/bin/moto_server")?);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        let mut process = Process::start("moto", &command, folder.path())?;
        process.wait_for_port(&port, DEADLINE).await?;
        let endpoint = format!("http://127.0.0.1:{port}");
        let config = configure(&endpoint).await;
        let moto = Self { process, endpoint, config, folder, _port: port };
        // The first answer takes a second, in which the emulator reads its tables.
        moto.ec2().describe_availability_zones().send().await?;
        moto.autoscaling().describe_auto_scaling_groups().send().await?;
        Ok(moto)
    }

    /// Where it serves, as `AWS_ENDPOINT_URL` takes it.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The environment in which a program of ours talks to it, and to no other AWS.
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

    /// The temporary folder with its log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The configuration of clients of an emulator that serves there.
pub(crate) async fn configure(endpoint: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .region(Region::from_static(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .load()
        .await
}
